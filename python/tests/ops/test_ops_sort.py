"""Order."""
import pytest
import torch

from support import check

SORTS = {
    "sort": lambda x: x.sort(),
    "sort_first": lambda x: x.sort(0, descending=True),
    "sort_stable": lambda x: x.sort(dim=1, stable=True),
    "topk": lambda x: x.topk(2),
    "topk_least": lambda x: x.topk(2, dim=0, largest=False),
    "kthvalue": lambda x: x.kthvalue(2),
    "kthvalue_keep": lambda x: x.kthvalue(3, dim=1, keepdim=True),
}


@pytest.mark.parametrize("name", SORTS)
def test_values_and_indices(name):
    torch.manual_seed(1)
    x = torch.randn(3, 4, 5)
    check(lambda x: SORTS[name](x)[0], x)
    check(lambda x: tuple(SORTS[name](x)), x, train=False)


@pytest.mark.parametrize("f", [torch.msort, lambda x: x.argsort() * 1.0, lambda x: x.argsort(0, True) * 1.0])
def test_one_result(f):
    torch.manual_seed(1)
    check(f, torch.randn(4, 5), train=False)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.int8])
def test_types(dtype):
    x = torch.tensor([[3, 1, 2, 0], [9, 8, 7, 11]]).to(dtype)
    check(lambda x: tuple(x.sort()) + tuple(x.topk(2)), x, train=False)


def test_bool():
    check(lambda x: x.sort()[0], torch.tensor([True, False, True]), train=False)


def test_mode():
    x = torch.tensor([[1, 3, 3, 2, 2], [5, 5, 5, 1, 1], [4, 3, 2, 1, 0]]).float()
    check(lambda x: tuple(x.mode()), x, train=False)
    check(lambda x: x.mode(dim=0, keepdim=True)[0], x, train=False)


def test_scalars():
    check(lambda x: tuple(x.sort()) + tuple(x.topk(1)), torch.tensor(2.0), train=False)


def test_half():
    check(lambda x: (x.sort()[0], x.topk(2)[0]), torch.randn(3, 4).half(), train=False)
