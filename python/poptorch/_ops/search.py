"""Places in sorted sequences, counts and membership."""
from __future__ import annotations

from typing import Optional

import torch

from .._errors import Error
from .index import as_index
from .registry import op

# ---- places in sorted sequences ----


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
    return g.emit("searchsorted", [boundaries, x], right=right)


def _searchsorted_meta(sequence, x, *, out_int32=False, right=False, side=None, sorter=None):
    return _bucketize_meta(x, sequence, out_int32=out_int32)


@op("aten::searchsorted", meta=_searchsorted_meta)
def searchsorted(g, node, sequence, x, *, out_int32: bool = False, right: bool = False, side: Optional[str] = None,
                 sorter=None):
    if sorter is not None:
        sequence = g.op.gather_elements(sequence, as_index(g, sorter), axis=sequence.rank - 1)
    x, sequence = g.promote(_as_value(g, x, torch.int32), sequence)
    return g.emit("searchsorted", [sequence, x], right=right or side == "right")


# ---- counting ----


def _bincount_meta(x, weights=None, minlength=0):
    if not minlength:
        raise Error("Bincount `minlength` must be specified and must be a constant. On the IPU MK2 platform the "
                    "minimum length is also the maximum length: elements that are not less are not counted.")
    dtype = torch.int64 if weights is None else (torch.float32 if weights.dtype == torch.float32 else torch.float64)
    return torch.empty((minlength, ), dtype=dtype, device="meta")


@op("aten::bincount", meta=_bincount_meta)
def bincount(g, node, x, weights=None, minlength: int = 0):
    weights = None if weights is None else g.cast(weights, node.outputs[0].dtype)
    return g.emit("bincount", [x, weights], size=minlength)


@op("aten::histc", meta=lambda x, bins=100, min=0, max=0: torch.empty((bins, ), dtype=x.dtype, device="meta"))
def histc(g, node, x, bins: int = 100, min: float = 0, max: float = 0):
    return g.emit("histogram", [x], bins=bins, min=min, max=max)


# ---- membership ----


@op("aten::isin", meta=lambda elements, tests, **_: torch.empty(
    elements.shape if isinstance(elements, torch.Tensor) else (), dtype=torch.bool, device="meta"))
def isin(g, node, elements, test_elements, *, assume_unique: bool = False, invert: bool = False):
    if hasattr(elements, "rank"):
        elements, tests = g.promote(elements, _as_value(g, test_elements, torch.int32))
    else:
        tests, elements = g.promote(test_elements, _as_value(g, elements, torch.int32))
    return g.emit("isin", [elements, tests], invert=invert)
