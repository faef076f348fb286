"""Choosing by conditions."""

from __future__ import annotations

import torch

from .cast import promoted
from .registry import op


@op("aten::where.self", "aten::where.Scalar", "aten::where.ScalarSelf", "aten::where.ScalarOther")
def where(g, node, condition, self, other):
    x, y = promoted(g, self, other)
    return g.op.where(g.cast(condition, torch.bool), x, y)
