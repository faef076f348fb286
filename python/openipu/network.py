"""Networks: an ipu_model being built, value by value.

    net = Network.create()
    x = net.input("x", "float", (64, 784))
    w = net.parameter("w", "float", (784, 10))
    net.output(net.emit("relu", [net.emit("matmul", [x, w])]), "y")
    net.check()

Inside the forward function of a module (openipu.executor) the model is borrowed: Network(pointer).
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from ctypes import byref, c_int64, c_void_p
from functools import lru_cache
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from .error import Error, status_name
from .library import (FLOAT, INT, INTS, TEXT, TYPE_NAMES, TYPE_NUMBERS, GradientFn, GradientOptions, OpInfo, RawAttribute,
                      RawValue, Shape, check, finalizer, lib, message)

#: numpy's type for each element type it has.
NUMPY_TYPES = {"bool": np.bool_, "int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16,
               "int32": np.int32, "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64, "half": np.float16,
               "float": np.float32, "double": np.float64}


class Value:
    """A value of a network: a tensor that a run will compute.

    Attributes:
        shape: dimensions, a tuple of ints.
        type: element type by its name: "float", "half", "int32", "bool", ...
        id: number of the value in its network.
    """

    __slots__ = ("network", "id", "shape", "type")

    def __init__(self, network: "Network", number: int, shape: Tuple[int, ...], type_name: str):
        self.network = network
        self.id = number
        self.shape = shape
        self.type = type_name

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def n_elements(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) if self.shape else 1

    @property
    def raw(self) -> RawValue:
        return RawValue(self.network.builder, self.id)

    def __repr__(self) -> str:
        return f"Value({self.type}{list(self.shape)})"


class Op:
    """What an op is: names of its inputs ("x?": it may be left out) and outputs, kinds of its attributes, those it needs."""

    __slots__ = ("name", "inputs", "outputs", "kinds", "required", "has_gradient", "encoded")

    def __init__(self, name: str):
        info = OpInfo()
        check(lib().ipu_op_info_find(name.encode(), byref(info)))
        self.name = name
        self.encoded = name.encode()
        self.inputs = _texts(info.inputs)
        self.outputs = _texts(info.outputs)
        self.kinds: Dict[str, int] = {
            info.attributes[i].name.decode(): info.attributes[i].kind for i in range(info.n_attributes)
        }
        self.required = [info.attributes[i].name.decode() for i in range(info.n_attributes) if info.attributes[i].required]
        self.has_gradient = bool(info.has_gradient)


def _texts(pointers: object) -> list:
    found = []
    while pointers and pointers[len(found)]:
        found.append(pointers[len(found)].decode())
    return found


@lru_cache(maxsize=None)
def op_info(name: str) -> Op:
    """The op of that name; openipu.Error names the nearest if there is none."""
    return Op(name)


def _attributes(op: Op, given: dict) -> Tuple[object, int, list]:
    """An array of RawAttribute, its length, and what must live as long."""
    given = {k: v for k, v in given.items() if v is not None}
    if not given:
        return None, 0, []
    array = (RawAttribute * len(given))()
    keep = []
    for raw, (name, value) in zip(array, given.items()):
        kind = op.kinds.get(name)
        if kind is None:
            raise Error(f"op {op.name} has no attribute {name!r}; it has: {', '.join(op.kinds) or 'none'}")
        raw.name = name.encode()
        raw.kind = kind
        if kind == INT:
            raw.i = int(value)
        elif kind == FLOAT:
            raw.f = float(value)
        elif kind == TEXT:
            raw.text = str(value).encode()
        elif kind == INTS:
            values = [int(v) for v in value]
            ints = (c_int64 * len(values))(*values)
            keep.append(ints)
            raw.ints = ctypes.cast(ints, ctypes.POINTER(c_int64))
            raw.n_ints = len(values)
    return array, len(given), keep


@lru_cache(maxsize=None)
def _file_name(file: str) -> bytes:
    """The name of a file as the library borrows it. Threads go on pointing to it after the network is gone: it is kept."""
    return file.encode()


@lru_cache(maxsize=None)
def _raw_values(n: int) -> type:
    """The type of an array of so many RawValue."""
    return RawValue * n


class Network:
    """An ipu_model: inputs, parameters, states, ops and outputs."""

    def __init__(self, pointer: int, owned: bool = False):
        self._lib = lib()
        self.pointer = pointer
        self.builder = self._lib.ipu_model_builder(pointer)
        self._owned = owned
        self._made: list = [{}]
        self._seed: Optional[Value] = None
        self._callbacks: list = []
        #: What a gradient function raised: C cannot pass it on.
        self.raised: Optional[BaseException] = None
        self._lib.ipu_here(None, 0)  # not where this thread's last network was written

    @classmethod
    def create(cls) -> "Network":
        """A network of its own, to be compiled with openipu.network.compile."""
        pointer = c_void_p()
        check(lib().ipu_model_create(byref(pointer)))
        return cls(pointer.value, owned=True)

    def close(self) -> None:
        """A network of its own is freed: nothing can be done with it afterwards."""
        if getattr(self, "_owned", False) and self.pointer:
            self._lib.ipu_model_destroy(self.pointer)
            self.pointer = None

    __del__ = finalizer(close)

    # ---- errors ----

    def check(self) -> None:
        """Raise the first error of the builder, if there is one."""
        code = self._lib.ipu_builder_status(self.builder)
        if code:
            raise Error(self._lib.ipu_builder_message(self.builder).decode(errors="replace"), status_name(code))

    def at(self, file: Optional[str], line: int) -> None:
        """Ops emitted from now on were written in this line."""
        self._lib.ipu_here(_file_name(file) if file else None, line)

    # ---- values ----

    def value(self, raw: RawValue) -> Value:
        """A raw value with what is known about it."""
        if not raw.id:
            self.check()
            raise Error("the library gave no value and no error")
        shape = self._lib.ipu_value_shape(raw)
        return Value(self, raw.id, tuple(shape.dim[:shape.rank]), TYPE_NAMES[self._lib.ipu_value_type(raw)])

    def raws(self, values: Sequence[Optional[Value]]) -> object:
        """An array of RawValue; None becomes null."""
        array = _raw_values(len(values) or 1)()
        builder = self.builder
        for raw, value in zip(array, values):
            if value is not None:
                raw.builder = builder
                raw.id = value.id
        return array

    def emit(self, op: str, values: Sequence[Optional[Value]], n_out: int = 1,
             **attributes: object) -> Union[Value, Tuple[Value, ...]]:
        """An op by its name. Attributes that are None are left out."""
        info = op_info(op)
        raw_attributes, n, keep = _attributes(info, attributes)
        out = _raw_values(n_out)()
        self._lib.ipu_emit(self.builder, info.encoded, raw_attributes, n, self.raws(values), len(values), out, n_out)
        del keep
        if n_out == 1:
            return self.value(out[0])
        return tuple(self.value(raw) for raw in out)

    def scalar(self, number: Union[int, float, bool], type_name: str, shape: Sequence[int] = ()) -> Value:
        """A constant of which all elements are `number`."""
        shape = tuple(shape)
        if isinstance(number, np.generic):
            number = number.item()
        key = (number, math.copysign(1, number), type(number), type_name, shape)  # -0.0 equals 0.0
        known = self.recall(key)
        if known is not None:
            return known
        if type_name in ("int64", "uint64") or (type_name in ("int32", "uint32") and isinstance(number, int)):
            value = self.array(np.full(shape, number, NUMPY_TYPES[type_name]))
        else:
            value = self.value(self._lib.ipu_constant_value(self.builder, TYPE_NUMBERS[type_name], Shape.of(shape),
                                                            float(number)))
        self.remember(key, value)
        return value

    def remember(self, key: tuple, value: Value) -> None:
        """Keep a value that may be wanted again, until the branch or loop that it is made in ends."""
        self._made[-1][key] = value

    def recall(self, key: tuple) -> Optional[Value]:
        """What was remembered under a key, where it can be used."""
        for level in reversed(self._made):
            if key in level:
                return level[key]
        return None

    def array(self, data: np.ndarray, type_name: Optional[str] = None) -> Value:
        """A constant with the values of a numpy array (of a shape and type of its own)."""
        data = np.asarray(data)
        if type_name is None:
            type_name = next(name for name, t in NUMPY_TYPES.items() if t == data.dtype.type)
        data = np.ascontiguousarray(data, dtype=NUMPY_TYPES[type_name]).reshape(data.shape)
        return self.data(type_name, data.shape, data.ctypes.data)

    def data(self, type_name: str, shape: Sequence[int], address: int) -> Value:
        """A constant with the values at an address (copied)."""
        return self.value(self._lib.ipu_constant_data(self.builder, TYPE_NUMBERS[type_name], Shape.of(tuple(shape)),
                                                      address))

    def named(self, value: Value, name: str) -> Value:
        """The same value, from now on called so within the scope."""
        return self.value(self._lib.ipu_named(self.builder, value.raw, name.encode()))

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Values named inside have names that begin with this one: "encoder/scores"."""
        self._lib.ipu_builder_push_scope(self.builder, name.encode())
        try:
            yield
        finally:
            self._lib.ipu_builder_pop_scope(self.builder)

    def value_named(self, name: str) -> Value:
        """The value of that name: an input, parameter, state or output, or what `named` called so, scopes included. It can be
        an output, or what gradients are taken of or by. openipu.Error names the nearest if there is none."""
        raw = self._lib.ipu_model_value_named(self.pointer, name.encode())
        if not raw.id:
            raise Error(message(), "NOT_FOUND")
        return self.value(raw)

    # ---- what goes in, stays and comes out ----

    def input(self, name: str, type_name: str, shape: Sequence[int]) -> Value:
        return self.value(self._lib.ipu_model_input(self.pointer, TYPE_NUMBERS[type_name], Shape.of(tuple(shape)),
                                                    name.encode()))

    def parameter(self, name: str, type_name: str, shape: Sequence[int], address: Optional[int] = None) -> Value:
        """A trained value; its first elements are those at the address (copied), or zeros."""
        return self.value(self._lib.ipu_model_parameter(self.pointer, TYPE_NUMBERS[type_name],
                                                        Shape.of(tuple(shape)), address, name.encode()))

    def state(self, name: str, type_name: str, shape: Sequence[int], address: Optional[int] = None) -> Value:
        """A value kept between runs that is not trained."""
        return self.value(self._lib.ipu_model_state(self.pointer, TYPE_NUMBERS[type_name], Shape.of(tuple(shape)),
                                                    address, name.encode()))

    def output(self, value: Value, name: str) -> None:
        self._lib.ipu_model_output(self.pointer, value.raw, name.encode())

    def outputs(self) -> list:
        """Names and values of the outputs so far."""
        name = ctypes.c_char_p()
        found = []
        for i in range(self._lib.ipu_model_n_outputs(self.pointer)):
            raw = self._lib.ipu_model_output_at(self.pointer, i, byref(name))
            found.append((name.value.decode(), self.value(raw)))
        return found

    def loss(self, value: Value, name: str) -> None:
        """A scalar that is trained for; also an output of that name."""
        self._lib.ipu_nn_loss(self.pointer, value.raw, name.encode())

    def update(self, kept: Value, value: Value) -> None:
        """After a run the parameter or state `kept` is `value`."""
        self._lib.ipu_model_update(self.pointer, kept.raw, value.raw)

    def seed(self) -> Value:
        """What random ops draw from, uint32[2]."""
        if self._seed is None:
            self._seed = self.value(self._lib.ipu_model_seed(self.pointer))
        return self._seed

    @property
    def draws(self) -> bool:
        """Whether there are random ops."""
        return self._seed is not None

    def stop_gradient(self, value: Value) -> Value:
        return self.emit("stop_gradient", [value])

    def gradients(self, y: Value, x: Sequence[Value], d_y: Optional[Value] = None,
                  higher_order: bool = False) -> List[Optional[Value]]:
        """Gradients of y by each x, None where it does not depend on it. `d_y`: of y, which must be a scalar without it;
        `higher_order`: they are to be differentiated themselves."""
        options = GradientOptions(None, 0, higher_order, True, d_y.raw if d_y is not None else RawValue())
        out = (RawValue * len(x))()
        self._lib.ipu_model_gradients(self.pointer, y.raw, self.raws(x), len(x), byref(options), out)
        self.check()
        return [self.value(raw) if raw.id else None for raw in out]

    def custom_gradient(self, given: Sequence[Value], results: Sequence[Value],
                        gradient: Callable[[List[Optional[Value]]], Sequence[Optional[Value]]]) -> Tuple[Value, ...]:
        """The results, whose gradients are one's own: where they are taken, `gradient` is called with those of the results
        (None where there is none) and emits those of what was given (None: there is none). The network must live until it is
        compiled."""

        def called(model: int, d_y: object, n_y: int, d_x: object, n: int, user: Optional[int]) -> None:
            try:
                found = gradient([self.value(d_y[i]) if d_y[i].id else None for i in range(n_y)])
                for i, value in enumerate(found):
                    if value is not None:
                        d_x[i] = value.raw
            except BaseException as e:  # pylint: disable=broad-except
                self.raised = e

        callback = GradientFn(called)
        self._callbacks.append(callback)
        out = (RawValue * len(results))()
        self._lib.ipu_model_custom_gradient(self.pointer, self.raws(given), len(given), self.raws(results), len(results),
                                            callback, None, out)
        return tuple(self.value(raw) for raw in out)

    def stage(self, name: str) -> None:
        """Ops emitted from now on are of the stage of that name."""
        self._lib.ipu_model_stage(self.pointer, name.encode())

    @property
    def training(self) -> bool:
        """Whether it is built to be trained."""
        return bool(self._lib.ipu_nn_is_training(self.pointer))

    @training.setter
    def training(self, training: bool) -> None:
        self._lib.ipu_nn_set_training(self.pointer, training)

    # ---- branches and loops ----

    def begin_if(self, condition: Value) -> None:
        """What follows, up to `yield_values`, is done if the scalar bool `condition` is true."""
        self._lib.ipu_model_if(self.pointer, condition.raw)
        self._made.append({})

    def begin_else(self) -> None:
        self._lib.ipu_model_else(self.pointer)
        self._made[-1] = {}

    def begin_loop(self, most: int, carried: Sequence[Value],
                   first: Optional[Value] = None) -> Tuple[Tuple[Value, ...], Value]:
        """A loop of at most `most` turns: the carried values inside it, and the int32 number of the turn."""
        inside = (RawValue * max(1, len(carried)))()
        index = RawValue()
        self._lib.ipu_model_loop(self.pointer, most, first.raw if first else RawValue(), self.raws(carried),
                                 len(carried), inside, byref(index))
        self._made.append({})
        return tuple(self.value(inside[i]) for i in range(len(carried))), self.value(index)

    def yield_values(self, values: Sequence[Value], go_on: Optional[Value] = None) -> None:
        """What a branch, or a turn of a loop, gives; `go_on`: whether the loop has another turn."""
        if go_on is None:
            self._lib.ipu_model_yield(self.pointer, self.raws(values), len(values))
        else:
            self._lib.ipu_model_yield_while(self.pointer, go_on.raw, self.raws(values), len(values))

    def end(self, n: int) -> Tuple[Value, ...]:
        """The results of the branch or loop that was begun last."""
        out = (RawValue * max(1, n))()
        self._lib.ipu_model_end(self.pointer, out, n)
        self._made.pop()
        self.check()
        return tuple(self.value(out[i]) for i in range(n))

    # ---- text ----

    def text(self) -> str:
        """The network in the library's text form."""
        pointer = c_void_p()
        check(self._lib.ipu_model_print(self.pointer, 0, None, byref(pointer)))
        try:
            return ctypes.string_at(pointer.value).decode(errors="replace")
        finally:
            self._lib.ipu_free(pointer)
