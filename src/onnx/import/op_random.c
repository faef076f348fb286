/* Random numbers of ONNX. They come from the model's seed; the `seed` of a node is not needed to tell it from
 * others, and ONNX promises no values for one. */
#include "ipu/op.h"
#include "onnx/import/import.h"

static bool shape_of(ipu__node *n, ipu_shape *out)
{
    size_t         count;
    const int64_t *dims = ipu__attr_ints(n, "shape", &count);
    *out                = (ipu_shape){0};
    if (count > IPU_MAX_RANK)
        ipu__node_fail(n, IPU_UNSUPPORTED, "%zu dimensions; at most %d are supported", count, IPU_MAX_RANK);
    for (size_t i = 0; i < count && i < IPU_MAX_RANK; i++) out->dim[out->rank++] = dims[i];
    return ipu__import_ok(n->im);
}

static void normal(ipu__node *n, ipu_type type, ipu_shape shape)
{
    if (!ipu__import_ok(n->im)) return;
    double mean = ipu__attr_float(n, "mean", 0), scale = ipu__attr_float(n, "scale", 1);
    ipu__give(n, 0, ipu_random_normal(n->b, ipu_model_seed(n->m), type, shape, mean, scale));
}

static void uniform(ipu__node *n, ipu_type type, ipu_shape shape)
{
    if (!ipu__import_ok(n->im)) return;
    double low = ipu__attr_float(n, "low", 0), high = ipu__attr_float(n, "high", 1);
    ipu__give(n, 0, ipu_random_uniform(n->b, ipu_model_seed(n->m), type, shape, low, high));
}

void ipu__onnx_RandomNormal(ipu__node *n)
{
    ipu_shape shape;
    if (shape_of(n, &shape)) normal(n, ipu__attr_type(n, "dtype", IPU_FLOAT), shape);
}

void ipu__onnx_RandomUniform(ipu__node *n)
{
    ipu_shape shape;
    if (shape_of(n, &shape)) uniform(n, ipu__attr_type(n, "dtype", IPU_FLOAT), shape);
}

void ipu__onnx_RandomNormalLike(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0);
    normal(n, ipu__attr_type(n, "dtype", ipu_value_type(x)), ipu_value_shape(x));
}

void ipu__onnx_RandomUniformLike(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0);
    uniform(n, ipu__attr_type(n, "dtype", ipu_value_type(x)), ipu_value_shape(x));
}

void ipu__onnx_Bernoulli(ipu__node *n)
{
    ipu_value p    = ipu__in_needed(n, 0);
    ipu_type  type = ipu__attr_type(n, "dtype", ipu_value_type(p));
    if (ipu__import_ok(n->im)) ipu__give(n, 0, ipu_bernoulli(n->b, p, ipu_model_seed(n->m), type));
}

void ipu__onnx_Multinomial(ipu__node *n)
{
    ipu_value x     = ipu__in_needed(n, 0);
    int64_t   count = ipu__attr_int(n, "sample_size", 1);
    ipu_type  type  = ipu__attr_type(n, "dtype", IPU_INT32);
    if (ipu__import_ok(n->im)) ipu__give(n, 0, ipu_multinomial(n->b, x, ipu_model_seed(n->m), count, type));
}
