"""Activations."""

from __future__ import annotations

import math

import torch

from .cast import as_result
from .registry import function, op

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


@op("aten::elu")
def elu(g, node, self, alpha=1, scale=1, input_scale=1):
    if input_scale == 1:
        if math.isclose(alpha, _SELU_ALPHA) and math.isclose(scale, _SELU_SCALE):
            return g.op.selu(self)
        y = g.op.elu(self, alpha=alpha)
        return y if scale == 1 else g.op.mul(y, scale)
    below = g.op.mul(g.op.expm1(g.op.mul(g.op.minimum(self, 0), input_scale)), alpha)
    return g.op.mul(g.op.where(g.op.greater(self, 0), self, below), scale)


@op("aten::gelu")
def gelu(g, node, self, *, approximate="none"):
    return g.op.gelu_tanh(self) if approximate == "tanh" else g.op.gelu(self)


@op("aten::hardtanh")
def hardtanh(g, node, self, min_val=-1, max_val=1):
    if (min_val, max_val) == (0, 6):
        return g.op.relu6(self)
    return g.op.hardtanh(self, min=min_val, max=max_val)


@op("aten::glu")
def glu(g, node, self, dim=-1):
    axis = dim % self.rank
    half = self.shape[axis] // 2
    left = g.op.slice(self, axes=[axis], begin=[0], end=[half])
    right = g.op.slice(self, axes=[axis], begin=[half], end=[2 * half])
    return g.op.mul(left, g.op.sigmoid(right))


@op("aten::prelu", "aten::_prelu_kernel", meta=lambda self, weight: torch.empty_like(self))
def prelu(g, node, self, weight):
    """A slope for each channel, which is dimension 1, or one for all."""
    if weight.n_elements == 1:
        weight = g.reshape(weight, ())
    elif weight.rank == 1:
        weight = g.reshape(weight, (weight.shape[0], ) + (1, ) * (self.rank - 2))
    return g.op.prelu(self, g.cast(weight, self.type))


@op("aten::rrelu_with_noise", "aten::rrelu")
def rrelu(g, node, self, *args, lower=1 / 8, upper=1 / 3, training=False, generator=None):
    """Arguments after the noise tensor of rrelu_with_noise are those of rrelu."""
    if args and not isinstance(args[0], (int, float)):
        args = args[1:]
    lower, upper, training = (list(args) + [lower, upper, training][len(args):])[:3]
    if not training:
        return g.op.leaky_relu(self, alpha=(lower + upper) / 2)
    slopes = g.emit("random_uniform", [g.seed()], low=lower, high=upper, shape=self.shape, type=self.type)
    return g.op.prelu(self, slopes)


@function(torch.nn.functional.tanhshrink)
def tanhshrink(g, node, input):
    x = as_result(g, node, input)
    return g.op.sub(x, g.op.tanh(x))
