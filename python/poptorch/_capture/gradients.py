"""Gradients of the user's own: torch.autograd.Function, and hooks of tensors.

The forward() of such a function is captured as it is called, its backward() as a block that is emitted when the network
is differentiated.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import torch
from torch.utils.checkpoint import CheckpointFunction

from .._errors import createPoptorchError
from .._ops import registry
from .control import _fresh
from .graph import Block, Slot
from .tensor import IpuTensor, current


class Context:
    """The `ctx` of a torch.autograd.Function."""

    def __init__(self, needs_input_grad: Tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple = ()
        self._undifferentiable: tuple = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self._undifferentiable = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Nothing: changes in place are seen anyway."""

    save_for_forward = mark_dirty

    def set_materialize_grads(self, value: bool) -> None:
        """Nothing: gradients that there are not are zeros."""

    @property
    def saved_variables(self) -> tuple:
        return self.saved_tensors


def _has_gradient(tensor: Any) -> bool:
    return isinstance(tensor, IpuTensor) and tensor.dtype.is_floating_point


def apply(capture: Any, function: type, forward: Callable, args: tuple) -> Any:
    """function.apply(*args)"""
    args = tuple(capture._stand_ins(args))
    needs = tuple(_has_gradient(a) and capture.read(a).has_gradient for a in args)
    context = Context(needs)
    before = capture.grad_enabled  # torch switches gradients off meanwhile, and no_grad() would leave it so
    try:
        result = forward(context, *args)
    finally:
        capture.grad_enabled = before
    if not capture.differentiates or not capture.grad_enabled or not any(needs):
        return result
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    hidden = {id(t) for t in context._undifferentiable}
    traced = [i for i, r in enumerate(results) if _has_gradient(r) and id(r) not in hidden]
    given = [i for i, needed in enumerate(needs) if needed]

    def backward(*gradients: torch.Tensor) -> Sequence[Any]:
        found = iter(gradients)
        full = [next(found) if i in traced else _zeros(r) for i, r in enumerate(results)]
        grads = function.backward(context, *full)
        grads = list(grads) if isinstance(grads, (tuple, list)) else [grads]
        if len(grads) < len(args):
            raise createPoptorchError(f"backward() of {function.__name__} returned {len(grads)} gradients; its forward() takes "
                                      f"{len(args)} arguments")
        return [grads[i] for i in given]

    slots = attach(capture, [args[i] for i in given], [results[i] for i in traced], backward)
    for i, slot in zip(traced, slots):
        results[i] = _renewed(capture, results[i], slot, args)
    return results[0] if not isinstance(result, (tuple, list)) else type(result)(results)


def _zeros(result: Any) -> Any:
    return torch.zeros(tuple(result.shape), dtype=result.dtype, device="ipu") if isinstance(result, torch.Tensor) else None


def _renewed(capture: Any, result: IpuTensor, slot: Slot, args: tuple) -> IpuTensor:
    if any(result is a for a in args):  # changed in place
        capture.write(result, slot)
        return result
    return _fresh(result, slot)


def attach(capture: Any, given: Sequence[IpuTensor], results: Sequence[IpuTensor], backward: Callable) -> List[Slot]:
    """New values for the results, whose gradients `backward` computes for what was given."""
    block = Block()
    starts = [capture.read(t) for t in given]
    ends = [capture.read(t) for t in results]
    block.inputs = [Slot(s.shape, s.dtype, None, block) for s in ends]
    capture.blocks.append(block)
    before = capture.grad_enabled
    try:
        gradients = backward(*[_fresh(t, slot) for t, slot in zip(results, block.inputs)])
        which = [i for i, g in enumerate(gradients) if isinstance(g, torch.Tensor)]
        for i in which:
            if tuple(gradients[i].shape) != tuple(given[i].shape):
                raise createPoptorchError(f"A gradient of shape {tuple(gradients[i].shape)} was given for a tensor of shape "
                                          f"{tuple(given[i].shape)}")
        block.outputs = [capture.read(gradients[i]) for i in which]
    finally:
        capture.blocks.pop()
        capture.grad_enabled = before
    node = capture.record("poptorch::custom_gradient", registry.find("poptorch::custom_gradient"), (starts, ends),
                          {"which": which})
    node.blocks = (block, )
    slots = [capture._output(node, s.shape, s.dtype) for s in ends]
    node.n_results = len(slots)
    return slots


def grad(capture: Any, outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: Any = None,
         create_graph: bool = False, only_inputs: bool = True, allow_unused: Optional[bool] = None,
         is_grads_batched: bool = False, materialize_grads: bool = False) -> Tuple[Any, ...]:
    """torch.autograd.grad in forward(): gradients become part of the network."""
    if is_grads_batched:
        raise createPoptorchError("torch.autograd.grad(is_grads_batched=True) is not supported in a model for the IPU")
    outputs, inputs = (capture._stand_ins(_as_list(t)) for t in (outputs, inputs))
    given = _as_list(grad_outputs) if grad_outputs is not None else [None] * len(outputs)
    for y, d in zip(outputs, given):
        if d is None and y.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
    found = [any(_depends(capture.read(y), capture.read(x)) for y in outputs) for x in inputs]
    if not all(found) and not (materialize_grads if allow_unused is None else allow_unused):
        raise RuntimeError("One of the differentiated Tensors appears to not have been used in the graph. Set "
                           "allow_unused=True if this is the desired behavior.")
    used = [x for x, is_used in zip(inputs, found) if is_used]
    capture.graph.takes_gradients = True
    results = iter(capture.call_named("poptorch::grad", (outputs, used, given, create_graph)))
    if not create_graph:
        results = (r.detach() for r in list(results))
    return tuple(next(results) if is_used else torch.zeros_like(x) if materialize_grads else None
                 for x, is_used in zip(inputs, found))


def _as_list(tensors: Any) -> list:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _depends(on: Slot, x: Slot) -> bool:
    """Whether a gradient passes from one value to another."""
    todo, seen = [on], set()
    while todo:
        slot = todo.pop()
        if slot is x:
            return True
        if slot not in seen and slot.node is not None and slot.node.grad_enabled:
            seen.add(slot)
            todo.extend(s for s in slot.node.inputs() if s.dtype.is_floating_point)
    return False


def hook(capture: Any, tensor: IpuTensor, function: Callable) -> None:
    """tensor.register_hook(function): what uses the tensor from now on passes its gradient through the function."""
    if not capture.differentiates:
        return

    def backward(gradient: torch.Tensor) -> Sequence[Any]:
        changed = function(gradient)
        return [gradient if changed is None else changed]

    slot, = attach(capture, [tensor], [tensor], backward)
    cell = tensor._cell
    if tensor._views or cell.kept is not None or cell.input is not None:  # its memory has not changed
        tensor._slot, tensor._seen = slot, cell.version
    else:
        capture.write(tensor, slot)


def _subclasses(of: type) -> Iterator[type]:
    for cls in of.__subclasses__():
        yield cls
        yield from _subclasses(cls)


@contextlib.contextmanager
def functions_seen(capture: Any) -> Iterator[None]:
    """Functions with a backward() of their own are captured with it."""
    changed: List[Tuple[type, Any]] = []
    for cls in set(_subclasses(torch.autograd.Function)):
        own = cls.__dict__.get("forward")
        if cls is CheckpointFunction:
            seen = _checkpointed(capture, own)
        elif own is None or cls.__module__.startswith("torch."):
            continue
        else:
            seen = _seen(capture, cls, own)
        changed.append((cls, own))
        cls.forward = staticmethod(seen)
    try:
        yield
    finally:
        for cls, own in changed:
            cls.forward = own


def _seen(capture: Any, cls: type, own: Any) -> Callable:
    forward = own.__func__ if isinstance(own, (staticmethod, classmethod)) else own

    def called(context: Any, *args: Any) -> Any:
        if current() is not capture or not any(isinstance(a, IpuTensor) for a in capture._stand_ins(args)):
            return forward(context, *args)
        return apply(capture, cls, forward, args)

    return called


def _checkpointed(capture: Any, own: Any) -> Callable:
    """torch.utils.checkpoint.checkpoint: just the function, since what is kept for gradients is not torch's to say."""

    def called(context: Any, function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        if current() is not capture:
            return own.__func__(context, function, preserve_rng_state, *args)
        return function(*args)

    return called
