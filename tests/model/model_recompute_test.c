/* Values computed again between checkpoints: the same bits, less memory. */
#include "support/derive.h"

enum { WIDTH = 64, ROWS = 32, LAYERS = 12, EVERY = 3 };

typedef struct deep {
    ipu_model *m;
    ipu_value  w[LAYERS], x, loss, d[LAYERS];
} deep;

/* LAYERS times something like tanh(h w) h, with dropout; a checkpoint at every EVERY-th. */
static deep build(bool checkpoints)
{
    deep      n = {0};
    ipu_value kept[LAYERS];
    size_t    n_kept = 0;
    float     initial[WIDTH * WIDTH];
    assert_int_equal(ipu_model_create(&n.m), IPU_OK);
    ipu_builder *b = ipu_model_builder(n.m);
    n.x            = ipu_model_input(n.m, IPU_FLOAT, IPU_SHAPE(ROWS, WIDTH), "x");
    ipu_value h    = n.x;
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        for (int k = 0; k < WIDTH * WIDTH; k++) initial[k] = (float)((k * 7 + i * 3) % 31 - 15) / 60;
        n.w[i]      = ipu_model_parameter(n.m, IPU_FLOAT, IPU_SHAPE(WIDTH, WIDTH), initial, name);
        ipu_value z = ipu_tanh(b, ipu_matmul(b, h, n.w[i]));
        h           = ipu_sub(b, ipu_mul(b, z, ipu_exp(b, ipu_neg(b, ipu_mul(b, z, z)))), ipu_mul(b, z, h));
        h           = ipu_dropout(b, h, ipu_model_seed(n.m), 0.25); /* the same elements both times */
        if (i % EVERY == EVERY - 1) kept[n_kept++] = h;
    }
    n.loss                       = ipu_reduce_sum(b, h, NULL, 0, false);
    ipu_gradient_options options = {.checkpoints = kept, .n_checkpoints = checkpoints ? n_kept : 0};
    ipu_model_gradients(n.m, n.loss, n.w, LAYERS, &options, n.d);
    ipu_model_output(n.m, n.loss, "loss");
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        ipu_model_output(n.m, n.d[i], name);
    }
    if (ipu_builder_status(b) != IPU_OK) fail_msg("%s", ipu_builder_message(b));
    if (ipu__model_verify(n.m) != IPU_OK) fail_msg("%s", ipu_message());
    return n;
}

static ipu_executable *compile(ipu_model *m)
{
    ipu_target      target;
    ipu_executable *exe;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    if (ipu_model_optimise(m, IPU_PASS_FOLD | IPU_PASS_CSE | IPU_PASS_DCE) != IPU_OK)
        fail_msg("%s", ipu_message());
    if (ipu_model_compile(m, &target, NULL, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    return exe;
}

static void run(ipu_executable *exe, float d[LAYERS][WIDTH * WIDTH])
{
    ipu_engine *e;
    float       x[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(i % 17 - 8) / 8;
    assert_int_equal(ipu_engine_create(exe, NULL, &e), IPU_OK);
    derive_write(e, "x", x, sizeof x);
    derive_run(e);
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        derive_read(e, name, d[i], sizeof d[i]);
    }
    ipu_engine_destroy(e);
}

static void checkpoints_change_memory_and_no_bit(void **state)
{
    (void)state;
    static float    plain[LAYERS][WIDTH * WIDTH], again[LAYERS][WIDTH * WIDTH];
    deep            a = build(false), b = build(true);
    ipu_executable *exe_a = compile(a.m), *exe_b = compile(b.m);
    int64_t         planned_a, planned_b, unshared;
    ipu_executable_memory(exe_a, &planned_a, &unshared);
    ipu_executable_memory(exe_b, &planned_b, &unshared);
    run(exe_a, plain);
    run(exe_b, again);
    assert_true(plain[0][0] != 0);
    assert_memory_equal(plain, again, sizeof plain);
    /* Parameters and their gradients are there in both. */
    int64_t fixed = 2 * LAYERS * WIDTH * WIDTH * 4;
    print_message("planned: %lld bytes, with checkpoints %lld, of them weights and gradients %lld\n",
                  (long long)planned_a, (long long)planned_b, (long long)fixed);
    assert_true(planned_b - fixed < (planned_a - fixed) * 7 / 10);
    ipu_executable_release(exe_a);
    ipu_executable_release(exe_b);
    ipu_model_destroy(a.m);
    ipu_model_destroy(b.m);
}

static void each_forward_op_is_done_again_at_most_once_here(void **state)
{
    (void)state;
    deep     a = build(false), b = build(true);
    size_t   n_again = 0, n_forward = LAYERS * 8 + 2;
    uint32_t highest = 0;
    for (size_t i = 0; i < b.m->ops.n; i++) {
        n_again += b.m->ops.at[i].recompute != 0;
        if (b.m->ops.at[i].recompute > highest) highest = b.m->ops.at[i].recompute;
    }
    assert_int_equal(b.m->ops.n, a.m->ops.n + n_again);
    assert_true(n_again > n_forward / 2 && n_again < n_forward);
    assert_int_equal(highest, LAYERS / EVERY); /* stretches */
    ipu_model_destroy(a.m);
    ipu_model_destroy(b.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints_change_memory_and_no_bit),
        cmocka_unit_test(each_forward_op_is_done_again_at_most_once_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
