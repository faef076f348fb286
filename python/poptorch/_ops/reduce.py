"""Reductions: sums, means, extremes, orders, norms."""

from __future__ import annotations

from typing import Optional, Sequence, Tuple, Union

import torch

from openipu.emitter import axes_of
from openipu.network import Value

from .cast import as_result, wide
from .registry import op

Dims = Union[None, int, Sequence[int]]


def reduced(g, name: str, x: Value, dim: Dims, keepdim: bool = False, **attributes) -> Value:
    """A reduction over torch's dimensions."""
    if x.rank == 0:
        return g.emit(name, [x], axes=[], **attributes)
    return g.emit(name, [x], axes=axes_of(dim, x), keep_dims=int(keepdim), **attributes)


# ---- sums ----


@op("aten::logsumexp")
def logsumexp(g, node, self, dim, keepdim=False):
    return reduced(g, "reduce_logsumexp", wide(g, as_result(g, node, self)), dim, keepdim)


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
    return _shaped(g, node, dim, *g.emit("median", [x], axis=axis, n_out=2))


@op("aten::nanmedian")
def nanmedian(g, node, self, dim=None, keepdim=False):
    x, axis = _with_axis(g, self, dim)
    return _shaped(g, node, dim, *g.emit("median", [x], axis=axis, skip_nan=1, n_out=2))


# ---- variances ----


def _spread(g, name: str, x: Value, dim: Dims, unbiased, keepdim: bool, correction) -> Value:
    """torch.var(x, unbiased) and torch.var(x, dim, unbiased, keepdim) beside the overload by correction."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = int(unbiased)
    return reduced(g, name, x, dim, keepdim, correction=1 if correction is None else correction)


@op("aten::var")
def var(g, node, self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    return _spread(g, "reduce_variance", wide(g, as_result(g, node, self)), dim, unbiased, keepdim, correction)


@op("aten::std")
def std(g, node, self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    return _spread(g, "reduce_std", as_result(g, node, self), dim, unbiased, keepdim, correction)


@op("aten::var_mean")
def var_mean(g, node, self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    x = wide(g, as_result(g, node, self))
    spread = _spread(g, "reduce_variance", x, dim, unbiased, keepdim, correction)
    return spread, reduced(g, "reduce_mean", x, None if isinstance(dim, bool) else dim, keepdim)


@op("aten::std_mean")
def std_mean(g, node, self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    x = wide(g, as_result(g, node, self))
    spread = _spread(g, "reduce_std", x, dim, unbiased, keepdim, correction)
    return spread, reduced(g, "reduce_mean", x, None if isinstance(dim, bool) else dim, keepdim)


# ---- norms ----


@op("aten::linalg_vector_norm")
def linalg_vector_norm(g, node, self, ord=2, dim=None, keepdim=False, *, dtype=None):
    return reduced(g, "reduce_norm", as_result(g, node, self), dim, keepdim, p=ord)


@op("aten::norm")
def norm(g, node, self, p=2, dim=None, keepdim=False, *, dtype=None):
    p = 2 if p is None or p == "fro" else p
    return reduced(g, "reduce_norm", as_result(g, node, self), dim, keepdim, p=p)


@op("aten::frobenius_norm")
def frobenius_norm(g, node, self, dim=None, keepdim=False):
    return reduced(g, "reduce_norm", as_result(g, node, self), dim, keepdim, p=2)


@op("aten::dist")
def dist(g, node, self, other, p=2):
    apart = g.op.sub(as_result(g, node, self), as_result(g, node, other))
    return g.emit("reduce_norm", [apart], p=p)


@op("aten::renorm")
def renorm(g, node, self, p, dim, maxnorm):
    return g.emit("renorm", [self], p=p, axis=dim, max_norm=maxnorm)


# ---- covariance ----


def _cov_meta(self, correction=1, fweights=None, aweights=None):
    n = self.shape[0] if self.dim() > 1 else 1
    dtype = self.dtype if self.is_floating_point() else torch.get_default_dtype()
    return torch.empty((n, n) if n > 1 else (), dtype=dtype, device="meta")


@op("aten::cov", meta=_cov_meta)
def cov(g, node, self, correction=1, fweights=None, aweights=None):
    """Of the rows of x; `fweights`: how often each column counts, `aweights`: how much."""
    x = g.reshape(wide(g, as_result(g, node, self)), self.shape if self.rank > 1 else (1, self.n_elements))
    weights = [None if w is None else g.cast(w, x.type) for w in (fweights, aweights)]
    return g.reshape(g.emit("covariance", [x, *weights], correction=correction), node.outputs[0].shape)
