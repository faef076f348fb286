/* Host functions inside models: their arguments, when they are called, what happens if they are missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)
#define ASSERT_SAYS(what)                                                                             \
    do {                                                                                              \
        if (!strstr(ipu_message(), (what))) fail_msg("\"%s\" is not in \"%s\"", what, ipu_message()); \
    } while (0)

/* ---- functions ---- */

typedef struct seen {
    int   n_calls;
    float first[16]; /* the first element, by call */
} seen;

static ipu_status see(void *user, const ipu_array *in, size_t n_in, ipu_array *out, size_t n_out)
{
    seen *s = user;
    (void)out;
    assert_int_equal(n_in, 1);
    assert_int_equal(n_out, 0);
    if (s->n_calls < 16) s->first[s->n_calls] = (float)ipu_array_value(in, 0);
    s->n_calls++;
    return IPU_OK;
}

/* y0 = x0 * k, y1 = the sum of x1. */
static ipu_status scale_and_sum(void *user, const ipu_array *in, size_t n_in, ipu_array *out, size_t n_out)
{
    assert_int_equal(n_in, 2);
    assert_int_equal(n_out, 2);
    assert_int_equal(in[1].type, IPU_INT32);
    assert_int_equal(in[0].shape.rank, 2);
    assert_int_equal(out[1].type, IPU_INT32);
    for (int64_t i = 0; i < ipu_array_n_elements(in); i++)
        ((float *)out[0].data)[i] = *(const float *)user * ((const float *)in[0].data)[i];
    for (int64_t i = *(int32_t *)out[1].data = 0; i < ipu_array_n_elements(&in[1]); i++)
        *(int32_t *)out[1].data += ((const int32_t *)in[1].data)[i];
    return IPU_OK;
}

static ipu_status give_up(void *user, const ipu_array *in, size_t n_in, ipu_array *out, size_t n_out)
{
    (void)in, (void)n_in, (void)out, (void)n_out;
    return user ? ipu_host_fail(user) : IPU_IO;
}

/* ---- models ---- */

static ipu_executable *compile(ipu_model *m)
{
    ipu_target      target;
    ipu_executable *exe;
    OK(ipu_target_find("gc200", 1, &target));
    OK(ipu_model_compile(m, &target, NULL, &exe));
    ipu_model_destroy(m);
    return exe;
}

static ipu_engine *engine_of(ipu_model *m)
{
    ipu_engine     *e;
    ipu_executable *exe = compile(m);
    OK(ipu_engine_create(exe, NULL, &e));
    ipu_executable_release(exe);
    return e;
}

/* Outputs "a" and "b": what two functions make of x = {1, 2}. */
static ipu_model *two_functions(const char *first, const char *second)
{
    ipu_model *m;
    OK(ipu_model_create(&m));
    ipu_builder *b      = ipu_model_builder(m);
    ipu_value    x      = ipu_constant_data(b, IPU_FLOAT, IPU_SHAPE(1, 2), (float[]){1, 2});
    ipu_value    n      = ipu_constant_data(b, IPU_INT32, IPU_SHAPE(3), (int32_t[]){4, 5, 6});
    ipu_array    like[] = {{IPU_FLOAT, IPU_SHAPE(1, 2), NULL}, {IPU_INT32, IPU_SCALAR, NULL}};
    ipu_value    y[2], z[2];
    ipu_host_call(b, first, (ipu_value[]){x, n}, 2, like, y, 2);
    ipu_host_call(b, second, (ipu_value[]){x, n}, 2, like, z, 2);
    ipu_model_output(m, y[0], "a");
    ipu_model_output(m, z[0], "b");
    ipu_model_output(m, z[1], "sum");
    return m;
}

/* ---- tests ---- */

static void each_op_calls_its_own_function(void **state)
{
    (void)state;
    float   three = 3, five = 5, a[2], b[2];
    int32_t sum;
    OK(ipu_host_register("by three", scale_and_sum, &three));
    OK(ipu_host_register("by five", scale_and_sum, &five));
    ipu_engine *e = engine_of(two_functions("by three", "by five"));
    for (int run = 0; run < 2; run++) {
        OK(ipu_engine_run(e, 0));
        OK(ipu_engine_read(e, "a", a, sizeof a));
        OK(ipu_engine_read(e, "b", b, sizeof b));
        OK(ipu_engine_read(e, "sum", &sum, sizeof sum));
        assert_true(a[0] == 3 && a[1] == 6 && b[0] == 5 && b[1] == 10 && sum == 15);
    }
    ipu_engine_destroy(e);
    ipu_host_unregister("by three");
    ipu_host_unregister("by five");
}

static void a_function_that_fails_ends_the_run_with_its_words(void **state)
{
    (void)state;
    char why[] = "no more rows";
    OK(ipu_host_register("gives up", give_up, why));
    ipu_engine *e = engine_of(two_functions("copy", "gives up"));
    assert_int_equal(ipu_engine_run(e, 0), IPU_ABORTED);
    ASSERT_SAYS("host function \"gives up\": no more rows");
    ipu_engine_destroy(e);
    ipu_host_unregister("gives up");
    OK(ipu_host_register("gives up", give_up, NULL));
    e = engine_of(two_functions("copy", "gives up"));
    assert_int_equal(ipu_engine_run(e, 0), IPU_IO);
    ASSERT_SAYS("host function \"gives up\": a file could not be read");
    ipu_engine_destroy(e);
    ipu_host_unregister("gives up");
}

static void an_executable_needs_its_functions(void **state)
{
    (void)state;
    float           two = 2, a[2];
    ipu_engine     *e   = NULL;
    ipu_executable *exe = compile(two_functions("doubles", "copy"));
    assert_int_equal(ipu_engine_create(exe, NULL, &e), IPU_NOT_FOUND);
    ASSERT_SAYS("host function \"doubles\" is not registered in this process");
    OK(ipu_host_register("doubles", scale_and_sum, &two));
    OK(ipu_engine_create(exe, NULL, &e));
    OK(ipu_engine_run(e, 0));
    OK(ipu_engine_read(e, "a", a, sizeof a));
    assert_true(a[0] == 2 && a[1] == 4);
    ipu_host_unregister("doubles");
    assert_int_equal(ipu_engine_run(e, 0), IPU_NOT_FOUND);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
}

static void a_name_is_one_function(void **state)
{
    (void)state;
    float a = 1, b = 2;
    OK(ipu_host_register("f", scale_and_sum, &a));
    OK(ipu_host_register("f", scale_and_sum, &a));
    assert_int_equal(ipu_host_register("f", scale_and_sum, &b), IPU_INVALID);
    ASSERT_SAYS("\"f\" is another function already");
    assert_int_equal(ipu_host_register("copy", see, NULL), IPU_INVALID);
    assert_int_equal(ipu_host_register("", see, NULL), IPU_INVALID);
    assert_int_equal(ipu_host_register("g", NULL, NULL), IPU_INVALID);
    assert_true(ipu_host_is_registered("f") && !ipu_host_is_registered("g")
                && ipu_host_is_registered("copy"));
    ipu_host_unregister("f");
    ipu_host_unregister("f");
    assert_false(ipu_host_is_registered("f"));
}

/* loss = sum(show(w * 3) * 2), w = {1, 2}: values {3, 6}, gradient 2. */
static void values_and_gradients_are_shown(void **state)
{
    (void)state;
    seen       value = {0}, gradient = {0};
    ipu_model *m;
    OK(ipu_host_register("value", see, &value));
    OK(ipu_host_register("gradient", see, &gradient));
    OK(ipu_model_create(&m));
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(2), (float[]){1, 2}, "w");
    ipu_value    y = ipu_host_show(b, ipu_mul(b, w, ipu_scalar_like(b, w, 3)), "value", "gradient");
    ipu_host_show(b, y, "value", NULL); /* nobody uses it */
    y = ipu_mul(b, y, ipu_scalar_like(b, y, 2));
    ipu_nn_loss(m, ipu_reduce_sum(b, y, NULL, 0, false), "loss");
    ipu_nn_train_with(m, &(ipu_nn_training){.optimizer = {.rate = 0.1}});
    ipu_engine *e = engine_of(m);
    OK(ipu_engine_run(e, 0));
    OK(ipu_engine_run(e, 0));
    assert_int_equal(value.n_calls, 2);
    assert_int_equal(gradient.n_calls, 2);
    assert_true(value.first[0] == 3 && gradient.first[0] == 2);
    assert_true(value.first[1] > 1.1F && value.first[1] < 1.3F); /* 3 * (1 - 0.1 * 6) */
    ipu_engine_destroy(e);
    ipu_host_unregister("value");
    ipu_host_unregister("gradient");
}

/* Carried from 1: doubled in each of 3 turns. */
static void a_loop_shows_each_turn(void **state)
{
    (void)state;
    seen       s = {0};
    ipu_model *m;
    ipu_value  inside, index, after;
    OK(ipu_host_register("turns", see, &s));
    OK(ipu_model_create(&m));
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_constant_value(b, IPU_FLOAT, IPU_SHAPE(4), 1);
    ipu_model_loop(m, 3, IPU_NO_VALUE, &x, 1, &inside, &index);
    ipu_value next = ipu_host_show(b, ipu_add(b, inside, inside), "turns", NULL);
    ipu_model_yield(m, &next, 1);
    ipu_model_end(m, &after, 1);
    ipu_model_output(m, after, "after");
    ipu_engine *e = engine_of(m);
    OK(ipu_engine_run(e, 0));
    assert_int_equal(s.n_calls, 3);
    assert_true(s.first[0] == 2 && s.first[1] == 4 && s.first[2] == 8);
    ipu_engine_destroy(e);
    ipu_host_unregister("turns");
}

/* ---- executors ---- */

static ipu_status times(void *user, const ipu_array *in, size_t n_in, ipu_array *out, size_t n_out)
{
    (void)n_in, (void)n_out;
    for (int64_t i = 0; i < ipu_array_n_elements(in); i++)
        ((float *)out->data)[i] = *(const float *)user * ((const float *)in->data)[i];
    return IPU_OK;
}

static void call_by_name(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_value y;
    (void)n;
    ipu_array like = {ipu_value_type(in[0]), ipu_value_shape(in[0]), NULL};
    ipu_host_call(ipu_model_builder(m), user, in, 1, &like, &y, 1);
    ipu_model_output(m, y, "y");
}

/* What is compiled for one function, replicas and all, is not found in the cache for another. */
static void cached_executables_keep_functions_apart(void **state)
{
    (void)state;
    static const char *const names[] = {"times 3", "times 5", "times 3"};
    float                    k[] = {3, 5}, x[] = {1, 2, 3, 4};
    char                     cache[] = "/tmp/ipu-host-XXXXXX";
    const ipu_array          in      = {IPU_FLOAT, IPU_SHAPE(4), x};
    assert_non_null(mkdtemp(cache));
    OK(ipu_host_register(names[0], times, &k[0]));
    OK(ipu_host_register(names[1], times, &k[1]));
    for (int i = 0; i < 3; i++) {
        ipu_executor_options options = {.cache_folder = cache, .replicas = 2, .device_iterations = 2};
        ipu_module          *module;
        ipu_executor        *model;
        bool                 was_cached;
        OK(ipu_module_create(call_by_name, (void *)names[i], &module));
        OK(ipu_inference_model(module, &options, &model));
        OK(ipu_executor_run(model, &in, 1));
        const float *y = ipu_executor_output(model, "y")->data;
        for (int j = 0; j < 4; j++) assert_true(y[j] == k[i % 2] * x[j]);
        ipu_executor_compile_seconds(model, &was_cached);
        assert_int_equal(was_cached, i == 2);
        ipu_executor_destroy(model);
        ipu_module_destroy(module);
    }
    ipu_host_unregister(names[0]);
    ipu_host_unregister(names[1]);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", cache);
    assert_int_equal(system(command), 0);
}

static void mistakes_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *attributes_types;
        int64_t     shapes[4];
        size_t      n;
        const char *says;
    } wrong[] = {{"float", {1}, 1, "a rank of 0"},
                 {"float", {1, 2, 0}, 3, "more shapes than \"types\""},
                 {"floot", {1, 2}, 2, "no type \"floot\""},
                 {"float float", {1, 2}, 2, "a rank of 0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ipu_model *m;
        ipu_value  out;
        OK(ipu_model_create(&m));
        ipu_attribute attributes[] = {
            {.name = "function", .kind = IPU_ATTRIBUTE_TEXT, .text = "copy"},
            {.name = "types", .kind = IPU_ATTRIBUTE_TEXT, .text = wrong[i].attributes_types},
            {.name = "shapes", .kind = IPU_ATTRIBUTE_INTS, .ints = wrong[i].shapes, .n_ints = wrong[i].n}};
        ipu_emit(ipu_model_builder(m), "host_call", attributes, 3, NULL, 0, &out, 1);
        if (!strstr(ipu_builder_message(ipu_model_builder(m)), wrong[i].says))
            fail_msg("\"%s\" is not in \"%s\"", wrong[i].says, ipu_builder_message(ipu_model_builder(m)));
        ipu_model_destroy(m);
    }
    ipu_model *m;
    ipu_value  out[9];
    ipu_array  like[9];
    for (int i = 0; i < 9; i++) like[i] = (ipu_array){IPU_FLOAT, IPU_SCALAR, NULL};
    OK(ipu_model_create(&m));
    ipu_host_call(ipu_model_builder(m), "copy", NULL, 0, like, out, 9);
    assert_non_null(strstr(ipu_builder_message(ipu_model_builder(m)), "1 to 8 outputs, found 9 outputs"));
    assert_int_equal(out[8].id, 0);
    ipu_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_op_calls_its_own_function),
        cmocka_unit_test(a_function_that_fails_ends_the_run_with_its_words),
        cmocka_unit_test(an_executable_needs_its_functions),
        cmocka_unit_test(a_name_is_one_function),
        cmocka_unit_test(values_and_gradients_are_shown),
        cmocka_unit_test(a_loop_shows_each_turn),
        cmocka_unit_test(cached_executables_keep_functions_apart),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
