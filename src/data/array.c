/* Host arrays: checked sizes, and their memory. */
#include "data/array.h"

#include <string.h>

#include "base/alloc.h"

static ipu_status fail_shape(const ipu_shape *shape, const char *why)
{
    char text[256];
    ipu_shape_text(shape, text, sizeof text);
    return ipu__fail(IPU_INVALID, "an array of shape %s: %s", text, why);
}

ipu_status ipu__array_size(ipu_type type, const ipu_shape *shape, size_t *bytes)
{
    *bytes = 0;
    if ((unsigned)type >= IPU_N_TYPES)
        return ipu__fail(IPU_INVALID, "an array of type number %d: expected one of ipu_type", (int)type);
    if (shape->rank < 0 || shape->rank > IPU_MAX_RANK)
        return ipu__fail(IPU_INVALID, "an array of rank %d: expected 0 to %d", shape->rank, IPU_MAX_RANK);
    int64_t size  = (int64_t)ipu_type_size(type);
    bool    empty = false;
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] < 0) return fail_shape(shape, "expected dimensions of 0 and more");
        if (shape->dim[d] == 0)
            empty = true;
        else if (__builtin_mul_overflow(size, shape->dim[d], &size) || size > PTRDIFF_MAX)
            return fail_shape(shape, "it has more bytes than can be addressed");
    }
    *bytes = empty ? 0 : (size_t)size;
    return IPU_OK;
}

static ipu_status create(ipu_type type, const ipu_shape *shape, void *(*alloc)(size_t), ipu_array *out)
{
    size_t bytes;
    *out = (ipu_array){0};
    IPU_TRY(ipu__array_size(type, shape, &bytes));
    void *data = alloc(bytes);
    if (!data) return ipu__fail_memory();
    *out = (ipu_array){type, *shape, data};
    return IPU_OK;
}

ipu_status ipu__array_create_unset(ipu_type type, const ipu_shape *shape, ipu_array *out)
{
    return create(type, shape, ipu__alloc, out);
}

ipu_status ipu_array_create(ipu_type type, ipu_shape shape, ipu_array *out)
{
    return create(type, &shape, ipu__alloc_zeroed, out);
}

void ipu_array_free(ipu_array *a)
{
    ipu__free(a->data);
    *a = (ipu_array){0};
}

int64_t ipu_array_n_elements(const ipu_array *a)
{
    int64_t n = a->data != NULL;
    for (int d = 0; d < a->shape.rank; d++) n *= a->shape.dim[d];
    return n;
}

size_t ipu_array_bytes(const ipu_array *a)
{
    return (size_t)ipu_array_n_elements(a) * ipu_type_size(a->type);
}

double ipu_array_value(const ipu_array *a, int64_t i)
{
    switch (a->type) {
    case IPU_BOOL: return ((const uint8_t *)a->data)[i] != 0;
    case IPU_INT8: return ((const int8_t *)a->data)[i];
    case IPU_UINT8: return ((const uint8_t *)a->data)[i];
    case IPU_INT16: return ((const int16_t *)a->data)[i];
    case IPU_UINT16: return ((const uint16_t *)a->data)[i];
    case IPU_INT32: return ((const int32_t *)a->data)[i];
    case IPU_UINT32: return ((const uint32_t *)a->data)[i];
    case IPU_INT64: return (double)((const int64_t *)a->data)[i];
    case IPU_UINT64: return (double)((const uint64_t *)a->data)[i];
    case IPU_HALF: return (double)ipu_half_to_float(((const ipu_half *)a->data)[i]);
    case IPU_BFLOAT16: return (double)ipu_bfloat16_to_float(((const ipu_bfloat16 *)a->data)[i]);
    case IPU_FLOAT: return (double)((const float *)a->data)[i];
    case IPU_DOUBLE: return ((const double *)a->data)[i];
    case IPU_N_TYPES: break;
    }
    return 0;
}
