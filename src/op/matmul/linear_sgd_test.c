/* linear_sgd: repeated calls with one state, parts in any order and concurrently, and new values in place of
 * the old. */
#include "op/call_test.h"
#include "op/matmul/linear_sgd.h"

enum { BATCH = 7, OUT = 14, IN = 83, CALLS = 3 };

typedef struct layer {
    float dy[BATCH][OUT], x[BATCH][IN], w[OUT][IN], momentum[OUT][IN], dx[BATCH][IN];
} layer;

static void fill(float *to, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed  = seed * 1664525u + 1013904223u;
        to[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
}

static void fill_layer(layer *l)
{
    fill(&l->w[0][0], (size_t)OUT * IN, 1);
    fill(&l->momentum[0][0], (size_t)OUT * IN, 2);
}

static void fill_gradients(layer *l, uint32_t call)
{
    fill(&l->dy[0][0], (size_t)BATCH * OUT, 10 + call);
    fill(&l->x[0][0], (size_t)BATCH * IN, 20 + call);
}

static const float rate = 0.125f;

static void get_operands(layer *l, void **operand)
{
    void *const all[IPU__LINEAR_SGD_OPERANDS] = {
        l->dy, l->x, l->w, (void *)(uintptr_t)&rate, NULL, l->momentum, l->w, l->momentum, l->dx};
    memcpy(operand, all, sizeof all);
}

static ipu__kernel_call get_call(const ipu_attribute *attributes, size_t n)
{
    ipu__kernel_value none = {IPU_FLOAT, IPU_SHAPE(0)}, w = {IPU_FLOAT, IPU_SHAPE(OUT, IN)},
                      x = {IPU_FLOAT, IPU_SHAPE(BATCH, IN)};
    return (ipu__kernel_call){
        .def          = &ipu__op_linear_sgd.kernel,
        .attributes   = attributes,
        .n_attributes = n,
        .n_operands   = IPU__LINEAR_SGD_OPERANDS,
        .operand = {{IPU_FLOAT, IPU_SHAPE(BATCH, OUT)}, x, w, {IPU_FLOAT, IPU_SCALAR}, none, w, w, w, x}};
}

static const ipu_attribute attributes[] = {{.name = "momentum", .kind = IPU_ATTRIBUTE_FLOAT, .f = 0.5},
                                           {.name = "input_gradient", .kind = IPU_ATTRIBUTE_INT, .i = 1}};

static void run_parts(const ipu__kernel_call *call, void *state, void *const *operand, void **scratch,
                      const int *order, int n_parts)
{
    const ipu__cpu_impl *impl = &ipu__cpu_impls_of(call->def).at[0];
    for (int i = 0; i < n_parts; i++)
        assert_int_equal(impl->run(call, state, operand, scratch[order[i]], order[i], n_parts), IPU_OK);
}

static void check_same(const float *found, const float *expected, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (fabsf(found[i] - expected[i]) > 2e-5f)
            fail_msg("%s: element %zu is %g, by ref %g", what, i, (double)found[i], (double)expected[i]);
}

static void check_calls(const int *order, int n_parts)
{
    static layer         fast, slow;
    ipu__kernel_call     call = get_call(attributes, IPU__COUNT(attributes));
    const ipu__cpu_impl *impl = &ipu__cpu_impls_of(call.def).at[0];
    void  *state, *scratch[8], *operand[IPU__LINEAR_SGD_OPERANDS], *expected[IPU__LINEAR_SGD_OPERANDS];
    size_t bytes = (impl->scratch_bytes(&call, n_parts) + 63) / 64 * 64;
    assert_int_equal(ipu__op_check(&call), IPU_OK);
    assert_int_equal(impl->prepare(&call, n_parts, &state), IPU_OK);
    for (int i = 0; i < n_parts; i++) assert_non_null(scratch[i] = aligned_alloc(64, bytes));
    fill_layer(&fast);
    fill_layer(&slow);
    get_operands(&fast, operand);
    get_operands(&slow, expected);
    for (uint32_t k = 0; k < CALLS; k++) {
        fill_gradients(&fast, k);
        fill_gradients(&slow, k);
        memset(fast.dx, 0xff, sizeof fast.dx);
        run_parts(&call, state, operand, scratch, order, n_parts);
        call.def->ref(&call, expected);
        check_same(&fast.dx[0][0], &slow.dx[0][0], (size_t)BATCH * IN, "dx");
        check_same(&fast.w[0][0], &slow.w[0][0], (size_t)OUT * IN, "weights");
        check_same(&fast.momentum[0][0], &slow.momentum[0][0], (size_t)OUT * IN, "momentum");
    }
    for (int i = 0; i < n_parts; i++) free(scratch[i]);
    impl->release(state);
}

static void parts_may_run_in_any_order(void **unused)
{
    (void)unused;
    check_calls((int[]){0}, 1);
    check_calls((int[]){0, 1}, 2);
    check_calls((int[]){1, 0}, 2);
    check_calls((int[]){2, 0, 1}, 3);
    check_calls((int[]){5, 1, 0, 4, 2, 3}, 6); /* 14 rows are enough for 4 */
}

/* Two threads: whoever comes last adds up what is left of dx, time after time. */
typedef struct worker {
    const ipu__kernel_call *call;
    void *state, *scratch, *const *operand;
    int                index;
    pthread_barrier_t *both;
    double             worst; /* difference of dx from its value in the first call */
} worker;

enum { TURNS = 2000 };

static void *work(void *data)
{
    worker      *w  = data;
    const float *dx = w->operand[IPU__LINEAR_SGD_DX];
    float        first[BATCH * IN];
    for (int turn = 0; turn < TURNS; turn++) {
        if (w->index == 0) memset(w->operand[IPU__LINEAR_SGD_DX], 0xff, sizeof first);
        pthread_barrier_wait(w->both);
        ipu__cpu_impls_of(w->call->def).at[0].run(w->call, w->state, w->operand, w->scratch, w->index, 2);
        pthread_barrier_wait(w->both);
        if (turn == 0) memcpy(first, dx, sizeof first);
        if (w->index == 0 && memcmp(first, dx, sizeof first) != 0) w->worst = 1;
    }
    return NULL;
}

static void threads_give_the_same_bits_again(void **unused)
{
    (void)unused;
    static layer         l;
    static float         still = 0; /* a rate: weights stay as they are */
    ipu__kernel_call     call  = get_call(attributes, IPU__COUNT(attributes));
    const ipu__cpu_impl *impl  = &ipu__cpu_impls_of(call.def).at[0];
    void                *state, *operand[IPU__LINEAR_SGD_OPERANDS];
    pthread_barrier_t    both;
    pthread_t            thread;
    size_t               bytes = (impl->scratch_bytes(&call, 2) + 63) / 64 * 64;
    worker               workers[2];
    fill_layer(&l);
    fill_gradients(&l, 0);
    get_operands(&l, operand);
    operand[IPU__LINEAR_SGD_RATE] = &still;
    assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
    assert_int_equal(impl->prepare(&call, 2, &state), IPU_OK);
    for (int i = 0; i < 2; i++) {
        workers[i] = (worker){&call, state, aligned_alloc(64, bytes), operand, i, &both, 0};
        assert_non_null(workers[i].scratch);
    }
    assert_int_equal(pthread_create(&thread, NULL, work, &workers[1]), 0);
    work(&workers[0]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(workers[0].worst == 0);
    for (int i = 0; i < 2; i++) free(workers[i].scratch);
    impl->release(state);
    pthread_barrier_destroy(&both);
}

/* x with sixteen rows innermost gives the same bits. */
static void x_may_be_in_lanes(void **unused)
{
    (void)unused;
    enum { N = 100 };
    const call_input in[] = {{IPU_FLOAT, {2, {32, 20}}, NULL}, {IPU_FLOAT, {2, {32, N}}, NULL},
                             {IPU_FLOAT, {2, {20, N}}, NULL},  {IPU_FLOAT, {0}, (const double[]){0.1}},
                             {IPU_FLOAT, {1, {0}}, NULL},      {IPU_FLOAT, {2, {20, N}}, NULL}};
    for (int n_parts = 1; n_parts <= 2; n_parts++) {
        call_made plain  = call_make("linear_sgd", attributes, IPU__COUNT(attributes), in, 6, IPU_FLOAT);
        call_made turned = call_make("linear_sgd", attributes, IPU__COUNT(attributes), in, 6, IPU_FLOAT);
        float    *from = plain.data[IPU__LINEAR_SGD_X], *to = turned.data[IPU__LINEAR_SGD_X];
        for (int i = 0; i < 32; i++)
            for (int k = 0; k < N; k++) to[(i / 16 * N + k) * 16 + i % 16] = from[i * N + k];
        const ipu__cpu_impl *impl = &ipu__cpu_impls_of(plain.call.def).at[0];
        assert_int_equal(impl->layouts(&plain.call, n_parts, IPU__LINEAR_SGD_X).native,
                         IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN) | IPU__LAYOUT_BIT(IPU__LAYOUT_LANES));
        turned.call.layout[IPU__LINEAR_SGD_X] = IPU__LAYOUT_LANES;
        call_run(&plain.call, impl, plain.data, n_parts);
        call_run(&turned.call, impl, turned.data, n_parts);
        for (int k = IPU__LINEAR_SGD_NEW_PARAMETER; k < IPU__LINEAR_SGD_OPERANDS; k++)
            assert_memory_equal(plain.data[k], turned.data[k], plain.bytes[k]);
        call_free(&plain);
        call_free(&turned);
    }
}

static void errors_say_what_was_expected(void **unused)
{
    (void)unused;
    ipu__kernel_call  call = get_call(attributes, IPU__COUNT(attributes));
    ipu__kernel_value out[IPU__LINEAR_SGD_OPERANDS];
    call.operand[IPU__LINEAR_SGD_X].shape.dim[0]++;
    assert_int_equal(ipu__op_linear_sgd.infer(&call, out), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "inner dimensions differ"));
    call = get_call(attributes, IPU__COUNT(attributes));
    call.operand[IPU__LINEAR_SGD_PARAMETER].shape.dim[1]++;
    assert_int_equal(ipu__op_linear_sgd.infer(&call, out), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "\"parameter\""));
    call                                  = get_call(attributes, IPU__COUNT(attributes));
    call.operand[IPU__LINEAR_SGD_DY].type = IPU_HALF;
    assert_int_equal(ipu__op_linear_sgd.infer(&call, out), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "found half"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_may_run_in_any_order),
        cmocka_unit_test(threads_give_the_same_bits_again),
        cmocka_unit_test(x_may_be_in_lanes),
        cmocka_unit_test(errors_say_what_was_expected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
