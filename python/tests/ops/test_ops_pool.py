"""Pooling against torch."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from support import check

SIZES = {1: (11, ), 2: (11, 10), 3: (7, 6, 8)}
MAX = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
AVERAGE = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}
OPTIONS = [{}, {"stride": 2}, {"stride": 2, "padding": 1}, {"stride": 2, "ceil_mode": True},
           {"stride": 2, "padding": 1, "ceil_mode": True}]


def image(n, batch=(2, 3)):
    return torch.randn(*batch, *SIZES[n])


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("options", OPTIONS + [{"dilation": 2}], ids=str)
def test_max(n, options):
    check(MAX[n](3, **options), image(n))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("options", OPTIONS + [{"stride": 2, "padding": 1, "count_include_pad": False},
                                               {"padding": 1, "ceil_mode": True, "count_include_pad": False}], ids=str)
def test_average(n, options):
    check(AVERAGE[n](3, **options), image(n))


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_divisor(n, options):
    check(AVERAGE[n](3, divisor_override=5, **options), image(n))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unbatched(n):
    check(MAX[n](2), image(n, (3, )))
    check(AVERAGE[n](2), image(n, (3, )))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_indices_and_back(n):
    unpool = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}[n]

    def there_and_back(x):
        y, indices = MAX[n](2, return_indices=True)(x)
        return y, indices, unpool(y, indices, 2, output_size=list(x.shape))

    check(there_and_back, image(n))


@pytest.mark.parametrize("n, size", [(1, 3), (1, 5), (1, 1), (2, (5, 5)), (2, (4, 3)), (2, 1), (2, (None, 5)),
                                     (3, (3, 2, 4)), (3, (7, 3, 2)), (3, 1), (2, (13, 3))], ids=str)
@pytest.mark.parametrize("kind", ["Avg", "Max"])
def test_adaptive(n, size, kind):
    check(getattr(nn, f"Adaptive{kind}Pool{n}d")(size), image(n))


def test_adaptive_indices():
    check(lambda x: F.adaptive_max_pool2d(x, (4, 3), return_indices=True), image(2))
    check(lambda x: F.adaptive_max_pool3d(x, (2, 3, 4), return_indices=True), image(3))


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp(p):
    check(nn.LPPool1d(p, 3, 2), torch.rand(2, 3, 11) + 0.1)
    check(nn.LPPool2d(p, (2, 3), ceil_mode=True), torch.rand(2, 3, 11, 10) + 0.1)


def test_fractional():
    samples = torch.rand(2, 3, 2)
    check(lambda x: F.fractional_max_pool2d(x, 2, output_size=(4, 5), _random_samples=samples), image(2))
    samples = torch.rand(2, 3, 3)
    check(lambda x: F.fractional_max_pool3d(x, 2, output_size=(3, 4, 5), _random_samples=samples), image(3))


def test_half():
    check(nn.MaxPool2d(2), image(2).half())
    check(nn.AvgPool2d(2), image(2).half())
    check(nn.AdaptiveAvgPool2d((4, 3)), image(2).half())


def test_ties_go_to_the_first():
    check(lambda x: F.max_pool2d(x, 2), torch.ones(1, 1, 4, 4))
    check(lambda x: F.adaptive_max_pool2d(x, 3), torch.ones(1, 1, 4, 4))
