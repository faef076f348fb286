/* Elements of any numeric type as doubles: for references of several families. */
#ifndef IPU_OP_NUMBER_H
#define IPU_OP_NUMBER_H

#include "ipu/type.h"

/* Element `i` of an array of a floating type, int32 or int64. */
static inline double ipu__number_load(ipu_type type, const void *from, int64_t i)
{
    switch (type) {
    case IPU_HALF: return (double)ipu_half_to_float(((const ipu_half *)from)[i]);
    case IPU_BFLOAT16: return (double)ipu_bfloat16_to_float(((const ipu_bfloat16 *)from)[i]);
    case IPU_FLOAT: return (double)((const float *)from)[i];
    case IPU_DOUBLE: return ((const double *)from)[i];
    case IPU_INT32: return (double)((const int32_t *)from)[i];
    case IPU_INT64: return (double)((const int64_t *)from)[i];
    default: return 0;
    }
}

/* Element `i` of an array of integers or bool; uint64 bit for bit. */
static inline int64_t ipu__whole_load(ipu_type type, const void *from, int64_t i)
{
    switch (type) {
    case IPU_BOOL:
    case IPU_UINT8: return ((const uint8_t *)from)[i];
    case IPU_INT8: return ((const int8_t *)from)[i];
    case IPU_INT16: return ((const int16_t *)from)[i];
    case IPU_UINT16: return ((const uint16_t *)from)[i];
    case IPU_INT32: return ((const int32_t *)from)[i];
    case IPU_UINT32: return ((const uint32_t *)from)[i];
    default: return ((const int64_t *)from)[i];
    }
}

/* Element `i` of an array of a floating type, rounded to nearest even. */
static inline void ipu__number_store(ipu_type type, void *to, int64_t i, double value)
{
    switch (type) {
    case IPU_HALF: ((ipu_half *)to)[i] = ipu_half_from_float((float)value); break;
    case IPU_BFLOAT16: ((ipu_bfloat16 *)to)[i] = ipu_bfloat16_from_float((float)value); break;
    case IPU_FLOAT: ((float *)to)[i] = (float)value; break;
    case IPU_DOUBLE: ((double *)to)[i] = value; break;
    default: break;
    }
}

#endif
