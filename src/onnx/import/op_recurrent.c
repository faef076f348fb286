/* RNN, GRU and LSTM of ONNX: the op library's layer where it says the same, else steps made of simpler ops.
 *
 * What has no layer of its own: other activations, clipping, peepholes, coupled gates, a reset before the
 * product, and lengths of sequences that differ.
 */
#include <string.h>
#include <strings.h>

#include "ipu/op.h"
#include "onnx/import/import.h"

enum {
    MOST_UNROLLED = 32, /* steps; more become a loop, so that models stay small */
    MOST_GATES    = 4
};

/* ---- activations ---- */

typedef struct activation {
    const char *name;
    int         n_numbers; /* alpha, beta: those that attributes may give */
    double      alpha, beta;
    ipu_value (*emit)(ipu_builder *b, ipu_value x, double alpha, double beta);
} activation;

static ipu_value affine(ipu_builder *b, ipu_value x, double alpha, double beta)
{
    ipu_value y = alpha == 1 ? x : ipu_mul(b, x, ipu_scalar_like(b, x, alpha));
    return beta == 0 ? y : ipu_add(b, y, ipu_scalar_like(b, x, beta));
}

#define PLAIN(name, f)                                                            \
    static ipu_value name(ipu_builder *b, ipu_value x, double alpha, double beta) \
    {                                                                             \
        (void)alpha, (void)beta;                                                  \
        return f;                                                                 \
    }
PLAIN(plain_relu, ipu_relu(b, x))
PLAIN(plain_tanh, ipu_tanh(b, x))
PLAIN(plain_sigmoid, ipu_sigmoid(b, x))
PLAIN(plain_softsign, ipu_softsign(b, x))
PLAIN(plain_softplus, ipu_softplus(b, x, 1, 40)) /* from 40 on log(1 + e^x) is x in double */
PLAIN(leaky_relu, ipu_leaky_relu(b, x, alpha))
PLAIN(elu, ipu_elu(b, x, alpha))
PLAIN(hard_sigmoid, ipu_clip(b, affine(b, x, alpha, beta), 0, 1))
PLAIN(scaled_tanh, affine(b, ipu_tanh(b, affine(b, x, beta, 0)), alpha, 0))
#undef PLAIN

static ipu_value thresholded_relu(ipu_builder *b, ipu_value x, double alpha, double beta)
{
    (void)beta;
    ipu_value is_large = ipu_greater_equal(b, x, ipu_scalar_like(b, x, alpha));
    return ipu_where(b, is_large, x, ipu_scalar_like(b, x, 0));
}

/* Defaults are those of the ONNX ops of these names. */
static const activation activations[] = {
    {"Tanh", 0, 0, 0, plain_tanh},
    {"Sigmoid", 0, 0, 0, plain_sigmoid},
    {"Relu", 0, 0, 0, plain_relu},
    {"Affine", 2, 1, 0, affine},
    {"LeakyRelu", 1, 0.01f, 0, leaky_relu},
    {"ThresholdedRelu", 1, 1, 0, thresholded_relu},
    {"ScaledTanh", 2, 1, 1, scaled_tanh},
    {"HardSigmoid", 2, 0.2f, 0.5, hard_sigmoid},
    {"Elu", 1, 1, 0, elu},
    {"Softsign", 0, 0, 0, plain_softsign},
    {"Softplus", 0, 0, 0, plain_softplus},
};
enum { TANH, SIGMOID, RELU };

static const activation *find_activation(ipu__node *n, const char *name)
{
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (strcasecmp(name, activations[i].name) == 0) return &activations[i];
    ipu__node_fail(n, IPU_INVALID, "activation \"%.40s\" is not known", name);
    return &activations[TANH];
}

/* ---- a layer ---- */

typedef enum kind { RNN, GRU, LSTM } kind;

typedef struct layer {
    ipu__node   *n;
    ipu_builder *b;
    kind         kind;
    int          n_gates, n_functions, n_directions;
    bool         is_reverse, batch_first, reset_after, coupled;
    double       clip; /* 0: none */
    activation   f[6]; /* n_functions for each direction */
    int64_t      n_steps, n_batch, n_hidden;
    ipu_value    x;       /* [steps, batch, features] */
    ipu_value    lengths; /* int32 [batch]; null: all have n_steps */
} layer;

/* What one direction has of its own. */
typedef struct direction {
    bool              is_reverse;
    const activation *f;
    ipu_value         w, r, wb, rb; /* [G*H, features], [G*H, H], [G*H] or null */
    ipu_value         h, c;         /* [batch, H], null: zeros */
    ipu_value         p[3];         /* peepholes of i, o, f: [H] or null */
} direction;

typedef struct result {
    ipu_value y, h, c; /* [steps, batch, H], [batch, H] */
} result;

static ipu_value columns(const layer *l, ipu_value v, int gate)
{
    return ipu_slice(l->b, v, gate * l->n_hidden, (gate + 1) * l->n_hidden, -1);
}

static ipu_value rows(const layer *l, ipu_value v, int gate)
{
    return ipu_slice(l->b, v, gate * l->n_hidden, (gate + 1) * l->n_hidden, 0);
}

/* ---- as one op ---- */

/* Gates of dimension 0 in PyTorch's order: i o f c to i f c o, z r h to r z h. */
static ipu_value reorder(const layer *l, ipu_value v)
{
    static const int order[3][MOST_GATES] = {{0}, {1, 0, 2}, {0, 2, 3, 1}};
    ipu_value        part[MOST_GATES];
    if (v.id == 0 || l->kind == RNN) return v;
    for (int i = 0; i < l->n_gates; i++) part[i] = rows(l, v, order[l->kind][i]);
    return ipu_concat(l->b, part, (size_t)l->n_gates, 0);
}

static bool fits_op(const layer *l, const direction *d)
{
    const activation *f = d->f;
    if (l->lengths.id || l->clip != 0 || d->p[0].id || l->coupled) return false;
    switch (l->kind) {
    case RNN: return f[0].emit == plain_tanh || f[0].emit == plain_relu;
    case GRU: return l->reset_after && f[0].emit == plain_sigmoid && f[1].emit == plain_tanh;
    default: return f[0].emit == plain_sigmoid && f[1].emit == plain_tanh && f[2].emit == plain_tanh;
    }
}

static result emit_op(const layer *l, const direction *d)
{
    static const char *const names[] = {"rnn", "gru", "lstm"};
    ipu_value                out[3]  = {{0}};
    ipu_value in[] = {l->x, reorder(l, d->w), reorder(l, d->r), reorder(l, d->wb), reorder(l, d->rb), d->h,
                      d->c};
    ipu_attribute with[] = {IPU_INT_ATTRIBUTE("reverse", d->is_reverse),
                            IPU_INT_ATTRIBUTE("training", l->n->im->options->training)};
    if (l->kind == RNN)
        with[1] = IPU_TEXT_ATTRIBUTE("activation", d->f[0].emit == plain_relu ? "relu" : "tanh");
    ipu_emit(l->b, names[l->kind], with, 2, in, l->kind == LSTM ? 7 : 6, out, l->kind == LSTM ? 3 : 2);
    return (result){out[0], out[1], out[2]};
}

/* ---- step by step ---- */

static ipu_value activate(const layer *l, const activation *f, ipu_value x)
{
    if (l->clip != 0) x = ipu_clip(l->b, x, -l->clip, l->clip);
    return f->emit(l->b, x, f->alpha, f->beta);
}

static ipu_value add_peephole(const layer *l, ipu_value gate, ipu_value p, ipu_value c)
{
    return p.id ? ipu_add(l->b, gate, ipu_mul(l->b, p, c)) : gate;
}

static ipu_value product(const layer *l, ipu_value h, ipu_value r)
{
    return ipu_matmul_with(l->b, h, r, false, true);
}

/* x: what the input adds to all gates, biases included. */
static void step_lstm(const layer *l, const direction *d, ipu_value x, ipu_value *h, ipu_value *c)
{
    ipu_builder      *b     = l->b;
    const activation *f     = d->f;
    ipu_value         gates = ipu_add(b, x, product(l, *h, d->r)), before = *c, forget;
    ipu_value         in = activate(l, &f[0], add_peephole(l, columns(l, gates, 0), d->p[0], before));
    if (l->coupled)
        forget = ipu_sub(b, ipu_scalar_like(b, in, 1), in);
    else
        forget = activate(l, &f[0], add_peephole(l, columns(l, gates, 2), d->p[2], before));
    ipu_value cell = activate(l, &f[1], columns(l, gates, 3));
    *c             = ipu_add(b, ipu_mul(b, forget, before), ipu_mul(b, in, cell));
    ipu_value out  = activate(l, &f[0], add_peephole(l, columns(l, gates, 1), d->p[1], *c));
    /* Clipping is for what gates are made of, as other runtimes have it, not for the cell itself. */
    *h = ipu_mul(b, out, f[2].emit(b, *c, f[2].alpha, f[2].beta));
}

static void step_gru(const layer *l, const direction *d, ipu_value x, ipu_value *h)
{
    ipu_builder *b    = l->b;
    ipu_value    r_zr = ipu_slice(b, d->r, 0, 2 * l->n_hidden, 0), r_h = rows(l, d->r, 2);
    ipu_value    gates = ipu_add(b, ipu_slice(b, x, 0, 2 * l->n_hidden, -1), product(l, *h, r_zr));
    ipu_value    z     = activate(l, &d->f[0], columns(l, gates, 0));
    ipu_value    reset = activate(l, &d->f[0], columns(l, gates, 1)), hidden;
    if (l->reset_after) {
        hidden = product(l, *h, r_h);
        if (d->rb.id) hidden = ipu_add(b, hidden, rows(l, d->rb, 2));
        hidden = ipu_mul(b, reset, hidden);
    } else
        hidden = product(l, ipu_mul(b, reset, *h), r_h);
    hidden = activate(l, &d->f[1], ipu_add(b, columns(l, x, 2), hidden));
    *h     = ipu_add(b, hidden, ipu_mul(b, z, ipu_sub(b, *h, hidden)));
}

/* One step at `time` (int32 scalar), from and to the state; the output of the step. Where a sequence has
 * ended its state stays and its output is 0. */
static ipu_value step(const layer *l, const direction *d, ipu_value x, ipu_value time, ipu_value state[2])
{
    ipu_builder *b       = l->b;
    ipu_value    next[2] = {state[0], state[1]};
    if (l->kind == LSTM)
        step_lstm(l, d, x, &next[0], &next[1]);
    else if (l->kind == GRU)
        step_gru(l, d, x, &next[0]);
    else
        next[0] = activate(l, &d->f[0], ipu_add(b, x, product(l, next[0], d->r)));
    ipu_value y = next[0];
    if (l->lengths.id) {
        ipu_value goes_on = ipu_unsqueeze(b, ipu_less(b, time, l->lengths), 1);
        y                 = ipu_where(b, goes_on, y, ipu_scalar_like(b, y, 0));
        for (int i = 0; i < (l->kind == LSTM ? 2 : 1); i++)
            next[i] = ipu_where(b, goes_on, next[i], state[i]);
    }
    state[0] = next[0];
    state[1] = next[1];
    return y;
}

static ipu_value unroll(const layer *l, const direction *d, ipu_value x, ipu_value state[2])
{
    ipu_value y[MOST_UNROLLED];
    for (int64_t i = 0; i < l->n_steps; i++) {
        int64_t   t    = d->is_reverse ? l->n_steps - 1 - i : i;
        ipu_value time = ipu_constant_value(l->b, IPU_INT32, (ipu_shape){0}, (double)t);
        y[t]           = step(l, d, ipu_index(l->b, x, t, 0), time, state);
    }
    return ipu_stack(l->b, y, (size_t)l->n_steps, 0);
}

static ipu_value loop(const layer *l, const direction *d, ipu_value x, ipu_value state[2])
{
    ipu_builder *b          = l->b;
    size_t       n          = l->kind == LSTM ? 3 : 2;
    ipu_value    carried[3] = {ipu_constant_value(b, ipu_value_type(x),
                                                  IPU_SHAPE(l->n_steps, l->n_batch, l->n_hidden), 0),
                               state[0], state[1]};
    ipu_value    inside[3], after[3], time;
    ipu_model_loop(l->n->m, l->n_steps, IPU_NO_VALUE, carried, n, inside, &time);
    if (d->is_reverse)
        time = ipu_sub(b, ipu_constant_value(b, IPU_INT32, (ipu_shape){0}, (double)(l->n_steps - 1)), time);
    ipu_value now[2]  = {inside[1], n == 3 ? inside[2] : IPU_NO_VALUE};
    ipu_value x_now   = ipu_squeeze(b, ipu_dynamic_slice(b, x, time, 1, 0), 0);
    ipu_value y       = step(l, d, x_now, time, now);
    ipu_value next[3] = {ipu_dynamic_update_slice(b, inside[0], ipu_unsqueeze(b, y, 0), time, 0), now[0],
                         now[1]};
    ipu_model_yield(l->n->m, next, n);
    ipu_model_end(l->n->m, after, n);
    state[0] = after[1];
    if (n == 3) state[1] = after[2];
    return after[0];
}

static ipu_value zeros(const layer *l)
{
    return ipu_constant_value(l->b, ipu_value_type(l->x), IPU_SHAPE(l->n_batch, l->n_hidden), 0);
}

static result emit_steps(const layer *l, const direction *d)
{
    ipu_builder *b    = l->b;
    ipu_value    bias = d->wb;
    if (d->rb.id) { /* in a GRU whose reset comes after the product, the last gate's bias is reset too */
        bool      is_apart = l->kind == GRU && l->reset_after;
        ipu_value last     = is_apart ? rows(l, d->wb, 2) : IPU_NO_VALUE;
        bias               = ipu_add(b, d->wb, d->rb);
        if (is_apart)
            bias = ipu_concat(b, (ipu_value[]){ipu_slice(b, bias, 0, 2 * l->n_hidden, 0), last}, 2, 0);
    }
    ipu_value x        = ipu_linear(b, l->x, d->w, bias);
    ipu_value state[2] = {d->h.id ? d->h : zeros(l), d->c.id || l->kind != LSTM ? d->c : zeros(l)};
    ipu_value y        = l->n_steps <= MOST_UNROLLED ? unroll(l, d, x, state) : loop(l, d, x, state);
    return (result){y, state[0], state[1]};
}

/* ---- reading a node ---- */

static void read_activations(layer *l)
{
    static const int otherwise[3][3] = {{TANH}, {SIGMOID, TANH}, {SIGMOID, TANH, TANH}};
    ipu__node       *n               = l->n;
    size_t           n_names, n_alphas, n_betas, alpha = 0, beta = 0;
    const float     *alphas = ipu__attr_floats(n, "activation_alpha", &n_alphas);
    const float     *betas  = ipu__attr_floats(n, "activation_beta", &n_betas);
    int              all    = l->n_functions * l->n_directions;
    ipu__attr_texts(n, "activations", &n_names, 0);
    if (n_names != 0 && n_names < (size_t)all) {
        ipu__node_fail(n, IPU_INVALID, "%zu activations; expected %d", n_names, all);
        return;
    }
    for (int i = 0; i < all; i++) {
        l->f[i] = n_names ? *find_activation(n, ipu__attr_texts(n, "activations", &n_names, (size_t)i))
                          : activations[otherwise[l->kind][i % l->n_functions]];
        if (l->f[i].n_numbers > 0 && alpha < n_alphas) l->f[i].alpha = (double)alphas[alpha++];
        if (l->f[i].n_numbers > 1 && beta < n_betas) l->f[i].beta = (double)betas[beta++];
    }
}

static void read_direction(layer *l)
{
    const char *text = ipu__attr_text(l->n, "direction", "forward");
    l->is_reverse    = strcasecmp(text, "reverse") == 0;
    l->n_directions  = strcasecmp(text, "bidirectional") == 0 ? 2 : 1;
    if (l->n_directions == 1 && !l->is_reverse && strcasecmp(text, "forward") != 0)
        ipu__node_fail(l->n, IPU_INVALID,
                       "direction is \"%.40s\"; expected forward, reverse or bidirectional", text);
}

/* Lengths that are known to be those of x are none. */
static void read_lengths(layer *l)
{
    ipu_value given = ipu__in(l->n, 4);
    if (given.id == 0) return;
    const int32_t *known   = ipu_value_type(given) == IPU_INT32 ? ipu__known(l->n, given) : NULL;
    bool           is_full = known != NULL;
    for (int64_t i = 0; is_full && i < ipu_value_n_elements(given); i++) is_full = known[i] == l->n_steps;
    if (!is_full) l->lengths = ipu_cast(l->b, given, IPU_INT32);
    if (ipu_value_rank(given) != 1 || ipu_value_dim(given, 0) != l->n_batch)
        ipu__node_fail(l->n, IPU_INVALID, "sequence_lens must be [%lld], one for each sequence",
                       (long long)l->n_batch);
}

static bool want_shape(layer *l, size_t i, const char *name, ipu_shape want)
{
    ipu_value v     = ipu__in(l->n, i);
    ipu_shape shape = ipu_value_shape(v);
    if (v.id == 0) return true;
    bool is_same = shape.rank == want.rank;
    for (int d = 0; is_same && d < shape.rank; d++) is_same = shape.dim[d] == want.dim[d];
    if (is_same) return true;
    ipu__node_fail(l->n, IPU_INVALID, "%s has another shape than X, R and direction ask for", name);
    return false;
}

static bool read_layer(layer *l)
{
    ipu__node *n = l->n;
    ipu_value  x = ipu__in_needed(n, 0), w = ipu__in_needed(n, 1), r = ipu__in_needed(n, 2);
    read_direction(l);
    read_activations(l);
    l->clip        = ipu__attr_float(n, "clip", 0);
    l->batch_first = ipu__attr_int(n, "layout", 0) != 0;
    l->reset_after = ipu__attr_int(n, "linear_before_reset", 0) != 0;
    l->coupled     = ipu__attr_int(n, "input_forget", 0) != 0;
    if (!ipu__import_ok(n->im)) return false;
    if (ipu_value_rank(x) != 3 || ipu_value_rank(w) != 3 || ipu_value_rank(r) != 3 || l->clip < 0) {
        ipu__node_fail(n, IPU_INVALID, "X, W and R must have 3 dimensions, and clip be positive");
        return false;
    }
    l->x        = l->batch_first ? ipu_swap_axes(n->b, x, 0, 1) : x;
    l->n_steps  = ipu_value_dim(l->x, 0);
    l->n_batch  = ipu_value_dim(l->x, 1);
    l->n_hidden = ipu_value_dim(r, 2);
    if (l->n_steps < 1) ipu__node_fail(n, IPU_UNSUPPORTED, "a sequence of no steps");
    read_lengths(l);
    int64_t   D = l->n_directions, G = l->n_gates * l->n_hidden, H = l->n_hidden, B = l->n_batch;
    ipu_shape state = l->batch_first ? IPU_SHAPE(B, D, H) : IPU_SHAPE(D, B, H);
    return want_shape(l, 1, "W", IPU_SHAPE(D, G, ipu_value_dim(x, 2)))
        && want_shape(l, 2, "R", IPU_SHAPE(D, G, H)) && want_shape(l, 3, "B", IPU_SHAPE(D, 2 * G))
        && want_shape(l, 5, "initial_h", state) && want_shape(l, 6, "initial_c", state)
        && want_shape(l, 7, "P", IPU_SHAPE(D, 3 * H)) && ipu__import_ok(n->im);
}

static ipu_value of_direction(const layer *l, size_t input, int i, int axis)
{
    ipu_value v = ipu__in(l->n, input);
    return v.id ? ipu_index(l->b, v, i, axis) : v;
}

static direction direction_at(const layer *l, int i)
{
    direction d = {.is_reverse = l->is_reverse || i == 1, .f = l->f + (size_t)i * (size_t)l->n_functions};
    int       batch_axis = l->batch_first ? 1 : 0;
    d.w                  = of_direction(l, 1, i, 0);
    d.r                  = of_direction(l, 2, i, 0);
    ipu_value bias       = of_direction(l, 3, i, 0);
    if (bias.id) {
        int64_t n = l->n_gates * l->n_hidden;
        d.wb      = ipu_slice(l->b, bias, 0, n, 0);
        d.rb      = ipu_slice(l->b, bias, n, 2 * n, 0);
    }
    d.h = of_direction(l, 5, i, batch_axis);
    if (l->kind != LSTM) return d;
    d.c         = of_direction(l, 6, i, batch_axis);
    ipu_value p = of_direction(l, 7, i, 0);
    for (int k = 0; k < 3 && p.id; k++) d.p[k] = rows(l, p, k);
    return d;
}

static void recurrent(ipu__node *n, kind which)
{
    static const int n_gates[] = {1, 3, 4}, n_functions[] = {1, 2, 3};
    layer            l = {.n = n, .b = n->b, .kind = which};
    l.n_gates          = n_gates[which];
    l.n_functions      = n_functions[which];
    if (!read_layer(&l)) return;
    ipu_value y[2], h[2], c[2];
    for (int i = 0; i < l.n_directions; i++) {
        direction d = direction_at(&l, i);
        result    r = fits_op(&l, &d) ? emit_op(&l, &d) : emit_steps(&l, &d);
        y[i]        = l.batch_first ? ipu_swap_axes(n->b, r.y, 0, 1) : r.y;
        h[i]        = r.h;
        c[i]        = r.c;
    }
    size_t count = (size_t)l.n_directions;
    ipu__give(n, 0, ipu_stack(n->b, y, count, l.batch_first ? 2 : 1));
    ipu__give(n, 1, ipu_stack(n->b, h, count, l.batch_first ? 1 : 0));
    if (which == LSTM) ipu__give(n, 2, ipu_stack(n->b, c, count, l.batch_first ? 1 : 0));
}

void ipu__onnx_RNN(ipu__node *n) { recurrent(n, RNN); }
void ipu__onnx_GRU(ipu__node *n) { recurrent(n, GRU); }
void ipu__onnx_LSTM(ipu__node *n) { recurrent(n, LSTM); }
