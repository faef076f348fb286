/* What a network and the optimizer's step share is identified by what it is: values may have any names, even
 * those used as labels by programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

enum { FEATURES = 3, CLASSES = 4, MOST = 32 };

static float   pictures[MOST * FEATURES];
static int32_t labels[MOST];

static int fill(void **state)
{
    unsigned seed = 7;
    (void)state;
    for (size_t i = 0; i < MOST * FEATURES; i++) {
        seed        = seed * 1664525u + 1013904223u;
        pictures[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    for (size_t i = 0; i < MOST; i++) labels[i] = (int32_t)(i * 7 % CLASSES);
    return 0;
}

static void run(ipu_executor *x, int64_t n, ipu_status expected)
{
    ipu_array in[] = {{IPU_FLOAT, IPU_SHAPE(n, FEATURES), pictures}, {IPU_INT32, IPU_SHAPE(n), labels}};
    assert_in_range(n, 1, MOST);
    ipu_status status = ipu_executor_run(x, in, 2);
    if (status != expected) fail_msg("%s", ipu_message());
}

typedef struct names {
    const char *x, *w, *other, *count, *bias;
} names;

/* Parameters `w` and `other` of one shape, both trained, and others, with arbitrary names. */
static void named(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    const names *at = user;
    ipu_builder *b  = ipu_model_builder(m);
    ipu_value    w[4];
    const struct {
        const char *name;
        ipu_shape   shape;
    } list[] = {{at->w, IPU_SHAPE(FEATURES, CLASSES)},
                {at->other, IPU_SHAPE(FEATURES, CLASSES)},
                {at->count, IPU_SHAPE(CLASSES)},
                {at->bias, IPU_SHAPE(CLASSES)}};
    for (size_t i = 0; i < 4; i++) {
        w[i] = ipu_model_parameter(m, IPU_FLOAT, list[i].shape, NULL, list[i].name);
        ipu_model_set_initial(m, w[i], (ipu_initial){IPU_INITIAL_UNIFORM, -1, 1});
    }
    ipu_value x = ipu_add(b, ipu_matmul(b, in[0], w[0]), ipu_tanh(b, ipu_matmul(b, in[0], w[1])));
    x           = ipu_log_softmax(b, ipu_add(b, ipu_mul(b, x, w[2]), w[3]), 1);
    if (ipu_nn_is_training(m) && n > 1) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

/* The state after three runs, and the last loss. */
static ipu_npz train_named(names *at, ipu_executor_options options, double *loss)
{
    ipu_module   *module;
    ipu_executor *x;
    ipu_npz       z;
    int64_t       n = 2 * ipu_executor_options_n_batches(&options);
    OK(ipu_module_create(named, at, &module));
    OK(ipu_module_name_inputs(module, (const char *[]){at->x, "labels"}, 2));
    OK(ipu_training_model(
        module, &options,
        &(ipu_nn_training){.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.1}, .max_gradient_norm = 0.5}, &x));
    for (int i = 0; i < 3; i++) run(x, n, IPU_OK);
    OK(ipu_executor_scalar(x, "loss", loss));
    OK(ipu_executor_get_state(x, &z));
    OK(ipu_executor_set_state(x, &z));
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    return z;
}

static void values_may_have_any_names(void **state)
{
    (void)state;
    names plain = {"x", "a", "b", "c", "d"}, odd = {"in:x", "w", "w.gradient", "gradient_count", "sum:loss"};
    const ipu_executor_options rows[] = {
        {.device_iterations = 2},
        {.gradient_accumulation = 4, .running_mean = true},
        {.gradient_accumulation = 4, .running_mean = true, .output_mode = IPU_OUTPUT_SUM},
        {.replicas = 4, .output_mode = IPU_OUTPUT_ALL},
        {.replicas = 4, .gradient_accumulation = 2, .no_fold = true},
        {.gradient_accumulation = 4, .stages = 2, .running_mean = true},
        {.gradient_accumulation = 4, .optimizer_off_chip = true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double  p, q;
        ipu_npz a = train_named(&plain, rows[i], &p), b = train_named(&odd, rows[i], &q);
        if (a.n != b.n || !(p == q))
            fail_msg("row %zu: %zu and %zu arrays, loss %g and %g", i, a.n, b.n, p, q);
        for (size_t k = 0; k < a.n; k++) {
            size_t bytes = ipu_array_bytes(&a.arrays[k].array);
            assert_int_equal(bytes, ipu_array_bytes(&b.arrays[k].array));
            if (memcmp(a.arrays[k].array.data, b.arrays[k].array.data, bytes) != 0)
                fail_msg("row %zu: \"%s\" and \"%s\" differ", i, a.arrays[k].name, b.arrays[k].name);
        }
        ipu_npz_free(&a);
        ipu_npz_free(&b);
    }
}

/* Whether the optimizer is part of the network or a separate model. */
static void names_of_the_optimizers_states_are_taken(void **state)
{
    (void)state;
    names taken = {"w.mean", "w", "b", "c", "d"};
    for (int64_t n = 1; n <= 4; n += 3) {
        ipu_module   *module;
        ipu_executor *x;
        OK(ipu_module_create(named, &taken, &module));
        OK(ipu_module_name_inputs(module, (const char *[]){taken.x, "labels"}, 2));
        OK(ipu_training_model(module, &(ipu_executor_options){.gradient_accumulation = n},
                              &(ipu_nn_training){.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.1}}, &x));
        run(x, 2 * n, IPU_INVALID);
        if (!strstr(ipu_message(), "the name \"w.mean\" is taken")) fail_msg("%s", ipu_message());
        ipu_executor_destroy(x);
        ipu_module_destroy(module);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_may_have_any_names),
        cmocka_unit_test(names_of_the_optimizers_states_are_taken),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
