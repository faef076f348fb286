/* Pooling: the functions of ipu/op/pool.h. */
#include "ipu/op/pool.h"

#include "ipu/op/elementwise.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "op/builder.h"

enum { MOST_DIMS = 3 };

typedef struct lists {
    int           n;
    int64_t       kernel[MOST_DIMS], strides[MOST_DIMS], pads[2 * MOST_DIMS], dilations[MOST_DIMS];
    ipu_attribute attributes[6];
    size_t        n_attributes;
} lists;

typedef enum pooling { MAX, AVERAGE, LP } pooling;

static bool make_lists(ipu_builder *b, const char *caller, ipu_value x, const ipu_pool_options *o,
                       pooling kind, double p, lists *out)
{
    if (!ipu__builder_has(b, caller, x)) return false;
    *out = (lists){.n = ipu_value_rank(x) - 2};
    if (out->n < 1 || out->n > MOST_DIMS) {
        ipu__builder_fail(b, IPU_INVALID, "%s: expected an input of rank 3 to 5, found %s", caller,
                          ipu__value_str(x));
        return false;
    }
    for (int i = 0; i < out->n; i++) {
        out->kernel[i]        = o->kernel[i];
        out->strides[i]       = o->stride[i] ? o->stride[i] : o->kernel[i];
        out->dilations[i]     = o->dilation[i] ? o->dilation[i] : 1;
        out->pads[i]          = o->padding[i];
        out->pads[out->n + i] = o->has_padding_end ? o->padding_end[i] : o->padding[i];
    }
    ipu_attribute *a = out->attributes;
    *a++             = IPU__INTS("kernel", out->kernel, out->n);
    *a++             = IPU__INTS("strides", out->strides, out->n);
    *a++             = IPU__INTS("pads", out->pads, 2 * out->n);
    *a++             = IPU_INT_ATTRIBUTE("ceil_mode", o->ceil_mode);
    if (kind == LP) *a++ = IPU_FLOAT_ATTRIBUTE("p", p);
    if (kind == MAX) *a++ = IPU__INTS("dilations", out->dilations, out->n);
    if (kind == AVERAGE) *a++ = IPU_INT_ATTRIBUTE("count_include_pad", !o->exclude_padding);
    out->n_attributes = (size_t)(a - out->attributes);
    return true;
}

ipu_value ipu_max_pool_with_indices(ipu_builder *b, ipu_value x, ipu_pool_options options, ipu_value *indices)
{
    lists     l;
    ipu_value out[2] = {{b, 0}, {b, 0}};
    ipu_type  type   = ipu_value_type(x);
    if (type == IPU_INT8 || type == IPU_UINT8) { /* which half holds exactly */
        ipu_value y = ipu_max_pool_with_indices(b, ipu_cast(b, x, IPU_HALF), options, indices);
        return ipu_cast(b, y, type);
    }
    if (make_lists(b, "ipu_max_pool", x, &options, MAX, 0, &l))
        ipu_emit(b, "max_pool", l.attributes, l.n_attributes, &x, 1, out, 2);
    if (indices) *indices = out[1];
    return out[0];
}

ipu_value ipu_max_pool(ipu_builder *b, ipu_value x, ipu_pool_options options)
{
    return ipu_max_pool_with_indices(b, x, options, NULL);
}

ipu_value ipu_average_pool(ipu_builder *b, ipu_value x, ipu_pool_options options)
{
    lists l;
    if (!make_lists(b, "ipu_average_pool", x, &options, AVERAGE, 0, &l)) return (ipu_value){b, 0};
    return ipu__emit1(b, "average_pool", l.attributes, l.n_attributes, &x, 1);
}

ipu_value ipu_lp_pool(ipu_builder *b, ipu_value x, double p, ipu_pool_options options)
{
    lists l;
    if (!make_lists(b, "ipu_lp_pool", x, &options, LP, p, &l)) return (ipu_value){b, 0};
    return ipu__emit1(b, "lp_pool", l.attributes, l.n_attributes, &x, 1);
}

ipu_value ipu_max_pool2d(ipu_builder *b, ipu_value x, int64_t size)
{
    return ipu_max_pool(b, x, (ipu_pool_options){.kernel = {size, size, size}});
}

ipu_value ipu_average_pool2d(ipu_builder *b, ipu_value x, int64_t size)
{
    return ipu_average_pool(b, x, (ipu_pool_options){.kernel = {size, size, size}});
}

static bool check_planes(ipu_builder *b, const char *caller, ipu_value x)
{
    if (!ipu__builder_has(b, caller, x)) return false;
    if (ipu_value_rank(x) >= 3 && ipu_value_rank(x) <= 5) return true;
    ipu__builder_fail(b, IPU_INVALID, "%s: expected an input of rank 3 to 5, found %s", caller,
                      ipu__value_str(x));
    return false;
}

static const int plane_axes[MOST_DIMS] = {2, 3, 4};

ipu_value ipu_global_max_pool(ipu_builder *b, ipu_value x)
{
    if (!check_planes(b, __func__, x)) return (ipu_value){b, 0};
    return ipu_reduce_max(b, x, plane_axes, ipu_value_rank(x) - 2, true);
}

ipu_value ipu_global_average_pool(ipu_builder *b, ipu_value x)
{
    if (!check_planes(b, __func__, x)) return (ipu_value){b, 0};
    return ipu_reduce_mean(b, x, plane_axes, ipu_value_rank(x) - 2, true);
}

ipu_value ipu_pool_gather(ipu_builder *b, ipu_value x, ipu_value indices)
{
    return ipu__emit1(b, "pool_gather", NULL, 0, IPU__IN(x, indices));
}

ipu_value ipu_pool_scatter(ipu_builder *b, ipu_value y, ipu_value indices, const int64_t *size)
{
    int n = ipu_value_rank(y) - 2;
    return ipu__emit1(b, "pool_scatter", IPU__WITH(IPU__INTS("size", size, n > 0 ? n : 0)),
                      IPU__IN(y, indices));
}
