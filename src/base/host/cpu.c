/* CPU features, detected once: what the processor has, the operating system saves and IPU_CPU allows. */
#include "base/host/cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#if defined(__x86_64__) && !defined(IPU__SIMD_BASE_ONLY) || defined(__i386__)
#include <cpuid.h>

static unsigned leaf1_ecx(void)
{
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) ? c : 0;
}

/* __builtin_cpu_supports also checks the saved state; F16C, whose name clang 14 does not know, needs only
 * AVX's. */
static unsigned detect(void)
{
    __builtin_cpu_init();
    unsigned f = 0;
    if (__builtin_cpu_supports("avx2")) f |= IPU__CPU_AVX2;
    if (__builtin_cpu_supports("fma")) f |= IPU__CPU_FMA;
    if (__builtin_cpu_supports("avx") && (leaf1_ecx() & bit_F16C)) f |= IPU__CPU_F16C;
    if (__builtin_cpu_supports("avx512f")) f |= IPU__CPU_AVX512F;
    if (__builtin_cpu_supports("avx512bw")) f |= IPU__CPU_AVX512BW;
    if (__builtin_cpu_supports("avx512vl")) f |= IPU__CPU_AVX512VL;
    if (__builtin_cpu_supports("avx512bf16")) f |= IPU__CPU_AVX512_BF16;
    if (__builtin_cpu_supports("avx512vnni")) f |= IPU__CPU_AVX512_VNNI;
    return f;
}
#elif defined(__aarch64__)
static unsigned detect(void) { return IPU__CPU_NEON; }
#else
static unsigned detect(void) { return 0; }
#endif

unsigned ipu__cpu_limit(const char *level)
{
    static const struct {
        const char *name;
        unsigned    features;
    } levels[] = {{"generic", 0},
                  {"avx2", IPU__CPU_AVX2 | IPU__CPU_FMA | IPU__CPU_F16C},
                  {"avx512", ~0u},
                  {"native", ~0u},
                  {"", ~0u}};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcmp(level, levels[i].name) == 0) return levels[i].features;
    ipu__log(IPU_LOG_WARN, "engine", "IPU_CPU: expected generic, avx2, avx512 or native, found \"%s\"",
             level);
    return ~0u;
}

unsigned ipu__cpu_features(void)
{
    enum { KNOWN = 1 << 30 };
    /* CPUID traps out of a virtual machine every time, which costs thousands of cycles. */
    static atomic_uint cache;

    unsigned f = atomic_load_explicit(&cache, memory_order_relaxed);
    if (!(f & KNOWN)) {
        const char *level = getenv("IPU_CPU");
        f                 = (detect() & ipu__cpu_limit(level ? level : "")) | KNOWN;
        atomic_store_explicit(&cache, f, memory_order_relaxed);
    }
    return f & ~(unsigned)KNOWN;
}
