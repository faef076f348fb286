"""Pooling over windows: maxima, averages, adaptive and fractional windows, unpooling."""
from __future__ import annotations

from typing import Optional, Sequence

import torch

from .conv import Ints, exact_type, spread
from .registry import op


def _batched(g, x, n: int):
    """x as [batch, channels, n planes]; torch allows the batch to be left out."""
    return g.reshape(x, (1, *x.shape)) if x.rank == n + 1 else x


def _like(g, node, y, output: int = 0):
    return g.reshape(y, tuple(node.outputs[output].shape))


def _windows(kernel: Ints, stride: Optional[Ints], padding: Ints, ceil_mode: bool, n: int) -> dict:
    kernel = spread(kernel, n)
    return {
        "kernel": list(kernel),
        "strides": list(spread(stride, n)) if stride not in (None, [], ()) else list(kernel),
        "pads": list(spread(padding, n)) * 2,
        "ceil_mode": int(ceil_mode),
    }


# ---- maxima ----


def _pooled(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return free // stride + 1
    n = -(-free // stride) + 1
    return n - 1 if (n - 1) * stride >= size + padding else n


def max_pool3d_meta(x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    """torch 1.13 has no meta kernel for three dimensions."""
    kernel, padding, dilation = spread(kernel, 3), spread(padding, 3), spread(dilation, 3)
    stride = spread(stride, 3) if stride not in (None, [], ()) else kernel
    size = [_pooled(*window, ceil_mode) for window in zip(x.shape[-3:], kernel, stride, padding, dilation)]
    shape = (*x.shape[:-3], *size)
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)


def _max_pool(g, node, x, n, kernel, stride, padding, dilation, ceil_mode):
    whole = x.type not in ("float", "half", "double", "bfloat16")
    y, indices = g.emit("max_pool", [g.cast(_batched(g, x, n), "float" if whole else x.type)],
                        n_out=2,
                        dilations=list(spread(dilation, n)),
                        **_windows(kernel, stride, padding, ceil_mode, n))
    return g.cast(_like(g, node, y), x.type), _like(g, node, indices, 1)


@op("aten::max_pool2d_with_indices")
def max_pool2d(g, node, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    return _max_pool(g, node, x, 2, kernel, stride, padding, dilation, ceil_mode)


@op("aten::max_pool3d_with_indices", meta=max_pool3d_meta)
def max_pool3d(g, node, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    return _max_pool(g, node, x, 3, kernel, stride, padding, dilation, ceil_mode)


# ---- averages ----


def _full_windows(g, x, windows: dict, out: Sequence[int]):
    """x with zeros around, so that all `out` windows are wholly there."""
    n = len(windows["kernel"])
    before = windows["pads"][:n]
    after = [(out[i] - 1) * windows["strides"][i] + windows["kernel"][i] - before[i] - x.shape[2 + i] for i in range(n)]
    return g.emit("pad", [x], before=[0, 0, *before], after=[0, 0, *after])


def _avg_pool(g, node, x, n, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
    x = g.cast(_batched(g, x, n), exact_type(g, node.outputs[0].dtype))
    windows = _windows(kernel, stride, padding, ceil_mode, n)
    if divisor is None:
        y = g.emit("average_pool", [x], count_include_pad=int(count_include_pad), **windows)
        return _like(g, node, y)
    elements = 1
    for k in windows["kernel"]:
        elements *= k
    x = _full_windows(g, x, windows, node.outputs[0].shape[-n:])
    y = g.emit("average_pool", [x], kernel=windows["kernel"], strides=windows["strides"])
    return _like(g, node, g.op.mul(y, elements / divisor))


@op("aten::avg_pool2d")
def avg_pool2d(g, node, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    return _avg_pool(g, node, x, 2, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)


@op("aten::avg_pool3d")
def avg_pool3d(g, node, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    return _avg_pool(g, node, x, 3, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)


# ---- adaptive windows ----


def _adaptive_avg(g, node, x, n):
    size = list(node.outputs[0].shape[-n:])
    return _like(g, node, g.emit("adaptive_average_pool", [_batched(g, x, n)], size=size))


@op("aten::_adaptive_avg_pool2d", "aten::adaptive_avg_pool2d")
def adaptive_avg_pool2d(g, node, x, output_size):
    return _adaptive_avg(g, node, x, 2)


@op("aten::_adaptive_avg_pool3d", "aten::adaptive_avg_pool3d")
def adaptive_avg_pool3d(g, node, x, output_size):
    return _adaptive_avg(g, node, x, 3)


def _adaptive_max(g, node, x, n):
    y, indices = g.emit("adaptive_max_pool", [_batched(g, x, n)], n_out=2, size=list(node.outputs[0].shape[-n:]))
    return _like(g, node, y), _like(g, node, indices, 1)


@op("aten::adaptive_max_pool2d")
def adaptive_max_pool2d(g, node, x, output_size):
    return _adaptive_max(g, node, x, 2)


@op("aten::adaptive_max_pool3d")
def adaptive_max_pool3d(g, node, x, output_size):
    return _adaptive_max(g, node, x, 3)


# ---- fractional windows ----


def _largest_of(g, x, places, out: Sequence[int]):
    """The largest element of each window, and where in its plane it is.

    `places` is int32 [batch, channels, windows, places of a window], of the rank of x by dimensions of 1.
    """
    picked = g.emit("pool_gather", [x, places])
    first = g.emit("argmax", [picked], axis=-1, keep_dims=1)
    indices = g.emit("gather_elements", [places, first], axis=-1)
    indices = g.reshape(indices, (*x.shape[:2], *out))
    return g.emit("pool_gather", [x, indices]), indices


def _starts(g, samples, size: int, kernel: int, n: int):
    """Where windows begin: [batch, channels, n], of samples [batch, channels] from 0 to 1."""
    batch = samples.shape
    samples = g.reshape(g.cast(samples, "float"), (*batch, 1))
    if n == 1:
        return g.broadcast(g.const(size - kernel, torch.int32), (*batch, 1))
    alpha = (size - kernel) / (n - 1)
    steps = g.op.add(samples, g.const(torch.arange(n - 1), "float"))
    begin = g.op.sub(g.op.trunc(g.op.mul(steps, alpha)), g.op.trunc(g.op.mul(samples, alpha)))
    last = g.broadcast(g.const(size - kernel, "float"), (*batch, 1))
    return g.cast(g.emit("concat", [begin, last], axis=2), "int32")


def _fractional_max(g, node, x, kernel, samples, order: Sequence[int]):
    n = len(order)
    x = _batched(g, x, n)
    size, out, kernel = x.shape[2:], tuple(node.outputs[0].shape[-n:]), spread(kernel, n)
    places = g.const(0, torch.int32, (1, 1, *[1] * (2 * n)))
    for i in range(n):
        sample = g.emit("slice", [samples], begin=[0, order[i]], end=[x.shape[0], order[i] + 1], axes=[0, 2])
        sample = g.reshape(sample, x.shape[:2])
        shape = [1] * (2 * n)
        shape[i] = out[i]
        start = g.reshape(_starts(g, sample, size[i], kernel[i], out[i]), (*x.shape[:2], *shape))
        shape = [1] * (2 * n)
        shape[n + i] = kernel[i]
        taps = g.const(torch.arange(kernel[i]).reshape(shape), torch.int32)
        places = g.op.add(g.op.mul(places, size[i]), g.op.add(start, taps))
    windows, taps = 1, 1
    for o, k in zip(out, kernel):
        windows, taps = windows * o, taps * k
    places = g.reshape(places, (*x.shape[:2], *[1] * (n - 2), windows, taps))
    y, indices = _largest_of(g, x, places, out)
    return _like(g, node, y), _like(g, node, indices, 1)


@op("aten::fractional_max_pool2d")
def fractional_max_pool2d(g, node, x, kernel_size, output_size, random_samples):
    return _fractional_max(g, node, x, kernel_size, random_samples, (1, 0))


@op("aten::fractional_max_pool3d")
def fractional_max_pool3d(g, node, x, kernel_size, output_size, random_samples):
    return _fractional_max(g, node, x, kernel_size, random_samples, (0, 1, 2))


# ---- unpooling ----


def _unpool_meta(x, indices, output_size, *_):
    return x.new_empty((*x.shape[:-len(output_size)], *output_size))


def _max_unpool(g, node, x, indices, size):
    n = len(size)
    y = g.emit("max_unpool", [_batched(g, x, n), _batched(g, indices, n)], size=list(size))
    return _like(g, node, y)


@op("aten::max_unpool2d", meta=_unpool_meta)
def max_unpool2d(g, node, x, indices, output_size):
    return _max_unpool(g, node, x, indices, output_size)


@op("aten::max_unpool3d", meta=_unpool_meta)
def max_unpool3d(g, node, x, indices, output_size, stride, padding):
    return _max_unpool(g, node, x, indices, output_size)
