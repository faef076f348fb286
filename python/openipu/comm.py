"""The processes that a launcher (mpirun, poprun) started together (ipu/comm.h)."""

from __future__ import annotations

import atexit
from ctypes import byref, c_int, c_int64, c_size_t, c_void_p
from typing import Dict, Optional

from .abi import Record
from .library import check, declare, lib

declare("ipu_comm_open", c_int, [c_void_p])
declare("ipu_comm_close", None, [c_void_p])
declare("ipu_comm_rank", c_int64, [c_void_p])
declare("ipu_comm_size", c_int64, [c_void_p])
declare("ipu_comm_broadcast", c_int, [c_void_p, c_int64, c_void_p, c_size_t])
declare("ipu_comm_agree", c_int, [c_void_p, c_void_p, c_size_t])

_world: Optional["Comm"] = None


class _Item(Record):
    _name_ = "ipu_comm_item"


class Comm:
    """The group of processes that this one was started in."""

    def __init__(self) -> None:
        self.pointer = c_void_p()
        check(lib().ipu_comm_open(byref(self.pointer)))
        self.rank = lib().ipu_comm_rank(self.pointer)
        self.size = lib().ipu_comm_size(self.pointer)
        atexit.register(self.close)

    def broadcast(self, address: int, n_bytes: int) -> None:
        """Bytes of process 0 to all, which all call it."""
        check(lib().ipu_comm_broadcast(self.pointer, 0, address, n_bytes))

    def agree(self, items: Dict[str, object]) -> None:
        """Raise Error in all processes where not all were started with the same; the message says what differs."""
        array = (_Item * max(1, len(items)))(*[_Item(k.encode(), str(v).encode()) for k, v in items.items()])
        check(lib().ipu_comm_agree(self.pointer, array, len(items)))

    def close(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer:
            lib().ipu_comm_close(pointer)


def world() -> Comm:
    """The processes that a launcher started together with this one, opened at the first call; this one alone otherwise."""
    global _world
    if _world is None:
        _world = Comm()
    return _world
