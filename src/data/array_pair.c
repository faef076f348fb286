/* Pictures and labels in numpy arrays: .npy files, mapped where possible, and .npz. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "data/image_set.h"
#include "data/npy.h"

/* ---- any two arrays ---- */

/* Determines the shape of a sample. With four dimensions, Keras puts channels last, PyTorch second. */
static ipu_status describe(const ipu_array *x, const char *where, ipu__images *out)
{
    const ipu_shape *s = &x->shape;
    if (x->type != IPU_UINT8 && x->type != IPU_HALF && x->type != IPU_BFLOAT16 && x->type != IPU_FLOAT
        && x->type != IPU_DOUBLE)
        return ipu__fail(
            IPU_UNSUPPORTED,
            "%s: its elements are %s: expected uint8 (0 to 255) or floats; convert them with astype", where,
            ipu_type_name(x->type));
    if (s->rank < 2)
        return ipu__fail(IPU_INVALID, "%s: expected at least 2 dimensions, samples first, found %d", where,
                         s->rank);
    out->type  = x->type;
    out->n     = s->dim[0];
    out->shape = (ipu_shape){.rank = s->rank - 1};
    for (int d = 1; d < s->rank; d++) out->shape.dim[d - 1] = s->dim[d];
    if (s->rank == 3) out->shape = IPU_SHAPE(1, s->dim[1], s->dim[2]);
    const int64_t first = s->rank == 4 ? s->dim[1] : 0, last = s->rank == 4 ? s->dim[3] : 0;
    out->channels_last = (last == 1 || last == 3 || last == 4) && first != 1 && first != 3 && first != 4;
    if (out->channels_last) out->shape = IPU_SHAPE(last, s->dim[1], s->dim[2]);
    return IPU_OK;
}

static ipu_status check_labels(const ipu_array *y, const char *where, int64_t n, const char *images)
{
    const ipu_shape *s = &y->shape;
    if (y->type == IPU_HALF || y->type == IPU_BFLOAT16 || y->type == IPU_FLOAT || y->type == IPU_DOUBLE)
        return ipu__fail(IPU_UNSUPPORTED,
                         "%s: its elements are %s: expected integers, the numbers of classes", where,
                         ipu_type_name(y->type));
    if (s->rank != 1 && !(s->rank == 2 && s->dim[1] == 1)) {
        char text[256];
        ipu_shape_text(s, text, sizeof text);
        return ipu__fail(IPU_INVALID, "%s: its shape is %s: expected one label for each sample", where, text);
    }
    if (s->dim[0] == n) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s has %lld samples, but %s has %lld labels: they do not belong together",
                     images, (long long)n, where, (long long)s->dim[0]);
}

/* On failure, `block`, which holds x, stays with the caller. */
static ipu_status join(const ipu_array *x, const char *x_name, ipu__bytes *block, const ipu_array *y,
                       const char *y_name, const char *kind, ipu__images *out)
{
    IPU_TRY(describe(x, x_name, out));
    IPU_TRY(check_labels(y, y_name, out->n, x_name));
    IPU_TRY(ipu__labels_take(y, out->n, y_name, &out->labels));
    if (!(out->where = ipu__strdup(x_name))) {
        ipu__free(out->labels);
        out->labels = NULL;
        return ipu__fail_memory();
    }
    out->kind   = kind;
    out->pixels = x->data;
    out->block  = *block;
    *block      = (ipu__bytes){0};
    return IPU_OK;
}

/* ---- .npy ---- */

static ipu_status open_npy(const char *path, ipu__bytes *block, ipu_array *out)
{
    bool is_plain;
    IPU_TRY(ipu__bytes_map(path, block));
    IPU_TRY(ipu__npy_view(block->data, block->bytes, path, out, &is_plain));
    if (is_plain) return IPU_OK;
    ipu__bytes_free(block);
    IPU_TRY(ipu_array_read_npy(path, out));
    block->owned = out->data;
    return IPU_OK;
}

ipu_status ipu__npy_pair_read(const char *images, const char *labels, ipu__images *out)
{
    ipu__bytes x_block = {0}, y_block = {0};
    ipu_array  x, y;
    *out              = (ipu__images){0};
    ipu_status status = open_npy(images, &x_block, &x);
    if (status == IPU_OK) status = open_npy(labels, &y_block, &y);
    if (status == IPU_OK) status = join(&x, images, &x_block, &y, labels, ".npy files", out);
    ipu__bytes_free(&x_block);
    ipu__bytes_free(&y_block);
    return status;
}

/* ---- .npz ---- */

static ipu_status read_entries(const char *path, const char *x_name, const char *y_name, ipu__images *out)
{
    ipu_array x = {0}, y = {0};
    char      x_where[512], y_where[512];
    snprintf(x_where, sizeof x_where, "%s of %s", x_name, path);
    snprintf(y_where, sizeof y_where, "%s of %s", y_name, path);
    *out = (ipu__images){0};
    IPU_TRY(ipu_array_read_npz(path, x_name, &x));
    ipu__bytes block  = {.owned = x.data};
    ipu_status status = ipu_array_read_npz(path, y_name, &y);
    if (status == IPU_OK) status = join(&x, x_where, &block, &y, y_where, ".npz file", out);
    ipu__bytes_free(&block);
    ipu_array_free(&y);
    return status;
}

ipu_status ipu__npz_read_images(const char *path, ipu_dataset_part part, ipu__images *out)
{
    bool       is_test = part == IPU_TEST;
    ipu_status status  = read_entries(path, is_test ? "x_test" : "x_train", is_test ? "y_test" : "y_train",
                                      out);
    if (status != IPU_NOT_FOUND) return status;
    status         = read_entries(path, "images", "labels", out);
    out->undivided = true;
    if (status != IPU_NOT_FOUND) return status;
    char why[512];
    snprintf(why, sizeof why, "%s", ipu_message());
    return ipu__fail(IPU_NOT_FOUND, "%s: expected x_train, y_train, x_test and y_test, or images and labels",
                     why);
}
