/* Block functions of the floating lanes.
 *
 * Floats are computed in float where one operation decides, in double by vector_math.h where there are several:
 * rounded once, a result is within an ulp. Doubles are computed with the C library.
 */
#include "op/block.h"
#include "op/elementwise.h"
#include "op/elementwise_lane.h"
#include "op/vector_math.h"

#define IF_FLOATING(...) __VA_ARGS__
#define IF_NUMBER(...) __VA_ARGS__
#define IF_TEST(...) __VA_ARGS__
#define IF_COMPARE(...) __VA_ARGS__
#define IF_INTEGER(...)
#define IF_SHIFT(...)
#define IF_BOOL(...)
#define IF_LOGICAL(...)
#define PARAMETER(Type, value) ((Type)(value))
#define WORK_WIDE double

#define T float
#define LANE f32
#define WORK_FLOAT float
#define FN(name) ipu__v_##name
#include "op/lane_blocks.h"
#undef T
#undef LANE
#undef WORK_FLOAT
#undef FN

#define T double
#define LANE f64
#define WORK_FLOAT double
#define FN(name) name
#include "op/lane_blocks.h"

const ipu__float_blocks IPU__SIMD(ipu__float_blocks) = {.f32 = blocks_f32, .f64 = blocks_f64};
