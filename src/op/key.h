/* Elements of any type as integers in the same order: NaN above all, -0 equal to 0. */
#ifndef IPU_OP_KEY_H
#define IPU_OP_KEY_H

#include <math.h>
#include <string.h>

#include "ipu/type.h"

static inline uint64_t ipu__key_of_float(float x)
{
    uint32_t bits;
    if (isnan(x)) return UINT32_MAX;
    x += 0; /* -0 */
    memcpy(&bits, &x, sizeof bits);
    return bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
}

static inline uint64_t ipu__key_of_double(double x)
{
    uint64_t bits;
    if (isnan(x)) return UINT64_MAX;
    x += 0;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static inline uint64_t ipu__key_of(ipu_type type, const void *x, int64_t i)
{
    switch (type) {
    case IPU_HALF: return ipu__key_of_float(ipu_half_to_float(((const ipu_half *)x)[i]));
    case IPU_BFLOAT16: return ipu__key_of_float(ipu_bfloat16_to_float(((const ipu_bfloat16 *)x)[i]));
    case IPU_FLOAT: return ipu__key_of_float(((const float *)x)[i]);
    case IPU_DOUBLE: return ipu__key_of_double(((const double *)x)[i]);
    case IPU_INT8: return ((const uint8_t *)x)[i] ^ 0x80u;
    case IPU_INT16: return ((const uint16_t *)x)[i] ^ 0x8000u;
    case IPU_INT32: return ((const uint32_t *)x)[i] ^ UINT32_C(0x80000000);
    case IPU_INT64: return ((const uint64_t *)x)[i] ^ UINT64_C(0x8000000000000000);
    case IPU_UINT16: return ((const uint16_t *)x)[i];
    case IPU_UINT32: return ((const uint32_t *)x)[i];
    case IPU_UINT64: return ((const uint64_t *)x)[i];
    default: return ((const uint8_t *)x)[i]; /* uint8, bool */
    }
}

/* Bytes of a key that differ. */
static inline int ipu__key_bytes(ipu_type type)
{
    return type == IPU_HALF || type == IPU_BFLOAT16 ? 4 : (int)ipu_type_size(type);
}

#endif
