"""Activations."""

from __future__ import annotations

import torch

from .registry import op


@op("aten::gelu")
def gelu(g, node, self, *, approximate="none"):
    return g.op.gelu_tanh(self) if approximate == "tanh" else g.op.gelu(self)


@op("aten::hardtanh")
def hardtanh(g, node, self, min_val=-1, max_val=1):
    if (min_val, max_val) == (0, 6):
        return g.op.relu6(self)
    return g.op.hardtanh(self, min=min_val, max=max_val)


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
