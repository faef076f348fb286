"""Reductions: sums, means, extremes, orders, norms."""

from __future__ import annotations

import math
from typing import List, Optional, Sequence, Tuple, Union

import torch

from openipu.network import Value

from .cast import as_result, is_floating, wide
from .registry import op

Dims = Union[None, int, Sequence[int]]


def axes_of(x: Value, dim: Dims) -> List[int]:
    """The axes that `dim` names; all of them for None or an empty list, which torch takes for all."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(x.rank))
    dims = [dim] if isinstance(dim, int) else list(dim)
    return [d % x.rank for d in dims] if x.rank else []


def reduced(g, name: str, x: Value, dim: Dims, keepdim: bool = False, **attributes) -> Value:
    """A reduction over torch's dimensions."""
    if x.rank == 0:
        return g.emit(name, [x], axes=[], **attributes)
    return g.emit(name, [x], axes=axes_of(x, dim), keep_dims=int(keepdim), **attributes)


def count_of(x: Value, dim: Dims) -> int:
    """How many elements are reduced to one."""
    n = 1
    for axis in axes_of(x, dim):
        n *= x.shape[axis]
    return n


# ---- sums ----


@op("aten::sum")
def sum_(g, node, self, dim=None, keepdim=False, *, dtype=None):
    return reduced(g, "reduce_sum", as_result(g, node, self), dim, keepdim)


@op("aten::mean")
def mean(g, node, self, dim=None, keepdim=False, *, dtype=None):
    return reduced(g, "reduce_mean", as_result(g, node, self), dim, keepdim)


@op("aten::prod")
def prod(g, node, self, dim=None, keepdim=False, *, dtype=None):
    return reduced(g, "reduce_prod", as_result(g, node, self), dim, keepdim)


@op("aten::nansum")
def nansum(g, node, self, dim=None, keepdim=False, *, dtype=None):
    if is_floating(self):
        self = g.op.where(g.op.isnan(self), g.const(0, self.type), self)
    return reduced(g, "reduce_sum", as_result(g, node, self), dim, keepdim)


@op("aten::count_nonzero")
def count_nonzero(g, node, self, dim=None):
    return reduced(g, "reduce_sum", g.cast(g.cast(self, torch.bool), torch.int32), dim)


@op("aten::logsumexp")
def logsumexp(g, node, self, dim, keepdim=False):
    return reduced(g, "reduce_logsumexp", wide(g, as_result(g, node, self)), dim, keepdim)


# ---- any, all ----


@op("aten::all")
def all_(g, node, self, dim=None, keepdim=False):
    return reduced(g, "reduce_all", g.cast(self, torch.bool), dim, keepdim)


@op("aten::any")
def any_(g, node, self, dim=None, keepdim=False):
    return reduced(g, "reduce_any", g.cast(self, torch.bool), dim, keepdim)


# ---- extremes ----


def _comparable(g, x: Value) -> Value:
    return g.cast(x, torch.uint8) if x.type == "bool" else x


def _selected(g, x: Value, indices: Value, axis: int, keepdim: bool) -> Tuple[Value, Value]:
    """The elements that `indices` (with the axis kept) choose: only they have a gradient."""
    values = g.op.gather_elements(x, indices, axis=axis)
    if keepdim:
        return values, indices
    shape = x.shape[:axis] + x.shape[axis + 1:]
    return g.reshape(values, shape), g.reshape(indices, shape)


def _extreme(g, x: Value, dim: Optional[int], keepdim: bool, reduction: str, argument: str):
    x = _comparable(g, x)
    if dim is None:
        return reduced(g, reduction, x, None)
    if x.rank == 0:
        return x, g.const(0, torch.int32)
    axis = dim % x.rank
    return _selected(g, x, g.emit(argument, [x], axis=axis, keep_dims=1), axis, keepdim)


@op("aten::max")
def max_(g, node, self, dim=None, keepdim=False):
    return _extreme(g, self, dim, keepdim, "reduce_max", "argmax")


@op("aten::min")
def min_(g, node, self, dim=None, keepdim=False):
    return _extreme(g, self, dim, keepdim, "reduce_min", "argmin")


@op("aten::amax")
def amax(g, node, self, dim=(), keepdim=False):
    return reduced(g, "reduce_max", _comparable(g, self), dim, keepdim)


@op("aten::amin")
def amin(g, node, self, dim=(), keepdim=False):
    return reduced(g, "reduce_min", _comparable(g, self), dim, keepdim)


@op("aten::aminmax", "aten::_aminmax")
def aminmax(g, node, self, dim=None, keepdim=False):
    x = _comparable(g, self)
    return reduced(g, "reduce_min", x, dim, keepdim), reduced(g, "reduce_max", x, dim, keepdim)


def _argument(g, node, name: str, x: Value, dim: Optional[int]) -> Value:
    x = _comparable(g, x)
    if x.rank == 0:
        return g.const(0, torch.int32)
    if dim is None:
        x, dim = g.reshape(x, (x.n_elements, )), 0
    return g.reshape(g.emit(name, [x], axis=dim, keep_dims=0), node.outputs[0].shape)


@op("aten::argmax")
def argmax(g, node, self, dim=None, keepdim=False):
    return _argument(g, node, "argmax", self, dim)


@op("aten::argmin")
def argmin(g, node, self, dim=None, keepdim=False):
    return _argument(g, node, "argmin", self, dim)


# ---- medians ----


def _at(g, x: Value, axis: int, place: int) -> Value:
    """The slice at a place of an axis, which stays with one element."""
    return g.op.slice(x, axes=[axis], begin=[place], end=[place + 1])


def _with_axis(g, x: Value, dim: Optional[int]) -> Tuple[Value, int]:
    if dim is None or x.rank == 0:
        return g.reshape(x, (x.n_elements, )), 0
    return x, dim % x.rank


def _shaped(g, node, dim: Optional[int], values: Value, indices: Value):
    values = g.reshape(values, node.outputs[0].shape)
    return values if dim is None else (values, g.reshape(indices, node.outputs[1].shape))


@op("aten::median")
def median(g, node, self, dim=None, keepdim=False):
    x, axis = _with_axis(g, self, dim)
    values, indices = g.op.sort(x, axis=axis, n_out=2)
    n = x.shape[axis]
    place = (n - 1) // 2
    value, index = _at(g, values, axis, place), _at(g, indices, axis, place)
    if is_floating(x):
        last = _at(g, values, axis, n - 1)  # where a NaN is, if there is one
        no_number = g.op.isnan(last)
        value = g.op.where(no_number, last, value)
        index = g.op.where(no_number, _at(g, indices, axis, n - 1), index)
    return _shaped(g, node, dim, value, index)


@op("aten::nanmedian")
def nanmedian(g, node, self, dim=None, keepdim=False):
    x, axis = _with_axis(g, self, dim)
    values, indices = g.op.sort(x, axis=axis, n_out=2)
    if is_floating(x):
        is_number = g.op.logical_not(g.op.isnan(x))
        numbers = g.op.reduce_sum(g.cast(is_number, torch.int32), axes=[axis], keep_dims=1)
        place = g.op.div(g.op.maximum(g.op.sub(numbers, 1), 0), 2)
    else:
        place = g.op.add(g.op.mul(_at(g, indices, axis, 0), 0), (x.shape[axis] - 1) // 2)
    return _shaped(g, node, dim, g.op.gather_elements(values, place, axis=axis),
                   g.op.gather_elements(indices, place, axis=axis))


# ---- variances ----


def _variance(g, x: Value, dim: Dims, correction: Optional[int], keepdim: bool) -> Value:
    correction = 1 if correction is None else correction
    if correction in (0, 1):
        return reduced(g, "reduce_variance", x, dim, keepdim, unbiased=correction)
    n = count_of(x, dim)
    variance = reduced(g, "reduce_variance", x, dim, keepdim, unbiased=0)
    return g.op.mul(variance, n / (n - correction) if n > correction else math.inf)


def _root(g, x: Value) -> Value:
    """The square root, with gradient 0 rather than infinity at 0."""
    if not g.training:
        return g.op.sqrt(x)
    is_zero = g.op.equal(x, 0)
    return g.op.where(is_zero, x, g.op.sqrt(g.op.where(is_zero, g.const(1, x.type), x)))


def _options(dim: Dims, unbiased, correction) -> Tuple[Dims, Optional[int]]:
    """torch.var(x, unbiased) and torch.var(x, dim, unbiased, keepdim) beside the overload by correction."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = int(unbiased)
    return dim, correction


@op("aten::var")
def var(g, node, self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    dim, correction = _options(dim, unbiased, correction)
    return _variance(g, wide(g, as_result(g, node, self)), dim, correction, keepdim)


@op("aten::std")
def std(g, node, self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    return _root(g, var(g, node, self, dim, unbiased, keepdim, correction=correction))


@op("aten::var_mean")
def var_mean(g, node, self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    dim, correction = _options(dim, unbiased, correction)
    x = wide(g, as_result(g, node, self))
    return _variance(g, x, dim, correction, keepdim), reduced(g, "reduce_mean", x, dim, keepdim)


@op("aten::std_mean")
def std_mean(g, node, self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    variance, average = var_mean(g, node, self, dim, unbiased, keepdim, correction=correction)
    return _root(g, variance), average


# ---- norms ----


def _power(g, x: Value, exponent: float) -> Value:
    """x to an exponent, with gradient 0 rather than infinity or NaN at 0."""
    if not g.training or exponent < 0:
        return g.op.pow(x, exponent)
    is_zero = g.op.equal(x, 0)
    return g.op.where(is_zero, x, g.op.pow(g.op.where(is_zero, g.const(1, x.type), x), exponent))


def vector_norm(g, x: Value, order: float, dim: Dims = None, keepdim: bool = False) -> Value:
    """The p-norm of floating point numbers over dimensions; of half in float."""
    x = wide(g, x)
    if order == 2:
        return reduced(g, "reduce_l2", x, dim, keepdim)
    if order == 1:
        return reduced(g, "reduce_l1", x, dim, keepdim)
    if order == 0:
        return reduced(g, "reduce_sum", g.cast(g.op.not_equal(x, 0), x.type), dim, keepdim)
    size = g.op.abs(x)
    if math.isinf(order):
        return reduced(g, "reduce_max" if order > 0 else "reduce_min", size, dim, keepdim)
    return _power(g, reduced(g, "reduce_sum", _power(g, size, order), dim, keepdim), 1 / order)


@op("aten::linalg_vector_norm")
def linalg_vector_norm(g, node, self, ord=2, dim=None, keepdim=False, *, dtype=None):
    return vector_norm(g, as_result(g, node, self), float(ord), dim, keepdim)


@op("aten::norm")
def norm(g, node, self, p=2, dim=None, keepdim=False, *, dtype=None):
    order = 2.0 if p is None or p == "fro" else float(p)
    return vector_norm(g, as_result(g, node, self), order, dim, keepdim)


@op("aten::frobenius_norm")
def frobenius_norm(g, node, self, dim=None, keepdim=False):
    return vector_norm(g, as_result(g, node, self), 2.0, dim, keepdim)


@op("aten::dist")
def dist(g, node, self, other, p=2):
    apart = g.op.sub(as_result(g, node, self), as_result(g, node, other))
    return vector_norm(g, apart, float(p))


@op("aten::renorm")
def renorm(g, node, self, p, dim, maxnorm):
    others = [d for d in range(self.rank) if d != dim % self.rank]
    size = vector_norm(g, self, float(p), others, True)
    factor = g.op.div(float(maxnorm), g.op.add(size, 1e-7))
    factor = g.op.where(g.op.greater(size, maxnorm), factor, g.const(1, size.type))
    return g.op.mul(wide(g, self), factor)


# ---- covariance ----


def _cov_meta(self, correction=1, fweights=None, aweights=None):
    n = self.shape[0] if self.dim() > 1 else 1
    dtype = self.dtype if self.is_floating_point() else torch.get_default_dtype()
    return torch.empty((n, n) if n > 1 else (), dtype=dtype, device="meta")


@op("aten::cov", meta=_cov_meta)
def cov(g, node, self, correction=1, fweights=None, aweights=None):
    """Of the rows of x; `fweights`: how often each column counts, `aweights`: how much."""
    x = g.reshape(wide(g, as_result(g, node, self)), self.shape if self.rank > 1 else (1, self.n_elements))
    given = [g.cast(w, x.type) for w in (fweights, aweights) if w is not None]
    if not given:
        total = g.const(float(x.shape[1]), x.type)
        mean = g.op.reduce_mean(x, axes=[1], keep_dims=1)
        weighted = apart = g.op.sub(x, mean)
    else:
        weights = g.op.mul(*given) if len(given) == 2 else given[0]
        total = g.op.reduce_sum(weights)
        mean = g.op.div(g.op.reduce_sum(g.op.mul(x, weights), axes=[1], keep_dims=1), total)
        apart = g.op.sub(x, mean)
        weighted = g.op.mul(apart, weights)
    lost = g.const(float(correction), x.type)
    if aweights is not None:
        lost = g.op.mul(lost, g.op.div(g.op.reduce_sum(g.op.mul(weights, given[-1])), total))
    products = g.op.matmul(weighted, g.op.transpose(apart, perm=[1, 0]))
    return g.reshape(g.op.div(products, g.op.maximum(g.op.sub(total, lost), 0)), node.outputs[0].shape)
