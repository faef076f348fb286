"""How a model that is being trained on the device looks on the host.

The classes of the user's model, of its parameters and of its buffers become subclasses whose every use first brings
the newest weights from the device, if the host's are older. Objects stay the same ones, so that optimizers, other
models and the user's own references keep working. Copies and pickles are of the original classes.
"""

from __future__ import annotations

import copy
import copyreg
import weakref
from collections import OrderedDict
from typing import Any, Iterator, List

import torch

from .error import UsageError

_epoch = 0  # grows whenever something is wrapped or unwrapped


def epoch() -> int:
    """A number that grows whenever a model is wrapped or unwrapped."""
    return _epoch


def _changed() -> None:
    global _epoch
    _epoch += 1


def _as_original(obj: Any, action: Any) -> Any:
    """`action(obj)` while the object is of its original class."""
    wrapped = object.__getattribute__(obj, "__class__")
    obj.__class__ = wrapped._ipu_original
    try:
        return action(obj)
    finally:
        obj.__class__ = wrapped


class _Wrapped:
    """What wrapped classes have in common."""

    _ipu_original: type
    _ipu_owner: "weakref.ref[Any]"

    @classmethod
    def _ipu_sync(cls) -> bool:
        owner = cls._ipu_owner()
        return owner is not None and owner._fetch_weights()

    def __reduce_ex__(self, protocol: int) -> Any:
        self._ipu_sync()
        return _as_original(self, lambda obj: obj.__reduce_ex__(protocol))

    def __copy__(self) -> Any:
        self._ipu_sync()
        return _as_original(self, copy.copy)

    def __deepcopy__(self, memo: dict) -> Any:
        self._ipu_sync()
        known = memo.get(id(self))
        return known if known is not None else _as_original(self, lambda obj: copy.deepcopy(obj, memo))


class _WrappedTensor(_Wrapped):
    def __repr__(self, *, tensor_contents: Any = None) -> str:
        self._ipu_sync()
        return _as_original(self, lambda obj: obj.__repr__())

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls._ipu_sync()
        with torch._C.DisableTorchFunction():
            return func(*args, **(kwargs or {}))


class WrappedModel(_Wrapped):
    """The base of classes of wrapped models; a front end may add to it."""

    def __reduce_ex__(self, protocol: int) -> Any:
        made = super().__reduce_ex__(protocol)
        if made[0] is copyreg.__newobj__ and len(made[1]) == 1:  # pickle insists on the object's own class there
            made = (copyreg._reconstructor, (made[1][0], object, None), *made[2:])
        return made

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """As torch's, of plain tensors: they can be loaded where there is no such package."""
        self._ipu_sync()
        found = super().state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)
        if not keep_vars:
            return found
        plain = OrderedDict((k, copy.copy(v) if is_wrapped(v) else v) for k, v in found.items())
        plain._metadata = getattr(found, "_metadata", None)
        return plain


def _class_of(original: type, base: type, name: str, owner: Any) -> type:
    return type(original)(name, (base, original), {
        "__module__": original.__module__,
        "__doc__": original.__doc__,
        "_ipu_original": original,
        "_ipu_owner": weakref.ref(owner),
    })


def is_wrapped(obj: Any) -> bool:
    """Whether an object is a model, parameter or buffer of a model that is being trained."""
    return isinstance(obj, _Wrapped)


def owner_of(obj: Any) -> Any:
    """The executor that trains a wrapped object; None: there is none."""
    return type(obj)._ipu_owner() if isinstance(obj, _Wrapped) else None


def wrap(model: torch.nn.Module, owner: Any, base: type = WrappedModel, prefix: str = "Ipu") -> None:
    """Wrap a model and all its parameters and buffers. UsageError: a buffer is no plain tensor.

    ``owner`` has a method ``_fetch_weights``, which brings the newest weights to the host if those there are older, and
    tells whether they were; it is referred to weakly. ``base``: of the model's class; ``prefix``: of names of classes.
    """
    parameter = _class_of(torch.nn.Parameter, _WrappedTensor, f"{prefix}Parameter", owner)
    buffer = _class_of(torch.Tensor, _WrappedTensor, f"{prefix}Buffer", owner)
    for own in model.buffers():
        if type(own) is not torch.Tensor and not is_wrapped(own):
            raise UsageError(f"All buffers must be an instance of torch.Tensor (Got {type(own)})")
    for other in owners_of(list(_tensors(model))):
        other._fetch_weights()
    for own in _tensors(model):
        _set_class(own, parameter if isinstance(own, torch.nn.Parameter) else buffer, prefix)
    original = type(model)
    model.__class__ = _class_of(original, base, f"{prefix}{original.__name__}", owner)
    _changed()


def _set_class(tensor: torch.Tensor, wrapped: type, prefix: str) -> None:
    original = type(tensor)
    if original is not wrapped._ipu_original and not is_wrapped(tensor):  # a subclass of Parameter
        wrapped = _class_of(original, _WrappedTensor, f"{prefix}{original.__name__}", wrapped._ipu_owner())
    elif is_wrapped(tensor):  # shared with another model that is trained: the latest has it
        tensor.__class__ = original._ipu_original
    tensor.__class__ = wrapped


def _tensors(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def unwrap(model: torch.nn.Module) -> None:
    """Undo ``wrap``. Weights are expected to be on the host."""
    owner = owner_of(model)
    for own in list(_tensors(model)):
        if is_wrapped(own) and owner_of(own) in (owner, None):
            own.__class__ = type(own)._ipu_original
    if is_wrapped(model):
        model.__class__ = type(model)._ipu_original
    _changed()


def unwrap_one(obj: Any) -> Any:
    """A model or tensor, of its own class again and with the newest weights."""
    if is_wrapped(obj):
        obj._ipu_sync()
        if isinstance(obj, torch.nn.Module):
            unwrap(obj)
        else:
            obj.__class__ = type(obj)._ipu_original
    return obj


def owners_of(tensors: List[torch.Tensor]) -> List[Any]:
    """The executors that train some of these tensors."""
    found = {id(owner): owner for owner in map(owner_of, tensors) if owner is not None}
    return list(found.values())
