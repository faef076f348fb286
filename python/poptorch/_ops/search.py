"""Places in sorted sequences, counts and membership."""
from __future__ import annotations

from typing import Optional

import torch

from .._errors import Error
from .index import as_index
from .registry import op

# ---- places in sorted sequences ----


def _searched(g, sequence, values, right: bool):
    """How many elements of the last dimension of `sequence` go before each value: torch's binary search.

    `sequence`: one dimension for all values, or as many as `values`, alike but for the last.
    """
    n = sequence.shape[-1]
    compare = g.op.less_equal if right else g.op.less
    low = g.broadcast(g.const(0, "int32"), values.shape)
    high = g.broadcast(g.const(n, "int32"), values.shape)
    for _ in range(n.bit_length()):
        middle = g.op.shift_right(g.op.add(low, high), g.const(1, "int32"))
        probe = g.op.minimum(middle, g.const(n - 1, "int32"))
        found = (g.op.gather(sequence, probe, axis=0) if sequence.rank == 1 else g.op.gather_elements(
            sequence, probe, axis=sequence.rank - 1))
        open_ = g.op.less(low, high)
        goes_right = g.op.logical_and(open_, compare(found, values))
        goes_left = g.op.logical_and(open_, g.op.logical_not(goes_right))
        low = g.op.where(goes_right, g.op.add(middle, g.const(1, "int32")), low)
        high = g.op.where(goes_left, middle, high)
    return low


def _place_type(out_int32: bool) -> torch.dtype:
    return torch.int32 if out_int32 else torch.int64


def _as_value(g, value, like):
    return value if hasattr(value, "rank") else g.const(value, torch.float32 if isinstance(value, float) else like)


def _bucketize_meta(x, boundaries, *, out_int32=False, right=False):
    shape = x.shape if isinstance(x, torch.Tensor) else ()
    return torch.empty(shape, dtype=_place_type(out_int32), device="meta")


@op("aten::bucketize", meta=_bucketize_meta)
def bucketize(g, node, x, boundaries, *, out_int32: bool = False, right: bool = False):
    x, boundaries = g.promote(_as_value(g, x, torch.int32), boundaries)
    if boundaries.shape[0] == 0:
        return g.broadcast(g.const(0, "int32"), x.shape)
    return _searched(g, boundaries, x, right)


def _searchsorted_meta(sequence, x, *, out_int32=False, right=False, side=None, sorter=None):
    return _bucketize_meta(x, sequence, out_int32=out_int32)


@op("aten::searchsorted", meta=_searchsorted_meta)
def searchsorted(g, node, sequence, x, *, out_int32: bool = False, right: bool = False, side: Optional[str] = None,
                 sorter=None):
    if sorter is not None:
        sequence = g.op.gather_elements(sequence, as_index(g, sorter), axis=sequence.rank - 1)
    x, sequence = g.promote(_as_value(g, x, torch.int32), sequence)
    if sequence.shape[-1] == 0:
        return g.broadcast(g.const(0, "int32"), x.shape)
    return _searched(g, sequence, x, right or side == "right")


# ---- counting ----


def _bincount_meta(x, weights=None, minlength=0):
    if not minlength:
        raise Error("Bincount `minlength` must be specified and must be a constant. On the IPU MK2 platform the "
                    "minimum length is also the maximum length: elements that are not less are not counted.")
    dtype = torch.int64 if weights is None else (torch.float32 if weights.dtype == torch.float32 else torch.float64)
    return torch.empty((minlength, ), dtype=dtype, device="meta")


def counted(g, places, n: int, weights):
    """For each of `n` places the sum of the weights of those that name it; other places count nothing."""
    places = g.cast(places, "int32")
    inside = g.op.logical_and(g.op.greater_equal(places, g.const(0, "int32")),
                              g.op.less(places, g.const(n, "int32")))
    zero = g.const(0, weights.type)
    weights = g.op.where(inside, weights, zero)
    places = g.op.where(inside, places, g.const(0, "int32"))
    return g.op.scatter_elements(g.broadcast(zero, (n, )), places, weights, axis=0, reduction="add")


@op("aten::bincount", meta=_bincount_meta)
def bincount(g, node, x, weights=None, minlength: int = 0):
    out = node.outputs[0]
    weights = g.broadcast(g.const(1, out.dtype), x.shape) if weights is None else g.cast(weights, out.dtype)
    return counted(g, x, minlength, weights)


@op("aten::histc", meta=lambda x, bins=100, min=0, max=0: torch.empty((bins, ), dtype=x.dtype, device="meta"))
def histc(g, node, x, bins: int = 100, min: float = 0, max: float = 0):
    x = g.reshape(x, (-1, ))
    low, high = g.const(min, x.type), g.const(max, x.type)
    if min == max:
        low, high = g.op.reduce_min(x), g.op.reduce_max(x)
        flat = g.op.equal(low, high)
        low, high = g.op.where(flat, g.op.sub(low, 1), low), g.op.where(flat, g.op.add(high, 1), high)
    places = g.op.floor(g.op.mul(g.op.div(g.op.sub(x, low), g.op.sub(high, low)), bins))
    places = g.op.where(g.op.equal(x, high), g.const(bins - 1, x.type), places)
    inside = g.op.logical_and(g.op.greater_equal(x, low), g.op.less_equal(x, high))
    places = g.op.where(inside, places, g.const(-1, x.type))
    return g.op.stop_gradient(counted(g, places, bins, g.broadcast(g.const(1, x.type), x.shape)))


# ---- membership ----


@op("aten::isin", meta=lambda elements, tests, **_: torch.empty(
    elements.shape if isinstance(elements, torch.Tensor) else (), dtype=torch.bool, device="meta"))
def isin(g, node, elements, test_elements, *, assume_unique: bool = False, invert: bool = False):
    if hasattr(elements, "rank"):
        elements, tests = g.promote(elements, _as_value(g, test_elements, torch.int32))
    else:
        tests, elements = g.promote(test_elements, _as_value(g, elements, torch.int32))
    same = g.op.equal(g.reshape(elements, elements.shape + (1, )), g.reshape(tests, (-1, )))
    found = g.op.reduce_any(same, axes=[elements.rank])
    return g.op.logical_not(found) if invert else found
