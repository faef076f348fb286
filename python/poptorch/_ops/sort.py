"""Order: sorting, the k largest, the k-th, the most common."""
from __future__ import annotations

from typing import Optional

import torch

from .registry import op
from .shape import at, cut, dropped


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


@op("aten::kthvalue", meta=lambda x, k, dim=-1, keepdim=False: _reduced_meta(x, dim, keepdim))
def kthvalue(g, node, x, k: int, dim: int = -1, keepdim: bool = False):
    if x.rank == 0:
        return x, g.const(0, torch.int64)
    where = at(dim, x.rank)
    found = g.op.topk(x, n_out=2, axis=where, k=k, largest=0)
    last = tuple(cut(g, v, where, k - 1, k) for v in found)
    return last if keepdim else tuple(dropped(g, v, where) for v in last)


@op("aten::mode", meta=lambda x, dim=-1, keepdim=False: _reduced_meta(x, dim, keepdim))
def mode(g, node, x, dim: int = -1, keepdim: bool = False):
    """The most common element (the least of them), and the last place where it is."""
    if x.rank == 0:
        return x, g.const(0, torch.int64)
    where = at(dim, x.rank)
    n = x.shape[where]
    values, places = ordered(g, x, where, False)
    shape = values.shape
    each = g.reshape(values, shape[:where] + (n, 1) + shape[where + 1:])
    other = g.reshape(values, shape[:where] + (1, n) + shape[where + 1:])
    times = g.op.reduce_sum(g.cast(g.op.equal(each, other), "int32"), axes=[where + 1])
    first = g.op.argmax(times, axis=where, keep_dims=1)
    last = g.op.sub(g.op.add(g.cast(first, "int32"), g.op.gather_elements(times, first, axis=where)), 1)
    found = (g.op.gather_elements(values, last, axis=where), g.op.gather_elements(places, last, axis=where))
    return found if keepdim else tuple(dropped(g, v, where) for v in found)
