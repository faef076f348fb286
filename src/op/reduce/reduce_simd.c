/* The loops of reductions, for each accumulator type and way of folding.
 *
 * Sums within a run go to 32 lanes, which are then added in pairs: the order is that of the C code at
 * every level of instructions.
 */
#include "base/simd.h"
#include "op/reduce/reduce.h"

#include <math.h>

enum { LANES = 32, SHORT = 16 };

#define LOOPS(name, T, IDENTITY, MAP, FOLD)                                                                \
    static void run_##name(const void *from, int64_t n, void *out)                                         \
    {                                                                                                      \
        const T *x = from;                                                                                 \
        T        lane[LANES];                                                                              \
        int64_t  i = 0;                                                                                    \
        if (n < SHORT) {                                                                                   \
            T sum = IDENTITY;                                                                              \
            for (; i < n; i++) sum = FOLD(sum, MAP(x[i]));                                                 \
            *(T *)out = sum;                                                                               \
            return;                                                                                        \
        }                                                                                                  \
        for (int l = 0; l < LANES; l++) lane[l] = IDENTITY;                                                \
        for (; i + LANES <= n; i += LANES)                                                                 \
            for (int l = 0; l < LANES; l++) {                                                              \
                T v     = x[i + l];                                                                        \
                lane[l] = FOLD(lane[l], MAP(v));                                                           \
            }                                                                                              \
        for (int l = 0; i < n; i++, l++) lane[l] = FOLD(lane[l], MAP(x[i]));                               \
        for (int width = LANES / 2; width > 0; width /= 2)                                                 \
            for (int l = 0; l < width; l++) lane[l] = FOLD(lane[l], lane[l + width]);                      \
        *(T *)out = lane[0];                                                                               \
    }                                                                                                      \
    static void rows_##name(void *sums, const void *from, int64_t n_rows, int64_t step, int64_t n_columns) \
    {                                                                                                      \
        T *restrict acc     = sums;                                                                        \
        const T *restrict x = from;                                                                        \
        int64_t r           = 0;                                                                           \
        for (; r + 4 <= n_rows; r += 4, x += 4 * step)                                                     \
            for (int64_t j = 0; j < n_columns; j++) {                                                      \
                T a = acc[j], p = x[j], q = x[step + j], s = x[2 * step + j], t = x[3 * step + j];         \
                a      = FOLD(a, MAP(p));                                                                  \
                a      = FOLD(a, MAP(q));                                                                  \
                a      = FOLD(a, MAP(s));                                                                  \
                acc[j] = FOLD(a, MAP(t));                                                                  \
            }                                                                                              \
        for (; r < n_rows; r++, x += step)                                                                 \
            for (int64_t j = 0; j < n_columns; j++) acc[j] = FOLD(acc[j], MAP(x[j]));                      \
    }

#define ITSELF(v) (v)
#define SQUARE(v) ((v) * (v))
#define ADD(a, v) ((a) + (v))
#define MUL(a, v) ((a) * (v))
/* Of numbers that may be NaN, which stays. */
#define MAX_NAN(a, v) ((((v) > (a)) | ((v) != (v))) ? (v) : (a))
#define MIN_NAN(a, v) ((((v) < (a)) | ((v) != (v))) ? (v) : (a))
#define MAX(a, v) ((v) > (a) ? (v) : (a))
#define MIN(a, v) ((v) < (a) ? (v) : (a))

#define FLOATING(T)                                  \
    LOOPS(sum_##T, T, 0, ITSELF, ADD)                \
    LOOPS(sum_square_##T, T, 0, SQUARE, ADD)         \
    LOOPS(prod_##T, T, 1, ITSELF, MUL)               \
    LOOPS(max_##T, T, -(T)INFINITY, ITSELF, MAX_NAN) \
    LOOPS(min_##T, T, (T)INFINITY, ITSELF, MIN_NAN)
FLOATING(float)
FLOATING(double)
/* Summed and multiplied unsigned, so that they wrap; 1u keeps narrow ones from becoming int. */
#define WRAPPED_SQUARE(v) (1u * (v) * (v))
#define WRAPPED_MUL(a, v) (1u * (a) * (v))
#define WHOLE(name, T, U, least, most)                  \
    LOOPS(sum_##name, U, 0, ITSELF, ADD)                \
    LOOPS(sum_square_##name, U, 0, WRAPPED_SQUARE, ADD) \
    LOOPS(prod_##name, U, 1, ITSELF, WRAPPED_MUL)       \
    LOOPS(max_##name, T, least, ITSELF, MAX)            \
    LOOPS(min_##name, T, most, ITSELF, MIN)
WHOLE(int8, int8_t, uint8_t, INT8_MIN, INT8_MAX)
WHOLE(uint8, uint8_t, uint8_t, 0, UINT8_MAX)
WHOLE(int16, int16_t, uint16_t, INT16_MIN, INT16_MAX)
WHOLE(uint16, uint16_t, uint16_t, 0, UINT16_MAX)
WHOLE(int32, int32_t, uint32_t, INT32_MIN, INT32_MAX)
WHOLE(uint32, uint32_t, uint32_t, 0, UINT32_MAX)
WHOLE(int64, int64_t, uint64_t, INT64_MIN, INT64_MAX)
WHOLE(uint64, uint64_t, uint64_t, 0, UINT64_MAX)
LOOPS(max_bool, uint8_t, 0, ITSELF, MAX)
LOOPS(min_bool, uint8_t, 1, ITSELF, MIN)

#define BOTH(name)              \
    {                           \
        run_##name, rows_##name \
    }
/* clang-format off */
#define NUMBER(T)                                      \
    {                                                  \
        [IPU__FOLD_SUM]        = BOTH(sum_##T),        \
        [IPU__FOLD_SUM_SQUARE] = BOTH(sum_square_##T), \
        [IPU__FOLD_PROD]       = BOTH(prod_##T),       \
        [IPU__FOLD_MAX]        = BOTH(max_##T),        \
        [IPU__FOLD_MIN]        = BOTH(min_##T),        \
    }
const ipu__reduce_table IPU__SIMD(ipu__reduce_loops_at) = {{
    [IPU__SUM_FLOAT]  = NUMBER(float),
    [IPU__SUM_DOUBLE] = NUMBER(double),
    [IPU__SUM_INT8]   = NUMBER(int8),
    [IPU__SUM_UINT8]  = NUMBER(uint8),
    [IPU__SUM_INT16]  = NUMBER(int16),
    [IPU__SUM_UINT16] = NUMBER(uint16),
    [IPU__SUM_INT32]  = NUMBER(int32),
    [IPU__SUM_UINT32] = NUMBER(uint32),
    [IPU__SUM_INT64]  = NUMBER(int64),
    [IPU__SUM_UINT64] = NUMBER(uint64),
    [IPU__SUM_BOOL]   = {[IPU__FOLD_MAX] = BOTH(max_bool), [IPU__FOLD_MIN] = BOTH(min_bool)},
}};
/* clang-format on */
