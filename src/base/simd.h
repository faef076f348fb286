/* Code compiled once per instruction set level: every x_simd.c.
 *
 *     x_simd.c   const table IPU__SIMD(ipu__x) = {...};            ipu__x_base, ipu__x_avx2, ipu__x_avx512
 *     x.h        IPU__SIMD_DECLARE(extern const table, ipu__x)
 *     x.c        IPU__SIMD_PICK(ipu__x).add(...)                   the best for this CPU
 *
 * Nothing may be contracted or reordered (-ffp-contract=off, no -ffast-math), so that all levels give
 * identical bits.
 */
#ifndef IPU_BASE_SIMD_H
#define IPU_BASE_SIMD_H

#include "base/host/cpu.h"

#define IPU__SIMD_PASTE2(name, level) name##_##level
#define IPU__SIMD_PASTE(name, level) IPU__SIMD_PASTE2(name, level)
#define IPU__SIMD(name) IPU__SIMD_PASTE(name, IPU__SIMD_LEVEL)

#if defined(__x86_64__) && !defined(IPU__SIMD_BASE_ONLY)
#define IPU__SIMD_DECLARE(type, name) \
    type name##_base;                 \
    type name##_avx2;                 \
    type name##_avx512;
#define IPU__SIMD_PICK(name)                            \
    (*(ipu__simd_has(IPU__SIMD_AVX512) ? &name##_avx512 \
       : ipu__simd_has(IPU__SIMD_AVX2) ? &name##_avx2   \
                                       : &name##_base))
#else
#define IPU__SIMD_DECLARE(type, name) type name##_base;
#define IPU__SIMD_PICK(name) (name##_base)
#endif

/* The features known to cpu.h that x86-64-v3 and -v4 require; processors that have these have the rest of
 * the level. */
enum {
    IPU__SIMD_AVX2   = IPU__CPU_AVX2 | IPU__CPU_FMA | IPU__CPU_F16C,
    IPU__SIMD_AVX512 = IPU__SIMD_AVX2 | IPU__CPU_AVX512F | IPU__CPU_AVX512BW | IPU__CPU_AVX512VL
};

/* Before a loop whose iterations are independent, even if arrays are the same memory, element for element. */
#if defined(__clang__)
#define IPU__INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define IPU__INDEPENDENT _Pragma("GCC ivdep")
#endif

static inline _Bool ipu__simd_has(unsigned features) { return (ipu__cpu_features() & features) == features; }

#endif
