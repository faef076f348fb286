/* The text form: printed text parses to the same graph, bit for bit and byte for byte. */
#include "ipu/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <glob.h>
#include <locale.h>
#include <unistd.h>

#include "base/host/file.h"
#include "graph/graph.h"
#include "graph/text/literal.h"
#include "graph/text/side.h"

#define ADDER(F) F(IN, float, x) F(IN, float, y) F(OUT, float, sum)
IPU_VERTEX(Adder, ADDER)
{
    *v->sum = *v->x + *v->y;
    return true;
}

/* clang-format off */
#define EVERY_FORM(F)                                                                        \
    F(IN, float, in) F(OUT, float, out) F(INOUT, float, inout)                               \
    F(IN_VECTOR, ipu_half, in_vector) F(OUT_VECTOR, float, out_vector)                       \
    F(INOUT_VECTOR, float, inout_vector) F(IN_POINTER, float, in_pointer)                    \
    F(OUT_POINTER, float, out_pointer) F(INOUT_POINTER, float, inout_pointer)                \
    F(IN_VECTORS, float, in_vectors) F(OUT_VECTORS, float, out_vectors)                      \
    F(INOUT_VECTORS, float, inout_vectors)                                                   \
    F(STATE, int8_t, n) F(STATE, double, d) F(STATE_VECTOR, uint64_t, table) F(STATE_VECTOR, float, empty)
/* clang-format on */
IPU_MULTI_VERTEX(EveryForm, EVERY_FORM)
{
    (void)v, (void)worker, (void)n_workers;
    return true;
}

static const ipu_codelet *const records[] = {&Adder, &EveryForm};
enum { N_RECORDS = sizeof records / sizeof *records };

/* ---- helpers ---- */

static ipu_graph *new_graph(int64_t n_ipus, int64_t replication)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", n_ipus, &target), IPU_OK);
    assert_int_equal(ipu_target_limit_tiles(&target, 8), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, replication, &g), IPU_OK);
    return g;
}

static char *print(ipu_graph *g, const ipu_program *programs, size_t n, unsigned flags)
{
    char *text;
    if (ipu_graph_print(g, programs, n, flags, NULL, &text) != IPU_OK) fail_msg("%s", ipu_message());
    return text;
}

static ipu_parsed parse(const char *text)
{
    ipu_parsed parsed;
    if (ipu_graph_parse(text, strlen(text), "test.ipu", records, N_RECORDS, NULL, &parsed) != IPU_OK)
        fail_msg("%s\n%s", ipu_message(), text);
    return parsed;
}

/* Parses and prints again; the bytes must be the same. */
static void assert_stable(const char *text, unsigned flags)
{
    ipu_parsed parsed = parse(text);
    char      *again  = print(parsed.graph, parsed.programs, parsed.n_programs, flags);
    assert_string_equal(again, text);
    ipu_free(again);
    ipu_graph_destroy(parsed.graph);
}

static void assert_round_trip(ipu_graph *g, const ipu_program *programs, size_t n)
{
    for (unsigned flags = 0; flags <= IPU_PRINT_LOCATIONS; flags++) {
        char *text = print(g, programs, n, flags);
        assert_stable(text, flags);
        ipu_free(text);
    }
}

/* What `text` prints as: the inside of the graph, for short tests. */
static void assert_prints(const char *text, const char *expected)
{
    ipu_parsed parsed = parse(text);
    char      *found  = print(parsed.graph, parsed.programs, parsed.n_programs, 0);
    assert_string_equal(found, expected);
    assert_stable(found, 0);
    ipu_free(found);
    ipu_graph_destroy(parsed.graph);
}

#define HEAD "graph target gc200 ipus 1 tiles 8 replication 1 {\n"

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("expected to find: %s\nin: %s", part, text);
}

/* ---- graphs built in C ---- */

static void a_small_graph_prints_as_the_manual_says(void **state)
{
    (void)state;
    ipu_graph *g = new_graph(1, 1);
    ipu_graph_add_codelet(g, &Adder);
    ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4, 2), "x");
    ipu_tensor y = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SCALAR, "layer1/y");
    ipu_graph_set_tile_intervals(g, x, (ipu_tile_interval[]){{0, 0, 4}, {1, 4, 8}}, 2);
    ipu_graph_set_tile_mapping(g, y, 3);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "add");
    ipu_vertex      v  = ipu_graph_add_vertex(g, cs, "Adder");
    ipu_graph_set_vertex_tile(g, v, 2);
    ipu_vertex_connect(v, "x", ipu_tensor_slice(ipu_tensor_flatten(x), 1, 2, 0));
    ipu_vertex_connect(v, "sum", y);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);
    ipu_program_add_copy(p, ipu_tensor_slice(x, 0, 1, 1), ipu_tensor_slice(x, 1, 2, 1));
    char *text = print(g, &p, 1, 0);
    assert_string_equal(text, "graph target gc200 ipus 1 tiles 8 replication 1 {\n"
                              "  codelet Adder { in float x, in float y, out float sum }\n"
                              "  var x float[4,2] on { 0: 0..4, 1: 4..8 };\n"
                              "  var layer1/y float on 3;\n"
                              "  compute_set add {\n"
                              "    vertex Adder on 2 { x = {x[1]}[1], sum = layer1/y }\n"
                              "  }\n"
                              "  program {\n"
                              "    execute add;\n"
                              "    copy {x[0: 4*2]}[4,1] -> {x[1: 4*2]}[4,1];\n"
                              "  }\n"
                              "}\n");
    ipu_free(text);
    assert_round_trip(g, &p, 1);
    ipu_graph_destroy(g);
}

static void locations_are_kept(void **state)
{
    (void)state;
    ipu_graph *g = new_graph(1, 1);
    ipu_here("dir/user.c", 12);
    (ipu_graph_add_variable)(g, IPU_FLOAT, IPU_SHAPE(2), "x");
    ipu_here(NULL, 0);
    (ipu_graph_add_variable)(g, IPU_FLOAT, IPU_SHAPE(2), "y");
    char *text = print(g, NULL, 0, IPU_PRINT_LOCATIONS);
    assert_contains(text, "var x float[2] at \"dir/user.c\":12;\n");
    assert_contains(text, "var y float[2] at \"\":0;\n");
    assert_stable(text, IPU_PRINT_LOCATIONS);
    ipu_free(text);
    ipu_graph_destroy(g);
}

static void things_without_a_location_are_where_the_text_says_they_are(void **state)
{
    (void)state;
    ipu_parsed parsed = parse("graph target gc200 {\n\n  var x float;\n}");
    char      *text   = print(parsed.graph, NULL, 0, IPU_PRINT_LOCATIONS);
    assert_contains(text, "var x float at \"test.ipu\":3;\n");
    ipu_free(text);
    ipu_graph_destroy(parsed.graph);
}

static ipu_vertex add_every_form(ipu_graph *g, ipu_compute_set cs, ipu_tensor f, ipu_tensor h)
{
    ipu_vertex        v           = ipu_graph_add_vertex(g, cs, "EveryForm");
    static const char names[][16] = {"in", "out", "inout"},
                      runs[][16]  = {"out_vector", "inout_vector", "in_pointer", "out_pointer",
                                     "inout_pointer"};
    for (int i = 0; i < 3; i++) ipu_vertex_connect(v, names[i], ipu_tensor_index(f, i));
    ipu_vertex_connect(v, "in_vector", ipu_tensor_transpose(h));
    for (int i = 0; i < 5; i++) ipu_vertex_connect(v, runs[i], ipu_tensor_slice(f, 4 * i, 4 * i + 4, 0));
    ipu_vertex_connect(v, "in_vectors", ipu_tensor_reshape(ipu_tensor_slice(f, 20, 32, 0), IPU_SHAPE(3, 4)));
    ipu_tensor list[] = {ipu_tensor_slice(f, 32, 33, 0), ipu_tensor_slice(f, 40, 48, 0),
                         ipu_tensor_slice(f, 0, 0, 0)};
    ipu_vertex_connect_list(v, "out_vectors", list, 3);
    ipu_vertex_connect_list(v, "inout_vectors", NULL, 0);
    ipu_vertex_set(v, "n", -128);
    ipu_vertex_set(v, "d", 0.1);
    ipu_vertex_set_data(v, "table", (uint64_t[]){1, UINT64_MAX}, 2);
    ipu_vertex_set_data(v, "empty", "", 0);
    return v;
}

static void every_form_of_field_round_trips(void **state)
{
    (void)state;
    ipu_graph *g = new_graph(1, 1);
    ipu_graph_add_codelet(g, &EveryForm);
    ipu_tensor      f  = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(48), "f");
    ipu_tensor      h  = ipu_graph_add_variable(g, IPU_HALF, IPU_SHAPE(3, 4), "h");
    ipu_compute_set cs = ipu_graph_add_compute_set(g, NULL);
    add_every_form(g, cs, f, h);
    ipu_graph_add_vertex(g, cs, "EveryForm");
    char *text = print(g, NULL, 0, 0);
    assert_contains(
        text,
        "codelet EveryForm multi { in float in, out float out, inout float inout, in vector half in_vector,");
    assert_contains(text,
                    "compute_set ~1 {\n    vertex EveryForm { in = {f[0]}, out = {f[1]}, inout = {f[2]}, "
                    "in_vector = {h[0: 4*1, 3*4]}[4,3],");
    assert_contains(text, "in_vectors = [{f[20:4]}[4], {f[24:4]}[4], {f[28:4]}[4]], "
                          "out_vectors = [{f[32]}[1], {f[40:8]}[8], {}[0] as float], inout_vectors = [], "
                          "n = -128, d = 0.1, table = {1, 18446744073709551615}, empty = {} }\n"
                          "    vertex EveryForm { }\n");
    ipu_free(text);
    assert_round_trip(g, NULL, 0);
    ipu_graph_destroy(g);
}

static void cycles_of_vertices_round_trip(void **state)
{
    (void)state;
    ipu_graph      *g  = new_graph(1, 1);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "cycles");
    ipu_graph_add_codelet(g, &Adder);
    ipu_vertex v = ipu_graph_add_vertex(g, cs, "Adder"), most = ipu_graph_add_vertex(g, cs, "Adder");
    ipu_graph_add_vertex(g, cs, "Adder");
    ipu_graph_set_vertex_tile(g, v, 3);
    ipu_vertex_set_cycles(v, 20);
    ipu_vertex_set_cycles(most, UINT32_MAX);
    char *text = print(g, NULL, 0, 0);
    assert_contains(text, "compute_set cycles {\n    vertex Adder on 3 cycles 20 { }\n"
                          "    vertex Adder cycles 4294967295 { }\n    vertex Adder { }\n");
    ipu_free(text);
    assert_round_trip(g, NULL, 0);
    ipu_graph_destroy(g);
}

static void add_leaf_steps(ipu_graph *g, ipu_program p, const ipu_tensor t[4])
{
    ipu_stream in = ipu_graph_add_host_to_device(g, "in", IPU_FLOAT, 8, IPU_STREAM_BROADCAST);
    ipu_graph_add_host_to_device(g, "in2", IPU_HALF, 0, IPU_STREAM_REPLICATE);
    ipu_stream        out    = ipu_graph_add_device_to_host(g, "a \"quoted\" handle\n", IPU_FLOAT, 8);
    ipu_remote_buffer remote = ipu_graph_add_remote_buffer(g, "remote", IPU_FLOAT, 4, 9);
    ipu_tensor        a = t[0], b = t[1], n = t[2], go = t[3], null = {g, 0};
    ipu_graph_add_host_write(g, "a", a);
    ipu_graph_add_host_read(g, "a", ipu_tensor_reverse(a, 0));
    ipu_program_add_copy(p, a, b);
    ipu_program_add_read(p, in, a);
    ipu_program_add_write(p, a, out);
    ipu_program_add_remote_read(p, remote, null, a);
    ipu_program_add_remote_read(p, remote, ipu_tensor_slice(n, 0, 2, 0), a);
    ipu_program_add_remote_write(p, a, remote, null);
    ipu_program_add_remote_write(p, ipu_tensor_slice(a, 0, 4, 0), remote, ipu_tensor_slice(n, 0, 1, 0));
    for (int type = IPU_SYNC_INTERNAL; type <= IPU_SYNC_GLOBAL; type++)
        ipu_program_add_sync(p, (ipu_sync_type)type);
    ipu_program_add_print(p, "title \x01 \t", a);
    ipu_program_add_print(p, NULL, b);
    ipu_program_add_abort_if(p, go, "stop");
    ipu_program_add_error(p, "", null);
    ipu_program_add_error(p, "with a value", n);
    ipu_program_add_write_undef(p, a);
    ipu_program_add_cross_replica_copy(p, a, b, (int64_t[]){1, 2, 3, 0}, 4);
    ipu_program_add_all_reduce(p, ipu_tensor_slice(a, 1, 3, 0));
    ipu_program_add_all_reduce_wait(p);
    ipu_program_add_kernel(p, "fill", (ipu_attribute[]){IPU_FLOAT_ATTRIBUTE("value", 2)}, 1, &a, 1);
    ipu_program_add_kernel(p, "fill", (ipu_attribute[]){IPU_INT_ATTRIBUTE("value", 2)}, 1, &a, 1);
}

static void every_kind_of_step_round_trips(void **state)
{
    (void)state;
    ipu_graph  *g    = new_graph(4, 4);
    ipu_tensor  t[]  = {ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(8), "a"),
                        ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(8), "b"),
                        ipu_graph_add_variable(g, IPU_INT32, IPU_SHAPE(2), "n"),
                        ipu_graph_add_variable(g, IPU_BOOL, IPU_SCALAR, "go")};
    ipu_program leaf = ipu_program_sequence(g), main = ipu_program_sequence(g), nothing = {g, 0};
    ipu_program one       = ipu_program_sequence(g);
    ipu_tensor  switch_on = ipu_tensor_index(t[2], 1);
    add_leaf_steps(g, leaf, t);
    ipu_function f = ipu_graph_add_function(g, leaf, "f"), f2 = ipu_graph_add_function(g, main, "f");
    ipu_program_add(main, leaf);
    ipu_program_add_execute(main, ipu_graph_add_compute_set(g, "cs"));
    ipu_program_add_repeat(main, INT64_MAX, leaf);
    ipu_program_add_while_true(main, leaf, t[3], leaf);
    ipu_program_add_while_false(main, nothing, t[3], leaf);
    ipu_program_add_if(main, t[3], leaf, nothing);
    ipu_program_add_if(main, t[3], nothing, leaf);
    ipu_program_add_switch(main, switch_on, (ipu_switch_case[]){{INT64_MIN, leaf}, {7, nothing}}, 2, leaf);
    ipu_program_add_switch(main, switch_on, NULL, 0, nothing);
    ipu_program_add_copy(one, t[0], t[1]);
    ipu_program_add_parallel(main, (ipu_program[]){one, nothing}, 2);
    ipu_program_add_call(main, f);
    ipu_program_add_call(main, f2);
    ipu_program_add(main, main); /* in its present state */
    if (ipu_graph_status(g) != IPU_OK) fail_msg("%s", ipu_graph_message(g));
    bool seen[IPU__N_STEP_KINDS] = {false};
    for (size_t i = 1; i < g->programs.n; i++)
        for (size_t k = 0; k < g->programs.at[i].steps.n; k++)
            seen[g->programs.at[i].steps.at[k].kind] = true;
    for (int kind = 0; kind < IPU__N_STEP_KINDS; kind++) assert_true(seen[kind]);
    assert_round_trip(g, (ipu_program[]){main, leaf, main}, 3);
    ipu_graph_destroy(g);
}

static void a_body_is_printed_as_it_was_when_it_was_used(void **state)
{
    (void)state;
    ipu_graph  *g    = new_graph(1, 1);
    ipu_program body = ipu_program_sequence(g), p = ipu_program_sequence(g);
    ipu_program_add_sync(body, IPU_SYNC_INTERNAL);
    ipu_program_add_repeat(p, 2, body);
    ipu_program_add_sync(body, IPU_SYNC_GLOBAL);
    char *text = print(g, &p, 1, 0);
    assert_string_equal(text, HEAD "  program {\n    repeat 2 {\n      sync internal;\n    }\n  }\n}\n");
    ipu_free(text);
    ipu_graph_destroy(g);
}

static void names_that_are_no_words_or_not_unique_get_their_id(void **state)
{
    (void)state;
    static const char *const names[] = {
        "x", "x", "a b", "", "copy", "in", "nan", "1st", "a/b.c", "\"\\\n\x7f\xc3\xa4", "~3"};
    ipu_graph *g = new_graph(1, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ipu_graph_add_variable(g, IPU_BOOL, IPU_SCALAR, names[i]);
        ipu_graph_add_compute_set(g, names[i]);
        ipu_graph_add_function(g, ipu_program_sequence(g), names[i]);
    }
    char *text = print(g, NULL, 0, 0);
    assert_contains(
        text, "var x~1 bool;\n  var x~2 bool;\n  var ~3 \"a b\" bool;\n  var ~4 bool;\n  var copy bool;\n"
              "  var in bool;\n  var ~7 \"nan\" bool;\n  var ~8 \"1st\" bool;\n  var a/b.c bool;\n"
              "  var ~10 \"\\\"\\\\\\n\\x7f\xc3\xa4\" bool;\n  var ~11 \"~3\" bool;\n");
    ipu_parsed parsed = parse(text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_string_equal(parsed.graph->variables.at[i + 1].name, names[i]);
        assert_string_equal(parsed.graph->compute_sets.at[i + 1].name, names[i]);
        assert_string_equal(parsed.graph->functions.at[i + 1].name, names[i]);
    }
    ipu_graph_destroy(parsed.graph);
    ipu_free(text);
    assert_round_trip(g, NULL, 0);
    ipu_graph_destroy(g);
}

static void tiles_of_virtual_graphs_are_those_of_the_root(void **state)
{
    (void)state;
    ipu_graph *g = new_graph(1, 1), *v = ipu_graph_add_virtual(g, (int64_t[]){5, 3}, 2);
    ipu_tensor x = ipu_graph_add_variable(v, IPU_FLOAT, IPU_SHAPE(5), "x");
    ipu_graph_set_tile_intervals(v, x, (ipu_tile_interval[]){{0, 0, 3}, {1, 3, 5}}, 2);
    ipu_tensor y = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(5), "y");
    ipu_graph_set_tile_mapping(v, ipu_tensor_slice(y, 1, 3, 0), 1);
    ipu_graph_add_replication_index(v, "r");
    char *text = print(v, NULL, 0, 0);
    assert_string_equal(text,
                        HEAD "  var x float[5] on { 5: 0..3, 3: 3..5 };\n  var y float[5] on { 3: 1..3 };\n"
                             "  replication_index r;\n}\n");
    ipu_free(text);
    assert_round_trip(g, NULL, 0);
    ipu_graph_destroy(g);
}

/* A tensor made of random operations on `t`. */
static ipu_tensor random_view(ipu_tensor t, ipu_tensor other, unsigned *seed)
{
    for (int i = 0, n = 1 + rand_r(seed) % 5; i < n; i++) {
        int     rank = ipu_tensor_rank(t), dim = rank ? rand_r(seed) % rank : 0;
        int64_t size = rank ? ipu_tensor_dim(t, dim) : 0;
        if (rank == 0 || ipu_tensor_n_elements(t) > 2000) break;
        switch (rand_r(seed) % 9) {
        case 0: t = ipu_tensor_slice(t, size / 3, size, dim); break;
        case 1: t = ipu_tensor_reverse(t, dim); break;
        case 2: t = ipu_tensor_transpose(t); break;
        case 3: t = ipu_tensor_broadcast(t, 1 + rand_r(seed) % 3, dim); break;
        case 4: t = ipu_tensor_upsample(t, 1 + rand_r(seed) % 3, dim); break;
        case 5: t = ipu_tensor_subsample(t, 1 + rand_r(seed) % 3, dim); break;
        case 6: t = ipu_tensor_concat2(ipu_tensor_flatten(t), other, 0); break;
        case 7: t = ipu_tensor_concat2(t, ipu_tensor_reverse(t, dim), dim); break;
        default:
            t     = ipu_tensor_reinterpret(t, rand_r(seed) % 2 ? IPU_UINT32 : IPU_FLOAT);
            other = ipu_tensor_reinterpret(other, ipu_tensor_type(t));
            break;
        }
        other = ipu_tensor_reinterpret(other, ipu_tensor_type(t));
    }
    return t;
}

static void thousands_of_random_views_round_trip(void **state)
{
    (void)state;
    unsigned seed = 7;
    for (int round = 0; round < 40; round++) {
        ipu_graph *g = new_graph(1, 1);
        ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(2, 3, 4), "x");
        ipu_tensor y = ipu_graph_add_variable(g, IPU_UINT32, IPU_SHAPE(5), "y");
        char       handle[16];
        for (int i = 0; i < 100; i++) {
            snprintf(handle, sizeof handle, "h%d", i);
            ipu_graph_add_host_read(g, handle, random_view(x, ipu_tensor_reinterpret(y, IPU_FLOAT), &seed));
        }
        if (ipu_graph_status(g) != IPU_OK) fail_msg("%s", ipu_graph_message(g));
        char      *text   = print(g, NULL, 0, 0);
        ipu_parsed parsed = parse(text);
        for (size_t i = 0; i < g->host_handles.n; i++) { /* the same elements in the same order */
            ipu_region *a, *b;
            size_t      n_a, n_b;
            ipu_tensor  ta = {g, g->host_handles.at[i].view},
                       tb  = {parsed.graph, parsed.graph->host_handles.at[i].view};
            assert_int_equal(ipu_tensor_type(ta), ipu_tensor_type(tb));
            assert_int_equal(ipu_tensor_var_regions(ta, &a, &n_a), IPU_OK);
            assert_int_equal(ipu_tensor_var_regions(tb, &b, &n_b), IPU_OK);
            assert_int_equal(n_a, n_b);
            for (size_t k = 0; k < n_a; k++) {
                assert_int_equal(a[k].begin, b[k].begin);
                assert_int_equal(a[k].end, b[k].end);
                assert_int_equal(a[k].variable.id, b[k].variable.id);
            }
            ipu_free(a);
            ipu_free(b);
        }
        assert_stable(text, 0);
        ipu_free(text);
        ipu_graph_destroy(parsed.graph);
        ipu_graph_destroy(g);
    }
}

/* ---- texts written by hand ---- */

static void a_text_is_brought_into_its_usual_form(void **state)
{
    (void)state;
    assert_prints("# comment\ngraph target GC200 tiles 8 { var m float[ 2 , 2 ]on{1:2..4,0:0..1,0:1..2};\r\n"
                  "program{copy{m[0],m[1]}[2]->{m[2:1*77,2*1]}[2];}}",
                  HEAD "  var m float[2,2] on { 0: 0..2, 1: 2..4 };\n"
                       "  program {\n    copy {m[0:2]}[2] -> {m[2:2]}[2];\n  }\n}\n");
}

static void labels_of_the_text_become_ids(void **state)
{
    (void)state;
    assert_prints("graph target gc200 tiles 8 { var x~70 bool; var x~5 \"x y\" int8; var x~9 half; "
                  "program { write_undef x~5; "
                  "write_undef x~70; } }",
                  HEAD "  var x~1 bool;\n  var ~2 \"x y\" int8;\n  var x~3 half;\n"
                       "  program {\n    write_undef ~2;\n    write_undef x~1;\n  }\n}\n");
}

static void keywords_may_be_names(void **state)
{
    (void)state;
    assert_prints(
        "graph target gc200 tiles 8 { var copy float[2]; var at float[2]; var rows uint32; var if bool;"
        " remote \"r\" float 2 rows 1; compute_set compute_set { } function call { execute compute_set; }"
        " program { copy copy -> at; error \"e\" at; error \"e\" at \"f\":1; if if { call call; }"
        " remote_read \"r\" rows rows -> at at \"f\":2; print if at \"f\":1; } }",
        HEAD "  var copy float[2];\n  var at float[2];\n  var rows uint32;\n  var if bool;\n"
             "  remote \"r\" float 2 rows 1;\n  compute_set compute_set { }\n"
             "  function call {\n    execute compute_set;\n  }\n"
             "  program {\n    copy copy -> at;\n    error \"e\" at;\n    error \"e\";\n"
             "    if if {\n      call call;\n    }\n    remote_read \"r\" rows rows -> at;\n"
             "    print \"if\" if;\n  }\n}\n");
}

static void the_samples_round_trip(void **state)
{
    (void)state;
    glob_t found;
    assert_int_equal(glob("tests/text/*.ipu", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 3);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char  *text;
        size_t bytes;
        assert_int_equal(ipu__file_read(found.gl_pathv[i], 1 << 20, &text, &bytes), IPU_OK);
        ipu_parsed parsed;
        if (ipu_graph_parse(text, bytes, found.gl_pathv[i], NULL, 0, NULL, &parsed) != IPU_OK)
            fail_msg("%s", ipu_message());
        assert_true(parsed.n_programs >= 1);
        char *printed = print(parsed.graph, parsed.programs, parsed.n_programs, 0);
        assert_stable(printed, 0);
        ipu_free(printed);
        ipu_free(text);
        ipu_graph_destroy(parsed.graph);
    }
    globfree(&found);
}

/* ---- values ---- */

static void check_literal(ipu_type type, const void *value, const char *expected)
{
    ipu__text text = {0};
    char      back[8];
    ipu__literal_print(&text, type, value);
    if (expected) assert_string_equal(text.at, expected);
    assert_null(ipu__literal_parse(type, text.at, text.n, back));
    assert_memory_equal(back, value, ipu_type_size(type));
    ipu__text_fini(&text);
}

static void every_half_and_bfloat16_reads_back_to_the_same_bits(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        uint16_t value = (uint16_t)bits;
        check_literal(IPU_HALF, &value, NULL);
        check_literal(IPU_BFLOAT16, &value, NULL);
    }
}

static void floats_read_back_to_the_same_bits(void **state)
{
    (void)state;
    unsigned seed = 1;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = 0;
        for (int k = 0; k < 4; k++) bits = bits << 16 | (uint64_t)(rand_r(&seed) & 0xffff);
        check_literal(IPU_DOUBLE, &bits, NULL);
        check_literal(IPU_FLOAT, &bits, NULL);
    }
    check_literal(IPU_FLOAT, &(float){0.1F}, "0.1");
    check_literal(IPU_FLOAT, &(float){16777216}, "16777216");
    check_literal(IPU_FLOAT, &(float){-0.0F}, "-0");
    check_literal(IPU_FLOAT, &(uint32_t){0xffc00001}, "nan:0xffc00001");
    check_literal(IPU_FLOAT, &(uint32_t){0x7fc00000}, "nan");
    check_literal(IPU_FLOAT, &(uint32_t){0xff800000}, "-inf");
    check_literal(IPU_FLOAT, &(uint32_t){1}, "1e-45");
    check_literal(IPU_DOUBLE, &(double){1.0 / 3}, "0.3333333333333333");
    check_literal(IPU_HALF, &(uint16_t){0x7bff}, "65504");
}

static void integers_read_back_to_the_same_bits(void **state)
{
    (void)state;
    check_literal(IPU_BOOL, &(bool){true}, "true");
    check_literal(IPU_INT8, &(int8_t){-128}, "-128");
    check_literal(IPU_UINT8, &(uint8_t){255}, "255");
    check_literal(IPU_INT16, &(int16_t){-32768}, "-32768");
    check_literal(IPU_UINT16, &(uint16_t){65535}, "65535");
    check_literal(IPU_INT32, &(int32_t){INT32_MIN}, "-2147483648");
    check_literal(IPU_UINT32, &(uint32_t){UINT32_MAX}, "4294967295");
    check_literal(IPU_INT64, &(int64_t){INT64_MIN}, "-9223372036854775808");
    check_literal(IPU_UINT64, &(uint64_t){UINT64_MAX}, "18446744073709551615");
}

static void values_that_a_type_cannot_hold_are_refused(void **state)
{
    (void)state;
    static const struct {
        ipu_type    type;
        const char *text;
    } wrong[] = {{IPU_INT8, "128"},
                 {IPU_INT8, "-129"},
                 {IPU_UINT8, "-1"},
                 {IPU_UINT64, "18446744073709551616"},
                 {IPU_INT64, "9223372036854775808"},
                 {IPU_INT64, "1.5"},
                 {IPU_INT32, "nan"},
                 {IPU_BOOL, "2"},
                 {IPU_BOOL, "-0"},
                 {IPU_FLOAT, "true"},
                 {IPU_FLOAT, "false"},
                 {IPU_FLOAT, "1e39"},
                 {IPU_HALF, "65520"},
                 {IPU_FLOAT, "nan:0x7f800000"},
                 {IPU_HALF, "nan:0x17e00"},
                 {IPU_UINT32, "0x10"}};
    char out[8];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_non_null(ipu__literal_parse(wrong[i].type, wrong[i].text, strlen(wrong[i].text), out));
}

static void constants_of_every_type_round_trip(void **state)
{
    (void)state;
    unsigned char bytes[24];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 37 + 130);
    ipu_graph *g = new_graph(1, 1);
    for (ipu_type type = 0; type < IPU_N_TYPES; type++) {
        const void *data = type == IPU_BOOL ? (const void *)(bool[]){true, false, true} : bytes;
        ipu_tensor  t    = ipu_graph_add_variable(g, type, IPU_SHAPE(3), "v");
        ipu_graph_add_constant(g, type, IPU_SHAPE(3), data, ipu_type_name(type));
        ipu_graph_set_initial_value(g, ipu_tensor_reverse(t, 0), data);
        ipu_graph_add_constant(g, type, IPU_SHAPE(2, 0), data, "empty");
    }
    char      *text   = print(g, NULL, 0, 0);
    ipu_parsed parsed = parse(text);
    for (size_t i = 1; i < g->variables.n; i++) {
        const ipu__variable *a = &g->variables.at[i], *b = &parsed.graph->variables.at[i];
        assert_int_equal(a->kind, b->kind);
        if (a->kind == IPU__CONSTANT && a->n_elements)
            assert_memory_equal(a->data, b->data, (size_t)a->n_elements * ipu_type_size(a->type));
    }
    ipu_graph_destroy(parsed.graph);
    ipu_free(text);
    assert_round_trip(g, NULL, 0);
    ipu_graph_destroy(g);
}

static void the_language_of_the_user_does_not_matter(void **state)
{
    (void)state;
    static const char *const with_comma[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    bool                     found        = false;
    for (size_t i = 0; i < 4 && !found; i++) found = setlocale(LC_ALL, with_comma[i]) != NULL;
    if (!found) skip(); /* no such locale installed */
    assert_prints("graph target gc200 tiles 8 { const c float = {0.5}; }",
                  HEAD "  const c float = {0.5};\n}\n");
    assert_string_equal(localeconv()->decimal_point, ",");
    setlocale(LC_ALL, "C");
}

/* ---- side files ---- */

static char side_path[64];

static ipu_graph *graph_with_large_constants(float values[100])
{
    for (int i = 0; i < 100; i++) values[i] = (float)i / 7;
    ipu_graph *g = new_graph(1, 1);
    ipu_graph_add_constant(g, IPU_FLOAT, IPU_SHAPE(10, 10), values, "large");
    ipu_graph_add_constant(g, IPU_FLOAT, IPU_SHAPE(64), values, "small");
    ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(65), "x");
    ipu_graph_set_initial_value(g, x, values + 1);
    return g;
}

/* The text, with the large constants in side_path. */
static char *print_with_side(void)
{
    float      values[100];
    char      *text;
    ipu_graph *g = graph_with_large_constants(values);
    if (ipu_graph_print(g, NULL, 0, 0, side_path, &text) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_graph_destroy(g);
    return text;
}

static void large_constants_go_to_the_side_file_and_come_back(void **state)
{
    (void)state;
    char      *text = print_with_side();
    float      values[100];
    ipu_graph *g = graph_with_large_constants(values);
    ipu_parsed parsed;
    assert_contains(text, "const large float[10,10] = hash \"");
    assert_contains(text, "const small float[64] = {0, 0.14285715,");
    assert_contains(text, "init x = hash \"");
    assert_int_equal(ipu_graph_parse(text, strlen(text), "t", NULL, 0, side_path, &parsed), IPU_OK);
    assert_memory_equal(parsed.graph->variables.at[1].data, values, sizeof values);
    assert_memory_equal(parsed.graph->initial_values.at[0].data, values + 1, 65 * sizeof *values);
    char *full = print(g, NULL, 0, 0), *again = print(parsed.graph, NULL, 0, 0);
    assert_string_equal(full, again);
    ipu_free(text);
    ipu_free(full);
    ipu_free(again);
    ipu_graph_destroy(g);
    ipu_graph_destroy(parsed.graph);
}

static void assert_side_fails(const char *text, const char *side, ipu_status expected, const char *message)
{
    ipu_parsed parsed;
    assert_int_equal(ipu_graph_parse(text, strlen(text), "t.ipu", NULL, 0, side, &parsed), expected);
    assert_null(parsed.graph);
    assert_contains(ipu_message(), message);
}

static void a_side_file_that_is_missing_or_anothers_is_reported(void **state)
{
    (void)state;
    char *text = print_with_side();
    assert_side_fails(text, NULL, IPU_INVALID, "t.ipu:2:");
    assert_side_fails(text, NULL, IPU_INVALID, "the values are in a side file: expected one with the text");
    assert_side_fails(text, "/nonexistent/side", IPU_IO, "/nonexistent/side");
    ipu__side_writer other = {0};
    ipu__side_add(&other, "abcd", 4);
    assert_int_equal(ipu__side_write(&other, side_path), IPU_OK);
    ipu__side_writer_fini(&other);
    assert_side_fails(text, side_path, IPU_INVALID, "belongs to another text");
    ipu_free(text);
}

static void a_side_file_cut_or_altered_anywhere_is_refused(void **state)
{
    (void)state;
    char  *text = print_with_side(), *bytes;
    size_t n;
    assert_int_equal(ipu__file_read(side_path, 1 << 20, &bytes, &n), IPU_OK);
    assert_int_equal(n, 16 + 24 + 400 + 24 + 260);
    for (size_t cut = 0; cut < n; cut += cut < 48 ? 1 : 37) {
        assert_int_equal(ipu__file_write(side_path, bytes, cut), IPU_OK);
        assert_side_fails(text, side_path, IPU_IO, "not a usable side file");
    }
    for (size_t i = 0; i < n; i += i < 48 ? 1 : 37) {
        bytes[i] ^= 0x10;
        assert_int_equal(ipu__file_write(side_path, bytes, n), IPU_OK);
        assert_side_fails(text, side_path, IPU_IO, "not a usable side file");
        bytes[i] ^= 0x10;
    }
    ipu_free(bytes);
    ipu_free(text);
}

static void a_text_cannot_take_more_from_a_side_file_than_is_in_it(void **state)
{
    (void)state;
    char             values[100] = {1}, hash[IPU__HASH_TEXT], text[512];
    ipu__side_writer writer      = {0};
    ipu__hash128     h           = ipu__side_add(&writer, values, sizeof values);
    ipu__hash_print(&h, hash);
    assert_int_equal(ipu__side_write(&writer, side_path), IPU_OK);
    ipu__side_writer_fini(&writer);
    snprintf(text, sizeof text,
             "graph target gc2 { const a int8[100] = hash \"%s\"; const b int8[100] = hash \"%s\"; }", hash,
             hash);
    assert_side_fails(text, side_path, IPU_INVALID, "takes more from the side file than there is in it");
    snprintf(text, sizeof text, "graph target gc2 { const a int8[99] = hash \"%s\"; }", hash);
    assert_side_fails(text, side_path, IPU_INVALID, "t.ipu:1:20: expected 99 values, found 100");
}

static void the_hash_is_the_published_one(void **state)
{
    (void)state;
    char         text[IPU__HASH_TEXT];
    ipu__hash128 hash = ipu__hash_bytes("", 0);
    ipu__hash_print(&hash, text);
    assert_string_equal(text, "6c62272e07bb014262b821756295c58d");
    hash = ipu__hash_bytes("a", 1);
    ipu__hash_print(&hash, text);
    assert_string_equal(text, "d228cb696f1a8caf78912b704e4a8964");
}

static int make_side_path(void **state)
{
    (void)state;
    snprintf(side_path, sizeof side_path, "/tmp/ipu_text_test_XXXXXX");
    int fd = mkstemp(side_path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_side_path(void **state)
{
    (void)state;
    return unlink(side_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_graph_prints_as_the_manual_says),
        cmocka_unit_test(locations_are_kept),
        cmocka_unit_test(things_without_a_location_are_where_the_text_says_they_are),
        cmocka_unit_test(every_form_of_field_round_trips),
        cmocka_unit_test(cycles_of_vertices_round_trip),
        cmocka_unit_test(every_kind_of_step_round_trips),
        cmocka_unit_test(a_body_is_printed_as_it_was_when_it_was_used),
        cmocka_unit_test(names_that_are_no_words_or_not_unique_get_their_id),
        cmocka_unit_test(tiles_of_virtual_graphs_are_those_of_the_root),
        cmocka_unit_test(thousands_of_random_views_round_trip),
        cmocka_unit_test(a_text_is_brought_into_its_usual_form),
        cmocka_unit_test(labels_of_the_text_become_ids),
        cmocka_unit_test(keywords_may_be_names),
        cmocka_unit_test(the_samples_round_trip),
        cmocka_unit_test(every_half_and_bfloat16_reads_back_to_the_same_bits),
        cmocka_unit_test(floats_read_back_to_the_same_bits),
        cmocka_unit_test(integers_read_back_to_the_same_bits),
        cmocka_unit_test(values_that_a_type_cannot_hold_are_refused),
        cmocka_unit_test(constants_of_every_type_round_trip),
        cmocka_unit_test(the_language_of_the_user_does_not_matter),
        cmocka_unit_test(large_constants_go_to_the_side_file_and_come_back),
        cmocka_unit_test(a_side_file_that_is_missing_or_anothers_is_reported),
        cmocka_unit_test(a_side_file_cut_or_altered_anywhere_is_refused),
        cmocka_unit_test(a_text_cannot_take_more_from_a_side_file_than_is_in_it),
        cmocka_unit_test(the_hash_is_the_published_one),
    };
    return cmocka_run_group_tests(tests, make_side_path, remove_side_path);
}
