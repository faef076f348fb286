"""torch's tensors over the library's memory, and what devices hold of torch's types."""

from __future__ import annotations

import ctypes
from typing import Dict, Optional

import torch

from .library import TYPE_NAMES, Array

#: torch's type for one of the library. Unsigned ones that torch lacks are seen as signed.
DTYPES: Dict[str, torch.dtype] = {
    "float": torch.float32, "half": torch.float16, "double": torch.float64, "bfloat16": torch.bfloat16,
    "int64": torch.int64, "int32": torch.int32, "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8,
    "bool": torch.bool, "uint16": torch.int16, "uint32": torch.int32, "uint64": torch.int64,
}

#: What a device holds a type as, where it has none of that size.
NARROW: Dict[torch.dtype, torch.dtype] = {torch.int64: torch.int32, torch.float64: torch.float32,
                                          torch.bfloat16: torch.float32}


def narrowed(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as a device has it: of one of its types, and contiguous. Whole numbers keep their lower bits, as those of
    inputs do, and as in PopTorch."""
    return tensor.detach().to(NARROW.get(tensor.dtype, tensor.dtype)).resolve_neg().contiguous()


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
