/* Engines that lack kernels: seed-cnn is compiled for each with other ops in their place, gives the same results, and costs the same on the
 * chip, which is not asked what a host has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "ipu/ipu.h"
#include "op/op.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

enum { BATCH = 16, SIDE = 28, CLASSES = 10, N_STEPS = 4 };

/* ---- engines ---- */

/* The CPU's, without fused kernels. */
static bool has_no_fused(const ipu__kernel_call *call)
{
    return strcmp(call->def->name, "conv_max_pool") != 0
        && strcmp(call->def->name, "conv_max_pool_weight_grad") != 0
        && strcmp(call->def->name, "linear_sgd") != 0;
}

/* Without whatever can be made of others. */
static bool has_the_least(const ipu__kernel_call *call) { return !ipu__op_of(call->def)->compose; }

static ipu__engine_def unfused, least;

static int add_engines(void **state)
{
    (void)state;
    unfused = least  = ipu__cpu_engine;
    unfused.name     = "unfused";
    unfused.supports = has_no_fused;
    least.name       = "least";
    least.supports   = has_the_least;
    return ipu__engine_add(&unfused) && ipu__engine_add(&least) ? 0 : -1;
}

/* ---- seed-cnn on one ---- */

typedef struct trained {
    ipu_module   *module;
    ipu_options  *options;
    ipu_executor *x;
    double        loss[N_STEPS];
} trained;

static void train(const char *engine, trained *t)
{
    ipu_array       in[2];
    ipu_nn_training how = {.optimizer = {.rate = 0.01, .momentum = 0.9}};
    OK(ipu_module_named("seed-cnn", &t->module));
    OK(ipu_options_create(&t->options));
    OK(ipu_options_set(t->options, "engine", engine));
    OK(ipu_training_model(t->module, &(ipu_executor_options){.engine = t->options, .cache_folder = ""}, &how,
                          &t->x));
    OK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(BATCH, 1, SIDE, SIDE), &in[0]));
    OK(ipu_array_create(IPU_INT32, IPU_SHAPE(BATCH), &in[1]));
    for (int64_t i = 0; i < ipu_array_n_elements(&in[0]); i++)
        ((float *)in[0].data)[i] = (float)(i % 17) / 17;
    for (int64_t i = 0; i < BATCH; i++) ((int32_t *)in[1].data)[i] = (int32_t)(i % CLASSES);
    for (int i = 0; i < N_STEPS; i++) {
        OK(ipu_executor_run(t->x, in, 2));
        OK(ipu_executor_scalar(t->x, "loss", &t->loss[i]));
    }
    for (int k = 0; k < 2; k++) ipu_array_free(&in[k]);
    assert_string_equal(ipu_engine_name(ipu_executor_engine(t->x)), engine);
}

static void end(trained *t)
{
    ipu_executor_destroy(t->x);
    ipu_options_destroy(t->options);
    ipu_module_destroy(t->module);
}

static bool runs(const trained *t, const char *name)
{
    ipu_engine_kernel k;
    for (size_t i = 0; ipu_engine_kernel_at(ipu_executor_engine(t->x), i, &k); i++)
        if (strcmp(k.name, name) == 0) return true;
    return false;
}

static void expect_same_weights(trained *a, trained *b)
{
    OK(ipu_executor_copy_weights_to_host(a->x));
    OK(ipu_executor_copy_weights_to_host(b->x));
    for (size_t i = 0; i < ipu_module_n_weights(a->module); i++) {
        const char      *name;
        const ipu_array *x, *y;
        OK(ipu_module_weight_at(a->module, i, &name, &x));
        OK(ipu_module_weight_at(b->module, i, NULL, &y));
        for (int64_t k = 0; k < ipu_array_n_elements(x); k++) {
            double p = (double)((const float *)x->data)[k], q = (double)((const float *)y->data)[k];
            if (!(fabs(p - q) <= 1e-4 * (1e-2 + fabs(p))))
                fail_msg("%s[%d]: %.9g and %.9g", name, (int)k, p, q);
        }
    }
}

static void expect_same_price(trained *a, trained *b)
{
    ipu_cost *x, *y;
    char     *p, *q;
    OK(ipu_executor_cost(a->x, NULL, &x));
    OK(ipu_executor_cost(b->x, NULL, &y));
    OK(ipu_cost_json(x, 0, &p));
    OK(ipu_cost_json(y, 0, &q));
    assert_string_equal(p, q);
    ipu_free(p);
    ipu_free(q);
    ipu_cost_destroy(x);
    ipu_cost_destroy(y);
}

static void check(const ipu__engine_def *engine)
{
    trained cpu, other;
    train("cpu", &cpu);
    train(engine->name, &other);
    assert_true(runs(&cpu, "conv_max_pool") && runs(&cpu, "linear_sgd"));
    ipu_engine_kernel k;
    for (size_t i = 0; ipu_engine_kernel_at(ipu_executor_engine(other.x), i, &k); i++)
        assert_true(engine->supports(&(ipu__kernel_call){.def = &ipu__op_find(k.name)->kernel}));
    for (int i = 0; i < N_STEPS; i++)
        if (!(fabs(cpu.loss[i] - other.loss[i]) <= 1e-5 * fabs(cpu.loss[i])))
            fail_msg("loss %d: %.9g and %.9g", i, cpu.loss[i], other.loss[i]);
    assert_true(cpu.loss[N_STEPS - 1] < cpu.loss[0]);
    expect_same_weights(&cpu, &other);
    expect_same_price(&cpu, &other);
    end(&cpu);
    end(&other);
}

static void without_fused_kernels(void **state)
{
    (void)state;
    check(&unfused);
}

static void without_what_can_be_composed(void **state)
{
    (void)state;
    check(&least);
}

/* What was compiled for another engine may have kernels that this one lacks. */
static void executables_of_others_are_refused(void **state)
{
    (void)state;
    trained     cpu;
    ipu_engine *e;
    train("cpu", &cpu);
    assert_int_equal(ipu__engine_create(&unfused, ipu_executor_executable(cpu.x), NULL, NULL, &e),
                     IPU_UNSUPPORTED);
    assert_null(e);
    assert_non_null(strstr(ipu_message(), "the engine \"unfused\" has no kernel \""));
    end(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_fused_kernels),
        cmocka_unit_test(without_what_can_be_composed),
        cmocka_unit_test(executables_of_others_are_refused),
    };
    return cmocka_run_group_tests(tests, add_engines, NULL);
}
