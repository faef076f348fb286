/* Constants with a rule: arange, eye. */
#include "base/alloc.h"
#include "graph/graph.h"
#include "ipu/shape.h"
#include "op/builder.h"

/* `n` elements of `type` that the caller fills; NULL and an error in the builder if that cannot be. */
static char *make_data(ipu_builder *b, const char *caller, ipu_type type, int64_t n)
{
    if (b->status != IPU_OK) return NULL;
    if ((unsigned)type >= IPU_N_TYPES)
        ipu__builder_fail(b, IPU_INVALID, "%s: there is no type %d", caller, (int)type);
    else if (n < 0 || n > (int64_t)1 << 40)
        ipu__builder_fail(b, IPU_INVALID, "%s: %lld elements: expected 0 to 2^40", caller, (long long)n);
    if (b->status != IPU_OK) return NULL;
    char *data = ipu__alloc_zeroed((size_t)n * ipu_type_size(type));
    if (!data) ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "%s: memory for %lld elements", caller, (long long)n);
    return data;
}

ipu_value ipu_arange(ipu_builder *b, ipu_type type, int64_t n, double begin, double step)
{
    char *data = make_data(b, __func__, type, n);
    if (!data) return (ipu_value){b, 0};
    ipu_value out = {b, 0};
    int64_t   i   = 0;
    while (i < n
           && ipu__value_from_double(type, begin + (double)i * step, data + (size_t)i * ipu_type_size(type)))
        i++;
    if (i < n)
        ipu__builder_fail(b, IPU_INVALID, "ipu_arange: %s cannot hold the value %.17g", ipu_type_name(type),
                          begin + (double)i * step);
    else
        out = ipu_constant_data(b, type, IPU_SHAPE(n), data);
    ipu__free(data);
    return out;
}

ipu_value ipu_eye(ipu_builder *b, ipu_type type, int64_t n, int64_t diagonal)
{
    if (n < 0 || n > (int64_t)1 << 20) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_eye: %lld rows: expected 0 to 2^20", (long long)n);
        return (ipu_value){b, 0};
    }
    char *data = make_data(b, __func__, type, n * n);
    if (!data) return (ipu_value){b, 0};
    for (int64_t i = 0; i < n; i++)
        if (diagonal < n - i && diagonal >= -i)
            ipu__value_from_double(type, 1, data + (size_t)(i * n + i + diagonal) * ipu_type_size(type));
    ipu_value out = ipu_constant_data(b, type, IPU_SHAPE(n, n), data);
    ipu__free(data);
    return out;
}
