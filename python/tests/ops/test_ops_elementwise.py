"""Pointwise arithmetic and functions against torch."""

import math

import pytest
import torch

from support import check

ANY = ["abs", "neg", "square", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "erf", "erfc", "exp",
       "exp2", "expm1", "sigmoid", "sign", "floor", "ceil", "round", "trunc", "frac", "sinc", "deg2rad", "rad2deg",
       "sgn", "positive", "angle"]
ABOVE_ZERO = ["sqrt", "rsqrt", "reciprocal", "log", "log2", "log10", "log1p", "lgamma", "digamma"]
WITHIN_ONE = ["asin", "acos", "atanh", "erfinv"]


@pytest.mark.parametrize("name", ANY)
def test_any_number(name):
    check(getattr(torch, name), torch.randn(3, 5))


@pytest.mark.parametrize("name", ABOVE_ZERO)
def test_above_zero(name):
    check(getattr(torch, name), torch.rand(3, 5) * 4 + 0.1, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", WITHIN_ONE)
def test_within_one(name):
    check(getattr(torch, name), torch.rand(3, 5) * 1.8 - 0.9, rtol=1e-4, atol=1e-5)


def test_acosh():
    check(torch.acosh, torch.rand(3, 5) + 1.2)


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma_functions_left_of_zero_and_far_out(name):
    x = torch.tensor([-2.5, -0.3, 0.01, 0.4, 1.0, 2.0, 7.9, 8.1, 50.0, 1e5])
    check(getattr(torch, name), x, train=False, rtol=1e-4, atol=1e-5)


def test_erfinv_at_the_ends():
    check(torch.erfinv, torch.tensor([-1.0, -0.99999, 0.0, 0.9999, 1.0, 2.0]), train=False, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["sqrt", "exp", "sin", "sigmoid", "log1p", "reciprocal", "tanh", "erf"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int8, torch.bool])
def test_integers_become_floats(name, dtype):
    check(getattr(torch, name), torch.tensor([1, 0, 1, 1]).to(dtype), train=False)


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc", "abs", "neg", "sign", "square"])
def test_integers_stay(name):
    check(getattr(torch, name), torch.tensor([-3, 0, 5]), train=False)


@pytest.mark.parametrize("decimals", [2, -1])
def test_round_to_decimals(decimals):
    check(lambda x: torch.round(x, decimals=decimals), torch.tensor([3.14159, -27.5, 12.345]), train=False)


OPERANDS = [(torch.add, 0), (torch.sub, 0), (torch.mul, 0), (torch.div, 1), (torch.fmod, 1), (torch.remainder, 1),
            (torch.floor_divide, 1), (torch.atan2, 1), (torch.hypot, 1), (torch.maximum, 0), (torch.minimum, 0),
            (torch.fmax, 0), (torch.fmin, 0), (torch.logaddexp, 0), (torch.logaddexp2, 0), (torch.copysign, 0)]


@pytest.mark.parametrize("fn,away", OPERANDS, ids=lambda v: getattr(v, "__name__", ""))
def test_two_operands(fn, away):
    x, y = torch.randn(3, 1, 5), torch.rand(4, 5) + away
    trains = fn is not torch.floor_divide  # torch has no gradient of it
    check(lambda x: fn(x, y), x, train=trains)
    check(fn, x, y, train=trains)


@pytest.mark.parametrize("fn", [torch.add, torch.sub, torch.mul, torch.div, torch.floor_divide, torch.remainder])
@pytest.mark.parametrize("types", [(torch.int32, torch.int32), (torch.int64, torch.float32),
                                   (torch.float16, torch.float32), (torch.int8, torch.int32)], ids=str)
def test_types_of_operands_meet(fn, types):
    x = torch.tensor([7, -7, 9, 4]).to(types[0])
    y = torch.tensor([2, 2, -4, 3]).to(types[1])
    check(fn, x, y, train=False)


@pytest.mark.parametrize("number", [2, 2.5, True])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.float32, torch.bool])
def test_numbers_as_operands(number, dtype):
    x = torch.tensor([0, 1, 3]).to(dtype)
    check(lambda x: x + number, x, train=False)
    check(lambda x: number * x, x, train=False)
    check(lambda x: x / 4, x, train=False)
    if dtype != torch.bool:
        check(lambda x: 7 - x, x, train=False)
        check(lambda x: x % 2, x, train=False)
        check(lambda x: x // 2, x, train=False)


def test_scalar_tensors_weigh_less():
    x = torch.ones(3, dtype=torch.float16)
    check(lambda x: x * torch.tensor(2.5), x, train=False)
    check(lambda x: x.int() * torch.tensor(2.5), x, train=False)


def test_alpha():
    x, y = torch.randn(4), torch.randn(4)
    check(lambda x: torch.add(x, y, alpha=2.5), x)
    check(lambda x: torch.sub(x, y, alpha=3), x)
    check(lambda x: torch.rsub(x, y, alpha=0.5), x)


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_division_modes(mode):
    x = torch.tensor([7.5, -7.5, 3.0, -9.0])
    check(lambda x: torch.div(x, 2, rounding_mode=mode), x, train=mode is None)
    check(lambda x: torch.div(x, 2, rounding_mode=mode), x.int(), train=False)


@pytest.mark.parametrize("exponent", [-2, -1, -0.5, 0, 0.5, 1, 2, 2.5, 3, 4, 5.0])
def test_powers(exponent):
    check(lambda x: torch.pow(x, exponent), torch.rand(6) + 0.5)
    check(lambda x: x**exponent, torch.tensor([1, 2, 3]), train=False) if exponent >= 0 else None


def test_power_of_values():
    check(torch.pow, torch.rand(5) + 0.5, torch.randn(5))
    check(lambda x: 2**x, torch.randn(5))


@pytest.mark.parametrize("bounds", [dict(min=-0.5, max=0.5), dict(min=0.1), dict(max=0.2), dict(min=0.8, max=0.2)])
def test_clamp(bounds):
    check(lambda x: x.clamp(**bounds), torch.randn(20))


def test_clamp_by_tensors():
    x, low, high = torch.randn(3, 8), torch.full((8, ), -0.4), torch.full((3, 1), 0.5)
    check(lambda x: torch.clamp(x, low, high), x)
    check(lambda x: torch.clamp_min(x, low), x)
    check(lambda x: torch.clamp_max(x, high), x)


def test_clamp_of_integers():
    x = torch.arange(-9, 9)
    check(lambda x: x.clamp(-5, 3), x, train=False)
    check(lambda x: x.clamp(-4.5, 5.5), x, train=False)


@pytest.mark.parametrize("value", [1, 0.5, -3.0])
def test_three_operands(value):
    x, a, b = torch.randn(5, 1), torch.randn(1, 3), torch.rand(5, 3) + 0.5
    check(lambda x, a, b: torch.addcmul(x, a, b, value=value), x, a, b)
    check(lambda x, a, b: torch.addcdiv(x, a, b, value=value), x, a, b)
    check(lambda x, a: torch.lerp(x, a, 0.3), x, a)
    check(lambda x, a, b: torch.lerp(x, a, b), x, a, b)


def test_xlogy():
    x, y = torch.tensor([0.0, 0.0, 2.0, 1.5]), torch.tensor([0.0, 3.0, 0.5, 4.0])
    check(torch.xlogy, x, y, train=False)
    check(torch.xlogy, x[1:], y[1:])
    check(torch.special.xlog1py, x, y)
    check(torch.special.entr, torch.tensor([-1.0, 0.0, 0.5]), train=False)


def test_nan_to_num():
    x = torch.tensor([1.0, math.nan, math.inf, -math.inf])
    check(torch.nan_to_num, x, train=False)
    check(lambda x: torch.nan_to_num(x, nan=2.0, posinf=7.0, neginf=-7.0), x, train=False)


def test_logit():
    check(lambda x: torch.logit(x, eps=0.05), torch.rand(20))
    check(torch.logit, torch.rand(20) * 0.8 + 0.1)


def test_heaviside_and_signbit():
    x = torch.tensor([-1.0, -0.0, 0.0, 2.0])
    check(lambda x: torch.heaviside(x, torch.tensor([0.25])), x, train=False)
    check(torch.signbit, x, train=False)


@pytest.mark.parametrize("fn", [torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int16, torch.uint8, torch.bool])
def test_bits(fn, dtype):
    x, y = torch.tensor([4, 7, 0, 1]).to(dtype), torch.tensor([2, 3, 1, 1]).to(dtype)
    check(fn, x, y, train=False)


def test_bits_with_numbers():
    x = torch.tensor([4, 7, -5, 1])
    check(lambda x: x & 6, x, train=False)
    check(lambda x: x | 8, x, train=False)
    check(lambda x: ~x ^ 3, x, train=False)
    check(lambda x: x << 2, x, train=False)
    check(lambda x: x >> 1, x, train=False)


def test_bools_add_and_multiply():
    x, y = torch.tensor([False, True, False, True]), torch.tensor([False, False, True, True])
    check(lambda x, y: (x + y, x * y, ~x), x, y, train=False)


def test_in_place():
    x = torch.rand(6) + 0.5
    check(lambda x: (x + 0).add_(2).mul_(x).clamp_(max=1.5).sqrt_(), x)


@pytest.mark.parametrize("name", ["exp", "tanh", "sqrt", "abs", "sigmoid"])
def test_half(name):
    x = torch.rand(4, 8) + 0.1
    check(getattr(torch, name), x.half(), train=False)
