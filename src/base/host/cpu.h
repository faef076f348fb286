/* Features of the CPU, for choosing implementations. */
#ifndef IPU_BASE_HOST_CPU_H
#define IPU_BASE_HOST_CPU_H

/* X(name, bit) */
#define IPU__CPU_FEATURE_LIST(X) \
    X(AVX2, 0)                   \
    X(FMA, 1)                    \
    X(F16C, 2) X(AVX512F, 3) X(AVX512BW, 4) X(AVX512VL, 5) X(AVX512_BF16, 6) X(NEON, 7) X(AVX512_VNNI, 8)

enum {
#define X(name, bit) IPU__CPU_##name = 1 << bit,
    IPU__CPU_FEATURE_LIST(X)
#undef X
};

unsigned ipu__cpu_features(void);

/* The features allowed by a value of IPU_CPU: "generic", "avx2"; anything else allows all. */
unsigned ipu__cpu_limit(const char *level);

#endif
