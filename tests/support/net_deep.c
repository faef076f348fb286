/* Layers of random networks: pooling, normalisation, recurrent layers, attention, lookups. */
#include <string.h>

#include "net.h"

static const char *truth(bool is_true) { return is_true ? "True" : "False"; }

static ipu_value image(net *n, int spatial, int least)
{
    ipu_shape s = {.rank = 2 + spatial, .dim = {net_int(n, 1, 3), 2 * net_int(n, 1, 2)}};
    for (int d = 0; d < spatial; d++) s.dim[2 + d] = net_int(n, least, spatial == 3 ? 4 : 6);
    return net_param(n, s, -2, 2);
}

/* ---- pooling ---- */

static ipu_pool_options random_pool(net *n, int spatial)
{
    ipu_pool_options o = {.ceil_mode = net_chance(n, 30), .exclude_padding = net_chance(n, 50)};
    for (int d = 0; d < spatial; d++) {
        o.kernel[d]   = net_int(n, 1, 3);
        o.stride[d]   = net_int(n, 1, 3);
        o.padding[d]  = net_int(n, 0, (int)o.kernel[d] / 2);
        o.dilation[d] = 1;
    }
    return o;
}

static bool make_pool(net *n)
{
    int              spatial = net_int(n, 1, 3);
    ipu_value        x       = image(n, spatial, 3);
    ipu_pool_options o       = random_pool(n, spatial);
    const char      *kernel = net_list(o.kernel, spatial), *stride = net_list(o.stride, spatial);
    const char      *padding = net_list(o.padding, spatial);
    if (net_chance(n, 50))
        net_add(n, ipu_max_pool(n->b, x, o), "F.max_pool%dd(v%u, %s, %s, %s, ceil_mode=%s)", spatial, x.id,
                kernel, stride, padding, truth(o.ceil_mode));
    else
        net_add(n, ipu_average_pool(n->b, x, o),
                "F.avg_pool%dd(v%u, %s, %s, %s, ceil_mode=%s, count_include_pad=%s)", spatial, x.id, kernel,
                stride, padding, truth(o.ceil_mode), truth(!o.exclude_padding));
    return true;
}

static bool make_whole_pool(net *n)
{
    ipu_value x      = image(n, 2, 3);
    int64_t   size[] = {net_int(n, 1, 3), net_int(n, 1, 3)};
    int       k      = net_int(n, 0, 2);
    if (k == 0)
        net_add(n, ipu_global_max_pool(n->b, x), "F.adaptive_max_pool2d(v%u, 1)", x.id);
    else if (k == 1)
        net_add(n, ipu_global_average_pool(n->b, x), "v%u.mean((2, 3), keepdim=True)", x.id);
    else
        net_add(n, ipu_adaptive_average_pool(n->b, x, size), "F.adaptive_avg_pool2d(v%u, %s)", x.id,
                net_list(size, 2));
    return true;
}

/* ---- normalisation ---- */

static bool make_layer_norm(net *n)
{
    ipu_value x    = net_pick(n, 2, 4);
    int       dims = net_int(n, 1, ipu_value_rank(x) - 1);
    ipu_shape s    = {.rank = dims};
    for (int d = 0; d < dims; d++) s.dim[d] = ipu_value_dim(x, d - dims);
    ipu_value w = net_param(n, s, 0.5, 2), bias = net_param(n, s, -1, 1);
    net_add(n, ipu_layer_norm(n->b, x, w, bias, dims, 0.1), "F.layer_norm(v%u, %s, v%u, v%u, 0.1)", x.id,
            net_list(s.dim, dims), w.id, bias.id);
    return true;
}

static bool make_rms_norm(net *n)
{
    ipu_value x = net_pick(n, 2, 4);
    ipu_value w = net_param(n, IPU_SHAPE(ipu_value_dim(x, -1)), 0.5, 2);
    net_add(n, ipu_rms_norm(n->b, x, w, 1, 0.1),
            "v%u * torch.rsqrt((v%u**2).mean(-1, keepdim=True) + 0.1) * v%u", x.id, x.id, w.id);
    return true;
}

static bool make_channel_norm(net *n)
{
    int       spatial = net_int(n, 1, 3);
    ipu_value x       = image(n, spatial, 2);
    int64_t   c       = ipu_value_dim(x, 1);
    ipu_value w = net_param(n, IPU_SHAPE(c), 0.5, 2), bias = net_param(n, IPU_SHAPE(c), -1, 1);
    if (net_chance(n, 50))
        net_add(n, ipu_group_norm(n->b, x, w, bias, 2, 0.1), "F.group_norm(v%u, 2, v%u, v%u, 0.1)", x.id,
                w.id, bias.id);
    else
        net_add(n, ipu_instance_norm(n->b, x, w, bias, 0.1),
                "F.instance_norm(v%u, None, None, v%u, v%u, eps=0.1)", x.id, w.id, bias.id);
    return true;
}

static bool make_batch_norm(net *n)
{
    int       spatial = net_int(n, 0, 3);
    ipu_value x       = spatial ? image(n, spatial, 2) : net_param(n, IPU_SHAPE(net_int(n, 2, 5), 4), -2, 2);
    int64_t   c       = ipu_value_dim(x, 1);
    ipu_value w = net_param(n, IPU_SHAPE(c), 0.5, 2), bias = net_param(n, IPU_SHAPE(c), -1, 1);
    ipu_value mean = net_constant(n, IPU_FLOAT, IPU_SHAPE(c), -1, 1),
              var  = net_constant(n, IPU_FLOAT, IPU_SHAPE(c), 0.5, 2);
    bool training  = net_chance(n, 60);
    /* PyTorch changes the running statistics in place, and no gradient passes through them. */
    fprintf(n->code, "m%u, s%u = v%u.clone(), v%u.clone()\n", x.id, x.id, mean.id, var.id);
    ipu_batch_norm_result r = ipu_batch_norm(n->b, x, w, bias, mean, var,
                                             (ipu_batch_norm_options){.training = training, .epsilon = 0.1});
    net_add(n, r.y, "F.batch_norm(v%u, m%u, s%u, v%u, v%u, %s, 0.1, 0.1)", x.id, x.id, x.id, w.id, bias.id,
            truth(training));
    if (!training) return true;
    net_add(n, ipu_stop_gradient(n->b, r.mean), "m%u", x.id);
    net_add(n, ipu_stop_gradient(n->b, r.var), "s%u", x.id);
    return true;
}

static bool make_l2_normalize(net *n)
{
    ipu_value x    = net_param(n, IPU_SHAPE(net_int(n, 2, 4), net_int(n, 2, 4), net_int(n, 2, 4)), -2, 2);
    int       axis = net_int(n, 0, 2);
    net_add(n, ipu_l2_normalize(n->b, x, axis, 1e-3), "F.normalize(v%u, 2, %d, 1e-3)", x.id, axis);
    return true;
}

/* ---- recurrent ---- */

enum { N_LAYERS = 2, MOST_WEIGHTS = 4 * 2 * N_LAYERS };

static int random_weights(net *n, ipu_value x, int64_t gates, int64_t hidden, const ipu_recurrent_options *o,
                          ipu_value *out)
{
    int     n_out = 0, directions = o->bidirectional ? 2 : 1;
    int64_t in = ipu_value_dim(x, -1), rows = gates * hidden;
    for (int layer = 0; layer < o->n_layers; layer++, in = directions * hidden)
        for (int d = 0; d < directions; d++) {
            out[n_out++] = net_param(n, IPU_SHAPE(rows, in), -0.7, 0.7);
            out[n_out++] = net_param(n, IPU_SHAPE(rows, hidden), -0.7, 0.7);
            out[n_out++] = net_param(n, IPU_SHAPE(rows), -0.5, 0.5);
            out[n_out++] = net_param(n, IPU_SHAPE(rows), -0.5, 0.5);
        }
    return n_out;
}

static const char *weights_text(const ipu_value *w, int n)
{
    int64_t     ids[MOST_WEIGHTS];
    static char text[512];
    size_t      at = 0;
    for (int i = 0; i < n; i++) ids[i] = w[i].id;
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%sv%lld", i ? ", " : "", (long long)ids[i]);
    return text;
}

static bool make_recurrent(net *n)
{
    static const char *const names[] = {"rnn_tanh", "rnn_relu", "gru", "lstm"};
    static const int64_t     gates[] = {1, 1, 3, 4};
    int                      k       = net_int(n, 0, 3);
    int64_t                  hidden  = net_int(n, 2, 4);
    ipu_recurrent_options    o       = {.n_layers      = net_int(n, 1, N_LAYERS),
                                        .bidirectional = net_chance(n, 40),
                                        .batch_first   = net_chance(n, 40),
                                        .relu          = k == 1};
    ipu_value x = net_param(n, IPU_SHAPE(net_int(n, 1, 4), net_int(n, 1, 4), net_int(n, 1, 4)), -1, 1),
              w[MOST_WEIGHTS];
    int     n_w   = random_weights(n, x, gates[k], hidden, &o, w);
    int64_t batch = ipu_value_dim(x, o.batch_first ? 0 : 1), states = o.n_layers * (o.bidirectional ? 2 : 1);
    ipu_value h0 = net_param(n, IPU_SHAPE(states, batch, hidden), -1, 1), c0 = IPU_NO_VALUE, y, h_n,
              c_n    = IPU_NO_VALUE;
    size_t n_weights = (size_t)n_w;
    if (k == 3) {
        c0 = net_param(n, IPU_SHAPE(states, batch, hidden), -1, 1);
        y  = ipu_lstm(n->b, x, w, n_weights, h0, c0, o, &h_n, &c_n);
    } else {
        y = k == 2 ? ipu_gru(n->b, x, w, n_weights, h0, o, &h_n)
                   : ipu_rnn(n->b, x, w, n_weights, h0, o, &h_n);
    }
    fprintf(n->code, "r%u = torch.%s(v%u, ", y.id, names[k], x.id);
    if (k == 3)
        fprintf(n->code, "[v%u, v%u]", h0.id, c0.id);
    else
        fprintf(n->code, "v%u", h0.id);
    fprintf(n->code, ", [%s], True, %d, 0.0, True, %s, %s)\n", weights_text(w, n_w), o.n_layers,
            truth(o.bidirectional), truth(o.batch_first));
    net_add(n, y, "r%u[0]", y.id);
    net_add(n, h_n, "r%u[1]", y.id);
    if (k == 3) net_add(n, c_n, "r%u[2]", y.id);
    return true;
}

/* ---- attention ---- */

static bool make_attention(net *n)
{
    int64_t batch = net_int(n, 1, 2), heads = net_int(n, 1, 2), queries = net_int(n, 1, 4),
            depth    = net_int(n, 1, 4);
    bool      causal = net_chance(n, 40), masked = net_chance(n, 50);
    int64_t   keys = causal ? queries : net_int(n, 1, 4);
    ipu_value q    = net_param(n, IPU_SHAPE(batch, heads, queries, depth), -2, 2);
    ipu_value k    = net_param(n, IPU_SHAPE(batch, heads, keys, depth), -2, 2);
    ipu_value v = net_param(n, IPU_SHAPE(batch, heads, keys, net_int(n, 1, 4)), -2, 2), mask = IPU_NO_VALUE;
    char      more[128] = "";
    size_t    at        = 0;
    if (masked) mask = net_param(n, IPU_SHAPE(queries, keys), -1, 1);
    if (masked) at = (size_t)snprintf(more, sizeof more, " + v%u", mask.id);
    if (causal)
        snprintf(more + at, sizeof more - at, " + torch.full((%lld, %lld), -torch.inf).triu(1)",
                 (long long)queries, (long long)keys);
    net_add(n, ipu_attention(n->b, q, k, v, mask, (ipu_attention_options){.causal = causal}),
            "F.softmax(v%u @ v%u.transpose(-1, -2) / %lld**0.5%s, -1) @ v%u", q.id, k.id, (long long)depth,
            more, v.id);
    return true;
}

static bool make_multi_head(net *n)
{
    int64_t   heads = net_int(n, 1, 2), e = heads * net_int(n, 1, 3), batch = net_int(n, 1, 2);
    ipu_value q = net_param(n, IPU_SHAPE(net_int(n, 1, 3), batch, e), -2, 2);
    ipu_value k = net_chance(n, 50) ? q : net_param(n, IPU_SHAPE(net_int(n, 1, 3), batch, e), -2, 2);
    ipu_attention_weights w = {.in_weight  = net_param(n, IPU_SHAPE(3 * e, e), -1, 1),
                               .in_bias    = net_param(n, IPU_SHAPE(3 * e), -1, 1),
                               .out_weight = net_param(n, IPU_SHAPE(e, e), -1, 1),
                               .out_bias   = net_param(n, IPU_SHAPE(e), -1, 1)};
    ipu_value             y = ipu_multi_head_attention(n->b, q, k, k, w, IPU_NO_VALUE,
                                                       (ipu_multi_head_options){.n_heads = heads});
    net_add(n, y,
            "F.multi_head_attention_forward(v%u, v%u, v%u, %lld, %lld, v%u, v%u, None, None, False, 0, v%u, "
            "v%u)[0]",
            q.id, k.id, k.id, (long long)e, (long long)heads, w.in_weight.id, w.in_bias.id, w.out_weight.id,
            w.out_bias.id);
    return true;
}

/* ---- by index ---- */

static bool make_embedding(net *n)
{
    ipu_value table = net_param(n, IPU_SHAPE(net_int(n, 2, 6), net_int(n, 1, 4)), -2, 2);
    ipu_value i     = net_constant(n, net_chance(n, 50) ? IPU_INT32 : IPU_INT64, net_shape(n, 1, 3, 3), 0,
                                   (double)ipu_value_dim(table, 0) - 1);
    if (net_chance(n, 50)) {
        net_add(n, ipu_embedding(n->b, table, i, IPU_NO_PADDING), "F.embedding(v%u.long(), v%u)", i.id,
                table.id);
    } else {
        net_add(n, ipu_embedding(n->b, table, i, 1), "F.embedding(v%u.long(), v%u, padding_idx=1)", i.id,
                table.id);
    }
    return true;
}

static bool make_gather(net *n)
{
    ipu_value x    = net_pick(n, 1, 4);
    int       axis = net_int(n, 0, ipu_value_rank(x) - 1);
    double    last = (double)ipu_value_dim(x, axis) - 1;
    if (net_chance(n, 50)) {
        ipu_value i = net_constant(n, IPU_INT32, IPU_SHAPE(net_int(n, 1, 4)), 0, last);
        net_add(n, ipu_gather(n->b, x, i, axis), "torch.index_select(v%u, %d, v%u)", x.id, axis, i.id);
        return true;
    }
    ipu_shape s = ipu_value_shape(x);
    s.dim[axis] = net_int(n, 1, 4);
    ipu_value i = net_constant(n, IPU_INT64, s, 0, last);
    net_add(n, ipu_gather_elements(n->b, x, i, axis), "torch.gather(v%u, %d, v%u)", x.id, axis, i.id);
    return true;
}

static bool make_scatter(net *n)
{
    ipu_value x    = net_pick(n, 1, 3);
    int       axis = net_int(n, 0, ipu_value_rank(x) - 1);
    ipu_shape s    = ipu_value_shape(x);
    double    last = (double)s.dim[axis] - 1;
    s.dim[axis]    = net_int(n, 1, 3);
    ipu_value i = net_constant(n, IPU_INT64, s, 0, last), y = net_param(n, s, -2, 2);
    net_add(n, ipu_scatter_elements(n->b, x, i, y, axis, IPU_SCATTER_ADD),
            "torch.scatter_add(v%u, %d, v%u, v%u)", x.id, axis, i.id, y.id);
    return true;
}

static bool make_one_hot(net *n)
{
    ipu_value i = net_constant(n, IPU_INT64, net_shape(n, 1, 2, 4), 0, 3);
    ipu_value w = net_param(n, IPU_SHAPE(5), -2, 2);
    net_add(n, ipu_mul(n->b, ipu_one_hot(n->b, i, 5, IPU_FLOAT), w), "F.one_hot(v%u, 5) * v%u", i.id, w.id);
    return true;
}

/* ---- blocks ---- */

static bool make_residual(net *n)
{
    ipu_value x = net_pick(n, 2, 3);
    int64_t   k = ipu_value_dim(x, -1);
    ipu_value w = net_param(n, IPU_SHAPE(k, k), -0.5, 0.5), bias = net_param(n, IPU_SHAPE(k), -1, 1);
    ipu_value y = ipu_add(n->b, x, ipu_gelu(n->b, ipu_linear(n->b, x, w, bias)));
    net_add(n, y, "v%u + F.gelu(F.linear(v%u, v%u, v%u))", x.id, x.id, w.id, bias.id);
    return true;
}

const net_layer net_deep_layers[] = {
    {"pool", make_pool},
    {"pool", make_whole_pool},
    {"norm", make_layer_norm},
    {"norm", make_rms_norm},
    {"norm", make_channel_norm},
    {"norm", make_batch_norm},
    {"norm", make_l2_normalize},
    {"recurrent", make_recurrent},
    {"recurrent", make_recurrent},
    {"gather", make_embedding},
    {"gather", make_gather},
    {"gather", make_scatter},
    {"gather", make_one_hot},
    {"attention", make_attention},
    {"attention", make_multi_head},
    {"matmul", make_residual},
    {NULL, NULL},
};
