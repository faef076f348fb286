/* The types that can be multiplied: X(T, type of the sum, load, store). half and bfloat16 are summed in
 * float; integers in unsigned words, which wrap. */
#ifndef IPU_OP_MATMUL_TYPES_H
#define IPU_OP_MATMUL_TYPES_H

#include "ipu/type.h"

static inline float    float_of_float(float x) { return x; }
static inline double   double_of_double(double x) { return x; }
static inline uint32_t word_of_int(int32_t x) { return (uint32_t)x; }
static inline int32_t  int_of_word(uint32_t x) { return (int32_t)x; }
static inline uint64_t long_of_int(int64_t x) { return (uint64_t)x; }
static inline uint32_t word_of_word(uint32_t x) { return x; }
static inline uint64_t long_of_long(uint64_t x) { return x; }
static inline int64_t  int_of_long(uint64_t x) { return (int64_t)x; }

#define IPU__MATMUL_FLOATING(X)                                \
    X(float, float, float_of_float, float_of_float)            \
    X(double, double, double_of_double, double_of_double)      \
    X(ipu_half, float, ipu_half_to_float, ipu_half_from_float) \
    X(ipu_bfloat16, float, ipu_bfloat16_to_float, ipu_bfloat16_from_float)

#define IPU__MATMUL_TYPES(X)                          \
    IPU__MATMUL_FLOATING(X)                           \
    X(int32_t, uint32_t, word_of_int, int_of_word)    \
    X(int64_t, uint64_t, long_of_int, int_of_long)    \
    X(uint32_t, uint32_t, word_of_word, word_of_word) \
    X(uint64_t, uint64_t, long_of_long, long_of_long)

#endif
