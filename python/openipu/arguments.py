"""Arguments of a model's call: what they are, where their tensors are, and whether it was compiled for such."""

from __future__ import annotations

import inspect
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from .error import UsageError
from .log import logger
from .structures import container_of, flatten, is_tensor, rebuild


class Arguments:
    """A call's arguments by position, with their names, and those that only have names."""

    def __init__(self) -> None:
        self.args: List[Any] = []
        self.names: List[str] = []
        self.kwargs: Dict[str, Any] = {}

    def add(self, name: str, value: Any) -> None:
        self.args.append(value)
        self.names.append(name)

    def tensors(self, like: Optional["Arguments"] = None) -> List[torch.Tensor]:
        """All tensors, in the order in which `like`, or this itself, has them."""
        if like is None:
            return flatten(self.args) + flatten(self.kwargs)
        return flatten(self.args, like.args) + flatten(self.kwargs, like.kwargs)

    def with_tensors(self, tensors: Sequence[Any]) -> Tuple[List[Any], Dict[str, Any]]:
        """Positional and named arguments with other tensors in place of these."""
        leaves = iter(tensors)
        return rebuild(self.args, leaves), rebuild(self.kwargs, leaves)

    def remembered(self) -> "Arguments":
        """The same with empty tensors of the same types and shapes: what to compare with, holding no data."""
        copy = Arguments()
        shells = [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in self.tensors()]
        args, copy.kwargs = self.with_tensors(shells)
        copy.args, copy.names = list(args), list(self.names)
        return copy

    def is_same(self, other: "Arguments") -> bool:
        """Whether ``check_same`` finds nothing."""
        try:
            self.check_same(other)
        except UsageError:
            return False
        return True

    def check_same(self, other: "Arguments") -> None:
        """Raise UsageError unless `other` has the types, shapes and values of this."""
        if len(other.args) != len(self.args):
            _mismatch(f"Number of positional arguments mismatch: expected {len(self.args)} arguments but got "
                      f"{len(other.args)}")
        for name, expected, found in zip(self.names, self.args, other.args):
            _compare(name, expected, found)
        _compare_keys("named arguments", self.kwargs, other.kwargs)
        for name, expected in self.kwargs.items():
            _compare(name, expected, other.kwargs[name])


def _mismatch(what: str) -> None:
    raise UsageError(
        f"{what}.\nThe arguments of a call must match those that the model was compiled for: types, shapes and the "
        "values of arguments that are not tensors. To compile it for others create a new inferenceModel or "
        "trainingModel, or call destroy() on this one and try again.")


def _compare_keys(name: str, expected: Dict[str, Any], found: Dict[str, Any]) -> None:
    extra, missing = set(found) - set(expected), set(expected) - set(found)
    details = []
    if extra:
        details.append("Unexpected arguments: " + ", ".join(sorted(map(str, extra))))
    if missing:
        details.append("Missing arguments: " + ", ".join(sorted(map(str, missing))))
    if details:
        _mismatch(f"Keys mismatch for {name}: {'. '.join(details)}")


def _compare_tensors(name: str, expected: torch.Tensor, found: torch.Tensor) -> None:
    if expected.dtype != found.dtype:
        _mismatch(f"Data type mismatch for {name}: expected {expected.dtype} but got {found.dtype}")
    if expected.shape != found.shape:
        _mismatch(f"Shape mismatch for {name}: expected {expected.shape} but got {found.shape}")


def _compare(name: str, expected: Any, found: Any) -> None:
    if is_tensor(expected) and is_tensor(found):
        _compare_tensors(name, expected, found)
        return
    if type(expected) is not type(found):
        _mismatch(f"Type mismatch for {name}: expected {type(expected)} but got {type(found)}")
    if container_of(expected) is not None:
        _compare(name, flatten(expected), flatten(found))
    elif isinstance(expected, (list, tuple)):
        if len(expected) != len(found):
            _mismatch(f"Length mismatch for {name}: expected {len(expected)} elements but got {len(found)}")
        for i, element in enumerate(expected):
            _compare(f"{name}[{i}]", element, found[i])
    elif isinstance(expected, dict):
        _compare_keys(name, expected, found)
        for key, element in expected.items():
            _compare(f"{name}[{key}]", element, found[key])
    elif expected is not found and expected != found:
        _mismatch(f"Value mismatch for {name}: expected {expected} but got {found}")


# ---- the parameters of forward()


class Signature:
    """What a model's forward(), or a function, takes."""

    def __init__(self, model: Any):
        if isinstance(model, torch.nn.Module):
            model = model.forward
        elif not callable(model):
            raise TypeError(f"expected a torch.nn.Module or a callable, found {type(model)}")
        if isinstance(model, type) and issubclass(model, torch.nn.Module):
            raise TypeError(f"expected a torch.nn.Module, found the class {model.__name__} itself: make one of it, as "
                            f"in {model.__name__}()")
        try:
            self._parameters = list(inspect.signature(model).parameters.values())
        except ValueError:  # a builtin
            self._parameters = [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                                inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]
        self._names = [p.name for p in self._parameters]
        self._is_open = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in self._parameters)
        self._has_warned_of_dicts = False

    def resolve(self, args: Sequence[Any], kwargs: Dict[str, Any]) -> Arguments:
        """The arguments of a call, with defaults for what is not given."""
        self._check_names(args, kwargs)
        out = Arguments()
        by_name_only = False
        for i, parameter in enumerate(self._parameters):
            name = parameter.name
            if parameter.kind == parameter.VAR_KEYWORD:
                out.kwargs.update((k, v) for k, v in kwargs.items() if k not in self._names[:i])
            elif parameter.kind == parameter.VAR_POSITIONAL:
                for k, value in enumerate(args[i:]):
                    out.add(f"*{name}[{k}]", value)
                args, by_name_only = args[:i], True
            else:
                value = self._value_of(i, parameter, args, kwargs)
                if by_name_only or parameter.kind == parameter.KEYWORD_ONLY:
                    out.kwargs[name] = value
                else:
                    out.add(name, value)
        return out

    def _value_of(self, i: int, parameter: inspect.Parameter, args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        if i < len(args):
            assert parameter.name not in kwargs, f"Parameter {parameter.name} was passed more than once"
            return args[i]
        if parameter.name in kwargs:
            return kwargs[parameter.name]
        if parameter.default is parameter.empty:
            raise UsageError(f"Mandatory parameter {parameter.name} missing")
        return parameter.default

    def _check_names(self, args: Sequence[Any], kwargs: Dict[str, Any]) -> None:
        if self._is_open:
            return
        assert len(args) + len(kwargs) <= len(self._names), (
            f"Too many arguments provided: expected {self._names} ({len(self._names)}) but got "
            f"{len(args) + len(kwargs)}")
        for name in kwargs:
            assert name in self._names, f"{name} is not a valid parameter. Allowed values are {self._names}"

    def warn_of_dicts(self, arguments: Arguments) -> None:
        """Once: only what is in a dict when the model is compiled can be used."""
        if not self._has_warned_of_dicts and any(_holds_dict(a) for a in arguments.args):
            self._has_warned_of_dicts = True
            logger.warning("Dicts as inputs only have partial support: keys and values that are not tensors are those "
                           "of the call that compiles the model. Consider changing dict inputs to tuples.")


def _holds_dict(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, (list, tuple)) and any(map(_holds_dict, value)))


def contiguous(tensor: torch.Tensor, hint: str = "") -> torch.Tensor:
    """A tensor, or a copy of it, that can be an input. UsageError: it cannot be one; ``hint``: where it is on a device
    already, in a model that is being captured."""
    if tensor.device.type != "cpu":
        raise UsageError("Inputs of a model must be on the host: expected a tensor on device cpu, found one on "
                         f"{tensor.device}{': ' + hint if hint and tensor.device.type == 'ipu' else ''}")
    if tensor.layout != torch.strided or tensor.is_quantized:
        found = "a quantized" if tensor.is_quantized else f"a {str(tensor.layout)[6:]}"
        raise UsageError(f"Inputs of a model must be dense tensors: found {found} one; use .to_dense() or .dequantize() "
                         "before")
    return tensor.resolve_neg().contiguous()


def n_plain(args: Sequence[Any], kwargs: Dict[str, Any]) -> Optional[int]:
    """The number of arguments of a call that is nothing but tensors by position; None: it is another one."""
    plain = not kwargs and all(type(a) in (torch.Tensor, torch.nn.Parameter) for a in args)
    return len(args) if plain else None
