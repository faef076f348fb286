/* Random models before and after the passes: every output is the same, bit for bit.
 *
 * A model is evaluated by folding: inputs are made constants, and the ops' references compute the rest. Some
 * are also run by the engine, both fused and unfused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "model/pass/pass.h"

enum { N_MODELS = 300, N_RUN = 100, N_OPS = 40, N_INPUTS = 5, ROWS = 4, COLUMNS = 6 };

/* ---- making ---- */

typedef struct maker {
    ipu_model *m;
    unsigned   seed;
    IPU__ARRAY(ipu_value) values; /* floating, of one of the shapes below */
} maker;

static int below(maker *k, int n) { return (int)((unsigned)rand_r(&k->seed) >> 4) % n; }

static ipu_value pick(maker *k)
{
    int n = (int)k->values.n; /* prefers recent ones: chains rather than bushes */
    return k->values.at[below(k, 3) ? n - 1 - below(k, n < 6 ? n : 6) : below(k, n)];
}

static ipu_value emit(maker *k, const char *op, const ipu_attribute *a, size_t n, ipu_value x, ipu_value y,
                      ipu_value z)
{
    const ipu_value in[] = {x, y, z};
    return ipu__emit1(&k->m->base, op, a, n, in, z.id ? 3 : y.id ? 2 : 1);
}

#define NO IPU_NO_VALUE

static ipu_value unary(maker *k)
{
    static const char *const names[] = {"relu", "neg", "abs", "tanh", "sigmoid", "square", "exp"};
    return emit(k, names[below(k, 7)], NULL, 0, emit(k, "tanh", NULL, 0, pick(k), NO, NO), NO, NO);
}

static ipu_value binary(maker *k)
{
    static const char *const names[] = {"add", "sub", "mul", "maximum", "minimum"};
    return emit(k, names[below(k, 5)], NULL, 0, pick(k), pick(k), NO);
}

static ipu_value choice(maker *k)
{
    ipu_value x = pick(k), y = pick(k);
    return emit(k, "where", NULL, 0, emit(k, "greater", NULL, 0, x, y, NO), y, x);
}

static ipu_value through_half(maker *k)
{
    ipu_attribute half = IPU_TEXT_ATTRIBUTE("to", "half"), full = IPU_TEXT_ATTRIBUTE("to", "float");
    ipu_value     x = emit(k, "cast", &half, 1, pick(k), NO, NO);
    if (below(k, 2)) x = emit(k, "add", NULL, 0, x, x, NO);
    return emit(k, "cast", &full, 1, x, NO, NO);
}

static ipu_value neutral(maker *k)
{
    static const char *const names[] = {"sub", "mul", "div"};
    int                      at      = below(k, 3);
    ipu_value                x       = pick(k);
    return emit(k, names[at], NULL, 0, x, ipu_scalar_like(&k->m->base, x, at > 0), NO);
}

static ipu_value number(maker *k)
{
    ipu_value x = ipu_constant_value(&k->m->base, IPU_FLOAT, IPU_SHAPE(COLUMNS), below(k, 3) - 1.5);
    return below(k, 2) ? x : emit(k, "add", NULL, 0, x, x, NO);
}

/* Broadcasts any shape to a matrix. */
static ipu_value matrix(maker *k) { return emit(k, "add", NULL, 0, pick(k), k->values.at[0], NO); }

static ipu_value product(maker *k)
{
    const int64_t swap[] = {1, 0};
    ipu_value     x = matrix(k), y = matrix(k);
    ipu_attribute perm = IPU__INTS("perm", swap, 2), flag = IPU_INT_ATTRIBUTE("transpose_b", 1);
    ipu_value     z = below(k, 2) ? emit(k, "matmul", &flag, 1, x, y, NO)
                                  : emit(k, "matmul", NULL, 0, x, emit(k, "transpose", &perm, 1, y, NO, NO), NO);
    ipu_value     w = emit(k, "matmul", NULL, 0, z, k->values.at[0], NO); /* [ROWS,ROWS] x [ROWS,COLUMNS] */
    return emit(k, "tanh", NULL, 0, emit(k, "add", NULL, 0, w, pick(k), NO), NO, NO);
}

static ipu_value round_about(maker *k)
{
    const int64_t flat[] = {ROWS * COLUMNS}, swap[] = {1, 0}, whole[] = {ROWS, COLUMNS};
    ipu_attribute to_flat = IPU__INTS("shape", flat, 1), perm = IPU__INTS("perm", swap, 2),
                  back = IPU__INTS("shape", whole, 2);
    ipu_value x        = matrix(k);
    if (below(k, 2)) return emit(k, "reshape", &back, 1, emit(k, "reshape", &to_flat, 1, x, NO, NO), NO, NO);
    return emit(k, "transpose", &perm, 1, emit(k, "transpose", &perm, 1, x, NO, NO), NO, NO);
}

static ipu_value reduced(maker *k)
{
    const int64_t axes[] = {0};
    ipu_attribute with[] = {IPU__INTS("axes", axes, 1), IPU_INT_ATTRIBUTE("keep_dims", below(k, 2))};
    return emit(k, below(k, 2) ? "reduce_sum" : "reduce_max", with, 2, matrix(k), NO, NO);
}

/* One row of a matrix, or a zero-padded row. */
static ipu_value row(maker *k)
{
    int64_t       at = below(k, ROWS), end = at + 1, axis = 0, before[] = {at, 0}, after[] = {ROWS - end, 0};
    ipu_attribute cut[]    = {IPU__INTS("begin", &at, 1), IPU__INTS("end", &end, 1),
                              IPU__INTS("axes", &axis, 1)};
    ipu_attribute around[] = {IPU__INTS("before", before, 2), IPU__INTS("after", after, 2)};
    ipu_value     x        = emit(k, "slice", cut, 3, matrix(k), NO, NO);
    return below(k, 2) ? x : emit(k, "pad", around, 2, x, NO, NO);
}

static ipu_value again(maker *k)
{
    ipu_value x = pick(k), y = pick(k);
    emit(k, "add", NULL, 0, x, y, NO);
    return emit(k, "add", NULL, 0, y, x, NO);
}

/* `products`: also use matmuls, whose sums another implementation may compute in another order. */
static void make(maker *k, unsigned seed, bool products)
{
    static ipu_value (*const ways[])(maker *) = {unary,   unary,        binary, binary,  binary,
                                                 choice,  through_half, number, neutral, round_about,
                                                 reduced, again,        row,    row,     product};
    static const ipu_shape shapes[N_INPUTS]   = {
          {2, {ROWS, COLUMNS}}, {2, {ROWS, COLUMNS}}, {1, {COLUMNS}}, {2, {1, COLUMNS}}, {0, {0}}};
    *k = (maker){.seed = seed};
    assert_int_equal(ipu_model_create(&k->m), IPU_OK);
    for (int i = 0; i < N_INPUTS; i++) {
        char name[] = {'x', (char)('0' + i), 0};
        assert_true(ipu__push(&k->values, ipu_model_input(k->m, IPU_FLOAT, shapes[i], name)));
    }
    for (int i = 0; i < N_OPS; i++) {
        if (below(k, 10) == 0) k->m->recompute = (uint32_t)below(k, 2);
        ipu_value v = ways[below(k, (int)IPU__COUNT(ways) - !products)](k);
        assert_true(ipu__push(&k->values, v));
    }
    for (int i = 0; i < 4; i++) {
        char name[] = {'y', (char)('0' + i), 0};
        ipu_model_output(k->m, i ? pick(k) : k->values.at[k->values.n - 1], name);
    }
    assert_string_equal(ipu_builder_message(&k->m->base), "");
    ipu__array_fini(&k->values);
}

/* ---- computing ---- */

static const float *input_data(void)
{
    static float data[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) data[i] = (float)(i * 7 % 11 - 5) / 4;
    return data;
}

static void compute(ipu_model *m)
{
    for (size_t i = 0; i < m->inputs.n; i++) {
        ipu__model_value *v = &m->values.at[m->inputs.at[i]];
        v->kind             = IPU__VALUE_CONSTANT;
        v->data             = input_data();
    }
    if (ipu_model_optimise(m, IPU_PASS_FOLD) != IPU_OK) fail_msg("%s", ipu_message());
}

/* The same bits, except that x + 0 may have been replaced by x, which differs if x is -0. */
static bool same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && (a[i] != 0 || b[i] != 0)) return false;
    return true;
}

static void compare(const ipu_model *a, const ipu_model *b, unsigned seed, unsigned passes)
{
    for (size_t i = 0; i < a->outputs.n; i++) {
        uint32_t                  x = a->outputs.at[i].value, y = b->outputs.at[i].value;
        const ipu__builder_value *shown = &a->base.values.at[x];
        assert_int_equal(a->values.at[x].kind, IPU__VALUE_CONSTANT);
        assert_int_equal(b->values.at[y].kind, IPU__VALUE_CONSTANT);
        assert_true(ipu__shape_equal(&shown->shape, &b->base.values.at[y].shape));
        assert_int_equal(shown->type, IPU_FLOAT);
        if (!same(a->values.at[x].data, b->values.at[y].data, (size_t)ipu__op_n_elements(&shown->shape)))
            fail_msg("model %u, passes %u: output %zu differs", seed, passes, i);
    }
}

static void check_passes(unsigned passes)
{
    for (unsigned seed = 0; seed < N_MODELS; seed++) {
        maker k;
        make(&k, seed, true);
        ipu_model *plain = ipu__model_copy(k.m), *changed = ipu__model_copy(k.m);
        assert_non_null(plain);
        assert_non_null(changed);
        if (ipu_model_optimise(changed, passes) != IPU_OK) fail_msg("model %u: %s", seed, ipu_message());
        if (ipu__model_verify(changed) != IPU_OK) fail_msg("model %u: %s", seed, ipu_message());
        if (!(passes & IPU_PASS_SLICE)) assert_true(ipu_model_n_ops(changed) <= ipu_model_n_ops(plain));
        compute(plain);
        compute(changed);
        compare(plain, changed, seed, passes);
        ipu_model_destroy(plain);
        ipu_model_destroy(changed);
        ipu_model_destroy(k.m);
    }
}

/* ---- by the engine ---- */

static void run(ipu_model *m, float *out)
{
    ipu_target      target;
    ipu_graph      *g;
    ipu_program     p;
    ipu_executable *exe;
    ipu_engine     *e;
    assert_int_equal(ipu_target_find("tiny", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    if (ipu_model_lower(m, g, &p) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_executable_compile(g, &p, 1, NULL, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(ipu_engine_create(exe, NULL, &e), IPU_OK);
    for (size_t i = 0; i < m->inputs.n; i++) {
        ipu_value x = ipu_model_input_at(m, i);
        assert_int_equal(ipu_engine_write(e, ipu_value_name(x), input_data(),
                                          (size_t)ipu_value_n_elements(x) * sizeof(float)),
                         IPU_OK);
    }
    if (ipu_engine_run(e, 0) != IPU_OK) fail_msg("%s", ipu_message());
    for (size_t i = 0; i < m->outputs.n; i++) {
        const char *name;
        size_t      n = (size_t)ipu_value_n_elements(ipu_model_output_at(m, i, &name));
        assert_int_equal(ipu_engine_read(e, name, out + i * ROWS * COLUMNS, n * sizeof(float)), IPU_OK);
    }
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
}

static void test_fused_models_run_to_the_same_bits(void **state)
{
    (void)state;
    size_t n_fused = 0;
    for (unsigned seed = 0; seed < N_RUN; seed++) {
        maker k;
        float plain[4 * ROWS * COLUMNS] = {0}, fused[4 * ROWS * COLUMNS] = {0};
        make(&k, seed, false);
        size_t before = ipu_model_n_ops(k.m);
        run(k.m, plain);
        if (ipu_model_optimise(k.m, IPU_PASS_FUSE) != IPU_OK) fail_msg("%s", ipu_message());
        n_fused += before - ipu_model_n_ops(k.m);
        run(k.m, fused);
        if (memcmp(plain, fused, sizeof plain) != 0) fail_msg("model %u differs", seed);
        ipu_model_destroy(k.m);
    }
    assert_true(n_fused > N_RUN); /* or nothing was tested */
}

static void test_computing_again_changes_no_result(void **state)
{
    (void)state;
    size_t n_copies = 0;
    for (unsigned seed = 0; seed < N_MODELS; seed++) {
        maker k;
        make(&k, seed, true);
        ipu_model *plain = ipu__model_copy(k.m), *changed = ipu__model_copy(k.m);
        assert_non_null(plain);
        assert_non_null(changed);
        assert_int_equal(ipu__model_remat(changed, 0), IPU_OK);
        if (ipu__model_verify(changed) != IPU_OK) fail_msg("model %u: %s", seed, ipu_message());
        n_copies += ipu_model_n_ops(changed) - ipu_model_n_ops(plain);
        compute(plain);
        compute(changed);
        compare(plain, changed, seed, 0);
        ipu_model_destroy(plain);
        ipu_model_destroy(changed);
        ipu_model_destroy(k.m);
    }
    assert_true(n_copies > N_MODELS / 2); /* or nothing was tested */
}

static void test_folding_changes_no_result(void **state) { (void)state, check_passes(IPU_PASS_FOLD); }
static void test_merging_changes_no_result(void **state) { (void)state, check_passes(IPU_PASS_CSE); }
static void test_dropping_changes_no_result(void **state) { (void)state, check_passes(IPU_PASS_DCE); }
static void test_fusing_changes_no_result(void **state) { (void)state, check_passes(IPU_PASS_FUSE); }
static void test_narrowing_changes_no_result(void **state) { (void)state, check_passes(IPU_PASS_SLICE); }
static void test_all_passes_change_no_result(void **state) { (void)state, check_passes(IPU_PASS_ALL); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folding_changes_no_result),
        cmocka_unit_test(test_merging_changes_no_result),
        cmocka_unit_test(test_dropping_changes_no_result),
        cmocka_unit_test(test_fusing_changes_no_result),
        cmocka_unit_test(test_narrowing_changes_no_result),
        cmocka_unit_test(test_all_passes_change_no_result),
        cmocka_unit_test(test_computing_again_changes_no_result),
        cmocka_unit_test(test_fused_models_run_to_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
