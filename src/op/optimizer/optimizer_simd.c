/* Optimizers in float, element by element, in loops that compilers vectorise.
 *
 * Each rule has a loop for every combination of its options, so that nothing is decided inside. Old and new
 * values may be the same memory, element for element: IPU__INDEPENDENT tells the compiler.
 */
#include <math.h>

#include "base/simd.h"
#include "op/optimizer/optimizer.h"

#define INLINE static inline __attribute__((always_inline))

/* The arrays of a block under short names. */
#define ARRAYS(x)                                                                                        \
    const float *p = (x)->p, *g = (x)->g, *a = (x)->s[0], *b = (x)->s[1], *c = (x)->s[2];                \
    float       *to_p = (x)->new_p, *to_a = (x)->new_s[0], *to_b = (x)->new_s[1], *to_c = (x)->new_s[2]; \
    (void)a, (void)b, (void)c, (void)to_a, (void)to_b, (void)to_c

/* Of the parameter: what is added to the gradient, and what it keeps of itself. */
INLINE float decay_of(const ipu__optimizer *o) { return o->decoupled ? 0 : (float)o->weight_decay; }

INLINE float shrink_of(const ipu__optimizer *o)
{
    return o->decoupled ? (float)(1 - o->rate * o->weight_decay) : 1;
}

/* ---- sgd ---- */

INLINE void sgd(const ipu__optimizer *o, const ipu__optimizer_block *x, bool momentum, bool nesterov,
                bool is_common)
{
    ARRAYS(x);
    float decay = decay_of(o), shrink = shrink_of(o), rate = (float)o->rate, keep = (float)o->momentum;
    float take = (float)(1 - o->dampening);
    IPU__INDEPENDENT for (int64_t i = 0; i < x->n; i++)
    {
        float old = p[i], d = is_common ? g[i] : g[i] + decay * old;
        if (momentum) {
            float m = keep * a[i] + (is_common ? d : take * d);
            to_a[i] = m;
            d       = nesterov ? d + keep * m : m;
        }
        to_p[i] = (is_common ? old : old * shrink) - rate * d;
    }
}

/* The momentum begins as the gradient; what it held is not looked at. */
static void sgd_first(const ipu__optimizer *o, const ipu__optimizer_block *x)
{
    ARRAYS(x);
    float decay = decay_of(o), shrink = shrink_of(o), step = (float)o->rate;
    float again = o->nesterov ? (float)o->momentum : 0;
    IPU__INDEPENDENT for (int64_t i = 0; i < x->n; i++)
    {
        float d = g[i] + decay * p[i];
        to_a[i] = d;
        to_p[i] = p[i] * shrink - step * (d + again * d);
    }
}

static void sgd_loop(const ipu__optimizer *o, const ipu__optimizer_block *x)
{
    bool is_common = o->weight_decay == 0 && o->dampening == 0;
    if (!o->has[0])
        sgd(o, x, false, false, false);
    else if (o->first)
        sgd_first(o, x);
    else if (o->nesterov)
        sgd(o, x, true, true, false);
    else if (is_common)
        sgd(o, x, true, false, true);
    else
        sgd(o, x, true, false, false);
}

/* ---- adam, adamw ---- */

INLINE void adam(const ipu__optimizer *o, const ipu__optimizer_block *x, float decay, float shrink,
                 bool largest)
{
    ARRAYS(x);
    float beta1 = (float)o->beta1, beta2 = (float)o->beta2, take1 = (float)(1 - o->beta1),
          take2 = (float)(1 - o->beta2), epsilon = (float)o->epsilon;
    float size = (float)(o->rate / o->bias1), root = (float)sqrt(o->bias2);
    IPU__INDEPENDENT for (int64_t i = 0; i < x->n; i++)
    {
        float d = g[i] + decay * p[i];
        float m = beta1 * a[i] + take1 * d, v = beta2 * b[i] + take2 * d * d;
        float w = v;
        if (largest) {
            w       = c[i] > v ? c[i] : v;
            to_c[i] = w;
        }
        to_p[i] = p[i] * shrink - size * (m / (sqrtf(w) / root + epsilon));
        to_a[i] = m;
        to_b[i] = v;
    }
}

INLINE void adam_either(const ipu__optimizer *o, const ipu__optimizer_block *x, float decay, float shrink)
{
    if (o->has[2])
        adam(o, x, decay, shrink, true);
    else
        adam(o, x, decay, shrink, false);
}

static void adam_loop(const ipu__optimizer *o, const ipu__optimizer_block *x)
{
    adam_either(o, x, (float)o->weight_decay, 1);
}

static void adamw_loop(const ipu__optimizer *o, const ipu__optimizer_block *x)
{
    adam_either(o, x, 0, (float)(1 - o->rate * o->weight_decay));
}

/* ---- adamax ---- */

static void adamax_loop(const ipu__optimizer *o, const ipu__optimizer_block *x)
{
    ARRAYS(x);
    float beta1 = (float)o->beta1, beta2 = (float)o->beta2, take = (float)(1 - o->beta1);
    float decay = decay_of(o), shrink = shrink_of(o), epsilon = (float)o->epsilon;
    float size = (float)(o->rate / o->bias1);
    IPU__INDEPENDENT for (int64_t i = 0; i < x->n; i++)
    {
        float d = g[i] + decay * p[i];
        float m = beta1 * a[i] + take * d, old = beta2 * b[i], now = fabsf(d) + epsilon;
        float u = old > now ? old : now;
        to_p[i] = p[i] * shrink - size * (m / u);
        to_a[i] = m;
        to_b[i] = u;
    }
}

/* ---- rmsprop ---- */

INLINE void rmsprop(const ipu__optimizer *o, const ipu__optimizer_block *x, bool centered, bool momentum,
                    bool tensorflow)
{
    ARRAYS(x);
    float alpha = (float)o->alpha, take = (float)(1 - o->alpha), decay = decay_of(o);
    float shrink = shrink_of(o), epsilon = (float)o->epsilon, rate = (float)o->rate,
          keep = (float)o->momentum;
    IPU__INDEPENDENT for (int64_t i = 0; i < x->n; i++)
    {
        float d = g[i] + decay * p[i];
        float v = alpha * a[i] + take * d * d, w = v;
        if (centered) {
            float m = alpha * b[i] + take * d;
            w       = v - m * m;
            to_b[i] = m;
        }
        float s = d / (tensorflow ? sqrtf(w + epsilon) : sqrtf(w) + epsilon);
        if (tensorflow) s *= rate;
        if (momentum) {
            s += keep * c[i];
            to_c[i] = s;
        }
        to_a[i] = v;
        to_p[i] = p[i] * shrink - (tensorflow ? s : rate * s);
    }
}

INLINE void rmsprop_either(const ipu__optimizer *o, const ipu__optimizer_block *x, bool centered,
                           bool momentum)
{
    if (o->tensorflow)
        rmsprop(o, x, centered, momentum, true);
    else
        rmsprop(o, x, centered, momentum, false);
}

static void rmsprop_loop(const ipu__optimizer *o, const ipu__optimizer_block *x)
{
    if (o->has[1] && o->has[2])
        rmsprop_either(o, x, true, true);
    else if (o->has[1])
        rmsprop_either(o, x, true, false);
    else if (o->has[2])
        rmsprop_either(o, x, false, true);
    else
        rmsprop_either(o, x, false, false);
}

/* ---- adagrad ---- */

static void adagrad_loop(const ipu__optimizer *o, const ipu__optimizer_block *x)
{
    ARRAYS(x);
    float decay = decay_of(o), shrink = shrink_of(o), epsilon = (float)o->epsilon;
    float size = (float)(o->rate / (1 + (o->step - 1) * o->rate_decay));
    IPU__INDEPENDENT for (int64_t i = 0; i < x->n; i++)
    {
        float d = g[i] + decay * p[i];
        float v = a[i] + d * d;
        to_a[i] = v;
        to_p[i] = p[i] * shrink - size * (d / (sqrtf(v) + epsilon));
    }
}

/* ---- adadelta ---- */

static void adadelta_loop(const ipu__optimizer *o, const ipu__optimizer_block *x)
{
    ARRAYS(x);
    float rho = (float)o->rho, take = (float)(1 - o->rho), epsilon = (float)o->epsilon;
    float decay = decay_of(o), shrink = shrink_of(o), rate = (float)o->rate;
    IPU__INDEPENDENT for (int64_t i = 0; i < x->n; i++)
    {
        float g_i = g[i] + decay * p[i];
        float v   = rho * a[i] + take * g_i * g_i;
        float d   = sqrtf((b[i] + epsilon) / (v + epsilon)) * g_i;
        to_p[i]   = p[i] * shrink - rate * d;
        to_a[i]   = v;
        to_b[i]   = rho * b[i] + take * d * d;
    }
}

/* ---- lamb ---- */

/* The new "parameter" is the direction to go. */
static void lamb_loop(const ipu__optimizer *o, const ipu__optimizer_block *x)
{
    ARRAYS(x);
    float beta1 = (float)o->beta1, beta2 = (float)o->beta2, take1 = (float)(1 - o->beta1),
          take2 = (float)(1 - o->beta2), epsilon = (float)o->epsilon;
    float decay = o->l2 ? 0 : (float)o->weight_decay, through = o->l2 ? (float)o->weight_decay : 0;
    float scale1 = (float)(1 / o->bias1), scale2 = (float)(1 / o->bias2);
    IPU__INDEPENDENT for (int64_t i = 0; i < x->n; i++)
    {
        float d = g[i] + through * p[i];
        float m = beta1 * a[i] + take1 * d, v = beta2 * b[i] + take2 * d * d;
        to_a[i] = m;
        to_b[i] = v;
        to_p[i] = m * scale1 / (sqrtf(v * scale2) + epsilon) + decay * p[i];
    }
}

const ipu__optimizer_loops IPU__SIMD(ipu__optimizer_loops) = {
    .sgd      = sgd_loop,
    .adam     = adam_loop,
    .adamw    = adamw_loop,
    .adamax   = adamax_loop,
    .rmsprop  = rmsprop_loop,
    .adagrad  = adagrad_loop,
    .adadelta = adadelta_loop,
    .lamb     = lamb_loop,
};
