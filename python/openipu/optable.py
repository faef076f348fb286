"""Tables of ops: which op of libipu does what one of a framework does, a row each.

    TABLE = Table({
        "aten::relu":       row("relu", "self"),
        "aten::leaky_relu": row("leaky_relu", "self", alpha="negative_slope=0.01"),
        "aten::eq":         row("equal", "self other", cast=PROMOTE),
        "aten::floor":      row("floor", "self", of={"whole": SAME}),
    })
    TABLE.emit(g, "aten::leaky_relu", x, negative_slope=0.2)

A row says, in this order: the op of libipu; the framework's inputs in the framework's order, "name?" one that may be left
out, "y=name" one that is libipu's input y (else they are libipu's in their order), "2.5" a number; then libipu's attributes,
each with the argument it is taken from ("name", or "name=default") or with a constant (a number, a list, a Const); axis() and
axes() around an argument count its numbers from the front. `cast` is the type that the inputs are brought to first, `of` what
is done instead for operands of some types. A key of the table may be several names, with blanks between them.

What does not fit a row is a function. Table.check tells what is wrong with rows, for a test to ask.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from .emitter import FLOATING, Emitter, axes_of, axis_of
from .error import Error
from .library import FLOAT, INT, INTS, TEXT, TYPE_NUMBERS
from .network import Value, op_info

#: `cast`: to the type of the framework's result; to where its promotion leads; there, and to a floating type; to that of
#: the first input.
RESULT, PROMOTE, FLOAT_PROMOTE, FIRST = "result", "promote", "promote_floating", "first"
_CASTS = (RESULT, PROMOTE, FLOAT_PROMOTE, FIRST)

#: In `of`: the operand itself is the result.
SAME = object()

_REQUIRED = object()


class Const:
    """A constant text among a row's attributes, where a text alone names an argument."""

    __slots__ = ("value", )

    def __init__(self, value: str) -> None:
        self.value = value


class _Converted:
    """An argument among a row's attributes, and what is made of it."""

    __slots__ = ("text", "change")

    def __init__(self, text: str, change: Callable[[Any, Value], Any]) -> None:
        self.text = text
        self.change = change


def _axis(number: Any, first: Value) -> Optional[int]:
    return None if number is None else axis_of(number, first.shape or (1, ))


def axis(argument: str) -> _Converted:
    """An argument that is the number of an axis of the first input, which may count from the end."""
    return _Converted(argument, _axis)


def axes(argument: str) -> _Converted:
    """An argument that is the number of an axis, or several; None or [] are all of them."""
    return _Converted(argument, axes_of)


class _Parameter:
    """An argument of the framework's op. `default`: what it is where it is left out."""

    __slots__ = ("name", "default")

    def __init__(self, name: str, default: Any) -> None:
        self.name = name
        self.default = default


def _argument(text: str) -> _Parameter:
    """ "name" or "name=default", the default written as in Python."""
    name, equals, default = text.partition("=")
    return _Parameter(name.strip(), ast.literal_eval(default.strip()) if equals else _REQUIRED)


def _is_number(word: str) -> bool:
    digits = word.lstrip("-")
    return digits[:1].isdigit() or digits == "inf"


class Row:
    """One op of a framework in terms of libipu's. Made by `row`."""

    __slots__ = ("op", "cast", "of", "n_out", "parameters", "_names", "_targets", "_numbers", "_n_given", "_taken", "_changes",
                 "_constants", "_places", "_lifts")

    def __init__(self, op: str, inputs: str, cast: Optional[str], of: Optional[Mapping[str, Any]], n_out: int, ignore: str,
                 attributes: Dict[str, Any]) -> None:
        self.op = op
        self.cast = cast
        self.of = of
        self.n_out = n_out
        self.parameters: List[_Parameter] = []
        self._targets: List[Optional[str]] = []  # libipu's input, where it is named
        self._numbers: List[Tuple[int, float]] = []  # constants among the inputs, and where
        for word in inputs.split():
            target, equals, name = word.rpartition("=")
            if _is_number(name):
                self._numbers.append((len(self._targets), float(name)))
            else:
                self.parameters.append(_Parameter(name.rstrip("?"), None if name.endswith("?") else _REQUIRED))
            self._targets.append(target if equals else None)
        self._n_given = len(self.parameters)
        self._taken: List[Tuple[str, int]] = []  # attributes and the numbers of their arguments
        self._changes: List[Tuple[str, Callable]] = []
        self._constants: Dict[str, Any] = {}
        self._lifts = False  # whether a scalar has to be a vector
        for name, value in attributes.items():
            if isinstance(value, _Converted):
                self._changes.append((name, value.change))
                self._lifts = self._lifts or value.change is _axis
                value = value.text
            if isinstance(value, str):
                parameter = _argument(value)
                places = [i for i, p in enumerate(self.parameters) if p.name == parameter.name]
                self._taken.append((name, places[0] if places else len(self.parameters)))
                self.parameters += [] if places else [parameter]
            else:
                self._constants[name] = value.value if isinstance(value, Const) else value
        self.parameters += [_Parameter(word, None) for word in ignore.split()]
        self._names = {p.name: i for i, p in enumerate(self.parameters)}
        self._places: Optional[List[int]] = None

    def bind(self, args: tuple, kwargs: Mapping[str, Any]) -> List[Any]:
        """The arguments of a call in the order of `parameters`, defaults in the place of those left out."""
        bound = list(args)
        if not kwargs and len(bound) == len(self.parameters):
            return bound
        if len(bound) > len(self.parameters):
            raise Error(f"it takes {len(self.parameters)} arguments, found {len(bound)}")
        bound += [p.default for p in self.parameters[len(bound):]]
        for name, value in kwargs.items():
            place = self._names.get(name)
            if place is None:
                raise Error(f"it has no argument {name!r}; it has: {', '.join(self._names)}")
            if place < len(args):
                raise Error(f"argument {name!r} is given twice")
            bound[place] = value
        for value, p in zip(bound, self.parameters):
            if value is _REQUIRED:
                raise Error(f"argument {p.name!r} is missing")
        return bound

    def signature(self) -> inspect.Signature:
        """Of a function with the arguments of the framework's op."""
        found, optional = [], False
        for p in self.parameters:
            optional = optional or p.default is not _REQUIRED
            default = (None if p.default is _REQUIRED else p.default) if optional else inspect.Parameter.empty
            found.append(inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
        return inspect.Signature(found)

    def emit(self, g: Emitter, args: tuple, kwargs: Mapping[str, Any], result: Any = None) -> Any:
        """What the framework's op gives for arguments. `result`: the type it gives by the framework's rules, where a row
        casts to it."""
        bound = self.bind(args, kwargs)
        values = bound[:self._n_given]
        for place, number in self._numbers:
            values.insert(place, number)
        values = self._cast(g, values, result)
        name = self.op
        if self.of is not None:
            instead = self._instead(values[0])
            if instead is SAME:
                return values[0]
            if isinstance(instead, bool):
                return g.broadcast(g.const(instead, "bool"), values[0].shape)
            name = instead or name
        attributes = dict(self._constants)
        for attribute, place in self._taken:
            attributes[attribute] = bound[place]
        if self._changes:
            for attribute, change in self._changes:
                attributes[attribute] = change(attributes[attribute], values[0])
            if self._lifts and values[0].rank == 0:
                return self._of_scalar(g, name, values, attributes)
        return g.emit(name, self._in_order(values), n_out=self.n_out, **attributes)

    def _of_scalar(self, g: Emitter, name: str, values: List[Any], attributes: Dict[str, Any]) -> Any:
        values = [g.reshape(values[0], (1, )), *values[1:]]
        results = g.emit(name, self._in_order(values), n_out=self.n_out, **attributes)
        return g.reshape(results, ()) if self.n_out == 1 else tuple([g.reshape(v, ()) for v in results])

    def _cast(self, g: Emitter, values: List[Any], result: Any) -> List[Any]:
        cast = self.cast
        if cast is None:
            return values
        if cast in (PROMOTE, FLOAT_PROMOTE):
            together = g.promote if cast == PROMOTE else g.promote_floating
            there = iter(together(*[v for v in values if v is not None]))
            return [None if v is None else next(there) for v in values]
        if cast == FIRST:
            cast = values[0].type
        elif cast == RESULT:
            if result is None:
                raise Error("its inputs are brought to the type of its result, which was not given")
            cast = result
        return [None if v is None else g.cast(v, cast) for v in values]

    def _instead(self, value: Value) -> Any:
        kind = value.type
        found = self.of.get(kind)
        if found is None and kind not in FLOATING:
            found = self.of.get("whole")
        return found

    def _in_order(self, values: List[Any]) -> List[Any]:
        if self._places is None:
            self._places = self._order()
        places = self._places
        if not places:
            return values
        ordered: List[Any] = [None] * (max(places) + 1)
        for place, value in zip(places, values):
            ordered[place] = value
        return ordered

    def _order(self) -> List[int]:
        """Which of libipu's inputs each is; []: they are in its order."""
        if not any(self._targets):
            return []
        known = [name.rstrip("?") for name in op_info(self.op).inputs]
        return [known.index(target) if target else i for i, target in enumerate(self._targets)]

    # ---- checks ----

    def problems(self) -> List[str]:
        """What is wrong with the row: ops, inputs and attributes that libipu has not, and what it needs that is not there."""
        try:
            info = op_info(self.op)
        except Error as e:
            return [e.message]
        return self._input_problems(info) + self._attribute_problems(info) + self._type_problems()

    def _input_problems(self, info: Any) -> List[str]:
        known = [name.rstrip("?") for name in info.inputs]
        found = [f"op {self.op} has no input {t!r}; it has: {', '.join(known)}" for t in self._targets if t and t not in known]
        given = {t or (known[i] if i < len(known) else f"number {i}") for i, t in enumerate(self._targets)}
        n = len(self._targets)
        if n > len(known) or len(given) < n:
            found.append(f"op {self.op} has {len(known)} inputs ({', '.join(known)}); the row has {n}")
        lacking = [name for name in info.inputs if not name.endswith("?") and name not in given]
        if lacking:
            found.append(f"op {self.op} needs input {', '.join(lacking)}")
        numbers = dict(self._numbers)
        given = iter(self.parameters)
        for i, target in enumerate(self._targets):
            name = target or (known[i] if i < len(known) else "")
            parameter = None if i in numbers else next(given)
            if parameter is not None and parameter.default is None and name in info.inputs:
                found.append(f"op {self.op} needs input {name}, which {parameter.name}? may leave out")
        return found

    def _attribute_problems(self, info: Any) -> List[str]:
        names = [name for name, _ in self._taken] + list(self._constants)
        found = [f"op {self.op} has no attribute {name!r}; it has: {', '.join(info.kinds) or 'none'}"
                 for name in names if name not in info.kinds]
        found += [f"op {self.op} needs attribute {name!r}" for name in info.required if name not in names]
        fits = {INT: (int, ), FLOAT: (int, float), TEXT: (str, ), INTS: (tuple, list)}
        known = {name: self.parameters[place].default for name, place in self._taken}
        for name, value in {**known, **self._constants}.items():
            if name in dict(self._changes):
                continue
            if value not in (None, _REQUIRED) and name in info.kinds and not isinstance(value, fits[info.kinds[name]]):
                found.append(f"attribute {name!r} of op {self.op} cannot be {value!r}")
        return found

    def _type_problems(self) -> List[str]:
        found = []
        if self.cast is not None and self.cast not in _CASTS and self.cast not in TYPE_NUMBERS:
            found.append(f"cast is {self.cast!r}: expected a type, or one of {', '.join(_CASTS)}")
        for kind, instead in (self.of or {}).items():
            if kind != "whole" and kind not in TYPE_NUMBERS:
                found.append(f"`of` has {kind!r}: expected a type, or \"whole\"")
            if isinstance(instead, str):
                try:
                    op_info(instead)
                except Error as e:
                    found.append(e.message)
        return found


def row(op: str, inputs: str = "self", *, cast: Optional[str] = None, of: Optional[Mapping[str, Any]] = None, n_out: int = 1,
        ignore: str = "", **attributes: Any) -> Row:
    """A row (see the head of this module).

    :param op: of libipu.
    :param inputs: the framework's inputs: "self other", "x weight? bias?", "y=self x=other".
    :param cast: RESULT, PROMOTE, FLOAT_PROMOTE, FIRST or a type of the device. None: operands are of one type already.
    :param of: by the type of the first operand, or "whole" for all that are not floating: another op, SAME, or False or True
        everywhere.
    :param n_out: how many of libipu's results the framework's op gives.
    :param ignore: arguments that change nothing here.
    :param attributes: libipu's attributes. An argument that is None leaves its attribute out.

    With `axis` in an attribute a scalar is seen as a vector of one element, and the results are scalars.
    """
    return Row(op, inputs, cast, of, n_out, ignore, attributes)


class Table:
    """The rows of a framework by the names of its ops."""

    def __init__(self, rows: Mapping[Any, Row]) -> None:
        self._rows: Dict[Any, Row] = {}
        for names, found in rows.items():
            for name in names.split() if isinstance(names, str) else [names]:
                if name in self._rows:
                    raise Error(f"{name} is in the table twice")
                self._rows[name] = found

    def __contains__(self, op: Any) -> bool:
        return op in self._rows

    def __getitem__(self, op: Any) -> Row:
        return self._rows[op]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def items(self) -> Any:
        """Names and rows."""
        return self._rows.items()

    def emit(self, g: Emitter, op: Any, *args: Any, result: Any = None, **kwargs: Any) -> Union[Value, Tuple[Value, ...]]:
        """What a call of one of the framework's ops gives."""
        found = self._rows.get(op)
        if found is None:
            raise Error(f"{op} is not supported", "UNSUPPORTED")
        return found.emit(g, args, kwargs, result)

    def check(self) -> List[str]:
        """What is wrong with the rows, a line each; []: nothing."""
        return [f"{op}: {problem}" for op, found in self._rows.items() for problem in found.problems()]
