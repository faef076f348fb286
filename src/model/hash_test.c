/* Hashes of models: equal for models built alike, different for every change that affects the executable. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "ipu/ipu.h"
#include "model/model.h"

typedef struct change {
    int64_t     stride, n_out;
    float       first;
    double      scale;
    uint32_t    seed;
    const char *output, *parameter;
    bool        trains;
} change;

static const change plain = {1, 4, 1, 2, 42, "y", "p", false};

static ipu__hash128 hash_of(change c)
{
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    ipu_model_set_seed(m, c.seed);
    ipu_builder *b    = ipu_model_builder(m);
    float        p[4] = {c.first, 2, 3, 4};
    ipu_value    x    = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(1, 3, 8, 8), "x");
    ipu_value    y    = ipu_nn_conv_with(m, x, c.n_out, 3, (ipu_nn_options){.stride = c.stride}, "c");
    ipu_value    w    = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(4, 1, 1), p, c.parameter);
    if (c.n_out == 4) y = ipu_mul(b, y, w);
    y = ipu_mul(b, y, ipu_scalar_like(b, y, c.scale));
    ipu_model_output(m, y, c.output);
    if (c.trains) ipu_nn_train(m, ipu_reduce_mean(b, y, NULL, 0, false), (ipu_nn_optimizer){.rate = 0.1});
    assert_int_equal(ipu_builder_status(b), IPU_OK);
    ipu__hash128 hash;
    assert_int_equal(ipu__model_hash(m, &hash), IPU_OK);
    ipu_model_destroy(m);
    return hash;
}

static void what_is_built_alike_has_one_hash(void **state)
{
    (void)state;
    ipu__hash128 a = hash_of(plain), b = hash_of(plain);
    assert_memory_equal(&a, &b, sizeof a);
}

static void every_change_that_is_compiled_changes_the_hash(void **state)
{
    (void)state;
    change list[9];
    for (int i = 0; i < 9; i++) list[i] = plain;
    list[1].stride    = 2;
    list[2].n_out     = 5;
    list[3].first     = 1.5f;
    list[4].scale     = 3;
    list[5].seed      = 43;
    list[6].output    = "z";
    list[7].parameter = "q";
    list[8].trains    = true;
    ipu__hash128 found[9];
    for (int i = 0; i < 9; i++) {
        found[i] = hash_of(list[i]);
        for (int k = 0; k < i; k++)
            if (memcmp(&found[i], &found[k], sizeof *found) == 0)
                fail_msg("changes %d and %d have one hash", k, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_built_alike_has_one_hash),
        cmocka_unit_test(every_change_that_is_compiled_changes_the_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
