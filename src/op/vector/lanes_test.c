/* Pieces of parts, conversion to and from lanes, and scatters in lanes with indices outside the expected
 * windows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "op/vector/lanes.h"

static void pieces_of_parts_are_everything_once(void **unused)
{
    (void)unused;
    enum { GROUPS = 2, CHANNELS = 5, ROWS = 3 };
    for (int n_parts = 1; n_parts <= 7; n_parts++) {
        int seen[GROUPS][CHANNELS][ROWS] = {0};
        for (int part = 0; part < n_parts; part++) {
            ipu_interval     left = ipu__op_part((int64_t)GROUPS * CHANNELS * ROWS, 1, part, n_parts);
            ipu__lanes_piece p;
            while (ipu__lanes_next(&left, CHANNELS, ROWS, &p)) {
                int64_t n_channels = p.channel.end - p.channel.begin;
                assert_true(n_channels == 1 || p.row.end - p.row.begin == ROWS);
                for (int64_t c = p.channel.begin; c < p.channel.end; c++)
                    for (int64_t row = p.row.begin; row < p.row.end; row++) seen[p.group][c][row]++;
            }
        }
        for (int i = 0; i < GROUPS * CHANNELS * ROWS; i++)
            assert_int_equal(seen[i / (CHANNELS * ROWS)][i / ROWS % CHANNELS][i % ROWS], 1);
    }
}

/* 37: two blocks of 16 and what is left. Rows are 40 apart, so that what lies between them is seen to stay. */
static void rows_are_turned_and_back(void **unused)
{
    (void)unused;
    enum { N = 37, STEP = 40 };
    static float x[IPU__LANES * STEP], lanes[N * IPU__LANES], back[IPU__LANES * STEP];
    for (int i = 0; i < IPU__LANES * STEP; i++) {
        x[i]    = (float)i;
        back[i] = -1;
    }
    IPU__SIMD_PICK(ipu__lane_turns_at).turn(x, STEP, N, lanes);
    for (int i = 0; i < N; i++)
        for (int l = 0; l < IPU__LANES; l++) assert_true(lanes[i * IPU__LANES + l] == (float)(l * STEP + i));
    IPU__SIMD_PICK(ipu__lane_turns_at).turn_back(lanes, N, back, STEP);
    for (int i = 0; i < IPU__LANES * STEP; i++) assert_true(back[i] == (i % STEP < N ? (float)i : -1));
}

/* ---- scattering ---- */

enum { SMALL = 2 * 2, LARGE = 4 * 4 }; /* one channel of 16 images: windows of 2 x 2 */

static ipu_status scatter(const int32_t *indices, int n_parts, float *dx)
{
    static const int64_t   size[] = {4, 4};
    const ipu_attribute    with[] = {IPU__INTS("size", size, 2)};
    const ipu__kernel_def *def    = &ipu__op_find("pool_scatter")->kernel;
    ipu__kernel_call       call   = {.def          = def,
                                     .attributes   = with,
                                     .n_attributes = 1,
                                     .n_operands   = 3,
                                     .operand      = {{IPU_FLOAT, IPU_SHAPE(IPU__LANES, 1, 2, 2)},
                                                      {IPU_INT32, IPU_SHAPE(IPU__LANES, 1, 2, 2)},
                                                      {IPU_FLOAT, IPU_SHAPE(IPU__LANES, 1, 4, 4)}},
                                     .layout       = {IPU__LAYOUT_LANES, IPU__LAYOUT_LANES, IPU__LAYOUT_LANES}};
    float                  dy[SMALL * IPU__LANES];
    int32_t                at[SMALL * IPU__LANES];
    void                  *state, *operand[] = {dy, at, dx};
    ipu_status             status = IPU_OK;
    for (int i = 0; i < SMALL * IPU__LANES; i++) {
        int window = i / IPU__LANES;
        dy[i]      = (float)(1 + window);
        at[i]      = indices[window];
    }
    assert_int_equal(ipu__cpu_impls_of(def).at[0].prepare(&call, n_parts, &state), IPU_OK);
    for (int round = 0; round < 2; round++) { /* what a round leaves behind must not reach the next */
        memset(dx, 0xff, LARGE * IPU__LANES * sizeof *dx);
        for (int part = 0; part < n_parts; part++)
            if (status == IPU_OK)
                status = ipu__cpu_impls_of(def).at[0].run(&call, state, operand, NULL, part, n_parts);
    }
    ipu__cpu_impls_of(def).at[0].release(state);
    return status;
}

static void check_scatter(const int32_t *indices, const float *expected)
{
    float dx[LARGE * IPU__LANES];
    for (int n_parts = 1; n_parts <= 3; n_parts++) {
        assert_int_equal(scatter(indices, n_parts, dx), IPU_OK);
        for (int i = 0; i < LARGE * IPU__LANES; i++) assert_true(dx[i] == expected[i / IPU__LANES]);
    }
}

static void indices_may_be_in_any_window(void **unused)
{
    (void)unused;
    check_scatter((int32_t[]){5, 2, 8, 15}, (float[LARGE]){[5] = 1, [2] = 2, [8] = 3, [15] = 4});
    check_scatter((int32_t[]){5, 5, 5, -1}, (float[LARGE]){[5] = 6});
    check_scatter((int32_t[]){15, 13, 0, 10}, (float[LARGE]){[15] = 1, [13] = 2, [0] = 3, [10] = 4});
}

static void an_index_outside_the_plane_is_an_error(void **unused)
{
    (void)unused;
    float dx[LARGE * IPU__LANES];
    assert_int_equal(scatter((int32_t[]){0, 2, 16, 10}, 2, dx), IPU_ABORTED);
    assert_string_equal(ipu_message(), "pool_scatter: index 16 in a plane of 16 elements");
    assert_int_equal(scatter((int32_t[]){0, 2, -2, 10}, 1, dx), IPU_ABORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_parts_are_everything_once),
        cmocka_unit_test(rows_are_turned_and_back),
        cmocka_unit_test(indices_may_be_in_any_window),
        cmocka_unit_test(an_index_outside_the_plane_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
