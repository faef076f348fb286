/* What the machine can do: multiply-adds on registers only, the widest there are, by several threads at once; how
 * long a cache line takes from one core to another, which on a virtual machine changes as its CPUs are moved. */
#ifndef IPU_BENCH_PEAK_H
#define IPU_BENCH_PEAK_H

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "bench.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Enough chains for two units of latency 4 or 5; each in a register of its own, which the asm sees to. */
enum { PEAK_CHAINS = 12, PEAK_TURNS = 1 << 18, PEAK_THREADS = 2 };

#define PEAK_EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

#define PEAK_LOOP(vector, set)                       \
    vector scale = set(0.999f), shift = set(0.001f); \
    PEAK_EACH(PEAK_BEGIN_##vector)                   \
    for (int i = 0; i < PEAK_TURNS; i++) {           \
        PEAK_EACH(PEAK_TURN_##vector)                \
    }                                                \
    return 2.0 * PEAK_CHAINS * PEAK_TURNS * (double)(sizeof(vector) / sizeof(float))

#define PEAK_BEGIN___m512(k) __m512 a##k = _mm512_set1_ps(k);
#define PEAK_TURN___m512(k)                     \
    a##k = _mm512_fmadd_ps(a##k, scale, shift); \
    __asm__ volatile("" : "+v"(a##k));
#define PEAK_BEGIN___m256(k) __m256 a##k = _mm256_set1_ps(k);
#define PEAK_TURN___m256(k)                     \
    a##k = _mm256_fmadd_ps(a##k, scale, shift); \
    __asm__ volatile("" : "+x"(a##k));

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static double peak_avx512(void) { PEAK_LOOP(__m512, _mm512_set1_ps); }

__attribute__((target("avx2,fma"))) static double peak_avx2(void) { PEAK_LOOP(__m256, _mm256_set1_ps); }
#endif

static bool peak_is_narrow; /* no wider than AVX2 */

/* Operations done. */
static double peak_run(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && !peak_is_narrow) return peak_avx512();
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

/* The calling thread onto the i-th CPU that it may use. */
static void peak_pin(int i)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0) return;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && i-- == 0) CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) == 1) sched_setaffinity(0, sizeof one, &one);
}

typedef struct peak_thread {
    int                number;
    pthread_barrier_t *begin;
    double             operations, from, to;
} peak_thread;

static void *peak_thread_run(void *user)
{
    peak_thread *t = user;
    peak_pin(t->number);
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
        state[i] = (peak_thread){.number = i, .begin = &begin};
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

/* ---- from core to core ---- */

typedef struct peak_line {
    _Alignas(64) atomic_int turn;
    int    number;
    double seconds; /* of one way; INFINITY: the other thread did not run */
} peak_line;

static void *peak_line_run(void *user)
{
    enum { TURNS = 2000 };
    peak_line *line = ((peak_line **)user)[0], *own = ((peak_line **)user)[1];
    double     begin = 0;
    peak_pin(own->number);
    for (int i = own->number; i < 2 * TURNS; i += 2) {
        long looks = 0;
        while (atomic_load(&line->turn) != i)
            if (++looks > 1 << 22) return NULL;
        if (i < 2) begin = bench_now();
        atomic_store(&line->turn, i + 1);
    }
    own->seconds = (bench_now() - begin) / (2 * TURNS);
    return NULL;
}

/* Seconds. */
static double peak_hand_off(void)
{
    pthread_t  threads[2];
    peak_line  line = {0}, own[2] = {{.number = 0, .seconds = INFINITY}, {.number = 1, .seconds = INFINITY}};
    peak_line *given[2][2] = {{&line, &own[0]}, {&line, &own[1]}};
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, peak_line_run, given[i]) != 0) exit(1);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return fmax(own[0].seconds, own[1].seconds);
}

#endif
