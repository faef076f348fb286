"""Proof that torch does not compute what a model computes: while a model is compiled or run, an operation of torch on
real data is an error.

Allowed are operations on tensors without data (those of the capture), those that only move or make data, those on
constants (made meanwhile from nothing but shapes: no value of a model can be in them), and what runs in host calls of
the model's own (poptorch.CPU), which is torch by intent.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterator, Sequence

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Operations that make a tensor, copy one or look at its memory in another way. None computes a value from another one.
MOVES = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "zeros", "zeros_like", "new_zeros",
    "ones", "ones_like", "new_ones", "full", "full_like", "new_full", "arange", "scalar_tensor", "lift", "lift_fresh",
    "lift_fresh_copy", "fill_", "zero_", "set_", "resize_", "detach", "detach_", "alias", "clone", "copy_", "_to_copy",
    "to", "contiguous", "view", "_unsafe_view", "reshape", "_reshape_alias", "as_strided", "expand", "permute",
    "transpose", "t", "squeeze", "unsqueeze", "select", "slice", "narrow", "split", "split_with_sizes", "unbind",
    "view_as_real", "_local_scalar_dense", "is_pinned", "pin_memory", "stack", "cat", "repeat", "equal", "random_",
    "is_same_size", "sparse_coo_tensor"
}


class TorchComputed(AssertionError):
    """torch computed on the host what the device should have."""


_host_calls = [0]
_CONSTANT = "_made_without_data"


class NoCompute(TorchDispatchMode):
    """Lets torch do nothing but move data, and narrow int64 to the device's int32."""
    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.split("::")[-1]  # pylint: disable=protected-access
        tensors = list(_tensors((args, kwargs)))
        real = tensors and all(tensor.device.type == "cpu" for tensor in tensors)
        narrows = name == "clamp" and all(tensor.dtype == torch.int64 for tensor in tensors)
        constant = all(getattr(tensor, _CONSTANT, False) for tensor in tensors)
        allowed = constant or name in MOVES or narrows or _host_calls[0] > 0 or all(t.numel() <= 1 for t in tensors)
        if real and not allowed:
            shapes = ", ".join(str(list(tensor.shape)) for tensor in tensors)
            raise TorchComputed(f"torch computed {func} of tensors of shape {shapes} while a model was compiled or run")
        result = func(*args, **kwargs)
        for tensor in _tensors(result):
            if type(tensor) is torch.Tensor:
                setattr(tensor, _CONSTANT, constant)
        return result


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from _tensors(element)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with NoCompute():
            return method(*args, **kwargs)

    return call


def _unguarded(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        _host_calls[0] += 1
        try:
            return function(*args, **kwargs)
        finally:
            _host_calls[0] -= 1

    return call


def install() -> None:
    """Guard every model from now on."""
    import poptorch  # pylint: disable=import-outside-toplevel
    from poptorch._capture import host  # pylint: disable=import-outside-toplevel
    call = host.call
    host.call = lambda capture, function, *rest: call(capture, _unguarded(function), *rest)
    executor: Dict[str, Any] = vars(poptorch.PoplarExecutor)
    for name in ("__call__", "compile"):
        setattr(poptorch.PoplarExecutor, name, _guarded(executor[name]))
