"""Padding, and images as columns of windows (unfold) and back (fold)."""
from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import torch

from .registry import function, op

_AROUND = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def sides(padding: Sequence[int], rank: int) -> Tuple[List[int], List[int]]:
    """torch's padding (last dimension first, before and after) as what goes before and behind each dimension."""
    before, after = [0] * rank, [0] * rank
    for i in range(len(padding) // 2):
        before[rank - 1 - i] = int(padding[2 * i])
        after[rank - 1 - i] = int(padding[2 * i + 1])
    return before, after


def padded(g, x, padding: Sequence[int], value: float = 0):
    """`x` with `value` put around it."""
    if not any(padding):
        return x
    before, after = sides(padding, x.rank)
    if x.type == "bool":
        return g.cast(g.op.pad(g.cast(x, "uint8"), before=before, after=after, value=float(bool(value))), "bool")
    return g.op.pad(x, before=before, after=after, value=float(value))


def continued(g, x, padding: Sequence[int], mode: str):
    """`x` continued by its own elements: reflect, replicate or circular."""
    if not any(padding):
        return x
    if mode == "circular" and min(padding) < 0:  # what is cut off does not come back at the other side
        x = padded(g, x, [min(0, p) for p in padding])
        padding = [max(0, p) for p in padding]
    before, after = sides(padding, x.rank)
    return g.op.pad_around(x, before=before, after=after, mode=_AROUND[mode])


def _pad_meta(x, pad, mode="constant", value=None):
    if mode == "circular":
        return _circular_meta(x, pad)
    return torch._C._nn.pad(x, pad, mode, value)


def _circular_meta(x, pad):
    before, after = sides(pad, x.dim())
    for d, extent in enumerate(x.shape):
        if max(before[d], after[d]) > extent:
            raise RuntimeError(f"Padding value causes wrapping around more than once: expected at most {extent} for "
                               f"dimension {d}, found {max(before[d], after[d])}")
    return torch.empty([b + n + a for b, n, a in zip(before, x.shape, after)], dtype=x.dtype, device="meta")


@function(torch.nn.functional.pad, meta=_pad_meta)
def pad(g, node, x, pad: Sequence[int], mode: str = "constant", value: Optional[float] = None):
    if mode == "constant":
        return padded(g, x, pad, 0 if value is None else value)
    return continued(g, x, pad, mode)


@op("aten::constant_pad_nd")
def constant_pad_nd(g, node, x, pad: Sequence[int], value: float = 0):
    return padded(g, x, pad, value)


@op("aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d")
def reflection_pad(g, node, x, padding: Sequence[int]):
    return continued(g, x, padding, "reflect")


@op("aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d")
def replication_pad(g, node, x, padding: Sequence[int]):
    return continued(g, x, padding, "replicate")


# ---- columns ----


def _pair(value) -> Tuple[int, int]:
    if isinstance(value, int):
        return value, value
    values = tuple(int(v) for v in value)
    return (values * 2)[:2]


def _windows(kernel, dilation, padding, stride) -> dict:
    return {"kernel": _pair(kernel), "dilations": _pair(dilation), "pads": _pair(padding), "strides": _pair(stride)}


@op("aten::im2col")
def im2col(g, node, x, kernel_size, dilation, padding, stride):
    return g.op.im2col(x, **_windows(kernel_size, dilation, padding, stride))


def _col2im_meta(x, output_size, kernel_size, dilation, padding, stride):
    """torch 1.13's own takes dilation and padding for one another."""
    size, kernel, dilation, padding, stride = (
        _pair(v) for v in (output_size, kernel_size, dilation, padding, stride))
    windows = [(n + 2 * p - d * (k - 1) - 1) // s + 1
               for n, k, d, p, s in zip(size, kernel, dilation, padding, stride)]
    inside, n = kernel[0] * kernel[1], windows[0] * windows[1]
    if x.shape[-2] % inside or x.shape[-1] != n:
        raise RuntimeError(f"Given output_size={size}, kernel_size={kernel}, dilation={dilation}, padding={padding}, "
                           f"stride={stride}, expected input of size [..., channels * {inside}, {n}], but got "
                           f"{list(x.shape)}")
    return torch.empty((*x.shape[:-2], x.shape[-2] // inside, *size), dtype=x.dtype, device="meta")


@op("aten::col2im", meta=_col2im_meta)
def col2im(g, node, x, output_size, kernel_size, dilation, padding, stride):
    return g.op.col2im(x, size=_pair(output_size), **_windows(kernel_size, dilation, padding, stride))
