"""Comparisons, logic, and choosing by them."""

from __future__ import annotations

import math

import torch

from openipu.network import Value

from .cast import as_value, is_floating, promoted
from .registry import op

_COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
                "ge": "greater_equal"}


def _register_comparison(name: str, emitted: str) -> None:

    @op(f"aten::{name}")
    def compare(g, node, self, other):
        return g.emit(emitted, promoted(g, self, other))


for _name, _emitted in _COMPARISONS.items():
    _register_comparison(_name, _emitted)


def _register_logical(name: str) -> None:

    @op(f"aten::{name}")
    def logical(g, node, self, other):
        return g.emit(name, [as_value(g, self, torch.bool), as_value(g, other, torch.bool)])


for _name in ("logical_and", "logical_or", "logical_xor"):
    _register_logical(_name)


@op("aten::logical_not")
def logical_not(g, node, self):
    return g.op.logical_not(g.cast(self, torch.bool))


# ---- what kind of number ----


def _all(g, self: Value, answer: bool) -> Value:
    return g.broadcast(g.const(answer, torch.bool), self.shape)


@op("aten::isnan")
def isnan(g, node, self):
    return g.op.isnan(self) if is_floating(self) else _all(g, self, False)


@op("aten::isinf")
def isinf(g, node, self):
    return g.op.isinf(self) if is_floating(self) else _all(g, self, False)


@op("aten::isfinite")
def isfinite(g, node, self):
    return g.op.isfinite(self) if is_floating(self) else _all(g, self, True)


@op("aten::isposinf")
def isposinf(g, node, self):
    return g.op.equal(self, math.inf) if is_floating(self) else _all(g, self, False)


@op("aten::isneginf")
def isneginf(g, node, self):
    return g.op.equal(self, -math.inf) if is_floating(self) else _all(g, self, False)


# ---- the larger and the smaller ----


def _extreme(g, name: str, x: Value, y: Value) -> Value:
    if x.type == "bool":
        return g.op.logical_or(x, y) if name == "maximum" else g.op.logical_and(x, y)
    return g.emit(name, [x, y])


def _register_extreme(name: str, names) -> None:

    @op(*names)
    def extreme(g, node, self, other):
        return _extreme(g, name, *promoted(g, self, other))


def _register_extreme_of_numbers(name: str, emitted: str, comparison: str) -> None:

    @op(f"aten::{name}")
    def extreme(g, node, self, other):
        x, y = promoted(g, self, other)
        if not is_floating(x):
            return _extreme(g, emitted, x, y)
        return g.op.where(g.op.logical_or(g.emit(comparison, [x, y]), g.op.isnan(y)), x, y)


_register_extreme("maximum", ("aten::maximum", "aten::max.other"))
_register_extreme("minimum", ("aten::minimum", "aten::min.other"))
_register_extreme_of_numbers("fmax", "maximum", "greater_equal")
_register_extreme_of_numbers("fmin", "minimum", "less_equal")

# ---- choosing ----


@op("aten::where.self", "aten::where.Scalar", "aten::where.ScalarSelf", "aten::where.ScalarOther")
def where(g, node, condition, self, other):
    x, y = promoted(g, self, other)
    return g.op.where(g.cast(condition, torch.bool), x, y)
