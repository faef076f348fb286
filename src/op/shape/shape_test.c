/* Views: reshape, transpose, reverse, expand, tile, slice, concat and pad, element by element, and errors. */
#include "op/run_bench.h"

enum { MOST = 4096 };

/* 0, 1, 2, ... */
static const float *count(void)
{
    static float data[MOST];
    for (int i = 0; i < MOST; i++) data[i] = (float)i;
    return data;
}

static uint64_t random_bits(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z          = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int64_t between(uint64_t *seed, int64_t least, int64_t most)
{
    return least + (int64_t)(random_bits(seed) % (uint64_t)(most - least + 1));
}

/* ---- by hand ---- */

static void shapes_change_and_elements_stay(void **unused)
{
    (void)unused;
    bench     t = bench_start();
    ipu_value x = bench_floats(&t, IPU_SHAPE(2, 1, 6), count());
    x           = ipu_reshape(t.b, x, IPU_SHAPE(4, -1));
    assert_int_equal(ipu_value_dim(x, 1), 3);
    x = ipu_unsqueeze(t.b, x, 1);
    x = ipu_unsqueeze(t.b, x, -1);
    x = ipu_flatten(t.b, x, 2);
    assert_int_equal(ipu_value_rank(x), 3);
    x = ipu_squeeze(t.b, ipu_identity(t.b, x), 1);
    bench_expect(&t, x, IPU_SHAPE(4, 3), count());
    bench_end(&t);
}

static void a_scalar_flattens_to_one_element(void **unused)
{
    (void)unused;
    bench t = bench_start();
    bench_expect(&t, ipu_flatten(t.b, bench_floats(&t, IPU_SCALAR, (float[]){7}), 0), IPU_SHAPE(1),
                 (float[]){7});
    bench_end(&t);
}

static void dimensions_change_places(void **unused)
{
    (void)unused;
    bench     t = bench_start();
    ipu_value x = bench_floats(&t, IPU_SHAPE(2, 3), count());
    bench_expect(&t, ipu_transpose(t.b, x, NULL, 0), IPU_SHAPE(3, 2), (float[]){0, 3, 1, 4, 2, 5});
    bench_end(&t);
    t = bench_start();
    x = ipu_swap_axes(t.b, bench_floats(&t, IPU_SHAPE(2, 1, 3), count()), 0, -1);
    bench_expect(&t, x, IPU_SHAPE(3, 1, 2), (float[]){0, 3, 1, 4, 2, 5});
    bench_end(&t);
}

static void elements_repeat(void **unused)
{
    (void)unused;
    bench     t = bench_start();
    ipu_value x = bench_floats(&t, IPU_SHAPE(2, 1), count());
    bench_expect(&t, ipu_expand(t.b, x, IPU_SHAPE(2, -1, 2)), IPU_SHAPE(2, 2, 2),
                 (float[]){0, 0, 1, 1, 0, 0, 1, 1});
    bench_end(&t);
    t = bench_start();
    x = ipu_tile(t.b, bench_floats(&t, IPU_SHAPE(2, 2), count()), (int64_t[]){1, 3}, 2);
    bench_expect(&t, x, IPU_SHAPE(2, 6), (float[]){0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3});
    bench_end(&t);
    t = bench_start();
    x = ipu_tile(t.b, bench_floats(&t, IPU_SHAPE(2), count()), (int64_t[]){2, 2}, 2);
    bench_expect(&t, x, IPU_SHAPE(2, 4), (float[]){0, 1, 0, 1, 0, 1, 0, 1});
    bench_end(&t);
    t = bench_start();
    x = ipu_repeat(t.b, bench_floats(&t, IPU_SHAPE(2, 2), count()), 2, 0);
    bench_expect(&t, x, IPU_SHAPE(4, 2), (float[]){0, 1, 0, 1, 2, 3, 2, 3});
    bench_end(&t);
}

static void values_split_and_join(void **unused)
{
    (void)unused;
    bench     t = bench_start();
    ipu_value x = bench_floats(&t, IPU_SHAPE(2, 5), count()), parts[3];
    ipu_split(t.b, x, (int64_t[]){2, 0, 3}, 3, 1, parts);
    ipu_value y = ipu_concat(t.b, (ipu_value[]){parts[2], parts[1], parts[0]}, 3, -1);
    bench_expect(&t, y, IPU_SHAPE(2, 5), (float[]){2, 3, 4, 0, 1, 7, 8, 9, 5, 6});
    bench_end(&t);
    t = bench_start();
    x = bench_floats(&t, IPU_SHAPE(3, 2), count());
    ipu_unstack(t.b, x, 3, 0, parts);
    y = ipu_stack(t.b, parts, 3, 1);
    bench_expect(&t, y, IPU_SHAPE(2, 3), (float[]){0, 2, 4, 1, 3, 5});
    bench_end(&t);
}

static void more_values_than_an_op_takes_are_joined(void **unused)
{
    (void)unused;
    enum { N = 300 };
    bench     t = bench_start();
    ipu_value x = bench_floats(&t, IPU_SHAPE(N), count()), parts[N];
    ipu_split(t.b, x, NULL, N, 0, parts);
    bench_expect(&t, ipu_concat(t.b, parts, N, 0), IPU_SHAPE(N), count());
    bench_end(&t);
    ipu_attribute axis = IPU_INT_ATTRIBUTE("axis", 0); /* by its name too */
    ipu_value     y;
    t = bench_start();
    x = bench_floats(&t, IPU_SHAPE(N), count());
    ipu_split(t.b, x, NULL, N, 0, parts);
    ipu_emit(t.b, "concat", &axis, 1, parts, N, &y, 1);
    bench_expect(&t, y, IPU_SHAPE(N), count());
    bench_end(&t);
}

static void constants_follow_a_rule(void **unused)
{
    (void)unused;
    bench t = bench_start();
    bench_expect(&t, ipu_arange(t.b, IPU_INT32, 3, 5, -2), IPU_SHAPE(3), (int32_t[]){5, 3, 1});
    bench_end(&t);
    t = bench_start();
    bench_expect(&t, ipu_eye(t.b, IPU_FLOAT, 3, 1), IPU_SHAPE(3, 3), (float[]){0, 1, 0, 0, 0, 1, 0, 0, 0});
    bench_end(&t);
    t = bench_start();
    bench_expect(&t, ipu_linspace(t.b, IPU_FLOAT, 5, -1, 1), IPU_SHAPE(5), (float[]){-1, -0.5f, 0, 0.5f, 1});
    bench_end(&t);
    t           = bench_start();
    ipu_value x = bench_floats(&t, IPU_SHAPE(2, 3), count());
    bench_expect(&t, ipu_tril(t.b, x, 0), IPU_SHAPE(2, 3), (float[]){0, 0, 0, 3, 4, 0});
    bench_end(&t);
    t = bench_start();
    x = bench_floats(&t, IPU_SHAPE(2, 3), count());
    bench_expect(&t, ipu_triu(t.b, x, 1), IPU_SHAPE(2, 3), (float[]){0, 1, 2, 0, 0, 5});
    bench_end(&t);
    t = bench_start();
    bench_expect(&t, ipu_eye(t.b, IPU_FLOAT, 2, -1), IPU_SHAPE(2, 2), (float[]){0, 0, 1, 0});
    bench_end(&t);
}

static void padding_continues_in_four_ways(void **unused)
{
    (void)unused;
    static const struct {
        ipu_pad_mode mode;
        float        expected[7];
    } cases[] = {{IPU_PAD_CONSTANT, {9, 9, 0, 1, 2, 9, 9}},
                 {IPU_PAD_REFLECT, {2, 1, 0, 1, 2, 1, 0}},
                 {IPU_PAD_EDGE, {0, 0, 0, 1, 2, 2, 2}},
                 {IPU_PAD_WRAP, {1, 2, 0, 1, 2, 0, 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench     t = bench_start();
        ipu_value x = bench_floats(&t, IPU_SHAPE(3), count());
        x           = ipu_pad(t.b, x, (int64_t[]){2}, (int64_t[]){2}, cases[i].mode, 9);
        bench_expect(&t, x, IPU_SHAPE(7), cases[i].expected);
        bench_end(&t);
    }
}

/* ---- against an element-by-element model ---- */

typedef struct cut {
    int64_t begin, end, step;
} cut;

/* Python's rule, walked instead of computed. */
static int64_t walk(const cut *c, int64_t n, int64_t *out)
{
    int64_t begin = c->begin < 0 ? c->begin + n : c->begin, end = c->end < 0 ? c->end + n : c->end, count = 0;
    if (c->step > 0) {
        if (begin < 0) begin = 0;
        for (int64_t i = begin; i < n && i < end; i += c->step) out[count++] = i;
    } else {
        if (begin > n - 1) begin = n - 1;
        for (int64_t i = begin; i >= 0 && i > end; i += c->step) out[count++] = i;
    }
    return count;
}

static void slices_take_what_python_takes(void **unused)
{
    (void)unused;
    uint64_t seed = 1;
    for (int turn = 0; turn < 300; turn++) {
        ipu_shape shape = {.rank = 2, .dim = {between(&seed, 0, 6), between(&seed, 1, 7)}};
        cut       c[2];
        int64_t   taken[2][8], n[2];
        float     expected[64];
        for (int d = 0; d < 2; d++) {
            c[d] = (cut){between(&seed, -9, 9), between(&seed, -9, 9), between(&seed, 1, 3)};
            if (between(&seed, 0, 1)) c[d].step = -c[d].step;
            n[d] = walk(&c[d], shape.dim[d], taken[d]);
        }
        for (int64_t i = 0; i < n[0]; i++)
            for (int64_t j = 0; j < n[1]; j++)
                expected[i * n[1] + j] = (float)(taken[0][i] * shape.dim[1] + taken[1][j]);
        bench     t = bench_start();
        ipu_value x = bench_floats(&t, shape, count());
        x           = ipu_slice_step(t.b, x, c[0].begin, c[0].end, c[0].step, 0);
        x           = ipu_slice_step(t.b, x, c[1].begin, c[1].end, c[1].step, 1);
        bench_expect(&t, x, IPU_SHAPE(n[0], n[1]), expected);
        bench_end(&t);
    }
}

static void margins_go_where_they_belong(void **unused)
{
    (void)unused;
    uint64_t seed = 2;
    for (int turn = 0; turn < 300; turn++) {
        int64_t      from[3], to[3], before[3], after[3], inside[3];
        static float expected[MOST];
        int64_t      n = 1;
        for (int d = 0; d < 3; d++) {
            bool plain     = between(&seed, 0, 2) == 0;
            from[d]        = between(&seed, turn % 7 == 0 ? 0 : 1, 5);
            before[d]      = plain ? 0 : between(&seed, -2, 3);
            inside[d]      = plain ? 0 : between(&seed, 0, 2);
            int64_t spread = from[d] ? (from[d] - 1) * (inside[d] + 1) + 1 : 0;
            after[d]       = plain ? 0 : between(&seed, -2, 3);
            if (spread + before[d] + after[d] < 0) before[d] = after[d] = 0;
            to[d] = spread + before[d] + after[d];
            n *= to[d];
        }
        for (int64_t i = 0; i < n; i++) expected[i] = 5;
        for (int64_t i = 0; i < from[0] * from[1] * from[2]; i++) {
            int64_t k[3] = {i / (from[1] * from[2]), i / from[2] % from[1], i % from[2]}, at = 0;
            for (int d = 0; d < 3 && at >= 0; d++) {
                int64_t j = before[d] + k[d] * (inside[d] + 1);
                at        = j < 0 || j >= to[d] ? -1 : at * to[d] + j;
            }
            if (at >= 0) expected[at] = (float)i;
        }
        bench         t            = bench_start();
        ipu_value     x            = bench_floats(&t, IPU_SHAPE(from[0], from[1], from[2]), count());
        ipu_attribute attributes[] = {IPU__INTS("before", before, 3), IPU__INTS("after", after, 3),
                                      IPU__INTS("inside", inside, 3), IPU_INT_ATTRIBUTE("value", 5)};
        x                          = ipu__emit1(t.b, "pad", attributes, 4, &x, 1);
        bench_expect(&t, x, IPU_SHAPE(to[0], to[1], to[2]), expected);
        bench_end(&t);
    }
}

static void every_dimension_may_have_margins(void **unused)
{
    (void)unused;
    bench     t             = bench_start();
    ipu_value x             = bench_floats(&t, IPU_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), (float[]){3});
    float     expected[256] = {0};
    expected[255]           = 3;
    int64_t one[8] = {1, 1, 1, 1, 1, 1, 1, 1}, none[8] = {0};
    x = ipu_pad(t.b, x, one, none, IPU_PAD_CONSTANT, 0);
    bench_expect(&t, x, IPU_SHAPE(2, 2, 2, 2, 2, 2, 2, 2), expected);
    bench_end(&t);
}

/* ---- refused ---- */

static void what_cannot_be_is_refused(void **unused)
{
    (void)unused;
    bench t = bench_start();
#define IN(...) bench_floats(&t, IPU_SHAPE(__VA_ARGS__), count())
    ipu_reshape(t.b, IN(3, 4), IPU_SHAPE(5, -1));
    bench_refused(&t, "float[3,4] has 12 elements, which do not fill [5,-1]");
    ipu_reshape(t.b, IN(3, 4), IPU_SHAPE(-1, -1));
    bench_refused(&t, "-1 at most once");
    ipu_reshape(t.b, IN(3, 0), IPU_SHAPE(0, -1));
    bench_refused(&t, "do not fill");
    ipu_reshape(t.b, IN(3, 4), IPU_SHAPE(INT64_C(1) << 40, INT64_C(1) << 40));
    bench_refused(&t, "do not fill");
    ipu_transpose(t.b, IN(3, 4), (int[]){0, 0}, 2);
    bench_refused(&t, "perm[1] = 0");
    ipu_transpose(t.b, IN(3, 4), (int[]){0}, 1);
    bench_refused(&t, "perm has 1 numbers: expected 2");
    ipu_expand(t.b, IN(3, 4), IPU_SHAPE(4, 4));
    bench_refused(&t, "float[3,4] does not broadcast to [4,4]");
    ipu_squeeze(t.b, IN(3, 4), 1);
    bench_refused(&t, "must be 1");
    ipu_unsqueeze(t.b, IN(3, 4), 4);
    bench_refused(&t, "expected -3 to 2");
    ipu_slice_step(t.b, IN(3, 4), 0, 1, 0, 0);
    bench_refused(&t, "a step of 0");
    ipu_slice(t.b, IN(3, 4), 0, 1, 2);
    bench_refused(&t, "axis 2 of [3,4]");
    ipu_index(t.b, IN(3, 4), 3, 0);
    bench_refused(&t, "3 is out of range for dimension 0");
    ipu_concat(t.b, (ipu_value[]){IN(3, 4), IN(3, 5)}, 2, 0);
    bench_refused(&t, "equal in all dimensions but 0");
    ipu_concat(t.b, (ipu_value[]){IN(3, 4), bench_ints(&t, IPU_SHAPE(3, 4), count())}, 2, 0);
    bench_refused(&t, "must have one type");
    ipu_tile(t.b, IN(3, 4), (int64_t[]){-1}, 1);
    bench_refused(&t, "0 or more");
    ipu_pad(t.b, IN(3), (int64_t[]){3}, (int64_t[]){0}, IPU_PAD_REFLECT, 0);
    bench_refused(&t, "mode reflect can add at most 2");
    ipu_pad(t.b, IN(3), (int64_t[]){-2}, (int64_t[]){-2}, IPU_PAD_CONSTANT, 0);
    bench_refused(&t, "leaves 0 elements or more");
    ipu_arange(t.b, IPU_UINT8, 3, 254, 1);
    bench_refused(&t, "uint8 cannot hold the value 256");
    ipu_tril(t.b, IN(3), 0);
    bench_refused(&t, "expected two dimensions or more");
    ipu_value parts[2];
    ipu_split(t.b, IN(3, 4), NULL, 2, 0, parts);
    bench_refused(&t, "2 parts do not make up dimension 0");
    ipu_split(t.b, IN(3, 4), (int64_t[]){INT64_MAX, 5}, 2, 0, parts);
    bench_refused(&t, "do not make up");
#undef IN
    bench_end(&t);
}

static void rows_of_nothing_take_no_time(void **unused)
{
    (void)unused;
    bench     t     = bench_start();
    ipu_value empty = bench_floats(&t, IPU_SHAPE(0, (int64_t)1 << 40, 0), NULL);
    assert_int_equal(ipu_tril(t.b, empty, 0).id, empty.id);
    ipu_value wide = bench_floats(&t, IPU_SHAPE((int64_t)1 << 40, 0), NULL);
    assert_int_equal(ipu_value_dim(ipu_eye_like(t.b, wide, IPU_FLOAT, 0), 0), (int64_t)1 << 40);
    bench_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_nothing_take_no_time),
        cmocka_unit_test(shapes_change_and_elements_stay),
        cmocka_unit_test(a_scalar_flattens_to_one_element),
        cmocka_unit_test(dimensions_change_places),
        cmocka_unit_test(elements_repeat),
        cmocka_unit_test(values_split_and_join),
        cmocka_unit_test(more_values_than_an_op_takes_are_joined),
        cmocka_unit_test(constants_follow_a_rule),
        cmocka_unit_test(padding_continues_in_four_ways),
        cmocka_unit_test(slices_take_what_python_takes),
        cmocka_unit_test(margins_go_where_they_belong),
        cmocka_unit_test(every_dimension_may_have_margins),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
