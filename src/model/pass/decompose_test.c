/* Ops an engine lacks are replaced by others, wherever they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/expect_test.h"

/* ---- engines that lack ops ---- */

static const char *lacks[4];

static bool supports(const ipu__kernel_call *call)
{
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks && lacks[i]; i++)
        if (strcmp(call->def->name, lacks[i]) == 0) return false;
    return true;
}

static bool fuses_all(const ipu__kernel_call *call)
{
    (void)call;
    return true;
}

static const ipu__engine_def poor = {.name = "poor", .supports = supports, .fuses = fuses_all};

static void lack(const char *a, const char *b)
{
    lacks[0] = a;
    lacks[1] = b;
}

static void expect_for(const char *inside, const char *after)
{
    ipu__text text    = {0};
    char     *printed = optimised_text_for(&poor, IPU_PASS_DCE | IPU_PASS_HOST, inside);
    ipu__text_add(&text, "model {\n%s}\n", after);
    assert_string_equal(printed, text.at);
    ipu__text_fini(&text);
    ipu_free(printed);
}

/* ---- tests ---- */

static void what_is_there_stays(void **state)
{
    (void)state;
    static const char model[] =
        "  input x float[3,4];\n  y = log_softmax(x);\n  z = relu6(y);\n  output z2 = z;\n";
    lack("softmax", "linear_sgd");
    expect_for(model, model);
}

static void an_op_becomes_others_in_its_place(void **state)
{
    (void)state;
    lack("linear_sgd", NULL);
    expect_for("  input x float[8,20];\n"
               "  input d float[8,10];\n"
               "  parameter w float[10,20];\n"
               "  state v float[10,20];\n"
               "  state rate float;\n"
               "  e = exp(d);\n"
               "  w1, v1, dx = linear_sgd(e, x, w, rate, none, v) momentum=0.9 input_gradient=1;\n"
               "  f = exp(dx);\n"
               "  output f2 = f;\n"
               "  update w = w1;\n"
               "  update v = v1;\n",
               "  input x float[8,20];\n"
               "  input d float[8,10];\n"
               "  parameter w float[10,20];\n"
               "  state v float[10,20];\n"
               "  state rate float;\n"
               "  e = exp(d);\n"
               "  ~7 = matmul(e, x) transpose_a=1;\n"
               "  dx = matmul(e, w);\n"
               "  w1, v1 = sgd(w, ~7, rate, none, v) momentum=0.9;\n"
               "  f = exp(dx);\n"
               "  output f2 = f;\n"
               "  update w = w1;\n"
               "  update v = v1;\n");
}

#define GRADIENT(out, dy) "    " out " = softmax_grad(y, " dy ") axis=1;\n"

/* Including what a block yields, and inside a loop that carries values. */
static void blocks_are_gone_through(void **state)
{
    (void)state;
    static const char model[] = "  input y float[3,4];\n"
                                "  input d float[3,4];\n"
                                "  input go bool;\n"
                                "  if go {\n" GRADIENT("a", "d") "    yield a;\n"
                                                                 "  } else {\n"
                                                                 "    yield d;\n"
                                                                 "  } -> r;\n"
                                                                 "  loop 3 (c = r) {\n" GRADIENT(
                                                                     "e", "c") "    yield e;\n"
                                                                               "  } -> z;\n"
                                                                               "  output z2 = z;\n";
    lack("softmax_grad", NULL);
    char *text = optimised_text_for(&poor, IPU_PASS_DCE, model);
    assert_null(strstr(text, "softmax_grad"));
    for (const char *inner[] = {"  if go {\n    ", "  loop 3 (c = r) {\n    "}, **at = inner; at < inner + 2;
         at++) {
        const char *block = strstr(text, *at);
        assert_non_null(block);
        const char *made = strstr(block, "reduce_sum("), *end = strstr(block, "yield");
        assert_true(made && end && made < end);
    }
    ipu_free(text);
}

static const char layer[] = "  input x float[8,20];\n"
                            "  input d float[8,10];\n"
                            "  parameter w float[10,20];\n"
                            "  state rate float;\n"
                            "  w1, v1, dx = linear_sgd(d, x, w, rate);\n"
                            "  output dx2 = w1;\n";

/* A chain becomes its ops, one of which becomes others. */
static void compositions_are_decomposed_too(void **state)
{
    (void)state;
    static const char model[] = "  input x float[3];\n"
                                "  input y float[3];\n"
                                "  input w float[3];\n"
                                "  a = lerp(x, y, w);\n"
                                "  b = exp(a);\n"
                                "  output b2 = b;\n";
    lack(NULL, NULL);
    char *text = optimised_text_for(&poor, IPU_PASS_FUSE, model);
    assert_non_null(strstr(text, "= chain("));
    ipu_free(text);
    lack("chain", "lerp");
    text = optimised_text_for(&poor, IPU_PASS_FUSE, model);
    assert_null(strstr(text, "chain("));
    assert_null(strstr(text, "lerp("));
    assert_non_null(strstr(text, "= sub(y, x);"));
    assert_non_null(strstr(text, "b = exp("));
    ipu_free(text);
}

static void what_cannot_be_composed_is_named(void **state)
{
    (void)state;
    ipu_model *m = parsed(layer);
    lack("linear_sgd", "matmul");
    assert_int_equal(ipu__model_optimise_for(m, IPU_PASS_DCE, &poor), IPU_UNSUPPORTED);
    assert_non_null(strstr(ipu_message(), "the engine \"poor\" has no kernel \"matmul\""));
    ipu_model_destroy(m);
}

/* Fusion does not create what the engine lacks. */
static void nothing_is_fused_to_what_is_lacking(void **state)
{
    (void)state;
    static const char model[] = "  input x float[8,20];\n"
                                "  input d float[8,10];\n"
                                "  parameter w float[10,20];\n"
                                "  state v float[10,20];\n"
                                "  state rate float;\n"
                                "  g = matmul(d, x) transpose_a=1;\n"
                                "  w1, v1 = sgd(w, g, rate, none, v) momentum=0.9;\n"
                                "  update w = w1;\n"
                                "  update v = v1;\n";
    lack(NULL, NULL);
    char *text = optimised_text_for(&poor, IPU_PASS_HOST, model);
    assert_non_null(strstr(text, "linear_sgd"));
    ipu_free(text);
    lack("linear_sgd", NULL);
    expect_for(model, model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_there_stays),
        cmocka_unit_test(an_op_becomes_others_in_its_place),
        cmocka_unit_test(blocks_are_gone_through),
        cmocka_unit_test(compositions_are_decomposed_too),
        cmocka_unit_test(what_cannot_be_composed_is_named),
        cmocka_unit_test(nothing_is_fused_to_what_is_lacking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
