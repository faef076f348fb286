"""Parts of tensors by numbers, parts replaced, and parts whose start only the run knows."""
import pytest
import torch

import poptorch
from support import check

SLICES = {
    "begin": lambda x: x[1:],
    "end": lambda x: x[:, :-1],
    "step": lambda x: x[::2, :, 1::3],
    "past_the_end": lambda x: x[1:100],
    "negative": lambda x: x[-3:-1],
    "empty_then": lambda x: torch.cat([x[3:2], x]),
    "select": lambda x: x[1],
    "select_last": lambda x: x[..., -1],
    "mixed": lambda x: x[1, :, None, 2:],
    "ellipsis": lambda x: x[..., 1:, 0],
    "narrow": lambda x: x.narrow(2, 1, 3),
    "narrow_negative": lambda x: x.narrow(-1, 0, 2),
    "select_scatter": lambda x: x.select_scatter(x[0] * 2, 0, 2),
    "slice_scatter": lambda x: torch.ops.aten.slice_scatter(x, x[:, :2] * 2, 1, 1, 3),
    "slice_scatter_step": lambda x: torch.ops.aten.slice_scatter(x, x[:, :, :2] * 2, 2, 1, 5, 3),
    "diagonal_scatter": lambda x: x.diagonal_scatter(x[0, 0, :3] * torch.ones(4, 1), 1, 1, 2),
}


@pytest.mark.parametrize("name", SLICES)
def test_slice(name):
    torch.manual_seed(1)
    check(SLICES[name], torch.randn(4, 3, 5))


def test_without_gradients_in_torch():
    x = torch.randn(4, 3, 5)
    check(lambda x: torch.narrow_copy(x, 1, 1, 2), x, train=False)
    check(lambda x: x.as_strided_scatter(x[0, :2, :2] * 2, (2, 2), (7, 2), 3), x, train=False)
    check(_assigned(lambda x, y: x.chunk(2)[1].fill_(4)), x, x, train=False)


def test_strides_are_those_of_the_storage():
    x = torch.randn(4, 6)
    check(lambda x: x.t().as_strided((2, 3), (6, 1)), x)
    check(lambda x: x[1].as_strided((2, 2), (1, 2)), x)
    check(lambda x: x[1:, 2:].as_strided((2, 2), (7, 2), 3), x, train=False)
    check(_assigned(lambda x, y: x[1].as_strided((2, ), (6, )).zero_()), x, x)


def _assigned(write):
    def f(x, y):
        x = x * 2
        write(x, y)
        return x

    return f


WRITES = {
    "row": lambda x, y: x.__setitem__(1, y[0]),
    "rows": lambda x, y: x.__setitem__(slice(1, 3), y[:2]),
    "every_other": lambda x, y: x.__setitem__(slice(None, None, 2), y[:2]),
    "column": lambda x, y: x.__setitem__((slice(None), 2), 0.5),
    "element": lambda x, y: x.__setitem__((1, 2), y[0, 0]),
    "view_of_view": lambda x, y: x[1:][1].mul_(3),
    "transposed": lambda x, y: x.t()[1:].add_(1),
    "diagonal": lambda x, y: x.diagonal().zero_(),
    "reshaped": lambda x, y: x.view(-1)[3:7].neg_(),
}


@pytest.mark.parametrize("name", WRITES)
def test_write(name):
    torch.manual_seed(1)
    check(_assigned(WRITES[name]), torch.randn(4, 3), torch.randn(4, 3))


@pytest.mark.parametrize("start", [0, 2, 6])
@pytest.mark.parametrize("step", [1, 2])
def test_dynamic_slice(start, step):
    x = torch.randn(8, 3)
    model = poptorch.inferenceModel(lambda x, i: poptorch.dynamic_slice(x, 0, i, 4, step))
    expected = torch.cat([x, x])[start:start + 4:step]
    torch.testing.assert_close(model(x, torch.tensor([start])), expected)


def test_dynamic_slice_is_not_compiled_in():
    x = torch.randn(3, 8)
    model = poptorch.inferenceModel(lambda x, i: poptorch.dynamic_slice(x, 1, i, 2, 1))
    for start in (0, 3, 6):
        torch.testing.assert_close(model(x, torch.tensor([start])), x[:, start:start + 2])


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_dynamic_update(dim):
    x, size = torch.randn(4, 4, 4), 2
    part = torch.randn(4, 4, 4).narrow(dim, 0, size)
    model = poptorch.inferenceModel(lambda x, y, i: poptorch.dynamic_update(x, y, dim, i, size))
    for start in (0, 2):
        expected = x.clone()
        expected.narrow(dim, start, size).copy_(part)
        torch.testing.assert_close(model(x, part, torch.tensor([start])), expected)


@pytest.mark.parametrize("size, message", [(0, "start and end of a slice must be different"),
                                           (-2, "end less than the start"), (3, r"\(3\) must be a factor")])
def test_dynamic_slice_sizes(size, message):
    model = poptorch.inferenceModel(lambda x, i: poptorch.dynamic_slice(x, 0, i, size, 1))
    with pytest.raises(poptorch.Error, match=message):
        model(torch.randn(8), torch.tensor([1]))


def test_slice_from_a_tensor():
    """x[t:t+n]: what is past the end is taken from the front."""
    x = torch.randn(8, 3)
    model = poptorch.inferenceModel(lambda x, t: (x[t:t + 3], x[t + 1:t + 3], x.t()[:, t:t + 2], x.narrow(0, t, 2)))
    for start in (0, 2, 5):
        t = torch.tensor(start)
        expected = (x[t:t + 3], x[t + 1:t + 3], x.t()[:, t:t + 2], x.narrow(0, t, 2))
        for a, b in zip(model(x, t), expected):
            torch.testing.assert_close(a, b)
    torch.testing.assert_close(model(x, torch.tensor(7))[0], torch.cat([x[7:], x[:2]]))


def test_slice_from_a_tensor_is_trained():
    check(lambda x, t: x[t:t + 3] * 2, torch.randn(8, 2), torch.tensor([2]))


def test_assign_to_a_slice_from_a_tensor():
    def f(x, t, y):
        x = x * 1
        x[t:t + 2] = y
        return x

    check(f, torch.randn(8, 2), torch.tensor(3), torch.randn(2, 2))


def test_slice_of_unknown_size():
    with pytest.raises(poptorch.Error, match="size of a slice"):
        poptorch.inferenceModel(lambda x, a, b: x[a:b])(torch.randn(8), torch.tensor(1), torch.tensor(4))


WRITES_AT = {
    "row": lambda x, t: x.__setitem__(t, 0.5),
    "column": lambda x, t: x.__setitem__((slice(None), t), x[0, 0]),
    "element": lambda x, t: x.__setitem__((t, t), 2.0),
    "row_in_place": lambda x, t: x[t].add_(1),
    "rows_in_place": lambda x, t: x[t:t + 2].mul_(3),
    "every_other": lambda x, t: x.__setitem__((slice(None), slice(t, t + 3, 2)), 1.5),
    "within_a_row": lambda x, t: x[1].__setitem__(slice(t, t + 2), x[0, :2]),
    "narrow": lambda x, t: x.narrow(1, t, 2).zero_(),
}


@pytest.mark.parametrize("name", WRITES_AT)
def test_write_where_a_tensor_says(name):
    torch.manual_seed(1)
    check(_assigned(WRITES_AT[name]), torch.randn(4, 5), torch.tensor(2))
