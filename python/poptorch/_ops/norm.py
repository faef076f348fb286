"""Normalisations: batch, layer, group, instance, local response, weight norm."""
from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from .registry import function, op


def _affine(g, x, weight, bias):
    """Weight and bias in the type of x, as the ops want them."""
    return [None if v is None else g.cast(v, x.type) for v in (weight, bias)]


# ---- batch norm ----


def _same(x, *_, **__):
    return torch.empty_like(x)


def _moved(g, old, now, momentum: float):
    """old + momentum * (now - old), in the type of `old`."""
    return g.op.add(old, g.op.mul(g.op.sub(g.cast(now, old.type), old), momentum))


def _running(g, x, mean, var, running_mean, running_var, momentum: float):
    """New running statistics: the variance that is kept divides by n - 1. None: there are none to keep."""
    if running_mean is None or running_var is None:
        return running_mean, running_var
    n = math.prod(x.shape) // max(1, x.shape[1])
    mean, var = g.op.stop_gradient(mean), g.op.stop_gradient(var)
    unbiased = g.op.mul(var, n / (n - 1)) if n > 1 else var
    return _moved(g, running_mean, mean, momentum), _moved(g, running_var, unbiased, momentum)


def _given_statistics(g, x, mean, var, affine, eps: float):
    """With a mean and variance that are kept, in the type of x or in float."""
    kept = [v if v.type == x.type else g.cast(v, "float") for v in (mean, var)]
    return g.emit("batch_norm_inference", [x, *kept, *affine], epsilon=eps)


def _batch_norm_meta(input, running_mean=None, running_var=None, weight=None, bias=None, training=False, *_, **__):
    if not training and (running_mean is None or running_var is None):
        raise ValueError("Expected running_mean and running_var to be defined when training=False")
    if training and input.dim() > 1 and math.prod(input.shape) == input.shape[1]:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    return torch.empty_like(input)


@function(F.batch_norm, meta=_batch_norm_meta, mutates=("running_mean", "running_var"))
def batch_norm(g, node, input, running_mean=None, running_var=None, weight=None, bias=None, training=False,
               momentum=0.1, eps=1e-5, *_):
    x = input
    if 0 in x.shape:
        return x, running_mean, running_var
    affine = _affine(g, x, weight, bias)
    if not training:
        return _given_statistics(g, x, running_mean, running_var, affine, eps), running_mean, running_var
    y, mean, var = g.emit("batch_norm", [x, *affine], n_out=3, epsilon=eps)
    return (y, *_running(g, x, mean, var, running_mean, running_var, momentum))


@function(torch.native_batch_norm, mutates=("running_mean", "running_var"))
@op("aten::native_batch_norm", mutates=("running_mean", "running_var"))
def native_batch_norm(g, node, input, weight, bias, running_mean, running_var, training, momentum, eps):
    x, affine = input, _affine(g, input, weight, bias)
    if not training:
        y = _given_statistics(g, x, running_mean, running_var, affine, eps)
        deviation = g.op.rsqrt(g.op.add(running_var, eps))
        return y, running_mean, deviation, running_mean, running_var
    y, mean, var = g.emit("batch_norm", [x, *affine], n_out=3, epsilon=eps)
    deviation = g.op.rsqrt(g.op.add(var, eps))
    return (y, mean, deviation, *_running(g, x, mean, var, running_mean, running_var, momentum))


def _torch_meta(input, weight, bias, running_mean, running_var, training, *_):
    return _batch_norm_meta(input, running_mean, running_var, weight, bias, training)


@function(torch.batch_norm, meta=_torch_meta, mutates=("running_mean", "running_var"))
def torch_batch_norm(g, node, input, weight, bias, running_mean, running_var, training, momentum, eps, *_):
    """As torch itself calls it: weight and bias come first."""
    return batch_norm(g, node, input, running_mean, running_var, weight, bias, training, momentum, eps)


# ---- layer and group norm ----


@function(F.layer_norm, torch.layer_norm, meta=_same)
def layer_norm(g, node, input, normalized_shape, weight=None, bias=None, eps=1e-5, *_):
    return g.emit("layer_norm", [input, *_affine(g, input, weight, bias)], n_dims=len(normalized_shape), epsilon=eps)


@op("aten::native_layer_norm")
def native_layer_norm(g, node, input, normalized_shape, weight, bias, eps):
    n = len(normalized_shape)
    y, mean, var = g.emit("layer_norm", [input, *_affine(g, input, weight, bias)], n_out=3, n_dims=n, epsilon=eps)
    shape = (*input.shape[:input.rank - n], *[1] * n)
    return y, g.reshape(mean, shape), g.reshape(g.op.rsqrt(g.op.add(var, eps)), shape)


def _dealt(g, x, axis: int, rows: int):
    """Channels in another order: those of a table of so many rows, column by column."""
    channels = x.shape[axis]
    cut = (*x.shape[:axis], rows, channels // rows, *x.shape[axis + 1:])
    perm = list(range(len(cut)))
    perm[axis:axis + 2] = [axis + 1, axis]
    return g.reshape(g.emit("transpose", [g.reshape(x, cut)], perm=perm), x.shape)


def _strided_group_norm(g, x, groups: int, weight, bias, eps: float):
    """Groups of channels that are `groups` apart, not side by side: what the IPU is quicker with."""
    rows = x.shape[1] // groups
    affine = [None if v is None else _dealt(g, v, 0, rows) for v in _affine(g, x, weight, bias)]
    y = g.emit("group_norm", [_dealt(g, x, 1, rows), *affine], groups=groups, epsilon=eps)
    return _dealt(g, y, 1, groups)


@function(F.group_norm, torch.group_norm, meta=_same)
def group_norm(g, node, input, num_groups, weight=None, bias=None, eps=1e-5, *_):
    if g.graph.backend.get("groupNormStridedChannelGrouping"):
        return _strided_group_norm(g, input, num_groups, weight, bias, eps)
    return g.emit("group_norm", [input, *_affine(g, input, weight, bias)], groups=num_groups, epsilon=eps)


@op("aten::native_group_norm")
def native_group_norm(g, node, input, weight, bias, n, c, hxw, group, eps):
    y, mean, var = g.emit("group_norm", [input, *_affine(g, input, weight, bias)], n_out=3, groups=group, epsilon=eps)
    return y, mean, g.op.rsqrt(g.op.add(var, eps))


# ---- instance norm ----


def _channel_statistics(g, x):
    """Mean and unbiased variance of each channel, averaged over images."""
    axes = list(range(2, x.rank))
    n = math.prod(x.shape[2:])
    wide = g.op.stop_gradient(g.cast(x, "float"))
    mean = g.emit("reduce_mean", [wide], axes=axes, keep_dims=1)
    var = g.emit("reduce_mean", [g.op.square(g.op.sub(wide, mean))], axes=[0, *axes])
    return g.emit("reduce_mean", [mean], axes=[0, *axes]), g.op.mul(var, n / max(1, n - 1))


@function(F.instance_norm, meta=_same, mutates=("running_mean", "running_var"))
def instance_norm(g, node, input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-5, *_):
    x = input
    if not use_input_stats:
        return batch_norm(g, node, x, running_mean, running_var, weight, bias, False, momentum, eps)
    y = g.emit("instance_norm", [x, *_affine(g, x, weight, bias)], epsilon=eps)
    if running_mean is None:
        return y, running_mean, running_var
    mean, var = _channel_statistics(g, x)
    return y, _moved(g, running_mean, mean, momentum), _moved(g, running_var, var, momentum)


@function(torch.instance_norm, meta=_same, mutates=("running_mean", "running_var"))
def torch_instance_norm(g, node, input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, *_):
    """As torch itself calls it: weight and bias come first."""
    return instance_norm(g, node, input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


# ---- others ----


@function(F.local_response_norm, meta=_same)
def local_response_norm(g, node, input, size, alpha=1e-4, beta=0.75, k=1.0):
    return g.emit("local_response_norm", [input], size=size, alpha=alpha, beta=beta, bias=k)


def _weight_norm_meta(v, g, dim=0):
    return torch.empty_like(v)


@function(torch._weight_norm, meta=_weight_norm_meta)
def weight_norm(graph, node, v, g, dim=0):
    """v, scaled so that its slices are as long as g says, whose shape tells `dim` (-1: v as a whole)."""
    return graph.emit("weight_norm", [v, graph.cast(g, v.type)])
