"""Pointwise arithmetic and functions."""

from __future__ import annotations

import math

import torch

from openipu.network import Value

from .cast import as_result, as_value, is_floating, promoted, promoted_floating, result_dtype, wide
from .registry import function, op

# ---- functions of one operand ----


@op("aten::round")
def round_(g, node, self, *, decimals=0):
    if not is_floating(self):
        return self
    if decimals == 0:
        return g.op.round(self)
    scale = 10.0**abs(decimals)
    if decimals > 0:
        return g.op.div(g.op.round(g.op.mul(self, scale)), scale)
    return g.op.mul(g.op.round(g.op.div(self, scale)), scale)


@op("aten::frac")
def frac(g, node, self):
    return g.op.sub(self, g.op.trunc(self))


@op("aten::angle")
def angle(g, node, self):
    x = as_result(g, node, self)
    of_sign = g.op.where(g.op.less(x, 0), g.const(math.pi, node.outputs[0].dtype), g.const(0, node.outputs[0].dtype))
    return g.op.where(g.op.isnan(x), x, of_sign)


@op("aten::sinc")
def sinc(g, node, self):
    x = wide(g, as_result(g, node, self))
    at_zero = g.op.equal(x, 0)
    one = g.const(1, x.type)
    angles = g.op.mul(g.op.where(at_zero, one, x), math.pi)
    return g.op.where(at_zero, one, g.op.div(g.op.sin(angles), angles))


@op("aten::logit")
def logit(g, node, self, eps=None):
    x = wide(g, as_result(g, node, self))
    if eps is not None:
        x = g.op.clip(x, min=eps, max=1 - eps)
    return g.op.log(g.op.div(x, g.op.sub(1.0, x)))


@op("aten::signbit")
def signbit(g, node, self):
    if self.type in ("bool", "uint8"):
        return g.broadcast(g.const(False, torch.bool), self.shape)
    below = g.op.less(self, 0)
    if not is_floating(self):
        return below
    minus_zero = g.op.logical_and(g.op.equal(self, 0), g.op.less(g.op.reciprocal(self), 0))
    return g.op.logical_or(below, minus_zero)


@op("aten::nan_to_num")
def nan_to_num(g, node, self, nan=None, posinf=None, neginf=None):
    if not is_floating(self):
        return self
    limits = torch.finfo(torch.float16 if self.type == "half" else torch.float32)
    dtype = node.outputs[0].dtype

    def const(value, otherwise):
        return g.const(otherwise if value is None else value, dtype)

    y = g.op.where(g.op.isnan(self), const(nan, 0.0), self)
    y = g.op.where(g.op.equal(self, math.inf), const(posinf, limits.max), y)
    return g.op.where(g.op.equal(self, -math.inf), const(neginf, limits.min), y)


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


@op("aten::hypot")
def hypot(g, node, self, other):
    x, y = [wide(g, v) for v in promoted_floating(g, self, other)]
    return g.op.sqrt(g.op.add(g.op.square(x), g.op.square(y)))


@op("aten::copysign")
def copysign(g, node, self, other):
    x, y = promoted_floating(g, self, other)
    size = g.op.abs(x)
    return g.op.where(signbit(g, node, y), g.op.neg(size), size)


@op("aten::heaviside")
def heaviside(g, node, self, values):
    x, y = promoted(g, self, values)
    return g.op.where(g.op.equal(x, 0), y, g.cast(g.op.greater(x, 0), x.type))


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
    """Elements at a bound are still self's, and so is their gradient."""
    y = as_result(g, node, self)
    if low is not None:
        low = as_result(g, node, low)
        y = g.op.where(g.op.less(y, low), low, y)
    if high is not None:
        high = as_result(g, node, high)
        y = g.op.where(g.op.greater(y, high), high, y)
    return y


# ---- logarithms of sums, and products with logarithms ----


def log_add_exp(g, x: Value, y: Value) -> Value:
    """log(exp(x) + exp(y)) without overflow; of equal infinities the infinity."""
    x, y = wide(g, x), wide(g, y)
    apart = g.op.where(g.op.equal(x, y), g.const(0, x.type), g.op.sub(x, y))
    return g.op.add(g.op.maximum(x, y), g.op.log1p(g.op.exp(g.op.neg(g.op.abs(apart)))))


@op("aten::logaddexp")
def logaddexp(g, node, self, other):
    return log_add_exp(g, *promoted_floating(g, self, other))


@op("aten::logaddexp2")
def logaddexp2(g, node, self, other):
    x, y = promoted_floating(g, self, other)
    ln2 = math.log(2)
    return g.op.div(log_add_exp(g, g.op.mul(x, ln2), g.op.mul(y, ln2)), ln2)


def _product_with_log(g, x: Value, y: Value, log: str, least: float) -> Value:
    """x log(y), 0 where x is 0 and the logarithm is not a number that can be multiplied by."""
    no_log = g.op.logical_or(g.op.less_equal(y, least), g.op.equal(y, math.inf))
    skipped = g.op.logical_and(g.op.equal(x, 0), no_log)
    return g.op.mul(x, g.emit(log, [g.op.where(skipped, g.const(1, y.type), y)]))


@op("aten::xlogy", "aten::special_xlogy")
def xlogy(g, node, self, other):
    x, y = promoted_floating(g, self, other)
    return _product_with_log(g, x, y, "log", 0)


@op("aten::special_xlog1py")
def xlog1py(g, node, self, other):
    x, y = promoted_floating(g, self, other)
    return _product_with_log(g, x, y, "log1p", -1)


@op("aten::special_entr")
def entr(g, node, self):
    x = as_result(g, node, self)
    y = g.op.neg(_product_with_log(g, x, x, "log", 0))
    return g.op.where(g.op.less(x, 0), g.const(-math.inf, x.type), y)
