"""Python functions that a compiled model calls while it runs."""

from __future__ import annotations

import itertools
from typing import Any, Callable, List, Sequence

import numpy as np
import torch
from openipu.host import HostFunction

from .._errors import createPoptorchError
from .graph import map_structure
from .show import show
from .tensor import set_current

_numbers = itertools.count()


def unique_name(what: str) -> str:
    """A name that no other host function of the process has."""
    return f"{what}#{next(_numbers)}"


class _Outside:
    """Meanwhile torch is as it is outside of a capture."""

    def __init__(self, capture: Any) -> None:
        self._capture = capture

    def __enter__(self) -> None:
        self._busy, self._capture.busy = self._capture.busy, True
        self._before = set_current(None)

    def __exit__(self, *exception: Any) -> None:
        set_current(self._before)
        self._capture.busy = self._busy


def call(capture: Any, function: Callable, name: str, args: tuple, kwargs: dict) -> Any:
    """Record a call of a function on the host. Shapes are those that it gives for zeros."""
    if capture.training:
        raise createPoptorchError(f"poptorch.CPU ({name}) is only supported in inference models")
    args, kwargs = capture._stand_ins(args), capture._stand_ins(kwargs)
    tensors: List[torch.Tensor] = []

    def example(t: torch.Tensor) -> torch.Tensor:
        tensors.append(t)
        return torch.zeros(tuple(t.shape), dtype=t.dtype)

    with _Outside(capture):
        examples = map_structure((args, kwargs), torch.Tensor, example)
        with torch.no_grad():
            result = function(*examples[0], **examples[1])
    dtypes = [t.dtype for t in tensors]

    def run(ins: Sequence[np.ndarray]) -> List[np.ndarray]:
        given = iter([torch.from_numpy(np.array(a)).to(d) for a, d in zip(ins, dtypes)])
        a, k = map_structure((args, kwargs), torch.Tensor, lambda _: next(given))
        with torch.no_grad():
            results = function(*a, **k)
        return [r.detach().cpu().numpy() for r in _flat(results)]

    outputs = _flat(result)
    host = HostFunction(unique_name(f"cpu.{name}"), run)
    capture.graph.host_functions.append(host)
    fresh = iter(capture.call_named("poptorch::call_cpu_op", (tensors, host, [(tuple(r.shape), r.dtype) for r in outputs])))
    return map_structure(result, torch.Tensor, lambda _: next(fresh))


def _flat(result: Any) -> List[torch.Tensor]:
    found: List[torch.Tensor] = []
    map_structure(result, torch.Tensor, found.append)
    if not found:
        raise createPoptorchError("A function for poptorch.CPU must return one or more tensors; found "
                                  f"{type(result).__name__}")
    return found


def shown(capture: Any, title: str, how: Any) -> HostFunction:
    """A host function that prints what it is given."""
    host = HostFunction(unique_name("print"), lambda ins: show(title, ins[0], how))
    capture.graph.host_functions.append(host)
    return host
