"""The softmax family."""

from __future__ import annotations

import math

import torch

from .registry import op


@op("aten::_masked_softmax")
def masked_softmax(g, node, self, mask, dim=None, mask_type=None):
    """True in the mask leaves an element out; rows of which nothing is left are 0."""
    shape = list(mask.shape)
    if mask_type == 0:  # [L, L] of scores [B, H, L, L]
        shape = [1] * (self.rank - mask.rank) + shape
    elif mask_type == 1:  # [B, L]
        shape = [shape[0]] + [1] * (self.rank - 2) + [shape[1]]
    left_out = g.broadcast(g.reshape(g.cast(mask, torch.bool), shape), self.shape)
    axis = -1 if dim is None else dim
    scores = g.op.where(left_out, g.const(-math.inf, self.type), self)
    nothing = g.op.reduce_all(left_out, axes=[axis], keep_dims=1)
    zero = g.const(0, self.type)
    scores = g.op.where(nothing, zero, scores)
    return g.op.where(nothing, zero, g.op.softmax(scores, axis=axis))
