"""Types and casts against torch."""

import pytest
import torch

from support import check

TYPES = [torch.float16, torch.float32, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_casts(source, target):
    check(lambda x: x.to(target), torch.tensor([0, 1, 25, 83, 2.75]).to(source), train=False)


@pytest.mark.parametrize("target", [torch.float64, torch.int64, torch.bfloat16])
def test_types_that_are_narrowed(target):
    check(lambda x: (x + 1).to(target) * 2, torch.tensor([0.0, 1.5, 25.0]), train=False)


def test_gradients_pass_through_casts():
    check(lambda x: x.half().float() * 2, torch.tensor([0.5, 1.5, -2.0]))


def test_methods():
    x = torch.tensor([0.0, 1.5, -2.5])
    check(lambda x: (x.int(), x.long(), x.bool(), x.half().float(), x.double(), x.type(torch.int32),
                     x.type_as(torch.zeros(1, dtype=torch.int32))), x, train=False)


@pytest.mark.parametrize("first", [torch.float16, torch.float32, torch.int32, torch.int64])
@pytest.mark.parametrize("second", [torch.float16, torch.float32, torch.int32, torch.int64])
def test_sum_of_types_has_torch_type(first, second):
    narrowed = {torch.int64: torch.int32}
    seen = []

    def add(x, y):
        z = x + y
        if z.device.type == "ipu":
            seen.append(z.dtype)
        return z

    check(add, torch.tensor([1, 25, -1]).to(first), torch.tensor([2, 35, 1]).to(second), train=False)
    expected = torch.promote_types(first, second)
    assert [narrowed.get(t, t) for t in seen] == [narrowed.get(expected, expected)]
