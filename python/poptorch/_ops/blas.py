"""Products of matrices and vectors, einsum, determinants and inverses."""
from __future__ import annotations

import string
from typing import Sequence

import torch
import torch.nn.functional as F

from .conv import activation_type
from .registry import function, op

_MULTIPLIED = ("float", "half", "double", "bfloat16", "int32", "int64", "uint32", "uint64")


def _product(g, a, b, **attributes):
    """matmul in the type of both; small integers by way of int32."""
    a, b = g.promote(a, b)
    if a.type in _MULTIPLIED:
        return g.emit("matmul", [a, b], **attributes)
    narrow = a.type
    return g.cast(g.emit("matmul", [g.cast(a, "int32"), g.cast(b, "int32")], **attributes), narrow)


def _scaled(g, v, factor):
    factor = factor if g.is_floating(v) else int(factor)
    return v if factor == 1 else g.op.mul(v, factor)


def _added(g, node, c, product, beta, alpha):
    """beta * c + alpha * product(); what is multiplied by 0 is not looked at, whatever it holds."""
    dtype, shape = node.outputs[0].dtype, tuple(node.outputs[0].shape)
    if alpha == 0 and beta == 0:
        return g.const(0, dtype, shape)
    if alpha == 0:
        return g.broadcast(_scaled(g, g.cast(c, dtype), beta), shape)
    y = _scaled(g, g.cast(product(), dtype), alpha)
    return y if beta == 0 else g.op.add(y, _scaled(g, g.cast(c, dtype), beta))


# ---- linear layers ----


def _linear_meta(input, weight, bias=None):
    if weight.dim() != 2 or input.dim() < 1 or input.shape[-1] != weight.shape[-1]:
        return torch._C._nn.linear(input, weight, bias)  # torch says what is wrong, or knows the rarer forms
    return torch.empty((*input.shape[:-1], weight.shape[0]), dtype=activation_type(input, weight), device="meta")


@function(F.linear, meta=_linear_meta)
def linear(g, node, input, weight, bias=None):
    x, weight = (g.cast(v, node.outputs[0].dtype) for v in (input, weight))
    if not g.is_floating(x) or weight.rank != 2:
        y = _product(g, x, weight) if weight.rank == 1 else _product(g, x, weight, transpose_b=1)
        return y if bias is None else g.op.add(y, g.cast(bias, y.type))
    return g.emit("linear", [x, weight, None if bias is None else g.cast(bias, x.type)])


def _bilinear_meta(input1, input2, weight, bias=None):
    dtype = activation_type(input1, weight)
    return torch.empty((*input1.shape[:-1], weight.shape[0]), dtype=dtype, device="meta")


@function(F.bilinear, meta=_bilinear_meta)
def bilinear(g, node, input1, input2, weight, bias=None):
    """y[n, k] = x1[n, i] weight[k, i, j] x2[n, j] + bias[k]"""
    x1, weight = (g.cast(v, node.outputs[0].dtype) for v in (input1, weight))
    return g.emit("bilinear", [x1, g.cast(input2, x1.type), weight, None if bias is None else g.cast(bias, x1.type)])


# ---- products ----


def _matmul_meta(input, other):
    dtype = torch.promote_types(input.dtype, other.dtype)
    return torch.matmul(input.to(dtype), other.to(dtype))


@function(torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.linalg.matmul, meta=_matmul_meta)
def matmul(g, node, input, other):
    return _product(g, input, other)


@function(torch.Tensor.__rmatmul__, meta=lambda input, other: _matmul_meta(other, input))
def matmul_reversed(g, node, input, other):
    return _product(g, other, input)


@op("aten::mm", "aten::bmm", "aten::matmul", "aten::mv", "aten::dot", "aten::vdot")
def mm(g, node, input, other):
    return _product(g, input, other)


@op("aten::addmm", "aten::baddbmm", "aten::addmv")
def addmm(g, node, input, a, b, *, beta=1, alpha=1):
    return _added(g, node, input, lambda: _product(g, a, b), beta, alpha)


@op("aten::addbmm")
def addbmm(g, node, input, a, b, *, beta=1, alpha=1):

    def product():
        return g.emit("reduce_sum", [_product(g, a, b)], axes=[0])

    return _added(g, node, input, product, beta, alpha)


@function(torch.addr, torch.Tensor.addr)
@op("aten::addr")
def addr(g, node, input, a, b, *, beta=1, alpha=1):
    """Here alpha multiplies even if it is 0; beta does not."""
    dtype = node.outputs[0].dtype if node.outputs[0].dtype is not torch.bool else torch.int32
    a, b = g.cast(a, dtype), g.cast(b, dtype)
    y = _scaled(g, g.op.mul(g.reshape(a, (*a.shape, 1)), b), alpha)
    return y if beta == 0 else g.op.add(y, _scaled(g, g.cast(input, dtype), beta))


@op("aten::_trilinear")
def trilinear(g, node, i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    terms = []
    for value, expand in ((i1, expand1), (i2, expand2), (i3, expand3)):
        shape = list(value.shape)
        for axis in sorted(expand):
            shape.insert(axis, 1)
        terms.append(g.reshape(value, shape))
    product = g.op.mul(g.op.mul(terms[0], terms[1]), terms[2])
    return g.emit("reduce_sum", [product], axes=list(sumdim))


# ---- sums over named indices ----


def _operands(args: Sequence) -> tuple:
    """The equation and the operands of any of torch.einsum's forms."""
    if isinstance(args[0], str):
        values = args[1:]
        if len(values) == 1 and isinstance(values[0], (list, tuple)):
            values = values[0]
        return args[0], list(values)
    letters = string.ascii_uppercase + string.ascii_lowercase

    def term(axes):
        return "".join("..." if axis is Ellipsis else letters[axis] for axis in axes)

    n = len(args) // 2
    equation = ",".join(term(args[2 * i + 1]) for i in range(n))
    if len(args) % 2:
        equation += "->" + term(args[-1])
    return equation, list(args[0:2 * n:2])


@function(torch.einsum)
def einsum(g, node, *args):
    equation, values = _operands(args)
    values = [g.cast(v, node.outputs[0].dtype) for v in values]
    if values[0].type not in _MULTIPLIED:
        values = [g.cast(v, "int32") for v in values]
    return g.emit("einsum", values, equation=equation)


# ---- determinants, inverses ----


@op("aten::_linalg_slogdet")
def slogdet(g, node, a):
    return (*g.emit("slogdet", [a], n_out=2), None, None)


@op("aten::linalg_inv_ex")
def inverse(g, node, a, *, check_errors=False):
    return g.op.inverse(a), g.const(0, torch.int32, tuple(node.outputs[1].shape))


@op("aten::_linalg_check_errors")
def check_errors(g, node, info, api_name, *, is_matrix):
    """Nothing: a matrix that has no inverse gives NaN."""


@op("aten::_linalg_solve_ex")
def solve(g, node, a, b, *, left=True, check_errors=False):
    return g.emit("solve", [a, b], right=int(not left)), None, None, g.const(0, torch.int32, tuple(node.outputs[3].shape))
