/* Resizing, sampling, spectra and counts of n-grams: ONNX has them under other names. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ipu/op.h"
#include "onnx/export/export.h"

/* ---- resizing ---- */

/* Numbers called STEM_0, STEM_1, ... */
static void numbers(const ipu__wop *o, const char *stem, int n, double *out)
{
    for (int d = 0; d < n; d++) {
        char name[32];
        snprintf(name, sizeof name, "%s_%d", stem, d);
        out[d] = ipu__op_float(&o->call, name);
    }
}

/* ONNX's scales are floats: whether they give the same extents. */
static bool are_scales_exact(const ipu__wop *o, const double *scales)
{
    const ipu_shape *x = &o->call.operand[0].shape, *y = &o->call.operand[1].shape;
    for (int d = 0; d < x->rank; d++)
        if (floorf((float)x->dim[d] * (float)scales[d]) != (float)y->dim[d]) return false;
    return true;
}

static const char *put_roi(ipu__wop *o, int rank)
{
    double roi[2 * IPU_MAX_RANK];
    if (strcmp(ipu__op_text(&o->call, "coordinates"), "tf_crop_and_resize") != 0) return "";
    numbers(o, "roi_begin", rank, roi);
    numbers(o, "roi_end", rank, roi + rank);
    return ipu__put_numbers(o->w, IPU_FLOAT, roi, 2 * (size_t)rank);
}

bool ipu__write_resize(ipu__wop *o)
{
    const ipu_shape *y                    = &o->call.operand[1].shape;
    double           scales[IPU_MAX_RANK] = {0};
    size_t           n_sizes;
    if (y->rank == 0) return ipu__put_same(o, "Identity", 1, 1);
    ipu__op_ints(&o->call, "sizes", &n_sizes);
    numbers(o, "scale", y->rank, scales);
    if (n_sizes == 0 && !are_scales_exact(o, scales)) return false;
    const char *roi = put_roi(o, y->rank), *by = "", *to = "";
    if (n_sizes == 0)
        by = ipu__put_numbers(o->w, IPU_FLOAT, scales, (size_t)y->rank);
    else
        to = ipu__put_list(o->w, y->dim, (size_t)y->rank);
    Ipu__NodeProto *node = ipu__put(o->w, "Resize", IPU__NAMES(ipu__take(o, 0), roi, by, to), o->out[0]);
    ipu__put_text(o->w, node, "mode", ipu__op_text(&o->call, "mode"));
    ipu__put_text(o->w, node, "coordinate_transformation_mode", ipu__op_text(&o->call, "coordinates"));
    ipu__put_text(o->w, node, "nearest_mode", ipu__op_text(&o->call, "nearest"));
    ipu__put_float(o->w, node, "cubic_coeff_a", ipu__op_float(&o->call, "cubic_a"));
    ipu__put_int(o->w, node, "exclude_outside", ipu__op_int(&o->call, "exclude_outside"));
    ipu__put_float(o->w, node, "extrapolation_value", ipu__op_float(&o->call, "extrapolation"));
    return true;
}

/* ---- sampling ---- */

bool ipu__write_grid_sample(ipu__wop *o)
{
    Ipu__NodeProto *node = ipu__put_same(o, "GridSample", 2, 1);
    if (!node) return false;
    ipu__put_text(o->w, node, "mode", ipu__op_text(&o->call, "mode"));
    ipu__put_text(o->w, node, "padding_mode", ipu__op_text(&o->call, "padding"));
    ipu__put_int(o->w, node, "align_corners", ipu__op_int(&o->call, "align_corners"));
    return true;
}

/* Until opset 16 coordinates are never moved by half a pixel. */
static bool put_regions(ipu__wop *o, const char *mode)
{
    bool             is_half = ipu__op_int(&o->call, "half_pixel") != 0;
    const ipu_shape *y       = &o->call.operand[o->op->n_in].shape;
    ipu_type         type    = ipu__carrier(o->w, "RoiAlign", o->call.operand[0].type);
    if (is_half && o->w->opset < 16) return false;
    for (uint32_t i = 1; i < o->op->n_out; i++)
        if (ipu__gives(o, (int)i)) return false;
    Ipu__NodeProto *node = ipu__put(o->w, "RoiAlign",
                                    IPU__NAMES(ipu__take_as(o, 0, type), ipu__take_as(o, 1, type),
                                               ipu__take_as(o, 2, IPU_INT64)),
                                    ipu__give_as(o, 0, type));
    ipu__put_text(o->w, node, "mode", mode);
    ipu__put_int(o->w, node, "output_height", y->dim[2]);
    ipu__put_int(o->w, node, "output_width", y->dim[3]);
    ipu__put_int(o->w, node, "sampling_ratio", ipu__op_int(&o->call, "sampling_ratio"));
    ipu__put_float(o->w, node, "spatial_scale", ipu__op_float(&o->call, "scale"));
    if (o->w->opset >= 16)
        ipu__put_text(o->w, node, "coordinate_transformation_mode",
                      is_half ? "half_pixel" : "output_half_pixel");
    return true;
}
bool ipu__write_roi_align(ipu__wop *o) { return put_regions(o, "avg"); }
bool ipu__write_roi_align_max(ipu__wop *o) { return put_regions(o, "max"); }

/* ---- spectra ---- */

bool ipu__write_dft(ipu__wop *o)
{
    Ipu__NodeProto *node = ipu__put_same(o, "DFT", 1, 1);
    if (!node) return false;
    ipu__put_int(o->w, node, "axis", ipu__op_int(&o->call, "axis"));
    ipu__put_int(o->w, node, "inverse", ipu__op_int(&o->call, "inverse"));
    ipu__put_int(o->w, node, "onesided", ipu__op_int(&o->call, "onesided"));
    return true;
}

/* ---- texts ---- */

/* Weights are an attribute there: they must be known. */
bool ipu__write_tf_idf(ipu__wop *o)
{
    static const char *const ints[]  = {"min_gram_length", "max_gram_length", "max_skip_count"};
    static const char *const lists[] = {"pool", "ngram_counts", "ngram_indexes"};
    uint32_t                 id      = o->op->in[1];
    const ipu__model_value  *weights = &o->frame->m->values.at[id];
    if (id && (weights->kind != IPU__VALUE_CONSTANT || o->call.operand[1].type != IPU_FLOAT)) return false;
    if (o->call.operand[2].type != IPU_FLOAT) return false;
    Ipu__NodeProto *node = ipu__put(o->w, "TfIdfVectorizer", IPU__NAMES(ipu__take(o, 0)), o->out[0]);
    ipu__put_text(o->w, node, "mode", ipu__op_text(&o->call, "mode"));
    for (int i = 0; i < 3; i++) {
        size_t         n;
        const int64_t *list = ipu__op_ints(&o->call, lists[i], &n);
        ipu__put_int(o->w, node, ints[i], ipu__op_int(&o->call, ints[i]));
        ipu__put_ints(o->w, node, i == 0 ? "pool_int64s" : lists[i], list, n);
    }
    if (id)
        ipu__put_floats(o->w, node, "weights", weights->data,
                        (size_t)ipu__op_n_elements(&o->call.operand[1].shape));
    return true;
}
