"""Host functions: Python called during a run, with arrays of the device.

    function = HostFunction("double", lambda ins: [2 * ins[0]])        numpy arrays in, numpy arrays out
    y, = call(network, function, [x], [("float", (4, ))])
"""

from __future__ import annotations

from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_int, c_size_t, c_void_p
from typing import Callable, List, Optional, Sequence, Tuple

import numpy as np

from .arrays import numpy_over
from .error import Error
from .library import TYPE_NUMBERS, Array, RawValue, Shape, check, declare, finalizer, lib
from .network import Network, Value

#: ipu_host_fn
HostFn = CFUNCTYPE(c_int, c_void_p, POINTER(Array), c_size_t, POINTER(Array), c_size_t)

declare("ipu_host_register", c_int, [c_char_p, HostFn, c_void_p])
declare("ipu_host_unregister", None, [c_char_p])
declare("ipu_host_is_registered", c_bool, [c_char_p])
declare("ipu_host_fail", c_int, [c_char_p])
declare("ipu_host_call", None, [c_void_p, c_char_p, POINTER(RawValue), c_size_t, POINTER(Array), POINTER(RawValue),
                                c_size_t])
declare("ipu_host_show", RawValue, [c_void_p, RawValue, c_char_p, c_char_p])


class HostFunction:
    """A Python function that a model calls by its name while it runs; registered until `close`.

    :ivar error: the exception that ended the last run, if the function raised one.
    """

    def __init__(self, name: str, function: Callable[[List[np.ndarray]], Optional[Sequence[np.ndarray]]]) -> None:
        self.name = name
        self.error: Optional[BaseException] = None
        self._function = function
        self._callback = HostFn(self._called)  # as long as it is registered
        if not hasattr(lib(), "ipu_host_register"):
            raise Error("this libipu has no host functions (ipu_host_register): build a newer one", "UNSUPPORTED")
        check(lib().ipu_host_register(name.encode(), self._callback, None))
        self._open = True

    def _called(self, user: int, ins: object, n_in: int, outs: object, n_out: int) -> int:
        try:
            self.error = None
            results = self._function([numpy_over(ins[i]) for i in range(n_in)])
            for i in range(n_out):
                numpy_over(outs[i])[...] = results[i]
            return 0
        except BaseException as e:  # it must not pass through C
            self.error = e
            return lib().ipu_host_fail(f"{type(e).__name__}: {e}".encode())

    def close(self) -> None:
        """Nothing calls it any more."""
        if getattr(self, "_open", False):
            self._open = False
            lib().ipu_host_unregister(self.name.encode())

    __del__ = finalizer(close)


def call(network: Network, function: HostFunction, values: Sequence[Value],
         results: Sequence[Tuple[str, Sequence[int]]]) -> Tuple[Value, ...]:
    """The results, of these types and shapes, of a host function of the values."""
    like = (Array * max(1, len(results)))(*[Array(TYPE_NUMBERS[t], Shape.of(tuple(shape)), None) for t, shape in results])
    out = (RawValue * max(1, len(results)))()
    lib().ipu_host_call(network.builder, function.name.encode(), network.raws(values), len(values), like, out,
                        len(results))
    return tuple(network.value(out[i]) for i in range(len(results)))


def show(network: Network, value: Value, function: Optional[HostFunction],
         gradient: Optional[HostFunction] = None) -> Value:
    """The value itself, which a host function is called with; and its gradient with another."""
    return network.value(lib().ipu_host_show(network.builder, value.raw, function.name.encode() if function else None,
                                             gradient.name.encode() if gradient else None))
