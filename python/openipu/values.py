"""What options of a front end are made of."""

from __future__ import annotations

import copy
import difflib
import inspect
import sys
from typing import Any, Callable, Dict, Iterator, Optional


class Values:
    """Values by their names, each of a fixed type.

    Values are read as attributes, or by calling the object with their name; attributes that begin with an underscore
    are ordinary ones. A frozen object cannot be changed; a deep copy of it can.
    """

    _frozen = False
    _when_frozen = "These options are frozen: change a copy of them"

    def __init__(self, **values: Any) -> None:
        self.__dict__["_values"] = values

    # ---- values ----

    def set(self, **values: Any) -> None:
        """Change values that exist, to ones of the same type."""
        self._check_frozen()
        for name, value in values.items():
            known = self._values
            assert name in known, f"Invalid option {name}, valid options are {list(known)}"
            assert isinstance(value, type(known[name])), (
                f"Unexpected type {type(value)} for option {name}. Expected {type(known[name])}")
            known[name] = value

    def _create_or_set(self, **values: Any) -> None:
        """As ``set``, but names that do not exist are made."""
        self._check_frozen()
        for name, value in values.items():
            if self.exists(name):
                self.set(**{name: value})
            else:
                self._values[name] = value

    def exists(self, name: str) -> bool:
        """Whether there is a value of that name."""
        return name in self._values

    def _delete(self, name: str) -> None:
        """Forget the value of that name, if there is one."""
        self._check_frozen()
        self._values.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        # Only what the instance and its class do not have comes here.
        values = self.__dict__.get("_values")
        if values is None or name not in values:
            known = [*(values or ()), *(n for n in dir(type(self)) if not n.startswith("_"))]
            near = difflib.get_close_matches(name, known, 1)
            raise AttributeError(f"Invalid attribute {name}: {type(self).__name__} has {list(values or ())}."
                                 + (f" Did you mean {near[0]}?" if near else ""))
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self._check_frozen(name)
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self.set(**{name: value})

    def __call__(self, name: str) -> Any:
        return getattr(self, name)

    # ---- freezing ----

    def _check_frozen(self, name: Optional[str] = None) -> None:
        """Raise if it may not be changed any more."""
        if self._frozen and name != "_frozen":
            raise AttributeError(self._when_frozen)

    def _parts(self) -> Iterator[Any]:
        return (v for v in self.__dict__.values() if hasattr(v, "_set_frozen"))

    def _freeze(self) -> None:
        self._set_frozen(True)

    def _unfreeze(self) -> None:
        self._set_frozen(False)

    def _set_frozen(self, frozen: bool) -> None:
        self.__dict__["_frozen"] = frozen
        for part in self._parts():
            part._set_frozen(frozen)

    @property
    def _is_frozen(self) -> bool:
        return self._frozen

    def __deepcopy__(self, memory: Dict[int, Any]) -> "Values":
        other = type(self).__new__(type(self))
        memory[id(self)] = other
        for name, value in self.__dict__.items():
            other.__dict__[name] = copy.deepcopy(value, memory)
        other.__dict__["_frozen"] = False
        return other

    def __getstate__(self) -> Dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)

    # ---- as a whole ----

    def update(self, other: Dict[str, Any]) -> Dict[str, Any]:
        """Add all values to ``other``, which has none of their names."""
        both = set(self._values).intersection(other)
        assert not both, f"Can't merge dictionaries, they have some keys in common: {sorted(both)}"
        other.update(self._values)
        return other

    def _to_dict(self) -> Dict[str, Any]:
        """The values as a dictionary."""
        return self.update({})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._values.items())})"


_SETTER = """from __future__ import annotations
def make(_set):
    def {name}(self, {argument}) -> {result}:
        _set(self, {value})
        return self
    return {name}
"""


class sets:
    """In the body of a class of ``Values``: a method that sets one value and returns the object.

        deviceIterations = sets("device_iterations", "n: int", at_least=1, doc="How often it runs.")

    ``target``: the value's name; "?NAME": it is made if need be; "_NAME": an ordinary attribute; "PART:NAME": by ``set``
    of that attribute. ``argument``: as in a definition. ``kind``: the type that it must have, else ``wrong`` is raised
    with what was found; ``made``: what is kept of it.
    """

    def __init__(self, target: str, argument: str, *, doc: str, at_least: Optional[int] = None,
                 kind: Optional[type] = None, wrong: str = "expected another type, not {!r}",
                 made: Callable[[Any], Any] = lambda given: given) -> None:
        self._part, _, self._name = target.rpartition(":")
        self._argument, self._doc = argument, inspect.cleandoc(doc)
        self._at_least, self._kind, self._wrong, self._made = at_least, kind, wrong, made

    def __set_name__(self, owner: type, name: str) -> None:
        own: Dict[str, Any] = {}
        code = _SETTER.format(name=name, argument=self._argument, result=owner.__name__,
                              value=self._argument.partition(":")[0])
        exec(code, vars(sys.modules[owner.__module__]), own)  # pylint: disable=exec-used
        method = own["make"](self._set)
        method.__doc__ = self._doc
        method.__qualname__ = f"{owner.__qualname__}.{name}"
        setattr(owner, name, method)

    def _set(self, values: Values, given: Any) -> None:
        assert self._kind is None or isinstance(given, self._kind), self._wrong.format(given)
        assert self._at_least is None or not isinstance(given, int) or given >= self._at_least, (
            f"Option {self._name} must be at least {self._at_least}: found {given}")
        kept = self._made(given)
        if self._part:
            getattr(values, self._part).set(self._name, kept)
        elif self._name.startswith("_"):
            setattr(values, self._name, kept)
        elif self._name.startswith("?"):
            values._create_or_set(**{self._name[1:]: kept})
        else:
            values.set(**{self._name: kept})
