"""Pointwise arithmetic and functions."""

from __future__ import annotations

import torch

from openipu.network import Value

from .cast import as_result, as_value, is_floating, promoted, promoted_floating, result_dtype
from .registry import function, op

# ---- functions of one operand ----


@op("aten::polygamma", "aten::special_polygamma")
def polygamma(g, node, n, self):
    if isinstance(n, Value):  # the method and the one in place take the tensor first
        n, self = self, n
    return g.emit("polygamma", [as_result(g, node, self)], order=n)


# ---- arithmetic of two operands ----


def _scaled(g, x: Value, alpha) -> Value:
    return x if alpha == 1 else g.op.mul(x, alpha)


@op("aten::add")
def add(g, node, self, other, alpha=1):
    x, y = promoted(g, self, other)
    if x.type == "bool":
        return g.op.logical_or(x, y) if alpha else x
    return g.op.add(x, _scaled(g, y, alpha))


@op("aten::sub", "aten::subtract")
def sub(g, node, self, other, alpha=1):
    x, y = promoted(g, self, other)
    return g.op.sub(x, _scaled(g, y, alpha))


@op("aten::rsub")
def rsub(g, node, self, other, alpha=1):
    return sub(g, node, other, self, alpha=alpha)


@op("aten::div", "aten::divide", "aten::true_divide")
def div(g, node, self, other, rounding_mode=None):
    if rounding_mode == "floor":
        return g.op.floor_div(*promoted(g, self, other))
    if rounding_mode == "trunc":
        x, y = promoted(g, self, other)
        quotient = g.op.div(x, y)
        return g.op.trunc(quotient) if is_floating(x) else quotient
    x, y = promoted_floating(g, self, other)
    return g.op.div(x, y)


# ---- powers ----

_SIMPLE_POWERS = {0.5: "sqrt", 2: "square", -1: "reciprocal", -0.5: "rsqrt"}


def _power_by_number(g, x: Value, exponent) -> Value:
    """Powers that cost less than the general one. Integers are raised to whole exponents only."""
    if exponent == 1:
        return x
    name = _SIMPLE_POWERS.get(exponent)
    if name and (is_floating(x) or name == "square"):
        return g.emit(name, [x])
    if exponent in (3, 4):
        squared = g.op.square(x)
        return g.op.mul(squared, x) if exponent == 3 else g.op.square(squared)
    return g.op.pow(x, exponent)


@op("aten::pow")
def pow_(g, node, self, exponent):
    if isinstance(exponent, Value):
        return g.op.pow(*promoted(g, self, exponent))
    x = as_value(g, self, result_dtype(self, exponent))
    return _power_by_number(g, x, exponent)


@function(torch.Tensor.__rpow__)
def rpow(g, node, self, other):
    return pow_(g, node, other, self)


# ---- three operands ----


def _weighted(g, value, product: Value) -> Value:
    if not is_floating(product):
        value = int(value)
    return product if value == 1 else g.op.mul(product, value)


@op("aten::addcmul")
def addcmul(g, node, self, tensor1, tensor2, value=1):
    x, a, b = promoted(g, self, tensor1, tensor2)
    return g.op.add(x, _weighted(g, value, g.op.mul(a, b)))


@op("aten::addcdiv")
def addcdiv(g, node, self, tensor1, tensor2, value=1):
    x, a, b = promoted_floating(g, self, tensor1, tensor2)
    return g.op.add(x, _weighted(g, value, g.op.div(a, b)))


# ---- bounds ----


@op("aten::clamp", "aten::clip")
def clamp(g, node, self, min=None, max=None):
    if isinstance(min, Value) or isinstance(max, Value):
        return _clamp_by_values(g, node, self, min, max)
    x = as_result(g, node, self)
    if min is not None and max is not None and min > max:
        min = max  # torch gives the upper bound everywhere
    return g.op.clip(x, min=min, max=max)


@op("aten::clamp_min")
def clamp_min(g, node, self, min):
    return clamp(g, node, self, min=min)


@op("aten::clamp_max")
def clamp_max(g, node, self, max):
    return clamp(g, node, self, max=max)


def _clamp_by_values(g, node, self, low, high) -> Value:
    return g.emit("clamp", [None if v is None else as_result(g, node, v) for v in (self, low, high)])
