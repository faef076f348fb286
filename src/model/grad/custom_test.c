/* User-defined gradients: what the function is given, where its results go, what is refused. */
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

typedef struct asked {
    int       calls;
    bool      has[2];
    ipu_value x; /* saved, as a function's own tensors are */
} asked;

/* d_x = 100 d_y0 + 7 d_y1 x; the second x has none. */
static void hundredfold(ipu_model *m, const ipu_value *d_y, size_t n_y, ipu_value *d_x, size_t n, void *user)
{
    asked       *a = user;
    ipu_builder *b = ipu_model_builder(m);
    assert_int_equal(n, 2);
    assert_int_equal(n_y, 2);
    a->calls++;
    a->has[0] = d_y[0].id != 0, a->has[1] = d_y[1].id != 0;
    if (a->has[0]) d_x[0] = ipu_mul(b, d_y[0], ipu_scalar_like(b, d_y[0], 100));
    if (!a->has[1]) return;
    ipu_value more = ipu_mul(b, ipu_mul(b, d_y[1], a->x), ipu_scalar_like(b, a->x, 7));
    d_x[0]         = d_x[0].id ? ipu_add(b, d_x[0], more) : more;
}

static double read_after_run(ipu_model *m, const char *name)
{
    ipu_target      target;
    ipu_executable *exe;
    ipu_engine     *e;
    double          value;
    OK(ipu_target_find("gc200", 1, &target));
    OK(ipu_model_compile(m, &target, NULL, &exe));
    OK(ipu_engine_create(exe, NULL, &e));
    OK(ipu_engine_run(e, 0));
    OK(ipu_engine_read(e, name, &value, sizeof value));
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    return value;
}

typedef struct bench {
    ipu_model   *m;
    ipu_builder *b;
    ipu_value    x, w, out[2]; /* x = 3, w = 5; x w and x + w with user-defined gradients */
    asked        asked;
} bench;

static void make(bench *t)
{
    memset(t, 0, sizeof *t);
    OK(ipu_model_create(&t->m));
    t->b          = ipu_model_builder(t->m);
    t->x          = ipu_model_parameter(t->m, IPU_DOUBLE, IPU_SCALAR, &(double){3}, "x");
    t->w          = ipu_model_parameter(t->m, IPU_DOUBLE, IPU_SCALAR, &(double){5}, "w");
    t->asked.x    = t->x;
    ipu_value y[] = {ipu_mul(t->b, t->x, t->w), ipu_add(t->b, t->x, t->w)};
    ipu_model_custom_gradient(t->m, (ipu_value[]){t->x, t->w}, 2, y, 2, hundredfold, &t->asked, t->out);
}

/* y = 2 out0 + out1^2, out1 = 8: dy/dx = 100 * 2 + 7 * 16 * 3, and 1 for x itself. */
static void the_function_says_what_gradients_are(void **state)
{
    (void)state;
    bench     t;
    ipu_value d[2];
    make(&t);
    ipu_value y = ipu_add(t.b, ipu_mul(t.b, t.out[0], ipu_scalar_like(t.b, t.out[0], 2)),
                          ipu_mul(t.b, t.out[1], t.out[1]));
    y           = ipu_add(t.b, y, t.x);
    ipu_model_gradients(t.m, y, (ipu_value[]){t.x, t.w}, 2, &(ipu_gradient_options){.allow_unused = true}, d);
    assert_int_equal(t.asked.calls, 1);
    assert_true(t.asked.has[0] && t.asked.has[1]);
    assert_int_equal(d[1].id, 0);
    ipu_model_output(t.m, y, "y");
    ipu_model_output(t.m, d[0], "d_x");
    assert_true(read_after_run(t.m, "d_x") == 200 + 336 + 1);
    assert_true(read_after_run(t.m, "y") == 30 + 64 + 3);
    ipu_model_destroy(t.m);
}

/* Only the second output is used: the first has no gradient, but the function is still called. */
static void outputs_that_nothing_depends_on_have_none(void **state)
{
    (void)state;
    bench     t;
    ipu_value d;
    make(&t);
    ipu_model_gradients(t.m, t.out[1], &t.x, 1, NULL, &d);
    assert_int_equal(t.asked.calls, 1);
    assert_true(!t.asked.has[0] && t.asked.has[1]);
    ipu_model_output(t.m, d, "d_x");
    assert_true(read_after_run(t.m, "d_x") == 21);
    ipu_model_destroy(t.m);
}

/* d2 / dx2 of x w by the function: first 100, then 7 * 1 * ... from what it emitted itself. */
static void what_it_emits_has_gradients_again(void **state)
{
    (void)state;
    bench     t;
    ipu_value d, dd;
    make(&t);
    ipu_model_gradients(t.m, t.out[1], &t.x, 1, NULL, &d);
    ipu_model_gradients(t.m, d, &t.x, 1, NULL, &dd);
    ipu_model_output(t.m, dd, "dd_x");
    assert_true(read_after_run(t.m, "dd_x") == 7);
    ipu_model_destroy(t.m);
}

static void nobody_asks_where_no_gradient_is_taken(void **state)
{
    (void)state;
    bench t;
    make(&t);
    ipu_model_output(t.m, t.out[0], "y");
    assert_true(read_after_run(t.m, "y") == 15);
    assert_int_equal(t.asked.calls, 0);
    ipu_model_destroy(t.m);
}

static void wrong(ipu_model *m, const ipu_value *d_y, size_t n_y, ipu_value *d_x, size_t n, void *user)
{
    (void)d_y, (void)n_y, (void)n, (void)user;
    d_x[0] = ipu_constant_value(ipu_model_builder(m), IPU_FLOAT, IPU_SHAPE(2), 0);
}

static void expect(ipu_model *m, const char *says)
{
    if (!strstr(ipu_builder_message(ipu_model_builder(m)), says))
        fail_msg("\"%s\" is not in \"%s\"", says, ipu_builder_message(ipu_model_builder(m)));
    ipu_model_destroy(m);
}

static void mistakes_are_told(void **state)
{
    (void)state;
    bench     t;
    ipu_value out, d;
    make(&t);
    ipu_model_custom_gradient(t.m, &t.x, 1, &t.w, 1, wrong, NULL, &out);
    ipu_model_gradients(t.m, out, &t.x, 1, NULL, &d);
    expect(t.m, "float[2] as the gradient of \"x\" double[]: expected that type and shape");
    make(&t);
    ipu_model_if(t.m, ipu_greater(t.b, t.x, t.w));
    ipu_model_custom_gradient(t.m, &t.x, 1, &t.w, 1, wrong, NULL, &out);
    expect(t.m, "outside of branches and loops");
    make(&t);
    ipu_model_custom_gradient(t.m, &t.x, 1, &t.w, 1, NULL, NULL, &out);
    expect(t.m, "expected a function");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_function_says_what_gradients_are),
        cmocka_unit_test(outputs_that_nothing_depends_on_have_none),
        cmocka_unit_test(what_it_emits_has_gradients_again),
        cmocka_unit_test(nobody_asks_where_no_gradient_is_taken),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
