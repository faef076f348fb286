"""Convolutions and transposed convolutions against torch."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from support import check, emitted

SIZES = {1: (9, ), 2: (9, 8), 3: (6, 5, 7)}
CONVS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2}, {"bias": False},
                                     {"stride": 2, "padding": 2, "dilation": 2, "groups": 4}, {"padding": "same"}],
                         ids=str)
def test_conv(n, options):
    check(CONVS[n](4, 8, 3, **options), torch.randn(2, 4, *SIZES[n]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"stride": 2}, {"stride": 2, "output_padding": 1, "padding": 1}, {"groups": 2},
                                     {"dilation": 2}, {"bias": False}], ids=str)
def test_transposed(n, options):
    check(TRANSPOSED[n](4, 6, 3, **options), torch.randn(2, 4, *SIZES[n]), rtol=1e-3, atol=1e-4)


def test_uneven():
    check(nn.Conv2d(3, 4, (3, 5), stride=(2, 1), padding=(4, 2), dilation=(1, 3)), torch.randn(1, 3, 8, 14))
    layer = nn.ConvTranspose2d(3, 4, (3, 5), stride=(2, 3), padding=(0, 2), output_padding=(1, 0))
    check(layer, torch.randn(1, 3, 5, 4))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("n", [1, 2])
def test_padding_modes(mode, n):
    check(CONVS[n](2, 3, 3, padding=2, padding_mode=mode), torch.randn(2, 2, *SIZES[n]), rtol=1e-3, atol=1e-4)


def test_unbatched():
    check(nn.Conv2d(3, 4, 3), torch.randn(3, 6, 6))
    check(nn.Conv1d(3, 4, 3), torch.randn(3, 6))


def test_depthwise():
    check(nn.Conv2d(8, 16, 3, padding=1, groups=8), torch.randn(2, 8, 7, 7), rtol=1e-3, atol=1e-4)


def test_half():
    check(nn.Conv2d(3, 4, 3).half(), torch.randn(2, 3, 6, 6).half(), rtol=2e-2, atol=1e-2)


def test_functional_with_computed_weight():
    check(lambda x, w: F.conv2d(x, w * 2, stride=2), torch.randn(1, 3, 6, 6), torch.randn(4, 3, 3, 3), rtol=1e-3,
          atol=1e-4)


def test_channels_that_do_not_fit():
    with pytest.raises(Exception, match="channels"):
        check(nn.Conv2d(3, 4, 3), torch.randn(1, 2, 6, 6))


class Digits(nn.Module):

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 5, 3), nn.Conv2d(5, 12, 5)
        self.pool, self.norm, self.relu = nn.MaxPool2d(2, 2), nn.GroupNorm(3, 12), nn.ReLU()
        self.fc1, self.fc2 = nn.Linear(972, 100), nn.Linear(100, 10)

    def forward(self, x, labels):
        x = self.norm(self.relu(self.conv2(self.pool(self.relu(self.conv1(x))))))
        x = self.fc2(self.relu(self.fc1(torch.flatten(x, start_dim=1))))
        x = F.log_softmax(x, dim=1)
        return x, F.nll_loss(x, labels)


def test_what_the_library_fuses_reaches_it_whole():
    ops = emitted(Digits(), torch.randn(16, 1, 28, 28), torch.zeros(16, dtype=torch.int64), training=True)
    assert ops == ["conv", "relu", "max_pool", "conv", "relu", "group_norm", "reshape", "matmul", "add", "relu", "matmul",
                   "add", "log_softmax", "nll", "reduce_sum", "reduce_sum", "div"]


def test_normalised_convolutions_reach_it_whole():
    block = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    x = torch.randn(2, 3, 8, 8)
    trained = [name for name in emitted(block.train(), x) if name in ("conv", "batch_norm", "relu", "reduce_mean")]
    assert trained == ["conv", "batch_norm", "relu", "reduce_mean"]
    assert emitted(block.eval(), x)[-2:] == ["relu", "reduce_mean"]
