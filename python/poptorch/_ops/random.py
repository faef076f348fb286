"""Random numbers and what drops out by them.

Numbers depend on the model's seed, on the run and on the op, not on torch's generators: they are other numbers than
torch's, of the same distributions.
"""

from __future__ import annotations

from typing import Sequence

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


def _exact(g, node, name: str, **attributes) -> Value:
    """Numbers in float, whatever the type of the output."""
    return _draw(g, name, node.outputs[0].shape, "float", **attributes)


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
    slot = node.outputs[0]
    return _draw(g, "random_log_normal", slot.shape, g.type_of(slot.dtype), mean=mean, std=std)


# ---- by inverse distribution functions ----


@op("aten::exponential_", "aten::exponential")
def exponential(g, node, self, lambd=1.0, *, generator=None):
    return _exact(g, node, "random_exponential", rate=lambd)


@op("aten::cauchy_", "aten::cauchy")
def cauchy(g, node, self, median=0.0, sigma=1.0, *, generator=None):
    return _exact(g, node, "random_cauchy", median=median, sigma=sigma)


@op("aten::geometric_", "aten::geometric")
def geometric(g, node, self, p, *, generator=None):
    return _exact(g, node, "random_geometric", p=p)


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
    return g.emit("random_permutation", [g.seed()], n=n)


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


def _multinomial_meta(self, num_samples, replacement=False, **_):
    return torch.empty(self.shape[:-1] + (num_samples, ), dtype=torch.int64, device="meta")


@op("aten::multinomial", meta=_multinomial_meta)
def multinomial(g, node, self, num_samples, replacement=False, *, generator=None):
    rows = g.reshape(self, (1, ) * (2 - self.rank) + tuple(self.shape))
    scores = g.op.stop_gradient(g.op.log(g.cast(rows, torch.float32)))
    if replacement:
        drawn = g.emit("multinomial", [scores, g.seed()], samples=num_samples, type="int32")
    else:
        drawn = g.emit("multinomial_distinct", [scores, g.seed()], samples=num_samples)
    return g.reshape(drawn, node.outputs[0].shape)


# ---- whose orders or rates are tensors ----


def _no_gradient(g, node, what: str) -> None:
    if g.training and node.grad_enabled:
        raise createPoptorchError(f"{what}: gradients through samples of this distribution are not supported on the "
                                  "IPU. Draw with .sample() or under torch.no_grad() rather than with .rsample()")


@op("aten::_standard_gamma")
def standard_gamma(g, node, self, generator=None):
    _no_gradient(g, node, "torch._standard_gamma")
    return g.emit("random_gamma", [g.cast(self, torch.float32), g.seed()])


@op("aten::_sample_dirichlet")
def sample_dirichlet(g, node, self, generator=None):
    _no_gradient(g, node, "torch._sample_dirichlet")
    return g.emit("random_dirichlet", [g.cast(self, torch.float32), g.seed()])


@op("aten::poisson")
def poisson(g, node, self, generator=None):
    return g.emit("random_poisson", [g.cast(self, torch.float32), g.seed()])


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
    if not train or p == 0 or not g.training:
        return input
    return g.emit("channel_dropout", [input, g.seed()], p=p)


@op("aten::alpha_dropout")
def alpha_dropout(g, node, input, p, train=True):
    return g.emit("alpha_dropout", [input, g.seed()], p=p) if train else input


@op("aten::feature_alpha_dropout")
def feature_alpha_dropout(g, node, input, p, train=True):
    return g.emit("alpha_dropout", [input, g.seed()], p=p, channels=1) if train else input
