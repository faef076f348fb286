"""Indices of 32 bits, as programs for the IPU have them, do what those of 64 bits do: torch itself refuses most of them."""
import pytest
import torch
import torch.nn.functional as F

import poptorch

ROWS = torch.tensor([0, 4, 2])
AGAIN = torch.tensor([1, 1, 3])  # rows that are named twice
COLUMNS = torch.tensor([[0, 5], [3, 3], [1, 2], [4, 0], [2, 1]])
DEEP = torch.tensor([[0, 4, 1, 1, 2, 3], [2, 2, 0, 3, 4, 4], [1, 0, 3, 2, 0, 1]])
FLAT = torch.tensor([[0, 7], [29, 3]])
ONE = torch.tensor(3)
NEW = torch.linspace(-1, 1, 18).reshape(3, 6)


def changed(change):
    """What a copy of the first argument is after a change in place."""

    def on_copy(x, *others):
        x = x.clone()
        change(x, *others)
        return x

    return on_copy


def put(x, i, v):
    x[i] = v


def add(x, i, v):
    x[i] += v


CASES = {
    "item": (lambda x, i: x[i], ROWS),
    "item_negative": (lambda x, i: x[-i], ROWS),
    "item_columns": (lambda x, i: x[:, i], ROWS),
    "item_two": (lambda x, i, j: x[i, j], ROWS, AGAIN),
    "item_mixed": (lambda x, i: x[i.long(), i], ROWS),
    "item_none": (lambda x, i: x[1:, None, i], ROWS),
    "item_scalar": (lambda x, i: x[i], ONE),
    "item_list": (lambda x, i: x[[0, 1, 3], i], ROWS),
    "item_constant": (lambda x: x[ROWS.int()] if x.device.type == "ipu" else x[ROWS], ),
    "item_of_argmax": (lambda x: x[x.argmax(0).int()] if x.device.type == "ipu" else x[x.argmax(0)], ),
    "take": (lambda x, i: x.take(i), FLAT),
    "take_along_dim": (lambda x, i: x.take_along_dim(i, 0), DEEP),
    "take_along_dim_named": (lambda x, i: torch.take_along_dim(input=x, indices=i, dim=1), COLUMNS),
    "take_along_all": (lambda x, i: torch.take_along_dim(x, i), FLAT.reshape(-1)),
    "index_select": (lambda x, i: x.index_select(1, i), ROWS),
    "select": (lambda x, i: x.select(1, i), ONE),
    "narrow": (lambda x, i: x.narrow(1, i, 2), ONE),
    "gather": (lambda x, i: x.gather(1, i), COLUMNS),
    "gather_named": (lambda x, i: torch.gather(input=x, dim=0, index=i), DEEP),
    "gather_expanded": (lambda x, i: x.gather(0, i[:, None].expand(-1, 6)), AGAIN),
    "gather_out": (lambda x, i: torch.gather(x, 0, i, out=torch.empty(3, 6)), DEEP),
    "scatter": (lambda x, i, v: x.scatter(0, i, v), DEEP[:1], NEW),
    "scatter_number": (lambda x, i: x.scatter(1, i, 2.5), COLUMNS),
    "scatter_multiply": (lambda x, i, v: x.scatter(0, i, v, reduce="multiply"), DEEP, NEW),
    "scatter_": (changed(lambda x, i, v: x.scatter_(0, i, v)), DEEP[:1], NEW),
    "scatter_add": (lambda x, i, v: torch.scatter_add(x, 0, i, v), DEEP, NEW),
    "scatter_add_": (changed(lambda x, i, v: x.scatter_add_(0, i, v)), DEEP, NEW),
    "scatter_reduce": (lambda x, i, v: x.scatter_reduce(0, i, v, "amax"), DEEP, NEW),
    "scatter_reduce_": (changed(lambda x, i, v: x.scatter_reduce_(0, i, v, "mean")), DEEP, NEW),
    "index_add": (lambda x, i, v: torch.index_add(x, 0, i, v, alpha=2), AGAIN, NEW),
    "index_add_": (changed(lambda x, i, v: x.index_add_(0, i, v)), AGAIN, NEW),
    "index_copy": (lambda x, i, v: x.index_copy(0, i, v), ROWS, NEW),
    "index_fill": (lambda x, i: x.index_fill(1, i, 2.5), ROWS),
    "index_reduce": (lambda x, i, v: x.index_reduce(0, i, v, "amin"), AGAIN, NEW),
    "index_put": (lambda x, i, v: x.index_put((i, ), v), ROWS, NEW),
    "index_put_": (changed(lambda x, i, v: x.index_put_((i, ), v, accumulate=True)), AGAIN, NEW),
    "set": (changed(put), ROWS, NEW),
    "set_scalar": (changed(put), ONE, NEW[0]),
    "add_to": (changed(add), ROWS, NEW),
    "put": (lambda x, i, v: x.put(i, v), FLAT, NEW[:2, :2]),
    "embedding": (lambda x, i: F.embedding(i, x, padding_idx=2), FLAT % 5),
    "embedding_bag": (lambda x, i: F.embedding_bag(i, x), FLAT % 5),
    "embedding_bag_offsets": (lambda x, i, o: F.embedding_bag(i, x, o), ROWS, torch.tensor([0, 2])),
    "one_hot": (lambda x, i: F.one_hot(i, 6) * x[:3], ROWS),
    "nll_loss": (lambda x, i: F.nll_loss(x.log_softmax(1), i), COLUMNS[:, 0]),
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i, ignore_index=0), COLUMNS[:, 1]),
    "repeat_interleave": (lambda x, i: x.repeat_interleave(i, 0, output_size=15), COLUMNS[:, 0] + 1),
    "tensor_split": (lambda x: x.tensor_split(torch.tensor([1, 3]))[1], ),
}
WITHOUT_GRADIENTS = ("gather_out", "scatter_multiply")  # torch has none


def narrow(values):
    """int64 as int32."""
    return [v.int() if v.dtype is torch.int64 else v for v in values]


class Trained(torch.nn.Module):
    """A loss that depends on each element of what a case gives, and on the case's first argument as a parameter."""

    def __init__(self, f, x, expected):
        super().__init__()
        self.f, self.x = f, torch.nn.Parameter(x.clone())
        self.register_buffer("factors", torch.rand(expected.shape) + 0.5)

    def forward(self, *others):
        return poptorch.identity_loss(self.f(self.x, *others) * self.factors, "sum")


@pytest.mark.parametrize("name", CASES)
def test_as_with_64_bits(name):
    f, *given = CASES[name]
    x = torch.randn(5, 6)
    expected = f(x, *given)
    torch.testing.assert_close(poptorch.inferenceModel(f)(x, *narrow(given)), expected)
    if name in WITHOUT_GRADIENTS:
        return
    device = Trained(f, x, expected)
    host = Trained(f, x, expected)
    host.factors.copy_(device.factors)
    host(*given).backward()
    training = poptorch.trainingModel(device, optimizer=torch.optim.SGD(device.parameters(), lr=1.0))
    training(*narrow(given))
    torch.testing.assert_close(device.x.detach().clone(), (host.x - host.x.grad).detach())


def test_others_are_refused_as_torch_refuses_them():
    with pytest.raises((IndexError, RuntimeError), match="must be long,.* byte or bool"):
        poptorch.inferenceModel(lambda x, i: x[i])(torch.randn(5, 6), ROWS.short())
    with pytest.raises(RuntimeError, match="int64|index"):
        poptorch.inferenceModel(lambda x, i: x.gather(0, i))(torch.randn(5, 6), DEEP.float())
