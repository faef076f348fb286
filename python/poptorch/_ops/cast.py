"""Type casts, and the types in which operands of several types meet."""

from __future__ import annotations

from typing import List, Optional

import torch

from openipu.network import Value

from .registry import op
from .types import Operand, is_floating, result_dtype

__all__ = ["as_result", "as_value", "is_floating", "promoted", "promoted_floating", "result_dtype", "wide"]


def wide(g, value: Value) -> Value:
    """Half as float, for what is composed of several ops: results are rounded once, and do not overflow between."""
    return g.cast(value, torch.float32) if value.type == "half" else value


def as_value(g, operand: Operand, dtype: torch.dtype) -> Value:
    """An operand as a value of a type."""
    return g.cast(operand, dtype)


def promoted(g, *operands: Operand, dtype: Optional[torch.dtype] = None) -> List[Value]:
    """The operands in one type: that of torch's promotion, or the one given."""
    return list(g.promote(*operands, dtype=dtype))


def promoted_floating(g, *operands: Operand) -> List[Value]:
    """The operands in one floating type: integers become torch's default type."""
    return list(g.promote_floating(*operands))


def as_result(g, node, operand: Operand, output: int = 0) -> Value:
    """An operand in the type that an output of the node has."""
    return as_value(g, operand, node.outputs[output].dtype)


@op("aten::_to_copy")
def to_copy(g, node, self, *args, **kwargs):
    dtype = node.outputs[0].dtype
    if is_floating(self) and dtype in (torch.int8, torch.uint8, torch.int16):
        self = g.cast(self, torch.int32)  # what does not fit wraps, as in torch
    return g.cast(self, dtype)
