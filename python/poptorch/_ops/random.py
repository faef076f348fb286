"""Random numbers and what drops out by them.

Numbers depend on the model's seed, on the run and on the op, not on torch's generators: they are other numbers than
torch's, of the same distributions.
"""

from __future__ import annotations

import math
from typing import Optional, Sequence

import torch

from openipu.network import Value

from .._errors import createPoptorchError
from .cast import as_value
from .registry import function, op


def _draw(g, name: str, shape: Sequence[int], type_name: str, **attributes) -> Value:
    return g.emit(name, [g.seed()], shape=list(shape), type=type_name, **attributes)


def _uniform(g, node, low: float = 0.0, high: float = 1.0) -> Value:
    slot = node.outputs[0]
    return _draw(g, "random_uniform", slot.shape, g.type_of(slot.dtype), low=low, high=high)


def _normal(g, node, mean: float = 0.0, std: float = 1.0) -> Value:
    slot = node.outputs[0]
    return _draw(g, "random_normal", slot.shape, g.type_of(slot.dtype), mean=mean, std=std)


def _whole(g, node, low: int, high: int) -> Value:
    """Whole numbers low <= y < high, in the type of the output, drawn as integers of 32 bits."""
    slot = node.outputs[0]
    return g.cast(_draw(g, "random_int", slot.shape, "int32", low=low, high=high), slot.dtype)


def _exact(g, node) -> Value:
    """Numbers of [0, 1) in float, whatever the type of the output: for functions that are steep at the ends."""
    return _draw(g, "random_uniform", node.outputs[0].shape, "float")


# ---- uniform ----


@op("aten::rand", "aten::rand_like")
def rand(g, node, *args, **kwargs):
    return _uniform(g, node)


@op("aten::uniform_", "aten::uniform")
def uniform(g, node, self, *args, generator=None, **bounds):
    low, high = (list(args) + [bounds.get("from", 0.0), bounds.get("to", 1.0)][len(args):])[:2]
    return _uniform(g, node, low, high)


# ---- normal ----


@op("aten::randn", "aten::randn_like")
def randn(g, node, *args, **kwargs):
    return _normal(g, node)


@op("aten::normal_", "aten::normal_functional")
def normal_(g, node, self, mean=0.0, std=1.0, *, generator=None):
    return _normal(g, node, mean, std)


@op("aten::normal")
def normal(g, node, mean=0.0, std=1.0, *args, **kwargs):
    """Of numbers and a size, or of one or two tensors, through which gradients pass."""
    if not isinstance(mean, Value) and not isinstance(std, Value):
        return _normal(g, node, mean, std)
    dtype = node.outputs[0].dtype
    scaled = g.op.mul(_normal(g, node), as_value(g, std, dtype))
    return g.op.stop_gradient(g.op.add(scaled, as_value(g, mean, dtype)))


@op("aten::log_normal_", "aten::log_normal")
def log_normal(g, node, self, mean=1.0, std=2.0, *, generator=None):
    return g.op.exp(_normal(g, node, mean, std))


# ---- by inverse distribution functions ----


@op("aten::exponential_", "aten::exponential")
def exponential(g, node, self, lambd=1.0, *, generator=None):
    return g.op.div(g.op.neg(g.op.log1p(g.op.neg(_exact(g, node)))), lambd)


@op("aten::cauchy_", "aten::cauchy")
def cauchy(g, node, self, median=0.0, sigma=1.0, *, generator=None):
    angle = g.op.mul(g.op.sub(_exact(g, node), 0.5), math.pi)
    return g.op.add(g.op.mul(g.op.tan(angle), sigma), median)


@op("aten::geometric_", "aten::geometric")
def geometric(g, node, self, p, *, generator=None):
    trials = g.op.div(g.op.log1p(g.op.neg(_exact(g, node))), math.log1p(-p) if p < 1 else -math.inf)
    return g.op.maximum(g.op.ceil(trials), 1)


# ---- whole numbers ----


@op("aten::randint")
def randint(g, node, low, high=None, *args, **kwargs):
    if not isinstance(high, int):  # randint(high, size)
        low, high = 0, low
    return _whole(g, node, low, high)


@op("aten::randint_like")
def randint_like(g, node, self, low, high=None, **kwargs):
    if high is None:
        low, high = 0, low
    return _whole(g, node, low, high)


#: The first whole number that random_ does not draw, so that all below are exact in the type.
_RANDOM_BOUNDS = {torch.float16: 2**11 + 1, torch.bfloat16: 2**8 + 1, torch.float32: 2**24 + 1,
                  torch.float64: 2**24 + 1, torch.bool: 2, torch.uint8: 2**8, torch.int8: 2**7, torch.int16: 2**15}


@op("aten::random_", "aten::random")
def random_(g, node, self, *args, generator=None, **bounds):
    """random_(), random_(to) and random_(from, to)."""
    to = bounds.get("to", args[-1] if args else None)
    low = bounds.get("from", args[0] if len(args) == 2 else 0)
    if to is None:
        to = _RANDOM_BOUNDS.get(node.outputs[0].dtype, 2**31 - 1)
    return _whole(g, node, low, to)


@op("aten::randperm")
def randperm(g, node, n, *args, **kwargs):
    """The order that sorts random numbers."""
    if n == 0:
        return g.const(torch.zeros(0), torch.int32)
    _, order = g.op.sort(_draw(g, "random_uniform", (n, ), "float"), axis=0, n_out=2)
    return order


# ---- by given probabilities ----


@op("aten::bernoulli", "aten::bernoulli_")
def bernoulli(g, node, self, p=None, *, generator=None):
    slot = node.outputs[0]
    if p is None:
        p = self
    elif not isinstance(p, Value):
        return _draw(g, "random_bernoulli", slot.shape, g.type_of(slot.dtype), p=p)
    p = g.broadcast(p, slot.shape)
    return g.emit("bernoulli", [g.op.stop_gradient(p), g.seed()], type=g.type_of(slot.dtype))


def _gumbel(g, shape: Sequence[int]) -> Value:
    u = _draw(g, "random_uniform", shape, "float", low=1e-30)
    return g.op.neg(g.op.log(g.op.neg(g.op.log(u))))


def _multinomial_meta(self, num_samples, replacement=False, **_):
    return torch.empty(self.shape[:-1] + (num_samples, ), dtype=torch.int64, device="meta")


@op("aten::multinomial", meta=_multinomial_meta)
def multinomial(g, node, self, num_samples, replacement=False, *, generator=None):
    """Without replacement: the largest of the log probabilities with Gumbel noise."""
    rows = g.reshape(self, (1, ) * (2 - self.rank) + tuple(self.shape))
    scores = g.op.stop_gradient(g.op.log(g.cast(rows, torch.float32)))
    if replacement:
        drawn = g.emit("multinomial", [scores, g.seed()], samples=num_samples, type="int32")
    else:
        noisy = g.op.add(scores, _gumbel(g, scores.shape))
        _, drawn = g.op.topk(noisy, k=num_samples, axis=-1, n_out=2)
    return g.reshape(drawn, node.outputs[0].shape)


# ---- by rejection: candidates of which the first that is accepted counts ----

_CANDIDATES = 16  # the chance that all are rejected is below 1e-7


def _first_accepted(g, candidates: Value, accepted: Value) -> Value:
    """Of candidates along dimension 0."""
    first = g.op.argmax(g.cast(accepted, torch.int32), axis=0, keep_dims=1)
    return g.reshape(g.op.gather_elements(candidates, first, axis=0), candidates.shape[1:])


def _gamma(g, shape: Value) -> Value:
    """Of the gamma distribution with rate 1, by Marsaglia and Tsang (2000); shapes below 1 by the one above."""
    is_small = g.op.less(shape, 1)
    d = g.op.sub(g.op.where(is_small, g.op.add(shape, 1), shape), 1 / 3)
    x = _draw(g, "random_normal", (_CANDIDATES, ) + shape.shape, "float")
    u = _draw(g, "random_uniform", x.shape, "float", low=1e-30)
    v = g.op.add(g.op.mul(x, g.op.rsqrt(g.op.mul(d, 9))), 1)
    is_positive = g.op.greater(v, 0)
    v = g.op.where(is_positive, g.op.mul(v, g.op.square(v)), g.const(1, "float"))
    bound = g.op.add(g.op.mul(g.op.square(x), 0.5), g.op.mul(d, g.op.add(g.op.sub(1.0, v), g.op.log(v))))
    accepted = g.op.logical_and(is_positive, g.op.less(g.op.log(u), bound))
    y = g.op.mul(d, _first_accepted(g, v, accepted))
    smaller = g.op.pow(_draw(g, "random_uniform", shape.shape, "float", low=1e-30), g.op.reciprocal(shape))
    return g.op.maximum(g.op.where(is_small, g.op.mul(y, smaller), y), torch.finfo(torch.float32).tiny)


def _no_gradient(g, node, what: str) -> None:
    if g.training and node.grad_enabled:
        raise createPoptorchError(f"{what}: gradients through samples of this distribution are not supported on the "
                                  "IPU. Draw with .sample() or under torch.no_grad() rather than with .rsample()")


@op("aten::_standard_gamma")
def standard_gamma(g, node, self, generator=None):
    _no_gradient(g, node, "torch._standard_gamma")
    return _gamma(g, g.cast(self, torch.float32))


@op("aten::_sample_dirichlet")
def sample_dirichlet(g, node, self, generator=None):
    _no_gradient(g, node, "torch._sample_dirichlet")
    y = _gamma(g, g.cast(self, torch.float32))
    return g.op.div(y, g.op.reduce_sum(y, axes=[-1], keep_dims=1))


_FEW = 12.0  # rates below it: events are counted one by one
_MOST_EVENTS = 48


def _poisson_few(g, rate: Value) -> Value:
    """How many exponential waiting times go into one unit of time."""
    u = _draw(g, "random_uniform", (_MOST_EVENTS, ) + rate.shape, "float")
    times = g.op.cumsum(g.op.neg(g.op.log1p(g.op.neg(u))), axis=0)
    return g.op.reduce_sum(g.cast(g.op.less(times, rate), "float"), axes=[0])


def _poisson_many(g, rate: Value) -> Value:
    """By transformed rejection, W. Hoermann's PTRS (1993)."""
    shape = (_CANDIDATES, ) + rate.shape
    b = g.op.add(g.op.mul(g.op.sqrt(rate), 2.53), 0.931)
    a = g.op.add(g.op.mul(b, 0.02483), -0.059)
    inverse_alpha = g.op.add(g.op.div(1.1328, g.op.sub(b, 3.4)), 1.1239)
    u = _draw(g, "random_uniform", shape, "float", low=-0.5, high=0.5)
    v = _draw(g, "random_uniform", shape, "float", low=1e-30)
    us = g.op.sub(0.5, g.op.abs(u))
    us = g.op.maximum(us, 1e-7)
    k = g.op.floor(g.op.add(g.op.add(g.op.mul(g.op.add(g.op.div(g.op.mul(a, 2), us), b), u), rate), 0.43))
    is_count = g.op.greater_equal(k, 0)
    safe = g.op.maximum(k, 0)
    left = g.op.log(g.op.div(g.op.mul(v, inverse_alpha), g.op.add(g.op.div(a, g.op.square(us)), b)))
    right = g.op.sub(g.op.sub(g.op.mul(safe, g.op.log(rate)), rate), g.op.lgamma(g.op.add(safe, 1)))
    accepted = g.op.logical_and(is_count, g.op.less_equal(left, right))
    return _first_accepted(g, safe, accepted)


@op("aten::poisson")
def poisson(g, node, self, generator=None):
    rate = g.op.stop_gradient(g.cast(self, torch.float32))
    is_few = g.op.less(rate, _FEW)
    return g.op.where(is_few, _poisson_few(g, g.op.minimum(rate, _FEW)), _poisson_many(g, g.op.maximum(rate, _FEW)))


# ---- dropout ----


def dropped(g, x: Value, p: float) -> Value:
    """Elements are 0 with probability p, else divided by 1 - p. In an inference model nothing drops out, whatever the
    mode of its modules: so it is on IPUs, and programs rely on it."""
    if p == 0 or not g.training:
        return x
    return g.emit("dropout", [x, g.seed()], p=p)


@op("aten::dropout")
def dropout(g, node, input, p=0.5, train=True):
    return dropped(g, input, p) if train else input


@function(torch.nn.functional.dropout)  # else torch takes it apart where it is in place
def dropout_function(g, node, input, p=0.5, training=True, inplace=False):
    return dropped(g, input, p) if training else input


@op("aten::native_dropout")
def native_dropout(g, node, input, p, train=True):
    if not train or not g.training:
        return input, g.broadcast(g.const(True, torch.bool), input.shape)
    kept = _draw(g, "random_bernoulli", input.shape, "bool", p=1 - p)
    scaled = g.op.mul(input, 1 / (1 - p) if p < 1 else 0.0)
    return g.op.where(kept, scaled, g.const(0, input.type)), kept


@op("aten::feature_dropout")
def feature_dropout(g, node, input, p, train=True):
    """Whole channels (dimension 1) drop out."""
    if not train or p == 0 or not g.training:
        return input
    noise = _channel_noise(g, input, 1 - p)
    return g.op.mul(input, g.op.div(noise, 1 - p) if p < 1 else noise)


def _channel_noise(g, x: Value, p: float) -> Value:
    shape = tuple(x.shape[:2]) + (1, ) * (x.rank - 2)
    return _draw(g, "random_bernoulli", shape, x.type, p=p)


_ALPHA = 1.7580993408473766  # minus the limit of selu far below 0


def _alpha_dropped(g, x: Value, p: float, noise: Optional[Value]) -> Value:
    """Dropout that keeps mean and variance of what comes out of selu."""
    if p == 0:
        return x
    if p == 1:
        return g.op.mul(x, 0.0)
    if noise is None:
        noise = _draw(g, "random_bernoulli", x.shape, x.type, p=1 - p)
    a = 1 / math.sqrt((_ALPHA**2 * p + 1) * (1 - p))
    moved = g.op.add(g.op.mul(g.op.sub(noise, 1), _ALPHA * a), _ALPHA * a * p)
    return g.op.add(g.op.mul(x, g.op.mul(noise, a)), moved)


@op("aten::alpha_dropout")
def alpha_dropout(g, node, input, p, train=True):
    return _alpha_dropped(g, input, p, None) if train else input


@op("aten::feature_alpha_dropout")
def feature_alpha_dropout(g, node, input, p, train=True):
    return _alpha_dropped(g, input, p, _channel_noise(g, input, 1 - p)) if train else input
