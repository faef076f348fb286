/* Gradients of models against finite differences: a model in double is compiled once and run at many points. */
#ifndef IPU_TESTS_DERIVE_H
#define IPU_TESTS_DERIVE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "ipu/ipu.h"
#include "model/model.h"

static inline ipu_engine *derive_start(ipu_model *m)
{
    ipu_target      target;
    ipu_executable *exe;
    ipu_engine     *e;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    if (ipu_builder_status(ipu_model_builder(m)) != IPU_OK)
        fail_msg("%s", ipu_builder_message(ipu_model_builder(m)));
    if (ipu__model_verify(m) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_model_compile(m, &target, NULL, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_engine_create(exe, NULL, &e) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_executable_release(exe);
    return e;
}

static inline void derive_write(ipu_engine *e, const char *name, const void *data, size_t bytes)
{
    if (ipu_engine_write(e, name, data, bytes) != IPU_OK) fail_msg("%s", ipu_message());
}

static inline void derive_read(ipu_engine *e, const char *name, void *data, size_t bytes)
{
    if (ipu_engine_read(e, name, data, bytes) != IPU_OK) fail_msg("%s", ipu_message());
}

static inline void derive_run(ipu_engine *e)
{
    if (ipu_engine_run(e, 0) != IPU_OK) fail_msg("%s", ipu_message());
}

/* Output "y" at the point where input `name` has these values. */
static inline double derive_at(ipu_engine *e, const char *name, const double *x, size_t n)
{
    double y;
    derive_write(e, name, x, n * sizeof *x);
    derive_run(e);
    derive_read(e, "y", &y, sizeof y);
    return y;
}

/* Input `name` of `n` doubles: output "d_NAME" is the derivative of output "y" at `x`, by central differences. */
static inline void derive_compare(ipu_engine *e, const char *name, const double *x, size_t n,
                                  double tolerance)
{
    const double step  = 1e-6;
    double      *point = malloc(n * sizeof *point), *d = malloc(n * sizeof *d);
    char         label[64];
    snprintf(label, sizeof label, "d_%s", name);
    memcpy(point, x, n * sizeof *point);
    derive_at(e, name, x, n);
    derive_read(e, label, d, n * sizeof *d);
    for (size_t i = 0; i < n; i++) {
        point[i]     = x[i] + step;
        double above = derive_at(e, name, point, n);
        point[i]     = x[i] - step;
        double below = derive_at(e, name, point, n);
        point[i]     = x[i];
        double slope = (above - below) / (2 * step);
        if (!(fabs(slope - d[i]) <= tolerance * (1 + fabs(slope))))
            fail_msg("%s[%zu]: gradient %.9g, finite difference %.9g", label, i, d[i], slope);
    }
    derive_at(e, name, x, n);
    free(point);
    free(d);
}

static inline unsigned derive_draw(unsigned *seed, unsigned n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 10) % n;
}

/* Smooth everywhere, and bounded, so that depth does no harm. */
static inline ipu_value derive_random_op(ipu_builder *b, unsigned *seed, ipu_value x, ipu_value y)
{
    switch (derive_draw(seed, 9)) {
    case 0: return ipu_add(b, x, y);
    case 1: return ipu_tanh(b, ipu_mul(b, x, y));
    case 2: return ipu_sub(b, x, y);
    case 3: return ipu_tanh(b, x);
    case 4: return ipu_sigmoid(b, ipu_add(b, x, y));
    case 5: return ipu_div(b, x, ipu_add(b, ipu_mul(b, y, y), ipu_scalar_like(b, y, 1)));
    case 6: return ipu_tanh(b, ipu_matmul(b, x, y));
    case 7: return ipu_mul(b, x, ipu_exp(b, ipu_neg(b, ipu_mul(b, y, y))));
    default: return ipu_sub(b, x, ipu_reduce_mean(b, y, (int[]){(int)derive_draw(seed, 2)}, 1, true));
    }
}

/* Outputs "y" and "d_NAME" of inputs x[0..n), which are double; then all of it compared at points in
 * [-1, 1] that `seed` tells. */
static inline void derive_check(ipu_model *m, ipu_value y, const ipu_value *x, size_t n,
                                const ipu_gradient_options *options, unsigned seed)
{
    ipu_value d[16];
    double   *point[16];
    char      label[64];
    ipu_model_gradients(m, y, x, n, options, d);
    ipu_model_output(m, y, "y");
    for (size_t i = 0; i < n; i++) {
        snprintf(label, sizeof label, "d_%s", ipu_value_name(x[i]));
        ipu_model_output(m, d[i], label);
    }
    ipu_engine *e = derive_start(m);
    for (size_t i = 0; i < n; i++) {
        size_t count = (size_t)ipu_value_n_elements(x[i]);
        point[i]     = malloc(count * sizeof *point[i]);
        for (size_t k = 0; k < count; k++) {
            seed        = seed * 1664525u + 1013904223u;
            point[i][k] = (double)(seed >> 8) / (1 << 23) - 1;
        }
        derive_write(e, ipu_value_name(x[i]), point[i], count * sizeof *point[i]);
    }
    for (size_t i = 0; i < n; i++) {
        derive_compare(e, ipu_value_name(x[i]), point[i], (size_t)ipu_value_n_elements(x[i]), 1e-6);
        free(point[i]);
    }
    ipu_engine_destroy(e);
}

#endif
