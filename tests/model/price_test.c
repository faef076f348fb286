/* What is priced is the chip's program, whatever pays on the host that runs it: the batch above which its CPU does better
 * with fused kernels, threads and folded replicas change no price.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/executable.h"
#include "ipu/ipu.h"
#include "train/executor/executor.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

enum { SIDE = 28, CLASSES = 10 };

typedef struct trained {
    ipu_module   *module;
    ipu_options  *engine;
    ipu_executor *x;
    ipu_cost     *cost;
} trained;

/* seed-cnn, run once and priced. `name` of an engine option; NULL: none is set. */
static trained run_seed_cnn(bool trains, int64_t batch, ipu_executor_options o, const char *name,
                            const char *value)
{
    trained   t;
    ipu_array in[2];
    OK(ipu_module_named("seed-cnn", &t.module));
    OK(ipu_options_create(&t.engine));
    if (name) OK(ipu_options_set(t.engine, name, value));
    o.engine = t.engine;
    if (trains)
        OK(ipu_training_model(t.module, &o, NULL, &t.x));
    else
        OK(ipu_inference_model(t.module, &o, &t.x));
    OK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(batch, 1, SIDE, SIDE), &in[0]));
    OK(ipu_array_create(IPU_INT32, IPU_SHAPE(batch), &in[1]));
    for (int64_t i = 0; i < ipu_array_n_elements(&in[0]); i++)
        ((float *)in[0].data)[i] = (float)(i % 17) / 17;
    for (int64_t i = 0; i < batch; i++) ((int32_t *)in[1].data)[i] = (int32_t)(i % CLASSES);
    OK(ipu_executor_run(t.x, in, trains ? 2 : 1));
    OK(ipu_executor_cost(t.x, NULL, &t.cost));
    for (int k = 0; k < 2; k++) ipu_array_free(&in[k]);
    return t;
}

static void end(trained *t)
{
    ipu_cost_destroy(t->cost);
    ipu_executor_destroy(t->x);
    ipu_options_destroy(t->engine);
    ipu_module_destroy(t->module);
}

static int64_t n_supersteps(const ipu_cost *cost)
{
    ipu_cost_step s;
    int64_t       n = 0;
    for (int64_t i = 0; ipu_cost_step_at(cost, i, &s); i++)
        if (strcmp(s.kind, "kernel") == 0 || strcmp(s.kind, "execute") == 0) n += s.count;
    return n;
}

static bool has_step(const ipu_cost *cost, const char *name)
{
    ipu_cost_step s;
    for (int64_t i = 0; ipu_cost_step_at(cost, i, &s); i++)
        if (strcmp(s.name, name) == 0) return true;
    return false;
}

static bool has_host_step(const ipu_cost *cost, const char *name)
{
    ipu_step_time t;
    for (int64_t i = 0; ipu_cost_host_step_at(cost, i, &t); i++)
        if (strcmp(t.name, name) == 0) return t.seconds > 0;
    return false;
}

static bool runs_kernel(const ipu_engine *e, const char *name)
{
    ipu_engine_kernel k;
    for (size_t i = 0; ipu_engine_kernel_at(e, i, &k); i++)
        if (strcmp(k.name, name) == 0) return true;
    return false;
}

/* The same steps with the same figures. */
static void expect_same_price(const ipu_cost *a, const ipu_cost *b)
{
    ipu_cost_step    s, t;
    ipu_cost_summary x, y;
    for (int64_t i = 0; ipu_cost_step_at(a, i, &s); i++) {
        assert_true(ipu_cost_step_at(b, i, &t));
        assert_string_equal(s.name, t.name);
        assert_int_equal(s.count, t.count);
        assert_int_equal(s.cycles.total, t.cycles.total);
        assert_int_equal(s.tile_bytes, t.tile_bytes);
    }
    ipu_cost_get_summary(a, &x);
    ipu_cost_get_summary(b, &y);
    assert_int_equal(x.cycles.total, y.cycles.total);
    assert_int_equal(x.memory_total, y.memory_total);
}

/* 15 to 16 images: the host has a convolution with its pool from there on. 64 to 65 rows: up to there it has a layer's
 * gradients with their update. */
static void supersteps_do_not_depend_on_the_batch(void **unused)
{
    (void)unused;
    static const int64_t batches[] = {15, 16, 64, 65};
    for (int trains = 0; trains < 2; trains++) {
        int64_t first = 0;
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
            trained t = run_seed_cnn(trains, batches[i], (ipu_executor_options){0}, NULL, NULL);
            int64_t n = n_supersteps(t.cost);
            if (i == 0) first = n;
            assert_true(n > 5);
            if (n != first)
                fail_msg("batch %d: %d supersteps; batch %d: %d", (int)batches[0], (int)first,
                         (int)batches[i], (int)n);
            end(&t);
        }
    }
}

/* Else the test above would prove nothing. */
static void the_host_does_run_another_program(void **unused)
{
    (void)unused;
    trained t = run_seed_cnn(true, 16, (ipu_executor_options){0}, NULL, NULL);
    assert_true(runs_kernel(ipu_executor_engine(t.x), "conv_max_pool"));
    assert_true(runs_kernel(ipu_executor_engine(t.x), "linear_sgd"));
    assert_false(has_step(t.cost, "conv_max_pool") || has_step(t.cost, "linear_sgd"));
    assert_true(has_step(t.cost, "conv") && has_step(t.cost, "max_pool") && has_step(t.cost, "sgd"));
    end(&t);
}

static void threads_change_no_price(void **unused)
{
    (void)unused;
    trained one   = run_seed_cnn(true, 16, (ipu_executor_options){0}, "threads", "1");
    trained seven = run_seed_cnn(true, 16, (ipu_executor_options){0}, "threads", "7");
    expect_same_price(one.cost, seven.cost);
    end(&one);
    end(&seven);
}

static void folding_changes_no_price(void **unused)
{
    (void)unused;
    trained folded = run_seed_cnn(true, 32, (ipu_executor_options){.replicas = 4}, NULL, NULL);
    trained apart  = run_seed_cnn(true, 32, (ipu_executor_options){.replicas = 4, .no_fold = true}, NULL,
                                  NULL);
    assert_string_equal(ipu_executor_fold_reason(folded.x), "");
    assert_string_not_equal(ipu_executor_fold_reason(apart.x), "");
    expect_same_price(folded.cost, apart.cost);
    end(&folded);
    end(&apart);
}

/* What devices count for a run is the price of the chip's program, folded replicas and fused kernels or not. */
static void estimates_are_of_the_program_that_is_priced(void **unused)
{
    (void)unused;
    trained t[2];
    for (int k = 0; k < 2; k++) {
        const ipu_executor_options o = {.replicas = 4, .no_fold = k == 1};
        ipu_cost_cycles            cycles;
        t[k] = run_seed_cnn(true, 64, o, "estimate", "true");
        assert_true(ipu_cost_program_at(t[k].cost, 0, &cycles));
        assert_int_equal(ipu_executor_executable(t[k].x)->programs.at[0].cycles, cycles.total);
    }
    assert_true(ipu_executor_executable(t[0].x)->tile_bytes > 0);
    assert_int_equal(ipu_executor_executable(t[0].x)->tile_bytes,
                     ipu_executor_executable(t[1].x)->tile_bytes);
    for (int k = 0; k < 2; k++) end(&t[k]);
}

static ipu_model *conv_and_pool(int64_t images)
{
    ipu_model *m;
    OK(ipu_model_create(&m));
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(images, 1, 12, 12), "x");
    ipu_model_output(m, ipu_max_pool2d(b, ipu_relu(b, ipu_nn_conv(m, x, 4, 3, "c")), 2), "y");
    return m;
}

static void models_are_priced_as_executors_are(void **unused)
{
    (void)unused;
    ipu_target target;
    OK(ipu_target_find("gc200", 1, &target));
    for (int64_t images = 15; images <= 16; images++) {
        ipu_model   *m = conv_and_pool(images);
        ipu_options *options;
        ipu_cost    *cost;
        OK(ipu_options_create(&options));
        OK(ipu_options_set(options, "estimate", "true"));
        ipu_executable *exe;
        OK(ipu_model_compile(m, &target, options, &exe));
        OK(ipu_model_cost(m, &target, NULL, &cost));
        ipu_cost_cycles cycles;
        assert_true(ipu_cost_program_at(cost, 0, &cycles));
        assert_int_equal(exe->programs.at[0].cycles, cycles.total);
        assert_false(has_step(cost, "conv_max_pool"));
        ipu_cost_destroy(cost);
        ipu_executable_release(exe);
        ipu_options_destroy(options);
        ipu_model_destroy(m);
    }
}

static void put_times(trained *t)
{
    ipu_step_time *times;
    size_t         n;
    OK(ipu_engine_step_times(ipu_executor_engine(t->x), &times, &n));
    OK(ipu_cost_set_times(t->cost, times, n));
    ipu_free(times);
}

/* Where the programs differ, what ran is listed apart, and no step has another one's time. */
static void measured_steps_of_another_program_stand_apart(void **unused)
{
    (void)unused;
    trained       t = run_seed_cnn(true, 16, (ipu_executor_options){0}, "profile", "true");
    ipu_cost_step s;
    char         *text;
    put_times(&t);
    assert_true(has_host_step(t.cost, "conv_max_pool") && has_host_step(t.cost, "linear_sgd"));
    for (int64_t i = 0; ipu_cost_step_at(t.cost, i, &s); i++) assert_int_equal(s.host_runs, 0);
    OK(ipu_cost_print(t.cost, IPU_PROFILE_STEPS, &text));
    assert_non_null(strstr(text, "Steps that the host ran"));
    assert_non_null(strstr(text, "kernel conv_max_pool"));
    ipu_free(text);
    OK(ipu_cost_json(t.cost, 0, &text));
    assert_non_null(strstr(text, "\"name\": \"conv_max_pool\""));
    ipu_free(text);
    end(&t);
}

static void measured_steps_of_the_same_program_stand_beside_theirs(void **unused)
{
    (void)unused;
    trained       t = run_seed_cnn(false, 15, (ipu_executor_options){0}, "profile", "true");
    ipu_cost_step s;
    ipu_step_time none;
    int64_t       n = 0;
    put_times(&t);
    assert_false(ipu_cost_host_step_at(t.cost, 0, &none));
    for (int64_t i = 0; ipu_cost_step_at(t.cost, i, &s); i++)
        if (strcmp(s.kind, "kernel") == 0) {
            assert_true(s.host_runs > 0);
            n++;
        }
    assert_true(n > 5);
    end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(supersteps_do_not_depend_on_the_batch),
        cmocka_unit_test(the_host_does_run_another_program),
        cmocka_unit_test(threads_change_no_price),
        cmocka_unit_test(folding_changes_no_price),
        cmocka_unit_test(estimates_are_of_the_program_that_is_priced),
        cmocka_unit_test(models_are_priced_as_executors_are),
        cmocka_unit_test(measured_steps_of_another_program_stand_apart),
        cmocka_unit_test(measured_steps_of_the_same_program_stand_beside_theirs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
