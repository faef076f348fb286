/* The loops of pooling over rows in float. */
#include "op/pool.h"

#include <string.h>

/* Both are larger than a number that is not larger than themselves, or not a number. */
static inline bool is_larger(float v, float than) { return (v > than) | (v != v); }

static void max(float *restrict to, const float *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = is_larger(from[i], to[i]) ? from[i] : to[i];
}

static void add(float *restrict to, const float *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

static void divide(float *restrict to, const float *restrict by, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] /= by[i];
}

static void seek(float *restrict most, int32_t *restrict where, const float *restrict v, int32_t k, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        bool larger = is_larger(v[i], most[i]);
        most[i]     = larger ? v[i] : most[i];
        where[i]    = larger ? k : where[i];
    }
}

static void give(float *restrict to, const int32_t *restrict where, const float *restrict dy, int32_t k,
                 int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] += where[i] == k ? dy[i] : 0;
}

static void split(const float *restrict row, int64_t n, int64_t stride, float *restrict phases, int64_t pitch)
{
    if (stride == 1) {
        memcpy(phases, row, (size_t)n * sizeof *row);
    } else if (stride == 2) {
        float *restrict odd = phases + pitch;
        for (int64_t i = 0; i < n / 2; i++) {
            phases[i] = row[2 * i];
            odd[i]    = row[2 * i + 1];
        }
        if (n % 2) phases[n / 2] = row[n - 1];
    } else {
        for (int64_t p = 0; p < stride; p++)
            for (int64_t i = 0, c = p; c < n; i++, c += stride) phases[p * pitch + i] = row[c];
    }
}

static void join(const float *restrict phases, int64_t pitch, int64_t stride, float *restrict row, int64_t n)
{
    if (stride == 1) {
        memcpy(row, phases, (size_t)n * sizeof *row);
    } else if (stride == 2) {
        const float *restrict odd = phases + pitch;
        for (int64_t i = 0; i < n / 2; i++) {
            row[2 * i]     = phases[i];
            row[2 * i + 1] = odd[i];
        }
        if (n % 2) row[n - 1] = phases[n / 2];
    } else {
        for (int64_t p = 0; p < stride; p++)
            for (int64_t i = 0, c = p; c < n; i++, c += stride) row[c] = phases[p * pitch + i];
    }
}

const ipu__pool_loops IPU__SIMD(ipu__pool_loops_at) = {max, add, divide, seek, give, split, join};
