/* grid_sample as elementwise ops and gathers, from which gradients of any order follow.
 *
 * Short types are computed in float, as in the kernel: coordinates in half would be off by whole elements.
 */
#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/shape.h"
#include "op/vision/grid_sample.h"

static ipu_value plus(ipu_builder *b, ipu_value x, double value)
{
    return ipu_add(b, x, ipu_scalar_like(b, x, value));
}

static ipu_value times(ipu_builder *b, ipu_value x, double value)
{
    return ipu_mul(b, x, ipu_scalar_like(b, x, value));
}

static ipu_value reflect(ipu_builder *b, const ipu__grid *g, double size, ipu_value p)
{
    double low = g->align_corners ? 0 : -0.5, span = g->align_corners ? size - 1 : size;
    if (!(span > 0)) return times(b, p, 0);
    ipu_value q     = ipu_abs(b, plus(b, p, -low));
    ipu_value flips = ipu_floor(b, times(b, q, 1 / span));
    ipu_value rest  = ipu_sub(b, q, times(b, flips, span));
    ipu_value half  = times(b, flips, 0.5);
    ipu_value odd   = ipu_not_equal(b, half, ipu_floor(b, half));
    return plus(b, ipu_where(b, odd, plus(b, ipu_neg(b, rest), span), rest), low);
}

static ipu_value pad(ipu_builder *b, const ipu__grid *g, double size, ipu_value p)
{
    if (g->padding == IPU_GRID_REFLECTION) p = reflect(b, g, size, p);
    return g->padding == IPU_GRID_ZEROS ? p : ipu_clip(b, p, 0, size - 1);
}

/* Keys' cubic of a distance below 1 (`near`), or from 1 to 2. */
static ipu_value cubic(ipu_builder *b, ipu_value d, bool near)
{
    const double a = -0.75;
    if (near) return plus(b, ipu_mul(b, plus(b, times(b, d, a + 2), -(a + 3)), ipu_square(b, d)), 1);
    ipu_value inner = plus(b, ipu_mul(b, plus(b, times(b, d, a), -5 * a), d), 8 * a);
    return plus(b, ipu_mul(b, inner, d), -4 * a);
}

typedef struct tap {
    ipu_value index, weight; /* index: int32, within the image */
} tap;

/* Taps along an axis, of numbers [n, places]; how many. */
static int make_taps(ipu_builder *b, const ipu__grid *g, double size, ipu_value number,
                     tap taps[IPU__GRID_TAPS])
{
    ipu_value p = plus(b, number, 1);
    int       n = g->mode == IPU_GRID_BICUBIC ? 4 : g->mode == IPU_GRID_NEAREST ? 1 : 2;
    p           = g->align_corners ? times(b, p, (size - 1) / 2) : plus(b, times(b, p, size / 2), -0.5);
    if (n != 4) p = pad(b, g, size, p);
    ipu_value low = n == 1 ? ipu_round(b, p) : ipu_floor(b, p), part = ipu_sub(b, p, low);
    for (int k = 0; k < n; k++) {
        ipu_value at     = plus(b, low, n == 4 ? k - 1 : k);
        ipu_value weight = k == 0 ? plus(b, ipu_neg(b, part), 1) : part;
        if (n == 4) {
            ipu_value distance = k < 2 ? plus(b, part, 1 - k) : plus(b, ipu_neg(b, part), k - 1);
            weight             = cubic(b, distance, k == 1 || k == 2);
            at                 = pad(b, g, size, at);
        }
        if (n == 1) weight = ipu_expand(b, ipu_scalar_like(b, at, 1), ipu_value_shape(at));
        ipu_value last = ipu_scalar_like(b, at, size - 1), zero = ipu_scalar_like(b, at, 0);
        ipu_value in   = ipu_logical_and(b, ipu_greater_equal(b, at, zero), ipu_less_equal(b, at, last));
        taps[k].weight = ipu_where(b, in, weight, zero);
        taps[k].index  = ipu_cast(b, ipu_clip(b, at, 0, size - 1), IPU_INT32);
    }
    return n;
}

void ipu__grid_sample_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                              ipu_value *out)
{
    const ipu_shape *x = &call->operand[0].shape, *grid = &call->operand[1].shape;
    int64_t          n = x->dim[0], channels = x->dim[1], places = grid->dim[1] * grid->dim[2];
    ipu_type         type = call->operand[0].type, wide = type == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT;
    ipu__grid        g = {0};
    tap              taps[2][IPU__GRID_TAPS];
    int              n_taps[2];
    ipu__grid_read(call, &g); /* infer has seen it */
    for (int axis = 0; axis < 2; axis++) {
        ipu_value number = ipu_reshape(b, ipu_index(b, in[1], 1 - axis, 3), IPU_SHAPE(n, places));
        n_taps[axis]     = make_taps(b, &g, (double)x->dim[2 + axis], ipu_cast(b, number, wide), taps[axis]);
    }
    ipu_value planes = ipu_reshape(b, in[0], IPU_SHAPE(n, channels, x->dim[2] * x->dim[3]));
    ipu_value sum    = IPU_NO_VALUE;
    for (int i = 0; i < n_taps[0]; i++)
        for (int j = 0; j < n_taps[1]; j++) {
            ipu_value row    = times(b, taps[0][i].index, (double)x->dim[3]);
            ipu_value index  = ipu_add(b, row, taps[1][j].index);
            ipu_value weight = ipu_mul(b, taps[0][i].weight, taps[1][j].weight);
            index            = ipu_expand(b, ipu_unsqueeze(b, index, 1), IPU_SHAPE(n, channels, places));
            ipu_value part   = ipu_mul(b, ipu_cast(b, ipu_gather_elements(b, planes, index, 2), wide),
                                       ipu_unsqueeze(b, weight, 1));
            sum              = i + j == 0 ? part : ipu_add(b, sum, part);
        }
    out[0] = ipu_reshape(b, ipu_cast(b, sum, type), IPU_SHAPE(n, channels, grid->dim[1], grid->dim[2]));
}
