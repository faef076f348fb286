"""Small things that users of poptorch call."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Sequence

import torch

from openipu import structures

from ._capture.tensor import IpuTensor
from ._errors import createPoptorchError


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
