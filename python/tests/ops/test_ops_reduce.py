"""Reductions and scans against torch."""

import math

import pytest
import torch

from support import check

DIMS = [None, 0, -1, [0, 2]]


def over(fn, dim, **kwargs):
    return (lambda x: fn(x, **kwargs)) if dim is None else (lambda x: fn(x, dim=dim, **kwargs))


@pytest.mark.parametrize("fn", [torch.sum, torch.mean, torch.amax, torch.amin, torch.nansum])
@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_over_dimensions(fn, dim, keepdim):
    x = torch.randn(3, 4, 5)
    check(over(fn, dim, **(dict(keepdim=keepdim) if dim is not None else {})), x)


@pytest.mark.parametrize("dim", [0, -1, [0, 2]], ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_logsumexp(dim, keepdim):
    check(lambda x: torch.logsumexp(x, dim, keepdim), torch.randn(3, 4, 5))


@pytest.mark.parametrize("fn", [torch.var, torch.std])
@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("unbiased", [False, True])
def test_variances(fn, dim, unbiased):
    check(over(fn, dim, unbiased=unbiased), torch.randn(3, 4, 5))


@pytest.mark.parametrize("fn", [torch.var_mean, torch.std_mean])
def test_variances_with_means(fn):
    check(lambda x: fn(x, dim=(0, 2), unbiased=True, keepdim=True), torch.randn(3, 4, 5), train=False)
    check(lambda x: fn(x, unbiased=False), torch.randn(3, 4, 5), train=False)


def test_other_corrections():
    check(lambda x: torch.var(x, dim=1, correction=3), torch.randn(3, 8))
    check(lambda x: torch.var(x, dim=1), torch.randn(3, 1), train=False)


def test_gradient_of_std_where_nothing_varies():
    check(lambda x: x.std(dim=1, unbiased=False), torch.tensor([[1.0, 1.0], [1.0, 3.0]]))


@pytest.mark.parametrize("fn", [torch.max, torch.min, torch.median])
@pytest.mark.parametrize("dim", [None, 0, -1])
def test_extremes_and_where_they_are(fn, dim):
    x = torch.randn(3, 7)
    if dim is None:
        check(fn, x)
    else:
        check(lambda x: fn(x, dim=dim).values, x)
        check(lambda x: tuple(fn(x, dim=dim, keepdim=True)), x, train=False)


def test_gradient_of_extremes_goes_to_one_of_equals():
    x = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]])
    check(lambda x: x.max(dim=1).values, x)
    check(torch.max, x)
    check(lambda x: x.amax(1), x)


@pytest.mark.parametrize("fn", [torch.argmax, torch.argmin])
@pytest.mark.parametrize("dim", [None, 0, -1])
def test_arguments(fn, dim):
    check(lambda x: fn(x, dim), torch.randn(3, 7), train=False)
    check(lambda x: fn(x, dim, keepdim=True), torch.randn(3, 7), train=False)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.bool, torch.uint8, torch.int8])
def test_integers(dtype):
    x = torch.tensor([[1, 0, 3], [2, 2, 1]]).to(dtype)
    check(lambda x: (x.sum(), x.sum(1), x.prod(), x.prod(0)), x, train=False)
    check(lambda x: (x.max(), x.min(), x.amax(1), x.max(dim=0).values), x, train=False)


@pytest.mark.parametrize("fn", [torch.all, torch.any])
@pytest.mark.parametrize("dim", [None, 0, -1])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32, torch.uint8])
def test_all_and_any(fn, dim, dtype):
    check(over(fn, dim), torch.tensor([[1, 0, 3], [2, 2, 1]]).to(dtype), train=False)


@pytest.mark.parametrize("dim", [None, 0, [0, 1]], ids=str)
def test_count_nonzero(dim):
    check(over(torch.count_nonzero, dim), torch.tensor([[1, 0, 3], [0, 2, 0]]), train=False)


@pytest.mark.parametrize("dim", [None, 1])
def test_product(dim):
    check(over(torch.prod, dim), torch.rand(3, 4) + 0.5)
    check(over(torch.prod, dim), torch.tensor([[0.0, 2.0, 3.0], [1.0, 0.0, 0.0]]))


@pytest.mark.parametrize("p", [0, 1, 2, 3, 0.5, math.inf, -math.inf, "fro"])
@pytest.mark.parametrize("dim", [None, 1])
def test_norms(p, dim):
    if p == "fro" and dim is not None:
        return
    x = torch.randn(3, 4)
    check(lambda x: torch.norm(x, p, **({} if dim is None else {"dim": dim})), x, train=p != 0)
    if p != "fro":
        check(lambda x: torch.linalg.vector_norm(x, p, dim=dim), x, train=p != 0)


def test_gradient_of_the_norm_of_zeros():
    check(lambda x: torch.norm(x, dim=1), torch.tensor([[0.0, 0.0], [3.0, 4.0]]))


@pytest.mark.parametrize("order", [None, "fro", 1, -1, math.inf, -math.inf])
def test_matrix_norms(order):
    check(lambda x: torch.linalg.norm(x, ord=order), torch.randn(3, 4))


def test_types_of_sums():
    x = torch.rand(4, 4)
    check(lambda x: x.sum(dtype=torch.float16), x, train=False, rtol=1e-3)
    check(lambda x: x.half().sum(1, dtype=torch.float32), x, train=False)


def test_nan():
    x = torch.tensor([[1.0, math.nan, 3.0, 5.0], [2.0, 1.0, 0.0, 7.0]])
    check(lambda x: (x.max(), x.amax(1), x.max(1).values, x.nansum(1), x.nanmean(1)), x, train=False)
    check(lambda x: (x.median(1).values, x.nanmedian(1).values, x.median(), x.nanmedian()), x, train=False)


def test_scalars():
    x = torch.tensor(2.5)
    check(lambda x: (x.sum(), x.mean(), x.max(), x.sum(0), x.amax(-1), x.argmax(), x.cumsum(0), x.max(0).values,
                     x.softmax(0)), x, train=False)


def test_mode_dist_renorm_trace():
    x = torch.tensor([[1, 2, 2, 3, 1], [4, 4, 0, 0, 4]])
    check(lambda x: torch.mode(x, 1).values, x, train=False)
    check(lambda x: torch.dist(x, x * 2 + 1), torch.randn(3, 4))
    check(lambda x: torch.renorm(x, 2, 0, 1.0), torch.randn(3, 4))
    check(torch.trace, torch.randn(4, 4))


@pytest.mark.parametrize("fn", [torch.cumsum, torch.cumprod, torch.logcumsumexp])
@pytest.mark.parametrize("dim", [0, -1])
def test_scans(fn, dim):
    check(lambda x: fn(x, dim), torch.rand(7, 5) + 0.5)


def test_scans_of_half():
    x = (torch.rand(7, 5) + 0.5).half()
    check(lambda x: (x.cumsum(0), x.cumprod(1), x.logcumsumexp(0)), x, train=False)


def test_scans_of_integers():
    check(lambda x: (x.cumsum(1), x.cumprod(1), (x > 1).cumsum(0)), torch.tensor([[1, 2, 3], [3, 2, 1]]), train=False)


def test_logcumsumexp_does_not_overflow():
    check(lambda x: torch.logcumsumexp(x, 0), torch.tensor([-200.0, 100.0, 90.0, -300.0, 200.0]), train=False)


@pytest.mark.parametrize("fn", [torch.cummax, torch.cummin])
@pytest.mark.parametrize("dim", [0, -1])
def test_running_extremes(fn, dim):
    x = torch.tensor([[1.0, 3.0, 2.0, 3.0, 0.0], [5.0, 1.0, 1.0, 7.0, 2.0]])
    check(lambda x: fn(x, dim).values, x)
    check(lambda x: tuple(fn(x, dim)), x, train=False)
    check(lambda x: fn(x, dim).values, torch.tensor([[1.0, math.nan, 3.0]]), train=False)
