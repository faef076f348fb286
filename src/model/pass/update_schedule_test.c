/* Updates run as early as possible: after their inputs and the readers of the old values, and no earlier. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/text.h"
#include "model/model.h"

/* The ops of the model in order, by the names of their results, after all its parameters are updated
 * early. */
static void expect_order(const char *inside, const char *order)
{
    ipu__text  text = {0}, found = {0};
    ipu_model *m;
    ipu__text_add(&text, "model {\n%s}\n", inside);
    if (ipu_model_parse(text.at, text.n, "before", NULL, &m) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(ipu__model_schedule_updates(m, m->parameters.at, m->parameters.n), IPU_OK);
    if (ipu__model_verify(m) != IPU_OK) fail_msg("%s", ipu_message());
    for (size_t i = 0; i < m->blocks.at[0].order.n; i++) {
        const ipu__model_op *op = &m->ops.at[m->blocks.at[0].order.at[i]];
        ipu__text_add(&found, "%s%s", i ? " " : "", m->base.values.at[op->first_out].name);
    }
    assert_string_equal(found.at, order);
    ipu__text_fini(&text);
    ipu__text_fini(&found);
    ipu_model_destroy(m);
}

static void updates_follow_their_gradients(void **unused)
{
    (void)unused;
    expect_order("  input x float[4];\n"
                 "  parameter v float[4];\n"
                 "  parameter w float[4];\n"
                 "  a = mul(x, v);\n"
                 "  b = mul(a, w);\n"
                 "  gw = mul(b, a);\n"
                 "  d = mul(b, w);\n"
                 "  gv = mul(d, x);\n"
                 "  v1 = sub(v, gv);\n"
                 "  w1 = sub(w, gw);\n"
                 "  update v = v1;\n"
                 "  update w = w1;\n",
                 "a b gw d w1 gv v1");
}

/* d reads w through a view, after gw is available. */
static void views_are_read_as_long_as_what_they_view(void **unused)
{
    (void)unused;
    expect_order("  input x float[4];\n"
                 "  parameter w float[4];\n"
                 "  seen = reshape(w) shape=[2,2];\n"
                 "  g = mul(x, w);\n"
                 "  d = neg(seen);\n"
                 "  e = neg(d);\n"
                 "  w1 = sub(w, g);\n"
                 "  output e2 = e;\n"
                 "  update w = w1;\n",
                 "seen g d w1 e");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_follow_their_gradients),
        cmocka_unit_test(views_are_read_as_long_as_what_they_view),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
