"""Structures of tuples, lists, dicts and containers of the user's own: their leaves in order, and the same structure with
others."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

import torch


class Container(NamedTuple):
    """How the leaves of a type of the user's own are found, always in the same order, and put back."""
    leaves: Callable[[Any], Iterator[Any]]
    rebuild: Callable[[Any, Iterator[Any]], Any]


_containers: Dict[type, Container] = {}


def register(kind: type, container: Optional[Container]) -> None:
    """Values of type ``kind``, or of one derived from it, are such a container; None: no more."""
    if container is None:
        _containers.pop(kind, None)
    else:
        _containers[kind] = container


def container_of(value: Any) -> Optional[Container]:
    """What is registered for a value's type, or for a base of it."""
    if not _containers:
        return None
    found = _containers.get(type(value))
    if found is not None:
        return found
    return next((container for kind, container in _containers.items() if isinstance(value, kind)), None)


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _walk(value: Any, is_leaf: Callable[[Any], bool], like: Any) -> Iterator[Any]:
    container = container_of(value)
    if container is not None:
        yield from container.leaves(value)
    elif isinstance(value, dict):
        for key in (value if like is None else like):
            yield from _walk(value[key], is_leaf, None if like is None else like[key])
    elif isinstance(value, (list, tuple)):
        for i, element in enumerate(value):
            yield from _walk(element, is_leaf, None if like is None else like[i])
    elif is_leaf(value):
        yield value


def flatten(value: Any, like: Any = None, is_leaf: Callable[[Any], bool] = is_tensor) -> List[Any]:
    """The leaves of a structure, in order: tensors unless told. Keys of dicts come in the order that `like` has."""
    return list(_walk(value, is_leaf, like))


def rebuild(structure: Any, leaves: Iterator[Any], is_leaf: Callable[[Any], bool] = is_tensor) -> Any:
    """The same structure with other leaves, taken one by one from an iterator in the order of ``flatten``."""
    container = container_of(structure)
    if container is not None:
        return container.rebuild(structure, leaves)
    if isinstance(structure, dict):
        return type(structure)((key, rebuild(element, leaves, is_leaf)) for key, element in structure.items())
    if isinstance(structure, (list, tuple)):
        elements = [rebuild(element, leaves, is_leaf) for element in structure]
        return type(structure)(*elements) if hasattr(structure, "_fields") else type(structure)(elements)
    return next(leaves) if is_leaf(structure) else structure
