"""Distances and similarities of vectors."""
from __future__ import annotations

import torch
import torch.nn.functional as F

from .registry import function, op


def p_norm(g, x, p: float, axis: int = -1, keep_dims: bool = False):
    """The p-norm of x along an axis, with torch's gradient of 0 at 0."""
    reduced = {"axes": [axis], "keep_dims": int(keep_dims)}
    if p == 0:
        return g.emit("reduce_sum", [g.cast(g.op.not_equal(x, 0), x.type)], **reduced)
    if p == 1:
        return g.emit("reduce_l1", [x], **reduced)
    if p == 2:
        return g.emit("reduce_l2", [x], **reduced)
    if p == float("inf"):
        return g.emit("reduce_max", [g.op.abs(x)], **reduced)
    total = g.emit("reduce_sum", [g.op.pow(g.op.abs(x), p)], **reduced)
    away = g.op.greater(total, 0)
    root = g.op.pow(g.op.where(away, total, g.const(1, x.type)), 1 / p)
    return g.op.where(away, root, g.const(0, x.type))


def _floating(*tensors: torch.Tensor) -> torch.dtype:
    """The type of what is computed of them, which has a fraction."""
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = torch.promote_types(dtype, t.dtype)
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def _pairwise_meta(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    dtype = _floating(x1, x2)
    shape = torch.broadcast_shapes(x1.shape, x2.shape)
    return torch.empty((*shape[:-1], *([1] if keepdim else [])), dtype=dtype, device="meta")


@function(F.pairwise_distance, meta=_pairwise_meta)
def pairwise_distance(g, node, x1, x2, p=2.0, eps=1e-6, keepdim=False):
    x1, x2 = (g.cast(x, node.outputs[0].dtype) for x in (x1, x2))
    return p_norm(g, g.op.add(g.op.sub(x1, x2), eps), p, keep_dims=keepdim)


def _cosine_meta(x1, x2, dim=1, eps=1e-8):
    dtype = torch.promote_types(x1.dtype, x2.dtype)
    shape = list(torch.broadcast_shapes(x1.shape, x2.shape))
    if shape:  # a scalar is a vector of one
        del shape[dim]
    return torch.empty(shape, dtype=dtype, device="meta")


@function(F.cosine_similarity, meta=_cosine_meta)
def cosine_similarity(g, node, x1, x2, dim=1, eps=1e-8):
    x1, x2 = g.promote(x1, x2)
    narrow = x1.type
    if narrow == "half":  # eps would be 0
        x1, x2 = g.cast(x1, "float"), g.cast(x2, "float")
    shape = torch.broadcast_shapes(x1.shape, x2.shape) or (1, )
    dim = dim % len(shape)
    x1, x2 = g.broadcast(x1, shape), g.broadcast(x2, shape)

    def unit(x):
        length = p_norm(g, x, 2, dim, keep_dims=True)
        return g.op.div(x, g.op.maximum(length, g.const(eps, x.type)))

    return g.cast(g.emit("reduce_sum", [g.op.mul(unit(x1), unit(x2))], axes=[dim]), narrow)


def _cdist_meta(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    dtype = torch.promote_types(x1.dtype, x2.dtype)
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return torch.empty((*batch, x1.shape[-2], x2.shape[-2]), dtype=dtype, device="meta")


def _differences(g, x1, x2):
    x1, x2 = g.promote(x1, x2)
    rows = g.reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1]))
    return g.op.sub(rows, g.reshape(x2, (*x2.shape[:-2], 1, *x2.shape[-2:])))


@function(torch.cdist, meta=_cdist_meta)
def cdist(g, node, x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    return p_norm(g, _differences(g, x1, x2), p)


@op("aten::_cdist_forward", "aten::_euclidean_dist", meta=_cdist_meta)
def cdist_forward(g, node, x1, x2, p=2.0, compute_mode=None):
    return p_norm(g, _differences(g, x1, x2), p)


@function(F.pdist, torch.pdist, meta=lambda x, p=2.0: x.new_empty((x.shape[0] * (x.shape[0] - 1) // 2, )))
def pdist(g, node, x, p=2.0):
    """Distances of all pairs of rows, the first before the second."""
    n = x.shape[0]
    first, second = torch.triu_indices(n, n, 1)
    rows = [g.emit("gather", [x, g.const(i, torch.int32)], axis=0) for i in (first, second)]
    return p_norm(g, g.op.sub(*rows), p)
