"""Activations and softmaxes against torch."""

import pytest
import torch
from torch import nn

from support import check

MODULES = [nn.ReLU(), nn.ReLU6(), nn.Tanh(), nn.Sigmoid(), nn.SELU(), nn.SiLU(), nn.ELU(), nn.ELU(0.5), nn.Softsign(),
           nn.LeakyReLU(), nn.LeakyReLU(0.2), nn.Hardtanh(), nn.Hardtanh(-0.3, 0.4), nn.Softplus(),
           nn.Softplus(5.0, 4.0), nn.Softshrink(), nn.Softshrink(0.2), nn.Hardshrink(), nn.CELU(), nn.CELU(0.7),
           nn.Hardsigmoid(), nn.Hardswish(), nn.GELU(), nn.GELU(approximate="tanh"), nn.Mish(), nn.LogSigmoid(),
           nn.Tanhshrink(), nn.Threshold(0.1, 20.0), nn.Softmin(1), nn.Softmax(1), nn.LogSoftmax(1), nn.GLU(1)]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_activations(module):
    check(module, torch.randn(3, 8) * 2)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_far_out(module):
    check(module, torch.tensor([[10.0, 100.0, -100.0, 1000.0]]), train=False)


@pytest.mark.parametrize("inplace", [nn.ReLU(True), nn.SiLU(True), nn.ELU(inplace=True), nn.Hardtanh(inplace=True),
                                     nn.Threshold(0.1, 2.0, True), nn.Hardswish(True), nn.LeakyReLU(0.1, True)],
                         ids=str)
def test_in_place(inplace):
    check(lambda x: inplace(x * 1.0), torch.randn(3, 8))


@pytest.mark.parametrize("shape", [(4, ), (2, 2), (2, 8, 16), (2, 4, 3, 3)])
def test_prelu(shape):
    channels = shape[1] if len(shape) > 1 else 1
    check(nn.PReLU(channels), torch.randn(shape))
    check(nn.PReLU(), torch.randn(shape))


@pytest.mark.parametrize("dim", range(3))
@pytest.mark.parametrize("fn", [torch.softmax, torch.log_softmax, nn.functional.glu, nn.functional.softmin])
def test_over_any_dimension(fn, dim):
    check(lambda x: fn(x, dim), torch.randn(2, 4, 6))


def test_softmax_types():
    check(lambda x: torch.softmax(x, -1, dtype=torch.float32), torch.randn(3, 4).half(), train=False)
    check(lambda x: nn.Softmax2d()(x), torch.randn(2, 3, 4, 4))


def test_rrelu():
    check(nn.RReLU().eval(), torch.randn(30))


def test_multi_dimensional_softmax_of_masked_scores():
    mask = torch.tensor([[False, True, False], [False, False, False]])
    check(lambda x: x.masked_fill(mask, float("-inf")).softmax(-1), torch.randn(2, 3))


@pytest.mark.parametrize("module", [nn.GELU(), nn.Softmax(1), nn.ELU(), nn.Sigmoid()], ids=str)
def test_half(module):
    x = torch.randn(3, 8).half()
    check(module, x, train=False)
