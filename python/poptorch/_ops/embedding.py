"""Rows of tables: embeddings, bags of them, and one-hot vectors."""
from __future__ import annotations

from typing import Optional

import torch

from .._errors import Error
from .index import as_index
from .registry import function, op
from .shape import added


@op("aten::embedding")
def embedding(g, node, weight, indices, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False):
    indices = as_index(g, indices)
    rows = g.op.gather(weight, indices, axis=0, padding=padding_idx if padding_idx >= 0 else None)
    if not (scale_grad_by_freq and g.training):
        return rows
    times = g.op.gather(_uses(g, weight, indices), indices, axis=0)
    shared = g.op.div(rows, added(g, times, times.rank))
    return g.op.add(g.op.stop_gradient(rows), g.op.sub(shared, g.op.stop_gradient(shared)))


def _uses(g, weight, indices):
    """How often each row is named."""
    flat = g.reshape(indices, (-1, ))
    return g.op.scatter_elements(g.broadcast(g.const(0, weight.type), weight.shape[:1]), flat,
                                 g.broadcast(g.const(1, weight.type), flat.shape), axis=0, reduction="add")


@op("aten::embedding_renorm_", "aten::embedding_renorm", meta=lambda weight, *_: torch.empty_like(weight))
def embedding_renorm(g, node, weight, indices, max_norm: float, norm_type: float):
    """The table with those rows that are named made at most `max_norm` long."""
    size = g.op.abs(g.cast(weight, "float"))
    if norm_type == float("inf"):
        norms = g.op.reduce_max(size, axes=[1], keep_dims=1)
    elif norm_type == 2:
        norms = g.op.reduce_l2(size, axes=[1], keep_dims=1)
    else:
        norms = g.op.pow(g.op.reduce_sum(g.op.pow(size, norm_type), axes=[1], keep_dims=1), 1 / norm_type)
    named = g.op.greater(_uses(g, weight, as_index(g, indices)), 0)
    long_ = g.op.logical_and(g.op.greater(norms, max_norm), added(g, named, 1))
    factor = g.op.div(g.const(max_norm, "float"), g.op.add(norms, 1e-7))
    return g.op.where(long_, g.cast(g.op.mul(g.cast(weight, "float"), factor), weight.type), weight)


def renormed(g, node, weight, indices, max_norm: float, norm_type: float):
    """The same, for gradients as if the table had always been so: torch changes it in place, unseen by autograd."""
    changed = embedding_renorm(g, node, weight, indices, max_norm, norm_type)
    if not g.training:
        return changed
    return g.op.add(g.op.stop_gradient(changed), g.op.sub(weight, g.op.stop_gradient(weight)))


def _renormed_meta(input, weight, *_):
    return torch.empty((*input.shape, weight.shape[1]), dtype=weight.dtype, device="meta")


@op("poptorch::embedding_renormed", meta=_renormed_meta, mutates=("weight", ))
def embedding_renormed(g, node, input, weight, padding_idx: Optional[int], max_norm: float, norm_type: float,
                       scale_grad_by_freq: bool):
    table = renormed(g, node, weight, input, max_norm, norm_type)
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    return embedding(g, node, table, input, padding, scale_grad_by_freq), table


# ---- bags ----


def _embedding_bag_meta(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean",
                        sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    if weight.dtype in (torch.int64, torch.int32) and input.is_floating_point():
        input, weight = weight, input
    if input.dim() == 1 and offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if input.dim() == 2 and offsets is not None:
        raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
                         "length sequences.")
    bags = input.shape[0] if input.dim() == 2 else offsets.shape[0] - int(include_last_offset)
    return torch.empty((bags, weight.shape[1]), dtype=weight.dtype, device="meta")


@function(torch.nn.functional.embedding_bag, meta=_embedding_bag_meta)
def embedding_bag(g, node, input, weight, offsets=None, max_norm=None, norm_type: float = 2,
                  scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights=None,
                  include_last_offset: bool = False, padding_idx: Optional[int] = None):
    if weight.type in ("int32", "int64"):
        input, weight = weight, input
    if max_norm is not None:
        weight = renormed(g, node, weight, input, max_norm, norm_type)
    padding = None if padding_idx is None else padding_idx % weight.shape[0]
    rows = embedding(g, node, weight, input, -1 if padding is None else padding, scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = g.op.mul(rows, added(g, g.cast(per_sample_weights, rows.type), input.rank))
    counts = g.broadcast(g.const(1, rows.type), input.shape)
    if padding is not None:
        counts = g.cast(g.op.not_equal(input, padding), rows.type)
        rows = _masked(g, rows, counts, float("-inf") if mode == "max" else 0)
    if input.rank == 2:
        return _equal_bags(g, rows, counts, mode)
    n = offsets.shape[0] - int(include_last_offset)
    return _bags(g, rows, counts, _bag_of(g, offsets, n, input.shape[0]), n, mode)


def _masked(g, rows, counts, value: float):
    """Rows that count; `value` in the place of the others."""
    return g.op.where(g.op.greater(added(g, counts, counts.rank), 0), rows, g.const(value, rows.type))


def _mean(g, sums, counts):
    return g.op.div(sums, g.op.maximum(added(g, counts, counts.rank), 1))


def _or_zero(g, largest, counts):
    """Bags of nothing are 0."""
    return _masked(g, largest, counts, 0)


def _equal_bags(g, rows, counts, mode: str):
    inside = g.op.reduce_sum(counts, axes=[1])
    if mode == "max":
        return _or_zero(g, g.op.reduce_max(rows, axes=[1]), inside)
    sums = g.op.reduce_sum(rows, axes=[1])
    return sums if mode == "sum" else _mean(g, sums, inside)


def _bag_of(g, offsets, n: int, length: int):
    """For each of `length` indices the number of its bag: how many bags have begun, less one."""
    begins = g.op.slice(as_index(g, offsets), begin=[0], end=[n])
    marks = g.emit("bincount", [begins], size=length + 1)
    begun = g.op.cumsum(g.op.slice(marks, begin=[0], end=[length]), axis=0)
    return g.op.sub(begun, 1)


def _bags(g, rows, counts, bag, n: int, mode: str):
    shape = (n, rows.shape[1])
    inside = g.op.scatter_elements(g.broadcast(g.const(0, rows.type), (n, )), bag, counts, axis=0, reduction="add")
    if mode == "max":
        lowest = g.broadcast(g.const(float("-inf"), rows.type), shape)
        largest = g.op.scatter_reduce(lowest, bag, rows, reduction="max")
        return _or_zero(g, largest, inside)
    zeros = g.broadcast(g.const(0, rows.type), shape)
    sums = g.op.scatter_nd(zeros, added(g, bag, 1), rows, reduction="add")
    return sums if mode == "sum" else _mean(g, sums, inside)


# ---- one-hot ----


def _one_hot_meta(x, num_classes=-1):
    if num_classes < 1:
        raise Error("OneHot num classes must be specified and must be constant. "
                    f"Give num_classes a positive number, found {num_classes}.")
    return torch.empty(tuple(x.shape) + (num_classes, ), dtype=torch.int64, device="meta")


@function(torch.nn.functional.one_hot, meta=_one_hot_meta)
def one_hot(g, node, x, num_classes: int = -1):
    return g.op.one_hot(as_index(g, x), depth=num_classes, type="int32")
