/* Recurrent layers unrolled: every step in simple ops. For second derivatives and for checking. */
#include "base/alloc.h"
#include "ipu/op.h"
#include "op/builder.h"
#include "op/sequence/recurrent.h"

typedef struct unrolled {
    ipu_builder     *b;
    ipu__recurrent   r;
    const ipu_value *in;
    ipu_type         type;
    ipu_value        from_x; /* [T,N,G*H], biases of x included */
    ipu_value        h, c;   /* the state; null: zeros */
} unrolled;

static ipu_value gate(const unrolled *u, ipu_value all, int i)
{
    return ipu_slice(u->b, all, i * u->r.hidden, (i + 1) * u->r.hidden, 1);
}

static ipu_value constant(const unrolled *u, ipu_shape shape, double value)
{
    return ipu_constant_value(u->b, u->type, shape, value);
}

/* w_hh h + b_hh, [N,G*H]. */
static ipu_value from_h(const unrolled *u)
{
    const ipu__recurrent *r    = &u->r;
    ipu_value             bias = u->in[r->at.b_hh];
    if (ipu__has(u->h)) return ipu_linear(u->b, u->h, u->in[r->at.w_hh], bias);
    ipu_shape shape = IPU_SHAPE(r->batch, r->n_gates * r->hidden);
    return ipu__has(bias) ? ipu_expand(u->b, bias, shape) : constant(u, shape, 0);
}

/* Each step sets u->h and u->c and gives the gates that it keeps. */
static ipu_value lstm_step(unrolled *u, ipu_value x, ipu_value h)
{
    ipu_builder *b   = u->b;
    ipu_value    sum = ipu_add(b, x, h);
    ipu_value    in = ipu_sigmoid(b, gate(u, sum, 0)), forget = ipu_sigmoid(b, gate(u, sum, 1));
    ipu_value    g = ipu_tanh(b, gate(u, sum, 2)), out = ipu_sigmoid(b, gate(u, sum, 3));
    ipu_value    added = ipu_mul(b, in, g);
    u->c               = ipu__has(u->c) ? ipu_add(b, ipu_mul(b, forget, u->c), added) : added;
    u->h               = ipu_mul(b, out, ipu_tanh(b, u->c));
    return ipu_concat(b, (ipu_value[]){in, forget, g, out}, 4, 1);
}

static ipu_value gru_step(unrolled *u, ipu_value x, ipu_value h)
{
    ipu_builder *b = u->b;
    ipu_value    r = ipu_sigmoid(b, ipu_add(b, gate(u, x, 0), gate(u, h, 0)));
    ipu_value    z = ipu_sigmoid(b, ipu_add(b, gate(u, x, 1), gate(u, h, 1)));
    ipu_value    q = gate(u, h, 2), n = ipu_tanh(b, ipu_add(b, gate(u, x, 2), ipu_mul(b, r, q)));
    ipu_value    fresh = ipu_mul(b, ipu_sub(b, constant(u, IPU_SCALAR, 1), z), n);
    u->h               = ipu__has(u->h) ? ipu_add(b, fresh, ipu_mul(b, z, u->h)) : fresh;
    return ipu_concat(b, (ipu_value[]){r, z, n, q}, 4, 1);
}

static ipu_value rnn_step(unrolled *u, ipu_value x, ipu_value h)
{
    ipu_value sum = ipu_add(u->b, x, h);
    u->h          = u->r.relu ? ipu_relu(u->b, sum) : ipu_tanh(u->b, sum);
    return IPU_NO_VALUE;
}

static void run_steps(unrolled *u, ipu_value *y, ipu_value *gates, ipu_value *cells)
{
    for (int64_t i = 0; i < u->r.steps; i++) {
        int64_t   t = ipu__recurrent_time(&u->r, i);
        ipu_value x = ipu_index(u->b, u->from_x, t, 0), h = from_h(u);
        gates[t] = u->r.cell == IPU__LSTM ? lstm_step(u, x, h)
                 : u->r.cell == IPU__GRU  ? gru_step(u, x, h)
                                          : rnn_step(u, x, h);
        y[t]     = u->h;
        cells[t] = u->c;
    }
}

static ipu_value joined(const unrolled *u, const ipu_value *values, int64_t width)
{
    if (u->r.steps > 0) return ipu_stack(u->b, values, (size_t)u->r.steps, 0);
    return constant(u, IPU_SHAPE(0, u->r.batch, width), 0);
}

static ipu_value or_zeros(const unrolled *u, ipu_value state)
{
    return ipu__has(state) ? state : constant(u, IPU_SHAPE(u->r.batch, u->r.hidden), 0);
}

void ipu__recurrent_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    unrolled u = {.b = b, .r = ipu__recurrent_get(call), .in = in, .type = call->operand[0].type};
    const ipu__recurrent_operands *at = &u.r.at;
    size_t                         n  = (size_t)u.r.steps;
    u.h                               = in[at->h0];
    if (at->c0 >= 0) u.c = in[at->c0];
    ipu_value *steps = ipu__alloc_zeroed(3 * n * sizeof *steps);
    if (!steps) {
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "%s: out of memory", call->def->name);
        return;
    }
    u.from_x = ipu_linear(b, in[at->x], in[at->w_ih], in[at->b_ih]);
    run_steps(&u, steps, steps + n, steps + 2 * n);
    out[0] = joined(&u, steps, u.r.hidden);
    out[1] = or_zeros(&u, u.h);
    if (at->c_n >= 0) out[at->c_n - at->y] = or_zeros(&u, u.c);
    if (u.r.keeps) out[at->gates - at->y] = joined(&u, steps + n, u.r.n_saved * u.r.hidden);
    if (u.r.keeps && at->cells >= 0) out[at->cells - at->y] = joined(&u, steps + 2 * n, u.r.hidden);
    ipu__free(steps);
}
