"""Attention and transformers against torch."""

import pytest
import torch
from torch import nn

from support import check, emitted

LOOSE = {"rtol": 2e-3, "atol": 2e-4}


class Attention(nn.Module):
    """nn.MultiheadAttention with options of its call."""

    def __init__(self, options, **call):
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, **options)
        self.call = call
        for p in self.inner.parameters():
            p.data = torch.randn(p.shape) * 0.3

    def forward(self, *inputs):
        return self.inner(*inputs, **self.call)


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bias": False}, {"add_bias_kv": True},
                                     {"add_zero_attn": True}, {"kdim": 5, "vdim": 6}], ids=str)
@pytest.mark.parametrize("need_weights", [True, False])
def test_multi_head(options, need_weights):
    q = torch.randn(3, 4, 8)
    n = (3, 5) if options.get("batch_first") else (5, 4)
    k, v = torch.randn(*n, options.get("kdim", 8)), torch.randn(*n, options.get("vdim", 8))
    check(Attention(options, need_weights=need_weights), q, k, v, **LOOSE)


def test_weights_of_each_head():
    check(Attention({}, average_attn_weights=False), torch.randn(3, 2, 8), torch.randn(4, 2, 8),
          torch.randn(4, 2, 8), **LOOSE)


def test_of_itself_and_without_a_batch():

    class Self(Attention):

        def forward(self, x):
            return self.inner(x, x, x, **self.call)

    check(Self({"batch_first": True}, need_weights=False), torch.randn(2, 5, 8), **LOOSE)
    check(Self({}), torch.randn(5, 8), **LOOSE)


@pytest.mark.parametrize("kind", ["bool", "float", "heads"])
def test_masks(kind):
    mask = torch.rand(3, 5) > 0.6
    mask[:, 0] = False
    if kind == "float":
        mask = torch.randn(3, 5)
    if kind == "heads":
        mask = torch.randn(4 * 2, 3, 5)
    padding = torch.tensor([[False] * 4 + [True]] * 4)
    check(Attention({}, attn_mask=mask), torch.randn(3, 4, 8), torch.randn(5, 4, 8), torch.randn(5, 4, 8), **LOOSE)
    if kind == "bool":
        check(Attention({"add_zero_attn": True}, attn_mask=mask, key_padding_mask=padding), torch.randn(3, 4, 8),
              torch.randn(5, 4, 8), torch.randn(5, 4, 8), **LOOSE)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, torch.tensor([[True, False, True]] * 3), torch.randn(3, 3)],
                         ids=["none", "bool", "float"])
def test_scaled_dot_product(causal, mask):
    if causal and mask is not None:
        pytest.skip("one or the other")
    q, k, v = torch.randn(2, 2, 3, 4), torch.randn(2, 2, 3, 4), torch.randn(2, 2, 3, 4)
    if hasattr(nn.functional, "scaled_dot_product_attention"):
        product = nn.functional.scaled_dot_product_attention
    else:
        product = nn.functional._scaled_dot_product_attention

    def attend(q, k, v):
        y = product(q, k, v, mask, is_causal=causal)
        return y[0] if isinstance(y, tuple) else y

    check(attend, q, k, v, **LOOSE)


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"norm_first": True}, {"activation": "gelu"}], ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_transformer_layers(options, training):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **options).train(training)
    check(layer, torch.randn(3, 4, 8), **LOOSE)
    layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, **options).train(training)
    check(layer, torch.randn(3, 4, 8), torch.randn(3, 4, 8), **LOOSE)


def test_encoder_with_padding():

    class Encoder(nn.Module):

        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
            self.inner = nn.TransformerEncoder(layer, 2)

        def forward(self, x, padding):
            return self.inner(x, src_key_padding_mask=padding)

    padding = torch.tensor([[False, False, False, False], [False, False, True, True]])
    check(Encoder(), torch.randn(2, 4, 8), padding, **LOOSE)


def test_transformer():
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0)
    check(model, torch.randn(3, 2, 8), torch.randn(4, 2, 8), **LOOSE)


def test_attention_is_one_op_and_projections_one_product():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    ops = emitted(layer, torch.randn(2, 4, 8))
    assert ops.count("attention") == 1
    assert ops.count("matmul") == 4  # q, k and v together; out; two of the inner layers
    assert "softmax" not in ops
