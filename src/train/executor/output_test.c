/* Output modes of executors, and where outputs go. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

static ipu_module *module_of(ipu_forward_fn fn)
{
    ipu_module *module;
    OK(ipu_module_create(fn, NULL, &module));
    return module;
}

static void count(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)n;
    (void)user;
    ipu_model_output(m, ipu_mul(b, in[0], ipu_scalar_like(b, in[0], 10)), "tens");
    ipu_model_output(m, ipu_reduce_sum(b, in[0], NULL, 0, false), "sum");
}

static void expect(const ipu_executor *x, const char *name, ipu_shape shape, const float *values)
{
    const ipu_array *a = ipu_executor_output(x, name);
    assert_non_null(a);
    assert_int_equal(a->shape.rank, shape.rank);
    for (int i = 0; i < shape.rank; i++) assert_int_equal(a->shape.dim[i], shape.dim[i]);
    assert_memory_equal(a->data, values, ipu_array_bytes(a));
}

static void output_modes_give_what_poptorch_gives(void **state)
{
    (void)state;
    ipu_module *module = module_of(count);
    float       data[] = {1, 2, 3, 4, 5, 6, 7, 8};
    ipu_array   in     = {IPU_FLOAT, IPU_SHAPE(8), data};
    const struct {
        ipu_executor_options options;
        ipu_shape            tens, sum;
        float                tens_are[8], sum_is[4];
    } rows[] = {
        {{.device_iterations = 4}, {1, {8}}, {1, {4}}, {10, 20, 30, 40, 50, 60, 70, 80}, {3, 7, 11, 15}},
        {{.device_iterations = 2, .replicas = 2},
         {1, {8}},
         {1, {4}},
         {10, 20, 30, 40, 50, 60, 70, 80},
         {3, 7, 11, 15}},
        {{.device_iterations = 4, .output_mode = IPU_OUTPUT_EVERY_N, .output_period = 2},
         {1, {4}},
         {1, {2}},
         {30, 40, 70, 80},
         {7, 15}},
        {{.device_iterations = 4, .output_mode = IPU_OUTPUT_FINAL}, {1, {2}}, {0, {0}}, {70, 80}, {15}},
        {{.device_iterations = 2, .replicas = 2, .output_mode = IPU_OUTPUT_FINAL},
         {1, {4}},
         {1, {2}},
         {50, 60, 70, 80},
         {11, 15}},
        {{.device_iterations = 4, .output_mode = IPU_OUTPUT_SUM}, {1, {2}}, {0, {0}}, {160, 200}, {36}},
        {{.device_iterations = 2, .replicas = 2, .output_mode = IPU_OUTPUT_SUM},
         {1, {4}},
         {1, {2}},
         {60, 80, 100, 120},
         {14, 22}},
        {{.device_iterations = 4, .output_mode = IPU_OUTPUT_MEAN}, {1, {2}}, {0, {0}}, {40, 50}, {9}},
        {{.device_iterations = 2, .replicas = 2, .output_mode = IPU_OUTPUT_MEAN},
         {1, {4}},
         {1, {2}},
         {30, 40, 50, 60},
         {7, 11}},
        {{.device_iterations = 2, .replicas = 2, .output_mode = IPU_OUTPUT_MEAN, .no_fold = true},
         {1, {4}},
         {1, {2}},
         {30, 40, 50, 60},
         {7, 11}},
        {{.device_iterations = 4, .replicas = 2, .input_group_size = 2, .output_mode = IPU_OUTPUT_FINAL},
         {1, {4}},
         {1, {2}},
         {70, 80, 70, 80},
         {15, 15}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ipu_executor *x;
        OK(ipu_inference_model(module, &rows[i].options, &x));
        for (int again = 0; again < 2; again++) {
            OK(ipu_executor_run(x, &in, 1));
            expect(x, "tens", rows[i].tens, rows[i].tens_are);
            expect(x, "sum", rows[i].sum, rows[i].sum_is);
        }
        ipu_executor_destroy(x);
    }
    ipu_module_destroy(module);
}

static void both(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)n, (void)user;
    ipu_model_output(m, ipu_relu(ipu_model_builder(m), in[0]), "shared");
    ipu_model_output(m, ipu_relu(ipu_model_builder(m), in[1]), "own");
}

/* Of four replicas, in groups of two; two batches of each. */
static void groups_share_all_inputs_but_the_last(void **state)
{
    (void)state;
    float           x[4] = {0, 1, 2, 3}, z[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const ipu_array in[2] = {{IPU_FLOAT, IPU_SHAPE(4), x}, {IPU_FLOAT, IPU_SHAPE(8), z}};
    for (int i = 0; i < 4; i++) {
        bool                       is_orthogonal = i % 2 == 1;
        const ipu_executor_options options       = {.device_iterations = 2,
                                                    .replicas          = 4,
                                                    .input_group_size  = 2,
                                                    .orthogonal_inputs = is_orthogonal,
                                                    .n_own_inputs      = 1,
                                                    .no_fold           = i >= 2};
        ipu_module                *module        = module_of(both);
        ipu_executor              *run;
        size_t                     n;
        OK(ipu_inference_model(module, &options, &run));
        ipu_executor_keep_times(run, true);
        for (int again = 0; again < 2; again++) {
            OK(ipu_executor_run(run, in, 2));
            assert_memory_equal(ipu_executor_output(run, "shared")->data,
                                is_orthogonal ? ((float[]){0, 1, 0, 1, 2, 3, 2, 3})
                                              : ((float[]){0, 0, 1, 1, 2, 2, 3, 3}),
                                sizeof z);
            assert_memory_equal(ipu_executor_output(run, "own")->data, z, sizeof z);
        }
        assert_non_null(ipu_executor_input_times(run, 0, &n));
        assert_int_equal(n, 4);
        assert_non_null(ipu_executor_input_times(run, 1, &n));
        assert_int_equal(n, 8);
        ipu_executor_destroy(run);
        ipu_module_destroy(module);
    }
}

/* Numbers of 16 bits whose sum is none, whole numbers, and a flag. */
static void of_types(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)n;
    ipu_model_output(m, ipu_cast(b, in[0], IPU_HALF), "half");
    ipu_model_output(m, ipu_cast(b, in[0], IPU_BFLOAT16), "bfloat16");
    ipu_model_output(m, ipu_cast(b, in[0], IPU_INT32), "whole");
    if (user) ipu_model_output(m, ipu_greater(b, in[0], ipu_scalar_like(b, in[0], 0)), "flag");
}

static void means_are_of_the_outputs_type(void **state)
{
    (void)state;
    enum { N = 1000 };
    static float               data[2 * N];
    ipu_module                *module  = module_of(of_types);
    ipu_array                  in      = {IPU_FLOAT, IPU_SHAPE(2 * N), data};
    const ipu_executor_options options = {.device_iterations = N, .output_mode = IPU_OUTPUT_MEAN};
    ipu_executor              *x;
    for (int i = 0; i < N; i++) {
        data[2 * i]     = (float)(i % 2 ? 102 : 100); /* 101 in the mean; 101000 is no half */
        data[2 * i + 1] = i == 0 ? -1 : 0;
    }
    OK(ipu_inference_model(module, &options, &x));
    OK(ipu_executor_run(x, &in, 1));
    const ipu_half *half = ipu_executor_output(x, "half")->data;
    assert_true(ipu_half_to_float(half[0]) == 101 && fabsf(ipu_half_to_float(half[1]) + 0.001f) < 1e-5f);
    const ipu_bfloat16 *brain = ipu_executor_output(x, "bfloat16")->data;
    assert_true(ipu_bfloat16_to_float(brain[0]) == 101
                && fabsf(ipu_bfloat16_to_float(brain[1]) + 0.001f) < 1e-5f);
    assert_int_equal(((const int32_t *)ipu_executor_output(x, "whole")->data)[0], 101);
    assert_int_equal(((const int32_t *)ipu_executor_output(x, "whole")->data)[1], 0);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    OK(ipu_module_create(of_types, &x, &module));
    OK(ipu_inference_model(module, &options, &x));
    assert_int_equal(ipu_executor_run(x, &in, 1), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "\"flag\" is bool"));
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

static void outputs_go_where_they_are_placed(void **state)
{
    (void)state;
    static const ipu_output_mode modes[]        = {IPU_OUTPUT_ALL, IPU_OUTPUT_FINAL, IPU_OUTPUT_SUM};
    static const float           expected[3][8] = {{10, 20, 30, 40, 50, 60, 70, 80}, {70, 80}, {160, 200}};
    float                        data[]         = {1, 2, 3, 4, 5, 6, 7, 8};
    ipu_array                    in             = {IPU_FLOAT, IPU_SHAPE(8), data};
    for (int i = 0; i < 3; i++) {
        ipu_executor_options options = {.device_iterations = 4, .output_mode = modes[i]};
        ipu_module          *module  = module_of(count);
        ipu_executor        *x;
        float                here[8] = {0};
        OK(ipu_inference_model(module, &options, &x));
        assert_int_equal(ipu_executor_place_output(x, 0, here), IPU_INVALID);
        OK(ipu_executor_compile(x, &in, 1));
        const ipu_array *tens = ipu_executor_output(x, "tens");
        const void      *own  = tens->data;
        OK(ipu_executor_place_output(x, 0, here));
        assert_ptr_equal(tens->data, here);
        OK(ipu_executor_run(x, &in, 1));
        assert_memory_equal(here, expected[i], sizeof here);
        OK(ipu_executor_place_output(x, 0, NULL));
        memset(here, 0, sizeof here);
        OK(ipu_executor_run(x, &in, 1));
        assert_ptr_equal(tens->data, own);
        assert_true(here[0] == 0 && ((const float *)own)[0] == expected[i][0]);
        OK(ipu_executor_place_output(x, 0, here)); /* never freed by the executor */
        ipu_executor_destroy(x);
        ipu_module_destroy(module);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_modes_give_what_poptorch_gives),
        cmocka_unit_test(groups_share_all_inputs_but_the_last),
        cmocka_unit_test(means_are_of_the_outputs_type),
        cmocka_unit_test(outputs_go_where_they_are_placed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
