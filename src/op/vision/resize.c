/* resize and its gradient: positions of outputs, the inputs they are made of, references, records. */
#include "op/vision/resize.h"

#include <math.h>
#include <string.h>

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "op/number.h"

enum { X, Y };

/* ---- attributes ---- */

static const char *const scale_names[] = {"scale_0", "scale_1", "scale_2", "scale_3",
                                          "scale_4", "scale_5", "scale_6", "scale_7"};
static const char *const begin_names[] = {"roi_begin_0", "roi_begin_1", "roi_begin_2", "roi_begin_3",
                                          "roi_begin_4", "roi_begin_5", "roi_begin_6", "roi_begin_7"};
static const char *const end_names[]   = {"roi_end_0", "roi_end_1", "roi_end_2", "roi_end_3",
                                          "roi_end_4", "roi_end_5", "roi_end_6", "roi_end_7"};
_Static_assert(IPU__COUNT(scale_names) == IPU_MAX_RANK, "a name for each dimension");

static const char *const modes[]       = {"nearest", "linear", "cubic", NULL};
static const char *const coordinates[] = {"half_pixel", "pytorch_half_pixel",   "align_corners",
                                          "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize",
                                          NULL};
static const char *const nearests[]    = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};

static ipu_status find_word(const ipu__kernel_call *call, const char *name, const char *const *words,
                            int *out)
{
    const char *text = ipu__op_text(call, name);
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return IPU_OK;
        }
    return ipu__fail(IPU_INVALID, "%s: %s = \"%s\": `ipu ops resize` lists what it may be", call->def->name,
                     name, text);
}

static ipu_status get_extent(const ipu__kernel_call *call, int d, const int64_t *sizes, ipu__resize_axis *a)
{
    double scale = ipu__op_float(call, scale_names[d]);
    if (sizes) {
        a->out    = sizes[d];
        a->scale  = a->in > 0 ? (double)a->out / (double)a->in : 1;
        a->length = (double)a->out;
        if (a->out >= 0 && (a->in > 0 || a->out == 0)) return IPU_OK;
        return ipu__fail(IPU_INVALID,
                         "%s: sizes has %lld for dimension %d, of %lld elements: there is "
                         "nothing to make them of",
                         call->def->name, (long long)a->out, d, (long long)a->in);
    }
    a->scale  = scale;
    a->length = (double)a->in * scale;
    if (!(scale > 0 && a->length < 0x1p53))
        return ipu__fail(IPU_INVALID,
                         "%s: %s = %g: expected a number above 0 that leaves fewer than 2^53 "
                         "elements",
                         call->def->name, scale_names[d], scale);
    a->out = (int64_t)floor(a->length);
    return IPU_OK;
}

static ipu_status check_sizes(const ipu__kernel_call *call, int rank, const int64_t **sizes)
{
    size_t n;
    *sizes = ipu__op_ints(call, "sizes", &n);
    if (n == 0) *sizes = NULL;
    if (*sizes && n != (size_t)rank)
        return ipu__fail(IPU_INVALID, "%s: sizes has %zu numbers: expected %d, one for each dimension",
                         call->def->name, n, rank);
    for (int d = 0; d < IPU_MAX_RANK; d++)
        if (ipu__attribute_find(call, scale_names[d]) && (*sizes || d >= rank))
            return ipu__fail(IPU_INVALID, "%s: %s is given %s", call->def->name, scale_names[d],
                             *sizes ? "and sizes as well: expected one of them" : "for too small a rank");
    return IPU_OK;
}

ipu_status ipu__resize_axes(const ipu__kernel_call *call, const ipu_shape *x,
                            ipu__resize_axis axes[IPU_MAX_RANK])
{
    int            mode, place, nearest;
    const int64_t *sizes;
    IPU_TRY(find_word(call, "mode", modes, &mode));
    IPU_TRY(find_word(call, "coordinates", coordinates, &place));
    IPU_TRY(find_word(call, "nearest", nearests, &nearest));
    IPU_TRY(check_sizes(call, x->rank, &sizes));
    for (int d = 0; d < x->rank; d++) {
        axes[d] = (ipu__resize_axis){.mode            = (ipu_resize_mode)mode,
                                     .coordinates     = (ipu_resize_coordinates)place,
                                     .nearest         = (ipu_resize_nearest)nearest,
                                     .exclude_outside = ipu__op_int(call, "exclude_outside") != 0,
                                     .in              = x->dim[d],
                                     .a               = ipu__op_float(call, "cubic_a"),
                                     .begin           = ipu__op_float(call, begin_names[d]),
                                     .end             = ipu__op_float(call, end_names[d])};
        IPU_TRY(get_extent(call, d, sizes, &axes[d]));
    }
    return IPU_OK;
}

/* ---- where outputs lie ---- */

static double place_of(const ipu__resize_axis *a, double o)
{
    double last = (double)a->in - 1;
    switch (a->coordinates) {
    case IPU_RESIZE_PYTORCH_HALF_PIXEL: return a->out > 1 ? (o + 0.5) / a->scale - 0.5 : 0;
    case IPU_RESIZE_ALIGN_CORNERS: return a->length == 1 || a->out == 1 ? 0 : o * last / (a->length - 1);
    case IPU_RESIZE_ASYMMETRIC: return o / a->scale;
    case IPU_RESIZE_TF_HALF_PIXEL_FOR_NN: return (o + 0.5) / a->scale;
    case IPU_RESIZE_TF_CROP_AND_RESIZE:
        if (a->out <= 1) return 0.5 * (a->begin + a->end) * last;
        return a->begin * last + o * (a->end - a->begin) * last / (a->length - 1);
    case IPU_RESIZE_HALF_PIXEL: break;
    }
    return (o + 0.5) / a->scale - 0.5;
}

static int64_t nearest_of(const ipu__resize_axis *a, double place)
{
    double low = floor(place), part = place - low;
    switch (a->nearest) {
    case IPU_RESIZE_FLOOR: return (int64_t)low;
    case IPU_RESIZE_CEIL: return (int64_t)ceil(place);
    case IPU_RESIZE_ROUND_PREFER_CEIL: return (int64_t)low + (part >= 0.5);
    case IPU_RESIZE_ROUND_PREFER_FLOOR: break;
    }
    return (int64_t)low + (part > 0.5);
}

/* Keys' cubic: of elements 1 + r, r, 1 - r and 2 - r away. */
static void cubic_weights(double a, double r, double weight[4])
{
    double s  = 1 - r;
    weight[0] = ((a * (r + 1) - 5 * a) * (r + 1) + 8 * a) * (r + 1) - 4 * a;
    weight[1] = ((a + 2) * r - (a + 3)) * r * r + 1;
    weight[2] = ((a + 2) * s - (a + 3)) * s * s + 1;
    weight[3] = ((a * (s + 1) - 5 * a) * (s + 1) + 8 * a) * (s + 1) - 4 * a;
}

static int64_t clamp(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

int ipu__resize_taps(const ipu__resize_axis *a, int64_t o, int64_t index[IPU__RESIZE_TAPS],
                     double weight[IPU__RESIZE_TAPS])
{
    double place = place_of(a, (double)o), low = floor(place), sum = 0;
    bool   crops = a->coordinates == IPU_RESIZE_TF_CROP_AND_RESIZE;
    if (crops && !(place >= 0 && place <= (double)a->in - 1)) return 0;
    if (a->mode == IPU_RESIZE_NEAREST || place == low) {
        index[0]  = clamp(a->mode == IPU_RESIZE_NEAREST ? nearest_of(a, place) : (int64_t)low, a->in);
        weight[0] = 1;
        return 1;
    }
    int n = a->mode == IPU_RESIZE_CUBIC ? 4 : 2;
    if (n == 4)
        cubic_weights(a->a, place - low, weight);
    else
        weight[0] = 1 - (place - low), weight[1] = place - low;
    for (int k = 0; k < n; k++) {
        int64_t at = (int64_t)low + k - (n == 4);
        if (a->exclude_outside && (at < 0 || at >= a->in)) weight[k] = 0;
        index[k] = clamp(at, a->in);
        sum += weight[k];
    }
    for (int k = 0; k < n && a->exclude_outside; k++) weight[k] /= sum;
    return n;
}

/* ---- inference ---- */

static ipu_status infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu__resize_axis axes[IPU_MAX_RANK] = {{0}};
    const ipu_shape *x                  = &call->operand[X].shape;
    IPU_TRY(ipu__resize_axes(call, x, axes));
    if (axes[0].mode != IPU_RESIZE_NEAREST || x->rank == 0) IPU_TRY(ipu__op_want_floating(call, X));
    *out = call->operand[X];
    for (int d = 0; d < x->rank; d++) out->shape.dim[d] = axes[d].out;
    uint64_t bits;
    double   value = ipu__op_float(call, "extrapolation");
    if (ipu__op_is_floating(out->type) || ipu__value_from_double(out->type, value, &bits)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "resize: %s cannot hold extrapolation = %g", ipu_type_name(out->type),
                     value);
}

static ipu_status grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu__resize_axis axes[IPU_MAX_RANK];
    size_t           n;
    const int64_t   *size = ipu__op_ints(call, "size", &n);
    ipu_shape        y    = call->operand[X].shape;
    IPU_TRY(ipu__op_want_floating(call, X));
    if (n != (size_t)y.rank)
        return ipu__fail(IPU_INVALID, "resize_grad: size has %zu numbers: expected %d", n, y.rank);
    *out = call->operand[X];
    for (size_t d = 0; d < n; d++) {
        if (size[d] < -1) return ipu__fail(IPU_INVALID, "resize_grad: size has %lld", (long long)size[d]);
        out->shape.dim[d] = size[d] == -1 ? y.dim[d] : size[d];
    }
    IPU_TRY(ipu__resize_axes(call, &out->shape, axes));
    for (int d = 0; d < y.rank; d++) y.dim[d] = axes[d].out;
    return ipu__op_want_shape(call, X, &y);
}

/* ---- references ---- */

/* The sum over dimensions from d on, at element `at` of what comes before. False: the output lies outside. */
static bool interpolate(const ipu__kernel_call *call, const ipu__resize_axis *axes, const void *x, int d,
                        const int64_t *o, int64_t at, double *sum)
{
    int64_t index[IPU__RESIZE_TAPS];
    double  weight[IPU__RESIZE_TAPS];
    *sum = 0;
    if (d == call->operand[X].shape.rank) {
        *sum = ipu__number_load(call->operand[X].type, x, at);
        return true;
    }
    int n = ipu__resize_taps(&axes[d], o[d], index, weight);
    for (int k = 0; k < n; k++) {
        double part;
        if (!interpolate(call, axes, x, d + 1, o, at * axes[d].in + index[k], &part)) return false;
        *sum += weight[k] * part;
    }
    return n > 0;
}

/* The nearest element, of any type. */
static void copy_nearest(const ipu__kernel_call *call, const ipu__resize_axis *axes, void *const *operand,
                         const int64_t *o, int64_t to)
{
    ipu_type type = call->operand[X].type;
    size_t   unit = ipu_type_size(type);
    char    *y    = (char *)operand[Y] + (size_t)to * unit;
    int64_t  at   = 0;
    bool     in   = true;
    for (int d = 0; d < call->operand[X].shape.rank && in; d++) {
        int64_t index[IPU__RESIZE_TAPS];
        double  weight[IPU__RESIZE_TAPS];
        in = ipu__resize_taps(&axes[d], o[d], index, weight) > 0;
        at = at * axes[d].in + (in ? index[0] : 0);
    }
    if (in)
        memcpy(y, (const char *)operand[X] + (size_t)at * unit, unit);
    else
        ipu__value_from_double(type, ipu__op_float(call, "extrapolation"), y);
}

static void resize_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__resize_axis axes[IPU_MAX_RANK] = {{0}};
    const ipu_shape *y                  = &call->operand[Y].shape;
    ipu_type         type               = call->operand[Y].type;
    double           sum;
    if (ipu__resize_axes(call, &call->operand[X].shape, axes) != IPU_OK) return; /* infer has seen them */
    for (int64_t i = 0; i < ipu__op_n_elements(y); i++) {
        int64_t o[IPU_MAX_RANK] = {0}, rest = i;
        for (int d = y->rank - 1; d >= 0; d--) o[d] = rest % y->dim[d], rest /= y->dim[d];
        if (axes[0].mode == IPU_RESIZE_NEAREST)
            copy_nearest(call, axes, operand, o, i);
        else
            ipu__number_store(type, operand[Y], i,
                              interpolate(call, axes, operand[X], 0, o, 0, &sum)
                                  ? sum
                                  : ipu__op_float(call, "extrapolation"));
    }
}

/* What input i adds to output o. */
static double weight_of(const ipu__resize_axis *a, int64_t o, int64_t i)
{
    int64_t index[IPU__RESIZE_TAPS];
    double  weight[IPU__RESIZE_TAPS], sum = 0;
    int     n = ipu__resize_taps(a, o, index, weight);
    for (int k = 0; k < n; k++) sum += index[k] == i ? weight[k] : 0;
    return sum;
}

static double collect(const ipu__kernel_call *call, const ipu__resize_axis *axes, const void *dy, int d,
                      const int64_t *i, int64_t at)
{
    double sum = 0;
    if (d == call->operand[X].shape.rank) return ipu__number_load(call->operand[X].type, dy, at);
    for (int64_t o = 0; o < axes[d].out; o++) {
        double weight = weight_of(&axes[d], o, i[d]);
        if (weight != 0) sum += weight * collect(call, axes, dy, d + 1, i, at * axes[d].out + o);
    }
    return sum;
}

static void grad_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__resize_axis axes[IPU_MAX_RANK] = {{0}};
    const ipu_shape *x                  = &call->operand[Y].shape;
    if (ipu__resize_axes(call, x, axes) != IPU_OK) return;
    for (int64_t k = 0; k < ipu__op_n_elements(x); k++) {
        int64_t i[IPU_MAX_RANK] = {0}, rest = k;
        for (int d = x->rank - 1; d >= 0; d--) i[d] = rest % x->dim[d], rest /= x->dim[d];
        ipu__number_store(call->operand[Y].type, operand[Y], k, collect(call, axes, operand[X], 0, i, 0));
    }
}

/* Each element looks at all outputs. */
static double grad_ref_work(const ipu__kernel_call *call)
{
    return 8 * (double)ipu__op_n_elements(&call->operand[X].shape)
         * (double)ipu__op_n_elements(&call->operand[Y].shape);
}

/* ---- gradients ---- */

enum { MOST_ATTRIBUTES = 40 };

/* All attributes of the call but those that are left out, and one more. */
static size_t keep(const ipu__kernel_call *call, const char *without, ipu_attribute *list)
{
    size_t n = 0;
    for (size_t i = 0; i < call->n_attributes && n < MOST_ATTRIBUTES - 1; i++)
        if (strcmp(call->attributes[i].name, without) != 0
            && strcmp(call->attributes[i].name, "extrapolation") != 0)
            list[n++] = call->attributes[i];
    return n;
}

static void resize_gradient(ipu__gradient *g)
{
    ipu_attribute    list[MOST_ATTRIBUTES];
    size_t           n = keep(g->call, "size", list);
    const ipu_shape *x = &g->call->operand[X].shape;
    if (!g->wanted[X]) return;
    list[n++]  = IPU__INTS("size", x->dim, x->rank);
    g->d_in[X] = ipu__emit1(g->b, "resize_grad", list, n, IPU__IN(g->d_out[0]));
}

static void grad_gradient(ipu__gradient *g)
{
    ipu_attribute list[MOST_ATTRIBUTES];
    size_t        n = keep(g->call, "size", list);
    if (g->wanted[X]) g->d_in[X] = ipu__emit1(g->b, "resize", list, n, IPU__IN(g->d_out[0]));
}

/* ---- prices and records ---- */

static double n_taps(const ipu__kernel_call *call)
{
    const char *mode = ipu__op_text(call, "mode");
    return strcmp(mode, "cubic") == 0 ? 8 : strcmp(mode, "linear") == 0 ? 4 : 1; /* of two dimensions */
}

static double larger(const ipu__kernel_call *call)
{
    double x = (double)ipu__op_n_elements(&call->operand[X].shape);
    double y = (double)ipu__op_n_elements(&call->operand[Y].shape);
    return x > y ? x : y;
}

static double work(const ipu__kernel_call *call) { return 2 * n_taps(call) * larger(call); }

static ipu_status plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu_type     type = call->operand[X].type;
    ipu__op_loop loop = {30, 1, 2 + 2 * n_taps(call)};
    double       n = larger(call), read = (double)ipu__op_n_elements(&call->operand[X].shape);
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_count(n), 2, target, out));
    if (out->n_tiles > 0)
        out->bytes_received = out->bytes_sent = ipu__op_count(read / (double)out->n_tiles
                                                              * (double)ipu_type_size(type));
    out->basis =
        "our estimate: two cycles for each product of an element and a weight; inputs exchanged once";
    return IPU_OK;
}

static const ipu__kernel_operand operands[]      = {IPU__INPUT("x"), IPU__OUTPUT("y")};
static const ipu__kernel_operand grad_operands[] = {IPU__INPUT("d_y"), IPU__OUTPUT("d_x")};

#define WORD(n, d, text)                                                                  \
    {                                                                                     \
        .name = (n), .kind = IPU_ATTRIBUTE_TEXT, .text_otherwise = (d), .meaning = (text) \
    }
#define NUMBER(n, d, text)                                                            \
    {                                                                                 \
        .name = (n), .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = (d), .meaning = (text) \
    }
#define EIGHT(n, d, text)                                                                               \
    NUMBER(n "_0", d, text), NUMBER(n "_1", d, text), NUMBER(n "_2", d, text), NUMBER(n "_3", d, text), \
        NUMBER(n "_4", d, text), NUMBER(n "_5", d, text), NUMBER(n "_6", d, text), NUMBER(n "_7", d, text)
/* clang-format off */
#define ATTRIBUTES                                                                                        \
    WORD("mode", "nearest", "nearest, linear or cubic"),                                                  \
    WORD("coordinates", "half_pixel", "half_pixel, pytorch_half_pixel, align_corners, asymmetric, "       \
         "tf_half_pixel_for_nn or tf_crop_and_resize: where in x an output lies"),                        \
    WORD("nearest", "round_prefer_floor", "round_prefer_floor, round_prefer_ceil, floor or ceil"),        \
    NUMBER("cubic_a", -0.75, "of the cubic"),                                                             \
    {.name = "exclude_outside", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: no weight beyond the edge"},    \
    NUMBER("extrapolation", 0, "value outside, of tf_crop_and_resize"),                                   \
    {.name = "sizes", .kind = IPU_ATTRIBUTE_INTS, .meaning = "dimensions of y; left out: by scales"},     \
    EIGHT("scale", 1, "of that dimension, where sizes is left out"),                                      \
    EIGHT("roi_begin", 0, "of tf_crop_and_resize: where that dimension begins, in units of it"),          \
    EIGHT("roi_end", 1, "and where it ends")
/* clang-format on */
static const ipu_op_attribute attributes[]      = {ATTRIBUTES};
static const ipu_op_attribute grad_attributes[] = {ATTRIBUTES,
                                                   {.name     = "size",
                                                    .kind     = IPU_ATTRIBUTE_INTS,
                                                    .required = true,
                                                    .meaning  = "dimensions of d_x; -1: as in d_y"}};

static const char *const samples[] = {
    "float[1,2,4,4]; scale_2=2 scale_3=3",
    "int8[2,5]; sizes=[3,9] nearest=floor coordinates=asymmetric",
    "float[2,5]; sizes=[3,9] nearest=ceil coordinates=tf_half_pixel_for_nn",
    "float[2,4]; scale_0=2 scale_1=1.5 nearest=round_prefer_ceil coordinates=align_corners",
    "float[1,1,4,4]; mode=linear scale_2=0.6 scale_3=0.6 coordinates=align_corners",
    "float[1,2,4,5]; mode=linear sizes=[1,2,7,9] coordinates=pytorch_half_pixel",
    "float[2,1,4,3]; mode=linear sizes=[2,1,3,1] coordinates=pytorch_half_pixel",
    "float[2,4,3,2]; mode=linear sizes=[2,8,5,2]",
    "float[3,4,2]; mode=linear sizes=[2,3,5] coordinates=asymmetric",
    "float[1,1,4,4]; mode=cubic scale_2=0.8 scale_3=2",
    "float[1,1,4,4]; mode=cubic scale_2=2 scale_3=0.8 cubic_a=-0.5 exclude_outside=1",
    "float[2,4,4,2]; mode=cubic sizes=[2,9,10,2] coordinates=asymmetric",
    ("float[1,1,4,5]; mode=linear sizes=[1,1,3,3] coordinates=tf_crop_and_resize roi_begin_2=0.4 "
     "roi_begin_3=0.6 roi_end_2=1.2 roi_end_3=1.7 extrapolation=10"),
    "float[1,1,5,4]; sizes=[1,1,3,1] coordinates=tf_crop_and_resize roi_begin_2=-0.4 extrapolation=-1",
    "float[]; mode=linear",
    "float[3,4]; mode=cubic",
    "float[0,3]; mode=linear sizes=[0,7]",
    "float[3,2]; mode=linear sizes=[0,7]",
    "float[4,3,32,33]; mode=linear scale_2=2 scale_3=2",
    NULL};
static const char *const grad_samples[] = {
    "float[1,2,8,12]; scale_2=2 scale_3=3 size=[-1,-1,4,4]",
    "float[1,2,7,9]; mode=linear sizes=[1,2,7,9] coordinates=pytorch_half_pixel size=[1,2,4,5]",
    "float[2,9,10,2]; mode=cubic sizes=[2,9,10,2] coordinates=asymmetric size=[2,4,4,2]",
    "float[2,3,1]; mode=linear sizes=[2,3,1] size=[2,9,4]",
    ("float[1,1,3,3]; mode=linear sizes=[1,1,3,3] coordinates=tf_crop_and_resize roi_begin_2=0.4 "
     "roi_begin_3=0.6 roi_end_2=1.2 roi_end_3=1.7 size=[1,1,4,5]"),
    "float[0,7]; mode=linear sizes=[0,7] size=[0,3]",
    "float[0,7]; mode=linear sizes=[0,7] size=[3,2]",
    "float[3,4,32,30]; mode=linear scale_2=2 scale_3=2 size=[3,4,16,15]",
    NULL};

static const ipu__cpu_impl implementations[] = {{.head          = {"separable", ipu__resize_fits},
                                                 .scratch_bytes = ipu__resize_scratch_bytes,
                                                 .prepare       = ipu__resize_prepare,
                                                 .release       = ipu__resize_release,
                                                 .run           = ipu__resize_run}};

#define RECORD(op, operands_, attributes_, ref_, ref_work_, ...)                                         \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name            = #op,                           \
                                                       .operands        = operands_,                     \
                                                       .n_operands      = 2,                             \
                                                       .check           = ipu__op_check,                 \
                                                       .rows            = ipu__op_rows,                  \
                                                       .ref             = ref_,                          \
                                                       .work            = work,                          \
                                                       .ref_work        = ref_work_,                     \
                                                       .plan            = plan,                          \
                                                       .implementations = IPU__ON_CPU(implementations)}, \
                                      .n_in         = 1,                                                 \
                                      .family       = "resize",                                          \
                                      .attributes   = attributes_,                                       \
                                      .n_attributes = IPU__COUNT(attributes_),                           \
                                      __VA_ARGS__}
RECORD(resize, operands, attributes, resize_ref, NULL, .infer = infer, .grad = resize_gradient,
       .samples = samples, .summary = "other extents, by the nearest elements, lines or cubics between them");
RECORD(resize_grad, grad_operands, grad_attributes, grad_ref, grad_ref_work, .infer = grad_infer,
       .grad = grad_gradient, .samples = grad_samples,
       .summary = "the gradient of resize: elements added up where they came from");

/* ---- the functions of ipu/op/resize.h ---- */

static ipu_value emit(ipu_builder *b, ipu_value x, const int64_t *sizes, const double *scales,
                      const ipu_resize_options *o)
{
    ipu_attribute list[MOST_ATTRIBUTES];
    int           rank = ipu_value_rank(x);
    size_t        n    = 0;
    /* The last word of each list is NULL: what is no value of the enum is refused by its name. */
    list[n++] = IPU_TEXT_ATTRIBUTE("mode", (unsigned)o->mode < 3 ? modes[o->mode] : "?");
    list[n++] = IPU_TEXT_ATTRIBUTE("coordinates",
                                   (unsigned)o->coordinates < 6 ? coordinates[o->coordinates] : "?");
    list[n++] = IPU_TEXT_ATTRIBUTE("nearest", (unsigned)o->nearest < 4 ? nearests[o->nearest] : "?");
    if (o->mode == IPU_RESIZE_CUBIC) {
        list[n++] = IPU_FLOAT_ATTRIBUTE("cubic_a", o->cubic_a == 0 ? -0.75 : o->cubic_a);
        list[n++] = IPU_INT_ATTRIBUTE("exclude_outside", o->exclude_outside);
    }
    if (sizes) list[n++] = IPU__INTS("sizes", sizes, rank);
    for (int d = 0; d < rank && scales; d++) list[n++] = IPU_FLOAT_ATTRIBUTE(scale_names[d], scales[d]);
    if (o->coordinates != IPU_RESIZE_TF_CROP_AND_RESIZE) return ipu__emit1(b, "resize", list, n, IPU__IN(x));
    list[n++] = IPU_FLOAT_ATTRIBUTE("extrapolation", o->extrapolation);
    for (int d = 0; d < rank; d++) {
        list[n++] = IPU_FLOAT_ATTRIBUTE(begin_names[d], o->roi_begin[d]);
        list[n++] = IPU_FLOAT_ATTRIBUTE(end_names[d], o->roi_end[d]);
    }
    return ipu__emit1(b, "resize", list, n, IPU__IN(x));
}

ipu_value ipu_resize(ipu_builder *b, ipu_value x, const int64_t *sizes, ipu_resize_options options)
{
    return emit(b, x, sizes, NULL, &options);
}

ipu_value ipu_resize_by(ipu_builder *b, ipu_value x, const double *scales, ipu_resize_options options)
{
    return emit(b, x, NULL, scales, &options);
}
