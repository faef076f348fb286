/* Invalid texts, and failing allocations: a message that says where and why, and no leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "graph/graph.h"
#include "ipu/text.h"

#define ADDER(F) F(IN, float, x) F(IN_VECTORS, float, rows) F(STATE, int8_t, n) F(STATE_VECTOR, int8_t, table)
IPU_VERTEX(Adder, ADDER)
{
    (void)v;
    return true;
}

static const ipu_codelet *const records[] = {&Adder};

static ipu_status parse_bytes(const char *text, size_t bytes)
{
    ipu_parsed parsed;
    ipu_status status = ipu_graph_parse(text, bytes, "t.ipu", records, 1, NULL, &parsed);
    ipu_graph_destroy(parsed.graph);
    return status;
}

typedef struct wrong_text {
    const char *text, *message;
} wrong_text;

static void assert_wrong(const wrong_text *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ipu_status status = parse_bytes(cases[i].text, strlen(cases[i].text));
        if (status == IPU_OK) fail_msg("parsed: %s", cases[i].text);
        if (strncmp(ipu_message(), cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("text: %s\nexpected: %s\nfound: %s", cases[i].text, cases[i].message, ipu_message());
    }
}

#define ASSERT_WRONG(cases) assert_wrong(cases, sizeof(cases) / sizeof *(cases))
#define IN_GRAPH(text) "graph target gc200 tiles 8 {\n" text "\n}"
#define VARS                                                               \
    "var x float[8] on 0;\nvar y float[8];\nvar h half[8];\nvar b bool;\n" \
    "const c float[8] = {1,2,3,4,5,6,7,8};\n"

static void syntax_errors_say_what_was_expected_and_found(void **state)
{
    (void)state;
    static const wrong_text cases[] = {
        {"", "t.ipu:1:1: expected a graph, found the end of the text"},
        {"# nothing\n", "t.ipu:2:1: expected a graph, found the end of the text"},
        {"grph", "t.ipu:1:1: expected the end of the text or 'graph', found 'grph'"},
        {"graph target gc200 {", "t.ipu:1:21: expected 'codelet', 'var', 'const'"},
        {"graph target gc200 {\n  var x float[4,\n      y];\n}", "t.ipu:3:7: expected an integer, found 'y'"},
        {IN_GRAPH("var x float[4] on 0"), "t.ipu:3:1: expected 'at' or ';', found '}'"},
        {IN_GRAPH("const c float = 1;"), "t.ipu:2:17: expected 'hash' or '{', found '1'"},
        {IN_GRAPH("program { repeat 1.5 { } }"), "t.ipu:2:18: expected an integer, found '1.5'"},
        {IN_GRAPH("program { copy -> x; }"), "t.ipu:2:16: expected a name, a label or '{', found '->'"},
        {IN_GRAPH("program { fly x; }"), "t.ipu:2:11: expected 'execute', 'kernel', 'copy'"},
        {IN_GRAPH("codelet C { in vector vector x }"), "t.ipu:2:23: expected a name, found 'vector'"},
    };
    ASSERT_WRONG(cases);
}

static void characters_and_strings_that_are_wrong_are_reported(void **state)
{
    (void)state;
    static const wrong_text cases[] = {
        {"graph target gc200 { ? }",
         "t.ipu:1:22: expected a part of a graph, found a stray character (0x3f)"},
        {IN_GRAPH("host_read \"abc"), "t.ipu:2:11: expected a string that ends on its line"},
        {IN_GRAPH("host_read \"a\\q\" x;"), "t.ipu:2:11: expected an escape \\\""},
        {IN_GRAPH("host_read \"a\\x0\" x;"), "t.ipu:2:11: expected an escape \\\""},
        {IN_GRAPH("host_read \"a\\x00\" x;"), "t.ipu:2:11: expected a string without a 0 byte in it"},
        {IN_GRAPH("var x bool at \"f\":-1;"), "t.ipu:2:19: expected a line number, found -1"},
    };
    ASSERT_WRONG(cases);
    assert_int_equal(parse_bytes(NULL, 0), IPU_INVALID);
    assert_int_equal(parse_bytes("graph target gc200 {\0}", 22), IPU_INVALID);
    assert_string_equal(ipu_message(),
                        "t.ipu:1:21: expected a part of a graph, found a stray character (0x00)");
}

static void names_that_are_not_declared_are_reported_with_the_nearest(void **state)
{
    (void)state;
    static const wrong_text cases[] = {
        {IN_GRAPH("var weights float;\nprogram { write_undef weigths; }"),
         "t.ipu:3:23: no variable 'weigths' is declared above (did you mean \"weights\"?)"},
        {IN_GRAPH("program { execute add; }"), "t.ipu:2:19: no compute set 'add' is declared above"},
        {IN_GRAPH("function step { } program { call stop; }"),
         "t.ipu:2:34: no function 'stop' is declared above (did you mean \"step\"?)"},
        {IN_GRAPH(VARS "program { read \"in\" -> x; }"), "t.ipu:7:16: no stream \"in\" is declared above"},
        {IN_GRAPH(VARS "program { remote_write x -> \"in\"; }"),
         "t.ipu:7:29: no remote buffer \"in\" is declared above"},
        {IN_GRAPH("codelet Adder; compute_set c { vertex Ader { } }"),
         "t.ipu:2:32: no codelet 'Ader' is declared above (did you mean \"Adder\"?)"},
        {IN_GRAPH("codelet Adder; compute_set c { vertex Adder { z = 1 } }"),
         "t.ipu:2:47: codelet Adder has no field 'z': it has x, rows, n, table"},
        {IN_GRAPH("codelet Adder; compute_set c { vertex Adder on 1 cycles 0 { } }"),
         "t.ipu:2:57: expected 1 to 4294967295 cycles, found 0"},
        {IN_GRAPH("codelet Adder; compute_set c { vertex Adder cycles 4294967296 { } }"),
         "t.ipu:2:52: expected 1 to 4294967295 cycles, found 4294967296"},
        {IN_GRAPH("var x flaot;"), "t.ipu:2:7: expected a type, found 'flaot'; the types are bool int8"},
        {"graph target gc999 { }", "t.ipu:1:1: "},
        {IN_GRAPH("codelet Other;"), "t.ipu:2:1: no record of codelet 'Other' was given"},
    };
    ASSERT_WRONG(cases);
}

static void declaring_twice_is_an_error(void **state)
{
    (void)state;
    static const wrong_text cases[] = {
        {IN_GRAPH("var x bool;\nvar x bool;"),
         "t.ipu:3:1: there is a variable 'x' already: call this one 'x~2'"},
        {IN_GRAPH("compute_set x { } compute_set x { }"), "t.ipu:2:19: there is a compute set 'x' already"},
        {IN_GRAPH("function x { } function x { }"), "t.ipu:2:16: there is a function 'x' already"},
        {IN_GRAPH("codelet A { } codelet A { }"), "t.ipu:2:15: there is a codelet 'A' already"},
        {IN_GRAPH("codelet A { in float x, out half x }"), "t.ipu:2:25: the codelet has a field 'x' already"},
        {"graph target gc2 { } graph target gc2 { }",
         "t.ipu:1:22: expected one graph in a text, found another"},
    };
    ASSERT_WRONG(cases);
}

static void pieces_outside_their_variable_are_errors(void **state)
{
    (void)state;
#define VIEW(view) IN_GRAPH(VARS "program { write_undef " view "; }")
    static const wrong_text cases[] = {
        {VIEW("{x[8]}"), "t.ipu:7:24: the piece covers elements 8 to 8 of \"x\": it has elements 0 to 7"},
        {VIEW("{x[-1]}"), "t.ipu:7:24: the piece covers elements -1 to -1 of \"x\""},
        {VIEW("{x[4:5]}[5]"), "t.ipu:7:24: the piece covers elements 4 to 8 of \"x\""},
        {VIEW("{x[4: 3*2, 2*1]}[6]"), "t.ipu:7:24: the piece covers elements 4 to 9 of \"x\""},
        {VIEW("{x[4: 6*-1]}[6]"), "t.ipu:7:24: the piece covers elements -1 to 4 of \"x\""},
        {VIEW("{x[0:0]}[0]"), "t.ipu:7:28: expected a count of at least 1, found 0"},
        {VIEW("{x[0: -3*1]}[0]"), "t.ipu:7:29: expected a count of at least 1, found -3"},
        {VIEW("{x[0: 9223372036854775807*9223372036854775807]}[0]"),
         "t.ipu:7:24: the piece has more than 2^47"},
        {VIEW("{x[0: 9223372036854775807*0]}[1]"), "t.ipu:7:24: the piece has more than 2^47 elements"},
        {VIEW("{x[9223372036854775807: 2*9223372036854775807]}[2]"), "t.ipu:7:24: the piece has more than"},
        {VIEW("{x[9223372036854775808]}"), "t.ipu:7:26: expected an int64"},
        {VIEW("{x[0: 140737488355328*0], x[0]}[1]"), "t.ipu:7:49: the view has more than 2^47 elements"},
        {VIEW("{x[0: 2*0,2*0,2*0,2*0,2*0,2*0,2*0,2*0,2*0,2*0,2*0,2*0,2*0,2*0,2*0,2*0,2*0]}[1]"),
         "t.ipu:7:93: expected at most 16 loops in a piece"},
        {VIEW("{x[0:4]}[3]"), "t.ipu:7:23: the view has 4 elements, but its shape is [3]"},
        {VIEW("{}[3] as float"), "t.ipu:7:23: the view has 0 elements, but its shape is [3]"},
        {VIEW("{x[0:4]}[4] as half"), "t.ipu:7:23: a piece cannot be taken as half"},
        {VIEW("{b[0], x[0]}[2]"), "t.ipu:7:23: the view has pieces of several types"},
        {VIEW("{x[0]}[1,1,1,1,1,1,1,1,1]"), "t.ipu:7:29: expected at most 8 dimensions, found 9"},
        {VIEW("{x[0]}[-1]"), "t.ipu:7:29: expected a shape of at most 2^47 elements"},
        {IN_GRAPH("var x float[4294967296,4294967296];"),
         "t.ipu:2:12: expected a shape of at most 2^47 elements"},
    };
    ASSERT_WRONG(cases);
}

static void values_that_do_not_fit_are_errors(void **state)
{
    (void)state;
#define VERTEX(link) IN_GRAPH(VARS "codelet Adder; compute_set c { vertex Adder { " link " } }")
    static const wrong_text cases[] = {
        {IN_GRAPH("const c int8[2] = {1,\n 300};"),
         "t.ipu:3:2: expected an int8, from -128 to 127, found '300'"},
        {IN_GRAPH("const c int8[2] = {1};"), "t.ipu:2:1: expected 2 values, found 1"},
        {IN_GRAPH("const c float[2] = {1e99, 0};"),
         "t.ipu:2:21: expected a number that this type can hold, or inf"},
        {IN_GRAPH("const c bool = {2};"), "t.ipu:2:17: expected true or false, found '2'"},
        {IN_GRAPH(VARS "init x = {};"), "t.ipu:7:1: expected 8 values, found 0"},
        {VERTEX("x = 1"), "t.ipu:7:51: field 'x' is connected to tensors: expected a view"},
        {VERTEX("x = {}"), "t.ipu:7:51: field 'x' is connected to tensors: expected a view"},
        {VERTEX("n = x"), "t.ipu:7:51: field 'n' is state: expected a value, found a view"},
        {VERTEX("n = [x]"), "t.ipu:7:51: field 'n' is state: expected a value, found a view"},
        {VERTEX("n = {1}"), "t.ipu:7:51: field 'n' is one value: expected it without braces"},
        {VERTEX("table = 1"), "t.ipu:7:55: field 'table' is a vector: expected its values in braces"},
        {VERTEX("rows = {x[0:8]}[2,4]"), "t.ipu:7:54: field 'rows' is a list of runs: expected [view, ...]"},
        {IN_GRAPH("codelet C { state pointer int8 x }"),
         "t.ipu:2:13: a state field is one value or a vector"},
        {IN_GRAPH("codelet Adder { in float x }"), "t.ipu:2:1: the fields of codelet 'Adder' differ"},
    };
    ASSERT_WRONG(cases);
}

static void errors_of_the_builders_name_the_line_of_the_text(void **state)
{
    (void)state;
    static const wrong_text cases[] = {
        {IN_GRAPH("var x float[4] on 99;"), "t.ipu:2: ipu_graph_set_tile_mapping: tile 99 is out of range"},
        {IN_GRAPH(VARS "program {\n  copy x -> h;\n}"),
         "t.ipu:8: ipu_program_add_copy: from float[8] to half[8]"},
        {IN_GRAPH(VARS "program { copy x -> c; }"),
         "t.ipu:7: ipu_program_add_copy: writes to \"c\", which is a constant"},
        {IN_GRAPH(VARS "program { copy x -> x at \"user.c\":5; }"),
         "t.ipu:7:11: user.c:5: ipu_program_add_copy: source"},
        {IN_GRAPH(VARS "codelet Adder; compute_set c { vertex Adder {\n x = x } }"),
         "t.ipu:7: ipu_vertex_connect: field \"x\""},
        {IN_GRAPH(VARS "program { repeat -1 { } }"),
         "t.ipu:7: ipu_program_add_repeat: -1 times: expected 0 or more"},
        {"graph target gc200 replication 3 { }", "t.ipu:1:1: "},
        {"graph target gc200 tiles 0 { }", "t.ipu:1:1: "},
        {"graph target gc200 ipus 3 { }", "t.ipu:1:1: "},
    };
    ASSERT_WRONG(cases);
}

/* `n` times `open`, then `n` times `close`, in a program. */
static ipu_status parse_nested(int n, const char *open, const char *close)
{
    ipu__text text = {0};
    ipu__text_add(&text, "graph target gc200 { var b bool; program {");
    for (int i = 0; i < n; i++) ipu__text_add(&text, "%s", open);
    for (int i = 0; i < n; i++) ipu__text_add(&text, "%s", close);
    ipu__text_add(&text, "} }");
    ipu_status status = parse_bytes(text.at, text.n);
    ipu__text_fini(&text);
    return status;
}

static void nesting_is_bounded_and_what_is_allowed_works(void **state)
{
    (void)state;
    assert_int_equal(parse_nested(200, "repeat 2 {", "}"), IPU_OK);
    assert_int_equal(parse_nested(201, "repeat 2 {", "}"), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "blocks are nested more than 200 deep"));
    assert_int_equal(parse_nested(100000, "if b { } else {", "}"), IPU_INVALID);
    assert_int_equal(parse_nested(100000, "switch b { case 1 {", "} }"), IPU_INVALID);
    assert_int_equal(parse_nested(200, "while_true {", "} b { }"), IPU_OK);
    assert_int_equal(parse_nested(100000, "{", "}"), IPU_INVALID);
}

static void scattered_elements_in_programs_are_bounded(void **state)
{
    (void)state;
    static const wrong_text cases[] = {
        {"graph target gc200 { var x float[10000000000]; program {\n"
         "copy {x[0: 5000000000*2]}[5000000000] -> {x[1: 5000000000*2]}[5000000000]; } }",
         "t.ipu:2:6: the view has more than 4194304 scattered runs of elements"},
    };
    ASSERT_WRONG(cases);
    const char *transpose =
        "graph target gc200 { var x float[100000,100000]; var y float[100000,100000]; program {"
        "copy {x[0: 100000*1, 100000*100000]}[100000,100000] -> y; } }";
    assert_int_equal(parse_bytes(transpose, strlen(transpose)), IPU_OK);
}

static void a_null_program_or_one_of_another_graph_does_not_print(void **state)
{
    (void)state;
    ipu_target target;
    ipu_graph *g, *other;
    char      *text;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &other), IPU_OK);
    ipu_program p = ipu_program_sequence(other);
    assert_int_equal(ipu_graph_print(g, &p, 1, 0, NULL, &text), IPU_INVALID);
    assert_int_equal(ipu_graph_print(g, &(ipu_program){g, 0}, 1, 0, NULL, &text), IPU_INVALID);
    assert_null(text);
    ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(-1), "x");
    assert_int_equal(ipu_graph_print(g, NULL, 0, 0, NULL, &text), IPU_INVALID);
    assert_string_equal(ipu_message(), ipu_graph_message(g));
    ipu_graph_destroy(g);
    ipu_graph_destroy(other);
}

/* ---- memory ---- */

static struct {
    long n_calls, fail_at, live;
} heap;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        heap.live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (++heap.n_calls == heap.fail_at) return NULL;
    void *grown = realloc(ptr, new_bytes);
    heap.live += grown && !ptr;
    return grown;
}

/* Deep enough to make the parser's own stack grow. */
#define FOUR(text) text text text text
#define DEEP FOUR(FOUR(FOUR("repeat 1 {"))) FOUR(FOUR(FOUR("}")))

static const char everything[] =
    "graph target gc200 tiles 4 {\n"
    "codelet Adder; codelet Other { in float x, state vector half t, state int8 n }\n"
    "var x float[4,2] on {0: 0..4, 1: 4..8} at \"f.c\":1;\n"
    "var y float[8] on 1; var x~9 \"o\\n\" bool; var i int32[2];\n"
    "const c float[3] = {1, 2, 3}; replication_index r; init {x[0: 4*2]}[4] = {1,2,3,4};\n"
    "stream in \"in\" float 8; stream out \"out\" float 8; remote \"r\" float 4 rows 4;\n"
    "host_write \"x\" x; host_read \"x\" x;\n"
    "compute_set cs { vertex Adder on 1 { x = {x[0]}, rows = [y, {x[0:2]}[2]], n = 3, table = {1, 2, 3} }\n"
    "vertex Other { t = {1, 2}, x = {y[1]} } }\n"
    "function f { copy x -> y; } program { call f; execute cs; read \"in\" -> y; write y -> \"out\";\n"
    "repeat 2 { kernel fill (x) { value = 0.5 }; }\n"
    "switch {i[0]} { case 1 { } case 2 { sync global; } default { } }\n"
    "remote_read \"r\" rows {i[0]} -> {x[0:4]}[4]; if x~9 { } else { print \"t\" {x[7: 8*-1]}[8]; }\n"
    "while_true { } x~9 { abort_if x~9 \"m\"; error \"e\" c; write_undef {x[0:2], x[4:2], y[3]}[5]; } " DEEP
    " } }\n";

static ipu_status parse_and_print(char **out, const char *side)
{
    ipu_parsed parsed;
    *out              = NULL;
    ipu_status status = ipu_graph_parse(everything, strlen(everything), "t.ipu", records, 1, NULL, &parsed);
    if (status == IPU_OK)
        status = ipu_graph_print(parsed.graph, parsed.programs, parsed.n_programs, 0, side, out);
    ipu_graph_destroy(parsed.graph);
    return status;
}

static void any_allocation_may_fail_while_parsing_and_printing(void **state)
{
    (void)state;
    char *text, *expected, side[] = "/tmp/ipu_parse_test_XXXXXX";
    int   fd = mkstemp(side);
    assert_true(fd >= 0);
    close(fd);
    if (parse_and_print(&expected, side) != IPU_OK) fail_msg("%s", ipu_message());
    ipu__alloc_set(failing_alloc, NULL);
    long refused = 0;
    for (long n = 1;; n++) {
        heap.n_calls = heap.live = 0;
        heap.fail_at             = n;
        ipu_status status        = parse_and_print(&text, side);
        bool       failed        = heap.n_calls >= n;
        if (status == IPU_OK) { /* not being able to keep a location is no reason to fail */
            assert_string_equal(text, expected);
        } else {
            assert_int_equal(status, IPU_OUT_OF_MEMORY);
            assert_string_equal(ipu_message(), "out of memory: the host could not give the memory asked for");
            refused++;
        }
        ipu_free(text);
        assert_int_equal(heap.live, 0);
        if (!failed) break;
    }
    ipu__alloc_set(NULL, NULL);
    assert_true(refused > 60);
    ipu_free(expected);
    unlink(side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(syntax_errors_say_what_was_expected_and_found),
        cmocka_unit_test(characters_and_strings_that_are_wrong_are_reported),
        cmocka_unit_test(names_that_are_not_declared_are_reported_with_the_nearest),
        cmocka_unit_test(declaring_twice_is_an_error),
        cmocka_unit_test(pieces_outside_their_variable_are_errors),
        cmocka_unit_test(values_that_do_not_fit_are_errors),
        cmocka_unit_test(errors_of_the_builders_name_the_line_of_the_text),
        cmocka_unit_test(nesting_is_bounded_and_what_is_allowed_works),
        cmocka_unit_test(scattered_elements_in_programs_are_bounded),
        cmocka_unit_test(a_null_program_or_one_of_another_graph_does_not_print),
        cmocka_unit_test(any_allocation_may_fail_while_parsing_and_printing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
