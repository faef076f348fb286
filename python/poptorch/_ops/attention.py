"""Attention: torch.nn.MultiheadAttention as one op per layer, and scaled dot products."""
from __future__ import annotations

import math
from typing import Optional

import torch
import torch.nn.functional as F

from .random import dropped
from .registry import function

# ---- masks ----


def _additive(g, mask, type_name: str, hidden: bool):
    """A mask as numbers to add to scores. A bool mask says where to look, or (`hidden`) where not to."""
    if mask.type != "bool":
        return g.cast(mask, type_name)
    none, all_ = g.const(0, type_name), g.const(-math.inf, type_name)
    return g.op.where(mask, all_, none) if hidden else g.op.where(mask, none, all_)


def _sum(g, a, b):
    return b if a is None else a if b is None else g.op.add(a, b)


def _wider(g, mask, by: int):
    """For keys that were added at the end: they are seen."""
    if mask is None or by == 0 or mask.shape[-1] == 1:
        return mask
    return g.emit("pad", [mask], before=[0] * mask.rank, after=[*[0] * (mask.rank - 1), by])


# ---- the product ----


def _weights(g, q, k, mask, causal: bool, scale: float):
    scores = g.emit("matmul", [g.op.mul(q, scale), k], transpose_b=1)
    if mask is not None:
        scores = g.op.add(scores, mask)
    if causal:
        n, m = scores.shape[-2:]
        later = torch.full((n, m), -math.inf).triu(1)
        scores = g.op.add(scores, g.const(later, scores.type))
    return g.emit("softmax", [scores], axis=-1)


def attend(g, q, k, v, mask=None, causal=False, dropout=0.0, scale: Optional[float] = None, wanted=False):
    """softmax(scale q k^T + mask) v and, if they are wanted, the weights.

    Without dropout the product is one op and does not depend on the weights, which go away if nothing uses them.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    dropout = dropout if g.training else 0.0
    weights = _weights(g, q, k, mask, causal, scale) if wanted or dropout > 0 else None
    if dropout > 0:
        weights = dropped(g, weights, dropout)
        return g.emit("matmul", [weights, v]), weights
    return g.emit("attention", [q, k, v, mask], scale=scale, causal=int(causal)), weights


# ---- several heads ----


def _split(g, x, heads: int):
    """[batch, time, E] to [batch, heads, time, E / heads]"""
    batch, time, width = x.shape
    return g.emit("transpose", [g.reshape(x, (batch, time, heads, width // heads))], perm=[0, 2, 1, 3])


def _part(g, v, i: int):
    if v is None:
        return None
    n = v.shape[0] // 3
    return g.emit("slice", [v], begin=[i * n], end=[(i + 1) * n], axes=[0])


def _project(g, x, weight, bias, separate):
    """Queries, keys and values, [batch, time, E] each; of one x they are one product."""
    if separate is None and x[0].id == x[1].id == x[2].id:
        y = g.emit("linear", [x[0], weight, bias])
        n = y.shape[2] // 3
        return [g.emit("slice", [y], begin=[i * n], end=[(i + 1) * n], axes=[2]) for i in range(3)]
    weights = separate or [_part(g, weight, i) for i in range(3)]
    return [g.emit("linear", [x[i], weights[i], _part(g, bias, i)]) for i in range(3)]


def _longer(g, x, row):
    """x [batch, time, E] with one more step, [1, 1, E] or zeros (None)."""
    if row is None:
        return g.emit("pad", [x], before=[0, 0, 0], after=[0, 1, 0])
    return g.emit("concat", [x, g.broadcast(g.cast(row, x.type), (x.shape[0], 1, x.shape[2]))], axis=1)


def _masks(g, attn_mask, key_padding_mask, type_name, batch, heads, more):
    """Both masks as one that broadcasts to [batch, heads, queries, keys]."""
    mask = None
    if attn_mask is not None:
        mask = _additive(g, attn_mask, type_name, hidden=True)
        if mask.rank == 3:
            mask = g.reshape(mask, (batch, heads, *mask.shape[1:]) if mask.shape[0] != 1 else (1, *mask.shape))
    if key_padding_mask is not None:
        padding = _additive(g, key_padding_mask, type_name, hidden=True)
        mask = _sum(g, mask, g.reshape(padding, (batch, 1, 1, padding.shape[-1])))
    return _wider(g, mask, more)


def _multi_head_meta(query, key, value, embed_dim_to_check, num_heads, *rest, **options):
    names = ("in_proj_weight", "in_proj_bias", "bias_k", "bias_v", "add_zero_attn", "dropout_p", "out_proj_weight",
             "out_proj_bias", "training", "key_padding_mask", "need_weights", "attn_mask", "use_separate_proj_weight",
             "q_proj_weight", "k_proj_weight", "v_proj_weight", "static_k", "static_v", "average_attn_weights")
    options = {**dict(zip(names, rest)), **options}
    y = torch.empty_like(query)
    if not options.get("need_weights", True):
        return y, None
    static = options.get("static_k")
    keys = (key.shape[0] if static is None else static.shape[1]) + (options.get("bias_k") is not None)
    keys += bool(options.get("add_zero_attn"))
    heads = () if options.get("average_attn_weights", True) else (num_heads, )
    batch = (query.shape[1], ) if query.dim() == 3 else ()
    return y, query.new_empty((*batch, *heads, query.shape[0], keys))


@function(F.multi_head_attention_forward, meta=_multi_head_meta)
def multi_head_attention(g, node, query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias,
                         bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True,
                         key_padding_mask=None, need_weights=True, attn_mask=None, use_separate_proj_weight=False,
                         q_proj_weight=None, k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None,
                         average_attn_weights=True, is_causal=False):
    """[time, batch, E], or without a batch; as torch.nn.MultiheadAttention calls it."""
    unbatched = query.rank == 2

    def batch_first(x):
        return g.reshape(x, (1, *x.shape)) if unbatched else g.emit("transpose", [x], perm=[1, 0, 2])

    turned = {v.id: v for v in (query, key, value)}
    turned = {number: batch_first(v) for number, v in turned.items()}  # once where they are one value
    x = [turned[v.id] for v in (query, key, value)]
    separate = [q_proj_weight, k_proj_weight, v_proj_weight] if use_separate_proj_weight else None
    q, k, v = _project(g, x, in_proj_weight, in_proj_bias, separate)
    batch, time, width = q.shape
    more = 0
    if bias_k is not None:
        k, v, more = _longer(g, k, bias_k), _longer(g, v, bias_v), 1
    q, k, v = (_split(g, part, num_heads) for part in (q, k, v))
    if static_k is not None:
        k = g.reshape(static_k, (batch, num_heads, *static_k.shape[1:]))
    if static_v is not None:
        v = g.reshape(static_v, (batch, num_heads, *static_v.shape[1:]))
    if add_zero_attn:
        k, v = (g.emit("pad", [part], before=[0] * 4, after=[0, 0, 1, 0]) for part in (k, v))
        more += 1
    if key_padding_mask is not None and unbatched:
        key_padding_mask = g.reshape(key_padding_mask, (1, *key_padding_mask.shape))
    mask = _masks(g, attn_mask, key_padding_mask, q.type, batch, num_heads, more)
    y, weights = attend(g, q, k, v, mask, dropout=dropout_p if training else 0.0, wanted=need_weights)
    y = g.reshape(g.emit("transpose", [y], perm=[0, 2, 1, 3]), (batch, time, width))
    y = g.emit("linear", [y, out_proj_weight, out_proj_bias])
    y = g.reshape(y, y.shape[1:]) if unbatched else g.emit("transpose", [y], perm=[1, 0, 2])
    if not need_weights:
        return y, None
    if average_attn_weights:
        weights = g.emit("reduce_mean", [weights], axes=[1])
    return y, g.reshape(weights, weights.shape[1:]) if unbatched else weights


# ---- scaled dot products ----


def _product(g, query, key, value, attn_mask, dropout_p, is_causal, scale=None, wanted=False):
    mask = None if attn_mask is None else _additive(g, attn_mask, query.type, hidden=False)
    return attend(g, query, key, value, mask, is_causal, dropout_p, scale, wanted)


def _product_meta(query, key, value, *_, **__):
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


if hasattr(F, "scaled_dot_product_attention"):

    @function(F.scaled_dot_product_attention, meta=_product_meta)
    def scaled_dot_product_attention(g, node, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
                                     scale=None, **_):
        return _product(g, query, key, value, attn_mask, dropout_p, is_causal, scale)[0]


if hasattr(F, "_scaled_dot_product_attention"):

    def _product_and_weights_meta(query, key, value, *_, **__):
        return _product_meta(query, key, value), query.new_empty((*query.shape[:-1], key.shape[-2]))

    @function(F._scaled_dot_product_attention, meta=_product_and_weights_meta)
    def scaled_dot_product_and_weights(g, node, query, key, value, attn_mask=None, dropout_p=0.0,
                                       need_attn_weights=False, is_causal=False):
        return _product(g, query, key, value, attn_mask, dropout_p, is_causal, wanted=True)
