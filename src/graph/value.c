/* Numbers as elements of a type. */
#include <math.h>
#include <string.h>

#include "graph/graph.h"

/* Exact limits as doubles: 2^63 and 2^64 are one past the largest value. */
static bool is_integer_in(double value, double low, double past)
{
    return value >= low && value < past && value == floor(value);
}

/* Rounds to odd, so that rounding the result again equals rounding once. */
static float to_odd_float(double value)
{
    float f = (float)value;
    if (isnan(value) || (double)f == value) return f;
    if (fabs((double)f) > fabs(value)) f = nextafterf(f, 0);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits |= 1;
    memcpy(&f, &bits, sizeof f);
    return f;
}

bool ipu__value_from_double(ipu_type type, double value, void *out)
{
#define INTEGER(TYPE, ctype, low, past)                     \
    case IPU_##TYPE: {                                      \
        if (!is_integer_in(value, low, past)) return false; \
        ctype element = (ctype)value;                       \
        memcpy(out, &element, sizeof element);              \
        return true;                                        \
    }
#define REAL(TYPE, ctype, expression)          \
    case IPU_##TYPE: {                         \
        ctype element = (expression);          \
        memcpy(out, &element, sizeof element); \
        return true;                           \
    }
    switch (type) {
        INTEGER(BOOL, bool, 0, 2)
        INTEGER(INT8, int8_t, -0x1p7, 0x1p7)
        INTEGER(UINT8, uint8_t, 0, 0x1p8)
        INTEGER(INT16, int16_t, -0x1p15, 0x1p15)
        INTEGER(UINT16, uint16_t, 0, 0x1p16)
        INTEGER(INT32, int32_t, -0x1p31, 0x1p31)
        INTEGER(UINT32, uint32_t, 0, 0x1p32)
        INTEGER(INT64, int64_t, -0x1p63, 0x1p63)
        INTEGER(UINT64, uint64_t, 0, 0x1p64)
        REAL(HALF, ipu_half, ipu_half_from_float(to_odd_float(value)))
        REAL(BFLOAT16, ipu_bfloat16, ipu_bfloat16_from_float(to_odd_float(value)))
        REAL(FLOAT, float, (float)value)
        REAL(DOUBLE, double, value)
    case IPU_N_TYPES: break;
    }
    return false;
}
