/* What is recomputed, and where: cheap results that lie idle at the peak, from values available anyway. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/text.h"
#include "model/model.h"

/* The ops of the model in order, by the names of their results, with their inputs. */
static void expect_order(const char *inside, int64_t worth, const char *order)
{
    ipu__text  text = {0}, found = {0};
    ipu_model *m;
    ipu__text_add(&text, "model {\n%s}\n", inside);
    if (ipu_model_parse(text.at, text.n, "before", NULL, &m) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(ipu__model_remat(m, worth), IPU_OK);
    if (ipu__model_verify(m) != IPU_OK) fail_msg("%s", ipu_message());
    for (size_t i = 0; i < m->blocks.at[0].order.n; i++) {
        const ipu__model_op *op = &m->ops.at[m->blocks.at[0].order.at[i]];
        ipu__text_add(&found, "%s%s", i ? " " : "", m->base.values.at[op->first_out].name);
        if (op->recompute) ipu__text_add(&found, "'");
    }
    assert_string_equal(found.at, order);
    ipu__text_fini(&text);
    ipu__text_fini(&found);
    ipu_model_destroy(m);
}

/* Two layers of a product and an activation; gradients by hand. */
#define FORWARD                     \
    "  input x float[1024,64];\n"   \
    "  parameter w float[64,64];\n" \
    "  parameter v float[64,64];\n" \
    "  a = matmul(x, w);\n"         \
    "  b = gelu(a);\n"              \
    "  c = matmul(b, v);\n"         \
    "  d = gelu(c);\n"              \
    "  e = matmul(d, v);\n"
#define BACKWARD                           \
    "  gv = matmul(b, e) transpose_a=1;\n" \
    "  ga = mul(a, e);\n"                  \
    "  v1 = sub(v, gv);\n"                 \
    "  output ga = ga;\n"                  \
    "  update v = v1;\n"

static void activations_are_computed_again_from_what_is_kept(void **unused)
{
    (void)unused;
    expect_order(FORWARD "  f = exp(e);\n  g = matmul(f, w);\n  h = sin(g);\n  output h1 = h;\n" BACKWARD, 0,
                 "a b c d e f g h b' gv ga v1");
}

/* a ends before b is needed, so it would have to be kept instead. */
static void not_if_something_else_would_have_to_be_kept(void **unused)
{
    (void)unused;
    expect_order(FORWARD "  gv = matmul(b, e) transpose_a=1;\n"
                         "  v1 = sub(v, gv);\n"
                         "  output e1 = e;\n"
                         "  update v = v1;\n",
                 0, "a b c d e gv v1");
}

static void not_below_the_size_that_is_worth_it(void **unused)
{
    (void)unused;
    expect_order(FORWARD BACKWARD, 1 << 30, "a b c d e gv ga v1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_are_computed_again_from_what_is_kept),
        cmocka_unit_test(not_if_something_else_would_have_to_be_kept),
        cmocka_unit_test(not_below_the_size_that_is_worth_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
