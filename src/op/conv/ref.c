/* The meaning of a convolution and its two gradients: one output element at a time, in plain loops.
 *
 * Sums of half, bfloat16 and float are in double and rounded once at the end.
 */
#include "op/conv/conv.h"
#include "op/matmul/types.h"

/* Where tap `k` of output `y` reads x along dimension `d`; false: in the padding. */
static bool source(const ipu__conv *c, int d, int64_t y, int64_t k, int64_t *x)
{
    *x = y * c->stride[d] - c->pad[d] + k * c->dilation[d];
    return *x >= 0 && *x < c->x[d];
}

/* Which output reads x through tap `k`; false: none. */
static bool target(const ipu__conv *c, int d, int64_t x, int64_t k, int64_t *y)
{
    int64_t at = x + c->pad[d] - k * c->dilation[d];
    if (at < 0 || at % c->stride[d] != 0) return false;
    *y = at / c->stride[d];
    return *y < c->y[d];
}

static int64_t at(const int64_t dim[3], const int64_t i[3]) { return (i[0] * dim[1] + i[1]) * dim[2] + i[2]; }

#define EACH(i, dim)                                  \
    for (int64_t i[3] = {0}; i[0] < (dim)[0]; i[0]++) \
        for (i[1] = 0; i[1] < (dim)[1]; i[1]++)       \
            for (i[2] = 0; i[2] < (dim)[2]; i[2]++)

#define REF(T, Sum, load, store)                                                                                   \
    static double forward_##T(const ipu__conv *c, const T *x, const T *w, const int64_t y[3])                      \
    {                                                                                                              \
        double  sum      = 0;                                                                                      \
        int64_t x_volume = ipu__conv_volume(c->x), k_volume = ipu__conv_volume(c->k), from[3];                     \
        for (int64_t i = 0; i < c->in; i++) EACH(k, c->k)                                                          \
            {                                                                                                      \
                if (source(c, 0, y[0], k[0], &from[0]) && source(c, 1, y[1], k[1], &from[1])                       \
                    && source(c, 2, y[2], k[2], &from[2]))                                                         \
                    sum += (double)load(x[i * x_volume + at(c->x, from)])                                          \
                         * (double)load(w[i * k_volume + at(c->k, k)]);                                            \
            }                                                                                                      \
        return sum;                                                                                                \
    }                                                                                                              \
    static double input_grad_##T(const ipu__conv *c, const T *dy, const T *w, const int64_t x[3])                  \
    {                                                                                                              \
        double  sum      = 0;                                                                                      \
        int64_t y_volume = ipu__conv_volume(c->y), k_volume = ipu__conv_volume(c->k), to[3];                       \
        for (int64_t o = 0; o < c->out; o++) EACH(k, c->k)                                                         \
            {                                                                                                      \
                if (target(c, 0, x[0], k[0], &to[0]) && target(c, 1, x[1], k[1], &to[1])                           \
                    && target(c, 2, x[2], k[2], &to[2]))                                                           \
                    sum += (double)load(dy[o * y_volume + at(c->y, to)])                                           \
                         * (double)load(w[o * c->in * k_volume + at(c->k, k)]);                                    \
            }                                                                                                      \
        return sum;                                                                                                \
    }                                                                                                              \
    static double weight_grad_##T(const ipu__conv *c, const T *x, const T *dy, const int64_t k[3])                 \
    {                                                                                                              \
        double  sum      = 0;                                                                                      \
        int64_t x_volume = ipu__conv_volume(c->x), y_volume = ipu__conv_volume(c->y), from[3];                     \
        for (int64_t n = 0; n < c->n; n++) EACH(y, c->y)                                                           \
            {                                                                                                      \
                if (source(c, 0, y[0], k[0], &from[0]) && source(c, 1, y[1], k[1], &from[1])                       \
                    && source(c, 2, y[2], k[2], &from[2]))                                                         \
                    sum += (double)load(x[n * c->groups * c->in * x_volume + at(c->x, from)])                      \
                         * (double)load(dy[n * c->groups * c->out * y_volume + at(c->y, y)]);                      \
            }                                                                                                      \
        return sum;                                                                                                \
    }                                                                                                              \
    static void forward_all_##T(const ipu__conv *c, const T *x, const T *w, const T *bias, T *out)                 \
    {                                                                                                              \
        int64_t x_step = c->in * ipu__conv_volume(c->x), w_step = c->in * ipu__conv_volume(c->k);                  \
        for (int64_t n = 0; n < c->n; n++)                                                                         \
            for (int64_t o = 0; o < c->groups * c->out; o++) EACH(y, c->y)                                         \
                {                                                                                                  \
                    double sum = forward_##T(c, x + (n * c->groups + o / c->out) * x_step, w + o * w_step,         \
                                             y);                                                                   \
                    if (bias) sum += (double)load(bias[o]);                                                        \
                    *out++ = store((Sum)sum);                                                                      \
                }                                                                                                  \
    }                                                                                                              \
    static void input_grad_all_##T(const ipu__conv *c, const T *dy, const T *w, T *out)                            \
    {                                                                                                              \
        int64_t y_step = c->out * ipu__conv_volume(c->y), k_volume = ipu__conv_volume(c->k);                       \
        for (int64_t n = 0; n < c->n; n++)                                                                         \
            for (int64_t i = 0; i < c->groups * c->in; i++) EACH(x, c->x)                                          \
                {                                                                                                  \
                    int64_t group = i / c->in;                                                                     \
                    *out++        = store((Sum)input_grad_##T(c, dy + (n * c->groups + group) * y_step,            \
                                                              w + (group * c->out * c->in + i % c->in) * k_volume, \
                                                              x));                                                 \
                }                                                                                                  \
    }                                                                                                              \
    static void weight_grad_all_##T(const ipu__conv *c, const T *x, const T *dy, T *out)                           \
    {                                                                                                              \
        for (int64_t o = 0; o < c->groups * c->out; o++)                                                           \
            for (int64_t i = 0; i < c->in; i++) EACH(k, c->k)                                                      \
                {                                                                                                  \
                    *out++ = store(                                                                                \
                        (Sum)weight_grad_##T(c, x + (o / c->out * c->in + i) * ipu__conv_volume(c->x),             \
                                             dy + o * ipu__conv_volume(c->y), k));                                 \
                }                                                                                                  \
    }                                                                                                              \
    static void ref_##T(const ipu__conv *c, const ipu__kernel_call *call, void *const *operand)                    \
    {                                                                                                              \
        if (c->kind == IPU__CONV_INPUT_GRAD)                                                                       \
            input_grad_all_##T(c, operand[0], operand[1], operand[IPU__CONV_INPUT_GRAD_OUT]);                      \
        else if (c->kind == IPU__CONV_WEIGHT_GRAD)                                                                 \
            weight_grad_all_##T(c, operand[0], operand[1], operand[IPU__CONV_WEIGHT_GRAD_OUT]);                    \
        else                                                                                                       \
            forward_all_##T(c, operand[0], operand[1],                                                             \
                            ipu__kernel_has(call, IPU__CONV_BIAS) ? operand[IPU__CONV_BIAS] : NULL,                \
                            operand[IPU__CONV_OUT]);                                                               \
    }
IPU__MATMUL_FLOATING(REF)

void ipu__conv_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__conv c    = ipu__conv_get(call);
    ipu_type  type = call->operand[0].type;
#define X(T, Sum, load, store) \
    if (type == IPU_TYPE_OF(T)) ref_##T(&c, call, operand);
    IPU__MATMUL_FLOATING(X)
#undef X
    if (c.kind == IPU__CONV_FORWARD) ipu__epilogue_ref(call, operand);
}
