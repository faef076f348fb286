"""Distances and similarities against torch."""

import pytest
import torch
import torch.nn.functional as F

from support import check


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_pairwise(p):
    check(lambda x, y: F.pairwise_distance(x, y, p), torch.randn(4, 5), torch.randn(4, 5), train=p > 0)
    check(lambda x, y: F.pairwise_distance(x, y, p, keepdim=True), torch.randn(4, 5), torch.randn(4, 5), train=False)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cosine(dim):
    check(lambda x, y: F.cosine_similarity(x, y, dim), torch.randn(4, 5), torch.randn(4, 5))
    check(lambda x, y: F.cosine_similarity(x, y, dim), torch.randn(4, 5), torch.randn(1, 5))
    check(lambda x, y: F.cosine_similarity(x, y, dim), torch.randn(4, 5).half(), torch.randn(4, 5).half())


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("a, b", [((3, 2), (4, 2)), ((2, 3, 2), (2, 4, 2)), ((3, 5, 2, 7), (5, 4, 7))], ids=str)
def test_cdist(p, a, b):
    check(lambda x, y: torch.cdist(x, y, p), torch.randn(a), torch.randn(b), rtol=1e-3, atol=1e-4)


def test_cdist_of_equal_points():
    x = torch.randn(3, 4)
    check(lambda x: torch.cdist(x, x.detach()), x, rtol=1e-3, atol=1e-3, train=False)


def test_pdist():
    check(lambda x: F.pdist(x), torch.randn(5, 3))
