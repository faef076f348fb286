"""Running sums, products and extremes."""

from __future__ import annotations

from typing import Callable, Tuple

import torch

from openipu.network import Value

from .cast import is_floating, wide
from .registry import op


def _axis(x: Value, dim: int) -> int:
    return dim % x.rank


def _part(g, x: Value, axis: int, begin: int, end: int) -> Value:
    return g.op.slice(x, axes=[axis], begin=[begin], end=[end])


def _doubling(g, state: Tuple[Value, ...], axis: int, join: Callable) -> Tuple[Value, ...]:
    """An inclusive scan in log2(n) steps: element i joins element i - reach, for reaches 1, 2, 4, ..."""
    n = state[0].shape[axis]
    reach = 1
    while reach < n:
        before = tuple(_part(g, s, axis, 0, n - reach) for s in state)
        after = tuple(_part(g, s, axis, reach, n) for s in state)
        joined = join(before, after)
        state = tuple(g.op.concat(_part(g, s, axis, 0, reach), j, axis=axis) for s, j in zip(state, joined))
        reach *= 2
    return state


@op("aten::logcumsumexp", "aten::_logcumsumexp")
def logcumsumexp(g, node, self, dim):
    if self.rank == 0:
        return self
    return _doubling(g, (wide(g, self), ), _axis(self, dim), lambda a, b: (g.op.logaddexp(a[0], b[0]), ))[0]


def _running(g, x: Value, dim: int, stays: str) -> Tuple[Value, Value]:
    """Running extremes and where they are; of equal ones the last. `stays`: when the one before is kept."""
    if x.rank == 0:
        return x, g.const(0, torch.int32)
    axis = _axis(x, dim)
    compared = g.cast(x, torch.uint8) if x.type == "bool" else x
    shape = [1] * x.rank
    shape[axis] = x.shape[axis]
    places = g.broadcast(g.const(torch.arange(x.shape[axis]), torch.int32, shape), x.shape)

    def join(before, after):
        keep = g.emit(stays, [before[0], after[0]])
        if is_floating(x):  # a NaN stays until the next one
            keep = g.op.logical_or(keep, g.op.isnan(before[0]))
            keep = g.op.logical_and(keep, g.op.logical_not(g.op.isnan(after[0])))
        return g.op.where(keep, before[0], after[0]), g.op.where(keep, before[1], after[1])

    _, indices = _doubling(g, (g.op.stop_gradient(compared), places), axis, join)
    return g.op.gather_elements(compared, indices, axis=axis), indices


@op("aten::cummax")
def cummax(g, node, self, dim):
    return _running(g, self, dim, "greater")


@op("aten::cummin")
def cummin(g, node, self, dim):
    return _running(g, self, dim, "less")
