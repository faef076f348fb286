"""Elements and rows picked by tensors of indices."""
import pytest
import torch
import torch.nn.functional as F

import poptorch
from support import check

I = torch.tensor([1, 0, 1])
J = torch.tensor([[2, -1], [0, 1]])
K = torch.tensor(1)

INDICES = {
    "first": lambda x: x[I],
    "second": lambda x: x[:, J],
    "last": lambda x: x[..., J],
    "scalar": lambda x: x[K],
    "two": lambda x: x[I, torch.tensor([0, 2, -1])],
    "two_apart": lambda x: x[I, :, torch.tensor([0, 2, -1])],
    "two_behind": lambda x: x[:, J, J + 1],
    "broadcast": lambda x: x[I.view(-1, 1)[:2], J],
    "all": lambda x: x[I, I, I],
    "with_slices": lambda x: x[1:, J, ::2],
    "with_none": lambda x: x[I, None],
    "index_select": lambda x: x.index_select(1, torch.tensor([2, 0, 2])),
    "gather": lambda x: x.gather(1, torch.tensor([[[0, 2, 1, 0]], [[1, 1, 0, 2]]])),
    "gather_smaller": lambda x: x.gather(2, torch.tensor([[[3, 0], [1, 1]]])),
    "take": lambda x: x.take(torch.tensor([[0, 23], [5, 5]])),
    "take_along_dim": lambda x: x.take_along_dim(x.argsort(dim=2), dim=2),
    "take_along_all": lambda x: x.take_along_dim(x.argmax()),
    "by_list": lambda x: x[[0, 1, 0]],
    "by_constant_mask": lambda x: x[:, torch.tensor([True, False, True])],
    "by_computed_mask": lambda x: x[:, torch.ones(3, 4).triu() > 0],
    "by_constant_nonzero": lambda x: x.take((torch.arange(6) % 2).nonzero().squeeze(1)),
    "masked_select": lambda x: x.masked_select(torch.tensor([True, False, True, True])),
}


@pytest.mark.parametrize("name", INDICES)
def test_index(name):
    torch.manual_seed(1)
    check(INDICES[name], torch.randn(2, 3, 4))


def test_indices_are_inputs():
    check(lambda x, i, j: x[i, j] + x[:, i].sum(), torch.randn(3, 3), torch.tensor([0, 2]), torch.tensor([1, 1]))


@pytest.mark.parametrize("f", [
    lambda x: x[x > 0], lambda x: x.masked_select(x > 0), lambda x: x.nonzero(), lambda x: x.unique(),
    lambda x: x.unique(dim=0), lambda x: torch.unique_consecutive(x), lambda x: torch.argwhere(x)
])
def test_shapes_from_data(f):
    with pytest.raises(poptorch.Error, match="shape"):
        poptorch.inferenceModel(f)(torch.randn(3, 4))


# ---- places, counts ----


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 8])
def test_bucketize(right, n):
    torch.manual_seed(1)
    edges = torch.randint(0, 10, (n, )).sort()[0].float()
    x = torch.cat([edges, torch.rand(20) * 12 - 1, torch.tensor([float("inf"), float("-inf")])])
    check(lambda x, e: (torch.bucketize(x, e, right=right), torch.bucketize(x, e, out_int32=True)), x, edges,
          train=False)


def test_searchsorted():
    torch.manual_seed(1)
    rows = torch.randn(3, 6).sort()[0]
    x = torch.randn(3, 5)
    check(lambda s, x: (torch.searchsorted(s, x), torch.searchsorted(s, x, right=True),
                        torch.searchsorted(s, x, side="right"), torch.searchsorted(s[0], x),
                        torch.searchsorted(s[0], 0.5)), rows, x, train=False)
    order = rows.flip(1).argsort()
    check(lambda s, x, o: torch.searchsorted(s, x, sorter=o), rows.flip(1), x, order, train=False)


def test_bincount():
    x = torch.tensor([0, 3, 3, 5, 0, 0])
    check(lambda x, w: (torch.bincount(x, minlength=7), torch.bincount(x, w, minlength=7)), x, torch.randn(6),
          train=False)
    model = poptorch.inferenceModel(lambda x: torch.bincount(x, minlength=4))
    assert model(x).tolist() == [3, 0, 0, 2]


def test_bincount_needs_a_length():
    with pytest.raises(poptorch.Error, match="minlength"):
        poptorch.inferenceModel(torch.bincount)(torch.tensor([0, 1]))


def test_histc():
    x = torch.tensor([0.0, 0.1, 0.5, 0.99, 1.0, 2.0, -1.0])
    check(lambda x: (torch.histc(x, 4, 0, 1), torch.histc(x, 5)), x, train=False)


def test_isin():
    check(lambda x, y: (torch.isin(x, y), torch.isin(x, y, invert=True), torch.isin(x, 3)),
          torch.arange(6).reshape(2, 3), torch.tensor([3, 5, 9]), train=False)


# ---- tables ----


class Table(torch.nn.Module):
    def __init__(self, **how):
        super().__init__()
        torch.manual_seed(3)
        self.table = torch.nn.Embedding(7, 4, **how)

    def forward(self, i):
        return self.table(i)


def _train(model, *inputs, n=2):
    """Losses and weights after some steps, on the IPU and in torch."""
    import copy
    host = copy.deepcopy(model)

    class Loss(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, *args):
            out = self.inner(*args)
            return out, poptorch.identity_loss((out**2).sum(), "sum")

    host, device = Loss(host), Loss(model)
    trained = poptorch.trainingModel(device, optimizer=torch.optim.SGD(device.parameters(), lr=0.1))
    step = torch.optim.SGD(host.parameters(), lr=0.1)
    for _ in range(n):
        step.zero_grad()
        out, loss = host(*inputs)
        loss.backward()
        step.step()
        got, got_loss = trained(*inputs)
        torch.testing.assert_close(got, out)
        torch.testing.assert_close(got_loss, loss)
    for a, b in zip(device.parameters(), host.parameters()):
        torch.testing.assert_close(a.detach().clone(), b.detach())


@pytest.mark.parametrize("how", [{}, {"padding_idx": 2}, {"scale_grad_by_freq": True}])
def test_embedding(how):
    _train(Table(**how), torch.tensor([[1, 2, 2], [0, 6, 2]]))


@pytest.mark.parametrize("how", [{"max_norm": 1.0}, {"max_norm": 1.0, "norm_type": 1.0},
                                 {"max_norm": 0.5, "norm_type": float("inf")}])
def test_embedding_renorm(how):
    host, device = Table(**how), poptorch.inferenceModel(Table(**how))
    i = torch.tensor([[1, 2, 2], [0, 6, 2]])
    torch.testing.assert_close(device(i), host(i).detach())
    device.copyWeightsToHost()
    torch.testing.assert_close(device.table.weight.detach().clone(), host.table.weight.detach())


class Bags(torch.nn.Module):
    def __init__(self, mode, **how):
        super().__init__()
        torch.manual_seed(3)
        self.bags = torch.nn.EmbeddingBag(7, 4, mode=mode, **how)

    def forward(self, *args):
        return self.bags(*args)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("how", [{}, {"padding_idx": 2}])
def test_embedding_bag(mode, how):
    _train(Bags(mode, **how), torch.tensor([[1, 2, 2], [0, 6, 2]]))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [False, True])
def test_embedding_bag_offsets(mode, last):
    offsets = torch.tensor([0, 2, 2, 5] + ([6] if last else []))
    _train(Bags(mode, include_last_offset=last), torch.tensor([1, 2, 2, 0, 6, 3]), offsets)


def test_embedding_bag_weights():
    _train(Bags("sum"), torch.tensor([[1, 2, 2], [0, 6, 2]]), None, torch.randn(2, 3))


def test_one_hot():
    check(lambda i: F.one_hot(i, 5), torch.tensor([[0, 4], [2, 2]]), train=False)
    with pytest.raises(poptorch.Error, match="num classes"):
        poptorch.inferenceModel(F.one_hot)(torch.tensor([0, 4]))
