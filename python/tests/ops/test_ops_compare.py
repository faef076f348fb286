"""Comparisons, logic and choosing against torch."""

import math

import pytest
import torch

from support import check

COMPARISONS = [torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge]


@pytest.mark.parametrize("fn", COMPARISONS)
def test_comparisons(fn):
    x = torch.tensor([1.0, 2.0, 3.0, math.nan])
    y = torch.tensor([1.0, 3.0, 2.0, math.nan])
    check(fn, x, y, train=False)
    check(lambda x: fn(x, 2), x, train=False)
    check(fn, x.nan_to_num().int(), y, train=False)
    check(lambda x: fn(x, 1.5), torch.tensor([1, 2, 3]), train=False)


@pytest.mark.parametrize("fn", [torch.logical_and, torch.logical_or, torch.logical_xor])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.float32])
def test_logic(fn, dtype):
    x, y = torch.tensor([0, 1, 0, 2]).to(dtype), torch.tensor([0, 0, 3, 4]).to(dtype)
    check(fn, x, y, train=False)
    check(torch.logical_not, x, train=False)


@pytest.mark.parametrize("fn", [torch.isnan, torch.isinf, torch.isfinite, torch.isposinf, torch.isneginf])
def test_kinds_of_numbers(fn):
    check(fn, torch.tensor([1.0, math.inf, -math.inf, math.nan]), train=False)
    check(fn, torch.tensor([1, 2]), train=False)


def test_isin_and_isclose():
    x = torch.tensor([[1, 2], [3, 4]])
    check(lambda x: torch.isin(x, torch.tensor([2, 4, 9])), x, train=False)
    check(lambda x: torch.isin(x, torch.tensor([2, 4, 9]), invert=True), x, train=False)
    check(lambda x: torch.isclose(x, x + 1e-9), torch.randn(4), train=False)


def test_where():
    x, y = torch.randn(3, 4), torch.randn(4)
    check(lambda x: torch.where(x > 0, x, y), x)
    check(lambda x: torch.where(x > 0, x, 2.5), x)
    check(lambda x: torch.where(x > 0, x.half(), y), x, train=False)


@pytest.mark.parametrize("fn", [torch.maximum, torch.minimum, torch.fmax, torch.fmin])
def test_extremes_with_nan_bool_and_ties(fn):
    check(fn, torch.tensor([1.0, math.nan, 3.0]), torch.tensor([2.0, 1.0, math.nan]), train=False)
    check(fn, torch.tensor([True, False]), torch.tensor([False, False]), train=False)
    check(fn, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 5.0]))


def test_results_of_comparisons_count():
    x = torch.randn(4, 3)
    check(lambda x: (x.argmax(-1) == torch.tensor([0, 1, 2, 0])).sum() / 4.0, x, train=False)
