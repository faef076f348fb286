/* Conversions of blocks: between lanes, and between a type and its lane.
 *
 * Floating values to integers: rounded towards 0, clamped to the range of the type, NaN to 0. Between
 * integers: modulo 2^bits. To bool: whether the value is not 0.
 */
#include <math.h>
#include <string.h>

#include "op/vector/block.h"
#include "op/elementwise/elementwise.h"
#include "op/vector/half.h"

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#define CONVERT(name, From, To, value)                                                      \
    static void name(const void *const *in, void *out, int64_t n, const double *parameters) \
    {                                                                                       \
        const From *from = in[0];                                                           \
        To         *to   = out;                                                             \
        (void)parameters;                                                                   \
        IPU__INDEPENDENT for (int64_t i = 0; i < n; i++)                                    \
        {                                                                                   \
            const From x = from[i];                                                         \
            to[i]        = (value);                                                         \
        }                                                                                   \
    }

#define PLAIN(from, From, to, To) CONVERT(from##_to_##to, From, To, (To)x)
#define TO_BOOL(from, From) CONVERT(from##_to_b8, From, uint8_t, x != 0)

PLAIN(f32, float, f32, float)
PLAIN(f32, float, f64, double)
PLAIN(f64, double, f64, double)
PLAIN(f64, double, f32, float)
PLAIN(i32, int32_t, f32, float)
PLAIN(i32, int32_t, f64, double)
PLAIN(i32, int32_t, i32, int32_t)
PLAIN(i32, int32_t, i64, int64_t)
PLAIN(i32, int32_t, u64, uint64_t)
PLAIN(i64, int64_t, f32, float)
PLAIN(i64, int64_t, f64, double)
PLAIN(i64, int64_t, i32, int32_t)
PLAIN(i64, int64_t, i64, int64_t)
PLAIN(i64, int64_t, u64, uint64_t)
PLAIN(u64, uint64_t, f32, float)
PLAIN(u64, uint64_t, f64, double)
PLAIN(u64, uint64_t, i32, int32_t)
PLAIN(u64, uint64_t, i64, int64_t)
PLAIN(u64, uint64_t, u64, uint64_t)
PLAIN(b8, uint8_t, f32, float)
PLAIN(b8, uint8_t, f64, double)
PLAIN(b8, uint8_t, i32, int32_t)
PLAIN(b8, uint8_t, i64, int64_t)
PLAIN(b8, uint8_t, u64, uint64_t)
PLAIN(b8, uint8_t, b8, uint8_t)
TO_BOOL(f32, float)
TO_BOOL(f64, double)
TO_BOOL(i32, int32_t)
TO_BOOL(i64, int64_t)
TO_BOOL(u64, uint64_t)

/* Not both NaN and above the least. */
static inline double between(double x, double least, double most)
{
    double low = x > least ? x : least, high = low < most ? low : most;
    return x == x ? high : 0;
}

/* The parameters are doubles that the lane holds. The largest of 64 bits is none: from `over` on it is `top`,
 * if the type has all of them. */
#define SATURATE(from, From, to, To, over, top)                                                       \
    static void from##_to_##to(const void *const *in, void *out, int64_t n, const double *parameters) \
    {                                                                                                 \
        const From  *a     = in[0];                                                                   \
        To          *b     = out;                                                                     \
        const double least = parameters[0], most = parameters[1];                                     \
        const double end  = most > 0x1p62 ? (over) : (double)INFINITY;                                \
        const To     last = most > 0x1p62 ? (top) : (To)most;                                         \
        IPU__INDEPENDENT for (int64_t i = 0; i < n; i++)                                              \
        {                                                                                             \
            const double x = (double)a[i];                                                            \
            const To     y = (To)between(x, least, most);                                             \
            b[i]           = x >= end ? last : y;                                                     \
        }                                                                                             \
    }
SATURATE(f32, float, i32, int32_t, INFINITY, INT32_MAX)
SATURATE(f64, double, i32, int32_t, INFINITY, INT32_MAX)
SATURATE(f32, float, i64, int64_t, 0x1p63, INT64_MAX)
SATURATE(f64, double, i64, int64_t, 0x1p63, INT64_MAX)
SATURATE(f32, float, u64, uint64_t, 0x1p64, UINT64_MAX)
SATURATE(f64, double, u64, uint64_t, 0x1p64, UINT64_MAX)

/* Where something is cut off, the last bit is a one. */
static inline float to_odd(double x)
{
    float    f = (float)x;
    uint32_t bits, odd;
    memcpy(&bits, &f, sizeof bits);
    odd = (fabs((double)f) > fabs(x) ? bits - 1 : bits) | 1;
    return (double)f == x || x != x ? f : float_of(odd);
}
CONVERT(f64_to_odd_f32, double, float, to_odd(x))

/* ---- a type and its lane ---- */

CONVERT(widen_int8, int8_t, int32_t, x)
CONVERT(widen_uint8, uint8_t, int32_t, x)
CONVERT(widen_int16, int16_t, int32_t, x)
CONVERT(widen_uint16, uint16_t, int32_t, x)
CONVERT(widen_uint32, uint32_t, int64_t, x)
CONVERT(narrow_int8, int32_t, int8_t, (int8_t)x)
CONVERT(narrow_uint8, int32_t, uint8_t, (uint8_t)x)
CONVERT(narrow_int16, int32_t, int16_t, (int16_t)x)
CONVERT(narrow_uint16, int32_t, uint16_t, (uint16_t)x)
CONVERT(narrow_uint32, int64_t, uint32_t, (uint32_t)x)

static void widen_half(const void *const *in, void *out, int64_t n, const double *parameters)
{
    (void)parameters;
    IPU__SIMD(ipu__half_loops_at).widen(in[0], n, out, n, 1, n);
}

static void narrow_half(const void *const *in, void *out, int64_t n, const double *parameters)
{
    (void)parameters;
    IPU__SIMD(ipu__half_loops_at).narrow(in[0], n, out, n, 1, n);
}

/* As ipu_bfloat16_from_float, without its branches. */
static inline uint16_t bfloat16_of(float value)
{
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
    return (uint16_t)(value != value ? nan : rounded);
}

CONVERT(widen_bfloat16, uint16_t, float, float_of((uint32_t)x << 16))
CONVERT(narrow_bfloat16, float, uint16_t, bfloat16_of(x))

/* ---- operands that are broadcast ---- */

#define SPREAD(T)                                                                 \
    static void spread_##T(const void *from, int64_t stride, int64_t n, void *to) \
    {                                                                             \
        const T *restrict a = from;                                               \
        T *restrict b       = to;                                                 \
        if (stride == 0) {                                                        \
            const T value = *a;                                                   \
            for (int64_t i = 0; i < n; i++) b[i] = value;                         \
        } else {                                                                  \
            for (int64_t i = 0; i < n; i++) b[i] = a[i];                          \
        }                                                                         \
    }
SPREAD(uint8_t)
SPREAD(uint16_t)
SPREAD(uint32_t)
SPREAD(uint64_t)

/* clang-format off */
const ipu__convert_blocks IPU__SIMD(ipu__convert_blocks) = {
    .convert = {
        [IPU__LANE_F32] = {f32_to_f32, f32_to_f64, f32_to_i32, f32_to_i64, f32_to_u64, f32_to_b8},
        [IPU__LANE_F64] = {f64_to_f32, f64_to_f64, f64_to_i32, f64_to_i64, f64_to_u64, f64_to_b8},
        [IPU__LANE_I32] = {i32_to_f32, i32_to_f64, i32_to_i32, i32_to_i64, i32_to_u64, i32_to_b8},
        [IPU__LANE_I64] = {i64_to_f32, i64_to_f64, i64_to_i32, i64_to_i64, i64_to_u64, i64_to_b8},
        [IPU__LANE_U64] = {u64_to_f32, u64_to_f64, u64_to_i32, u64_to_i64, u64_to_u64, u64_to_b8},
        [IPU__LANE_B8]  = {b8_to_f32, b8_to_f64, b8_to_i32, b8_to_i64, b8_to_u64, b8_to_b8},
    },
    .f64_to_odd_f32 = f64_to_odd_f32,
    .spread = {[1] = spread_uint8_t, [2] = spread_uint16_t, [4] = spread_uint32_t, [8] = spread_uint64_t},
    .widen = {
        [IPU_INT8] = widen_int8, [IPU_UINT8] = widen_uint8, [IPU_INT16] = widen_int16,
        [IPU_UINT16] = widen_uint16, [IPU_UINT32] = widen_uint32, [IPU_HALF] = widen_half,
        [IPU_BFLOAT16] = widen_bfloat16,
    },
    .narrow = {
        [IPU_INT8] = narrow_int8, [IPU_UINT8] = narrow_uint8, [IPU_INT16] = narrow_int16,
        [IPU_UINT16] = narrow_uint16, [IPU_UINT32] = narrow_uint32, [IPU_HALF] = narrow_half,
        [IPU_BFLOAT16] = narrow_bfloat16,
    },
};
/* clang-format on */
