"""Tensors made from numbers: filled ones, ranges, and whatever torch can make beforehand."""
from __future__ import annotations

import torch

from .._capture.torch_compat import overload_of
from .registry import op


def filled(g, value, dtype, shape):
    """A tensor of one value: a scalar repeated, which takes no memory until something needs it in one piece."""
    return g.broadcast(g.const(value, dtype), tuple(shape))


def _like_output(g, node, value):
    out = node.outputs[0]
    return filled(g, value, out.dtype, out.shape)


@op("aten::zeros", "aten::zeros_like", "aten::new_zeros", "aten::zero", "aten::zero_", "aten::_efficientzerotensor",
    "aten::empty.memory_format", "aten::empty_like", "aten::empty_strided", "aten::new_empty",
    "aten::new_empty_strided")
def zeros(g, node, *_, **__):
    return _like_output(g, node, 0)


@op("aten::ones", "aten::ones_like", "aten::new_ones")
def ones(g, node, *_, **__):
    return _like_output(g, node, 1)


@op("aten::full", "aten::full_like")
def full(g, node, _, value, *__, **___):
    return _like_output(g, node, value)


@op("aten::new_full")
def new_full(g, node, x, size, value, **_):
    return _like_output(g, node, value)


@op("aten::fill", "aten::fill_")
def fill(g, node, x, value):
    return _spread(g, node, value) if hasattr(value, "type") else _like_output(g, node, value)


def _spread(g, node, value):
    out = node.outputs[0]
    return g.broadcast(g.reshape(g.cast(value, out.dtype), ()), tuple(out.shape))


@op("aten::scalar_tensor")
def scalar_tensor(g, node, value, **_):
    return _like_output(g, node, value)


def _arange_meta(*args, dtype=None, **_):
    """torch 1.13 on meta tensors takes numbers for whole ones."""
    start, end, step = (0, args[0], 1) if len(args) == 1 else (args + (1, ))[:3]
    if dtype is None:
        whole = all(isinstance(a, int) for a in args)
        dtype = torch.int64 if whole else torch.get_default_dtype()
    return torch.empty_like(torch.arange(start, end, step, dtype=dtype, device="cpu"), device="meta")


@op("aten::range", "aten::linspace", "aten::logspace", "aten::eye", "aten::tril_indices",
    "aten::triu_indices", "aten::hann_window", "aten::hamming_window", "aten::bartlett_window",
    "aten::blackman_window", "aten::kaiser_window")
@op("aten::arange", meta=_arange_meta)
def made_beforehand(g, node, *args, **kwargs):
    """Ops of numbers alone: torch makes the tensor once, the model holds it."""
    kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "layout", "pin_memory")}
    out = node.outputs[0]
    dtype = out.dtype if out.dtype != torch.float16 else torch.float32
    made = overload_of(node.target)(*args, **{**kwargs, "dtype": dtype, "device": "cpu"})
    return g.const(made.to(out.dtype), out.dtype)


@op("aten::fill_diagonal_")
def fill_diagonal(g, node, x, value, wrap: bool = False):
    on = torch.zeros(x.shape, dtype=torch.bool).fill_diagonal_(True, wrap=wrap)
    return g.op.where(g.const(on, torch.bool), g.const(value, x.type), x)
