/* Element types and the conversions of half and bfloat16: integer arithmetic on the bits, so that neither
 * rounding modes nor flush-to-zero affect results. The vector paths give identical bits. */
#include "ipu/type.h"

#include <string.h>

#include "base/host/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_F16C 1
#endif

static const struct {
    const char *name;
    size_t      bytes;
} types[IPU_N_TYPES] = {
#define X(constant, text, ctype) [IPU_##constant] = {text, sizeof(ctype)},
    IPU_TYPE_LIST(X)
#undef X
};

size_t ipu_type_size(ipu_type type) { return (unsigned)type < IPU_N_TYPES ? types[type].bytes : 0; }

const char *ipu_type_name(ipu_type type) { return (unsigned)type < IPU_N_TYPES ? types[type].name : "?"; }

ipu_type ipu_type_find(const char *name)
{
    int t = 0;
    while (t < IPU_N_TYPES && strcmp(types[t].name, name) != 0) t++;
    return (ipu_type)t;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* x / 2^shift to nearest, ties to even; shift in 1..31 and no carry out of 32 bits. */
static uint32_t shift_rounded(uint32_t x, unsigned shift)
{
    uint32_t below_half = (1u << (shift - 1)) - 1;
    return (x + below_half + (x >> shift & 1)) >> shift;
}

enum {
    FLOAT_INF     = 0x7f800000,
    HALF_TOO_BIG  = 0x47800000, /* 2^16; values between 65504 and this round correctly by themselves */
    HALF_NORMAL   = 0x38800000, /* 2^-14, the smallest normal half */
    HALF_TOO_TINY = 0x33000000, /* 2^-25, which is halfway to the smallest half and goes to 0 */
    HALF_REBIAS   = (127 - 15) << 23,
};

ipu_half ipu_half_from_float(float value)
{
    uint32_t all = bits_of(value), sign = all >> 16 & 0x8000, u = all & 0x7fffffff, h;
    if (u > FLOAT_INF) /* quiet, with the upper bits of the payload, as hardware does */
        h = 0x7e00 | (u >> 13 & 0x3ff);
    else if (u >= HALF_TOO_BIG)
        h = 0x7c00;
    else if (u >= HALF_NORMAL)
        h = shift_rounded(u - HALF_REBIAS, 13);
    else if (u > HALF_TOO_TINY)
        h = shift_rounded((u & 0x7fffff) | 0x800000, 126 - (u >> 23));
    else
        h = 0;
    return (ipu_half){(uint16_t)(sign | h)};
}

float ipu_half_to_float(ipu_half value)
{
    uint32_t sign = (uint32_t)(value.bits & 0x8000) << 16, h = value.bits & 0x7fff, u;
    if (h > 0x7c00) {
        u = FLOAT_INF | 0x400000 | h << 13;
    } else if (h == 0x7c00) {
        u = FLOAT_INF;
    } else if (h >= 0x400) {
        u = (h << 13) + HALF_REBIAS;
    } else if (h) { /* h * 2^-24: move the leading bit to its implied position */
        unsigned shift = (unsigned)__builtin_clz(h) - 8;
        u              = (h << shift) - 0x800000 + ((127 - 1 - shift) << 23);
    } else {
        u = 0;
    }
    return float_of(sign | u);
}

ipu_bfloat16 ipu_bfloat16_from_float(float value)
{
    uint32_t u = bits_of(value);
    if ((u & 0x7fffffff) > FLOAT_INF) return (ipu_bfloat16){(uint16_t)(u >> 16 | 0x40)};
    return (ipu_bfloat16){(uint16_t)shift_rounded(u, 16)};
}

float ipu_bfloat16_to_float(ipu_bfloat16 value) { return float_of((uint32_t)value.bits << 16); }

#ifdef HAVE_F16C
/* Eight at a time, then four, then one: rows are short, so tails matter. */
__attribute__((target("avx,f16c"))) static void from_floats_f16c(const float *from, ipu_half *to, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    if (i + 4 <= n) {
        _mm_storel_epi64((__m128i *)(to + i),
                         _mm_cvtps_ph(_mm_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
        i += 4;
    }
    for (; i < n; i++) to[i].bits = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
}

__attribute__((target("avx,f16c"))) static void to_floats_f16c(const ipu_half *from, float *to, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
    if (i + 4 <= n) {
        _mm_storeu_ps(to + i, _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(from + i))));
        i += 4;
    }
    for (; i < n; i++) to[i] = _cvtsh_ss(from[i].bits);
}
#endif

void ipu_half_from_floats(const float *from, ipu_half *to, size_t n)
{
#ifdef HAVE_F16C
    if (ipu__cpu_features() & IPU__CPU_F16C) {
        from_floats_f16c(from, to, n);
        return;
    }
#endif
    for (size_t i = 0; i < n; i++) to[i] = ipu_half_from_float(from[i]);
}

void ipu_half_to_floats(const ipu_half *from, float *to, size_t n)
{
#ifdef HAVE_F16C
    if (ipu__cpu_features() & IPU__CPU_F16C) {
        to_floats_f16c(from, to, n);
        return;
    }
#endif
    for (size_t i = 0; i < n; i++) to[i] = ipu_half_to_float(from[i]);
}
