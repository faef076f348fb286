/* The loops of recurrent layers in float: gates of one step, forwards and backwards.
 *
 * Where old and new state are the same memory they are so element for element: IPU__INDEPENDENT says that to the
 * compiler.
 */
#include <math.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "op/recurrent.h"

#define INLINE static inline __attribute__((always_inline))

/* ---- activations ---- */

/* Where there is none, bits differ: products, which are before all of this, differ too. */
#if defined(__FMA__)
#define MULTIPLY_ADD(a, b, c) __builtin_fmaf(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

/* x P(x^2) / Q(x^2), fitted for the least relative error up to 9, where it is 1: 2^-25.5, with roundings 3 ulp. */
#define TANH_P                                                              \
    {                                                                       \
        0x1.cadd64p-27f, 0x1.59c3d2p-16f, 0x1.ca2cd4p-9f, 0x1.120b2ap-3f, 1 \
    }
#define TANH_Q                                                              \
    {                                                                       \
        0x1.a180d2p-21f, 0x1.58867ap-12f, 0x1.a7f81ep-6f, 0x1.de5adep-2f, 1 \
    }
enum { TANH_TERMS = 5 };
#define TANH_END 9

INLINE float tanh_of(float x)
{
    const float p_of[] = TANH_P, q_of[] = TANH_Q;
    float a = fabsf(x), y = a > TANH_END ? TANH_END : a, u = y * y, p = p_of[0], q = q_of[0]; /* NaN stays */
    for (int i = 1; i < TANH_TERMS; i++) {
        p = MULTIPLY_ADD(p, u, p_of[i]);
        q = MULTIPLY_ADD(q, u, q_of[i]);
    }
    float t = y * p / q;
    return copysignf(t > 1 ? 1 : t, x);
}

/* To 2^-23, not relative: 0 below -18. */
INLINE float sigmoid(float x) { return MULTIPLY_ADD(0.5f, tanh_of(0.5f * x), 0.5f); }

/* ---- the same by vectors, for the gates of lstm, where much time goes: compilers make poor code of limits ---- */

#if defined(__AVX512F__)
typedef __m512 vec;
enum { WIDTH = 16 };
#define V(name) _mm512_##name##_ps
INLINE vec reciprocal(vec x)
{
    vec r = _mm512_rcp14_ps(x); /* to 14 bits; a step of Newton's doubles them */
    return V(mul)(r, V(fnmadd)(x, r, V(set1)(2)));
}
INLINE vec with_sign_of(vec t, vec x)
{
    __m512i sign = _mm512_set1_epi32(INT32_MIN); /* 0xd8: c ? b : a, of bits */
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(_mm512_castps_si512(t), _mm512_castps_si512(x), sign, 0xd8));
}
#elif defined(__AVX2__)
typedef __m256 vec;
enum { WIDTH = 8 };
#define V(name) _mm256_##name##_ps
INLINE vec reciprocal(vec x) { return V(div)(V(set1)(1), x); }
INLINE vec with_sign_of(vec t, vec x)
{
    vec sign = V(set1)(-0.0f);
    return V(or)(V(andnot)(sign, t), V(and)(sign, x));
}
#endif

#if defined(__AVX2__)
INLINE vec vec_tanh(vec x)
{
    const float p_of[] = TANH_P, q_of[] = TANH_Q;
    vec         minus = V(set1)(-0.0f), y = V(min)(V(set1)(TANH_END), V(andnot)(minus, x)); /* NaN stays */
    vec         u = V(mul)(y, y), p = V(set1)(p_of[0]), q = V(set1)(q_of[0]);
    for (int i = 1; i < TANH_TERMS; i++) {
        p = V(fmadd)(p, u, V(set1)(p_of[i]));
        q = V(fmadd)(q, u, V(set1)(q_of[i]));
    }
    vec t = V(min)(V(set1)(1), V(mul)(V(mul)(y, p), reciprocal(q)));
    return with_sign_of(t, x);
}

INLINE vec vec_sigmoid(vec x)
{
    vec half = V(set1)(0.5f);
    return V(fmadd)(half, vec_tanh(V(mul)(half, x)), half);
}
#endif

/* ---- forwards ---- */

INLINE void rnn(const ipu__recurrent_step *s, bool relu)
{
    const float *bias = s->bias_ih;
    for (int64_t i = 0; i < s->rows; i++) {
        float *h = s->h + i * s->hidden;
        IPU__INDEPENDENT for (int64_t j = 0; j < s->hidden; j++)
        {
            float a = h[j] + bias[j];
            h[j]    = relu ? (a < 0 ? 0 : a) : tanh_of(a);
        }
    }
}

static void rnn_tanh(const ipu__recurrent_step *s) { rnn(s, false); }
static void rnn_relu(const ipu__recurrent_step *s) { rnn(s, true); }

INLINE void gru_rows(const ipu__recurrent_step *s, bool has_old)
{
    int64_t      n   = s->hidden;
    const float *b_r = s->bias_ih, *b_z = b_r + n, *b_n = b_z + n, *b_q = s->bias_hh + 2 * n;
    for (int64_t i = 0; i < s->rows; i++) {
        float       *r = s->gates + i * 4 * n, *z = r + n, *c = z + n, *q = c + n, *h = s->h + i * n;
        const float *old = has_old ? s->h_old + i * n : NULL;
        IPU__INDEPENDENT for (int64_t j = 0; j < n; j++)
        {
            float reset = sigmoid(r[j] + b_r[j]), keep = sigmoid(z[j] + b_z[j]), from_h = q[j] + b_q[j];
            float now = tanh_of(c[j] + b_n[j] + reset * from_h);
            r[j]      = reset;
            z[j]      = keep;
            c[j]      = now;
            q[j]      = from_h;
            h[j]      = (1 - keep) * now + (has_old ? keep * old[j] : 0);
        }
    }
}

static void gru(const ipu__recurrent_step *s)
{
    if (s->h_old)
        gru_rows(s, true);
    else
        gru_rows(s, false);
}

/* Units [first, n) of a row: `sums` of gates become gates, `old` and `c` are cells before and after. */
INLINE void lstm_units(int64_t first, int64_t n, const float *bias, float *sums, const float *old, float *c,
                       float *h)
{
    const float *b_f = bias + n, *b_g = b_f + n, *b_o = b_g + n;
    float       *forget = sums + n, *g = forget + n, *out = g + n;
    IPU__INDEPENDENT for (int64_t j = first; j < n; j++)
    {
        float a = sigmoid(sums[j] + bias[j]), f = sigmoid(forget[j] + b_f[j]);
        float d = tanh_of(g[j] + b_g[j]), o = sigmoid(out[j] + b_o[j]);
        float cell = a * d + (old ? f * old[j] : 0);
        sums[j]    = a;
        forget[j]  = f;
        g[j]       = d;
        out[j]     = o;
        c[j]       = cell;
        h[j]       = o * tanh_of(cell);
    }
}

/* Units that fill vectors; their number. */
#if defined(__AVX2__)
INLINE int64_t lstm_vectors(int64_t n, const float *bias, float *sums, const float *old, float *c, float *h)
{
    int64_t j = 0;
    for (; j + WIDTH <= n; j += WIDTH) {
        float       *at   = sums + j;
        const float *b    = bias + j;
        vec          a    = vec_sigmoid(V(add)(V(loadu)(at), V(loadu)(b)));
        vec          f    = vec_sigmoid(V(add)(V(loadu)(at + n), V(loadu)(b + n)));
        vec          d    = vec_tanh(V(add)(V(loadu)(at + 2 * n), V(loadu)(b + 2 * n)));
        vec          o    = vec_sigmoid(V(add)(V(loadu)(at + 3 * n), V(loadu)(b + 3 * n)));
        vec          cell = V(mul)(a, d);
        if (old) cell = V(fmadd)(f, V(loadu)(old + j), cell);
        V(storeu)(at, a);
        V(storeu)(at + n, f);
        V(storeu)(at + 2 * n, d);
        V(storeu)(at + 3 * n, o);
        V(storeu)(c + j, cell);
        V(storeu)(h + j, V(mul)(o, vec_tanh(cell)));
    }
    return j;
}
#else
INLINE int64_t lstm_vectors(int64_t n, const float *bias, float *sums, const float *old, float *c, float *h)
{
    (void)n, (void)bias, (void)sums, (void)old, (void)c, (void)h;
    return 0;
}
#endif

INLINE void lstm_rows(const ipu__recurrent_step *s, bool has_old)
{
    int64_t n = s->hidden;
    for (int64_t i = 0; i < s->rows; i++) {
        float       *sums = s->gates + i * 4 * n, *c = s->c + i * n, *h = s->h + i * n;
        const float *old  = has_old ? s->c_old + i * n : NULL;
        int64_t      done = lstm_vectors(n, s->bias_ih, sums, old, c, h);
        if (done < n) lstm_units(done, n, s->bias_ih, sums, old, c, h);
    }
}

static void lstm(const ipu__recurrent_step *s)
{
    if (s->c_old)
        lstm_rows(s, true);
    else
        lstm_rows(s, false);
}

/* ---- backwards ---- */

INLINE void rnn_back(const ipu__recurrent_back *s, bool relu, bool has_d_y)
{
    for (int64_t i = 0; i < s->rows; i++) {
        const float *d_y = has_d_y ? s->d_y + i * s->hidden : NULL, *h = s->h + i * s->hidden;
        float       *d_h = s->d_h + i * s->hidden, *d = s->d_ih + i * s->hidden;
        IPU__INDEPENDENT for (int64_t j = 0; j < s->hidden; j++)
        {
            float all = d_h[j] + (has_d_y ? d_y[j] : 0);
            d[j]      = relu ? (h[j] > 0 ? all : 0) : all * (1 - h[j] * h[j]);
        }
    }
}

static void rnn_tanh_back(const ipu__recurrent_back *s)
{
    if (s->d_y)
        rnn_back(s, false, true);
    else
        rnn_back(s, false, false);
}

static void rnn_relu_back(const ipu__recurrent_back *s)
{
    if (s->d_y)
        rnn_back(s, true, true);
    else
        rnn_back(s, true, false);
}

INLINE void gru_rows_back(const ipu__recurrent_back *s, bool has_d_y, bool has_old)
{
    int64_t n = s->hidden;
    for (int64_t i = 0; i < s->rows; i++) {
        const float *r = s->gates + i * 4 * n, *z = r + n, *c = z + n, *q = c + n;
        const float *d_y = has_d_y ? s->d_y + i * n : NULL, *old = has_old ? s->h_old + i * n : NULL;
        float       *d_h = s->d_h + i * n, *ih = s->d_ih + i * 3 * n, *hh = s->d_hh + i * 3 * n;
        IPU__INDEPENDENT for (int64_t j = 0; j < n; j++)
        {
            float all = d_h[j] + (has_d_y ? d_y[j] : 0), h = has_old ? old[j] : 0;
            float d_n     = all * (1 - z[j]) * (1 - c[j] * c[j]);
            float d_z     = all * (h - c[j]) * z[j] * (1 - z[j]);
            float d_r     = d_n * q[j] * r[j] * (1 - r[j]);
            ih[j]         = d_r;
            ih[j + n]     = d_z;
            ih[j + 2 * n] = d_n;
            hh[j]         = d_r;
            hh[j + n]     = d_z;
            hh[j + 2 * n] = d_n * r[j];
            d_h[j]        = all * z[j];
        }
    }
}

static void gru_back(const ipu__recurrent_back *s)
{
    if (s->d_y && s->h_old)
        gru_rows_back(s, true, true);
    else if (s->d_y)
        gru_rows_back(s, true, false);
    else if (s->h_old)
        gru_rows_back(s, false, true);
    else
        gru_rows_back(s, false, false);
}

typedef struct lstm_row {
    const float *in, *c, *d_y, *old; /* d_y, old: NULL: zeros */
    float       *d_h, *d_c, *d;
} lstm_row;

INLINE void lstm_units_back(int64_t first, int64_t n, const lstm_row *r)
{
    const float *in = r->in, *f = in + n, *g = f + n, *out = g + n, *c = r->c, *d_y = r->d_y, *old = r->old;
    float       *d_h = r->d_h, *d_c = r->d_c, *d = r->d;
    IPU__INDEPENDENT for (int64_t j = first; j < n; j++)
    {
        float all = d_h[j] + (d_y ? d_y[j] : 0), t = tanh_of(c[j]);
        float cell   = d_c[j] + all * out[j] * (1 - t * t);
        d[j]         = cell * g[j] * in[j] * (1 - in[j]);
        d[j + n]     = old ? cell * old[j] * f[j] * (1 - f[j]) : 0;
        d[j + 2 * n] = cell * in[j] * (1 - g[j] * g[j]);
        d[j + 3 * n] = all * t * out[j] * (1 - out[j]);
        d_c[j]       = cell * f[j];
    }
}

#if defined(__AVX2__)
INLINE vec times_rest(vec d, vec gate)
{
    return V(mul)(d, V(fnmadd)(gate, gate, gate));
} /* d gate (1 - gate) */

INLINE int64_t lstm_vectors_back(int64_t n, const lstm_row *r)
{
    int64_t j   = 0;
    vec     one = V(set1)(1);
    for (; j + WIDTH <= n; j += WIDTH) {
        vec all = V(loadu)(r->d_h + j), t = vec_tanh(V(loadu)(r->c + j));
        if (r->d_y) all = V(add)(all, V(loadu)(r->d_y + j));
        vec in = V(loadu)(r->in + j), f = V(loadu)(r->in + n + j), g = V(loadu)(r->in + 2 * n + j);
        vec out  = V(loadu)(r->in + 3 * n + j);
        vec cell = V(fmadd)(V(mul)(all, out), V(fnmadd)(t, t, one), V(loadu)(r->d_c + j));
        V(storeu)(r->d + j, times_rest(V(mul)(cell, g), in));
        vec kept = r->old ? times_rest(V(mul)(cell, V(loadu)(r->old + j)), f) : V(set1)(0);
        V(storeu)(r->d + n + j, kept);
        V(storeu)(r->d + 2 * n + j, V(mul)(V(mul)(cell, in), V(fnmadd)(g, g, one)));
        V(storeu)(r->d + 3 * n + j, times_rest(V(mul)(all, t), out));
        V(storeu)(r->d_c + j, V(mul)(cell, f));
    }
    return j;
}
#else
INLINE int64_t lstm_vectors_back(int64_t n, const lstm_row *r)
{
    (void)n, (void)r;
    return 0;
}
#endif

INLINE void lstm_rows_back(const ipu__recurrent_back *s, bool has_d_y, bool has_old)
{
    int64_t n = s->hidden;
    for (int64_t i = 0; i < s->rows; i++) {
        lstm_row r    = {.in  = s->gates + i * 4 * n,
                         .c   = s->c + i * n,
                         .d_y = has_d_y ? s->d_y + i * n : NULL,
                         .old = has_old ? s->c_old + i * n : NULL,
                         .d_h = s->d_h + i * n,
                         .d_c = s->d_c + i * n,
                         .d   = s->d_ih + i * 4 * n};
        int64_t  done = lstm_vectors_back(n, &r);
        if (done < n) lstm_units_back(done, n, &r);
    }
}

static void lstm_back(const ipu__recurrent_back *s)
{
    if (s->d_y && s->c_old)
        lstm_rows_back(s, true, true);
    else if (s->d_y)
        lstm_rows_back(s, true, false);
    else if (s->c_old)
        lstm_rows_back(s, false, true);
    else
        lstm_rows_back(s, false, false);
}

const ipu__recurrent_loops IPU__SIMD(ipu__recurrent_loops) = {
    .rnn_tanh      = rnn_tanh,
    .rnn_relu      = rnn_relu,
    .gru           = gru,
    .lstm          = lstm,
    .rnn_tanh_back = rnn_tanh_back,
    .rnn_relu_back = rnn_relu_back,
    .gru_back      = gru_back,
    .lstm_back     = lstm_back,
};
