"""Checks of captured functions and modules against torch itself."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from typing import Any, Callable, List, Optional

import torch
from torch import nn

import poptorch
from openipu import Network
from poptorch._capture.capture import capture
from poptorch._ops import emit


def tensors(structure: Any) -> List[torch.Tensor]:
    """The tensors in a structure of tuples, lists and dicts, in order."""
    if isinstance(structure, torch.Tensor):
        return [structure]
    if isinstance(structure, dict):
        structure = list(structure.values())
    if isinstance(structure, (tuple, list)):
        return [t for element in structure for t in tensors(element)]
    return []


class _Function(nn.Module):
    """A function as a module, so that wrappers of models take it."""

    def __init__(self, fn: Callable) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *inputs: Any) -> Any:
        return self.fn(*inputs)


class _Trained(nn.Module):
    """Adds learned offsets to the floating inputs; the loss is a sum of all outputs, each with a factor of its own."""

    def __init__(self, inner: nn.Module, inputs: Any, factors: List[torch.Tensor]) -> None:
        super().__init__()
        self.inner = inner
        self.offsets = nn.ParameterList(
            nn.Parameter(torch.zeros_like(x)) for x in inputs
            if isinstance(x, torch.Tensor) and x.is_floating_point())
        for i, factor in enumerate(factors):
            self.register_buffer(f"factor{i}", factor)

    def forward(self, *inputs: Any) -> Any:
        offsets = iter(self.offsets)
        moved = [x + next(offsets) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]
        results = tensors(self.inner(*moved))
        loss = sum((y * getattr(self, f"factor{i}")).sum() for i, y in enumerate(results) if y.is_floating_point())
        return poptorch.identity_loss(loss, reduction="sum")


def _wide(structure: Any) -> Any:
    """Halves as floats: torch has few kernels for half on the CPU."""
    if isinstance(structure, torch.Tensor) and structure.dtype == torch.float16:
        return structure.float()
    if isinstance(structure, (tuple, list)):
        return type(structure)(_wide(e) for e in structure)
    return structure


def _is_half(inputs: Any) -> bool:
    return any(t.dtype == torch.float16 for t in tensors(list(inputs)))


def assert_same(found: Any, expected: Any, rtol: Optional[float], atol: Optional[float], what: str) -> None:
    """Tensors of both structures are alike in number, shape and value."""
    found, expected = tensors(found), tensors(expected)
    assert len(found) == len(expected), f"{what}: {len(found)} tensors, expected {len(expected)}"
    for i, (a, b) in enumerate(zip(found, expected)):
        assert a.shape == b.shape, f"{what} {i}: shape {tuple(a.shape)}, expected {tuple(b.shape)}"
        b = b.detach().to(a.dtype) if a.dtype.is_floating_point else b.detach()
        torch.testing.assert_close(a.detach(), b, rtol=rtol, atol=atol, equal_nan=True, check_dtype=False,
                                   msg=lambda m: f"{what} {i}: {m}")


def check(fn: Callable, *inputs: Any, train: bool = True, rtol: Optional[float] = None,
          atol: Optional[float] = None) -> None:
    """Results of a function or module are torch's; with `train` also the gradients of its inputs and parameters.

    Gradients are seen by what one step of gradient descent at rate 1 makes of the parameters.
    """
    half = _is_half(inputs)
    if rtol is None:
        rtol, atol = (5e-3, 5e-3) if half else (1e-4, 1e-5)
    atol = rtol / 10 if atol is None else atol
    module = fn if isinstance(fn, nn.Module) else _Function(fn)
    reference = copy.deepcopy(module).float() if half else copy.deepcopy(module)
    with torch.no_grad():
        expected = reference(*[_wide(x.clone()) if isinstance(x, torch.Tensor) else _wide(x) for x in inputs])
    wrapped = poptorch.inferenceModel(copy.deepcopy(module))
    assert_same(wrapped(*[x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]), expected, rtol, atol, "result")
    wrapped.destroy()
    if train:
        _check_training(module, inputs, tensors(expected), half, rtol, atol)


def _check_training(module: nn.Module, inputs: Any, results: List[torch.Tensor], half: bool, rtol: float,
                    atol: float) -> None:
    generator = torch.Generator().manual_seed(7)
    factors = [torch.rand(y.shape, generator=generator) + 0.5 for y in results]
    model = _Trained(copy.deepcopy(module), inputs, [f.half() if half else f for f in factors])
    reference = _Trained(copy.deepcopy(module), inputs, factors)
    reference = reference.float() if half else reference
    reference(*[_wide(x) for x in inputs]).backward()
    torch.optim.SGD(reference.parameters(), lr=1.0).step()
    trained = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))
    trained(*inputs)
    found, expected = model.state_dict(), reference.state_dict()
    for name, value in expected.items():
        assert_same(found[name], value, rtol, atol, f"after a step, {name}")
    trained.destroy()


def emitted(model: nn.Module, *inputs: torch.Tensor, training: bool = False) -> List[str]:
    """Names of the ops that a model is made of, in order: what the library gets, before it fuses any."""
    graph = capture(model, inputs, {}, training=training)
    network = Network.create()
    network.training = training
    values = [network.input(f"input{i}", emit.type_of(x.dtype), tuple(x.shape)) for i, x in enumerate(inputs)]
    emit.emit(graph, network, values, training=training)
    return re.findall(r"^ *~.* = (\w+)\(", network.text(), re.MULTILINE)


def python(code, **environment):
    """What a new interpreter prints; standard error too."""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout
