/* Windows of planes as columns of a matrix, and back: compositions. Places are constants, found by a few ops. */
#include "graph/graph.h"
#include "ipu/op/conv.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/shape.h"
#include "op/compose.h"

enum { X, N = 2 /* dimensions of a plane */ };

typedef struct windows {
    int64_t kernel[N], stride[N], padding[N], dilation[N];
    int64_t n[N];     /* how many windows along each dimension */
    int64_t plane[N]; /* with padding on both sides */
} windows;

static ipu_status get_list(const ipu__kernel_call *call, const char *name, int64_t otherwise, int64_t least,
                           int64_t out[N])
{
    size_t         n;
    const int64_t *list = ipu__op_ints(call, name, &n);
    if (n != 0 && n != N)
        return ipu__fail(IPU_INVALID, "%s: \"%s\" has %zu numbers: expected %d", call->def->name, name, n, N);
    for (int i = 0; i < N; i++) {
        out[i] = n ? list[i] : otherwise;
        if (out[i] < least || out[i] > INT32_MAX)
            return ipu__fail(IPU_INVALID, "%s: \"%s\" has %lld: expected %lld to %d", call->def->name, name,
                             (long long)out[i], (long long)least, INT32_MAX);
    }
    return IPU_OK;
}

/* `size`: of a plane without padding. */
static ipu_status find_windows(const ipu__kernel_call *call, const int64_t *size, windows *w)
{
    IPU_TRY(get_list(call, "kernel", 1, 1, w->kernel));
    IPU_TRY(get_list(call, "strides", 1, 1, w->stride));
    IPU_TRY(get_list(call, "pads", 0, 0, w->padding));
    IPU_TRY(get_list(call, "dilations", 1, 1, w->dilation));
    for (int i = 0; i < N; i++) {
        w->plane[i]   = size[i] + 2 * w->padding[i];
        int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
        if (reach > w->plane[i])
            return ipu__fail(IPU_INVALID,
                             "%s: a window reaches over %lld elements, and a padded plane has %lld along "
                             "dimension %d: expected no more",
                             call->def->name, (long long)reach, (long long)w->plane[i], i);
        w->n[i] = (w->plane[i] - reach) / w->stride[i] + 1;
    }
    if (w->plane[1] == 0 || w->plane[0] <= INT32_MAX / w->plane[1]) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: a padded plane of %lld by %lld has over %d elements", call->def->name,
                     (long long)w->plane[0], (long long)w->plane[1], INT32_MAX);
}

/* [kernel elements, windows]: where in a padded plane each element of each window is. */
static ipu_value places_of(ipu_builder *b, const windows *w)
{
    ipu_value along[N];
    for (int i = 0; i < N; i++) {
        ipu_shape tap = IPU_SHAPE(1, 1, 1, 1), window = tap;
        tap.dim[i]        = w->kernel[i];
        window.dim[N + i] = w->n[i];
        ipu_value first   = ipu_arange(b, IPU_INT32, w->n[i], 0, (double)w->stride[i]);
        ipu_value reach   = ipu_arange(b, IPU_INT32, w->kernel[i], 0, (double)w->dilation[i]);
        reach             = ipu_reshape(b, reach, tap);
        along[i]          = ipu_add(b, reach, ipu_reshape(b, first, window));
    }
    ipu_value places = ipu_add(b, ipu__times(b, along[0], (double)w->plane[1]), along[1]);
    return ipu_reshape(b, places, IPU_SHAPE(w->kernel[0] * w->kernel[1], w->n[0] * w->n[1]));
}

/* ---- im2col ---- */

static ipu_status im2col_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    windows w;
    IPU_TRY(ipu__op_want_rank(call, X, 3, IPU_MAX_RANK));
    *out              = call->operand[X];
    int64_t *channels = &out->shape.dim[out->shape.rank - 3];
    IPU_TRY(find_windows(call, channels + 1, &w));
    if (__builtin_mul_overflow(channels[0], w.kernel[0] * w.kernel[1], &channels[0]))
        return ipu__fail(IPU_INVALID, "im2col: windows of %lld by %lld are too many elements",
                         (long long)w.kernel[0], (long long)w.kernel[1]);
    channels[1] = w.n[0] * w.n[1];
    out->shape.rank--;
    return IPU_OK;
}

/* `sign` -1: cut off. */
static ipu_value padded(ipu_builder *b, ipu_value x, const windows *w, int sign)
{
    int     rank               = ipu_value_rank(x);
    int64_t pads[IPU_MAX_RANK] = {0};
    if (rank < N || (w->padding[0] == 0 && w->padding[1] == 0)) return x;
    for (int i = 0; i < N; i++) pads[rank - N + i] = sign * w->padding[i];
    return ipu_pad(b, x, pads, pads, IPU_PAD_CONSTANT, 0);
}

static void im2col_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_shape flat = call->operand[X].shape;
    windows   w;
    if (find_windows(call, &flat.dim[flat.rank - N], &w) != IPU_OK) return; /* infer has seen it */
    flat.dim[flat.rank - N] = w.plane[0] * w.plane[1];
    flat.rank--;
    ipu_value planes = ipu_reshape(b, padded(b, in[X], &w, 1), flat);
    ipu_value rows   = ipu_gather(b, planes, places_of(b, &w), flat.rank - 1);
    out[0]           = ipu_reshape(b, rows, call->operand[1].shape);
}

/* ---- col2im ---- */

static ipu_status col2im_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t size[N];
    windows w;
    IPU_TRY(ipu__op_want_rank(call, X, 2, IPU_MAX_RANK - 1));
    IPU_TRY(get_list(call, "size", 0, 0, size));
    IPU_TRY(find_windows(call, size, &w));
    *out           = call->operand[X];
    int      first = out->shape.rank - 2;
    int64_t *dim = out->shape.dim, inside = w.kernel[0] * w.kernel[1], n = w.n[0] * w.n[1];
    if (dim[first] % inside || dim[first + 1] != n)
        return ipu__fail(IPU_INVALID, "col2im: \"x\" %s: expected a multiple of %lld rows, and %lld columns",
                         ipu__shape_str(&call->operand[X].shape), (long long)inside, (long long)n);
    dim[first] /= inside;
    dim[first + 1] = size[0];
    dim[first + 2] = size[1];
    out->shape.rank++;
    return IPU_OK;
}

static void col2im_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    const ipu_shape *y    = &call->operand[1].shape;
    int              axis = y->rank - N;
    windows          w;
    if (find_windows(call, &y->dim[axis], &w) != IPU_OK) return; /* infer has seen it */
    ipu_shape columns = *y, planes = *y;
    columns.dim[axis]     = w.kernel[0] * w.kernel[1];
    columns.dim[axis + 1] = w.n[0] * w.n[1];
    planes.dim[axis]      = w.plane[0];
    planes.dim[axis + 1]  = w.plane[1];
    ipu_value rows = ipu_reshape(b, in[X], columns), places = places_of(b, &w);
    ipu_value sums = ipu__emit1(b, "gather_grad",
                                IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis),
                                          IPU_INT_ATTRIBUTE("extent", w.plane[0] * w.plane[1])),
                                IPU__IN(rows, places));
    out[0]         = padded(b, ipu_reshape(b, sums, planes), &w, -1);
}

/* ---- records ---- */

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OUTPUT("out")};

#define WINDOWS                                                                                        \
    {.name     = "kernel",                                                                             \
     .kind     = IPU_ATTRIBUTE_INTS,                                                                   \
     .required = true,                                                                                 \
     .meaning  = "height and width of a window"},                                                       \
        {.name = "strides", .kind = IPU_ATTRIBUTE_INTS, .meaning = "from window to window; none: 1"},  \
        {.name    = "pads",                                                                            \
         .kind    = IPU_ATTRIBUTE_INTS,                                                                \
         .meaning = "zeros above and below, left and right; none: 0"},                                 \
    {                                                                                                  \
        .name = "dilations", .kind = IPU_ATTRIBUTE_INTS, .meaning = "from element to element; none: 1" \
    }
static const ipu_op_attribute im2col_attributes[] = {WINDOWS};
static const ipu_op_attribute col2im_attributes[] = {
    {.name = "size", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "height and width of a plane"},
    WINDOWS};

static const char *const im2col_samples[] = {
    "float[2,3,5,6]; kernel=[2,3]", "float[2,7,5]; kernel=[3,2] strides=[2,1] pads=[1,0] dilations=[2,3]",
    "int8[1,0,3,3]; kernel=[2,2]", NULL};
static const char *const col2im_samples[] = {
    "float[2,12,10]; size=[3,6] kernel=[2,2]",
    "float[12,6]; size=[7,5] kernel=[3,2] strides=[2,3] pads=[1,1] dilations=[2,3]", NULL};

#define RECORD(op, text)                                                                              \
    const ipu__op_def ipu__op_##op = {                                                                \
        .kernel       = {.name = #op, .operands = operands, .n_operands = 2, .check = ipu__op_check}, \
        .n_in         = 1,                                                                            \
        .family       = "conv",                                                                       \
        .summary      = (text),                                                                       \
        .attributes   = op##_attributes,                                                              \
        .n_attributes = IPU__COUNT(op##_attributes),                                                  \
        .infer        = op##_infer,                                                                   \
        .compose      = op##_compose,                                                                 \
        .samples      = op##_samples}
RECORD(im2col, "windows of planes as columns");
RECORD(col2im, "columns added up as windows of planes");

/* ---- functions ---- */

/* The options as attributes, whose numbers stay with the caller. */
static void list_windows(ipu_window_options *o, ipu_attribute out[4])
{
    for (int i = 0; i < N; i++) {
        if (o->stride[i] == 0) o->stride[i] = 1;
        if (o->dilation[i] == 0) o->dilation[i] = 1;
    }
    out[0] = IPU__INTS("kernel", o->kernel, N);
    out[1] = IPU__INTS("strides", o->stride, N);
    out[2] = IPU__INTS("pads", o->padding, N);
    out[3] = IPU__INTS("dilations", o->dilation, N);
}

ipu_value ipu_im2col(ipu_builder *b, ipu_value x, ipu_window_options options)
{
    ipu_attribute attributes[4];
    list_windows(&options, attributes);
    return ipu__emit1(b, "im2col", attributes, IPU__COUNT(attributes), IPU__IN(x));
}

ipu_value ipu_col2im(ipu_builder *b, ipu_value x, const int64_t *size, ipu_window_options options)
{
    ipu_attribute attributes[5] = {[4] = IPU__INTS("size", size, N)};
    list_windows(&options, attributes);
    return ipu__emit1(b, "col2im", attributes, IPU__COUNT(attributes), IPU__IN(x));
}
