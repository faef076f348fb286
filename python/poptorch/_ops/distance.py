"""Distances and similarities of vectors."""
from __future__ import annotations

import torch
import torch.nn.functional as F

from openipu.optable import PROMOTE, RESULT, Table, row

from . import registry


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


def _cosine_meta(x1, x2, dim=1, eps=1e-8):
    dtype = torch.promote_types(x1.dtype, x2.dtype)
    shape = list(torch.broadcast_shapes(x1.shape, x2.shape))
    if shape:  # a scalar is a vector of one
        del shape[dim]
    return torch.empty(shape, dtype=dtype, device="meta")


def _cdist_meta(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    dtype = torch.promote_types(x1.dtype, x2.dtype)
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return torch.empty((*batch, x1.shape[-2], x2.shape[-2]), dtype=dtype, device="meta")


def _pdist_meta(input, p=2.0):
    return input.new_empty((input.shape[0] * (input.shape[0] - 1) // 2, ))


_METAS = {F.pairwise_distance: _pairwise_meta, F.cosine_similarity: _cosine_meta, torch.cdist: _cdist_meta,
          "aten::_cdist_forward": _cdist_meta, "aten::_euclidean_dist": _cdist_meta, F.pdist: _pdist_meta,
          torch.pdist: _pdist_meta}

registry.table(
    Table({
        F.pairwise_distance: row("pairwise_distance", "x1 x2", cast=RESULT, p="p=2.0", eps="eps=1e-6",
                                 keep_dims="keepdim=False"),
        F.cosine_similarity: row("cosine_similarity", "x1 x2", cast=PROMOTE, axis="dim=1", eps="eps=1e-8"),
        torch.cdist: row("cdist", "x1 x2", cast=PROMOTE, p="p=2.0", ignore="compute_mode"),
        "aten::_cdist_forward": row("cdist", "x1 x2", cast=PROMOTE, p="p=2.0", ignore="compute_mode"),
        "aten::_euclidean_dist": row("cdist", "x1 x2", cast=PROMOTE),
        F.pdist: row("pdist", "input", p="p=2.0"),
        torch.pdist: row("pdist", "input", p="p=2.0"),
    }), _METAS)
