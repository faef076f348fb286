"""Distances and similarities of vectors."""
from __future__ import annotations

import torch
import torch.nn.functional as F

from .registry import function, op


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
    pair = [g.cast(x, node.outputs[0].dtype) for x in (x1, x2)]
    return g.emit("pairwise_distance", pair, p=p, eps=eps, keep_dims=keepdim)


def _cosine_meta(x1, x2, dim=1, eps=1e-8):
    dtype = torch.promote_types(x1.dtype, x2.dtype)
    shape = list(torch.broadcast_shapes(x1.shape, x2.shape))
    if shape:  # a scalar is a vector of one
        del shape[dim]
    return torch.empty(shape, dtype=dtype, device="meta")


@function(F.cosine_similarity, meta=_cosine_meta)
def cosine_similarity(g, node, x1, x2, dim=1, eps=1e-8):
    return g.emit("cosine_similarity", g.promote(x1, x2), axis=dim, eps=eps)


def _cdist_meta(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    dtype = torch.promote_types(x1.dtype, x2.dtype)
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return torch.empty((*batch, x1.shape[-2], x2.shape[-2]), dtype=dtype, device="meta")


@function(torch.cdist, meta=_cdist_meta)
def cdist(g, node, x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    return g.emit("cdist", g.promote(x1, x2), p=p)


@op("aten::_cdist_forward", "aten::_euclidean_dist", meta=_cdist_meta)
def cdist_forward(g, node, x1, x2, p=2.0, compute_mode=None):
    return g.emit("cdist", g.promote(x1, x2), p=p)


@function(F.pdist, torch.pdist, meta=lambda x, p=2.0: x.new_empty((x.shape[0] * (x.shape[0] - 1) // 2, )))
def pdist(g, node, x, p=2.0):
    return g.emit("pdist", [x], p=p)
