/* Converts arrays of half, bfloat16 and float to floats, and back, starting at element `at`. */
#ifndef IPU_OP_VECTOR_FLOATS_H
#define IPU_OP_VECTOR_FLOATS_H

#include "op/product/xsmm.h"

static inline void ipu__floats_load(ipu_type type, const void *from, int64_t at, int64_t n, float *to)
{
    ipu__to_floats(type, (const char *)from + at * (int64_t)ipu_type_size(type), to, n);
}

/* Likewise, without a copy if they are floats already; otherwise in `buffer`. */
static inline const float *ipu__floats_get(ipu_type type, const void *from, int64_t at, int64_t n,
                                           float *buffer)
{
    if (type == IPU_FLOAT) return (const float *)from + at;
    ipu__floats_load(type, from, at, n, buffer);
    return buffer;
}

static inline void ipu__floats_store(ipu_type type, const float *from, void *to, int64_t at, int64_t n)
{
    ipu__from_floats(type, from, (char *)to + at * (int64_t)ipu_type_size(type), n);
}

#endif
