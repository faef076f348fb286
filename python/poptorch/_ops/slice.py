"""Parts of tensors: by constant bounds, or from a start that only the run knows; and tensors with parts replaced."""
from __future__ import annotations

from typing import Optional

import torch

from .._errors import Error
from .index import as_index
from .registry import op
from .shape import added, at, cut, dropped, joined, moved, storage_places, transposed

_TO_THE_END = 2**63 - 1


def bounds(extent: int, start: Optional[int], end: Optional[int], step: int) -> range:
    """The places that start:end:step takes of a dimension."""
    return range(extent)[slice(start, None if end is None or end >= _TO_THE_END else end, step)]


# ---- constant bounds ----


@op("aten::slice.Tensor", "aten::slice_copy")
def slice_(g, node, x, dim: int = 0, start: Optional[int] = None, end: Optional[int] = None, step: int = 1):
    where = at(dim, x.rank)
    taken = bounds(x.shape[where], start, end, step)
    return cut(g, x, where, taken.start, max(taken.start, taken.stop), step)


@op("aten::select.int", "aten::select_copy")
def select(g, node, x, dim: int, index: int):
    where = at(dim, x.rank)
    index %= x.shape[where]
    return dropped(g, cut(g, x, where, index, index + 1), where)


@op("aten::narrow_copy")
def narrow(g, node, x, dim: int, start: int, length: int):
    where = at(dim, x.rank)
    start = start + x.shape[where] if start < 0 else start
    return cut(g, x, where, start, start + length)


# ---- parts replaced ----


def replaced(g, x, part, dim: int, taken: range):
    """`x` with what `taken` names of dimension `dim` replaced by `part`."""
    n = x.shape[dim]
    if not taken:
        return x
    if taken.step == 1:
        pieces = [cut(g, x, dim, 0, taken.start)] if taken.start > 0 else []
        pieces.append(part)
        if taken.stop < n:
            pieces.append(cut(g, x, dim, taken.stop, n))
        return joined(g, pieces, dim)
    chosen = torch.full((n, ), -1, dtype=torch.int64)
    chosen[taken.start:taken.stop:taken.step] = n + torch.arange(len(taken))
    places = torch.where(chosen < 0, torch.arange(n), chosen)
    return g.op.gather(joined(g, [x, part], dim), g.const(places, torch.int64), axis=dim)


@op("aten::slice_scatter")
def slice_scatter(g, node, x, part, dim: int = 0, start: Optional[int] = None, end: Optional[int] = None,
                  step: int = 1):
    where = at(dim, x.rank)
    taken = bounds(x.shape[where], start, end, step)
    shape = x.shape[:where] + (len(taken), ) + x.shape[where + 1:]
    return replaced(g, x, g.broadcast(g.cast(part, x.type), shape), where, taken)


@op("aten::select_scatter")
def select_scatter(g, node, x, part, dim: int, index: int):
    where = at(dim, x.rank)
    index %= x.shape[where]
    part = added(g, g.broadcast(g.cast(part, x.type), x.shape[:where] + x.shape[where + 1:]), where)
    return replaced(g, x, part, where, range(index, index + 1))


@op("aten::diagonal_scatter")
def diagonal_scatter(g, node, x, part, offset: int = 0, dim1: int = 0, dim2: int = 1):
    a, b = at(dim1, x.rank), at(dim2, x.rank)
    rest = [d for d in range(x.rank) if d not in (a, b)]
    shown = transposed(g, x, rest + [a, b])
    rows, columns = shown.shape[-2:]
    places = torch.arange(rows * columns).reshape(rows, columns).diagonal(offset)
    flat = g.reshape(shown, shown.shape[:-2] + (rows * columns, ))
    out = g.reshape(put_places(g, flat, places, g.cast(part, x.type)), shown.shape)
    back = [0] * x.rank
    for i, d in enumerate(rest + [a, b]):
        back[d] = i
    return transposed(g, out, back)


def put_places(g, flat, places: torch.Tensor, parts):
    """`flat` with its last dimension's `places` (constant, all different) replaced by `parts`."""
    n, where = flat.shape[-1], flat.rank - 1
    source = torch.arange(n)
    source[places.reshape(-1)] = n + torch.arange(places.numel())
    return g.op.gather(joined(g, [flat, parts], where), g.const(source, torch.int64), axis=where)


@op("aten::as_strided_scatter")
def as_strided_scatter(g, node, x, part, size, stride, storage_offset: Optional[int] = None):
    places = storage_places(size, stride, storage_offset or 0).reshape(-1)
    flat = g.reshape(x, (-1, ))
    parts = g.reshape(g.broadcast(g.cast(part, x.type), tuple(size)), (-1, ))
    return g.reshape(put_places(g, flat, places, parts), x.shape)


# ---- starts that only the run knows ----


def check_size(size: int) -> None:
    """Error: a slice of nothing, or of less."""
    if size == 0:
        raise Error("The start and end of a slice must be different.")
    if size < 0:
        raise Error("Taking a slice of a tensor with the end less than the start is not supported.")


def _places(g, start, size: int, extent: int, step: int = 1):
    """Places start, start + step, ... of `size` elements, going on at the front past the end."""
    start = g.reshape(g.cast(start, "int32"), (1, ))
    places = g.op.add(start, g.const(torch.arange(0, size, step), torch.int64))
    return g.op.mod(places, g.const(extent, "int32"))


def _taken(g, x, dim: int, start, size: int, step: int):
    where = at(dim, x.rank)
    return g.op.gather(x, _places(g, start, size, x.shape[where], step), axis=where)


def _put(g, x, part, dim: int, places):
    """`x` with `part` at the places (a vector) of a dimension."""
    where = at(dim, x.rank)
    rows = g.op.scatter_nd(moved(g, x, where, 0), g.reshape(places, (-1, 1)), moved(g, part, where, 0))
    return moved(g, rows, 0, where)


def _dynamic_slice_meta(x, dim, start, size, step):
    check_size(size)
    where = at(dim, x.dim())
    extent = x.shape[where]
    if extent % size != 0:
        raise Error(f"The size of the slice ({size}) must be a factor of the slicing dimension ({extent}).")
    if step < 1:
        raise Error(f"Slicing step must be at least 1, found {step}.")
    shape = list(x.shape)
    shape[where] = len(range(0, size, step))
    return torch.empty(shape, dtype=x.dtype, device="meta")


@op("poptorch::dynamic_slice", meta=_dynamic_slice_meta)
def dynamic_slice(g, node, x, dim: int, start, size: int, step: int):
    return _taken(g, x, dim, start, size, step)


def _dynamic_update_meta(x, source, dim, start, size):
    check_size(size)
    return torch.empty_like(x, device="meta")


@op("poptorch::dynamic_update", meta=_dynamic_update_meta)
def dynamic_update(g, node, x, source, dim: int, start, size: int):
    return _put(g, x, source, dim, _places(g, start, size, x.shape[at(dim, x.rank)]))


# x[t:t+n] and x[t] are views: these take them, and put what was written to them back.


@op("poptorch::slice")
def slice_from(g, node, x, dim: int, start, size: int, step: int):
    return _taken(g, x, dim, start, size, step)


@op("poptorch::slice_scatter")
def slice_scatter_from(g, node, x, part, dim: int, start, size: int, step: int):
    return _put(g, x, part, dim, _places(g, start, size, x.shape[dim], step))


@op("poptorch::select")
def select_at(g, node, x, dim: int, index):
    return g.op.gather(x, g.reshape(as_index(g, index), ()), axis=dim)


@op("poptorch::select_scatter")
def select_scatter_at(g, node, x, part, dim: int, index):
    return _put(g, x, added(g, part, dim), dim, as_index(g, index))
