"""The functions of poptorch that record an op: control flow, hints, prints, functions of the host.

In a model that is not being compiled for the IPU they do what they can on the host, so that a module gives the same results
there.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import torch

from .. import enums
from .._errors import createPoptorchError
from . import control as _control, host as _host, show as _show
from .attributes import keep_attributes
from .tensor import current


def _must_be_tensor(value: Any, message: str) -> None:
    if not isinstance(value, torch.Tensor):
        raise createPoptorchError(f"{message} {type(value)} is not supported.")


def _hint(name: str, tensor: torch.Tensor, *hints: Any) -> torch.Tensor:
    capture = current()
    return tensor if capture is None else capture.call_named(f"poptorch::{name}", (tensor, ) + hints)


# ---- losses


def identity_loss(x: torch.Tensor, reduction: str) -> torch.Tensor:
    """Mark a value as the loss that training is for, after reducing it.

    :param x: the loss, or one value for each element.
    :param reduction: "sum", "mean" or "none".
    """
    reduction = reduction.lower() if isinstance(reduction, str) else reduction
    assert reduction in ("sum", "mean", "none"), "Unsupported reduction type!"
    capture = current()
    if capture is not None:
        return capture.call_named("poptorch::identity_loss", (x, reduction))
    return {"sum": torch.sum, "mean": torch.mean, "none": lambda t: t}[reduction](x)


# ---- control flow


def _as_list(results: Any) -> list:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def for_loop(count: int, body: Callable[..., Any], inputs: List[torch.Tensor]) -> List[torch.Tensor]:
    """A loop on the IPU, in inference models: the body is called with the inputs, then with what it returned, ...

    :param count: number of turns.
    :param body: takes as many tensors as there are inputs, and returns as many of the same types and shapes. Inputs are
        passed by value.
    :param inputs: a list of tensors.
    :returns: what the last turn returned, as a list.
    """
    if not isinstance(inputs, list):
        raise ValueError("poptorch.for_loop expects input tensors (inputs) to be a list of tensors. (Object is not list)")
    for i, tensor in enumerate(inputs):
        if not isinstance(tensor, torch.Tensor):
            raise ValueError("poptorch.for_loop expects input tensors (inputs) to be a list of tensors. (Object contained in "
                             f"list at index {i} is not torch.tensor)")
    capture = current()
    if capture is not None:
        return _control.for_loop(capture, count, body, inputs)
    values = [t.clone() for t in inputs]
    for _ in range(count):
        values = _as_list(body(*values))
    return values


def cond(condition: torch.Tensor, then_body: Callable[..., Any], then_inps: List[torch.Tensor],
         else_body: Callable[..., Any], else_inps: List[torch.Tensor]) -> List[torch.Tensor]:
    """One of two branches on the IPU, chosen at run time, in inference models.

    Both may use any tensor of the model; changes they make to it in place are not seen outside.

    :param condition: a boolean tensor with one element.
    :param then_body: called with the list `then_inps` if the condition holds.
    :param else_body: called with the list `else_inps` if not. Returns as many tensors of the same types and shapes.
    :returns: what the branch returned, as a list.
    """
    if not isinstance(then_inps, list) or not isinstance(else_inps, list):
        raise ValueError("poptorch.cond expects then_inps and else_inps tensors to be a list of tensors. (Object is not list)")
    capture = current()
    if capture is not None:
        return _control.cond(capture, condition, then_body, then_inps, else_body, else_inps)
    return _as_list(then_body(*then_inps) if condition else else_body(*else_inps))


# ---- slices at run time


def dynamic_slice(tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int, step: int) -> torch.Tensor:
    """A part of a tensor from a start that is known at run time: tensor[..., start:start + size:step, ...].

    :param size: how far it reaches; a constant.
    """
    _must_be_tensor(tensor, "dynamic_slice must take a torch.tensor input.")
    if not isinstance(dim, int):
        raise createPoptorchError("Dimension must be an integer.")
    _must_be_tensor(start, "Slice start argument to dynamic_slice must be a torch.tensor.")
    if not isinstance(size, int):
        raise createPoptorchError("Size must be an integer.")
    if not isinstance(step, int):
        raise createPoptorchError("Step must be an integer.")
    capture = current()
    if capture is not None:
        return capture.call_named("poptorch::dynamic_slice", (tensor, dim, start, size, step))
    begin = int(start)
    index = [slice(None)] * tensor.dim()
    index[dim] = slice(begin, begin + size, step)
    return tensor[tuple(index)]


def _device_dtype(tensor: torch.Tensor) -> torch.dtype:
    """The type in which the IPU holds it."""
    return {torch.int64: torch.int32, torch.float64: torch.float32}.get(tensor.dtype, tensor.dtype)


def dynamic_update(input: torch.Tensor, src: torch.Tensor, dim: int, start: torch.Tensor, size: int) -> torch.Tensor:
    """A copy of a tensor in which input[..., start:start + size, ...] is `src`, for a start that is known at run time."""
    _must_be_tensor(input, "dynamic_update must take a torch.tensor input.")
    if not isinstance(dim, int):
        raise createPoptorchError("Dimension must be an integer.")
    _must_be_tensor(start, "Slice start argument to dynamic_update must be a torch.tensor.")
    _must_be_tensor(src, "Src argument to dynamic_update must be a torch.tensor.")
    if not isinstance(size, int):
        raise createPoptorchError("Size must be an integer.")
    if input.dim() != src.dim():
        raise createPoptorchError("input and src tensors must have same dimensionality. "
                                  f"({input.dim()}) vs ({src.dim()})")
    if input.dtype != src.dtype:
        raise createPoptorchError("input and src tensor must have same dtype. "
                                  f"({_device_dtype(input)} vs {_device_dtype(src)})")
    capture = current()
    if capture is not None:
        return capture.call_named("poptorch::dynamic_update", (input, src, dim, start, size))
    result = input.clone()
    result.narrow(dim, int(start), size).copy_(src)
    return result


# ---- the host


class CPU:
    """A function that is run on the host in the middle of an inference model.

    >>> self.cpu = poptorch.CPU(self.my_function, "MyOp")
    ...
    >>> y = self.cpu(x)

    :param layer_to_call: takes and returns tensors; called with those of the host.
    :param ID: name of the op.
    """

    def __init__(self, layer_to_call: Callable, ID: str) -> None:
        self._layer_to_call = layer_to_call
        self._ID = ID

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        capture = current()
        if capture is None:
            return self._layer_to_call(*args, **kwargs)
        return _host.call(capture, self._layer_to_call, self._ID, args, kwargs)


def ipu_print_tensor(tensor: torch.Tensor, title: str = "", print_gradient: bool = True, summarise_threshold: int = 1000,
                     edge_items: int = 3, max_line_width: int = 80, digits: int = 4, float_format: str = "auto",
                     separator: str = ", ", open_bracket: str = "(", close_bracket: str = ")") -> torch.Tensor:
    """Print a tensor to stderr while the model runs. Use the result: what nothing uses is not printed.

    :param title: printed before it.
    :param print_gradient: in training also print its gradient, with "_gradient" behind the title.
    :param summarise_threshold: of tensors with more elements only the edges are printed.
    :param edge_items: elements at each edge.
    :param max_line_width: characters in a line.
    :param digits: significant digits.
    :param float_format: "auto", "fixed", "scientific" or "none".
    """
    _must_be_tensor(tensor, "ipu print tensor must take a torch.tensor argument.")
    if float_format not in ("auto", "fixed", "scientific", "none"):
        raise createPoptorchError(f"float_format {float_format!r}: expected auto, fixed, scientific or none")
    capture = current()
    if capture is None:
        return tensor
    how = _show.Format(summarise_threshold, edge_items, max_line_width, digits, float_format, separator, open_bracket,
                       close_bracket)
    title = title or f"Tensor at {capture.where()}"
    shown = _host.shown(capture, title, how)
    gradient = _host.shown(capture, f"{title}_gradient", how) if print_gradient and capture.training else None
    return capture.call_named("poptorch::ipu_print_tensor", (tensor, shown, gradient))


# ---- hints


def nop(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor, by an op that nothing removes."""
    _must_be_tensor(tensor, "nop must take a torch.tensor argument.")
    return _hint("nop", tensor)


def recomputationCheckpoint(*tensors: Any) -> Any:
    """Values to be kept for the gradients, where others are computed again.

    :returns: the same: one tensor, a list or a tuple as it was given, or a tuple of several.
    """

    def checkpoint(tensor: Any) -> torch.Tensor:
        if not isinstance(tensor, torch.Tensor):
            raise ValueError("All inputs must be tensors")
        return _hint("recomputation_checkpoint", tensor)

    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return type(tensors[0])(checkpoint(t) for t in tensors[0])
    results = tuple(checkpoint(t) for t in tensors)
    return results[0] if len(results) == 1 else results


def serializedMatMul(lhs: torch.Tensor, rhs: torch.Tensor, mode: enums.MatMulSerializationMode, factor: int = 0,
                     keep_precision: bool = False) -> torch.Tensor:
    """A matrix product that is computed in `factor` parts, to use less memory. The result does not depend on it."""
    assert isinstance(keep_precision, bool)
    assert isinstance(factor, int)
    assert isinstance(mode, enums.MatMulSerializationMode)
    return _hint("set_matmul_serialization", torch.matmul(lhs, rhs), mode.value, factor, keep_precision)


def set_available_memory(tensor: torch.Tensor, available_memory_proportion: float) -> torch.Tensor:
    """How much of a tile's memory the op that computed a tensor may use for temporary values."""
    _must_be_tensor(tensor, "You may only set available memory for torch.tensor values.")
    return _hint("set_available_memory", tensor, available_memory_proportion)


def _set_overlap(name: str, what: str, tensors: Any, mode: enums.OverlapMode) -> Any:
    if current() is None:
        return tensors

    def each(value: Any) -> Any:
        _must_be_tensor(value, f"You may only set overlap for torch.tensor {what}.")
        capture = current()
        before = capture.read(value)
        result = _hint(name, value, mode.value)
        capture.graph.overlaps.append((name, before, mode, capture.where()))
        return result

    if isinstance(tensors, dict):
        return {k: _set_overlap(name, what, v, mode) for k, v in tensors.items()}
    if isinstance(tensors, (list, tuple)):
        return type(tensors)(_set_overlap(name, what, v, mode) for v in tensors)
    return each(tensors)


def set_overlap_for_input(input_tensors: Any, mode: enums.OverlapMode) -> Any:
    """Whether transfers of inputs (a tensor, or a structure of them) overlap computation. Apply it before anything else."""
    return _set_overlap("set_overlap_for_input", "inputs", input_tensors, mode)


def set_overlap_for_output(output_tensors: Any, mode: enums.OverlapMode) -> Any:
    """Whether transfers of outputs (a tensor, or a structure of them) overlap computation. Return what it returns."""
    return _set_overlap("set_overlap_for_output", "outputs", output_tensors, mode)


# ---- others


def ctc_beam_search_decoder(probs: torch.Tensor, lengths: torch.Tensor, blank: int = 0, beam_width: int = 100,
                            top_paths: int = 1) -> List[torch.Tensor]:
    """The most probable labels of sequences that were trained with the CTC loss.

    :param probs: log probabilities [time, batch, classes].
    :param lengths: lengths of the sequences [batch].
    :param blank: class that stands for no label.
    :param beam_width: prefixes that are followed.
    :param top_paths: sequences to be returned.
    :returns: their log probabilities [batch, top_paths], lengths [batch, top_paths] and labels [batch, top_paths, time].
    """
    _must_be_tensor(probs, "ctc_beam_search_decoder: probs must be a torch.tensor argument.")
    _must_be_tensor(lengths, "ctc_beam_search_decoder: lengths must be a torch.tensor argument.")
    capture = current()
    if capture is None:
        raise createPoptorchError("ctc_beam_search_decoder can only be used in a model that runs on the IPU")
    return list(capture.call_named("poptorch::ctc_beam_search_decoder", (probs, lengths, blank, beam_width, top_paths)))


_AttributeValue = Union[float, int, str, list, tuple]


def _check_attributes(attributes: Dict[str, _AttributeValue]) -> None:

    def check_text(text: Any) -> None:
        if isinstance(text, str) and not text.isascii():
            raise ValueError(f"{text} contains non-ASCII characters.")

    for key, value in attributes.items():
        if not isinstance(key, str):
            raise ValueError("All attribute keys must be strings.")
        if not isinstance(value, (float, int, str, list, tuple)):
            raise ValueError("Attribute values must be floats, ints, strings or a list/tuple of float, ints of strings.")
        elements = value if isinstance(value, (list, tuple)) else [value]
        if len({type(e) for e in elements}) > 1:
            raise ValueError("The types in a list/tuple attribute must all be the same.")
        check_text(key)
        for element in elements:
            check_text(element)


def _gather_last_dim(data: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    if tuple(data.shape[:-1]) != tuple(index.shape[:-1]):
        raise createPoptorchError(f"FastGatherLastDim: shapes {tuple(data.shape)} of the data and {tuple(index.shape)} of the "
                                  "indices must be equal but for the last dimension")
    return torch.gather(data, -1, index)


def custom_op(inputs: Sequence[torch.Tensor], name: str, domain: str, domain_version: int,
              example_outputs: Sequence[torch.Tensor],
              attributes: Optional[Dict[str, _AttributeValue]] = None) -> List[torch.Tensor]:
    """An op that torch has not. Here: any op of libipu by its name (`ipu ops` lists them), in domain "openipu".

    :param inputs: its tensors.
    :param name: of the op; :param domain: "openipu".
    :param example_outputs: tensors of the types and shapes of the results.
    :param attributes: of the op.
    """
    attributes = dict(attributes or {})
    _check_attributes(attributes)
    keep_attributes(attributes)
    capture = current()
    if capture is None:
        raise createPoptorchError(f"custom_op {name} can only be used in a model that runs on the IPU")
    if (domain, name) == ("poptorch.custom_ops", "FastGatherLastDim"):
        return [_gather_last_dim(*inputs)]
    if domain != "openipu":
        raise createPoptorchError(f"No implementation of the custom op {domain}.{name}:{domain_version} is there: ops compiled "
                                  "for PopART cannot be loaded. Ops of libipu can be used in domain \"openipu\"")
    results = [(tuple(t.shape), t.dtype) for t in example_outputs]
    return list(capture.call_named("poptorch::custom_operation", (list(inputs), name, results, attributes)))
