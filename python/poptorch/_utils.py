"""Small things that users of poptorch call."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import torch
from torch.utils.hooks import RemovableHandle

from openipu import structures

from ._capture.tensor import IpuTensor
from ._errors import createPoptorchError

_pre_compile: Dict[int, Callable] = OrderedDict()
_post_compile: Dict[int, Callable] = OrderedDict()


def _register(hooks: Dict[int, Callable], hook: Callable) -> RemovableHandle:
    if not callable(hook):
        raise RuntimeError(f"A compile hook must be callable; found {type(hook).__name__}")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def registerPreCompileHook(hook: Callable) -> RemovableHandle:
    """Call a function without arguments before every compilation; the result's remove() ends that."""
    return _register(_pre_compile, hook)


def registerPostCompileHook(hook: Callable) -> RemovableHandle:
    """Call a function without arguments after every compilation; the result's remove() ends that."""
    return _register(_post_compile, hook)


def run_pre_compile_hooks() -> None:
    for hook in list(_pre_compile.values()):
        hook()


def run_post_compile_hooks() -> None:
    for hook in list(_post_compile.values()):
        hook()


ATTR_PREFIX = "attr:"
_attributes: Dict[str, dict] = {}


def keep_attributes(attributes: Optional[dict]) -> str:
    """A text that accessAttributes finds these attributes by."""
    name = f"{ATTR_PREFIX}{len(_attributes):x}"
    _attributes[name] = attributes or {}
    return name


def accessAttributes(attribute_id_str: str) -> dict:
    """The attributes of a custom op, by the text that the op has for them."""
    if not isinstance(attribute_id_str, str):
        raise ValueError(f"Wrong type for attribute_id_str: expected str, found {type(attribute_id_str).__name__}")
    if attribute_id_str.startswith("{"):
        return json.loads(attribute_id_str)
    if attribute_id_str not in _attributes:
        raise ValueError(f"Invalid attribute_id_str: {attribute_id_str!r}")
    return _attributes[attribute_id_str]


def getIpuTensorId(x: Any) -> int:
    """A number that is a tensor's own, of those in forward()."""
    if not isinstance(x, IpuTensor):
        raise createPoptorchError("getIpuTensorId takes a tensor on the IPU, as there are in forward(); found "
                                  f"{type(x).__name__}")
    return id(x._cell)


# ---- under the names that packages built on PopTorch import


def flattenTensorStructure(tensors: Any, canonical_structure: Any = None) -> List[torch.Tensor]:
    """The tensors of a structure in order. Keys of dicts come in the order that `canonical_structure` has."""
    return structures.flatten(tensors, canonical_structure)


def reconstructTensorStructure(structure: Any, values: Sequence[torch.Tensor],
                               filter_fn: Callable[[torch.Tensor], bool] = lambda t: True) -> Any:
    """The same structure with other tensors, in the order of flattenTensorStructure, in place of those that `filter_fn`
    is true for."""
    return structures.rebuild(structure, iter(values), lambda t: isinstance(t, torch.Tensor) and filter_fn(t))


def combine_batch_tensors_gen(tensors: Sequence[Sequence[torch.Tensor]]) -> Iterator[torch.Tensor]:
    """Batches as one: of each batch the same number of tensors, which are joined along dimension 0."""
    return (torch.cat(parts) for parts in zip(*tensors))
