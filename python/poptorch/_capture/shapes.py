"""Shapes and types of results, found by running an op on tensors without data."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple

import torch

from . import torch_compat as compat
from .graph import map_structure
from .tensor import IpuTensor


def _meta_of(tensor: torch.Tensor) -> torch.Tensor:
    if isinstance(tensor, IpuTensor):
        return tensor._meta
    if tensor.device.type == "meta":
        return tensor
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


_asking: List[Tuple[Any, Dict[int, torch.Tensor]]] = []  # captures that ask, and the arguments by their meta tensors


def data_of(meta: torch.Tensor) -> Optional[torch.Tensor]:
    """For `meta` functions of handlers: the data of an argument, if it depends on neither inputs nor weights."""
    capture, arguments = _asking[-1]
    tensor = arguments.get(id(meta))
    return capture.known_value(tensor) if isinstance(tensor, IpuTensor) else tensor


def _ask(capture: Any, meta_function: Callable, args: tuple, kwargs: dict) -> Any:
    arguments: Dict[int, torch.Tensor] = {}

    def meta_of(tensor: torch.Tensor) -> torch.Tensor:
        meta = _meta_of(tensor)
        arguments[id(meta)] = tensor
        return meta

    args, kwargs = map_structure(args, torch.Tensor, meta_of), map_structure(_on("meta", kwargs), torch.Tensor, meta_of)
    _asking.append((capture, arguments))
    try:
        return meta_function(*args, **kwargs)
    finally:
        _asking.pop()


def _real_of(tensor: torch.Tensor) -> torch.Tensor:
    if isinstance(tensor, IpuTensor):
        dtype = torch.float32 if tensor.dtype is torch.float16 else tensor.dtype
        return torch.zeros(tensor.size(), dtype=dtype)
    return tensor


def _on(device: str, kwargs: dict) -> dict:
    changed = {k: v for k, v in kwargs.items() if k != "generator"}
    if changed.get("device") is not None:
        changed["device"] = torch.device(device)
    return changed


@lru_cache(maxsize=None)
def _index_arguments(function: Any) -> FrozenSet[Any]:
    """Positions and names of the arguments of an op that are indices."""
    schema = getattr(function, "_schema", None)
    if schema is None:
        return frozenset()
    return frozenset(key for at, a in enumerate(schema.arguments) if a.name in ("index", "indices") for key in (at, a.name))


def _long(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.int64) if tensor.dtype is torch.int32 else tensor


def _long_indices(function: Any, args: tuple, kwargs: dict) -> Tuple[tuple, dict]:
    """int32 indices as int64, which torch insists on: the device has one type for both."""
    which = _index_arguments(function)
    if not which:
        return args, kwargs
    return (tuple(map_structure(a, torch.Tensor, _long) if at in which else a for at, a in enumerate(args)),
            {k: map_structure(v, torch.Tensor, _long) if k in which else v for k, v in kwargs.items()})


def results_of(capture: Any, handler: Any, function: Optional[Callable], args: tuple, kwargs: dict) -> Any:
    """What a call gives, as meta tensors (or real ones) in the structure of its results."""
    if handler is not None and handler.meta is not None:
        return _ask(capture, handler.meta, args, kwargs)
    with torch.no_grad(), compat.no_modes():
        metas, named = _long_indices(function, map_structure(args, torch.Tensor, _meta_of),
                                     map_structure(_on("meta", kwargs), torch.Tensor, _meta_of))
        try:
            return function(*metas, **named)
        except (NotImplementedError, RuntimeError) as e:
            if not _lacks_meta(e):
                raise
        return _on_host(function, args, kwargs)


def _lacks_meta(error: Exception) -> bool:
    text = str(error)
    return isinstance(error, NotImplementedError) or "meta" in text.lower() or "Tensor.item" in text


def _on_host(function: Callable, args: tuple, kwargs: dict) -> Any:
    halves = [False]

    def real(tensor: torch.Tensor) -> torch.Tensor:
        halves[0] = halves[0] or tensor.dtype is torch.float16
        return _real_of(tensor)

    reals, named = _long_indices(function, map_structure(args, torch.Tensor, real),
                                 map_structure(_on("cpu", kwargs), torch.Tensor, real))
    result = function(*reals, **named)
    if not halves[0]:
        return result
    return map_structure(result, torch.Tensor, lambda t: t.half() if t.dtype is torch.float32 else t)
