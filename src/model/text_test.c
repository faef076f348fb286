/* Models as text: printed text parses to the same model, and errors say where and what was expected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipu/text.h"
#include "model/model.h"

static char *print(ipu_model *m, unsigned flags, const char *side)
{
    char *text;
    if (ipu_model_print(m, flags, side, &text) != IPU_OK) fail_msg("%s", ipu_message());
    return text;
}

static ipu_model *parse(const char *text, const char *side)
{
    ipu_model *m;
    if (ipu_model_parse(text, strlen(text), "text", side, &m) != IPU_OK)
        fail_msg("%s\n%s", ipu_message(), text);
    return m;
}

/* Parses and prints, twice. Owned: ipu_free. */
static char *round_trip(const char *text, unsigned flags)
{
    ipu_model *m     = parse(text, NULL);
    char      *first = print(m, flags, NULL);
    ipu_model *again = parse(first, NULL);
    char      *twice = print(again, flags, NULL);
    assert_string_equal(first, twice);
    assert_int_equal(ipu_model_n_ops(m), ipu_model_n_ops(again));
    ipu_model_destroy(m);
    ipu_model_destroy(again);
    ipu_free(twice);
    return first;
}

static const char canonical[] = "model seed 7 keys 3 {\n"
                                "  input x float[2,3];\n"
                                "  input go bool;\n"
                                "  parameter w float[4,3] = uniform(-0.5, 0.5) key 2;\n"
                                "  parameter v float[4] = {1, 2, 3, 4};\n"
                                "  parameter layer/bias float[3] = fill(0.25);\n"
                                "  state s float[2,4];\n"
                                "  state n half = normal(0.0, 1.0) key 0;\n"
                                "  constant ~8 float[2,4] = {0, 1, 2, 3, 4, 5, 6, 7};\n"
                                "  y = matmul(x, w) transpose_b=1;\n"
                                "  ~10 = add(y, ~8);\n"
                                "  ~11 \"a b\" = add(~10, y) recompute 2;\n"
                                "  if go {\n"
                                "    ~12 = add(~11, ~11);\n"
                                "    yield ~12, y;\n"
                                "  } else {\n"
                                "    yield y, ~11;\n"
                                "  } -> r~13, r~14;\n"
                                "  loop 10 (in = r~13, ~16 = r~14) if go {\n"
                                "    ~18 = add(in, ~16);\n"
                                "    yield ~18, in while go;\n"
                                "  } -> ~19, ~20;\n"
                                "  output out = ~19;\n"
                                "  output \"the rest\" = ~20;\n"
                                "  update s = ~19;\n"
                                "}\n";

static void test_what_is_printed_prints_the_same_again(void **state)
{
    (void)state;
    char *text = round_trip(canonical, 0);
    assert_string_equal(text, canonical);
    ipu_free(text);
}

static void test_a_text_by_hand_is_brought_into_order(void **state)
{
    (void)state;
    char *text = round_trip(
        "# numbers are free, and so is the order\n"
        "model { constant two float[3] = {2, 2, 2}; input x float[3]; y~77 = add(x, two);\n"
        "  loop 3 (c = y~77) index i { d = add(c, two); yield d; } -> z;\n"
        "  output o = z; unused = add(x, x); }",
        0);
    assert_string_equal(text, "model {\n"
                              "  input x float[3];\n"
                              "  constant two float[3] = {2, 2, 2};\n"
                              "  y = add(x, two);\n"
                              "  loop 3 (c = y) index i {\n"
                              "    d = add(c, two);\n"
                              "    yield d;\n"
                              "  } -> z;\n"
                              "  unused = add(x, x);\n"
                              "  output o = z;\n"
                              "}\n");
    ipu_free(text);
}

static void test_keywords_are_names_too(void **state)
{
    (void)state;
    char *text = round_trip(
        "model { input input float; input model float; input state float; input none~3 float;\n"
        "yield = add(input, none~3); if = add(yield, model); output = add(if, if);\n"
        "while~9 = add(if, state); output output = output; update = add(while~9, if);\n"
        "loop = add(update, update); output index = loop; }",
        0);
    assert_non_null(strstr(text, "  while~8 = add(if, state);"));
    assert_non_null(strstr(text, "yield = add(input, none~4);"));
    assert_non_null(strstr(text, "  output output = output;"));
    ipu_free(text);
}

static void test_locations_are_kept(void **state)
{
    (void)state;
    char *text = round_trip(
        "model { input x float at \"a.c\":3;\n y = add(x, x);\n output y = y at \"\":0; }",
        IPU_PRINT_LOCATIONS);
    assert_string_equal(text, "model {\n"
                              "  input x float at \"a.c\":3;\n"
                              "  y = add(x, x) at \"text\":2;\n"
                              "  output y = y at \"\":0;\n"
                              "}\n");
    ipu_free(text);
}

static void test_attributes_of_all_kinds(void **state)
{
    (void)state;
    char *text = round_trip(
        "model { y = fill() value=0.5 shape=[2,3] type=half; z = fill() value=-inf type=\"float\"\n"
        "shape=[]; output y = y; output z = z; }",
        0);
    assert_non_null(strstr(text, "y = fill() value=0.5 shape=[2,3] type=\"half\";"));
    assert_non_null(strstr(text, "z = fill() value=-inf type=\"float\" shape=[];"));
    ipu_free(text);
}

static void test_large_data_goes_to_a_side_file(void **state)
{
    (void)state;
    float      data[100];
    char       path[] = "/tmp/ipu-model-side-XXXXXX";
    int        file   = mkstemp(path);
    ipu_model *m, *again;
    assert_true(file >= 0);
    close(file);
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    for (int i = 0; i < 100; i++) data[i] = (float)i;
    ipu_value w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(100), data, "w");
    ipu_model_output(m, w, "out");
    char *text = print(m, 0, path);
    assert_non_null(strstr(text, "parameter w float[100] = hash \""));
    again       = parse(text, path);
    char *twice = print(again, 0, path);
    assert_string_equal(text, twice);
    assert_memory_equal(again->values.at[again->parameters.at[0]].data, data, sizeof data);
    ipu_model_destroy(again);
    assert_int_equal(ipu_model_parse(text, strlen(text), "text", NULL, &again), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "side file"));
    ipu_free(text);
    ipu_free(twice);
    ipu_model_destroy(m);
    unlink(path);
}

static void test_a_parsed_model_can_be_built_further(void **state)
{
    (void)state;
    ipu_model *m = parse(
        "model seed 5 keys 9 { state seed uint32[2] = {5, 0}; parameter w float = uniform(0.0, 1.0) "
        "key 4; }",
        NULL);
    assert_int_equal(ipu_model_seed(m).id, m->states.at[0]);
    assert_int_equal(m->base.next_key, 9);
    ipu_value w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(2), NULL, "u");
    ipu_model_set_initial(m, w, (ipu_initial){IPU_INITIAL_NORMAL, 0, 1});
    assert_int_equal(m->values.at[w.id].key, 5);
    assert_string_equal(ipu_builder_message(ipu_model_builder(m)), "");
    ipu_model_destroy(m);
}

static void test_optimised_models_print_and_parse(void **state)
{
    (void)state;
    ipu_model *m = parse(
        "model { input x float[3]; a = add(x, x); b = add(x, x); c = add(a, b); dead = add(a, a);\n"
        "output c = c; }",
        NULL);
    assert_int_equal(ipu_model_optimise(m, IPU_PASS_ALL & ~(unsigned)IPU_PASS_FUSE), IPU_OK);
    char *text = print(m, 0, NULL), *again = round_trip(text, 0);
    assert_string_equal(
        text, "model {\n  input x float[3];\n  a = add(x, x);\n  c = add(a, a);\n  output c = c;\n}\n");
    assert_string_equal(text, again);
    ipu_free(text);
    ipu_free(again);
    ipu_model_destroy(m);
}

static void test_errors_say_where_and_what_was_expected(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "text:1:1: expected a model, found the end of the text"},
        {"graph", "text:1:1: expected the end of the text or 'model', found 'graph'"},
        {"model {\n  input x flaot;\n}", "text:2:11: expected a type, found 'flaot'"},
        {"model {\n  input x float;\n  y = add(x, z);\n}", "text:3:14: no value 'z' is declared above"},
        {"model { input x float; x = add(x, x); }", "text:1:24: there is a value 'x' already"},
        {"model { input x float; y = ad(x, x); }",
         "text:1: ipu_emit: there is no op \"ad\" (did you mean \"add\"?)"},
        {"model { input x float; y = add(x); }", "text:1: add: input"},
        {"model { input x float; y, z = add(x, x); }", "add: it has 1 outputs, 2 were asked for"},
        {"model { input x float; y = add(x, x) alpha=1; }", "unknown attribute \"alpha\""},
        {"model { input x float; if x { yield x; } else { yield x; } -> y; }", "must be one bool"},
        {"model { input p bool; if p { yield p; } -> y; }", "text:1:41: expected 'else', found '->'"},
        {"model { input p bool; if p { } else { yield; }; }", "text:1:30: expected"},
        {"model { parameter w float[3] = {1, 2}; }", "text:1:9: expected 3 values, found 2"},
        {"model { parameter w float = uniform(1.0); }", "text:1:29: uniform: expected 2 numbers, found 1"},
        {"model { parameter w float = zeros(1.0); }", "expected fill(a), uniform(low, high) or normal"},
        {"model { parameter w int32 = fill(0.5); }", "cannot hold the value 0.5"},
        {"model { input x float; update x = x; }", "is no parameter and no state"},
        {"model { input x float; output x = x; }", "the name \"x\" is taken"},
        {"model { } model { }", "text:1:11: expected one model in a text, found another"},
        {"model seed -3 { }", "expected a seed"},
        {"model { input x float[1,2,3,4,5,6,7,8,9]; }", "expected at most 8 dimensions"},
        {"model { input x float; y = add(x, x) recompute -1; }", "after recompute"},
        {"model { stage a; }", "expected a string, 'none'"},
        {"model { input p bool; if p { stage none; yield; } else { yield; }; }", "outside of branches"},
        {"model { \"", "expected a string that ends on its line"},
        {"model { @", "stray character (0x40)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ipu_model *m = (ipu_model *)state;
        assert_int_not_equal(ipu_model_parse(bad[i].text, strlen(bad[i].text), "text", NULL, &m), IPU_OK);
        assert_null(m);
        if (!strstr(ipu_message(), bad[i].message))
            fail_msg("%s\n  gives    %s\n  expected %s", bad[i].text, ipu_message(), bad[i].message);
    }
}

static void test_blocks_nest_only_so_deep(void **state)
{
    (void)state;
    enum { DEEP = 300, EACH = 32 };
    static char text[64 + DEEP * EACH];
    ipu_model  *m;
    strcpy(text, "model { input p bool; ");
    for (int i = 0; i < DEEP; i++) strcat(text, "if p { ");
    assert_int_equal(ipu_model_parse(text, strlen(text), "text", NULL, &m), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "expected at most 200 blocks within blocks"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_printed_prints_the_same_again),
        cmocka_unit_test(test_a_text_by_hand_is_brought_into_order),
        cmocka_unit_test(test_keywords_are_names_too),
        cmocka_unit_test(test_locations_are_kept),
        cmocka_unit_test(test_attributes_of_all_kinds),
        cmocka_unit_test(test_large_data_goes_to_a_side_file),
        cmocka_unit_test(test_a_parsed_model_can_be_built_further),
        cmocka_unit_test(test_optimised_models_print_and_parse),
        cmocka_unit_test(test_errors_say_where_and_what_was_expected),
        cmocka_unit_test(test_blocks_nest_only_so_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
