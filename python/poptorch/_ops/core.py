"""Ops that captures themselves record."""

from __future__ import annotations

from typing import Any

import torch
from openipu.host import call as host_call, show as host_show

from .registry import op


@op("poptorch::custom_gradient")
def custom_gradient(g: Any, node: Any, given: Any, results: Any, which: Any) -> Any:
    """The results, whose gradients the block of the node computes."""
    if not g.training:
        return results
    block = node.blocks[0]

    def gradient(found: Any) -> Any:
        for slot, value in zip(block.inputs, found):
            g.values[slot] = g.const(0, slot.dtype, slot.shape) if value is None else value
        g.run_block(block)
        gradients = [None] * len(given)
        for i, slot in zip(which, block.outputs):
            gradients[i] = g.cast(g.values[slot], given[i].type)
        return gradients

    return g.model.custom_gradient(given, results, gradient)


def _like_inputs(outputs: Any, inputs: Any, given: Any, higher_order: bool) -> Any:
    return [torch.empty_like(x) for x in inputs]


@op("poptorch::grad", meta=_like_inputs)
def grad(g: Any, node: Any, outputs: Any, inputs: Any, given: Any, higher_order: bool) -> Any:
    """The sum over the outputs of their gradients by the inputs."""
    totals = [None] * len(inputs)
    for y, d in zip(outputs, given):
        d_y = g.const(1, y.type, y.shape) if d is None else g.broadcast(g.cast(d, y.type), y.shape)
        for i, dx in enumerate(g.model.gradients(y, inputs, d_y, higher_order)):
            if dx is not None:
                totals[i] = dx if totals[i] is None else g.op.add(totals[i], dx)
    return [g.const(0, x.type, x.shape) if dx is None else dx for x, dx in zip(inputs, totals)]


@op("poptorch::with_gradient_of")
def with_gradient_of(g: Any, node: Any, value: Any, other: Any) -> Any:
    """A value whose gradient goes to another one: x - x is 0, but not for gradients."""
    if not g.training:
        return value
    return g.op.add(g.op.stop_gradient(value), g.op.sub(other, g.op.stop_gradient(other)))


def _reduced(x: Any, reduction: str) -> Any:
    return x if reduction == "none" else x.new_empty(())


@op("poptorch::identity_loss", meta=_reduced, loss=True)
def identity_loss(g: Any, node: Any, x: Any, reduction: str) -> Any:
    if reduction == "sum":
        return g.op.reduce_sum(x)
    return g.op.reduce_mean(x) if reduction == "mean" else g.op.identity(x)


@op("poptorch::nop", meta=lambda x: x)
def nop(g: Any, node: Any, x: Any) -> Any:
    return g.op.identity(x)


def _may_draw(block: Any) -> bool:
    """Whether random numbers may be drawn in a block, for which the seed must be there before it."""
    return any(node.handler.emit.__module__.endswith((".random", ".recurrent", ".attention")) or
               node.target.startswith("aten::rrelu") or any(map(_may_draw, node.blocks)) for node in block.nodes)


def _given(g: Any, block: Any, types: Any) -> Any:
    """What a block gives, in these types."""
    g.run_block(block)
    return [g.cast(g.values[slot], t) for slot, t in zip(block.outputs, types)]


@op("poptorch::for_loop")
def for_loop(g: Any, node: Any, *carried: Any, count: int) -> Any:
    block = node.blocks[0]

    def turn(*inside: Any) -> Any:
        g.values.update(zip(block.inputs, inside))
        return _given(g, block, [v.type for v in inside])

    return g.repeat(count, turn, carried, draws=_may_draw(block))


@op("poptorch::cond")
def cond(g: Any, node: Any, condition: Any) -> Any:
    then, other = node.blocks
    types = [out.dtype for out in node.outputs]
    return g.branch(condition, lambda: _given(g, then, types), lambda: _given(g, other, types),
                    draws=_may_draw(then) or _may_draw(other))


def _results(tensors: Any, host: Any, results: Any) -> Any:
    return [torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in results]


@op("poptorch::call_cpu_op", meta=_results)
def call_cpu_op(g: Any, node: Any, tensors: Any, host: Any, results: Any) -> Any:
    return host_call(g.model, host, tensors, [(g.type_of(out.dtype), out.shape) for out in node.outputs])


@op("poptorch::ipu_print_tensor", meta=lambda x, shown, gradient: x)
def ipu_print_tensor(g: Any, node: Any, x: Any, shown: Any, gradient: Any) -> Any:
    return host_show(g.model, x, shown, gradient if g.training else None)


@op("poptorch::recomputation_checkpoint", "poptorch::set_matmul_serialization", "poptorch::set_available_memory",
    "poptorch::set_overlap_for_input", "poptorch::set_overlap_for_output", meta=lambda x, *hints: x)
def hint(g: Any, node: Any, x: Any, *hints: Any) -> Any:
    """Of use to a compiler that plans memory; here it is the value itself."""
    return x


@op("poptorch::custom_operation", meta=lambda inputs, name, results, attributes: _results(inputs, None, results))
def custom_operation(g: Any, node: Any, inputs: Any, name: str, results: Any, attributes: Any) -> Any:
    return g.emit(name, inputs, n_out=len(node.outputs), **attributes)
