/* MNIST's pairs of IDX files: pictures and their labels. */
#include "data/idx.h"
#include "data/image_set.h"

static ipu_status check_pair(const ipu__idx *x, const char *images, const ipu__idx *y, const char *labels)
{
    if (x->shape.rank != 3)
        return ipu__fail(IPU_INVALID, "%s: expected pictures in 3 dimensions, found %d", images,
                         x->shape.rank);
    if (y->shape.rank != 1)
        return ipu__fail(IPU_INVALID, "%s: expected labels in 1 dimension, found %d", labels, y->shape.rank);
    if (x->shape.dim[0] != y->shape.dim[0])
        return ipu__fail(IPU_INVALID,
                         "%s has %lld pictures, but %s has %lld labels: they do not belong together", images,
                         (long long)x->shape.dim[0], labels, (long long)y->shape.dim[0]);
    if (x->shape.dim[1] == 0 || x->shape.dim[2] == 0)
        return ipu__fail(IPU_INVALID, "%s: its pictures have no pixels", images);
    return IPU_OK;
}

static ipu_status read_pair(ipu__idx *x, const char *images, const ipu__idx *y, const char *labels,
                            ipu__images *out)
{
    IPU_TRY(check_pair(x, images, y, labels));
    const ipu_array bytes = {IPU_UINT8, y->shape, (void *)y->elements};
    IPU_TRY(ipu__labels_take(&bytes, y->shape.dim[0], labels, &out->labels));
    out->kind   = "IDX files";
    out->type   = IPU_UINT8;
    out->n      = x->shape.dim[0];
    out->shape  = IPU_SHAPE(1, x->shape.dim[1], x->shape.dim[2]);
    out->pixels = x->elements;
    out->block  = x->block;
    *x          = (ipu__idx){0};
    return IPU_OK;
}

ipu_status ipu__idx_pair_read(const char *images, const char *labels, ipu__images *out)
{
    ipu__idx x = {0}, y = {0};
    *out              = (ipu__images){0};
    ipu_status status = ipu__idx_open(images, &x);
    if (status == IPU_OK) status = ipu__idx_open(labels, &y);
    if (status == IPU_OK) status = read_pair(&x, images, &y, labels, out);
    ipu__idx_close(&x);
    ipu__idx_close(&y);
    return status;
}
