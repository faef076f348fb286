"""Ops that captures themselves record."""

from __future__ import annotations

from typing import Any

import torch
from openipu.host import call as host_call, show as host_show

from .registry import op


@op("aten::copy_")
def copy_(g: Any, node: Any, self: Any, source: Any, non_blocking: bool = False) -> Any:
    """The new value of what is copied to."""
    return g.broadcast(g.cast(source, node.outputs[0].dtype), node.outputs[0].shape)


@op("aten::detach", "aten::detach_")
def detach(g: Any, node: Any, self: Any) -> Any:
    return g.op.stop_gradient(self) if g.training and g.is_floating(self) else self


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


@op("poptorch::for_loop")
def for_loop(g: Any, node: Any, *carried: Any, count: int) -> Any:
    if count <= 0:
        return carried
    block = node.blocks[0]
    if _may_draw(block):
        g.model.seed()
    inside, turn = g.model.begin_loop(count, carried)
    g.values.update(zip(block.inputs, inside))
    g.turns.append(turn)
    g.run_block(block)
    g.turns.pop()
    g.model.yield_values([g.cast(g.values[slot], v.type) for slot, v in zip(block.outputs, inside)])
    return g.model.end(len(carried))


@op("poptorch::cond")
def cond(g: Any, node: Any, condition: Any) -> Any:
    then, other = node.blocks
    if _may_draw(then) or _may_draw(other):
        g.model.seed()
    g.model.begin_if(g.reshape(g.cast(condition, "bool"), ()))
    g.run_block(then)
    g.model.yield_values([g.cast(g.values[s], out.dtype) for s, out in zip(then.outputs, node.outputs)])
    g.model.begin_else()
    g.run_block(other)
    g.model.yield_values([g.cast(g.values[s], out.dtype) for s, out in zip(other.outputs, node.outputs)])
    return g.model.end(len(node.outputs))


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


def _decoded(probs: Any, lengths: Any, blank: int, beam_width: int, top_paths: int) -> Any:
    time, batch, _ = probs.shape
    return (probs.new_empty((batch, top_paths)), lengths.new_empty((batch, top_paths), dtype=torch.int32),
            lengths.new_empty((batch, top_paths, time), dtype=torch.int32))


@op("poptorch::ctc_beam_search_decoder", meta=_decoded)
def ctc_beam_search_decoder(g: Any, node: Any, probs: Any, lengths: Any, blank: int, beam_width: int, top_paths: int) -> Any:
    return g.op.ctc_decode(g.cast(probs, "float"), lengths, n_out=3, blank=blank, beam_width=beam_width,
                           top_paths=top_paths)
