"""Arrays of the library and tensors of torch: the same memory, seen from both sides."""

from __future__ import annotations

import ctypes
from typing import Dict, Optional

import torch

from .error import Error
from .library import TYPE_NAMES, TYPE_NUMBERS, Array, Shape

#: The library's element type for a type of torch.
TYPES: Dict[torch.dtype, str] = {
    torch.float32: "float", torch.float16: "half", torch.float64: "double", torch.bfloat16: "bfloat16",
    torch.int64: "int64", torch.int32: "int32", torch.int16: "int16", torch.int8: "int8", torch.uint8: "uint8",
    torch.bool: "bool",
}

#: torch's type for one of the library. Unsigned ones that torch lacks are seen as signed.
DTYPES: Dict[str, torch.dtype] = {name: dtype for dtype, name in TYPES.items()}
DTYPES.update(uint16=torch.int16, uint32=torch.int32, uint64=torch.int64)

#: What a device holds a type as, where it has none of that size.
NARROW: Dict[torch.dtype, torch.dtype] = {torch.int64: torch.int32, torch.float64: torch.float32,
                                          torch.bfloat16: torch.float32}


def type_number(dtype: torch.dtype, what: str = "tensor") -> int:
    """ipu_type for a type of torch; openipu.Error: there is none."""
    try:
        return TYPE_NUMBERS[TYPES[dtype]]
    except KeyError:
        raise Error(f"{what}: tensors of {dtype} are not supported; expected one of: "
                    + ", ".join(str(known) for known in TYPES), "UNSUPPORTED") from None


def array_over(tensor: torch.Tensor, what: str = "tensor") -> Array:
    """An array over a contiguous tensor's memory, which the caller keeps alive."""
    return Array(type_number(tensor.dtype, what), Shape.of(tuple(tensor.shape)), tensor.data_ptr())


def tensor_over(array: Array, keep: Optional[object] = None) -> torch.Tensor:
    """A tensor over an array's memory, which the library keeps alive; `keep` lives as long as the tensor."""
    shape = array.shape.tuple()
    dtype = DTYPES[TYPE_NAMES[array.type]]
    n = 1
    for dim in shape:
        n *= dim
    if n == 0 or not array.data:
        return torch.empty(shape, dtype=dtype)
    size = torch.empty((), dtype=dtype).element_size()
    memory = (ctypes.c_uint8 * (n * size)).from_address(array.data)
    memory.keep = keep
    return torch.frombuffer(memory, dtype=dtype).reshape(shape)
