/* Images of ONNX: resizing, sampling, regions. */
#include <math.h>
#include <string.h>

#include "ipu/op.h"
#include "onnx/import/import.h"

/* The place of attribute `name`'s text among `names`; an error if it is none of them. */
static int choice(ipu__node *n, const char *name, const char *otherwise, const char *const *names, int count)
{
    const char *text = ipu__attr_text(n, name, otherwise);
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0) return i;
    ipu__node_fail(n, IPU_UNSUPPORTED, "%s \"%.40s\" is not supported", name, text);
    return 0;
}
#define CHOICE(n, name, otherwise, names) choice(n, name, otherwise, names, sizeof(names) / sizeof *(names))

/* ---- resizing ---- */

static ipu_resize_mode resize_mode(ipu__node *n)
{
    static const char *const     names[] = {"nearest", "linear", "bilinear", "cubic"};
    static const ipu_resize_mode modes[] = {IPU_RESIZE_NEAREST, IPU_RESIZE_LINEAR, IPU_RESIZE_LINEAR,
                                            IPU_RESIZE_CUBIC};
    return modes[CHOICE(n, "mode", "nearest", names)];
}

/* In float, as ONNX infers shapes: 10 times 0.7f is 7. False: an error. */
static bool scaled(ipu__node *n, int64_t extent, double part, double scale, int64_t *out)
{
    float size = floorf((float)extent * (float)part * (float)scale);
    if (!(scale > 0 && size >= 0 && size < 0x1p40f)) {
        ipu__node_fail(n, IPU_INVALID, "scale %g of an extent of %lld: expected more than 0", scale,
                       (long long)extent);
        return false;
    }
    *out = (int64_t)size;
    return true;
}

/* By scales of all dimensions. */
static void resize_by(ipu__node *n, ipu_value x, double *scales, const ipu_resize_options *o)
{
    for (int i = 0; i < ipu_value_rank(x); i++) {
        int64_t extent = ipu_value_dim(x, i), size;
        if (!scaled(n, extent, 1, scales[i], &size)) return;
        /* a scale that says the same in double */
        if (extent > 0 && floor((double)extent * scales[i]) != (double)size)
            scales[i] = (double)size / (double)extent * (1 + 1e-12);
    }
    ipu__give(n, 0, ipu_resize_by(n->b, x, scales, *o));
}

/* Of Upsample and of Resize before opset 11: places are o / scale, the nearest is the one before. */
static void upsample(ipu__node *n, const double *given, size_t count)
{
    ipu_value          x = ipu__in_needed(n, 0);
    ipu_resize_options o = {
        .mode = resize_mode(n), .coordinates = IPU_RESIZE_ASYMMETRIC, .nearest = IPU_RESIZE_FLOOR};
    double scales[IPU_MAX_RANK] = {0};
    if (!ipu__import_ok(n->im)) return;
    if (count != (size_t)ipu_value_rank(x)) {
        ipu__node_fail(n, IPU_INVALID, "%zu scales for %d dimensions", count, ipu_value_rank(x));
        return;
    }
    memcpy(scales, given, count * sizeof *scales);
    resize_by(n, x, scales, &o);
}

void ipu__onnx_Upsample(ipu__node *n)
{
    const double *scales = NULL;
    size_t        count  = 0;
    double        list[IPU_MAX_RANK];
    if (n->version >= 9) {
        if (ipu__in_doubles(n, 1, &scales, &count)) upsample(n, scales, count);
    } else if (n->version >= 7) {
        const float *floats = ipu__attr_floats(n, "scales", &count);
        for (size_t i = 0; i < count && i < IPU_MAX_RANK; i++) list[i] = (double)floats[i];
        upsample(n, list, count);
    } else {
        double four[4] = {1, 1, ipu__attr_float(n, "height_scale", 0), ipu__attr_float(n, "width_scale", 0)};
        upsample(n, four, 4);
    }
}

static ipu_resize_options resize_options(ipu__node *n)
{
    static const char *const places[]  = {"half_pixel", "pytorch_half_pixel",   "align_corners",
                                          "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    static const char *const policy[]  = {"stretch"};
    ipu_resize_options       o         = {.mode = resize_mode(n)};
    o.coordinates = (ipu_resize_coordinates)CHOICE(n, "coordinate_transformation_mode", "half_pixel", places);
    o.nearest     = (ipu_resize_nearest)CHOICE(n, "nearest_mode", "round_prefer_floor", nearest);
    o.cubic_a     = ipu__attr_float(n, "cubic_coeff_a", -0.75);
    o.exclude_outside = ipu__attr_int(n, "exclude_outside", 0) != 0;
    o.extrapolation   = ipu__attr_float(n, "extrapolation_value", 0);
    CHOICE(n, "keep_aspect_ratio_policy", "stretch", policy);
    if (ipu__attr_int(n, "antialias", 0)) ipu__node_fail(n, IPU_UNSUPPORTED, "antialias is not supported");
    if (o.cubic_a == 0) ipu__node_fail(n, IPU_UNSUPPORTED, "a cubic_coeff_a of 0 is not supported");
    return o;
}

/* Which dimensions lists speak of: all, or from opset 18 on those of `axes`. */
static int resized_axes(ipu__node *n, int rank, int *axes)
{
    const int *given;
    int        count    = rank;
    bool       has_axes = ipu__attr(n, "axes") && ipu__axes(n, "axes", SIZE_MAX, rank, &given, &count);
    for (int i = 0; i < count; i++) axes[i] = has_axes ? given[i] : i;
    return count;
}

static bool wrong_length(ipu__node *n, const char *name, size_t found, size_t expected)
{
    if (found != expected)
        ipu__node_fail(n, IPU_INVALID, "%s has %zu numbers; expected %zu", name, found, expected);
    return found != expected;
}

/* Regions, which have the starts of all dimensions and then the ends. */
static bool read_roi(ipu__node *n, const int *axes, int n_axes, ipu_resize_options *o)
{
    const double *roi;
    size_t        count;
    for (int i = 0; i < IPU_MAX_RANK; i++) o->roi_end[i] = 1;
    if (o->coordinates != IPU_RESIZE_TF_CROP_AND_RESIZE) return true;
    if (!ipu__in_doubles(n, 1, &roi, &count) || wrong_length(n, "roi", count, 2 * (size_t)n_axes))
        return false;
    for (int i = 0; i < n_axes; i++) {
        o->roi_begin[axes[i]] = roi[i];
        o->roi_end[axes[i]]   = roi[n_axes + i];
    }
    return true;
}

void ipu__onnx_Resize(ipu__node *n)
{
    ipu_value     x = ipu__in_needed(n, 0);
    const double *given;
    size_t        count;
    if (n->version < 11) {
        if (ipu__in_doubles(n, 1, &given, &count)) upsample(n, given, count);
        return;
    }
    ipu_shape          shape = ipu_value_shape(x);
    int                axes[IPU_MAX_RANK], n_axes = resized_axes(n, shape.rank, axes);
    ipu_resize_options o = resize_options(n);
    if (!ipu__import_ok(n->im) || !read_roi(n, axes, n_axes, &o)) return;
    double scales[IPU_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    bool   has_scales           = ipu__in_doubles(n, 2, &given, &count) && count > 0;
    if (!ipu__import_ok(n->im) || (has_scales && wrong_length(n, "scales", count, (size_t)n_axes))) return;
    for (int i = 0; i < n_axes && has_scales; i++) {
        int axis     = axes[i];
        scales[axis] = given[i];
        if (!scaled(n, shape.dim[axis], o.roi_end[axis] - o.roi_begin[axis], given[i], &shape.dim[axis]))
            return;
    }
    if (has_scales && o.coordinates != IPU_RESIZE_TF_CROP_AND_RESIZE) {
        resize_by(n, x, scales, &o);
        return;
    }
    const int64_t *sizes;
    if (!has_scales) {
        if (!ipu__in_ints(n, 3, &sizes, &count)) ipu__node_fail(n, IPU_INVALID, "neither scales nor sizes");
        if (!ipu__import_ok(n->im) || wrong_length(n, "sizes", count, (size_t)n_axes)) return;
        for (int i = 0; i < n_axes; i++) shape.dim[axes[i]] = sizes[i];
    }
    ipu__give(n, 0, ipu_resize(n->b, x, shape.dim, o));
}

/* ---- sampling ---- */

void ipu__onnx_GridSample(ipu__node *n)
{
    static const char *const   names[]   = {"bilinear", "linear", "nearest", "bicubic", "cubic"};
    static const ipu_grid_mode modes[]   = {IPU_GRID_BILINEAR, IPU_GRID_BILINEAR, IPU_GRID_NEAREST,
                                            IPU_GRID_BICUBIC, IPU_GRID_BICUBIC};
    static const char *const   padding[] = {"zeros", "border", "reflection"};
    ipu_value                  x = ipu__in_needed(n, 0), grid = ipu__in_needed(n, 1);
    ipu_grid_sample_options    o = {.align_corners = ipu__attr_int(n, "align_corners", 0) != 0};
    o.mode                       = modes[CHOICE(n, "mode", "bilinear", names)];
    o.padding                    = (ipu_grid_padding)CHOICE(n, "padding_mode", "zeros", padding);
    if (ipu__import_ok(n->im)) ipu__give(n, 0, ipu_grid_sample(n->b, x, grid, o));
}

void ipu__onnx_RoiAlign(ipu__node *n)
{
    static const char *const modes[]  = {"avg", "max"};
    static const char *const places[] = {"output_half_pixel", "half_pixel"};
    ipu_value x = ipu__in_needed(n, 0), rois = ipu__in_needed(n, 1), images = ipu__in_needed(n, 2);
    ipu_roi_align_options o         = {.height         = ipu__attr_int(n, "output_height", 1),
                                       .width          = ipu__attr_int(n, "output_width", 1),
                                       .scale          = ipu__attr_float(n, "spatial_scale", 1),
                                       .sampling_ratio = ipu__attr_int(n, "sampling_ratio", 0),
                                       .is_max         = CHOICE(n, "mode", "avg", modes) == 1};
    const char           *otherwise = n->version < 16 ? places[0] : places[1];
    o.half_pixel                    = CHOICE(n, "coordinate_transformation_mode", otherwise, places) == 1;
    if (o.height < 1 || o.width < 1 || !(o.scale > 0))
        ipu__node_fail(n, IPU_INVALID, "output_height, output_width and spatial_scale must be positive");
    if (ipu__import_ok(n->im)) ipu__give(n, 0, ipu_roi_align(n->b, x, rois, images, o));
}
