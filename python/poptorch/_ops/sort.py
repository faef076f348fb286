"""Order: sorting, the k largest, the k-th, the most common."""
from __future__ import annotations

from typing import Optional

import torch

from .registry import op
from .shape import at


def _reduced_meta(x, dim: int, keepdim: bool):
    """Shape of a reduction over `dim` that gives values and indices."""
    shape = list(x.shape)
    if shape:
        shape[at(dim, len(shape))] = 1
        if not keepdim:
            del shape[at(dim, len(shape))]
    return (torch.empty(shape, dtype=x.dtype, device="meta"), torch.empty(shape, dtype=torch.int64, device="meta"))


def ordered(g, x, dim: int, descending: bool):
    """Values in order along `dim`, and where they were."""
    if x.rank == 0:
        return x, g.const(0, torch.int64)
    if x.type == "bool":
        values, indices = ordered(g, g.cast(x, "uint8"), dim, descending)
        return g.cast(values, "bool"), indices
    return g.op.sort(x, n_out=2, axis=at(dim, x.rank), descending=int(descending))


@op("aten::sort")
def sort(g, node, x, dim: int = -1, descending: bool = False):
    return ordered(g, x, dim, descending)


@op("aten::sort.stable")
def sort_stable(g, node, x, *, stable: Optional[bool] = None, dim: int = -1, descending: bool = False):
    return ordered(g, x, dim, descending)


def _chosen(g, node, name: str, x, dim: int, **attributes):
    """One element of `dim`, and where it was."""
    if x.rank == 0:
        x = g.reshape(x, (1, ))
    found = g.emit(name, [x], n_out=2, axis=at(dim, x.rank), **attributes)
    return tuple(g.reshape(v, tuple(out.shape)) for v, out in zip(found, node.outputs))


@op("aten::kthvalue", meta=lambda x, k, dim=-1, keepdim=False: _reduced_meta(x, dim, keepdim))
def kthvalue(g, node, x, k: int, dim: int = -1, keepdim: bool = False):
    return _chosen(g, node, "kthvalue", x, dim, k=k)


@op("aten::mode", meta=lambda x, dim=-1, keepdim=False: _reduced_meta(x, dim, keepdim))
def mode(g, node, x, dim: int = -1, keepdim: bool = False):
    return _chosen(g, node, "mode", x, dim)
