/* Parallel steps: what the builder refuses, conflicts between bodies that a check finds, and the text form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/engine.h"
#include "ipu/text.h"

#define TWICE(F) F(IN, float, x) F(OUT, float, y)
IPU_VERTEX(Twice, TWICE)
{
    *v->y = *v->x * 2;
    return true;
}

typedef struct bench {
    ipu_graph  *g;
    ipu_program main, bodies[3];
    ipu_tensor  x, y, z;
} bench;

static ipu_tensor new_variable(ipu_graph *g, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(8), name);
    ipu_graph_set_tile_mapping(g, t, 0);
    return t;
}

static bench start(void)
{
    bench      b;
    ipu_target target;
    assert_int_equal(ipu_target_find("gc200", 2, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 2, &b.g), IPU_OK);
    ipu_graph_add_codelet(b.g, &Twice);
    b.main = ipu_program_sequence(b.g);
    for (int i = 0; i < 3; i++) b.bodies[i] = ipu_program_sequence(b.g);
    b.x = new_variable(b.g, "x");
    b.y = new_variable(b.g, "y");
    b.z = new_variable(b.g, "z");
    return b;
}

/* Adds the parallel step and checks; "" if there is no problem. */
static const char *problem(const bench *b, size_t n)
{
    ipu_program_add_parallel(b->main, b->bodies, n);
    return ipu_graph_check(b->g, &b->main, 1) == IPU_OK ? "" : ipu_message();
}

static void assert_says(const char *message, const char *part)
{
    if (!strstr(message, part)) fail_msg("\"%s\" does not say \"%s\"", message, part);
}

static void copy_part(ipu_program p, ipu_tensor from, int64_t begin, ipu_tensor to, int64_t at)
{
    ipu_program_add_copy(p, ipu_tensor_slice(from, begin, begin + 4, 0), ipu_tensor_slice(to, at, at + 4, 0));
}

/* ---- the builder ---- */

static void a_step_without_bodies_is_refused(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_parallel(b.main, NULL, 0);
    assert_int_equal(ipu_graph_status(b.g), IPU_INVALID);
    assert_says(ipu_graph_message(b.g), "expected 1 or more");
    ipu_graph_destroy(b.g);
}

static void a_body_that_is_null_is_empty(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_copy(b.bodies[0], b.x, b.y);
    b.bodies[1] = (ipu_program){b.g, 0};
    assert_string_equal(problem(&b, 2), "");
    ipu_graph_destroy(b.g);
}

/* Directly, in a loop, and in a function created before. */
static void steps_for_all_replicas_are_refused_however_deep(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        bench       b    = start();
        ipu_program deep = how == 0 ? b.bodies[1] : b.bodies[2];
        ipu_program_add_cross_replica_copy(deep, b.x, b.y, (int64_t[]){1, 0}, 2);
        if (how == 1) ipu_program_add_repeat(b.bodies[1], 3, deep);
        if (how == 2) ipu_program_add_call(b.bodies[1], ipu_graph_add_function(b.g, deep, "f"));
        ipu_program_add_parallel(b.main, b.bodies, 2);
        assert_int_equal(ipu_graph_status(b.g), IPU_INVALID);
        assert_says(ipu_graph_message(b.g), "body 1 holds a cross_replica_copy step");
        ipu_graph_destroy(b.g);
    }
}

static void a_parallel_step_in_a_body_is_refused(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_copy(b.bodies[2], b.x, b.y);
    ipu_program_add_parallel(b.bodies[0], &b.bodies[2], 1);
    ipu_program_add_parallel(b.main, b.bodies, 2);
    assert_says(ipu_graph_message(b.g), "body 0 holds a parallel step");
    ipu_graph_destroy(b.g);
}

/* ---- checks ---- */

static void bodies_may_read_the_same(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_copy(b.bodies[0], b.x, b.y);
    ipu_program_add_copy(b.bodies[1], b.x, b.z);
    assert_string_equal(problem(&b, 2), "");
    ipu_graph_destroy(b.g);
}

static void what_one_body_writes_no_other_reads(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_copy(b.bodies[0], b.x, b.y);
    ipu_program_add_copy(b.bodies[1], b.y, b.z);
    const char *message = problem(&b, 2);
    assert_says(message,
                "body 0 writes elements [0, 8) of variable \"y\" in a copy step, and body 1 reads them");
    assert_says(message, "parallel_test.c:");
    ipu_graph_destroy(b.g);
}

static void what_one_body_writes_no_other_writes(void **state)
{
    (void)state;
    bench b = start();
    copy_part(b.bodies[0], b.x, 0, b.y, 0);
    copy_part(b.bodies[2], b.x, 0, b.y, 2);
    assert_says(problem(&b, 3),
                "body 2 writes elements [2, 4) of variable \"y\" in a copy step, and body 0 writes");
    ipu_graph_destroy(b.g);
}

static void parts_of_one_variable_are_apart(void **state)
{
    (void)state;
    bench b = start();
    copy_part(b.bodies[0], b.x, 0, b.y, 0);
    copy_part(b.bodies[1], b.x, 0, b.y, 4);
    assert_string_equal(problem(&b, 2), "");
    ipu_graph_destroy(b.g);
}

/* A body may use its own variables freely, even between long reads by others that end before. */
static void a_body_reads_what_it_writes(void **state)
{
    (void)state;
    bench b = start();
    copy_part(b.bodies[0], b.x, 0, b.y, 0);
    copy_part(b.bodies[0], b.y, 0, b.z, 0);
    copy_part(b.bodies[0], b.x, 0, b.y, 0);
    copy_part(b.bodies[1], b.y, 4, b.z, 4);
    assert_string_equal(problem(&b, 2), "");
    ipu_graph_destroy(b.g);
}

static void clashes_in_functions_and_kernels_are_found(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_kernel(b.bodies[2], "add", NULL, 0, (ipu_tensor[]){b.x, b.x, b.y}, 3);
    ipu_program_add_call(b.bodies[0], ipu_graph_add_function(b.g, b.bodies[2], "f"));
    ipu_program_add_copy(b.bodies[1], b.y, b.z);
    assert_says(problem(&b, 2), "body 0 writes elements [0, 8) of variable \"y\" in a kernel step");
    ipu_graph_destroy(b.g);
}

static void clashes_of_vertices_are_found(void **state)
{
    (void)state;
    bench           b  = start();
    ipu_compute_set cs = ipu_graph_add_compute_set(b.g, "twice");
    ipu_vertex      v  = ipu_graph_add_vertex(b.g, cs, "Twice");
    ipu_graph_set_vertex_tile(b.g, v, 0);
    ipu_vertex_connect(v, "x", ipu_tensor_index(b.x, 0));
    ipu_vertex_connect(v, "y", ipu_tensor_index(b.y, 3));
    ipu_program_add_execute(b.bodies[0], cs);
    ipu_program_add_copy(b.bodies[1], b.y, b.z);
    assert_says(problem(&b, 2), "body 0 writes elements [3, 4) of variable \"y\" in a execute step");
    ipu_graph_destroy(b.g);
}

static void functions_sets_and_streams_belong_to_one_body(void **state)
{
    (void)state;
    bench           b  = start();
    ipu_function    f  = ipu_graph_add_function(b.g, b.bodies[2], "f");
    ipu_stream      s  = ipu_graph_add_host_to_device(b.g, "in", IPU_FLOAT, 8, IPU_STREAM_REPLICATE);
    ipu_compute_set cs = ipu_graph_add_compute_set(b.g, "nothing");
    for (int i = 0; i < 2; i++) {
        ipu_program_add_call(b.bodies[i], f);
        ipu_program_add_call(b.bodies[i], f);
        ipu_program_add_read(b.bodies[i], s, i ? b.y : b.x);
        ipu_program_add_execute(b.bodies[i], cs);
    }
    const char *message = problem(&b, 2);
    assert_says(message, "body 1 uses function \"f\", as body 0 does");
    assert_says(message, "body 1 uses stream \"in\", as body 0 does");
    assert_says(message, "body 1 uses compute set \"nothing\", as body 0 does");
    ipu_graph_destroy(b.g);
}

static void a_remote_buffer_that_is_written_belongs_to_one_body(void **state)
{
    (void)state;
    for (int writes = 0; writes < 2; writes++) {
        bench             b      = start();
        ipu_remote_buffer buffer = ipu_graph_add_remote_buffer(b.g, "far", IPU_FLOAT, 8, 4);
        ipu_tensor        none   = {b.g, 0};
        ipu_program_add_remote_read(b.bodies[0], buffer, none, b.x);
        if (writes)
            ipu_program_add_remote_write(b.bodies[1], b.y, buffer, none);
        else
            ipu_program_add_remote_read(b.bodies[1], buffer, none, b.y);
        const char *message = problem(&b, 2);
        if (writes)
            assert_says(message, "use remote buffer \"far\", and at least one writes");
        else
            assert_string_equal(message, "");
        ipu_graph_destroy(b.g);
    }
}

/* ---- text ---- */

static void the_text_is_read_back_as_it_was(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_copy(b.bodies[0], b.x, b.y);
    ipu_program_add_repeat(b.bodies[2], 3, b.bodies[1]);
    ipu_program_add_copy(b.bodies[2], b.x, b.z);
    assert_string_equal(problem(&b, 3), "");
    char *text, *again;
    assert_int_equal(ipu_graph_print(b.g, &b.main, 1, 0, NULL, &text), IPU_OK);
    assert_says(text, "parallel {\n      body {\n        copy x");
    assert_says(text, "body { }\n      body {\n        repeat 3 { }");
    ipu_parsed parsed;
    if (ipu_graph_parse(text, strlen(text), "text", NULL, 0, NULL, &parsed) != IPU_OK)
        fail_msg("%s", ipu_message());
    assert_int_equal(ipu_graph_print(parsed.graph, parsed.programs, parsed.n_programs, 0, NULL, &again),
                     IPU_OK);
    assert_string_equal(text, again);
    ipu_graph_destroy(parsed.graph);
    ipu_free(text);
    ipu_free(again);
    ipu_graph_destroy(b.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_without_bodies_is_refused),
        cmocka_unit_test(a_body_that_is_null_is_empty),
        cmocka_unit_test(steps_for_all_replicas_are_refused_however_deep),
        cmocka_unit_test(a_parallel_step_in_a_body_is_refused),
        cmocka_unit_test(bodies_may_read_the_same),
        cmocka_unit_test(what_one_body_writes_no_other_reads),
        cmocka_unit_test(what_one_body_writes_no_other_writes),
        cmocka_unit_test(parts_of_one_variable_are_apart),
        cmocka_unit_test(a_body_reads_what_it_writes),
        cmocka_unit_test(clashes_in_functions_and_kernels_are_found),
        cmocka_unit_test(clashes_of_vertices_are_found),
        cmocka_unit_test(functions_sets_and_streams_belong_to_one_body),
        cmocka_unit_test(a_remote_buffer_that_is_written_belongs_to_one_body),
        cmocka_unit_test(the_text_is_read_back_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
