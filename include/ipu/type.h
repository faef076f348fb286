/* Element types, including the two that C lacks.
 *
 *     ipu_half h = ipu_half_from_float(0.1f);
 *     float    f = ipu_half_to_float(h);
 */
#ifndef IPU_TYPE_H
#define IPU_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
typedef struct ipu_half { uint16_t bits; } ipu_half;         /* IEEE binary16 */
typedef struct ipu_bfloat16 { uint16_t bits; } ipu_bfloat16; /* upper half of a binary32 */

/* X(constant, text form, C type) */
#define IPU_TYPE_LIST(X)                   \
    X(BOOL,     "bool",     bool)          \
    X(INT8,     "int8",     int8_t)        \
    X(UINT8,    "uint8",    uint8_t)       \
    X(INT16,    "int16",    int16_t)       \
    X(UINT16,   "uint16",   uint16_t)      \
    X(INT32,    "int32",    int32_t)       \
    X(UINT32,   "uint32",   uint32_t)      \
    X(INT64,    "int64",    int64_t)       \
    X(UINT64,   "uint64",   uint64_t)      \
    X(HALF,     "half",     ipu_half)      \
    X(BFLOAT16, "bfloat16", ipu_bfloat16)  \
    X(FLOAT,    "float",    float)         \
    X(DOUBLE,   "double",   double)

typedef enum ipu_type {
#define X(name, text, ctype) IPU_##name,
    IPU_TYPE_LIST(X)
#undef X
    IPU_N_TYPES
} ipu_type;
/* clang-format on */

size_t ipu_type_size(ipu_type type);

/* "float"; "?" if out of range. */
const char *ipu_type_name(ipu_type type);

/* The type with that name; IPU_N_TYPES if there is none. */
ipu_type ipu_type_find(const char *name);

/* To nearest, ties to even; NaN stays NaN, overflow becomes infinity. */
ipu_half     ipu_half_from_float(float value);
float        ipu_half_to_float(ipu_half value);
ipu_bfloat16 ipu_bfloat16_from_float(float value);
float        ipu_bfloat16_to_float(ipu_bfloat16 value);

/* The same for arrays: Poplar's copyFloatToDeviceHalf and its inverse. */
void ipu_half_from_floats(const float *from, ipu_half *to, size_t n);
void ipu_half_to_floats(const ipu_half *from, float *to, size_t n);

/* The constant of a C type: IPU_TYPE_OF(float) is IPU_FLOAT. */
#ifndef __cplusplus
/* clang-format off */
#define IPU_TYPE_OF(T)                                                          \
    _Generic((T *)0,                                                            \
        _Bool *: IPU_BOOL, ipu_half *: IPU_HALF, ipu_bfloat16 *: IPU_BFLOAT16,  \
        float *: IPU_FLOAT, double *: IPU_DOUBLE,                               \
        signed char *: IPU_INT8, unsigned char *: IPU_UINT8,                    \
        char *: ((char)-1 < 0 ? IPU_INT8 : IPU_UINT8),                          \
        short *: IPU_INT16, unsigned short *: IPU_UINT16,                       \
        int *: IPU_INT32, unsigned *: IPU_UINT32,                               \
        long *: (sizeof(long) == 8 ? IPU_INT64 : IPU_INT32),                    \
        unsigned long *: (sizeof(long) == 8 ? IPU_UINT64 : IPU_UINT32),         \
        long long *: IPU_INT64, unsigned long long *: IPU_UINT64)
/* clang-format on */

#endif

#ifdef __cplusplus
}
#endif
#endif
