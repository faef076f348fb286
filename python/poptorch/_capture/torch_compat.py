"""What differs between versions of torch."""

from __future__ import annotations

import contextlib
from functools import lru_cache
from typing import Any, Callable, Iterator, Optional

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

try:
    from torch._subclasses.fake_tensor import DynamicOutputShapeException
except ImportError:  # torch before 1.13

    class DynamicOutputShapeException(RuntimeError):
        """The shape of a result depends on values."""


__all__ = ["DynamicOutputShapeException", "TorchDispatchMode", "TorchFunctionMode"]

try:
    import torch._meta_registrations  # shapes of more ops on the meta device
except ImportError:
    pass


def op_name(overload: Any) -> str:
    """ "aten::add.Tensor", or "aten::relu" for a default overload."""
    name = overload._schema.name
    return f"{name}.{overload._schema.overload_name}" if overload._schema.overload_name else name


def overload_of(name: str) -> Any:
    """The overload of an op by the name that op_name gives; None if torch has none."""
    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(torch.ops, space), packet, None)
    return getattr(found, overload or "default", None)


def deterministic_overload(name: str) -> Any:
    """The overload of that name if it gives the same result for the same arguments, else None."""
    if not name.startswith("aten::"):
        return None
    found = overload_of(name) or next((overload_of(n) for n in overloads(name)), None)
    return None if found is None or torch.Tag.nondeterministic_seeded in found.tags else found


def is_in_place_view(overload: Any) -> bool:
    """Whether an op changes the shape of its first argument in place."""
    tag = getattr(torch.Tag, "inplace_view", None)
    return tag is not None and tag in overload.tags


def lacks_device(error: RuntimeError) -> bool:
    """Whether torch refused a call only because it was built without support for IPUs."""
    return "not linked with support for ipu" in str(error)


def composites() -> list:
    """Names of the ops that torch takes apart before they reach a device."""
    return torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")


@lru_cache(maxsize=None)
def is_composite(name: str) -> bool:
    """Whether torch takes an op apart before it reaches a device."""
    return name in set(composites())


def overloads(packet_name: str) -> list:
    """All overloads of "aten::add", by name."""
    space, _, rest = packet_name.partition("::")
    packet = getattr(getattr(torch.ops, space), rest, None)
    if packet is None:
        return []
    return [op_name(getattr(packet, overload)) for overload in packet.overloads()]


_library: Optional[torch.library.Library] = None


def override_composite(name: str, function: Callable) -> None:
    """Call a function in place of an op that torch would take apart, for tensors of the IPU."""
    global _library
    if _library is None:
        _library = torch.library.Library("aten", "IMPL")
    _library.impl(name.split("::")[1], function, "AutogradIPU")


def decomposition(overload: Any) -> Optional[Callable]:
    """How torch writes an op with simpler ones, if it does."""
    from torch._decomp import decomposition_table
    return decomposition_table.get(overload)


@contextlib.contextmanager
def no_modes() -> Iterator[None]:
    """Torch as it is without dispatch modes."""
    guard = torch._C._DisableTorchDispatch() if hasattr(torch._C, "_DisableTorchDispatch") else None
    try:
        yield
    finally:
        del guard


class _PlainCheckpoint:
    """In place of torch.utils.checkpoint.CheckpointFunction."""

    @staticmethod
    def apply(function: Callable, _preserves_seed: bool, *args: Any) -> Any:
        return function(*args)


@contextlib.contextmanager
def plain_checkpoints() -> Iterator[None]:
    """What torch.utils.checkpoint is given is called as it is: torch 2 looks for a module of the device, and keeps data."""
    from torch.utils import checkpoint
    generator = getattr(checkpoint, "_checkpoint_without_reentrant_generator", None)
    if generator is None:  # torch before 2.1
        yield
        return
    reentrant = checkpoint.CheckpointFunction
    checkpoint._checkpoint_without_reentrant_generator = lambda *args, **kwargs: iter((None, ))
    checkpoint.CheckpointFunction = _PlainCheckpoint
    try:
        yield
    finally:
        checkpoint._checkpoint_without_reentrant_generator, checkpoint.CheckpointFunction = generator, reentrant


def set_shape(tensor: torch.Tensor, like: torch.Tensor) -> None:
    """Give a tensor without data the shape and strides of another one."""
    with no_modes():
        torch.ops.aten.as_strided_(tensor, like.size(), like.stride(), 0)  # torch takes its memory to be smaller than it is
