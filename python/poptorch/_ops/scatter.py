"""Tensors with elements set, added to or reduced with others, by tensors of indices or masks."""
from __future__ import annotations

from math import prod
from typing import Optional, Sequence

import torch

from .._errors import Error
from .._logging import TRACE, logger
from .index import Places, as_index, places_of_masks, row_index
from .known import constant_of
from .registry import op
from .shape import at, moved, transposed

#: torch's names of reductions, and the library's
_REDUCTIONS = {"sum": "add", "add": "add", "mean": "add", "prod": "mul", "multiply": "mul", "amax": "max",
               "amin": "min"}


def _is_value(x: object) -> bool:
    return hasattr(x, "rank")


def _as_value(g, value, like):
    """A tensor or a number in the type of `like`."""
    return g.cast(value, like.type) if _is_value(value) else g.const(value, like.type)


def _neutral(reduction: str, type_name: str):
    """What a reduction leaves everything as it is with."""
    if reduction in ("add", "mul"):
        return 0 if reduction == "add" else 1
    if type_name == "bool":
        return int(reduction == "min")
    if type_name in ("float", "half"):
        return float("-inf") if reduction == "max" else float("inf")
    limits = torch.iinfo({"int8": torch.int8, "uint8": torch.uint8, "int16": torch.int16}.get(type_name, torch.int32))
    return limits.min if reduction == "max" else limits.max


# ---- one index for each element ----


def _flat_places(g, index, shape: Sequence[int], dim: int):
    """Places of a flattened tensor of `shape` that indices along `dim` name."""
    strides = [prod(shape[d + 1:]) for d in range(len(shape))]
    places = g.op.mul(index, g.const(strides[dim], "int32"))
    base = torch.zeros((), dtype=torch.int64)
    for d, n in enumerate(index.shape):
        base = base.unsqueeze(-1) + (torch.arange(n) * strides[d] if d != dim else torch.zeros(1, dtype=torch.int64))
    return g.op.add(places, g.const(base, torch.int64))


#: what adding and multiplying are for bool
_OF_BOOLS = {"add": "max", "mul": "min"}


def _in_bytes(g, x, updates, reduction: str, fold):
    """`fold` of bools: as bytes that are compared."""
    out = fold(g.cast(x, "uint8"), g.cast(updates, "uint8"), _OF_BOOLS.get(reduction, reduction))
    return g.cast(out, "bool")


def scattered(g, x, dim: int, index, updates, reduction: str):
    """`x` with updates set ("none"), added, multiplied or compared along `dim`."""
    if x.type == "bool" and reduction != "none":
        return _in_bytes(g, x, updates, reduction, lambda a, b, how: scattered(g, a, dim, index, b, how))
    if reduction in ("none", "add"):
        return g.op.scatter_elements(x, index, updates, axis=dim, reduction=reduction)
    if x.rank == 1:
        places = index
    else:
        places = g.reshape(_flat_places(g, g.cast(index, "int32"), x.shape, dim), (-1, ))
    rows = g.op.scatter_reduce(g.reshape(x, (-1, 1)), places, g.reshape(updates, (-1, 1)), reduction=reduction)
    return g.reshape(rows, x.shape)


def _fitted(g, x, dim: int, index, source):
    """x, indices and updates of at least one dimension, updates cut to the indices and in the type of x."""
    index = as_index(g, index)
    updates = _as_value(g, source, x)
    if updates.rank == 0 and index.rank > 0:
        updates = g.broadcast(updates, index.shape)
    if x.rank == 0:
        x, index, updates = (g.reshape(v, (-1, )) for v in (x, index, updates))
    if index.rank == 0:
        index, updates = g.reshape(index, (1, )), g.reshape(updates, (-1, ))
    if updates.shape != index.shape:
        updates = g.op.slice(updates, begin=[0] * index.rank, end=list(index.shape))
    return x, at(dim, x.rank), index, updates


class _Elements:
    """Updates of single elements, one index for each."""

    def __init__(self, g, x, dim: int, index, updates):
        self.g, self.x, self.dim, self.index, self.updates = g, x, dim, index, updates

    def fold(self, start, updates, how: str):
        return scattered(self.g, start, self.dim, self.index, updates, how)

    def counts(self):
        """How many updates each element gets."""
        g = self.g
        one = g.broadcast(g.const(1, "float"), self.updates.shape)
        return self.fold(g.broadcast(g.const(0, "float"), self.x.shape), one, "add")

    def shaped(self, out):
        return out


class _Rows:
    """Updates of whole slices of a dimension: x and updates as matrices, one index for each row."""

    def __init__(self, g, x, dim: int, index, updates):
        first, updates = moved(g, x, dim, 0), moved(g, updates, dim, 0)
        self.g, self.dim, self.index, self.shape = g, dim, index, first.shape
        width = prod(first.shape[1:])
        self.x, self.updates = g.reshape(first, (first.shape[0], width)), g.reshape(updates, (updates.shape[0], width))

    def fold(self, start, updates, how: str):
        g = self.g
        if start.type == "bool" and how != "none":
            return _in_bytes(g, start, updates, how, self.fold)
        if how in ("none", "add"):
            return g.op.scatter_nd(start, g.reshape(self.index, (-1, 1)), updates, reduction=how)
        return g.op.scatter_reduce(start, self.index, updates, reduction=how)

    def counts(self):
        """How many updates each row gets, a column."""
        g = self.g
        one = g.broadcast(g.const(1, "float"), (self.updates.shape[0], 1))
        return self.fold(g.broadcast(g.const(0, "float"), (self.x.shape[0], 1)), one, "add")

    def shaped(self, out):
        return moved(self.g, self.g.reshape(out, self.shape), 0, self.dim)


def _elements_or_rows(g, node, x, dim: int, index, updates):
    """Rows, if the indices are a vector that was expanded over all other dimensions of x."""
    rows = row_index(g, node, dim)
    if rows is None or any(n != x.shape[d] for d, n in enumerate(index.shape) if d != dim):
        return _Elements(g, x, dim, index, updates)
    logger.log(TRACE, "Removing index expansion node: whole slices of dimension %d instead of elements, at %s", dim,
               node.where)
    return _Rows(g, x, dim, rows, updates)


def _put_nd(g, x, places, updates, accumulate: bool):
    """scatter_nd that sets or adds; bools are added as counts."""
    if x.type == "bool" and accumulate:
        sums = g.op.scatter_nd(g.cast(x, "int32"), places, g.cast(updates, "int32"), reduction="add")
        return g.cast(sums, "bool")
    return g.op.scatter_nd(x, places, updates, reduction="add" if accumulate else "none")


@op("aten::scatter", "aten::scatter_")
def scatter(g, node, x, dim: int, index, source, *, reduce: Optional[str] = None):
    shape = x.shape
    x, dim, index, updates = _fitted(g, x, dim, index, source)
    if not index.n_elements:
        return g.reshape(x, shape)
    to = _elements_or_rows(g, node, x, dim, index, updates)
    return g.reshape(to.shaped(to.fold(to.x, to.updates, _REDUCTIONS[reduce] if reduce else "none")), shape)


@op("aten::scatter_add", "aten::scatter_add_")
def scatter_add(g, node, x, dim: int, index, source):
    return scatter(g, node, x, dim, index, source, reduce="add")


@op("aten::scatter_reduce", "aten::scatter_reduce_")
def scatter_reduce(g, node, x, dim: int, index, source, reduce: str, *, include_self: bool = True):
    shape = x.shape
    x, dim, index, updates = _fitted(g, x, dim, index, source)
    if not index.n_elements:
        return g.reshape(x, shape)
    to = _elements_or_rows(g, node, x, dim, index, updates)
    return g.reshape(to.shaped(_reduced(g, to, reduce, include_self)), shape)


def _mean(g, sums, counts):
    """Sums divided by how many there are; integers round down as torch's do."""
    if sums.type in ("float", "half"):
        return g.op.div(sums, g.cast(counts, sums.type))
    return g.op.floor_div(sums, g.cast(counts, sums.type))


def _reduced(g, to, reduce: str, include_self: bool):
    """Updates folded into x or, where elements of x are not to be counted, into nothing."""
    how, mean = _REDUCTIONS[reduce], reduce == "mean"
    counts = to.counts() if mean or not include_self else None
    if include_self:
        out = to.fold(to.x, to.updates, how)
        return _mean(g, out, g.op.add(counts, 1)) if mean else out
    nothing = g.const(_neutral(how, to.x.type), to.x.type)
    out = to.fold(g.op.where(g.op.greater(counts, 0), nothing, to.x), to.updates, how)
    return _mean(g, out, g.op.maximum(counts, 1)) if mean else out


# ---- rows ----


def _rows(g, x, dim: int, index, source):
    """`x` and updates with the indexed dimension first, and the indices as a column."""
    where = at(dim, x.rank)
    places = g.reshape(as_index(g, index), (-1, 1))
    if x.rank == 0:
        return g.reshape(x, (1, )), 0, places, g.reshape(source, (-1, ))
    return moved(g, x, where, 0), where, places, moved(g, source, where, 0) if source.rank else g.reshape(source, (1, ))


def _back(g, rows, where: int, shape):
    return g.reshape(rows, ()) if shape == () else moved(g, rows, 0, where)


@op("aten::index_add", "aten::index_add_")
def index_add(g, node, x, dim: int, index, source, *, alpha: float = 1):
    source = g.cast(source, x.type)
    if alpha != 1:
        source = _scaled(g, source, alpha)
    rows, where, places, updates = _rows(g, x, dim, index, source)
    return _back(g, _put_nd(g, rows, places, updates, True), where, x.shape)


def _scaled(g, x, factor: float):
    return g.op.logical_and(x, g.const(bool(factor), "bool")) if x.type == "bool" else g.op.mul(x, factor)


@op("aten::index_copy", "aten::index_copy_")
def index_copy(g, node, x, dim: int, index, source):
    rows, where, places, updates = _rows(g, x, dim, index, g.cast(source, x.type))
    return _back(g, g.op.scatter_nd(rows, places, updates), where, x.shape)


@op("aten::index_fill", "aten::index_fill_")
def index_fill(g, node, x, dim: int, index, value):
    value = g.reshape(_as_value(g, value, x), ())
    n = index.n_elements
    where = at(dim, x.rank)
    shape = x.shape[:where] + (n, ) + x.shape[where + 1:] if x.rank else (n, )
    return index_copy(g, node, x, dim, index, g.broadcast(value, shape))


@op("aten::index_reduce", "aten::index_reduce_")
def index_reduce(g, node, x, dim: int, index, source, reduce: str, *, include_self: bool = True):
    shape, source = x.shape, g.cast(source, x.type)
    if x.rank == 0:
        x, source = g.reshape(x, (1, )), g.reshape(source, (-1, ))
    to = _Rows(g, x, at(dim, x.rank), g.reshape(as_index(g, index), (-1, )), source)
    return g.reshape(to.shaped(_reduced(g, to, reduce, include_self)), shape)


# ---- assigning to x[indices] ----


def _index_put_meta(x, indices, values, accumulate=False, unsafe=False):
    return torch.empty_like(x)


@op("aten::index_put", "aten::index_put_", "aten::_index_put_impl_",
    meta=_index_put_meta)
def index_put(g, node, x, indices, values, accumulate: bool = False, unsafe: bool = False):
    values = g.cast(values, x.type)
    given = [i for i in indices if i is not None]
    if not given:
        values = g.broadcast(values, x.shape)
        return _added(g, x, values) if accumulate else values
    masks = [i for i in given if i.type in ("bool", "uint8")]
    if masks and len(given) > 1 and all(constant_of(g, m) is not None for m in masks):
        indices, masks = places_of_masks(g, indices), []
    if masks:
        if len(given) > 1:
            raise Error("x[i, mask] = values: a mask together with other index tensors is not supported. "
                        "Use torch.where(mask, values, x) with a mask of the shape of x.")
        return _mask_put(g, x, indices, values, accumulate)
    places = Places(g, x.rank, indices)
    logger.log(TRACE, "Using vectorized ScatterReduce with %s reduction", "sum" if accumulate else "none")
    rest = tuple(x.shape[d] for d in places.rest)
    n = len(places.shape)
    order = places.front
    shown = tuple((places.shape + rest)[d] for d in order)
    updates = g.broadcast(_trimmed(g, values, len(shown)), shown)
    updates = transposed(g, updates, [order.index(d) for d in range(n + len(rest))])
    out = _put_nd(g, transposed(g, x, places.order), places.tensor(g), updates, accumulate)
    return transposed(g, out, [places.order.index(d) for d in range(x.rank)])


def _added(g, x, y):
    return g.op.logical_or(x, y) if x.type == "bool" else g.op.add(x, y)


def _trimmed(g, values, rank: int):
    """Values without leading dimensions of 1 that are more than `rank`."""
    more = values.rank - rank
    return g.reshape(values, values.shape[more:]) if more > 0 else values


def _mask_put(g, x, indices, values, accumulate: bool):
    """x[:, mask] = values: one value for all, or one for each true element in order."""
    where = next(d for d, i in enumerate(indices) if i is not None)
    mask = g.cast(indices[where], "bool")
    before, rest = x.shape[:where], x.shape[where + mask.rank:]
    values = _trimmed(g, values, len(before) + 1 + len(rest))
    shape = (1, ) * (len(before) + 1 + len(rest) - values.rank) + values.shape
    values = g.reshape(values, shape)
    flat = g.reshape(x, before + (mask.n_elements, ) + rest)
    chosen = g.reshape(mask, (mask.n_elements, ) + (1, ) * len(rest))
    n = shape[where]
    if n == 0:
        return x
    if n > 1:
        values = g.op.gather(values, _order(g, mask, n), axis=where)
    values = g.broadcast(values, flat.shape)
    out = g.op.where(chosen, _added(g, flat, values) if accumulate else values, flat)
    return g.reshape(out, x.shape)


def _order(g, mask, n: int):
    """For each element of a mask how many are true before it, at most n - 1."""
    number = g.op.cumsum(g.cast(g.reshape(mask, (-1, )), "int32"), axis=0, exclusive=1)
    return g.op.minimum(number, g.const(n - 1, "int32"))


# ---- masks ----


@op("aten::masked_fill", "aten::masked_fill_")
def masked_fill(g, node, x, mask, value):
    value = _as_value(g, value, x)
    shape = tuple(node.outputs[0].shape)
    return g.broadcast(g.op.where(g.cast(mask, "bool"), value, x), shape)


@op("aten::masked_scatter", "aten::masked_scatter_")
def masked_scatter(g, node, x, mask, source):
    shape = tuple(node.outputs[0].shape)
    mask, x = g.broadcast(g.cast(mask, "bool"), shape), g.broadcast(x, shape)
    source = g.reshape(g.cast(source, x.type), (-1, ))
    picked = g.op.gather(source, _order(g, mask, source.shape[0]), axis=0)
    return g.op.where(mask, g.reshape(picked, shape), x)


@op("aten::put", "aten::put_", meta=lambda x, *_, **__: torch.empty_like(x))
def put(g, node, x, index, source, accumulate: bool = False):
    flat = scattered(g, g.reshape(x, (-1, )), 0, g.reshape(as_index(g, index), (-1, )),
                     g.reshape(g.cast(source, x.type), (-1, )), "add" if accumulate else "none")
    return g.reshape(flat, x.shape)
