"""Arrays of the library and of frameworks: the same memory, seen from both sides.

    array, owner = lend(x)          x: of numpy or torch, or with __array_interface__, __dlpack__ or the buffer protocol
    view = numpy_over(array)        memory of the library as an array of numpy

Nothing is copied but what the library cannot read as it is: memory whose elements are not one after the other. What needs
torch, tensor_over and NARROW of openipu.tensors, is imported when it is asked for.
"""

from __future__ import annotations

import ctypes
import struct
from ctypes import c_int64, c_uint8, c_void_p
from typing import Any, Dict, Optional, Tuple

import numpy as np

from .error import Error
from .library import TYPE_NAMES, TYPE_NUMBERS, TYPE_SIZES, Array, Shape
from .network import NUMPY_TYPES

#: The library's element type by the name that numpy, torch and most others give it.
TYPES: Dict[str, str] = {
    "float32": "float", "float16": "half", "float64": "double", "bfloat16": "bfloat16", "int64": "int64", "int32": "int32",
    "int16": "int16", "int8": "int8", "uint8": "uint8", "bool": "bool", "uint16": "uint16", "uint32": "uint32",
    "uint64": "uint64",
}

_known: Dict[Any, int] = {}  # numbers of types, by the frameworks' own objects for them


def type_number(dtype: Any, what: str = "tensor") -> int:
    """ipu_type for a type of numpy, torch or another that names its types as they do; openipu.Error: there is none."""
    number = _known.get(dtype)
    if number is not None:
        return number
    module, _, name = str(dtype).rpartition(".")
    if name not in TYPES:
        prefix = f"{module}." if module else ""
        raise Error(f"{what}: tensors of {dtype} are not supported; expected one of: " +
                    ", ".join(prefix + known for known in TYPES), "UNSUPPORTED")
    _known[dtype] = TYPE_NUMBERS[TYPES[name]]
    return _known[dtype]


def array_over(tensor: Any, what: str = "tensor") -> Array:
    """An array over the memory of a contiguous tensor of torch (or what looks like one), which the caller keeps alive."""
    return Array(type_number(tensor.dtype, what), Shape.of(tuple(tensor.shape)), tensor.data_ptr())


def numpy_over(array: Array, keep: Optional[object] = None) -> np.ndarray:
    """An array of numpy over an array's memory, which the library keeps alive; `keep` lives as long as the result."""
    shape, name = array.shape.tuple(), TYPE_NAMES[array.type]
    if name not in NUMPY_TYPES:
        raise Error(f"numpy has no {name}: cast the output to float", "UNSUPPORTED")
    dtype = np.dtype(NUMPY_TYPES[name])
    n = int(np.prod(shape, dtype=np.int64))
    if n == 0 or not array.data:
        return np.empty(shape, dtype)
    memory = (c_uint8 * (n * dtype.itemsize)).from_address(array.data)
    memory.keep = keep
    return np.frombuffer(memory, dtype=dtype).reshape(shape)


def __getattr__(name: str) -> object:
    if name in ("NARROW", "tensor_over"):
        from . import tensors
        return getattr(tensors, name)
    raise AttributeError(f"module 'openipu.arrays' has no attribute {name!r}")


# ---- memory of others ----


#: DLTensor of dlpack.h, which a capsule named "dltensor" begins with: data, device's type and id, number of dimensions, type's
#: code, bits and lanes, addresses of shape and strides, byte offset.
_DL_TENSOR = struct.Struct("@PiiiBBHPPQ")

#: DLDataTypeCode
_DL_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
#: Devices whose memory the processor reads: kDLCPU, kDLCUDAHost, kDLROCMHost.
_DL_HOSTS = (1, 3, 11)

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _Memory:
    """Where elements are. `strides` in elements, None: one after the other."""

    def __init__(self, number: int, shape: Tuple[int, ...], address: int, strides: Optional[Tuple[int, ...]],
                 owner: object) -> None:
        self.number = number
        self.shape = shape
        self.address = address
        self.strides = strides if strides is not None and not _is_plain(shape, strides) else None
        self.owner = owner

    def array(self) -> Array:
        return Array(self.number, Shape.of(self.shape), self.address)

    def joined(self) -> "_Memory":
        """With its elements one after the other: itself, or a copy."""
        if self.strides is None:
            return self
        size = TYPE_SIZES[TYPE_NAMES[self.number]]
        bits = np.dtype(f"u{size}")
        low = sum((n - 1) * s for n, s in zip(self.shape, self.strides) if s < 0)
        n = 1 + sum((n - 1) * abs(s) for n, s in zip(self.shape, self.strides))
        memory = (c_uint8 * (n * size)).from_address(self.address + low * size)
        view = np.ndarray(self.shape, bits, memory, -low * size, tuple(s * size for s in self.strides))
        copy = np.ascontiguousarray(view).reshape(self.shape)
        return _Memory(self.number, self.shape, copy.ctypes.data, None, copy)


def _is_plain(shape: Tuple[int, ...], strides: Tuple[int, ...]) -> bool:
    """Whether elements are one after the other, in the order of rows."""
    if 0 in shape:
        return True
    step = 1
    for n, stride in zip(reversed(shape), reversed(strides)):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


def _of_torch(x: Any, what: str) -> _Memory:
    if x.device.type != "cpu":
        raise Error(f"{what}: a tensor on {x.device}; expected one in the memory of the host: call .cpu() first", "UNSUPPORTED")
    if str(x.layout) != "torch.strided":
        raise Error(f"{what}: a tensor of layout {x.layout}; expected a dense one: call .to_dense() first", "UNSUPPORTED")
    number = type_number(x.dtype, what)
    if hasattr(x, "resolve_neg"):
        x = x.resolve_neg()  # z.conj().imag is the memory of z.imag, and a note that its sign is to be changed
    return _Memory(number, tuple(x.shape), x.data_ptr(), tuple(x.stride()), x)


def _of_numpy(x: np.ndarray, what: str) -> _Memory:
    number = type_number(x.dtype, what)
    size = x.dtype.itemsize
    if any(stride % size for stride in x.strides):
        x = x.copy()
    return _Memory(number, x.shape, x.__array_interface__["data"][0], tuple(stride // size for stride in x.strides), x)


def _of_dlpack(x: Any, what: str) -> _Memory:
    device = tuple(x.__dlpack_device__()) if hasattr(x, "__dlpack_device__") else (1, 0)
    if int(device[0]) not in _DL_HOSTS:
        raise Error(f"{what}: memory of DLPack device {device}; expected the host's: copy it there first", "UNSUPPORTED")
    capsule = x.__dlpack__()
    head = ctypes.string_at(_capsule_pointer(capsule, b"dltensor"), _DL_TENSOR.size)
    data, _, _, n, code, bits, lanes, shape, strides, offset = _DL_TENSOR.unpack(head)
    kind = _DL_KINDS.get(code, f"DLPack code {code} of ")
    name = "bool" if kind == "bool" and bits == 8 else f"{kind}{bits}"
    if lanes != 1:
        name += f"x{lanes}"
    own = tuple((c_int64 * n).from_address(strides)) if strides else None
    return _Memory(type_number(name, what), tuple((c_int64 * n).from_address(shape)) if n else (), data + offset, own,
                   (capsule, x))


def _memory_of(x: Any, what: str) -> _Memory:
    if isinstance(x, np.ndarray):
        return _of_numpy(x, what)
    if hasattr(x, "data_ptr") and hasattr(x, "stride"):
        return _of_torch(x, what)
    if hasattr(x, "__array_interface__"):
        return _of_numpy(np.asarray(x), what)
    try:
        memory = memoryview(x)
    except (TypeError, BufferError):
        if hasattr(x, "__dlpack__"):
            return _of_dlpack(x, what)
        found = np.asarray(x)  # numbers, lists, and what has __array__
        if found.dtype.hasobject:
            raise Error(f"{what}: {type(x).__name__} is no array; expected one of numpy or torch, or an object with "
                        "__array_interface__, __dlpack__ or the buffer protocol", "UNSUPPORTED") from None
        return _of_numpy(found, what)
    return _of_numpy(np.asarray(memory), what)


def lend(x: Any, what: str = "tensor") -> Tuple[Array, object]:
    """An array over the memory of any framework's, and the object that keeps it alive, which the caller holds as long as
    the array is used. Of memory whose elements are not one after the other it is a copy."""
    memory = _memory_of(x, what).joined()
    return memory.array(), memory.owner


def numpy_of(x: Any, what: str = "tensor") -> np.ndarray:
    """Anything that `lend` takes as an array of numpy, over the same memory; bfloat16, which numpy has not, is copied to
    float."""
    if isinstance(x, (np.ndarray, bool, int, float, list, tuple)):
        found = np.asarray(x)
        type_number(found.dtype, what)
        return found
    memory = _memory_of(x, what)
    if isinstance(memory.owner, np.ndarray) and memory.owner.dtype.type in NUMPY_TYPES.values():
        return memory.owner
    memory = memory.joined()
    name = TYPE_NAMES[memory.number]
    if name == "bfloat16":
        bits = numpy_over(Array(TYPE_NUMBERS["uint16"], Shape.of(memory.shape), memory.address), memory.owner)
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return numpy_over(memory.array(), memory.owner)
