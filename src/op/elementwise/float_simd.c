/* Block functions of the floating lanes.
 *
 * Floats are computed in float for single operations, and in double by vector_math.h for several: rounded
 * once, a result is within an ulp. Doubles are computed with the C library.
 */
#include "op/vector/block.h"
#include "op/elementwise/elementwise.h"
#include "op/elementwise/lane.h"
#include "op/vector/vector_math.h"

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
#define WORK_ANGLE double

/* Above the largest angle that vector_math.h reduces, C's function of the same name: element by element, so
 * that what an element becomes does not depend on its neighbours. */
static bool has_large(const float *x, int64_t n)
{
    int found = 0;
    for (int64_t i = 0; i < n; i++) found |= fabsf(x[i]) > (float)IPU__V_LARGEST_ANGLE;
    return found;
}

#define UNARY_ANGLE(name, function, From, Work, To, value)                                      \
    IPU__BLOCK_UNARY(name##_small, From, Work, To, value)                                       \
    static void function(const void *const *in, void *out, int64_t n, const double *parameters) \
    {                                                                                           \
        const From *a  = in[0];                                                                 \
        To         *to = out;                                                                   \
        if (!has_large(a, n)) {                                                                 \
            name##_small(in, out, n, parameters);                                               \
            return;                                                                             \
        }                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                       \
            const Work x = (Work)a[i];                                                          \
            to[i]        = (To)(fabs(x) > IPU__V_LARGEST_ANGLE ? name(x) : (value));            \
        }                                                                                       \
    }

#define T float
#define LANE f32
#define WORK_FLOAT float
#define FN(name) ipu__v_##name
#include "op/elementwise/lane_blocks.h"
#undef T
#undef LANE
#undef WORK_FLOAT
#undef FN
#undef UNARY_ANGLE

#define T double
#define LANE f64
#define WORK_FLOAT double
#define FN(name) name
#define UNARY_ANGLE(name, ...) IPU__BLOCK_UNARY(__VA_ARGS__)
#include "op/elementwise/lane_blocks.h"

const ipu__float_blocks IPU__SIMD(ipu__float_blocks) = {.f32 = blocks_f32, .f64 = blocks_f64};
