"""Replicas that differ: parameters with a value for each group of them, and inputs spread over groups."""

from __future__ import annotations

import contextlib
import enum
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import torch

from .error import UsageError
from .settings import ExecutorOptions


class Grouping(enum.IntEnum):
    """How replicas are put into groups."""
    ALL = 0
    CONSECUTIVE = 1  # replicas 0 to size - 1 are the first
    ORTHOGONAL = 2  # replicas whose numbers differ by the number of groups
    NONE = 3


def groups_of(kind: int, size: int, n_replicas: int) -> List[int]:
    """The number of each replica's group; ``kind`` is a Grouping, or a number of one."""
    if kind == Grouping.ALL:
        return [0] * n_replicas
    if kind == Grouping.NONE:
        return list(range(n_replicas))
    if size < 1 or n_replicas % size != 0:
        raise UsageError(f"replicaGrouping: expected groups of a size that divides the {n_replicas} replicas, found {size}")
    n_groups = n_replicas // size
    return [r // size if kind == Grouping.CONSECUTIVE else r % n_groups for r in range(n_replicas)]


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


class Spread:
    """Inputs of groups of replicas as inputs of each replica."""

    def __init__(self, n_steps: int, n_replicas: int, size: int, kind: int):
        self._n_steps, self._n_groups = n_steps, n_replicas // size
        self._order = torch.tensor(groups_of(kind, size, n_replicas))

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        """The batches of a run, in the order in which replicas take them."""
        size = tensor.shape[0] // (self._n_steps * self._n_groups)
        batches = tensor.detach().reshape(self._n_steps, self._n_groups, size, *tensor.shape[1:])
        return batches[:, self._order].reshape(-1, *tensor.shape[1:]).contiguous()


def spread_of(options: ExecutorOptions, kind: int, have_own_weights: bool) -> Optional[Spread]:
    """How inputs of groups of replicas become inputs of replicas; None: there is nothing to do, or the library does it."""
    if options.input_group_size == 1 or (kind == Grouping.CONSECUTIVE and not have_own_weights):
        return None
    return Spread(options.device_iterations * options.gradient_accumulation, options.replicas, options.input_group_size, kind)
