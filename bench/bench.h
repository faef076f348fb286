/* What benchmarks share: a clock, medians, a table of ours against a peer of the same run. */
#ifndef IPU_BENCH_H
#define IPU_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "ipu/ipu.h"

static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define BENCH_CHECK(expr)                                                      \
    do {                                                                       \
        if ((expr) != IPU_OK) {                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, ipu_message()); \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double bench_median(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, bench_compare);
    return times[n / 2];
}

/* Memory for the peer as engines have it: huge pages, and no two arrays in step with one another, which would
 * slow the peer down several times (src/engine/memory.h). */
static inline float *bench_floats(size_t n)
{
    static size_t calls;
    const size_t  huge = 2 << 20, bytes = (n * sizeof(float) / huge + 2) * huge;
    char         *p = aligned_alloc(huge, bytes);
    if (!p) exit(1);
    madvise(p, bytes, MADV_HUGEPAGE);
    return (float *)(p + calls++ % 3 * 5440);
}

static inline void bench_free_floats(float *p) { free((void *)((uintptr_t)p / (2 << 20) * (2 << 20))); }

/* Two things timed in turn, ROUNDS times each, so that noise hits both alike. */
typedef void (*bench_fn)(void *user);

typedef struct bench_pair {
    double ours, peer; /* medians, seconds per call */
} bench_pair;

static inline bench_pair bench_against(bench_fn ours, bench_fn peer, void *user, int calls)
{
    enum { ROUNDS = 5 };
    double a[ROUNDS], b[ROUNDS];
    ours(user);
    peer(user);
    for (int r = 0; r < ROUNDS; r++) {
        double t0 = bench_now();
        for (int i = 0; i < calls; i++) ours(user);
        double t1 = bench_now();
        for (int i = 0; i < calls; i++) peer(user);
        double t2 = bench_now();
        a[r]      = (t1 - t0) / calls;
        b[r]      = (t2 - t1) / calls;
    }
    return (bench_pair){bench_median(a, ROUNDS), bench_median(b, ROUNDS)};
}

static inline void bench_header(void) { printf("%-44s %12s %12s %8s\n", "", "ours", "peer", "ratio"); }

/* Times with the peer's; ratio: ours / peer, below 1 is faster. */
static inline void bench_row(const char *what, bench_pair pair)
{
    const double scale = pair.ours < 1e-5 ? 1e9 : pair.ours < 1e-2 ? 1e6 : 1e3;
    const char  *unit  = pair.ours < 1e-5 ? "ns" : pair.ours < 1e-2 ? "us" : "ms";
    printf("%-44s %9.2f %s %9.2f %s %8.2f\n", what, pair.ours * scale, unit, pair.peer * scale, unit,
           pair.ours / pair.peer);
    fflush(stdout);
}

#endif
