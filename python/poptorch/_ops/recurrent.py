"""RNN, GRU and LSTM: stacks of layers in one or two directions, each a single op."""
from __future__ import annotations

from typing import List, Optional, Sequence

import torch

from .._errors import createPoptorchError
from .random import dropped
from .registry import function


def _refuse_packed(*_, **__):
    raise createPoptorchError("Packed sequences are not supported on the IPU, as their shapes depend on data: give the "
                              "recurrent layer a padded tensor, without pack_padded_sequence, and pick the steps you "
                              "need from its output")


class _Layers:
    """The arguments of torch's recurrent functions, read."""

    def __init__(self, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False):
        self.input = input
        self.states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
        self.n_layers = num_layers
        self.n_directions = 2 if bidirectional else 1
        self.dropout = dropout if train else 0.0
        self.batch_first = batch_first
        self.has_biases = has_biases
        self.each = len(params) // (self.n_layers * self.n_directions)
        self.params = list(params)

    def weights(self, i: int) -> List[Optional[object]]:
        """w_ih, w_hh, b_ih, b_hh and, of an LSTM that has one, the projection."""
        given = self.params[i * self.each:(i + 1) * self.each]
        biases = given[2:4] if self.has_biases else [None, None]
        return [*given[:2], *biases, *given[4 if self.has_biases else 2:]]


def _meta(*args) -> tuple:
    if not isinstance(args[2], (list, tuple)) or isinstance(args[3], (list, tuple)):
        _refuse_packed()
    layers = _Layers(*args)
    x, states = layers.input, layers.states
    y = x.new_empty((*x.shape[:2], states[0].shape[2] * layers.n_directions))
    return (y, *(torch.empty_like(s) for s in states))


def _at(g, value, i: int):
    return g.reshape(g.emit("slice", [value], begin=[i], end=[i + 1], axes=[0]), value.shape[1:])


def _stacked(g, values: Sequence):
    parts = [g.reshape(v, (1, *v.shape)) for v in values]
    return g.emit("concat", parts, axis=0) if len(parts) > 1 else parts[0]


def _projected(g, x, weights, h, c, reverse: bool):
    """One direction of an LSTM whose output is projected, step by step."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    given = g.emit("linear", [x, w_ih, b_ih])
    steps: List[Optional[object]] = [None] * x.shape[0]
    for t in (reversed(range(x.shape[0])) if reverse else range(x.shape[0])):
        gates = g.op.add(_at(g, given, t), g.emit("linear", [h, w_hh, b_hh]))
        n = gates.shape[-1] // 4
        i, f, new, o = (g.emit("slice", [gates], begin=[k * n], end=[(k + 1) * n], axes=[1]) for k in range(4))
        c = g.op.add(g.op.mul(g.op.sigmoid(f), c), g.op.mul(g.op.sigmoid(i), g.op.tanh(new)))
        h = g.emit("linear", [g.op.mul(g.op.sigmoid(o), g.op.tanh(c)), w_hr, None])
        steps[t] = h
    return _stacked(g, steps), h, c


def _one(g, kind: str, x, weights, states, reverse: bool, attributes: dict):
    """One layer in one direction: its output and its last states."""
    weights = [None if w is None else g.cast(w, x.type) for w in weights]
    states = [g.cast(s, x.type) for s in states]
    if len(weights) == 5:
        return _projected(g, x, weights, *states, reverse)
    return g.emit(kind, [x, *weights, *states], n_out=1 + len(states), reverse=int(reverse), **attributes)


def _run(g, kind: str, args: Sequence, **attributes):
    layers = _Layers(*args)
    x = layers.input
    if layers.batch_first:
        x = g.emit("transpose", [x], perm=[1, 0, 2])
    last: List[list] = [[] for _ in layers.states]
    for layer in range(layers.n_layers):
        outputs = []
        for direction in range(layers.n_directions):
            i = layer * layers.n_directions + direction
            states = [_at(g, s, i) for s in layers.states]
            y, *ends = _one(g, kind, x, layers.weights(i), states, direction == 1, attributes)
            outputs.append(y)
            for ended, end in zip(last, ends):
                ended.append(end)
        x = g.emit("concat", outputs, axis=2) if len(outputs) > 1 else outputs[0]
        if layers.dropout > 0 and layer < layers.n_layers - 1:
            x = dropped(g, x, layers.dropout)
    if layers.batch_first:
        x = g.emit("transpose", [x], perm=[1, 0, 2])
    return (x, *(_stacked(g, ended) for ended in last))


@function(torch.lstm, meta=_meta)
def lstm(g, node, *args):
    return _run(g, "lstm", args, training=int(g.training))


@function(torch.gru, meta=_meta)
def gru(g, node, *args):
    return _run(g, "gru", args, training=int(g.training))


@function(torch.rnn_tanh, meta=_meta)
def rnn_tanh(g, node, *args):
    return _run(g, "rnn", args, activation="tanh")


@function(torch.rnn_relu, meta=_meta)
def rnn_relu(g, node, *args):
    return _run(g, "rnn", args, activation="relu")


@function(torch._pack_padded_sequence, torch._pad_packed_sequence, meta=_refuse_packed)
def packed_sequence(g, node, *args):
    """Refused by its meta function, when it is called."""
