"""torch's types on the device, and how they are promoted."""

from __future__ import annotations

from functools import lru_cache
from typing import Optional, Tuple, Union

import torch

from openipu import Value, tensors
from openipu.emitter import is_floating  # pylint: disable=unused-import

from .._errors import createPoptorchError

Number = Union[bool, int, float]
Operand = Union[Value, Number]

#: The device's type for each of torch's.
TYPES = {torch.float32: "float", torch.float16: "half", torch.float64: "float", torch.bfloat16: "float",
         torch.int32: "int32", torch.int64: "int32", torch.int16: "int16", torch.int8: "int8", torch.uint8: "uint8",
         torch.bool: "bool"}
#: torch's type that computes as the device's does: wider than the one that shares its memory, where torch has no unsigned one.
DTYPES = {**tensors.DTYPES, "uint16": torch.int32, "uint32": torch.int64}


def type_of(dtype: Union[torch.dtype, str]) -> str:
    """The device's type for one of torch's. Error: there is none."""
    if isinstance(dtype, str):
        return dtype
    found = TYPES.get(dtype)
    if found is None:
        raise createPoptorchError(f"Tensors of type {dtype} are not supported; use one of "
                                  f"{', '.join(str(t) for t in TYPES)}")
    return found


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
    return _meet(tuple([_kind(o) for o in operands]))
