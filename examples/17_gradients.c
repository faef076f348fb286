/* 17: a model, its gradients, and a training loop.
 *
 * Teaches models: inputs, parameters and ops as values; `ipu_model_gradients` appends the ops that compute
 * derivatives, `ipu_model_update` says what a parameter becomes after each run. Nothing here is special to
 * training: gradients are ops like any other, so that they can be looked at, used and differentiated again.
 *
 * Expect:
 *     y = 3.00 x - 1.00
 *     f(2) = 8, f'(2) = 12, f''(2) = 12
 */
#include <string.h>

#include "example.h"

static ipu_engine *start(ipu_model *m)
{
    ipu_target      target;
    ipu_executable *exe;
    ipu_engine     *e;
    CHECK(ipu_builder_status(ipu_model_builder(m)));
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_model_compile(m, &target, NULL, &exe));
    CHECK(ipu_engine_create(exe, NULL, &e));
    ipu_executable_release(exe);
    return e;
}

static float read_scalar(ipu_engine *e, const char *name)
{
    float value;
    CHECK(ipu_engine_read(e, name, &value, sizeof value));
    return value;
}

/* Least squares by gradient descent on points of a line. */
static void fit_a_line(void)
{
    enum { POINTS = 8 };
    ipu_model *m;
    CHECK(ipu_model_create(&m));
    ipu_builder *b     = ipu_model_builder(m);
    ipu_value    x     = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(POINTS), "x");
    ipu_value    y     = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(POINTS), "y");
    ipu_value    w[2]  = {ipu_model_parameter(m, IPU_FLOAT, IPU_SCALAR, NULL, "slope"),
                          ipu_model_parameter(m, IPU_FLOAT, IPU_SCALAR, NULL, "offset")};
    ipu_value    guess = ipu_add(b, ipu_mul(b, w[0], x), w[1]);
    ipu_value    loss  = ipu_mse_loss(b, guess, y, IPU_LOSS_MEAN), dw[2];
    ipu_model_gradients(m, loss, w, 2, NULL, dw);
    for (int i = 0; i < 2; i++)
        ipu_model_update(m, w[i], ipu_sub(b, w[i], ipu_mul(b, dw[i], ipu_scalar_like(b, dw[i], 0.3))));
    ipu_engine *e = start(m);
    ipu_model_destroy(m);

    float xs[POINTS], ys[POINTS];
    for (int i = 0; i < POINTS; i++) {
        xs[i] = (float)(i - 4) / 4;
        ys[i] = 3 * xs[i] - 1;
    }
    CHECK(ipu_engine_write(e, "x", xs, sizeof xs));
    CHECK(ipu_engine_write(e, "y", ys, sizeof ys));
    for (int step = 0; step < 200; step++) CHECK(ipu_engine_run(e, 0));
    printf("y = %.2f x - %.2f\n", read_scalar(e, "slope"), -read_scalar(e, "offset"));
    ipu_engine_destroy(e);
}

/* f(x) = x^3, f'(x) = 3 x^2, f''(x) = 6 x. */
static void differentiate_twice(void)
{
    ipu_model *m;
    CHECK(ipu_model_create(&m));
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SCALAR, "x"), first, second;
    ipu_value    f = ipu_mul(b, ipu_mul(b, x, x), x);
    ipu_model_gradients(m, f, &x, 1, NULL, &first);
    ipu_model_gradients(m, first, &x, 1, NULL, &second);
    ipu_model_output(m, f, "f");
    ipu_model_output(m, first, "first");
    ipu_model_output(m, second, "second");
    ipu_engine *e = start(m);
    ipu_model_destroy(m);
    CHECK(ipu_engine_write(e, "x", &(float){2}, sizeof(float)));
    CHECK(ipu_engine_run(e, 0));
    printf("f(2) = %g, f'(2) = %g, f''(2) = %g\n", read_scalar(e, "f"), read_scalar(e, "first"),
           read_scalar(e, "second"));
    ipu_engine_destroy(e);
}

int main(void)
{
    fit_a_line();
    differentiate_twice();
    return 0;
}
