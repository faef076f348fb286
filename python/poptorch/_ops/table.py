"""Ops of torch that are an op of libipu each: a row tells which, what goes in, how attributes are called (openipu.optable)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from openipu.optable import FLOAT_PROMOTE, PROMOTE, RESULT, SAME, Table, axes, axis, row

from . import registry

#: Of floating point numbers; integers become such, as torch's meta run says.
_FLOATING = {f"aten::{name}": row(name, cast=RESULT)
             for name in ("sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos",
                          "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
                          "sigmoid", "square")}

_ELEMENTS = {
    "aten::floor": row("floor", of={"whole": SAME}),
    "aten::ceil": row("ceil", of={"whole": SAME}),
    "aten::trunc": row("trunc", of={"whole": SAME}),
    "aten::round": row("round_to", of={"whole": SAME}, decimals="decimals=0"),
    "aten::frac": row("frac"),
    "aten::neg": row("neg"),
    "aten::abs": row("abs", of={"bool": SAME, "uint8": SAME}),
    "aten::sign aten::sgn": row("sign", of={"bool": SAME}),
    "aten::signbit": row("signbit", of={"bool": False, "uint8": False}),
    "aten::angle": row("angle", cast=RESULT),
    "aten::nan_to_num": row("nan_to_num", of={"whole": SAME}, nan="nan=None", above="posinf=None", below="neginf=None"),
    "aten::mul aten::multiply": row("mul", "self other", cast=PROMOTE, of={"bool": "logical_and"}),
    "aten::floor_divide": row("floor_div", "self other", cast=PROMOTE),
    "aten::remainder": row("mod", "self other", cast=PROMOTE),
    "aten::fmod": row("fmod", "self other", cast=PROMOTE),
    "aten::atan2 aten::arctan2": row("atan2", "self other", cast=FLOAT_PROMOTE),
    "aten::hypot": row("hypot", "self other", cast=FLOAT_PROMOTE),
    "aten::copysign": row("copysign", "self other", cast=FLOAT_PROMOTE),
    "aten::heaviside": row("heaviside", "self values", cast=PROMOTE, of={"bool": "logical_or"}),
    "aten::deg2rad": row("mul", f"self {math.pi / 180}", cast=RESULT),
    "aten::rad2deg": row("mul", f"self {180 / math.pi}", cast=RESULT),
    "aten::lerp": row("lerp", "self end weight", cast=RESULT),
    "aten::bitwise_and aten::__and__": row("bitwise_and", "self other", cast=PROMOTE),
    "aten::bitwise_or aten::__or__": row("bitwise_or", "self other", cast=PROMOTE),
    "aten::bitwise_xor aten::__xor__": row("bitwise_xor", "self other", cast=PROMOTE),
    "aten::bitwise_left_shift aten::__lshift__": row("shift_left", "self other", cast=PROMOTE),
    "aten::bitwise_right_shift aten::__rshift__": row("shift_right", "self other", cast=PROMOTE),
    "aten::bitwise_not": row("bitwise_not", of={"bool": "logical_not"}),
    torch.Tensor.__invert__: row("bitwise_not", of={"bool": "logical_not"}),
}

_COMPARISONS = {
    "aten::eq": row("equal", "self other", cast=PROMOTE),
    "aten::ne": row("not_equal", "self other", cast=PROMOTE),
    "aten::lt": row("less", "self other", cast=PROMOTE),
    "aten::le": row("less_equal", "self other", cast=PROMOTE),
    "aten::gt": row("greater", "self other", cast=PROMOTE),
    "aten::ge": row("greater_equal", "self other", cast=PROMOTE),
    "aten::maximum aten::max.other": row("maximum", "self other", cast=PROMOTE, of={"bool": "logical_or"}),
    "aten::minimum aten::min.other": row("minimum", "self other", cast=PROMOTE, of={"bool": "logical_and"}),
    "aten::fmax": row("fmax", "self other", cast=PROMOTE, of={"bool": "logical_or"}),
    "aten::fmin": row("fmin", "self other", cast=PROMOTE, of={"bool": "logical_and"}),
    "aten::logical_and": row("logical_and", "self other", cast="bool"),
    "aten::logical_or": row("logical_or", "self other", cast="bool"),
    "aten::logical_xor": row("logical_xor", "self other", cast="bool"),
    "aten::logical_not": row("logical_not", cast="bool"),
    "aten::isnan": row("isnan", of={"whole": False}),
    "aten::isinf": row("isinf", of={"whole": False}),
    "aten::isposinf": row("equal", "self inf", of={"whole": False}),
    "aten::isneginf": row("equal", "self -inf", of={"whole": False}),
    "aten::isfinite": row("isfinite", of={"whole": True}),
}

_ACTIVATIONS = {
    "aten::relu": row("relu"),
    "aten::relu6": row("relu6"),
    "aten::selu": row("selu"),
    "aten::silu": row("silu"),
    "aten::mish": row("mish"),
    "aten::hardsigmoid": row("hardsigmoid"),
    "aten::hardswish": row("hardswish"),
    "aten::log_sigmoid aten::log_sigmoid_forward": row("log_sigmoid"),
    "aten::leaky_relu": row("leaky_relu", alpha="negative_slope=0.01"),
    "aten::elu": row("scaled_elu", alpha="alpha=1", scale="scale=1", input_scale="input_scale=1"),
    "aten::celu": row("celu", alpha="alpha=1.0"),
    "aten::softplus": row("softplus", beta="beta=1", threshold="threshold=20"),
    "aten::hardshrink": row("shrink", **{"lambda": "lambd=0.5"}),
    "aten::softshrink": row("shrink", bias="lambd=0.5", **{"lambda": "lambd=0.5"}),
    "aten::threshold": row("threshold", threshold="threshold", value="value"),
    "aten::glu": row("glu", axis=axis("dim=-1")),
    F.tanhshrink: row("tanhshrink", "input", cast=RESULT),
    F.softsign: row("softsign", "input", cast=RESULT),
}

#: Half is computed in float.
_SPECIAL = {
    "aten::erfinv": row("erfinv", cast=RESULT),
    "aten::special_ndtri": row("ndtri", cast=RESULT),
    "aten::special_erfcx": row("erfcx", cast=RESULT),
    "aten::special_log_ndtr": row("log_ndtr", cast=RESULT),
    "aten::sinc": row("sinc", cast=RESULT),
    "aten::logit": row("logit", cast=RESULT, eps="eps=None"),
    "aten::xlogy aten::special_xlogy": row("xlogy", "self other", cast=FLOAT_PROMOTE),
    "aten::special_xlog1py": row("xlog1py", "self other", cast=FLOAT_PROMOTE),
    "aten::special_entr": row("entr", cast=RESULT),
    "aten::logaddexp": row("logaddexp", "self other", cast=FLOAT_PROMOTE),
    "aten::logaddexp2": row("logaddexp2", "self other", cast=FLOAT_PROMOTE),
    "aten::lgamma": row("lgamma", cast=RESULT),
    "aten::mvlgamma": row("mvlgamma", cast=RESULT, p="p"),
    "aten::digamma aten::special_digamma": row("digamma", cast=RESULT),
    "aten::i0 aten::special_i0": row("i0", cast=RESULT),
    "aten::special_i0e": row("i0e", cast=RESULT),
    "aten::special_i1": row("i1", cast=RESULT),
    "aten::special_i1e": row("i1e", cast=RESULT),
    "aten::gcd": row("gcd", "self other", cast=PROMOTE),
    "aten::lcm": row("lcm", "self other", cast=PROMOTE),
}

_OVER = {"axes": axes("dim=None"), "keep_dims": "keepdim=False"}

_REDUCTIONS = {
    "aten::sum": row("reduce_sum", cast=RESULT, ignore="dtype", **_OVER),
    "aten::nansum": row("reduce_nansum", cast=RESULT, ignore="dtype", **_OVER),
    "aten::count_nonzero": row("reduce_count_nonzero", axes=axes("dim=None")),
    "aten::mean": row("reduce_mean", cast=RESULT, ignore="dtype", **_OVER),
    "aten::prod": row("reduce_prod", cast=RESULT, ignore="dtype", **_OVER),
    "aten::all": row("reduce_all", cast="bool", **_OVER),
    "aten::any": row("reduce_any", cast="bool", **_OVER),
}

_SHAPED = {
    "aten::softmax": row("softmax", cast=RESULT, axis=axis("dim"), ignore="dtype"),
    "aten::_softmax": row("softmax", cast=RESULT, axis=axis("dim"), ignore="half_to_float"),
    "aten::log_softmax": row("log_softmax", cast=RESULT, axis=axis("dim"), ignore="dtype"),
    "aten::_log_softmax": row("log_softmax", cast=RESULT, axis=axis("dim"), ignore="half_to_float"),
    "aten::cumsum": row("cumsum", cast=RESULT, axis=axis("dim"), ignore="dtype"),
    "aten::cumprod": row("cumprod", cast=RESULT, axis=axis("dim"), ignore="dtype"),
    "aten::logcumsumexp aten::_logcumsumexp": row("logcumsumexp", axis=axis("dim")),
    "aten::cummax": row("cummax", n_out=2, axis=axis("dim")),
    "aten::cummin": row("cummin", n_out=2, axis=axis("dim")),
    "aten::topk": row("topk", n_out=2, k="k", axis=axis("dim=-1"), largest="largest=True", ignore="sorted"),
    "aten::diagonal aten::diagonal_copy": row("diagonal", offset="offset=0", rows=axis("dim1=0"), columns=axis("dim2=1")),
    "aten::diag_embed": row("diag_embed", offset="offset=0", rows="dim1=-2", columns="dim2=-1"),
    "aten::_linalg_det": row("det", "A"),
    "aten::linalg_cross": row("cross", "self other", cast=PROMOTE, axis="dim=-1"),
}

TABLE = Table({**_FLOATING, **_ELEMENTS, **_COMPARISONS, **_ACTIVATIONS, **_SPECIAL, **_REDUCTIONS, **_SHAPED})

registry.table(TABLE)
