"""Interpolation and images read at computed places, against torch."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from support import check

IMAGES = {1: (2, 3, 7), 2: (2, 3, 5, 6), 3: (1, 2, 3, 4, 5)}
LOOSE = {"rtol": 1e-3, "atol": 1e-4}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("scale", [2, 0.5, 1.7, 3])
def test_nearest(n, mode, scale):
    check(lambda x: F.interpolate(x, scale_factor=scale, mode=mode), torch.randn(IMAGES[n]))


@pytest.mark.parametrize("n, mode", [(1, "linear"), (2, "bilinear"), (3, "trilinear"), (2, "bicubic")])
@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("scale", [2, 0.6, 1.7])
def test_between(n, mode, align, scale):
    check(lambda x: F.interpolate(x, scale_factor=scale, mode=mode, align_corners=align),
          torch.randn(IMAGES[n]), **LOOSE)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("size", [(9, 4), (1, 1), (5, 6)])
def test_to_a_size(mode, size):
    check(lambda x: F.interpolate(x, size=size, mode=mode), torch.randn(IMAGES[2]), **LOOSE)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(9, 4), (3, 3)])
def test_antialias(mode, size):
    check(lambda x: F.interpolate(x, size=size, mode=mode, antialias=True), torch.randn(IMAGES[2]), **LOOSE)


def test_recomputed_scale():
    check(lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
          torch.randn(IMAGES[2]), **LOOSE)


def test_module_and_half():
    check(nn.Upsample(scale_factor=2, mode="bilinear"), torch.randn(IMAGES[2]).half())
    check(nn.Upsample(scale_factor=2), torch.randn(IMAGES[2]).half())


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [True, False])
def test_grid_sample(mode, padding, align):
    grid = torch.rand(2, 4, 3, 2) * 2.4 - 1.2
    check(lambda x, g: F.grid_sample(x, g, mode, padding, align), torch.randn(IMAGES[2]), grid, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [True, False])
def test_grid_sample_of_volumes(mode, padding, align):
    grid = torch.rand(1, 2, 4, 3, 3) * 2.4 - 1.2
    check(lambda x, g: F.grid_sample(x, g, mode, padding, align), torch.randn(IMAGES[3]), grid, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("align", [True, False])
def test_affine_grid(align):
    check(lambda t: F.affine_grid(t, [2, 3, 4, 5], align), torch.randn(2, 2, 3))
    check(lambda t: F.affine_grid(t, [2, 3, 2, 4, 5], align), torch.randn(2, 3, 4))


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("ratio", [2, -1])
def test_regions(aligned, ratio):
    ops = pytest.importorskip("torchvision.ops")
    boxes = torch.tensor([[0.0, 1.0, 1.5, 5.0, 6.0], [1.0, 0.0, 0.0, 3.5, 2.5]])
    check(lambda x: ops.roi_align(x, boxes, (2, 3), 0.9, ratio, aligned), torch.randn(2, 3, 8, 8), rtol=1e-3, atol=1e-4)
