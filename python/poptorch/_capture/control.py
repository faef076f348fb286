"""Loops and branches on the IPU: their bodies are captured as blocks of the graph."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch

from .._errors import createPoptorchError
from .._ops import registry
from .graph import Block, Slot
from .tensor import Cell, IpuTensor


def _as_list(results: Any, what: str) -> List[Any]:
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    for i, r in enumerate(results):
        if not isinstance(r, torch.Tensor):
            raise createPoptorchError(f"{what} must return tensors; result {i} is of type {type(r).__name__}")
    return results


def _fresh(tensor: torch.Tensor, slot: Slot) -> IpuTensor:
    """A tensor with memory of its own."""
    meta = torch.empty(tuple(tensor.shape), dtype=tensor.dtype, device="meta")
    return IpuTensor(meta, Cell(slot), (), slot)


def _by_value(capture: Any, tensors: Sequence[torch.Tensor]) -> List[IpuTensor]:
    return [_fresh(t, capture.read(t)) for t in tensors]


class _Outer:
    """What a body does to memory that is older than itself."""

    def __init__(self, capture: Any) -> None:
        self._capture = capture
        self._mark = len(capture.written)

    def undo(self) -> Dict[Cell, Slot]:
        """Give older memory the values it had before; those it had at the end, by cell."""
        capture = self._capture
        changed: Dict[Cell, Slot] = {}
        for cell, before in reversed(capture.written[self._mark:]):
            if cell.home is None or cell.home in capture.blocks:
                changed.setdefault(cell, cell.slot)
                cell.slot = before
                cell.version += 1
        del capture.written[self._mark:]
        return changed


def _run_body(capture: Any, body: Callable, tensors: Sequence[IpuTensor], block: Block,
              cells: Sequence[Cell], what: str) -> Tuple[List[Slot], List[Any], Dict[Cell, Slot]]:
    """Run a body in a block: its results, and what it has done to older memory."""
    capture.blocks.append(block)
    outer = _Outer(capture)
    try:
        results = _as_list(body(*tensors), what)
        slots = [capture.read(t) for t in results]
        slots += [cell.slot for cell in cells]
    finally:
        capture.blocks.pop()
        changed = outer.undo()
    return slots, results, changed


def _inference_only(capture: Any, name: str) -> None:
    if capture.training:
        raise createPoptorchError(f"poptorch.{name}() is only supported in inference models")


def for_loop(capture: Any, count: int, body: Callable, inputs: Sequence[torch.Tensor]) -> List[IpuTensor]:
    """`count` turns of a body that is given its own results."""
    _inference_only(capture, "for_loop")
    inputs = list(capture._stand_ins(list(inputs)))
    cells: List[Cell] = []  # older memory that the body changes is carried from turn to turn as well
    while True:
        block = Block()
        starts = [capture.read(t) for t in inputs] + [cell.slot for cell in cells]
        block.inputs = [Slot(s.shape, s.dtype, None, block) for s in starts]
        tensors = [_fresh(t, slot) for t, slot in zip(inputs, block.inputs)]
        before = [(cell, cell.slot) for cell in cells]
        for cell, slot in zip(cells, block.inputs[len(inputs):]):
            cell.slot = slot
            cell.version += 1
        try:
            slots, results, changed = _run_body(capture, body, tensors, block, cells, "The body of poptorch.for_loop")
        finally:
            for cell, slot in before:
                cell.slot = slot
                cell.version += 1
        more = [cell for cell in changed if cell not in cells]
        if not more:
            break
        cells += more
    _check_loop(inputs, results)
    block.outputs = slots
    node = capture.record("poptorch::for_loop", registry.find("poptorch::for_loop"), tuple(starts), {"count": int(count)})
    node.blocks = (block, )
    outputs = [capture._output(node, s.shape, s.dtype) for s in starts]
    node.n_results = len(outputs)
    for cell, slot in zip(cells, outputs[len(inputs):]):
        capture.written.append((cell, cell.slot))
        cell.slot = slot
        cell.version += 1
    return [_fresh(t, slot) for t, slot in zip(inputs, outputs)]


def _check_loop(inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
    if len(results) != len(inputs):
        raise createPoptorchError(f"The body of poptorch.for_loop was given {len(inputs)} tensors and returned "
                                  f"{len(results)}: it must return as many as it is given")
    for i, (t, r) in enumerate(zip(inputs, results)):
        if tuple(t.shape) != tuple(r.shape) or t.dtype != r.dtype:
            raise createPoptorchError(f"The body of poptorch.for_loop was given {t.dtype} {tuple(t.shape)} as tensor {i} and "
                                      f"returned {r.dtype} {tuple(r.shape)}: types and shapes cannot change from turn to "
                                      "turn")


def cond(capture: Any, condition: torch.Tensor, then_body: Callable, then_inputs: Sequence[torch.Tensor],
         else_body: Callable, else_inputs: Sequence[torch.Tensor]) -> List[IpuTensor]:
    """One of two bodies. What they use is passed by value: changes in place are not seen outside."""
    _inference_only(capture, "cond")
    condition = capture._stand_ins(condition)
    if not isinstance(condition, torch.Tensor) or condition.numel() != 1:
        raise createPoptorchError("The condition of poptorch.cond must be a tensor with one element")
    branches = []
    for body, inputs, what in ((then_body, then_inputs, "then_body"), (else_body, else_inputs, "else_body")):
        block = Block()
        tensors = _by_value(capture, capture._stand_ins(list(inputs)))
        block.outputs, results, _ = _run_body(capture, body, tensors, block, (), f"{what} of poptorch.cond")
        branches.append((block, results))
    (then, then_results), (other, else_results) = branches
    _check_branches(then_results, else_results)
    node = capture.record("poptorch::cond", registry.find("poptorch::cond"), (capture.read(condition), ), {})
    node.blocks = (then, other)
    slots = [capture._output(node, tuple(r.shape), r.dtype) for r in then_results]
    node.n_results = len(slots)
    return [_fresh(r, slot) for r, slot in zip(then_results, slots)]


def _check_branches(then: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> None:
    if len(then) != len(other):
        raise createPoptorchError(f"then_body of poptorch.cond returns {len(then)} tensors, else_body {len(other)}: they must "
                                  "return equally many")
    for i, (a, b) in enumerate(zip(then, other)):
        if tuple(a.shape) != tuple(b.shape) or a.dtype != b.dtype:
            raise createPoptorchError(f"Result {i} of the branches of poptorch.cond differs: {a.dtype} {tuple(a.shape)} and "
                                      f"{b.dtype} {tuple(b.shape)}")
