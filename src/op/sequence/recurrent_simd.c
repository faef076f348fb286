/* The loops of recurrent layers in float: gates of one step, forwards and backwards.
 *
 * Old and new state may be the same memory, element for element: IPU__INDEPENDENT tells the compiler.
 */
#include <math.h>

#include "op/sequence/recurrent.h"
#include "op/vector/unroll.h"

/* ---- activations ---- */

/* x P(x^2) / Q(x^2), fitted for the least relative error up to 9, where it is 1: 2^-25.5, with roundings 3 ulp. */
INLINE float tanh_of(float x)
{
    float a = fabsf(x), y = a > 9 ? 9 : a, u = y * y; /* NaN stays */
    float p = 0x1.cadd64p-27f * u + 0x1.59c3d2p-16f, q = 0x1.a180d2p-21f * u + 0x1.58867ap-12f;
    p       = (p * u + 0x1.ca2cd4p-9f) * u + 0x1.120b2ap-3f;
    q       = (q * u + 0x1.a7f81ep-6f) * u + 0x1.de5adep-2f;
    float t = y * (p * u + 1) / (q * u + 1);
    return copysignf(t > 1 ? 1 : t, x);
}

/* To 2^-23, not relative: 0 below -18. */
INLINE float sigmoid(float x) { return 0.5f * tanh_of(0.5f * x) + 0.5f; }

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

INLINE void lstm_rows(const ipu__recurrent_step *s, bool has_old)
{
    int64_t      n   = s->hidden;
    const float *b_i = s->bias_ih, *b_f = b_i + n, *b_g = b_f + n, *b_o = b_g + n;
    for (int64_t i = 0; i < s->rows; i++) {
        float       *in = s->gates + i * 4 * n, *forget = in + n, *g = forget + n, *out = g + n;
        float       *c = s->c + i * n, *h = s->h + i * n;
        const float *old = has_old ? s->c_old + i * n : NULL;
        IPU__INDEPENDENT for (int64_t j = 0; j < n; j++)
        {
            float a = sigmoid(in[j] + b_i[j]), f = sigmoid(forget[j] + b_f[j]);
            float d = tanh_of(g[j] + b_g[j]), o = sigmoid(out[j] + b_o[j]);
            float cell = a * d + (has_old ? f * old[j] : 0);
            in[j]      = a;
            forget[j]  = f;
            g[j]       = d;
            out[j]     = o;
            c[j]       = cell;
            h[j]       = o * tanh_of(cell);
        }
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

INLINE void lstm_rows_back(const ipu__recurrent_back *s, bool has_d_y, bool has_old)
{
    int64_t n = s->hidden;
    for (int64_t i = 0; i < s->rows; i++) {
        const float *in = s->gates + i * 4 * n, *f = in + n, *g = f + n, *out = g + n, *c = s->c + i * n;
        const float *d_y = has_d_y ? s->d_y + i * n : NULL, *old = has_old ? s->c_old + i * n : NULL;
        float       *d_h = s->d_h + i * n, *d_c = s->d_c + i * n, *d = s->d_ih + i * 4 * n;
        IPU__INDEPENDENT for (int64_t j = 0; j < n; j++)
        {
            float all = d_h[j] + (has_d_y ? d_y[j] : 0), t = tanh_of(c[j]);
            float cell   = d_c[j] + all * out[j] * (1 - t * t);
            d[j]         = cell * g[j] * in[j] * (1 - in[j]);
            d[j + n]     = has_old ? cell * old[j] * f[j] * (1 - f[j]) : 0;
            d[j + 2 * n] = cell * in[j] * (1 - g[j] * g[j]);
            d[j + 3 * n] = all * t * out[j] * (1 - out[j]);
            d_c[j]       = cell * f[j];
        }
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
