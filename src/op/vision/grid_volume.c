/* Grids of affine maps, and volumes sampled at a grid's positions: compositions. */
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "graph/graph.h"
#include "ipu/op/gather.h"
#include "ipu/op/matmul.h"
#include "ipu/model.h"
#include "op/builder.h"
#include "op/compose.h"
#include "op/vision/grid_sample.h"
#include "op/number.h"

/* ---- affine_grid ---- */

enum { THETA, VOLUME = 0, GRID, MOST_DIMS = 3 };
enum { MOST_PLACES = 1 << 24 /* of affine_grid, whose places are a constant */ };

static ipu_status affine_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    size_t           n;
    const int64_t   *size  = ipu__op_ints(call, "size", &n);
    const ipu_shape *theta = &call->operand[THETA].shape;
    IPU_TRY(ipu__op_want_floating(call, THETA));
    IPU_TRY(ipu__op_want_rank(call, THETA, 3, 3));
    if (n != 2 && n != 3)
        return ipu__fail(IPU_INVALID, "affine_grid: \"size\" has %zu numbers: expected 2 or 3", n);
    IPU_TRY(ipu__op_want_shape(call, THETA, &IPU_SHAPE(theta->dim[0], (int64_t)n, (int64_t)n + 1)));
    *out                  = (ipu__kernel_value){call->operand[THETA].type, {.rank = (int)n + 2}};
    int64_t places        = 1;
    out->shape.dim[0]     = theta->dim[0];
    out->shape.dim[n + 1] = (int64_t)n;
    for (size_t i = 0; i < n; i++) {
        out->shape.dim[i + 1] = size[i];
        if (size[i] < 0)
            return ipu__fail(IPU_INVALID, "affine_grid: \"size\" has %lld: expected extents of an output",
                             (long long)size[i]);
        if (__builtin_mul_overflow(places, size[i], &places) || places > MOST_PLACES)
            return ipu__fail(IPU_INVALID, "affine_grid: \"size\" is of more than %d places", MOST_PLACES);
    }
    return IPU_OK;
}

/* Place i of n from -edge to edge, in float from the nearer end, as PyTorch has it. */
static float place_of(int64_t i, int64_t n, bool align_corners)
{
    if (n == 1) return 0;
    float edge = (float)(align_corners ? 1 : 1 - 1 / (double)n), step = 2 * edge / (float)(n - 1);
    return i < n / 2 ? -edge + step * (float)i : edge - step * (float)(n - 1 - i);
}

/* (x, y, 1) or (x, y, z, 1) for all places of an output. */
static void fill_places(const int64_t *size, int n, bool align_corners, ipu_type type, void *to)
{
    int64_t rows = 1, k = 0;
    for (int d = 0; d < n; d++) rows *= size[d];
    for (int64_t i = 0; i < rows; i++) {
        int64_t left = i;
        for (int d = n - 1; d >= 0; d--) {
            ipu__number_store(type, to, k++, (double)place_of(left % size[d], size[d], align_corners));
            left /= size[d];
        }
        ipu__number_store(type, to, k++, 1);
    }
}

static void affine_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    size_t         n;
    const int64_t *size = ipu__op_ints(call, "size", &n);
    ipu_type       type = call->operand[THETA].type;
    ipu_shape      base = IPU_SHAPE(1, (int64_t)n + 1);
    for (size_t i = 0; i < n; i++) base.dim[0] *= size[i];
    void *data = ipu__alloc((size_t)ipu__op_n_elements(&base) * ipu_type_size(type) + 1);
    if (!data) {
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "affine_grid: memory for %lld places",
                          (long long)base.dim[0]);
        return;
    }
    fill_places(size, (int)n, ipu__op_int(call, "align_corners"), type, data);
    ipu_value places = ipu_constant_data(b, type, base, data);
    ipu__free(data);
    out[0] = ipu_reshape(b, ipu_matmul_with(b, places, in[THETA], false, true),
                         call->operand[THETA + 1].shape);
}

/* ---- grid_sample_3d ---- */

typedef struct volume {
    int64_t          n, channels, size[MOST_DIMS], places;
    bool             is_nearest, align_corners;
    ipu_grid_padding padding;
} volume;

static ipu_status volume_of(const ipu__kernel_call *call, volume *v)
{
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    const ipu_shape         *x = &call->operand[VOLUME].shape, *grid = &call->operand[GRID].shape;
    const char              *mode = ipu__op_text(call, "mode"), *padding = ipu__op_text(call, "padding");
    int                      p = 0;
    while (p < 3 && strcmp(padding, paddings[p]) != 0) p++;
    if (p == 3)
        return ipu__fail(IPU_INVALID, "grid_sample_3d: padding \"%s\": expected zeros, border or reflection",
                         padding);
    if (strcmp(mode, "bilinear") != 0 && strcmp(mode, "nearest") != 0)
        return ipu__fail(IPU_INVALID, "grid_sample_3d: mode \"%s\": expected bilinear or nearest", mode);
    *v = (volume){.n             = x->dim[0],
                  .channels      = x->dim[1],
                  .size          = {x->dim[2], x->dim[3], x->dim[4]},
                  .places        = grid->dim[1] * grid->dim[2] * grid->dim[3],
                  .is_nearest    = mode[0] == 'n',
                  .align_corners = ipu__op_int(call, "align_corners"),
                  .padding       = (ipu_grid_padding)p};
    return IPU_OK;
}

static ipu_status volume_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    volume           v;
    const ipu_shape *x = &call->operand[VOLUME].shape, *grid = &call->operand[GRID].shape;
    IPU_TRY(ipu__op_want_floating(call, VOLUME));
    IPU_TRY(ipu__op_want_same_type(call, VOLUME, GRID));
    IPU_TRY(ipu__op_want_rank(call, VOLUME, 5, 5));
    IPU_TRY(ipu__op_want_rank(call, GRID, 5, 5));
    IPU_TRY(
        ipu__op_want_shape(call, GRID, &IPU_SHAPE(x->dim[0], grid->dim[1], grid->dim[2], grid->dim[3], 3)));
    IPU_TRY(volume_of(call, &v));
    for (int d = 0; d < MOST_DIMS; d++)
        if (v.size[d] == 0 || v.size[d] > INT32_MAX)
            return ipu__fail(IPU_INVALID, "grid_sample_3d: \"x\" %s: expected volumes of 1 element or more",
                             ipu__shape_str(x));
    *out              = (ipu__kernel_value){call->operand[VOLUME].type, *grid};
    out->shape.dim[1] = x->dim[1];
    for (int d = 0; d < MOST_DIMS; d++) out->shape.dim[2 + d] = grid->dim[1 + d];
    return IPU_OK;
}

/* A place that may be beyond the edges, reflected at them. */
static ipu_value reflect(ipu_builder *b, const volume *v, ipu_value place, int64_t size)
{
    double low = v->align_corners ? 0 : -0.5, span = (double)(v->align_corners ? size - 1 : size);
    if (span == 0) return ipu__times(b, place, 0);
    ipu_value away   = ipu_abs(b, ipu__minus(b, place, low));
    ipu_value turns  = ipu_div(b, away, ipu_scalar_like(b, away, span));
    turns            = ipu_stop_gradient(b, ipu_floor(b, turns));
    ipu_value rest   = ipu_sub(b, away, ipu__times(b, turns, span));
    ipu_value is_odd = ipu_mod(b, turns, ipu_scalar_like(b, turns, 2));
    is_odd           = ipu_equal(b, is_odd, ipu_scalar_like(b, turns, 1));
    return ipu__plus(b, ipu_where(b, is_odd, ipu__from(b, span, rest), rest), low);
}

/* One coordinate of the grid, [n, places], in elements of dimension `d`. */
static ipu_value coordinate(ipu_builder *b, const volume *v, ipu_value grid, int d)
{
    int       axis = MOST_DIMS - 1 - d; /* x, the last dimension, comes first */
    int64_t   size = v->size[d];
    ipu_value at   = ipu_reshape(b, ipu_slice(b, grid, axis, axis + 1, 4), IPU_SHAPE(v->n, v->places));
    if (v->align_corners)
        at = ipu__times(b, ipu__plus(b, at, 1), (double)(size - 1) / 2);
    else
        at = ipu__times(b, ipu__minus(b, ipu__plus(b, ipu__times(b, at, (double)size), (double)size), 1),
                        0.5);
    if (v->padding == IPU_GRID_REFLECTION) at = reflect(b, v, at, size);
    return v->padding == IPU_GRID_ZEROS ? at : ipu_clip(b, at, 0, (double)(size - 1));
}

/* Elements of volumes [n, channels, elements] at whole places, and 1 for those that are inside, else 0. */
static ipu_value read_corner(ipu_builder *b, const volume *v, ipu_value x, const ipu_value *corner,
                             ipu_value *is_inside)
{
    ipu_value inside = IPU_NO_VALUE, index = IPU_NO_VALUE;
    for (int d = 0; d < MOST_DIMS; d++) {
        ipu_value size = ipu_scalar_like(b, corner[d], (double)v->size[d]);
        ipu_value here = ipu_greater_equal(b, corner[d], ipu_scalar_like(b, corner[d], 0));
        here           = ipu_logical_and(b, here, ipu_less(b, corner[d], size));
        inside         = d ? ipu_logical_and(b, inside, here) : here;
        ipu_value at   = ipu_clip(b, corner[d], 0, (double)(v->size[d] - 1));
        index          = d ? ipu_add(b, ipu_mul(b, index, size), at) : at;
    }
    index      = ipu_reshape(b, ipu_cast(b, index, IPU_INT32), IPU_SHAPE(v->n, 1, v->places));
    index      = ipu_expand(b, index, IPU_SHAPE(v->n, v->channels, v->places));
    *is_inside = ipu_cast(b, inside, ipu_value_type(x));
    return ipu_gather_elements(b, x, index, 2);
}

/* The nearest element, or the eight around each place by how near they are. */
static void volume_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    volume    v = {0};
    ipu_value x = ipu__wide(b, in[VOLUME]), grid = ipu__wide(b, in[GRID]), place[MOST_DIMS], base[MOST_DIMS],
              sum = IPU_NO_VALUE;
    volume_of(call, &v); /* seen by infer */
    for (int d = 0; d < MOST_DIMS; d++) place[d] = coordinate(b, &v, grid, d);
    x = ipu_reshape(b, x, IPU_SHAPE(v.n, v.channels, v.size[0] * v.size[1] * v.size[2]));
    for (int d = 0; d < MOST_DIMS; d++)
        base[d] = ipu_stop_gradient(b, v.is_nearest ? ipu_round(b, place[d]) : ipu_floor(b, place[d]));
    for (int i = 0; i < (v.is_nearest ? 1 : 8); i++) {
        ipu_value corner[MOST_DIMS], weight;
        for (int d = 0; d < MOST_DIMS; d++)
            corner[d] = v.is_nearest ? base[d] : ipu__plus(b, base[d], i >> (MOST_DIMS - 1 - d) & 1);
        ipu_value value = read_corner(b, &v, x, corner, &weight);
        for (int d = 0; d < MOST_DIMS && !v.is_nearest; d++) {
            ipu_value near = ipu__from(b, 1, ipu_abs(b, ipu_sub(b, place[d], corner[d])));
            weight         = ipu_mul(b, weight, near);
        }
        value = ipu_mul(b, value, ipu_reshape(b, weight, IPU_SHAPE(v.n, 1, v.places)));
        sum   = i ? ipu_add(b, sum, value) : value;
    }
    out[0] = ipu_reshape(b, ipu__as_type(b, sum, call->operand[VOLUME].type), call->operand[GRID + 1].shape);
}

/* ---- records ---- */

static const ipu__kernel_operand affine_operands[] = {IPU__INPUT("theta"), IPU__OUTPUT("grid")};
static const ipu__kernel_operand volume_operands[] = {IPU__INPUT("x"), IPU__INPUT("grid"), IPU__OUTPUT("y")};

#define ALIGN_ATTRIBUTE                                                                                     \
    {                                                                                                       \
        .name = "align_corners", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: -1 and 1 are centres, not edges" \
    }
static const ipu_op_attribute affine_attributes[] = {
    {.name     = "size",
     .kind     = IPU_ATTRIBUTE_INTS,
     .required = true,
     .meaning  = "height and width of the output, or depth, height and width"},
    ALIGN_ATTRIBUTE};
static const ipu_op_attribute volume_attributes[] = {
    {.name           = "mode",
     .kind           = IPU_ATTRIBUTE_TEXT,
     .text_otherwise = "bilinear",
     .meaning        = "bilinear or nearest"},
    {.name           = "padding",
     .kind           = IPU_ATTRIBUTE_TEXT,
     .text_otherwise = "zeros",
     .meaning        = "zeros, border or reflection: what there is beyond the edge"},
    ALIGN_ATTRIBUTE};

static const char *const affine_samples[] = {"float[2,2,3]; size=[4,5]",
                                             "float[1,3,4]; size=[2,1,3] align_corners=1", NULL};
static const char *const volume_samples[] = {
    "float[2,2,2,3,4], float[2,1,2,3,3]{-1.3,1.3}",
    "float[1,2,2,3,4], float[1,1,2,3,3]{-1.3,1.3}; mode=nearest",
    "float[1,1,2,3,4], float[1,1,2,3,3]{-1.3,1.3}; padding=border align_corners=1",
    "float[1,1,2,3,4], float[1,1,2,3,3]{-3.3,3.3}; padding=reflection",
    "float[1,1,1,3,4], float[1,1,2,3,3]{-3.3,3.3}; padding=reflection align_corners=1",
    NULL};

#define RECORD(op, which, text)                                                                    \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name       = #op,                          \
                                                       .operands   = which##_operands,             \
                                                       .n_operands = IPU__COUNT(which##_operands), \
                                                       .check      = ipu__op_check},                    \
                                      .n_in         = IPU__COUNT(which##_operands) - 1,            \
                                      .family       = "vision",                                    \
                                      .summary      = (text),                                      \
                                      .attributes   = which##_attributes,                          \
                                      .n_attributes = IPU__COUNT(which##_attributes),              \
                                      .infer        = which##_infer,                               \
                                      .compose      = which##_compose,                             \
                                      .samples      = which##_samples}
RECORD(affine_grid, affine, "theta times (x, y, 1) or (x, y, z, 1) for all places of an output");
RECORD(grid_sample_3d, volume, "volumes read at the places of a grid");

/* ---- functions ---- */

ipu_value ipu_affine_grid(ipu_builder *b, ipu_value theta, int64_t height, int64_t width, bool align_corners)
{
    int64_t size[] = {height, width};
    return ipu__emit1(b, "affine_grid",
                      IPU__WITH(IPU__INTS("size", size, 2),
                                IPU_INT_ATTRIBUTE("align_corners", align_corners)),
                      IPU__IN(theta));
}

ipu_value ipu_affine_grid_3d(ipu_builder *b, ipu_value theta, int64_t depth, int64_t height, int64_t width,
                             bool align_corners)
{
    int64_t size[] = {depth, height, width};
    return ipu__emit1(b, "affine_grid",
                      IPU__WITH(IPU__INTS("size", size, 3),
                                IPU_INT_ATTRIBUTE("align_corners", align_corners)),
                      IPU__IN(theta));
}

ipu_value ipu_grid_sample_3d(ipu_builder *b, ipu_value x, ipu_value grid, ipu_grid_sample_options o)
{
    static const char *const paddings[] = {"zeros", "border", "reflection"}, *const modes[] = {"bilinear",
                                                                                               "nearest",
                                                                                               "bicubic"};
    return ipu__emit1(
        b, "grid_sample_3d",
        IPU__WITH(IPU_TEXT_ATTRIBUTE("mode", (unsigned)o.mode < 3 ? modes[o.mode] : "?"),
                  IPU_TEXT_ATTRIBUTE("padding", (unsigned)o.padding < 3 ? paddings[o.padding] : "?"),
                  IPU_INT_ATTRIBUTE("align_corners", o.align_corners)),
        IPU__IN(x, grid));
}
