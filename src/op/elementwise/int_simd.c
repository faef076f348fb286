/* Block functions of the integer and bool lanes. */
#include <math.h>

#include "op/vector/block.h"
#include "op/elementwise/elementwise.h"

#define C(value) ((__typeof__(x))(value))
#define NEGATIVE(x) IS_NEGATIVE(x)
#define NEG(x) FN(neg)(x)
#define ABS(x) FN(abs)(x)
#define SIGN(x) FN(sign)(x)
#define ADD(x, y) ((U)(x) + (U)(y))
#define SUB(x, y) ((U)(x) - (U)(y))
#define MUL(x, y) ((U)(x) * (U)(y))
#define DIV(x, y) FN(div)(x, y)
#define MOD(x, y) FN(mod)(x, y)
#define FMOD(x, y) FN(fmod)(x, y)
#define FLOOR_DIV(x, y) FN(floor_div)(x, y)
#define POW(x, y) FN(pow)(x, y)
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define CLIP(x, low, high) MIN(MAX(x, low), high)
#define NOT(x) (~(U)(x))
#define SHIFT_LEFT(x, y) FN(shift_left)(x, y)
#define SHIFT_RIGHT(x, y) FN(shift_right)(x, y)
#define PARAMETER(Type, value) FN(parameter)(value)

#define IF_FLOATING(...)
#define IF_TEST(...)
#define IF_COMPARE(...) __VA_ARGS__
#define IF_INTEGER(...) __VA_ARGS__

#define IF_NUMBER(...) __VA_ARGS__
#define IF_SHIFT(...) __VA_ARGS__
#define IF_BOOL(...)
#define IF_LOGICAL(...)
#define WORK_FLOAT T
#define WORK_WIDE T

#define T int32_t
#define U uint32_t
#define LANE i32
#define BITS 32
#define FN(name) name##_i32
#define IS_NEGATIVE(x) ((x) < 0)
#include "op/elementwise/int.h"
#include "op/elementwise/lane_blocks.h"
#undef T
#undef U
#undef LANE
#undef BITS
#undef FN

#define T int64_t
#define U uint64_t
#define LANE i64
#define BITS 64
#define FN(name) name##_i64
#include "op/elementwise/int.h"
#include "op/elementwise/lane_blocks.h"
#undef T
#undef LANE
#undef FN
#undef IS_NEGATIVE

#define T uint64_t
#define LANE u64
#define FN(name) name##_u64
#define IS_NEGATIVE(x) false
#include "op/elementwise/int.h"
#include "op/elementwise/lane_blocks.h"
#undef T
#undef LANE
#undef FN

/* bool: 0 or 1 */
#undef IF_NUMBER
#undef IF_SHIFT
#undef IF_BOOL
#undef IF_LOGICAL
#undef NOT
#undef PARAMETER
#define IF_NUMBER(...)
#define IF_SHIFT(...)
#define IF_BOOL(...) __VA_ARGS__
#define IF_LOGICAL(...) __VA_ARGS__
#define NOT(x) (!(x))
#define PARAMETER(Type, value) ((Type)((value) != 0))
#define T uint8_t
#define LANE b8
#include "op/elementwise/lane_blocks.h"

const ipu__int_blocks IPU__SIMD(ipu__int_blocks) = {
    .i32 = blocks_i32, .i64 = blocks_i64, .u64 = blocks_u64, .b8 = blocks_b8};
