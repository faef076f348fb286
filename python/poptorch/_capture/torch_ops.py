"""torch.ops.poptorch.*: the ops under the names that PopTorch registers them by, which some programs call themselves.

Each does what the function or class of poptorch does that it belongs to. Outside of a capture they do what those do
there: tensors come back as they are, and marks mean nothing.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

import torch

from .. import enums, ops
from .._errors import createPoptorchError
from . import blocks
from .attributes import accessAttributes
from .contexts import MultiConv
from .tensor import current

_FORMATS = ("auto", "fixed", "scientific", "none")
_REDUCTIONS = ("sum", "mean", "none")
_TYPES = {"FLOAT": torch.float32, "FLOAT16": torch.float16}

_library = torch.library.Library("poptorch", "DEF")


def _op(schema: str) -> Callable[[Callable], Callable]:
    """Define an op, which is a Python function on all devices."""

    def define(function: Callable) -> Callable:

        def run(*args: Any) -> Any:
            capture = current()
            return function(*args) if capture is None else capture.enter(function, args, {})

        _library.impl(_library.define(schema), run, "CompositeImplicitAutograd")
        return function

    return define


def _one_of(values: Tuple[str, ...], number: int, what: str) -> str:
    if not 0 <= number < len(values):
        raise createPoptorchError(f"{what} {number}: expected a number from 0 to {len(values) - 1} ({', '.join(values)})")
    return values[number]


# ---- blocks and marks


@_op("begin_ipu_block(int stage_id, int phase_id, int ipu_id) -> ()")
def begin_ipu_block(stage_id: int, phase_id: int, ipu_id: int) -> None:
    blocks.begin_at(blocks.Place(max(stage_id, 0), max(phase_id, 0), ipu_id))


@_op("end_ipu_block() -> ()")
def end_ipu_block() -> None:
    blocks.begin_at(None)


@_op("push_name_scope(str name) -> ()")
def push_name_scope(name: str) -> None:
    capture = current()
    if capture is not None:
        capture.scopes.append(name)


@_op("pop_name_scope() -> ()")
def pop_name_scope() -> None:
    capture = current()
    if capture is not None:
        if not capture.scopes:
            raise createPoptorchError("pop_name_scope: there is no scope left to leave. Each push_name_scope has one "
                                      "pop_name_scope")
        capture.scopes.pop()


@_op("set_attribute(str attribute, str key, str value) -> ()")
def set_attribute(attribute: str, key: str, value: str) -> None:
    """A hint to PopART's compiler, as poptorch.Attribute is: without effect here."""


@_op("clear_attribute(str attribute, str key) -> ()")
def clear_attribute(attribute: str, key: str) -> None:
    """Ends what set_attribute began."""


@_op("optimizer_group(int group, Tensor[] inputs) -> ()")
def optimizer_group(group: int, inputs: List[torch.Tensor]) -> None:
    """Groups are those of the optimizer that trainingModel is given."""


@_op("begin_multi_conv() -> ()")
def begin_multi_conv() -> None:
    MultiConv().__enter__()


@_op("end_multi_conv(float[]? available_memory_proportions, int[]? partials_types, int? plan_type, "
     "int? per_conv_reserved_tiles, float? cycle_back_off, int[]? enableConvDithering) -> ()")
def end_multi_conv(*_hints: Any) -> None:
    MultiConv().__exit__(None, None, None)


# ---- ops on tensors


@_op("nop(Tensor self) -> Tensor")
def nop(tensor: torch.Tensor) -> torch.Tensor:
    return ops.nop(tensor)


@_op("recomputation_checkpoint(Tensor self) -> Tensor")
def recomputation_checkpoint(tensor: torch.Tensor) -> torch.Tensor:
    return ops.recomputationCheckpoint(tensor)


@_op("set_available_memory(Tensor t, float mem) -> Tensor")
def set_available_memory(tensor: torch.Tensor, proportion: float) -> torch.Tensor:
    return ops.set_available_memory(tensor, proportion)


@_op("set_matmul_serialization(Tensor matmul, str mode, int factor, bool keep_precision) -> Tensor")
def set_matmul_serialization(product: torch.Tensor, mode: str, factor: int, keep_precision: bool) -> torch.Tensor:
    capture = current()
    if capture is None:
        return product
    enums.MatMulSerializationMode(mode)
    return capture.call_named("poptorch::set_matmul_serialization", (product, mode, factor, keep_precision))


@_op("set_overlap_for_input(Tensor t, str mode) -> Tensor")
def set_overlap_for_input(tensor: torch.Tensor, mode: str) -> torch.Tensor:
    return ops.set_overlap_for_input(tensor, enums.OverlapMode(mode))


@_op("set_overlap_for_output(Tensor t, str mode) -> Tensor")
def set_overlap_for_output(tensor: torch.Tensor, mode: str) -> torch.Tensor:
    return ops.set_overlap_for_output(tensor, enums.OverlapMode(mode))


@_op("ipu_print_tensor(Tensor self, str title, int print_gradient, int summarize_threshold, int edge_items, "
     "int max_line_width, int digits, int float_format, str separator, str open_bracket, str close_bracket) -> Tensor")
def ipu_print_tensor(tensor: torch.Tensor, title: str, print_gradient: int, summarize_threshold: int, edge_items: int,
                     max_line_width: int, digits: int, float_format: int, *brackets: str) -> torch.Tensor:
    return ops.ipu_print_tensor(tensor, title, bool(print_gradient), summarize_threshold, edge_items, max_line_width,
                                digits, _one_of(_FORMATS, float_format, "float_format"), *brackets)


@_op("identity_loss(Tensor x, int reduction) -> Tensor")
def identity_loss(x: torch.Tensor, reduction: int) -> torch.Tensor:
    return ops.identity_loss(x, _one_of(_REDUCTIONS, reduction, "identity_loss: reduction"))


@_op("internal_cast(Tensor self, str dtype) -> Tensor")
def internal_cast(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    if dtype not in _TYPES:
        raise createPoptorchError(f"internal_cast to {dtype!r}: expected one of {', '.join(_TYPES)}")
    return tensor.to(_TYPES[dtype])


@_op("dynamic_slice(Tensor self, int dim, Tensor start, int size, int step) -> Tensor")
def dynamic_slice(tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int, step: int) -> torch.Tensor:
    return ops.dynamic_slice(tensor, dim, start, size, step)


@_op("dynamic_update(Tensor self, Tensor src, int dim, Tensor start, int size) -> Tensor")
def dynamic_update(tensor: torch.Tensor, src: torch.Tensor, dim: int, start: torch.Tensor, size: int) -> torch.Tensor:
    return ops.dynamic_update(tensor, src, dim, start, size)


@_op("ctc_beam_search_decoder(Tensor probs, Tensor lengths, int blank, int beam_width, int top_paths) "
     "-> (Tensor, Tensor, Tensor)")
def ctc_beam_search_decoder(probs: torch.Tensor, lengths: torch.Tensor, blank: int, beam_width: int,
                            top_paths: int) -> Tuple[torch.Tensor, ...]:
    return tuple(ops.ctc_beam_search_decoder(probs, lengths, blank, beam_width, top_paths))


@_op("custom_operation(Tensor[] inputs, str name, str domain, int domain_version, int num_outputs, Tensor[] outputs, "
     "str attributes) -> Tensor[]")
def custom_operation(inputs: List[torch.Tensor], name: str, domain: str, domain_version: int, num_outputs: int,
                     outputs: List[torch.Tensor], attributes: str) -> List[torch.Tensor]:
    given: Optional[dict] = accessAttributes(attributes) if attributes else None
    return ops.custom_op(inputs, name, domain, domain_version, outputs[:num_outputs], given)


@_op("fps(Tensor src, int[] ptr, float ratio, bool random_start) -> Tensor")
def fps(src: torch.Tensor, ptr: List[int], ratio: float, random_start: bool) -> torch.Tensor:
    return ops.fps(src, list(ptr), ratio, random_start)


@_op("nearest(Tensor x, Tensor y, Tensor batch_x, Tensor batch_y) -> Tensor")
def nearest(x: torch.Tensor, y: torch.Tensor, batch_x: torch.Tensor, batch_y: torch.Tensor) -> torch.Tensor:
    return ops.nearest(x, y, batch_x, batch_y)


@_op("nearest_batch_list(Tensor x, Tensor y, int[] batch_x, int[] batch_y) -> Tensor")
def nearest_batch_list(x: torch.Tensor, y: torch.Tensor, batch_x: List[int], batch_y: List[int]) -> torch.Tensor:
    return ops.nearest(x, y, list(batch_x), list(batch_y))


# ---- halves of what poptorch does as a whole


def _refuse(name: str, instead: str) -> Callable:

    def refuse(*_args: Any) -> Any:
        raise createPoptorchError(f"torch.ops.poptorch.{name} is one part of {instead}, which records the whole: call "
                                  f"{instead} instead")

    return refuse


for _schema, _instead in (("start_for_loop(Tensor[] inputs) -> ()", "poptorch.for_loop"),
                          ("end_for_loop(Tensor[] outputs, Tensor[] inputs, int trip_count) -> Tensor[]",
                           "poptorch.for_loop"),
                          ("start_if_block(Tensor condition) -> ()", "poptorch.cond"),
                          ("start_else_block(Tensor[] outputs_true) -> ()", "poptorch.cond"),
                          ("end_if_block(Tensor[] outputs, Tensor condition) -> Tensor[]", "poptorch.cond"),
                          ("call_cpu_op(Tensor[] inputs, str name) -> ()", "poptorch.CPU"),
                          ("end_cpu_op(Tensor[] output) -> Tensor[]", "poptorch.CPU")):
    _op(_schema)(_refuse(_schema.partition("(")[0], _instead))
