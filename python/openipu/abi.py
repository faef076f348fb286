"""Structures of the library's headers, as the library itself describes them (ipu/abi.h).

    class Shape(Record):
        _name_ = "ipu_shape"            # members, types and offsets come from the library, when it is loaded

A class gets its members before the first object of it is made: that loads the library. What C adds to a structure is
there at once, and what it moves has moved.
"""

from __future__ import annotations

import threading
from ctypes import (CDLL, POINTER, Structure, byref, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_void_p,
                    sizeof)
from typing import Any, Callable, Dict, List, Tuple

from .error import Error

_SCALARS = {"bool": c_bool, "int": c_int, "uint": c_uint32, "int64": c_int64, "size": c_size_t, "double": c_double,
            "text": c_char_p, "pointer": c_void_p}

_records: Dict[str, type] = {}  # by name in C
_layouts: Dict[str, "_Layout"] = {}
_constants: Dict[str, int] = {}
_expected: List[Tuple[str, object]] = []
_load: Callable[[], object]

#: Held while the library is loaded, and where a module adds to what is read and checked then: modules are imported by any
#: thread. Of a kind that may be taken again, for what loading itself makes.
loading = threading.RLock()


class _Layout:
    """What the library says of one structure."""

    def __init__(self, n_bytes: int):
        self.n_bytes = n_bytes
        self.members: List[Tuple[str, str, int, int]] = []  # name, type, offset, bytes


class _Member(Structure):
    """ipu_abi_member, the one structure that has to be known."""
    _fields_ = [("structure", c_char_p), ("name", c_char_p), ("type", c_char_p), ("offset", c_size_t), ("bytes", c_size_t)]


class _Constant(Structure):
    """ipu_abi_constant"""
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class _RecordType(type(Structure)):  # type: ignore[misc]

    def __init__(cls, *arguments: Any) -> None:
        super().__init__(*arguments)
        if "_name_" in cls.__dict__:
            with loading:
                cls._register()

    def _register(cls) -> None:
        before = _records.get(cls._name_)
        if before is not None and before.__module__ == __name__:
            raise TypeError(f"{cls.__module__}.{cls.__name__} comes after a class whose members it is among: "
                            f"{cls._name_} has a class of its own already, and ctypes takes no other; put it first")
        _records[cls._name_] = cls
        if _layouts:
            _describe(cls)

    def __mul__(cls, n: int) -> Any:
        _complete(cls)
        return super().__mul__(n)


class Record(Structure, metaclass=_RecordType):
    """A structure of C. A subclass says which: ``_name_ = "ipu_shape"``."""

    def __new__(cls, *_args: object, **_members: object) -> "Record":
        _complete(cls)
        return super().__new__(cls)


def _element(type_name: str) -> Any:
    """The ctypes type of a type's name; a structure that no class stands for is one of its own."""
    if type_name in _SCALARS:
        return _SCALARS[type_name]
    cls = _records.get(type_name) or type(type_name, (Record,), {"_name_": type_name})
    _describe(cls)
    return cls


def _type(type_name: str, n_bytes: int) -> Any:
    is_pointer = type_name.endswith("*")
    element = _element(type_name.rstrip("*"))
    if not is_pointer and sizeof(element) == n_bytes:
        return element
    if n_bytes == sizeof(c_void_p):
        return POINTER(element)
    return element * (n_bytes // sizeof(element))  # C's array, which is told as a pointer


def _describe(cls: Any) -> None:
    """Give a class its members."""
    if "_fields_" in cls.__dict__:
        return
    layout = _layouts.get(cls._name_)
    if layout is None:
        raise Error(f"libipu.so does not describe {cls._name_}: it is older than this package; install both from one source",
                    "UNSUPPORTED")
    cls._fields_ = [(name, _type(type_name, n_bytes)) for name, type_name, _, n_bytes in layout.members]
    for name, _, offset, n_bytes in layout.members:
        found = getattr(cls, name)
        if (found.offset, found.size) != (offset, n_bytes):
            raise Error(f"{cls._name_}.{name} is at {found.offset} in Python, and at {offset} in libipu.so, which was compiled for "
                        "another machine, or does not list all members of the structure", "UNSUPPORTED")
    if sizeof(cls) != layout.n_bytes:
        raise Error(f"{cls._name_} has {sizeof(cls)} bytes in Python, and {layout.n_bytes} in libipu.so", "UNSUPPORTED")


def _complete(cls: Any) -> None:
    if "_fields_" not in cls.__dict__:
        _load()
        _describe(cls)


def expect(prefix: str, names: object) -> None:
    """C's constants ``prefix + name`` are what ``names`` says: an IntEnum, a dict, or names in the order of C's from 0 on. Checked when the
    library is loaded."""
    with loading:
        _expected.append((prefix, names))
        if _constants:
            _check(prefix, names)


def _check(prefix: str, names: Any) -> None:
    if isinstance(names, tuple):
        pairs = {name: i for i, name in enumerate(names)}
    else:
        pairs = {name: int(value) for name, value in getattr(names, "__members__", names).items()}
    for name, value in pairs.items():
        if _constants.get(prefix + name.upper()) != value:
            raise Error(f"{prefix}{name.upper()} is {value} in Python, and {_constants.get(prefix + name.upper())} in libipu.so: install "
                        "both from one source", "UNSUPPORTED")


def on_demand(load: Callable[[], object]) -> None:
    """What loads the library."""
    global _load
    _load = load


def read(library: CDLL, place: str) -> None:
    """What the library says of itself; Error: it says nothing, or what this package cannot work with. The caller holds
    `loading`."""
    if not hasattr(library, "ipu_abi_member_at"):
        raise Error(f"{place} has no ipu_abi_member_at: it is no libipu.so, or an older one than this package; install both from one "
                    "source, or set IPU_LIBRARY to the path of the right one", "UNSUPPORTED")
    member, constant, i = _Member(), _Constant(), 0
    library.ipu_abi_member_at.argtypes = library.ipu_abi_constant_at.argtypes = [c_size_t, c_void_p]
    library.ipu_abi_member_at.restype = library.ipu_abi_constant_at.restype = c_bool
    while library.ipu_abi_member_at(i, byref(member)):
        i += 1
        structure = member.structure.decode()
        if not member.name:
            _layouts[structure] = _Layout(member.bytes)
        else:
            _layouts[structure].members.append((member.name.decode(), member.type.decode(), member.offset, member.bytes))
    i = 0
    while library.ipu_abi_constant_at(i, byref(constant)):
        i += 1
        _constants[constant.name.decode()] = constant.value
    for prefix, names in _expected:
        _check(prefix, names)
    for cls in list(_records.values()):
        _describe(cls)
    if "__new__" in Record.__dict__:  # nothing is made on demand any more
        del Record.__new__, _RecordType.__mul__
