/* Words for the compiler, for loops over registers. */
#ifndef IPU_OP_VECTOR_UNROLL_H
#define IPU_OP_VECTOR_UNROLL_H

#if defined(__clang__)
/* What it does not unroll, where loops lie within loops, is slower and not wrong. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 32")
#endif
#define INLINE static inline __attribute__((always_inline))

/* Compilers would load a value again for each use of it, or keep those of the turn before until registers run out. */
#define HOLD(vector) __asm__("" : "+v"(vector))
#define HIDE(pointer) __asm__("" : "+r"(pointer))

#endif
