/* Sequence layers: recurrent ones, attention, the transformer encoder layer. */
#include <math.h>
#include <stdio.h>

#include "model/nn/nn.h"

static ipu_value null_of(ipu_model *m) { return (ipu_value){&m->base, 0}; }

/* ---- recurrent ---- */

typedef struct cell {
    ipu_model                      *m;
    const char                     *name;
    ipu_value                       x;
    int64_t                         n_hidden, gates;
    const ipu_nn_recurrent_options *options;
} cell;

/* The four weights of one direction of one layer, with PyTorch's names: "weight_ih_l0_reverse". */
static void add_weights(const cell *c, int layer, int direction, ipu_value *out)
{
    static const char *const kinds[]      = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    int                      n_directions = c->options->bidirectional ? 2 : 1;
    int64_t                  rows = c->gates * c->n_hidden, n_in = ipu_value_dim(c->x, -1);
    ipu_initial              initial = ipu__nn_uniform(c->n_hidden > 0 ? 1 / sqrt((double)c->n_hidden) : 0);
    if (layer > 0) n_in = c->n_hidden * n_directions;
    ipu_shape shapes[] = {IPU_SHAPE(rows, n_in), IPU_SHAPE(rows, c->n_hidden), IPU_SHAPE(rows),
                          IPU_SHAPE(rows)};
    for (int k = 0; k < 4; k++) {
        char what[64];
        snprintf(what, sizeof what, "%s_l%d%s", kinds[k], layer, direction ? "_reverse" : "");
        out[k] = IPU_NO_VALUE;
        if (k < 2 || !c->options->no_bias)
            out[k] = ipu__nn_parameter(c->m, c->name, what, c->x, shapes[k], initial);
    }
}

/* All weights in PyTorch's order; NULL after an error. Owned: ipu__free. */
static ipu_value *make_weights(const cell *c, size_t *n)
{
    int n_layers       = c->options->n_layers > 0 ? c->options->n_layers : 1;
    int n_directions   = c->options->bidirectional ? 2 : 1;
    *n                 = 4 * (size_t)n_layers * (size_t)n_directions;
    ipu_value *weights = ipu__alloc(*n * sizeof *weights);
    if (!weights) {
        ipu__builder_fail(&c->m->base, IPU_OUT_OF_MEMORY, "out of memory");
        return NULL;
    }
    for (int i = 0; i < n_layers * n_directions; i++)
        add_weights(c, i / n_directions, i % n_directions, weights + 4 * i);
    if (c->m->base.status == IPU_OK) return weights;
    ipu__free(weights);
    return NULL;
}

static ipu_recurrent_options recurrent_options(const ipu_model *m, const ipu_nn_recurrent_options *o)
{
    return (ipu_recurrent_options){.n_layers      = o->n_layers,
                                   .bidirectional = o->bidirectional,
                                   .batch_first   = o->batch_first,
                                   .no_gradients  = m->is_inference};
}

typedef ipu_value (*recurrent_fn)(ipu_builder *b, ipu_value x, const ipu_value *weights, size_t n_weights,
                                  ipu_value h0, ipu_recurrent_options options, ipu_value *h_n);

static ipu_value emit_lstm(ipu_builder *b, ipu_value x, const ipu_value *weights, size_t n_weights,
                           ipu_value h0, ipu_recurrent_options options, ipu_value *h_n)
{
    return ipu_lstm(b, x, weights, n_weights, h0, IPU_NO_VALUE, options, h_n, NULL);
}

static ipu_value recurrent(ipu_model *m, const char *caller, cell c, recurrent_fn fn, ipu_value *last)
{
    size_t n;
    if (last) *last = null_of(m);
    if (!ipu__nn_begin(m, caller, c.x, c.name, 3)) return null_of(m);
    ipu_value *weights = make_weights(&c, &n);
    if (!weights) return null_of(m);
    ipu_value y = fn(&m->base, c.x, weights, n, IPU_NO_VALUE, recurrent_options(m, c.options), last);
    ipu__free(weights);
    return y;
}

ipu_value ipu_nn_rnn(ipu_model *m, ipu_value x, int64_t n_hidden, ipu_nn_recurrent_options options,
                     ipu_value *last, const char *name)
{
    return recurrent(m, __func__, (cell){m, name, x, n_hidden, 1, &options}, ipu_rnn, last);
}

ipu_value ipu_nn_gru(ipu_model *m, ipu_value x, int64_t n_hidden, ipu_nn_recurrent_options options,
                     ipu_value *last, const char *name)
{
    return recurrent(m, __func__, (cell){m, name, x, n_hidden, 3, &options}, ipu_gru, last);
}

ipu_value ipu_nn_lstm(ipu_model *m, ipu_value x, int64_t n_hidden, ipu_nn_recurrent_options options,
                      ipu_value *last, const char *name)
{
    return recurrent(m, __func__, (cell){m, name, x, n_hidden, 4, &options}, emit_lstm, last);
}

/* ---- attention ---- */

ipu_value ipu_nn_attention(ipu_model *m, ipu_value x, int64_t n_heads, ipu_value mask, const char *name)
{
    if (!ipu__nn_begin(m, __func__, x, name, 3)) return null_of(m);
    int64_t     n    = ipu_value_dim(x, -1);
    ipu_initial zero = {IPU_INITIAL_CONSTANT, 0, 0};
    /* xavier_uniform over [3 n, n]; the output is a linear layer with a bias of 0. */
    ipu_attention_weights w = {
        .in_weight  = ipu__nn_parameter(m, name, "in_proj_weight", x, IPU_SHAPE(3 * n, n),
                                        ipu__nn_uniform(sqrt(6 / (4 * (double)n)))),
        .in_bias    = ipu__nn_parameter(m, name, "in_proj_bias", x, IPU_SHAPE(3 * n), zero),
        .out_weight = ipu__nn_parameter(m, name, "out_proj.weight", x, IPU_SHAPE(n, n),
                                        ipu__nn_uniform(1 / sqrt((double)n))),
        .out_bias   = ipu__nn_parameter(m, name, "out_proj.bias", x, IPU_SHAPE(n), zero)};
    ipu_multi_head_options options = {.n_heads = n_heads, .batch_first = true};
    return ipu_multi_head_attention(&m->base, x, x, x, w, mask, options);
}

/* "encoder.0" and "linear1" -> "encoder.0.linear1" */
static const char *inner_name(const char *name, const char *part, char buffer[256])
{
    snprintf(buffer, 256, "%s.%s", name, part);
    return buffer;
}

static ipu_value feed_forward(ipu_model *m, ipu_value x, const ipu_nn_encoder_options *o, const char *name)
{
    char         part[256];
    ipu_builder *b = &m->base;
    int64_t      n = ipu_value_dim(x, -1);
    ipu_value    h = ipu_nn_linear(m, x, o->n_inner, inner_name(name, "linear1", part));
    h              = ipu_nn_dropout(m, o->gelu ? ipu_gelu(b, h) : ipu_relu(b, h), o->dropout);
    return ipu_nn_dropout(m, ipu_nn_linear(m, h, n, inner_name(name, "linear2", part)), o->dropout);
}

ipu_value ipu_nn_encoder_layer(ipu_model *m, ipu_value x, ipu_value mask, ipu_nn_encoder_options o,
                               const char *name)
{
    char         part[256];
    ipu_builder *b = &m->base;
    if (!ipu__nn_begin(m, __func__, x, name, 3)) return null_of(m);
    if (o.norm_first) {
        ipu_value h = ipu_nn_layer_norm(m, x, 1, inner_name(name, "norm1", part));
        h           = ipu_nn_attention(m, h, o.n_heads, mask, inner_name(name, "self_attn", part));
        x           = ipu_add(b, x, ipu_nn_dropout(m, h, o.dropout));
        h           = ipu_nn_layer_norm(m, x, 1, inner_name(name, "norm2", part));
        return ipu_add(b, x, feed_forward(m, h, &o, name));
    }
    ipu_value h = ipu_nn_attention(m, x, o.n_heads, mask, inner_name(name, "self_attn", part));
    h           = ipu_add(b, x, ipu_nn_dropout(m, h, o.dropout));
    x           = ipu_nn_layer_norm(m, h, 1, inner_name(name, "norm1", part));
    return ipu_nn_layer_norm(m, ipu_add(b, x, feed_forward(m, x, &o, name)), 1,
                             inner_name(name, "norm2", part));
}
