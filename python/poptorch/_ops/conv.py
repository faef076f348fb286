"""Convolutions and transposed convolutions of one to three dimensions."""
from __future__ import annotations

from typing import Optional, Sequence, Tuple, Union

import torch

from .registry import op

Ints = Union[int, Sequence[int]]


def spread(value: Ints, n: int) -> Tuple[int, ...]:
    """`value` as n integers: torch lets one stand for all."""
    if isinstance(value, int):
        return (value, ) * n
    values = tuple(int(v) for v in value)
    return values * n if len(values) == 1 else values


def exact_type(g, dtype: torch.dtype) -> str:
    """The type to compute in: of whole numbers double, which holds their sums of products."""
    return g.type_of(dtype) if dtype.is_floating_point else "double"


def activation_type(x: torch.Tensor, weight: torch.Tensor) -> torch.dtype:
    """Of a layer: floating activations keep their type, whatever floating type the weights are kept in."""
    if x.is_floating_point() and weight.is_floating_point():
        return x.dtype
    return torch.promote_types(x.dtype, weight.dtype)


def _shape(x, weight, stride, padding, dilation, transposed, output_padding, groups):
    n = weight.dim() - 2
    stride, padding, dilation = (spread(v, n) for v in (stride, padding, dilation))
    kernel, size = weight.shape[2:], x.shape[2:]
    reach = [d * (k - 1) for d, k in zip(dilation, kernel)]
    if transposed:
        more = spread(output_padding, n)
        out = [(size[i] - 1) * stride[i] - 2 * padding[i] + reach[i] + more[i] + 1 for i in range(n)]
        return (x.shape[0], weight.shape[1] * groups, *out)
    out = [(size[i] + 2 * padding[i] - reach[i] - 1) // stride[i] + 1 for i in range(n)]
    return (x.shape[0], weight.shape[0], *out)


def _check(x, weight, bias, transposed, groups, shape) -> None:
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    if x.dim() != weight.dim():
        raise RuntimeError(f"Expected {weight.dim()}-dimensional input for {weight.dim()}-dimensional weight "
                           f"{list(weight.shape)}, but got {x.dim()}-dimensional input of size {list(x.shape)} instead")
    if x.shape[1] != channels:
        raise RuntimeError(f"Given groups={groups}, weight of size {list(weight.shape)}, expected input"
                           f"{list(x.shape)} to have {channels} channels, but got {x.shape[1]} channels instead")
    if bias is not None and tuple(bias.shape) != (shape[1], ):
        raise RuntimeError(f"Expected bias of size [{shape[1]}] for weight of size {list(weight.shape)}, "
                           f"found {list(bias.shape)}")
    if min(shape[2:]) < 1:
        raise RuntimeError(f"Kernel of size {list(weight.shape[2:])} is larger than the padded input {list(x.shape)}")


def convolution_meta(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Shape and type as torch has them, without its search for a backend."""
    shape = _shape(x, weight, stride, padding, dilation, transposed, output_padding, groups)
    _check(x, weight, bias, transposed, groups, shape)
    return torch.empty(shape, dtype=activation_type(x, weight), device="meta")


@op("aten::convolution", meta=convolution_meta)
def convolution(g, node, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups: int):
    n = weight.rank - 2
    kind = exact_type(g, node.outputs[0].dtype)
    x, weight, bias = (None if v is None else g.cast(v, kind) for v in (x, weight, bias))
    with_ = {
        "stride": list(spread(stride, n)),
        "padding": list(spread(padding, n)) * 2,
        "dilation": list(spread(dilation, n)),
        "groups": groups,
    }
    if transposed:
        return g.emit("conv_transpose", [x, weight, bias], output_padding=list(spread(output_padding, n)), **with_)
    return g.emit("conv", [x, weight, bias], **with_)


@op("aten::_convolution", meta=lambda *args: convolution_meta(*args[:9]))
def convolution_with_flags(g, node, *args):
    return convolution(g, node, *args[:9])


@op("aten::convolution_overrideable", "aten::mkldnn_convolution")
def convolution_variant(g, node, x, weight, bias: Optional[object], *args):
    if len(args) == 6:
        return convolution(g, node, x, weight, bias, *args)
    padding, stride, dilation, groups = args
    return convolution(g, node, x, weight, bias, stride, padding, dilation, False, [0], groups)
