"""Special functions, by expansions in elementwise ops; their gradients are those of the expansions.

Half is computed in float.
"""

from __future__ import annotations

import math
from typing import Callable, Sequence, Tuple

import torch

from openipu.network import Value

from .._errors import createPoptorchError
from .cast import as_result, promoted, wide
from .registry import op


def polynomial(g, x: Value, coefficients: Sequence[float]) -> Value:
    """Of the coefficients, that of the highest power first."""
    y = g.op.add(g.op.mul(x, coefficients[0]), coefficients[1])
    for c in coefficients[2:]:
        y = g.op.add(g.op.mul(y, x), c)
    return y


def _number(g, x: Value, number: float) -> Value:
    return g.const(number, x.type)


# ---- the error function ----

# Two polynomials in w = -log(1 - x^2) by M. Giles (Approximating the erfinv function, 2010).
_ERFINV_MIDDLE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
                  -0.00417768164, 0.246640727, 1.50140941)
_ERFINV_TAILS = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
                 0.00943887047, 1.00167406, 2.83297682)


def inverse_erf(g, x: Value) -> Value:
    """The number whose error function is x."""
    at_end = g.op.equal(g.op.abs(x), 1)
    inner = g.op.where(at_end, _number(g, x, 0), x)
    w = g.op.neg(g.op.log(g.op.mul(g.op.sub(1.0, inner), g.op.add(inner, 1))))
    is_middle = g.op.less(w, 5)
    middle = polynomial(g, g.op.sub(w, 2.5), _ERFINV_MIDDLE)
    tail_w = g.op.where(is_middle, _number(g, x, 5), w)
    tails = polynomial(g, g.op.sub(g.op.sqrt(tail_w), 3.0), _ERFINV_TAILS)
    y = g.op.mul(g.op.where(is_middle, middle, tails), inner)
    end = g.op.where(g.op.greater(x, 0), _number(g, x, math.inf), _number(g, x, -math.inf))
    return g.op.where(at_end, end, y)


@op("aten::erfinv")
def erfinv(g, node, self):
    return inverse_erf(g, wide(g, as_result(g, node, self)))


@op("aten::special_ndtri")
def ndtri(g, node, self):
    x = g.op.sub(g.op.mul(wide(g, as_result(g, node, self)), 2), 1)
    return g.op.mul(inverse_erf(g, x), math.sqrt(2))


_FAR = 4.0  # above it the asymptotic series of erfcx is exact enough


def scaled_erfc(g, x: Value) -> Value:
    """exp(x^2) erfc(x)."""
    is_far = g.op.greater(x, _FAR)
    near = g.op.where(is_far, _number(g, x, 0), x)
    by_erfc = g.op.mul(g.op.exp(g.op.square(near)), g.op.erfc(near))
    r = g.op.reciprocal(g.op.where(is_far, x, _number(g, x, _FAR)))
    series = polynomial(g, g.op.square(r), (-945 / 32, 105 / 16, -15 / 8, 3 / 4, -1 / 2, 1))
    return g.op.where(is_far, g.op.mul(g.op.mul(r, series), 1 / math.sqrt(math.pi)), by_erfc)


@op("aten::special_erfcx")
def erfcx(g, node, self):
    return scaled_erfc(g, wide(g, as_result(g, node, self)))


@op("aten::special_log_ndtr")
def log_ndtr(g, node, self):
    x = wide(g, as_result(g, node, self))
    is_left = g.op.less(x, -1)
    t = g.op.mul(x, math.sqrt(0.5))
    left = g.op.where(is_left, t, _number(g, x, -1))
    by_scaled = g.op.sub(g.op.log(g.op.mul(scaled_erfc(g, g.op.neg(left)), 0.5)), g.op.square(left))
    right = g.op.where(is_left, _number(g, x, 0), t)
    return g.op.where(is_left, by_scaled, g.op.log1p(g.op.mul(g.op.erfc(right), -0.5)))


# ---- the gamma function ----

_SHIFT = 8  # Stirling's series is exact enough above it


def _shifted(g, x: Value) -> Tuple[Value, Value, Value]:
    """Whether x is below the shift, x where it is and 1 elsewhere, and x moved above it."""
    is_low = g.op.less(x, _SHIFT)
    return is_low, g.op.where(is_low, x, _number(g, x, 1)), g.op.where(is_low, g.op.add(x, _SHIFT), x)


def _reflected(g, x: Value) -> Tuple[Value, Value]:
    """Whether x is below 1/2, and x or 1 - x, which is not."""
    is_left = g.op.less(x, 0.5)
    return is_left, g.op.where(is_left, g.op.sub(1.0, x), x)


def _from_whole(g, x: Value, is_left: Value, otherwise: float) -> Value:
    """How far x is from the nearest whole number, times pi; of what is not to the left a number that does no harm."""
    inner = g.op.where(is_left, x, _number(g, x, otherwise))
    return g.op.mul(g.op.sub(inner, g.op.round(inner)), math.pi)


def _log_gamma_right(g, x: Value) -> Value:
    is_low, low, z = _shifted(g, x)
    product = low
    for k in range(1, _SHIFT):
        product = g.op.mul(product, g.op.add(low, k))
    r = g.op.reciprocal(z)
    series = g.op.mul(r, polynomial(g, g.op.square(r), (1 / 1260, -1 / 360, 1 / 12)))
    y = g.op.sub(g.op.mul(g.op.sub(z, 0.5), g.op.log(z)), z)
    y = g.op.add(g.op.add(y, series), 0.5 * math.log(2 * math.pi))
    return g.op.sub(y, g.op.where(is_low, g.op.log(product), _number(g, x, 0)))


def log_gamma(g, x: Value) -> Value:
    """The logarithm of |gamma(x)|."""
    is_left, right = _reflected(g, x)
    y = _log_gamma_right(g, right)
    size = g.op.abs(g.op.sin(_from_whole(g, x, is_left, 0.5)))
    return g.op.where(is_left, g.op.sub(g.op.sub(math.log(math.pi), g.op.log(size)), y), y)


@op("aten::lgamma")
def lgamma(g, node, self):
    return log_gamma(g, wide(g, as_result(g, node, self)))


@op("aten::mvlgamma")
def mvlgamma(g, node, self, p):
    x = wide(g, as_result(g, node, self))
    y = log_gamma(g, x)
    for k in range(1, p):
        y = g.op.add(y, log_gamma(g, g.op.sub(x, k / 2)))
    return g.op.add(y, p * (p - 1) / 4 * math.log(math.pi))


def _summed_below(g, low: Value, is_low: Value, term: Callable[[Value], Value]) -> Value:
    """term(x) + term(x + 1) + ... up to the shift, 0 where x is not below it."""
    total = term(low)
    for k in range(1, _SHIFT):
        total = g.op.add(total, term(g.op.add(low, k)))
    return g.op.where(is_low, total, _number(g, low, 0))


def slope_of_log_gamma(g, x: Value) -> Value:
    """digamma: infinite at 0, not a number at whole numbers below."""
    is_left, right = _reflected(g, x)
    is_low, low, z = _shifted(g, right)
    r = g.op.reciprocal(z)
    r2 = g.op.square(r)
    series = g.op.add(g.op.mul(r2, polynomial(g, r2, (1 / 252, -1 / 120, 1 / 12))), g.op.mul(r, 0.5))
    y = g.op.sub(g.op.sub(g.op.log(z), series), _summed_below(g, low, is_low, g.op.reciprocal))
    angle = _from_whole(g, x, is_left, 0.25)
    y = g.op.where(is_left, g.op.sub(y, g.op.div(math.pi, g.op.tan(angle))), y)
    is_pole = g.op.logical_and(g.op.less(x, 0), g.op.equal(g.op.round(x), x))
    return g.op.where(is_pole, _number(g, x, math.nan), y)


@op("aten::digamma", "aten::special_digamma")
def digamma(g, node, self):
    return slope_of_log_gamma(g, wide(g, as_result(g, node, self)))


@op("aten::polygamma", "aten::special_polygamma")
def polygamma(g, node, n, self):
    if isinstance(n, Value):  # the method and the one in place take the tensor first
        n, self = self, n
    if n > 1:
        raise createPoptorchError(f"torch.polygamma: order {n} is not supported on the IPU, only 0 and 1")
    x = wide(g, as_result(g, node, self))
    if n == 0:
        return slope_of_log_gamma(g, x)
    is_left, right = _reflected(g, x)
    is_low, low, z = _shifted(g, right)
    r = g.op.reciprocal(z)
    r2 = g.op.square(r)
    series = g.op.mul(r, polynomial(g, r2, (1 / 42, -1 / 30, 1 / 6, 1)))
    series = g.op.add(series, g.op.mul(r2, 0.5))
    y = g.op.add(series, _summed_below(g, low, is_low, lambda v: g.op.square(g.op.reciprocal(v))))
    sine = g.op.sin(_from_whole(g, x, is_left, 0.5))
    return g.op.where(is_left, g.op.sub(g.op.square(g.op.div(math.pi, sine)), y), y)


# ---- modified Bessel functions of the first kind ----

# Polynomials of Abramowitz and Stegun 9.8.1 to 9.8.4: in (x / 3.75)^2 near 0, in 3.75 / x beyond.
_I0_NEAR = (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0)
_I0_FAR = (0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319, 0.01328592,
           0.39894228)
_I1_NEAR = (0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5)
_I1_FAR = (-0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555, 0.00163801, -0.00362018, -0.03988024,
           0.39894228)


def _bessel(g, node, x: Value, near: Sequence[float], far: Sequence[float], order: int, scaled: bool) -> Value:
    x = wide(g, as_result(g, node, x))
    size = g.op.abs(x)
    is_near = g.op.less(size, 3.75)
    inner = g.op.where(is_near, size, _number(g, x, 0))
    outer = g.op.where(is_near, _number(g, x, 3.75), size)
    close = polynomial(g, g.op.square(g.op.mul(inner, 1 / 3.75)), near)
    beyond = g.op.mul(polynomial(g, g.op.div(3.75, outer), far), g.op.rsqrt(outer))
    if scaled:
        close = g.op.mul(close, g.op.exp(g.op.neg(inner)))
    else:
        beyond = g.op.mul(beyond, g.op.exp(outer))
    if order == 1:
        close = g.op.mul(close, inner)
    y = g.op.where(is_near, close, beyond)
    return g.op.mul(y, g.op.sign(x)) if order == 1 else y


@op("aten::i0", "aten::special_i0")
def i0(g, node, self):
    return _bessel(g, node, self, _I0_NEAR, _I0_FAR, 0, False)


@op("aten::special_i0e")
def i0e(g, node, self):
    return _bessel(g, node, self, _I0_NEAR, _I0_FAR, 0, True)


@op("aten::special_i1")
def i1(g, node, self):
    return _bessel(g, node, self, _I1_NEAR, _I1_FAR, 1, False)


@op("aten::special_i1e")
def i1e(g, node, self):
    return _bessel(g, node, self, _I1_NEAR, _I1_FAR, 1, True)


# ---- common divisors ----

_EUCLID_STEPS = {"int8": 12, "uint8": 13, "int16": 24}  # no two numbers need more; 32 bits: 47


def _common_divisor(g, x: Value, y: Value) -> Value:
    shape = tuple(torch.broadcast_shapes(x.shape, y.shape))
    x, y = g.broadcast(g.op.abs(x), shape), g.broadcast(g.op.abs(y), shape)
    for _ in range(_EUCLID_STEPS.get(x.type, 47)):
        is_found = g.op.equal(y, 0)
        x, y = g.op.where(is_found, x, y), g.op.where(is_found, y, g.op.mod(x, y))
    return x


@op("aten::gcd")
def gcd(g, node, self, other):
    return _common_divisor(g, *promoted(g, self, other))


@op("aten::lcm")
def lcm(g, node, self, other):
    x, y = promoted(g, self, other)
    divisor = _common_divisor(g, x, y)
    safe = g.op.maximum(divisor, 1)
    return g.op.abs(g.op.mul(g.op.div(x, safe), y))
