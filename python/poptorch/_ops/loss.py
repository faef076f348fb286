"""Losses of torch.nn.functional, caught before torch takes them apart: what they give is implicitly a loss."""
from __future__ import annotations

from typing import Sequence

import torch
import torch.nn.functional as F
from torch.nn import _reduction

from .._errors import createPoptorchError
from .registry import function, op

_C_NAMES = {"mean": "mean", "sum": "sum", "none": "none", "batchmean": "batch_mean"}


def _reduction_of(size_average, reduce, reduction: str) -> str:
    """The reduction by its name; older code says it with two flags."""
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce, emit_warning=False)
    if reduction not in _C_NAMES:
        raise ValueError(f"{reduction} is not a valid value for reduction: expected one of {', '.join(_C_NAMES)}")
    return reduction


def _scalar_or(shape: Sequence[int], dtype: torch.dtype, reduction: str) -> torch.Tensor:
    return torch.empty(tuple(shape) if reduction == "none" else (), dtype=dtype, device="meta")


def _meta(tensors: Sequence[torch.Tensor], size_average=None, reduce=None, reduction="mean", shape=None):
    """Shape and type of a loss that is computed element by element."""
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = torch.promote_types(dtype, t.dtype)
    shape = torch.broadcast_shapes(*(t.shape for t in tensors)) if shape is None else shape
    return _scalar_or(shape, dtype, _reduction_of(size_average, reduce, reduction))


def _alike(g, node, *values):
    """All in the type of the result and of one shape."""
    shape = torch.broadcast_shapes(*(v.shape for v in values))
    return [g.broadcast(g.cast(v, node.outputs[0].dtype), shape) for v in values]


def _weight(g, weight, like):
    """Weights in the type of what they weigh; None stays."""
    return None if weight is None else g.cast(weight, like.type)


# ---- element by element ----


@function(F.l1_loss, loss=True, meta=lambda input, target, *a, **k: _meta([input, target], *a, **k))
def l1_loss(g, node, input, target, size_average=None, reduce=None, reduction="mean"):
    return g.emit("l1_loss", _alike(g, node, input, target), reduction=_reduction_of(size_average, reduce, reduction))


@function(F.mse_loss, loss=True, meta=lambda input, target, *a, **k: _meta([input, target], *a, **k))
def mse_loss(g, node, input, target, size_average=None, reduce=None, reduction="mean"):
    return g.emit("mse_loss", _alike(g, node, input, target), reduction=_reduction_of(size_average, reduce, reduction))


def _smooth_meta(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    return _meta([input, target], size_average, reduce, reduction)


@function(F.smooth_l1_loss, loss=True, meta=_smooth_meta)
def smooth_l1_loss(g, node, input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    how = _reduction_of(size_average, reduce, reduction)
    return g.emit("smooth_l1_loss", _alike(g, node, input, target), reduction=how, beta=beta)


def _huber_meta(input, target, reduction="mean", delta=1.0):
    return _meta([input, target], reduction=reduction)


@function(F.huber_loss, loss=True, meta=_huber_meta)
def huber_loss(g, node, input, target, reduction="mean", delta=1.0):
    return g.emit("huber_loss", _alike(g, node, input, target), reduction=reduction, delta=delta)


def _kl_meta(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    return _meta([input, target], size_average, reduce, reduction)


@function(F.kl_div, loss=True, meta=_kl_meta)
def kl_div(g, node, input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    how = _C_NAMES[_reduction_of(size_average, reduce, reduction)]
    return g.emit("kl_div_loss", _alike(g, node, input, target), reduction=how, log_target=int(log_target))


def _bce_meta(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    return _meta([input, target], size_average, reduce, reduction)


@function(F.binary_cross_entropy, loss=True, meta=_bce_meta)
def binary_cross_entropy(g, node, input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    how = _reduction_of(size_average, reduce, reduction)
    values = _alike(g, node, input, target)
    return g.emit("bce_loss", [*values, _weight(g, weight, values[0])], reduction=how)


def _bce_logits_meta(input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
    return _meta([input, target], size_average, reduce, reduction)


@function(F.binary_cross_entropy_with_logits, loss=True, meta=_bce_logits_meta)
def binary_cross_entropy_with_logits(g, node, input, target, weight=None, size_average=None, reduce=None,
                                     reduction="mean", pos_weight=None):
    how = _reduction_of(size_average, reduce, reduction)
    values = _alike(g, node, input, target)
    weights = [_weight(g, w, values[0]) for w in (pos_weight, weight)]
    return g.emit("bce_with_logits_loss", [*values, *weights], reduction=how)


def _poisson_meta(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
                  reduction="mean"):
    return _meta([input, target], size_average, reduce, reduction)


@function(F.poisson_nll_loss, loss=True, meta=_poisson_meta)
def poisson_nll_loss(g, node, input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
                     reduction="mean"):
    how = _reduction_of(size_average, reduce, reduction)
    return g.emit("poisson_nll_loss", _alike(g, node, input, target), reduction=how, log_input=log_input, full=full,
                  eps=eps)


def _gaussian_meta(input, target, var, full=False, eps=1e-6, reduction="mean"):
    if var.shape != input.shape and var.shape != input.shape[:-1] and var.shape != (*input.shape[:-1], 1):
        raise ValueError(f"var is of incorrect size: found {list(var.shape)} for an input of {list(input.shape)}")
    return _meta([input, target], reduction=reduction)


@function(F.gaussian_nll_loss, loss=True, meta=_gaussian_meta)
def gaussian_nll_loss(g, node, input, target, var, full=False, eps=1e-6, reduction="mean"):
    values = _alike(g, node, input, target)
    return g.emit("gaussian_nll_loss", [*values, g.cast(var, values[0].type)], reduction=reduction, full=full, eps=eps)


# ---- classes ----


def _labelled(g, node, scores, target, weight):
    """Scores [N, C, ...], labels and weights as the ops want them; a single sample gets a batch of one."""
    scores = g.cast(scores, node.outputs[0].dtype)
    soft = target.type in ("float", "half", "double", "bfloat16")
    if scores.rank == 1:
        scores = g.reshape(scores, (1, *scores.shape))
        target = g.reshape(target, (1, *target.shape))
    target = g.cast(target, scores.type if soft else "int32") if target.type != "int64" else target
    return scores, target, _weight(g, weight, scores)


def _class_meta(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                label_smoothing=0.0):
    how = _reduction_of(size_average, reduce, reduction)
    if input.shape == target.shape and target.dtype.is_floating_point:
        return _scalar_or(input.shape[:1] + input.shape[2:] if input.dim() > 1 else (), input.dtype, how)
    expected = input.shape[:1] + input.shape[2:] if input.dim() > 1 else ()
    if tuple(target.shape) != tuple(expected):
        raise ValueError(f"Expected target size {list(expected)} for an input of size {list(input.shape)}, "
                         f"got {list(target.shape)}")
    return _scalar_or(target.shape, input.dtype, how)


@function(F.nll_loss, loss=True, meta=_class_meta)
def nll_loss(g, node, input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    how = _reduction_of(size_average, reduce, reduction)
    values = _labelled(g, node, input, target, weight)
    y = g.emit("nll_loss", values, reduction=how, ignore_index=ignore_index)
    return g.reshape(y, tuple(node.outputs[0].shape))


@function(F.cross_entropy, loss=True, meta=_class_meta)
def cross_entropy(g, node, input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
                  reduction="mean", label_smoothing=0.0):
    how = _reduction_of(size_average, reduce, reduction)
    values = _labelled(g, node, input, target, weight)
    y = g.emit("cross_entropy", values, reduction=how, ignore_index=ignore_index, label_smoothing=label_smoothing)
    return g.reshape(y, tuple(node.outputs[0].shape))


def _multi_margin_meta(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    return _scalar_or(target.shape, input.dtype, _reduction_of(size_average, reduce, reduction))


@function(F.multi_margin_loss, loss=True, meta=_multi_margin_meta)
def multi_margin_loss(g, node, input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None,
                      reduction="mean"):
    how = _reduction_of(size_average, reduce, reduction)
    values = [input, g.cast(target, "int32"), _weight(g, weight, input)]
    return g.emit("multi_margin_loss", values, reduction=how, p=p, margin=margin)


def _multilabel_meta(input, target, size_average=None, reduce=None, reduction="mean"):
    return _scalar_or(input.shape[:-1], input.dtype, _reduction_of(size_average, reduce, reduction))


@function(F.multilabel_margin_loss, loss=True, meta=_multilabel_meta)
def multilabel_margin_loss(g, node, input, target, size_average=None, reduce=None, reduction="mean"):
    how = _reduction_of(size_average, reduce, reduction)
    return g.emit("multilabel_margin_loss", [input, g.cast(target, "int32")], reduction=how)


def _multilabel_soft_meta(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    return _meta([input], size_average, reduce, reduction, shape=input.shape[:-1])


@function(F.multilabel_soft_margin_loss, loss=True, meta=_multilabel_soft_meta)
def multilabel_soft_margin_loss(g, node, input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    how = _reduction_of(size_average, reduce, reduction)
    values = _alike(g, node, input, target)
    return g.emit("multilabel_soft_margin_loss", [*values, _weight(g, weight, values[0])], reduction=how)


# ---- with a margin ----


@function(F.soft_margin_loss, loss=True, meta=lambda input, target, *a, **k: _meta([input, target], *a, **k))
def soft_margin_loss(g, node, input, target, size_average=None, reduce=None, reduction="mean"):
    how = _reduction_of(size_average, reduce, reduction)
    return g.emit("soft_margin_loss", _alike(g, node, input, target), reduction=how)


def _hinge_meta(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    return _meta([input, target], size_average, reduce, reduction)


@function(F.hinge_embedding_loss, loss=True, meta=_hinge_meta)
def hinge_embedding_loss(g, node, input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    how = _reduction_of(size_average, reduce, reduction)
    return g.emit("hinge_embedding_loss", _alike(g, node, input, target), reduction=how, margin=margin)


def _ranking_meta(input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    return _meta([input1, input2, target], size_average, reduce, reduction)


@function(F.margin_ranking_loss, loss=True, meta=_ranking_meta)
def margin_ranking_loss(g, node, input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    how = _reduction_of(size_average, reduce, reduction)
    return g.emit("margin_ranking_loss", _alike(g, node, input1, input2, target), reduction=how, margin=margin)


def _cosine_meta(input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    dtype = torch.promote_types(input1.dtype, input2.dtype)
    return _scalar_or(target.shape, dtype, _reduction_of(size_average, reduce, reduction))


@function(F.cosine_embedding_loss, loss=True, meta=_cosine_meta)
def cosine_embedding_loss(g, node, input1, input2, target, margin=0.0, size_average=None, reduce=None,
                          reduction="mean"):
    how = _reduction_of(size_average, reduce, reduction)
    pair = _alike(g, node, input1, input2)
    return g.emit("cosine_embedding_loss", [*pair, g.cast(target, pair[0].type)], reduction=how, margin=margin)


def _triplet_meta(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None,
                  reduction="mean"):
    shape = torch.broadcast_shapes(anchor.shape, positive.shape, negative.shape)
    return _meta([anchor, positive, negative], size_average, reduce, reduction, shape=shape[:-1])


@function(F.triplet_margin_loss, loss=True, meta=_triplet_meta)
def triplet_margin_loss(g, node, anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None,
                        reduce=None, reduction="mean"):
    how = _reduction_of(size_average, reduce, reduction)
    values = _alike(g, node, anchor, positive, negative)
    return g.emit("triplet_margin_loss", values, reduction=how, margin=margin, p=p, eps=eps, swap=swap)


# ---- sequences ----


def _ctc_meta(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    return _scalar_or(log_probs.shape[1:2] if log_probs.dim() == 3 else (), log_probs.dtype, reduction)


def _lengths(g, given, n: int):
    """Lengths as int32 [n]: of a value, of a tensor or of numbers."""
    if isinstance(given, (int, list, tuple, torch.Tensor)):
        given = g.const(torch.as_tensor(given).reshape(n), torch.int32)
    return g.reshape(g.cast(given, "int32"), (n, ))


def _padded_targets(g, targets, target_lengths, n: int):
    """Targets as [n, most]; those that were joined into one vector are cut by lengths that are known."""
    targets = g.cast(targets, "int32")
    if targets.rank == 2 or n == 1:
        return g.reshape(targets, (n, -1))
    if not isinstance(target_lengths, (list, tuple, torch.Tensor)):
        raise createPoptorchError("ctc_loss: targets in one vector need target_lengths that are known when the model "
                                  "is compiled, as a list of numbers; else give targets as [batch, longest]")
    lengths = [int(length) for length in target_lengths]
    places, begin = torch.zeros(n, max(lengths), dtype=torch.int64), 0
    for row, length in zip(places, lengths):
        row[:length] = torch.arange(begin, begin + length)
        begin += length
    return g.emit("gather", [targets, g.const(places, torch.int32)], axis=0)


@function(F.ctc_loss, loss=True, meta=_ctc_meta)
def ctc_loss(g, node, log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean",
             zero_infinity=False):
    if log_probs.rank == 2:
        log_probs = g.reshape(log_probs, (log_probs.shape[0], 1, log_probs.shape[1]))
    n = log_probs.shape[1]
    values = [
        log_probs,
        _padded_targets(g, targets, target_lengths, n),
        _lengths(g, input_lengths, n),
        _lengths(g, target_lengths, n),
    ]
    y = g.emit("ctc_loss", values, blank=blank, reduction=reduction, zero_infinity=int(zero_infinity))
    return g.reshape(y, tuple(node.outputs[0].shape))


def _decoder_meta(probs, lengths, blank=0, beam_width=100, top_paths=1):
    steps, n = probs.shape[:2]
    return (probs.new_empty((n, top_paths)), lengths.new_empty((n, top_paths), dtype=torch.int32),
            lengths.new_empty((n, top_paths, steps), dtype=torch.int32))


@op("poptorch::ctc_beam_search_decoder", meta=_decoder_meta)
def ctc_beam_search_decoder(g, node, probs, lengths, blank=0, beam_width=100, top_paths=1):
    return g.emit("ctc_decode", [probs, g.cast(lengths, "int32")], n_out=3, blank=blank, beam_width=beam_width,
                  top_paths=top_paths)
