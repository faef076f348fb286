/* Floating-point exceptions: which kernels end a run with one, and which do not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

typedef ipu_value (*network)(ipu_builder *b, ipu_value x, ipu_value y);

static void build(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    network net = *(network *)user;
    ipu_model_output(m, net(ipu_model_builder(m), in[0], n > 1 ? in[1] : in[0]), "z");
}

/* One run of z = net(x, y), with all elements of x and of y equal. */
static ipu_status run(network net, bool check, ipu_type type, double x, double y, int64_t replicas)
{
    ipu_executor_options options = {.check_floats = check, .replicas = replicas, .no_fold = true};
    ipu_module          *module;
    ipu_executor        *e;
    float                xs[40], ys[40];
    ipu_half             half_xs[40], half_ys[40];
    bool                 is_half = type == IPU_HALF;
    for (int i = 0; i < 40; i++) {
        xs[i] = (float)x, ys[i] = (float)y;
        half_xs[i] = ipu_half_from_float(xs[i]), half_ys[i] = ipu_half_from_float(ys[i]);
    }
    const ipu_array in[] = {{type, IPU_SHAPE(40), is_half ? (void *)half_xs : xs},
                            {type, IPU_SHAPE(40), is_half ? (void *)half_ys : ys}};
    OK(ipu_module_create(build, &net, &module));
    OK(ipu_inference_model(module, &options, &e));
    ipu_status status = ipu_executor_run(e, in, 2);
    ipu_executor_destroy(e);
    ipu_module_destroy(module);
    return status;
}

static ipu_value quotient(ipu_builder *b, ipu_value x, ipu_value y) { return ipu_div(b, x, y); }
static ipu_value product(ipu_builder *b, ipu_value x, ipu_value y) { return ipu_mul(b, x, y); }
static ipu_value larger(ipu_builder *b, ipu_value x, ipu_value y) { return ipu_greater(b, x, y); }
static ipu_value root(ipu_builder *b, ipu_value x, ipu_value y) { return ipu_sqrt(b, ipu_add(b, x, y)); }
static ipu_value power(ipu_builder *b, ipu_value x, ipu_value y) { return ipu_exp(b, ipu_add(b, x, y)); }
static ipu_value sum(ipu_builder *b, ipu_value x, ipu_value y) { return ipu_add(b, x, y); }
/* An overflow on the way is detected although the result is 0. */
static ipu_value hidden(ipu_builder *b, ipu_value x, ipu_value y) { return ipu_div(b, y, ipu_mul(b, x, x)); }
static ipu_value bounded(ipu_builder *b, ipu_value x, ipu_value y)
{
    (void)y;
    return ipu_pad(b, x, &(int64_t){1}, &(int64_t){1}, IPU_PAD_CONSTANT, (double)-INFINITY);
}

static void exceptions_name_the_op(void **state)
{
    (void)state;
    static const struct {
        network     net;
        double      x, y;
        const char *says;
    } rows[] = {
        {quotient, 1, 0, "kernel \"div\": its output \"out\" has 40 infinities among 40 elements"},
        {product, 0, (double)INFINITY, "kernel \"mul\": its output \"out\" has 40 NaN"},
        {root, -1, -1, "kernel \"sqrt\": its output \"out\" has 40 NaN"},
        {larger, 1, (double)NAN, "kernel \"greater\": its input \"y\" has 40 NaN"},
        {power, 3800, 1, "kernel \"exp\": its output"},
        {hidden, 1e30, 1, "kernel \"mul\": its output"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        OK(run(rows[i].net, false, IPU_FLOAT, rows[i].x, rows[i].y, 1));
        assert_int_equal(run(rows[i].net, true, IPU_FLOAT, rows[i].x, rows[i].y, 1), IPU_ABORTED);
        if (!strstr(ipu_message(), rows[i].says))
            fail_msg("\"%s\" is not in \"%s\"", rows[i].says, ipu_message());
    }
}

static void halves_and_replicas_are_seen(void **state)
{
    (void)state;
    assert_int_equal(run(product, true, IPU_HALF, 300, 300, 1), IPU_ABORTED);
    OK(run(product, true, IPU_FLOAT, 300, 300, 1));
    assert_int_equal(run(quotient, true, IPU_FLOAT, 1, 0, 2), IPU_ABORTED);
    assert_non_null(strstr(ipu_message(), "of replica 0 has 20 infinities"));
}

static void infinities_may_be_asked_for_and_passed_on(void **state)
{
    (void)state;
    OK(run(sum, true, IPU_FLOAT, (double)-INFINITY, 1, 1));
    OK(run(larger, true, IPU_FLOAT, (double)-INFINITY, 1, 1));
    OK(run(bounded, true, IPU_FLOAT, 1, 1, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exceptions_name_the_op),
        cmocka_unit_test(halves_and_replicas_are_seen),
        cmocka_unit_test(infinities_may_be_asked_for_and_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
