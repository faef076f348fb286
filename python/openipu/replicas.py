"""Replicas that differ: parameters with a value for each group of them."""

from __future__ import annotations

import contextlib
import enum
from ctypes import POINTER, c_int, c_int64
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import torch

from .abi import expect
from .error import UsageError
from .library import check, declare, lib


class Grouping(enum.IntEnum):
    """How replicas are put into groups."""
    ALL = 0
    CONSECUTIVE = 1  # replicas 0 to size - 1 are the first
    ORTHOGONAL = 2  # replicas whose numbers differ by the number of groups
    NONE = 3


expect("IPU_GROUPING_", Grouping)
declare("ipu_replica_groups", c_int, [c_int, c_int64, c_int64, POINTER(c_int64)])


def groups_of(kind: int, size: int, n_replicas: int) -> List[int]:
    """The number of each replica's group; ``kind`` is a Grouping, or a number of one."""
    groups = (c_int64 * n_replicas)()
    check(lib().ipu_replica_groups(kind, size, n_replicas, groups))
    return list(groups)


@contextlib.contextmanager
def one_group(model: Any, grouped: Mapping[str, Tuple], n_replicas: int) -> Iterator[Dict[str, Tuple]]:
    """Meanwhile parameters that differ between groups are what one group has of them. Gives (parameter, number of each
    replica's group) by their names."""
    found: Dict[str, Tuple] = {}
    try:
        for name, (kind, size, _) in grouped.items():
            module, attribute = _place(model, name)
            whole = module._parameters[attribute]
            numbers = groups_of(kind, size, n_replicas)
            _check(name, whole, max(numbers) + 1)
            with torch._C.DisableTorchFunction():
                own = torch.nn.Parameter(whole.detach()[0].clone(), requires_grad=whole.requires_grad)
            found[name] = (whole, numbers)
            module._parameters[attribute] = own
        yield found
    finally:
        for name, (whole, _) in found.items():
            module, attribute = _place(model, name)
            module._parameters[attribute] = whole


def _place(model: Any, name: str) -> Tuple[torch.nn.Module, str]:
    parent, _, attribute = name.rpartition(".")
    return model.get_submodule(parent), attribute


def _check(name: str, parameter: torch.Tensor, n_groups: int) -> None:
    if parameter.dim() == 0:
        raise UsageError(f"Scalars cannot be passed as per-replica weight tensor values: {name} has no "
                         "dimension along which groups of replicas have values of their own")
    if parameter.shape[0] != n_groups:
        raise UsageError(f"replicaGrouping: there are {n_groups} groups of replicas: expected dimension 0 of "
                         f"{name} to be {n_groups}, found the shape {tuple(parameter.shape)}")
