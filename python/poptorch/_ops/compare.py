"""Comparisons, logic, and choosing by them."""

from __future__ import annotations

import torch

from openipu.network import Value

from .cast import is_floating, promoted
from .registry import op

# ---- the larger and the smaller ----


def _extreme(g, name: str, x: Value, y: Value) -> Value:
    if x.type == "bool":
        return g.op.logical_or(x, y) if name == "maximum" else g.op.logical_and(x, y)
    return g.emit(name, [x, y])


def _register_extreme_of_numbers(name: str, emitted: str, comparison: str) -> None:

    @op(f"aten::{name}")
    def extreme(g, node, self, other):
        x, y = promoted(g, self, other)
        if not is_floating(x):
            return _extreme(g, emitted, x, y)
        return g.op.where(g.op.logical_or(g.emit(comparison, [x, y]), g.op.isnan(y)), x, y)


_register_extreme_of_numbers("fmax", "maximum", "greater_equal")
_register_extreme_of_numbers("fmin", "minimum", "less_equal")

# ---- choosing ----


@op("aten::where.self", "aten::where.Scalar", "aten::where.ScalarSelf", "aten::where.ScalarOther")
def where(g, node, condition, self, other):
    x, y = promoted(g, self, other)
    return g.op.where(g.cast(condition, torch.bool), x, y)
