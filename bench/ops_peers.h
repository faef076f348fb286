/* What bench/ops.c measures ops against: oneDNN and libxsmm called directly, and the CPU's own limit. */
#ifndef IPU_BENCH_OPS_PEERS_H
#define IPU_BENCH_OPS_PEERS_H

#include <math.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

#include "base/host/cpu.h"
#include "bench.h"
#include "op/conv/conv.h"
#include "op/product/xsmm.h"

#define BENCH_DNNL(call)                                                    \
    do {                                                                    \
        if ((call) != dnnl_success) {                                       \
            fprintf(stderr, "%s:%d: oneDNN refused\n", __FILE__, __LINE__); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

/* ---- the machine's limit: as many independent multiply-adds as registers hold ---- */

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f"))) static inline double peak_512(long n)
{
    __m512 acc[20], x = _mm512_set1_ps(1.0000001f), y = _mm512_set1_ps(1e-9f);
    for (int i = 0; i < 20; i++) acc[i] = _mm512_set1_ps((float)i);
    for (long r = 0; r < n; r++) {
#pragma GCC unroll 20
        for (int i = 0; i < 20; i++) acc[i] = _mm512_fmadd_ps(acc[i], x, y);
    }
    float sum = 0;
    for (int i = 0; i < 20; i++) sum += _mm512_reduce_add_ps(acc[i]);
    volatile float keep = sum;
    (void)keep;
    return 20.0 * 16 * 2 * (double)n;
}

__attribute__((target("avx2,fma"))) static inline double peak_256(long n)
{
    __m256 acc[12], x = _mm256_set1_ps(1.0000001f), y = _mm256_set1_ps(1e-9f);
    for (int i = 0; i < 12; i++) acc[i] = _mm256_set1_ps((float)i);
    for (long r = 0; r < n; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) acc[i] = _mm256_fmadd_ps(acc[i], x, y);
    }
    float sum = 0;
    for (int i = 0; i < 12; i++) sum += acc[i][0];
    volatile float keep = sum;
    (void)keep;
    return 12.0 * 8 * 2 * (double)n;
}

static inline double peak_work(long n)
{
    unsigned features = ipu__cpu_features();
    if (features & IPU__CPU_AVX512F) return peak_512(n);
    return (features & IPU__CPU_FMA) ? peak_256(n) : 0;
}
#else
static inline double peak_work(long n)
{
    (void)n;
    return 0; /* not known how to reach it */
}
#endif

/* GFLOP/s of one thread. */
static inline double peak_gflops(void)
{
    double best = 0;
    for (int r = 0; r < 8; r++) {
        double t = bench_now(), work = peak_work(200000);
        best = fmax(best, work / (bench_now() - t) * 1e-9);
    }
    return best;
}

/* ---- a oneDNN primitive on memory of its own, in the layouts it likes best ---- */

typedef struct peer {
    dnnl_engine_t    engine;
    dnnl_stream_t    stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t  args[4];
    float           *data[3];
    int              n;
} peer;

static inline void peer_arg(peer *p, int arg, const dnnl_memory_desc_t *md)
{
    dnnl_memory_t memory;
    size_t        floats = dnnl_memory_desc_get_size(md) / sizeof(float) + 1;
    p->data[p->n]        = bench_floats(floats);
    for (size_t i = 0; i < floats; i++) p->data[p->n][i] = 0.5f;
    BENCH_DNNL(dnnl_memory_create(&memory, md, p->engine, p->data[p->n]));
    p->args[p->n++] = (dnnl_exec_arg_t){arg, memory};
}

static inline void peer_start(peer *p)
{
    *p = (peer){.n = 0};
    BENCH_DNNL(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    BENCH_DNNL(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
}

static inline void peer_run(void *user)
{
    peer *p = user;
    BENCH_DNNL(dnnl_primitive_execute(p->primitive, p->stream, p->n, p->args));
}

static inline void peer_end(peer *p)
{
    for (int i = 0; i < p->n; i++) {
        dnnl_memory_destroy(p->args[i].memory);
        bench_free_floats(p->data[i]);
    }
    dnnl_primitive_destroy(p->primitive);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
}

static inline void peer_matmul(peer *p, int64_t batch, int64_t m, int64_t n, int64_t k, bool transpose_b)
{
    dnnl_dims_t           a_dim = {batch, m, k}, b_dim = {batch, k, n}, c_dim = {batch, m, n};
    dnnl_dims_t           b_stride = {k * n, transpose_b ? 1 : n, transpose_b ? k : 1};
    dnnl_memory_desc_t    a, b, c;
    dnnl_matmul_desc_t    matmul;
    dnnl_primitive_desc_t desc;
    int                   skip = batch == 1;
    peer_start(p);
    BENCH_DNNL(dnnl_memory_desc_init_by_tag(&a, 3 - skip, a_dim + skip, dnnl_f32, skip ? dnnl_ab : dnnl_abc));
    BENCH_DNNL(dnnl_memory_desc_init_by_strides(&b, 3 - skip, b_dim + skip, dnnl_f32, b_stride + skip));
    BENCH_DNNL(dnnl_memory_desc_init_by_tag(&c, 3 - skip, c_dim + skip, dnnl_f32, skip ? dnnl_ab : dnnl_abc));
    BENCH_DNNL(dnnl_matmul_desc_init(&matmul, &a, &b, NULL, &c));
    BENCH_DNNL(dnnl_primitive_desc_create(&desc, &matmul, NULL, p->engine, NULL));
    BENCH_DNNL(dnnl_primitive_create(&p->primitive, desc));
    peer_arg(p, DNNL_ARG_SRC, &a);
    peer_arg(p, DNNL_ARG_WEIGHTS, &b);
    peer_arg(p, DNNL_ARG_DST, &c);
    dnnl_primitive_desc_destroy(desc);
}

/* x, w (grouped if need be) and y of a convolution of two dimensions, in any layout. */
static inline void peer_conv_memory(const ipu__conv *c, dnnl_memory_desc_t md[3])
{
    int64_t     channels = c->groups * c->in, outs = c->groups * c->out;
    dnnl_dims_t x = {c->n, channels, c->x[1], c->x[2]}, y = {c->n, outs, c->y[1], c->y[2]};
    dnnl_dims_t w    = {c->groups, c->out, c->in, c->k[1], c->k[2]};
    int         skip = c->groups == 1;
    BENCH_DNNL(dnnl_memory_desc_init_by_tag(&md[0], 4, x, dnnl_f32, dnnl_format_tag_any));
    BENCH_DNNL(dnnl_memory_desc_init_by_tag(&md[1], 5 - skip, w + skip, dnnl_f32, dnnl_format_tag_any));
    BENCH_DNNL(dnnl_memory_desc_init_by_tag(&md[2], 4, y, dnnl_f32, dnnl_format_tag_any));
}

static inline void peer_conv(peer *p, const ipu__conv *c)
{
    dnnl_memory_desc_t      md[3];
    dnnl_convolution_desc_t forward, backward;
    dnnl_primitive_desc_t   desc, hint;
    dnnl_dims_t             strides = {c->stride[1], c->stride[2]}, begin = {c->pad[1], c->pad[2]},
                end = {c->pad_end[1], c->pad_end[2]};
    bool is_weight  = c->kind == IPU__CONV_WEIGHT_GRAD;
    peer_start(p);
    peer_conv_memory(c, md);
    BENCH_DNNL(dnnl_convolution_forward_desc_init(&forward, dnnl_forward_training, dnnl_convolution_direct,
                                                  &md[0], &md[1], NULL, &md[2], strides, begin, end));
    BENCH_DNNL(dnnl_primitive_desc_create(&hint, &forward, NULL, p->engine, NULL));
    if (c->kind == IPU__CONV_FORWARD)
        BENCH_DNNL(dnnl_primitive_desc_clone(&desc, hint));
    else if (is_weight)
        BENCH_DNNL(dnnl_convolution_backward_weights_desc_init(&backward, dnnl_convolution_direct, &md[0],
                                                               &md[1], NULL, &md[2], strides, begin, end));
    else
        BENCH_DNNL(dnnl_convolution_backward_data_desc_init(&backward, dnnl_convolution_direct, &md[0],
                                                            &md[1], &md[2], strides, begin, end));
    if (c->kind != IPU__CONV_FORWARD)
        BENCH_DNNL(dnnl_primitive_desc_create(&desc, &backward, NULL, p->engine, hint));
    BENCH_DNNL(dnnl_primitive_create(&p->primitive, desc));
    const int args[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                            {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                            {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
    for (int i = 0; i < 3; i++)
        peer_arg(p, args[c->kind][i],
                 dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, args[c->kind][i]));
    dnnl_primitive_desc_destroy(desc);
    dnnl_primitive_desc_destroy(hint);
}

/* ---- one kernel of libxsmm for all of a product: 1 thread, and only up to what it is made for ---- */

typedef struct xsmm_peer {
    ipu__xsmm_fn fn; /* NULL: not here */
    float       *a, *b, *c;
    int64_t      batch, a_step, b_step, c_step;
} xsmm_peer;

static inline void xsmm_peer_make(xsmm_peer *p, int64_t batch, int64_t m, int64_t n, int64_t k)
{
    bool fits = ipu__xsmm_works(ipu__cpu_features()) && (double)m * (double)n * (double)k <= 0x1p28;
    *p        = (xsmm_peer){.fn     = fits ? ipu__xsmm_get(m, n, k, k, n, n, false, false) : NULL,
                            .batch  = batch,
                            .a_step = m * k,
                            .b_step = k * n,
                            .c_step = m * n};
    p->a      = bench_floats((size_t)(batch * m * k));
    p->b      = bench_floats((size_t)(batch * k * n));
    p->c      = bench_floats((size_t)(batch * m * n));
    for (int64_t i = 0; i < batch * m * k; i++) p->a[i] = 0.5f;
    for (int64_t i = 0; i < batch * k * n; i++) p->b[i] = 0.5f;
}

static inline void xsmm_peer_run(void *user)
{
    const xsmm_peer *p = user;
    for (int64_t i = 0; i < p->batch; i++)
        p->fn(p->b + i * p->b_step, p->a + i * p->a_step, p->c + i * p->c_step);
}

static inline void xsmm_peer_end(xsmm_peer *p)
{
    bench_free_floats(p->a);
    bench_free_floats(p->b);
    bench_free_floats(p->c);
}

#endif
