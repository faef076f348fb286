/* Attention: its gradient as ops, its composition, and multi-head attention. */
#include <math.h>

#include "base/alloc.h"
#include "ipu/op.h"
#include "op/sequence/attention.h"
#include "op/builder.h"

enum { Q, K, V, MASK };

/* Scores that are added where keys come after the query: [queries, keys]. */
static ipu_value causal_mask(ipu_builder *b, const ipu__attention *a)
{
    int64_t   n      = a->queries * a->keys;
    double   *values = ipu__alloc((size_t)n * sizeof *values);
    ipu_value out    = {b, 0};
    if (!values) {
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "attention: out of memory");
        return out;
    }
    for (int64_t i = 0; i < n; i++) values[i] = i % a->keys > i / a->keys ? -INFINITY : 0;
    out = ipu_constant_data(b, IPU_DOUBLE, IPU_SHAPE(a->queries, a->keys), values);
    ipu__free(values);
    return a->type == IPU_DOUBLE ? out : ipu_cast(b, out, a->type);
}

/* scale q k^T and masks. */
static ipu_value scores(ipu_builder *b, const ipu__attention *a, const ipu_value *in)
{
    ipu_value scale = ipu_scalar_like(b, in[Q], a->scale);
    ipu_value s     = ipu_matmul_with(b, ipu_mul(b, in[Q], scale), in[K], false, true);
    if (ipu__has(in[MASK])) s = ipu_add(b, s, in[MASK]);
    return a->causal ? ipu_add(b, s, causal_mask(b, a)) : s;
}

void ipu__attention_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu__attention           a    = ipu__attention_get(call);
    const ipu__kernel_value *made = &call->operand[IPU__ATTENTION_OUT];
    if (a.keys == 0 || a.queries == 0 || a.groups == 0) { /* there are no rows */
        out[0] = ipu_constant_value(b, made[0].type, made[0].shape, 0);
        out[1] = ipu_constant_value(b, made[1].type, made[1].shape, 0);
        return;
    }
    ipu_value s = scores(b, &a, in);
    out[0]      = ipu_matmul(b, ipu_softmax(b, s, -1), in[V]);
    out[1]      = ipu_reduce_logsumexp(b, s, (int[]){-1}, 1, false);
    if (a.type != made[1].type) out[1] = ipu_cast(b, out[1], made[1].type);
}

/* What a mask gives is added to scores: its gradient is theirs, p (d_p - sum of d_out out), summed over what
 * it was broadcast to. */
static ipu_value mask_gradient(const ipu__gradient *g, const ipu__attention *a, ipu_value d_out)
{
    ipu_builder *b   = g->b;
    ipu_value    lse = ipu_unsqueeze(b, g->out[1], -1);
    if (ipu_value_type(lse) != a->type) lse = ipu_cast(b, lse, a->type);
    ipu_value p     = ipu_exp(b, ipu_sub(b, scores(b, a, g->in), lse));
    ipu_value minus = ipu_reduce_sum(b, ipu_mul(b, d_out, g->out[0]), (int[]){-1}, 1, true);
    if (ipu__has(g->d_out[1])) {
        ipu_value d_lse = ipu_unsqueeze(b, g->d_out[1], -1);
        minus = ipu_sub(b, minus, ipu_value_type(d_lse) == a->type ? d_lse : ipu_cast(b, d_lse, a->type));
    }
    ipu_value d_p = ipu_matmul_with(b, d_out, g->in[V], false, true);
    return ipu__sum_like(b, ipu_mul(b, p, ipu_sub(b, d_p, minus)), g->in[MASK]);
}

void ipu__attention_emit_grad(ipu__gradient *g)
{
    ipu__attention a     = ipu__attention_get(g->call);
    ipu_value      d_out = g->d_out[0], out[3];
    if (!ipu__has(d_out)) d_out = ipu_constant_value(g->b, a.type, ipu_value_shape(g->out[0]), 0);
    if (g->wanted[Q] || g->wanted[K] || g->wanted[V]) {
        ipu_emit(g->b, "attention_grad", g->call->attributes, g->call->n_attributes,
                 IPU__IN(d_out, g->in[Q], g->in[K], g->in[V], g->in[MASK], g->out[0], g->out[1], g->d_out[1]),
                 out, 3);
        for (int i = Q; i <= V; i++)
            if (g->wanted[i]) g->d_in[i] = out[i];
    }
    if (g->wanted[MASK]) g->d_in[MASK] = mask_gradient(g, &a, d_out);
}

/* Probabilities of which some are dropped have to be there: no kernel, the composition. */
static ipu_value with_dropout(ipu_builder *b, const ipu_value *in, const ipu_attention_options *options)
{
    for (int i = Q; i <= V; i++)
        if (!ipu__builder_has(b, "ipu_attention", in[i])) return (ipu_value){b, 0};
    if (!ipu__has(options->seed)) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_attention: dropout = %g needs a seed", options->dropout);
        return (ipu_value){b, 0};
    }
    ipu__attention a = {.queries = ipu_value_dim(in[Q], -2),
                        .keys    = ipu_value_dim(in[K], -2),
                        .scale   = options->scale,
                        .causal  = options->causal,
                        .type    = ipu_value_type(in[Q])};
    if (a.scale == 0) a.scale = 1 / sqrt((double)ipu_value_dim(in[Q], -1));
    ipu_value p = ipu_softmax(b, scores(b, &a, in), -1);
    return ipu_matmul(b, ipu_dropout(b, p, options->seed, options->dropout), in[V]);
}

ipu_value ipu_attention(ipu_builder *b, ipu_value q, ipu_value k, ipu_value v, ipu_value mask,
                        ipu_attention_options options)
{
    if (options.dropout != 0) return with_dropout(b, (ipu_value[]){q, k, v, mask}, &options);
    return ipu__emit1(b, "attention",
                      IPU__WITH(IPU_FLOAT_ATTRIBUTE("scale", options.scale),
                                IPU_INT_ATTRIBUTE("causal", options.causal)),
                      IPU__IN(q, k, v, mask));
}

/* ---- several heads ---- */

static ipu_value part_of(ipu_builder *b, ipu_value x, int64_t part, int axis)
{
    if (!ipu__has(x)) return x;
    int64_t n = ipu_value_dim(x, axis) / 3;
    return ipu_slice(b, x, part * n, (part + 1) * n, axis);
}

/* [batch, time, E] to [batch, heads, time, E / heads]. */
static ipu_value split_heads(ipu_builder *b, ipu_value x, int64_t n_heads)
{
    ipu_shape shape = IPU_SHAPE(ipu_value_dim(x, 0), ipu_value_dim(x, 1), n_heads,
                                ipu_value_dim(x, 2) / n_heads);
    return ipu_swap_axes(b, ipu_reshape(b, x, shape), 1, 2);
}

static ipu_value join_heads(ipu_builder *b, ipu_value x)
{
    ipu_value y = ipu_swap_axes(b, x, 1, 2);
    return ipu_reshape(
        b, y, IPU_SHAPE(ipu_value_dim(y, 0), ipu_value_dim(y, 1), ipu_value_dim(y, 2) * ipu_value_dim(y, 3)));
}

static bool check_heads(ipu_builder *b, const ipu_value x[3], const ipu_attention_weights *w, int64_t n_heads)
{
    static const char caller[] = "ipu_multi_head_attention", *const names[] = {"q", "k", "v"};
    if (!ipu__builder_has(b, caller, w->in_weight) || !ipu__builder_has(b, caller, w->out_weight))
        return false;
    for (int i = 0; i < 3; i++) {
        if (!ipu__builder_has(b, caller, x[i])) return false;
        if (ipu_value_rank(x[i]) != 3)
            ipu__builder_fail(b, IPU_INVALID, "%s: %s must have rank 3, found %s", caller, names[i],
                              ipu__value_str(x[i]));
    }
    int64_t   width = ipu_value_dim(x[0], 2);
    ipu_shape want = IPU_SHAPE(3 * width, width), found = ipu_value_shape(w->in_weight);
    if (n_heads < 1 || width % n_heads != 0)
        ipu__builder_fail(b, IPU_INVALID,
                          "%s: %lld heads: expected a divisor of %lld, the features of q = %s", caller,
                          (long long)n_heads, (long long)width, ipu__value_str(x[0]));
    else if (!ipu__shape_equal(&want, &found))
        ipu__builder_fail(b, IPU_INVALID, "%s: in_weight must be [%lld,%lld] for q = %s, found %s", caller,
                          (long long)want.dim[0], (long long)want.dim[1], ipu__value_str(x[0]),
                          ipu__value_str(w->in_weight));
    return b->status == IPU_OK;
}

/* The three projections, [batch, time, E] each. */
static void project(ipu_builder *b, const ipu_value x[3], const ipu_attention_weights *w, ipu_value out[3])
{
    bool one = x[0].id == x[1].id && x[0].id == x[2].id;
    if (one) {
        ipu_value all = ipu_linear(b, x[0], w->in_weight, w->in_bias);
        for (int i = 0; i < 3; i++) out[i] = part_of(b, all, i, 2);
        return;
    }
    for (int i = 0; i < 3; i++)
        out[i] = ipu_linear(b, x[i], part_of(b, w->in_weight, i, 0), part_of(b, w->in_bias, i, 0));
}

ipu_value ipu_multi_head_attention(ipu_builder *b, ipu_value q, ipu_value k, ipu_value v,
                                   ipu_attention_weights weights, ipu_value mask,
                                   ipu_multi_head_options options)
{
    ipu_value x[3] = {q, k, v}, heads[3];
    if (!check_heads(b, x, &weights, options.n_heads)) return (ipu_value){b, 0};
    bool one = q.id == k.id && q.id == v.id;
    for (int i = 0; i < 3 && !options.batch_first; i++)
        x[i] = one && i > 0 ? x[0] : ipu_swap_axes(b, x[i], 0, 1);
    project(b, x, &weights, heads);
    for (int i = 0; i < 3; i++) heads[i] = split_heads(b, heads[i], options.n_heads);
    ipu_value y = ipu_attention(
        b, heads[0], heads[1], heads[2], mask,
        (ipu_attention_options){.causal = options.causal, .dropout = options.dropout, .seed = options.seed});
    y = ipu_linear(b, join_heads(b, y), weights.out_weight, weights.out_bias);
    return options.batch_first ? y : ipu_swap_axes(b, y, 0, 1);
}
