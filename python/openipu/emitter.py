"""What every front end needs to write a program of its framework into a network of libipu.

    g = Emitter(network)
    g.at("net.py", 12)                        what follows was written there
    x = g.input("x", "float32", (8, 3))
    y = g.op.relu(g.op.add(x, 1))             an op of libipu by its name; numbers become constants of the type beside them
    g.output(y, "y")

A front end derives from Emitter, or gives it its types and its rule of promotion; the ops of its framework are rows of a table
(openipu.optable). docs/frontends.md tells how the parts go together.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from . import arrays
from .error import Error
from .library import TYPE_NUMBERS
from .network import NUMPY_TYPES, Network, Value

FLOATING = ("float", "half", "bfloat16", "double")
#: Numbers of Python and numpy. (numpy's have a type of their own, which counts only in Emitter.const.)
NUMBER = (int, float, bool, np.integer, np.floating, np.bool_)
_WHOLE = (int, np.integer)

#: The device's type for each of numpy's: a device has no 64 bits.
TYPES: Dict[Any, str] = {np.dtype(t): name for name, t in NUMPY_TYPES.items()}
TYPES.update({np.dtype(np.float64): "float", np.dtype(np.int64): "int32", np.dtype(np.uint64): "uint32"})

#: From a type of the device to the limits of what it holds, for types that wider numbers are clamped to.
_LIMITS = {"int32": (-2**31, 2**31 - 1), "int64": (-2**31, 2**31 - 1), "uint32": (0, 2**32 - 1)}

#: A rule of promotion: the type, the framework's or the device's, that operands (Values and numbers) meet in.
Promotion = Callable[..., Any]


def axis_of(axis: Any, shape: Sequence[int]) -> int:
    """An axis of a value of that shape, counted from the front; it may be given from the end."""
    n = len(shape)
    if not isinstance(axis, _WHOLE):
        raise Error(f"axis {axis!r} of a value of shape {list(shape)}: expected a whole number, found "
                    f"{type(axis).__name__}")
    if n == 0:
        raise Error(f"axis {axis} of a scalar: expected a value that has axes")
    if not -n <= axis < n:
        raise Error(f"axis {axis} of a value of shape {list(shape)}: expected one of {-n} to {n - 1}")
    return int(axis) % n


def axes_of(axes: Any, value: Value) -> List[int]:
    """Axes of a value, counted from the front: those of one number or several; None or [] are all. A scalar may be asked for
    its axis 0, and has none."""
    given = [axes] if isinstance(axes, _WHOLE) else axes
    if given is None or len(given) == 0:
        return list(range(value.rank))
    places = [axis_of(axis, value.shape or (1, )) for axis in given]
    return places if value.rank else []


def is_floating(value: Value) -> bool:
    """Whether a value holds floating point numbers."""
    return value.type in FLOATING


def same_type(*operands: Any) -> str:
    """The rule of TensorFlow, ONNX and Paddle: values are of one type already, and numbers take it."""
    types = [o.type for o in operands if isinstance(o, Value)]
    if not types:
        return number_type(*operands)
    if any(t != types[0] for t in types):
        raise Error(f"operands are of types {', '.join(types)}: they must be of one; cast them")
    return types[0]


def numpy_promotion(*operands: Any) -> str:
    """numpy's rule, with numbers as weak as they are in numpy 2: they matter if they are of a higher kind than all values."""
    values = [np.dtype(NUMPY_TYPES.get(o.type, np.float32)) for o in operands if isinstance(o, Value)]
    if not values:
        return number_type(*operands)
    result = TYPES[np.result_type(*values)]
    kind = number_type(*[o for o in operands if not isinstance(o, Value)] or [False])
    if kind == "float" and result not in FLOATING or kind == "int32" and result == "bool":
        return kind
    return result


def number_type(*numbers: Any) -> str:
    """The device's type for numbers: of the highest kind among them."""
    if any(isinstance(n, (float, np.floating)) for n in numbers):
        return "float"
    return "bool" if all(isinstance(n, (bool, np.bool_)) for n in numbers) else "int32"


class Ops:
    """g.op: every op of libipu as a method."""

    __slots__ = ("_g", )

    def __init__(self, g: "Emitter") -> None:
        self._g = g

    def __getattr__(self, name: str) -> Callable:
        g = self._g

        def emit(*values: Any, n_out: int = 1, **attributes: Any) -> Any:
            return g.emit(name, values, n_out=n_out, **attributes)

        return emit


class Unsupported:
    """The ops of a program that there is nothing for, with the places of their calls: one error tells all of them."""

    def __init__(self) -> None:
        self.places: Dict[str, List[str]] = {}

    def __bool__(self) -> bool:
        return bool(self.places)

    def add(self, op: str, where: str = "") -> None:
        """A call of an op."""
        self.places.setdefault(op, []).append(where)

    def message(self, advice: str = "Rewrite them with others, or run that part on the host") -> str:
        """All of them: their names in one line, then each with its places."""
        lines = []
        for op, places in self.places.items():
            known = [place for place in dict.fromkeys(places) if place]
            lines.append(f"  {op} (at {', '.join(known)})" if known else f"  {op}")
        return ("Unsupported ops found in compiled model: [" + ", ".join(self.places) + "]. Not all operations are supported "
                f"yet. {advice}:\n" + "\n".join(lines))

    def check(self) -> None:
        """openipu.Error if there are any."""
        if self.places:
            raise Error(self.message(), "UNSUPPORTED")


class Emitter:
    """Writes into a network.

    :ivar model: the network (openipu.Network).
    :ivar trains: whether it is built to be trained.
    :ivar training: whether gradients are taken.
    :ivar values: what each value of the program has become, by whatever the front end names them.
    :ivar kept: parameters and states by their names.
    :ivar op: libipu's ops as methods.
    :ivar result_type: the type that the framework computes in for operands that are Values or numbers: its rule of promotion.
    :ivar turns: the number of the turn of each loop that is being emitted, the outermost first.
    """

    #: The device's type for each type of the framework. A front end has its own.
    types: Mapping[Any, str] = TYPES
    #: The type that a framework computes floating results of whole numbers in.
    default_floating: Any = "float"

    def __init__(self, network: Network, training: Optional[bool] = None, promotion: Promotion = same_type) -> None:
        self.model = network
        self.trains = network.training if training is None else training
        self.training = self.trains
        self.values: Dict[Any, Value] = {}
        self.kept: Dict[str, Value] = {}
        self.op = Ops(self)
        self.turns: List[Value] = []
        self.result_type = promotion
        self._stage: Any = None

    def error(self, message: str) -> Exception:
        """An error of the front end, to be raised."""
        return Error(message)

    # ---- types ----

    def type_of(self, dtype: Any) -> str:
        """The device's type for one of the framework's, or of numpy's; a type of the device is itself."""
        found = self.types.get(dtype)
        if found is None and isinstance(dtype, str) and dtype in TYPE_NUMBERS:
            return dtype
        if found is None:
            with contextlib.suppress(TypeError):
                found = TYPES.get(np.dtype(dtype)) if dtype is not None else None
        if found is None:
            raise self.error(f"Tensors of type {dtype} are not supported; use one of {', '.join(str(t) for t in self.types)}")
        return found

    is_floating = staticmethod(is_floating)

    def promote(self, *operands: Any, dtype: Any = None) -> Tuple[Value, ...]:
        """Values, or numbers, in the type that the framework would compute with, or in the one given."""
        if dtype is None:
            dtype = self.result_type(*operands)
        return tuple([self.cast(operand, dtype) for operand in operands])

    def promote_floating(self, *operands: Any) -> Tuple[Value, ...]:
        """The same in a floating type: whole numbers become the framework's default one."""
        dtype = self.result_type(*operands)
        return self.promote(*operands, dtype=dtype if self.type_of(dtype) in FLOATING else self.default_floating)

    # ---- values ----

    def emit(self, name: str, values: Sequence[Any], n_out: int = 1, **attributes: Any) -> Any:
        """An op of libipu. Numbers among the values become constants of the type of the first Value."""
        for value in values:
            if isinstance(value, NUMBER):
                like = next((v.type for v in values if isinstance(v, Value)), "float")
                values = [self.model.scalar(v, like) if isinstance(v, NUMBER) else v for v in values]
                break
        return self.model.emit(name, values, n_out=n_out, **attributes)

    def const(self, data: Any, dtype: Any = None, shape: Optional[Sequence[int]] = None) -> Value:
        """A constant: a number (of a shape, if given), a list, or whatever openipu.arrays sees memory in."""
        if isinstance(data, Value):
            return data if dtype is None else self.cast(data, dtype)
        if isinstance(data, NUMBER) and (dtype is not None or isinstance(data, (int, float))):
            return self._number(data, number_type(data) if dtype is None else self.type_of(dtype), tuple(shape or ()))
        return self.constant_of(data, None if dtype is None else self.type_of(dtype), shape)

    def constant_of(self, data: Any, type_name: Optional[str], shape: Optional[Sequence[int]]) -> Value:
        """A constant of an array, of one of the device's types (None: of what the array's becomes there)."""
        array = arrays.numpy_of(data)
        name = type_name or self.type_of(array.dtype)
        if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and name in ("int32", "uint32"):
            array = array.clip(*_LIMITS[name])
        if shape is not None:
            array = np.broadcast_to(array.reshape(-1), tuple(shape)) if array.size == 1 else array.reshape(tuple(shape))
        return self.model.array(array, name)

    def _number(self, number: Any, name: str, shape: tuple) -> Value:
        if name in ("int32", "int64"):
            low, high = _LIMITS[name]
            number = max(low, min(high, int(number)))
        elif name == "bool":
            number = int(bool(number))
        return self.model.scalar(number, name, shape)

    def cast(self, value: Any, dtype: Any) -> Value:
        """A value in another type; a number becomes a constant."""
        name = self.type_of(dtype)
        if not isinstance(value, Value):
            return self.const(value, name)
        return value if value.type == name else self.model.emit("cast", [value], to=name)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape."""
        shape = tuple(int(d) for d in shape)
        return value if value.shape == shape else self.model.emit("reshape", [value], shape=shape)

    def broadcast(self, value: Value, shape: Sequence[int]) -> Value:
        """Repeated to a shape by the rule of broadcasting."""
        shape = tuple(int(d) for d in shape)
        return value if value.shape == shape else self.model.emit("expand", [value], shape=shape)

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """Dimension i of the result is perm[i] of the value; nothing is emitted for the order that is there."""
        perm = [axis_of(d, value.shape) for d in perm]
        return value if perm == list(range(value.rank)) else self.model.emit("transpose", [value], perm=perm)

    def seed(self) -> Value:
        """What random ops draw from; in a loop it is another one in each turn."""
        seed = self.model.seed()
        for depth, turn in enumerate(self.turns):
            seed = self.emit("seed_of_turn", [seed, turn], depth=depth)
        return seed

    # ---- where in the program ----

    def at(self, file: Optional[str], line: int = 0) -> None:
        """Ops emitted from now on were written there: the library's messages, listings and profiles say so."""
        self.model.at(file, line)

    @contextlib.contextmanager
    def doing(self, op: str, file: Optional[str] = None, line: int = 0) -> Iterator[None]:
        """Around the emission of one op of the program: where it was written, and errors that begin with its name."""
        self.at(file, line)
        try:
            yield
        except Error as e:
            where = f" (at {file}:{line})" if file and f"{file}:{line}" not in e.message else ""
            raise Error(f"{op}: {e.message}{where}", e.status) from e

    def begin_stages(self, names: Sequence[str]) -> None:
        """Number the stages of a pipeline in their order; the first is where it begins."""
        for name in [*names, *names[:1]]:
            self._stage = name
            self.model.stage(name)

    def stage(self, name: str) -> None:
        """Ops emitted from now on are of that stage."""
        if name != self._stage:
            self._stage = name
            self.model.stage(name)

    # ---- branches and loops ----

    def branch(self, condition: Value, then: Callable[[], Sequence[Value]], other: Callable[[], Sequence[Value]],
               draws: bool = False) -> Tuple[Value, ...]:
        """The results of one of two functions, which emit the branches. `draws`: whether random numbers are drawn in them."""
        if draws:
            self.model.seed()  # it has to be there before
        self.model.begin_if(self.reshape(self.cast(condition, "bool"), ()))
        first = tuple(then())
        self.model.yield_values(first)
        self.model.begin_else()
        second = tuple(other())
        if [(v.type, v.shape) for v in first] != [(v.type, v.shape) for v in second]:
            raise self.error(f"the branches give {_described(first)} and {_described(second)}: they must be alike")
        self.model.yield_values(second)
        return self.model.end(len(first))

    def repeat(self, count: int, body: Callable[..., Sequence[Value]], carried: Sequence[Value],
               draws: bool = False) -> Tuple[Value, ...]:
        """`count` turns of body(*carried), which is given its own results; the results of the last turn."""
        if count <= 0:
            return tuple(carried)
        return self._loop(count, None, lambda *inside: (self._carried(body(*inside), inside), None), carried, draws)

    def repeat_while(self, condition: Callable[..., Value], body: Callable[..., Sequence[Value]], carried: Sequence[Value],
                     most: int, draws: bool = False) -> Tuple[Value, ...]:
        """Turns of body(*carried) while condition(*carried) is true, at most `most` of them."""

        def asked(*values: Value) -> Value:
            return self.reshape(self.cast(condition(*values), "bool"), ())

        def turn(*inside: Value) -> tuple:
            results = self._carried(body(*inside), inside)
            return results, asked(*results)

        if most <= 0:
            return tuple(carried)
        return self._loop(most, asked(*carried), turn, carried, draws)

    def _loop(self, most: int, first: Optional[Value], turn: Callable, carried: Sequence[Value],
              draws: bool) -> Tuple[Value, ...]:
        if draws:
            self.model.seed()
        inside, number = self.model.begin_loop(most, carried, first)
        self.turns.append(number)
        try:
            self.model.yield_values(*turn(*inside))
        finally:
            self.turns.pop()
        return self.model.end(len(carried))

    def _carried(self, results: Sequence[Value], inside: Sequence[Value]) -> List[Value]:
        results = list(results)
        if [v.shape for v in results] != [v.shape for v in inside]:
            raise self.error(f"a turn of the loop was given {_described(inside)} and gives {_described(results)}: "
                             "number and shapes cannot change from turn to turn")
        return [self.cast(value, v.type) for value, v in zip(results, inside)]

    # ---- what goes in, stays and comes out ----

    def input(self, name: str, dtype: Any, shape: Sequence[int]) -> Value:
        """An argument of the program."""
        return self.model.input(name, self.type_of(dtype), shape)

    def keep(self, name: str, dtype: Any, shape: Sequence[int], trained: bool, groups: Sequence[int] = (),
             replica: Optional[Value] = None, address: Optional[int] = None) -> Value:
        """A parameter, or a state that is not trained. `shape` is the host's; one that differs between groups of replicas
        has the group as its first dimension, `groups` the number of each replica's: the result is what replica number
        `replica` has."""
        make = self.model.parameter if trained else self.model.state
        value = make(name, self.type_of(dtype), shape, address)
        self.kept[name] = value
        if not groups:
            return value
        group = self.op.gather(self.const(list(groups), "int32"), replica)
        return self.reshape(self.op.gather(value, group), tuple(shape)[1:])

    def update(self, name: str, value: Value) -> None:
        """After a run what is kept under the name is `value`."""
        if value.id != self.kept[name].id:
            self.model.update(self.kept[name], value)

    def output(self, value: Value, name: str) -> None:
        """A result of the program."""
        self.model.output(value, name)

    def loss(self, value: Value, name: str = "loss") -> None:
        """What training makes smaller. What is differentiated has one element: of others the sum, whose gradient is one
        everywhere."""
        self.model.loss(self.op.reduce_sum(value) if value.shape else value, name)

    # ---- whole programs ----

    @staticmethod
    def require(ops: Iterable[Tuple[str, str]], known: Any) -> None:
        """openipu.Error with all of a program's ops (name, "file:line") that are not `in known`, and not only the first."""
        lacking = Unsupported()
        for op, where in ops:
            if op not in known:
                lacking.add(op, where)
        lacking.check()


def _described(values: Sequence[Value]) -> str:
    return ", ".join(f"{v.type}{list(v.shape)}" for v in values) or "nothing"
