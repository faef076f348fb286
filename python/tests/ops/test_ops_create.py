"""Tensors that are made inside a model."""
import pytest
import torch

from support import check

FLOATS = {
    "zeros": lambda x: torch.zeros(2, 3) + x,
    "ones": lambda x: torch.ones(2, 3) * x,
    "full": lambda x: torch.full((2, 3), 1.5) * x,
    "zeros_like": lambda x: torch.zeros_like(x) + x,
    "ones_like": lambda x: torch.ones_like(x) * x,
    "full_like": lambda x: torch.full_like(x, 2.5) * x,
    "new_zeros": lambda x: x.new_zeros(4, 2, 3) + x,
    "new_ones": lambda x: x.new_ones(2, 1) * x,
    "new_full": lambda x: x.new_full((3, ), 7.0) * x,
    "new_tensor": lambda x: x.new_tensor([1.0, 2.0, 3.0]) * x,
    "empty_filled": lambda x: torch.empty(2, 3).fill_(3.0) * x,
    "empty_like_filled": lambda x: torch.empty_like(x).fill_(3.0) * x,
    "arange": lambda x: torch.arange(3) * x,
    "arange_float": lambda x: torch.arange(0, 1.5, 0.5) * x,
    "arange_down": lambda x: torch.arange(5, 2, -1) * x,
    "linspace": lambda x: torch.linspace(-1, 1, 3) * x,
    "logspace": lambda x: torch.logspace(0, 1, 3) * x,
    "eye": lambda x: x @ torch.eye(3),
    "eye_wide": lambda x: x @ torch.eye(3, 5),
    "tensor": lambda x: torch.tensor([[1.0], [2.0]]) * x,
    "scalar": lambda x: torch.tensor(3.0) * x,
    "window": lambda x: torch.hann_window(3) * x,
    "tril_indices": lambda x: torch.tril_indices(3, 3)[0, 3:] * x,
    "fill_from_tensor": lambda x: torch.zeros(2, 3).fill_(x[0, 0]),
    "fill_diagonal": lambda x: torch.cat([x, x]).fill_diagonal_(2.0),
}


@pytest.mark.parametrize("name", FLOATS)
def test_made(name):
    torch.manual_seed(1)
    check(FLOATS[name], torch.randn(2, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int64, torch.bool, torch.uint8])
def test_types(dtype):
    def made(x):
        return (torch.zeros(2, dtype=dtype), torch.ones(2, dtype=dtype), torch.full((2, ), 1, dtype=dtype),
                torch.zeros_like(x, dtype=dtype), torch.eye(2, dtype=dtype), x.new_ones(2, dtype=dtype))

    check(made, torch.randn(3), train=False)


def test_large_numbers():
    check(lambda i: (torch.full((2, ), 2**31 - 1) - i, torch.arange(2**24, 2**24 + 5) + i), torch.tensor(1),
          train=False)


def test_infinite():
    check(lambda x: torch.full((3, ), float("-inf")).maximum(x), torch.randn(3), train=False)


def test_random_shapes():
    check(lambda x: (torch.randn(2, 3) * 0 + x).sum(0), torch.randn(3))
