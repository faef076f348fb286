/* Compiler hints for loops over registers. */
#ifndef IPU_OP_VECTOR_UNROLL_H
#define IPU_OP_VECTOR_UNROLL_H

#if defined(__clang__)
/* Nested loops that are not unrolled are slower but not wrong. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 32")
#endif
#define INLINE static inline __attribute__((always_inline))

/* Otherwise compilers reload a value for each use, or keep those of the previous iteration until registers
 * run out. */
#define HOLD(vector) __asm__("" : "+v"(vector))
#define HIDE(pointer) __asm__("" : "+r"(pointer))

#endif
