/* Arrays of half, bfloat16 and float as floats, and back. */
#ifndef IPU_OP_FLOATS_H
#define IPU_OP_FLOATS_H

#include <string.h>

#include "ipu/type.h"

/* n elements from element `at` on. */
static inline void ipu__floats_load(ipu_type type, const void *from, int64_t at, int64_t n, float *to)
{
    if (type == IPU_FLOAT)
        memcpy(to, (const float *)from + at, (size_t)n * sizeof *to);
    else if (type == IPU_HALF)
        ipu_half_to_floats((const ipu_half *)from + at, to, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++) to[i] = ipu_bfloat16_to_float(((const ipu_bfloat16 *)from)[at + i]);
}

/* The same without a copy where they are floats: in `buffer` otherwise. */
static inline const float *ipu__floats_get(ipu_type type, const void *from, int64_t at, int64_t n,
                                           float *buffer)
{
    if (type == IPU_FLOAT) return (const float *)from + at;
    ipu__floats_load(type, from, at, n, buffer);
    return buffer;
}

static inline void ipu__floats_store(ipu_type type, const float *from, void *to, int64_t at, int64_t n)
{
    if (type == IPU_FLOAT)
        memcpy((float *)to + at, from, (size_t)n * sizeof *from);
    else if (type == IPU_HALF)
        ipu_half_from_floats(from, (ipu_half *)to + at, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++) ((ipu_bfloat16 *)to)[at + i] = ipu_bfloat16_from_float(from[i]);
}

#endif
