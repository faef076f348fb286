/* Recurrent layers as functions: stacks and directions built from the op for one layer in one direction. */
#include "ipu/op/recurrent.h"

#include "base/alloc.h"
#include "ipu/op.h"
#include "op/builder.h"
#include "op/op.h"

typedef struct stack {
    const char           *op, *function;
    const ipu_value      *weights;
    ipu_value             h0, c0;
    ipu_recurrent_options options;
    int                   n_layers, n_directions;
    bool                  has_c;
} stack;

enum { WEIGHTS = 4 }; /* w_ih, w_hh, b_ih, b_hh */

static ipu_value state_at(ipu_builder *b, ipu_value all, int i)
{
    return ipu__has(all) ? ipu_index(b, all, i, 0) : IPU_NO_VALUE;
}

/* One layer in one direction; h[i] and c[i] receive its last state. */
static ipu_value emit_one(ipu_builder *b, const stack *s, ipu_value x, int i, bool reverse, ipu_value *h,
                          ipu_value *c)
{
    const ipu_value *w = s->weights + (size_t)i * WEIGHTS;
    ipu_value        out[3];
    ipu_attribute    attributes[] = {IPU_INT_ATTRIBUTE("reverse", reverse), {0}};
    bool             is_rnn       = s->op[0] == 'r';
    attributes[1]  = is_rnn ? IPU_TEXT_ATTRIBUTE("activation", s->options.relu ? "relu" : "tanh")
                            : IPU_INT_ATTRIBUTE("training", !s->options.no_gradients);
    ipu_value in[] = {x, w[0], w[1], w[2], w[3], state_at(b, s->h0, i), state_at(b, s->c0, i)};
    ipu_emit(b, s->op, attributes, 2, in, s->has_c ? 7 : 6, out, s->has_c ? 3 : 2);
    h[i] = out[1];
    if (s->has_c) c[i] = out[2];
    return out[0];
}

static ipu_value emit_all(ipu_builder *b, const stack *s, ipu_value x, ipu_value *h, ipu_value *c)
{
    for (int layer = 0, i = 0; layer < s->n_layers; layer++) {
        ipu_value y[2] = {{b, 0}, {b, 0}};
        for (int d = 0; d < s->n_directions; d++, i++) y[d] = emit_one(b, s, x, i, d == 1, h, c);
        x = s->n_directions == 2 ? ipu_concat(b, y, 2, 2) : y[0];
        if (s->options.dropout != 0 && layer < s->n_layers - 1)
            x = ipu_dropout(b, x, s->options.seed, s->options.dropout);
    }
    return x;
}

static bool check(ipu_builder *b, const stack *s, ipu_value x, size_t n_weights)
{
    if (!ipu__builder_has(b, s->function, x)) return false;
    size_t want = (size_t)s->n_layers * (size_t)s->n_directions * WEIGHTS;
    if (s->n_layers < 1 || s->n_layers > 1 << 16)
        ipu__builder_fail(b, IPU_INVALID, "%s: n_layers = %d: expected 1 or more", s->function, s->n_layers);
    else if (n_weights != want || !s->weights)
        ipu__builder_fail(
            b, IPU_INVALID,
            "%s: %zu weights: expected %zu (w_ih, w_hh, b_ih, b_hh for each of %d layers and %d "
            "direction%s; null biases where there are none)",
            s->function, n_weights, want, s->n_layers, s->n_directions, s->n_directions == 1 ? "" : "s");
    else if (s->options.dropout != 0 && !ipu__has(s->options.seed))
        ipu__builder_fail(b, IPU_INVALID, "%s: dropout = %g needs a seed", s->function, s->options.dropout);
    else if (ipu_value_rank(x) != 3)
        ipu__builder_fail(b, IPU_INVALID, "%s: x must have rank 3, found %s", s->function, ipu__value_str(x));
    return b->status == IPU_OK;
}

static ipu_value build(ipu_builder *b, stack s, ipu_value x, size_t n_weights, ipu_value *h_n, ipu_value *c_n)
{
    s.n_layers     = s.options.n_layers ? s.options.n_layers : 1;
    s.n_directions = s.options.bidirectional ? 2 : 1;
    if (h_n) *h_n = (ipu_value){b, 0};
    if (c_n) *c_n = (ipu_value){b, 0};
    if (!check(b, &s, x, n_weights)) return (ipu_value){b, 0};
    size_t     n      = (size_t)s.n_layers * (size_t)s.n_directions;
    ipu_value *states = ipu__alloc_zeroed(2 * n * sizeof *states);
    if (!states) {
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "%s: out of memory", s.function);
        return (ipu_value){b, 0};
    }
    if (s.options.batch_first) x = ipu_swap_axes(b, x, 0, 1);
    ipu_value y = emit_all(b, &s, x, states, states + n);
    if (s.options.batch_first) y = ipu_swap_axes(b, y, 0, 1);
    if (h_n) *h_n = ipu_stack(b, states, n, 0);
    if (c_n) *c_n = ipu_stack(b, states + n, n, 0);
    ipu__free(states);
    return y;
}

ipu_value ipu_rnn(ipu_builder *b, ipu_value x, const ipu_value *weights, size_t n_weights, ipu_value h0,
                  ipu_recurrent_options options, ipu_value *h_n)
{
    stack s = {.op = "rnn", .function = __func__, .weights = weights, .h0 = h0, .options = options};
    return build(b, s, x, n_weights, h_n, NULL);
}

ipu_value ipu_gru(ipu_builder *b, ipu_value x, const ipu_value *weights, size_t n_weights, ipu_value h0,
                  ipu_recurrent_options options, ipu_value *h_n)
{
    stack s = {.op = "gru", .function = __func__, .weights = weights, .h0 = h0, .options = options};
    return build(b, s, x, n_weights, h_n, NULL);
}

ipu_value ipu_lstm(ipu_builder *b, ipu_value x, const ipu_value *weights, size_t n_weights, ipu_value h0,
                   ipu_value c0, ipu_recurrent_options options, ipu_value *h_n, ipu_value *c_n)
{
    stack s = {
        .op = "lstm", .function = __func__, .weights = weights, .h0 = h0, .c0 = c0, .options = options};
    s.has_c = true;
    return build(b, s, x, n_weights, h_n, c_n);
}
