"""Which function emits which op.

    @op("aten::add.Tensor", "aten::add.Scalar")     an exact overload; "aten::add": all that have none of their own
    def add(g, node, self, other, *, alpha=1): ...

    @function(torch.nn.functional.mse_loss, loss=True)      caught before torch takes it apart
    def mse_loss(g, node, input, target, reduction="mean"): ...

    table(Table({"aten::relu": row("relu")}))               ops that are one of libipu's: a row each (table.py)

Options of the first two:
    meta     called with the arguments, meta tensors in place of tensors, gives the results' shapes as meta tensors;
             left out: torch itself is run on meta tensors, or where it has no such kernel on real ones.
    mutates  names of arguments that the op changes in place though torch does not say so; their new values follow
             the results in what the handler returns (None: unchanged).
    loss     the result is a loss that training is for.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from openipu.optable import Row, Table

#: Arguments of torch that mean nothing on the device: dropped where a handler does not name them.
IGNORED = frozenset(("device", "layout", "pin_memory", "memory_format", "non_blocking", "generator", "requires_grad",
                     "copy", "out", "names", "implicit"))


class Handler:
    """A function that emits an op, and what else is known about it."""

    __slots__ = ("name", "emit", "meta", "mutates", "loss", "_drop", "_signature", "_known", "_most")

    def __init__(self, name: str, emit: Callable, meta: Optional[Callable], mutates: Sequence[str], loss: bool):
        self.name = name
        self.emit = emit
        self.meta = meta
        self.mutates = tuple(mutates)
        self.loss = loss
        self._signature = inspect.signature(emit)
        parameters = self._signature.parameters
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
        self._drop = frozenset() if takes_all else IGNORED - frozenset(parameters)
        self._known = None if takes_all else IGNORED | frozenset(parameters)
        self._most = None if takes_any else sum(p.kind is not p.KEYWORD_ONLY for p in parameters.values()) - 2

    def __call__(self, g: Any, node: Any, args: tuple, kwargs: dict) -> Any:
        if kwargs and self._drop:
            kwargs = {k: v for k, v in kwargs.items() if k not in self._drop}
        return self.emit(g, node, *args, **kwargs)

    def unknown(self, args: tuple, kwargs: dict) -> List[str]:
        """Arguments of a call that it does not know, as newer versions of torch may have."""
        names = [] if self._known is None else [name for name in kwargs if name not in self._known]
        if self._most is not None and len(args) > self._most:
            names.append(f"number {self._most + 1}")
        return names

    def in_place(self, args: tuple, kwargs: dict) -> bool:
        """Whether a call says inplace=True: the result is to be the new value of the first argument."""
        if "inplace" not in self._signature.parameters:
            return False
        kwargs = {k: v for k, v in kwargs.items() if k not in self._drop}
        return bool(self._signature.bind(None, None, *args, **kwargs).arguments.get("inplace"))

    def mutated(self, args: tuple, kwargs: dict) -> list:
        """The arguments of a call that the op changes, None for those that were not given."""
        kwargs = {k: v for k, v in kwargs.items() if k not in self._drop}
        given = self._signature.bind(None, None, *args, **kwargs).arguments
        return [given.get(name) for name in self.mutates]


OPS: Dict[str, Handler] = {}
FUNCTIONS: Dict[Callable, Handler] = {}
TABLES: List[Table] = []


def op(*names: str, meta: Optional[Callable] = None, mutates: Sequence[str] = (),
       loss: bool = False) -> Callable[[Callable], Callable]:
    """Register a handler for ops of torch by their names."""

    def register(emit: Callable) -> Callable:
        for name in names:
            if name in OPS:
                raise ValueError(f"{name} has two handlers, of {OPS[name].emit.__module__} and {emit.__module__}")
            OPS[name] = Handler(name, emit, meta, mutates, loss)
        return emit

    return register


def function(*functions: Callable, meta: Optional[Callable] = None, mutates: Sequence[str] = (),
             loss: bool = False) -> Callable[[Callable], Callable]:
    """Register a handler for functions and methods of torch's Python interface."""

    def register(emit: Callable) -> Callable:
        for f in functions:
            FUNCTIONS[f] = Handler(getattr(f, "__name__", str(f)), emit, meta, mutates, loss)
        return emit

    return register


def _of_row(found: Row) -> Callable:
    """A row of a table as a function like others."""

    def emit(g: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
        return found.emit(g, args, kwargs, node.outputs[0].dtype)

    own = found.signature()
    first = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("g", "node")]
    emit.__signature__ = own.replace(parameters=[*first, *own.parameters.values()])
    return emit


def table(rows: Table, meta: Optional[Mapping[Any, Callable]] = None) -> None:
    """Register the rows of a table: by the names of ops, or for functions of torch's Python interface. `meta`: of those that
    have one."""
    TABLES.append(rows)
    for name, found in rows.items():
        register = op if isinstance(name, str) else function
        register(name, meta=(meta or {}).get(name))(_of_row(found))


@lru_cache(maxsize=None)
def _default_of(f: Callable, name: str) -> Any:
    try:
        return inspect.signature(f).parameters[name].default
    except (KeyError, TypeError, ValueError):  # functions written in C have no signature
        return None


def says_nothing(f: Callable, name: str, value: Any) -> bool:
    """Whether an argument of a function of torch has the value that it has where it is left out."""
    default = _default_of(f, name)
    return value is None or value is default or (isinstance(value, (bool, int, float, str)) and value == default)


def find(name: str) -> Optional[Handler]:
    """The handler of an op: of the exact overload, else of all overloads."""
    return OPS.get(name) or OPS.get(name.partition(".")[0])


def composites() -> Tuple[str, ...]:
    """Overloads with a handler that torch would take apart before they reach the device."""
    from .._capture.torch_compat import composites as all_composites
    return tuple(name for name in all_composites() if name.startswith("aten::") and find(name) is not None)
