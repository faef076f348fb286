/* The machine's peak: multiply-adds on registers only, the widest there are, by several threads at once. */
#ifndef IPU_BENCH_PEAK_H
#define IPU_BENCH_PEAK_H

#include <math.h>
#include <pthread.h>

#include "bench.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Enough chains for units of latency 4 or 5, two of them; as asm operands they stay in registers. */
enum { PEAK_CHAINS = 12, PEAK_TURNS = 1 << 18, PEAK_THREADS = 2 };

#define PEAK_LOOP(vector, set, fma)                                      \
    vector acc[PEAK_CHAINS], scale = set(0.999f), shift = set(0.001f);   \
    for (int k = 0; k < PEAK_CHAINS; k++) acc[k] = set(1.0f + (float)k); \
    for (int i = 0; i < PEAK_TURNS; i++) {                               \
        _Pragma("GCC unroll 12") for (int k = 0; k < PEAK_CHAINS; k++)   \
        {                                                                \
            acc[k] = fma(acc[k], scale, shift);                          \
            __asm__ volatile("" : "+v"(acc[k]));                         \
        }                                                                \
    }                                                                    \
    return 2.0 * PEAK_CHAINS * PEAK_TURNS * (double)(sizeof(vector) / sizeof(float))

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static double peak_avx512(void)
{
    PEAK_LOOP(__m512, _mm512_set1_ps, _mm512_fmadd_ps);
}

__attribute__((target("avx2,fma"))) static double peak_avx2(void)
{
    PEAK_LOOP(__m256, _mm256_set1_ps, _mm256_fmadd_ps);
}
#endif

/* Operations done. */
static double peak_run(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return peak_avx512();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return peak_avx2();
#endif
    float acc[16];
    for (int k = 0; k < 16; k++) acc[k] = (float)k;
    for (int i = 0; i < PEAK_TURNS; i++)
        for (int k = 0; k < 16; k++) acc[k] = acc[k] * 0.999f + 0.001f;
    volatile float sink = acc[0] + acc[15];
    (void)sink;
    return 2.0 * 16 * PEAK_TURNS;
}

typedef struct peak_thread {
    pthread_barrier_t *begin;
    double             operations, from, to;
} peak_thread;

static void *peak_thread_run(void *user)
{
    peak_thread *t = user;
    pthread_barrier_wait(t->begin);
    t->from       = bench_now();
    t->operations = peak_run();
    t->to         = bench_now();
    return NULL;
}

/* Operations per second, once: some milliseconds. */
static double peak_measure(int n_threads)
{
    pthread_barrier_t begin;
    pthread_t         threads[PEAK_THREADS];
    peak_thread       state[PEAK_THREADS];
    double            from = INFINITY, to = 0, operations = 0;
    if (n_threads > PEAK_THREADS || pthread_barrier_init(&begin, NULL, (unsigned)n_threads) != 0) exit(1);
    for (int i = 0; i < n_threads; i++) {
        state[i] = (peak_thread){.begin = &begin};
        if (pthread_create(&threads[i], NULL, peak_thread_run, &state[i]) != 0) exit(1);
    }
    for (int i = 0; i < n_threads; i++) {
        pthread_join(threads[i], NULL);
        from = fmin(from, state[i].from);
        to   = fmax(to, state[i].to);
        operations += state[i].operations;
    }
    pthread_barrier_destroy(&begin);
    return operations / (to - from);
}

#endif
