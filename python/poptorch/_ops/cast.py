"""Type casts, and the types in which operands of several types meet."""

from __future__ import annotations

from functools import lru_cache
from typing import List, Optional, Tuple, Union

import torch

from openipu.network import Value

from .registry import op

Number = Union[bool, int, float]
Operand = Union[Value, Number]

#: torch's type for each type of a value. int32 stands for int64 too, float for float64.
DTYPES = {"bool": torch.bool, "int8": torch.int8, "uint8": torch.uint8, "int16": torch.int16, "uint16": torch.int32,
          "int32": torch.int32, "uint32": torch.int32, "int64": torch.int64, "uint64": torch.int64,
          "half": torch.float16, "bfloat16": torch.bfloat16, "float": torch.float32, "double": torch.float64}

_FLOATING = ("half", "bfloat16", "float", "double")


def is_floating(value: Value) -> bool:
    """Whether a value holds floating point numbers."""
    return value.type in _FLOATING


def _kind(operand: Operand) -> Tuple[int, torch.dtype]:
    """How much an operand weighs in promotion (2: has dimensions, 1: none, 0: a number) and its type."""
    if isinstance(operand, Value):
        return (2 if operand.shape else 1), DTYPES[operand.type]
    if isinstance(operand, bool):
        return 0, torch.bool
    return 0, (torch.int64 if isinstance(operand, int) else torch.get_default_dtype())


@lru_cache(maxsize=None)
def _meet(kinds: Tuple[Tuple[int, torch.dtype], ...]) -> torch.dtype:
    """Promotion as torch has it: lighter operands matter only if they are of a higher category."""
    result: Optional[torch.dtype] = None
    for weight in (2, 1, 0):
        level: Optional[torch.dtype] = None
        for found, dtype in kinds:
            if found == weight:
                level = dtype if level is None else torch.promote_types(level, dtype)
        if level is None:
            continue
        if result is None:
            result = level
        elif not result.is_floating_point and (result is torch.bool or level.is_floating_point):
            result = torch.promote_types(result, level)
    assert result is not None
    return result


def result_dtype(*operands: Operand) -> torch.dtype:
    """The type that torch computes in for operands that are values or numbers."""
    return _meet(tuple(_kind(o) for o in operands))


def wide(g, value: Value) -> Value:
    """Half as float, for what is composed of several ops: results are rounded once, and do not overflow between."""
    return g.cast(value, torch.float32) if value.type == "half" else value


def as_value(g, operand: Operand, dtype: torch.dtype) -> Value:
    """An operand as a value of a type."""
    return g.cast(operand, dtype) if isinstance(operand, Value) else g.const(operand, dtype)


def promoted(g, *operands: Operand, dtype: Optional[torch.dtype] = None) -> List[Value]:
    """The operands in one type: that of torch's promotion, or the one given."""
    dtype = dtype or result_dtype(*operands)
    return [as_value(g, o, dtype) for o in operands]


def promoted_floating(g, *operands: Operand) -> List[Value]:
    """The operands in one floating type: integers become torch's default type."""
    dtype = result_dtype(*operands)
    return promoted(g, *operands, dtype=dtype if dtype.is_floating_point else torch.get_default_dtype())


def as_result(g, node, operand: Operand, output: int = 0) -> Value:
    """An operand in the type that an output of the node has."""
    return as_value(g, operand, node.outputs[output].dtype)


@op("aten::_to_copy")
def to_copy(g, node, self, *args, **kwargs):
    dtype = node.outputs[0].dtype
    if is_floating(self) and dtype in (torch.int8, torch.uint8, torch.int16):
        self = g.cast(self, torch.int32)  # what does not fit wraps, as in torch
    return g.cast(self, dtype)
