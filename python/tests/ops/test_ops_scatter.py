"""Elements set, added and reduced by tensors of indices and masks."""
import pytest
import torch

from support import check


def _index(shape, high, seed=2):
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


def _different(shape, dim, n):
    """Indices along `dim` that name no element twice."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(5)).argsort(dim) % n


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scatter(dim):
    torch.manual_seed(1)
    check(lambda x, i, y: x.scatter(dim, i, y), torch.randn(4, 4, 4), _different((4, 4, 4), dim, 4),
          torch.randn(4, 4, 4))


@pytest.mark.parametrize("reduce", ["add", "multiply"])
def test_scatter_reduction(reduce):
    torch.manual_seed(1)
    check(lambda x, i: x.scatter(1, i, 2.5, reduce=reduce), torch.randn(3, 4), _index((3, 2), 4), train=False)
    check(lambda x, i, y: x.scatter(1, i, y, reduce=reduce), torch.randn(3, 4), _index((3, 2), 4), torch.randn(3, 2),
          train=False)


def test_scatter_value_and_larger_source():
    check(lambda x, i: x.scatter(1, i, 1.5), torch.randn(3, 4), _index((3, 2), 4))
    check(lambda x, i, y: x.scatter(0, i, y), torch.randn(3, 4), torch.tensor([[0, 1, 2]]), torch.randn(2, 5),
          train=False)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatter_add(dim):
    check(lambda y, i: torch.ones(4, 4, 4).scatter_add(dim, i, y), torch.randn(4, 3, 4), _index((4, 3, 4), 4))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
def test_scatter_reduce(reduce, include_self, dim):
    torch.manual_seed(1)
    shape = [4, 5]
    shape[dim] = 3
    index = _index((4, 5), 2)
    check(lambda x, i, y: x.scatter_reduce(dim, i, y, reduce, include_self=include_self), torch.randn(shape), index,
          torch.randn(4, 5))
    check(lambda y, i, x: x.scatter_reduce(dim, i, y, reduce, include_self=include_self), torch.randn(4, 5), index,
          torch.randn(shape))


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["mean", "prod", "amax", "amin"])
def test_index_reduce(reduce, include_self, dim):
    torch.manual_seed(1)
    check(lambda x, i, y: x.index_reduce(dim, i, y, reduce, include_self=include_self), torch.randn(3, 3, 3),
          torch.tensor([0, 2, 0]), torch.randn(3, 3, 3))


ROWS = {
    "index_add": lambda x, i, y: x.index_add(1, i, y),
    "index_add_alpha": lambda x, i, y: x.index_add(1, i, y, alpha=-2),
    "index_copy": lambda x, i, y: x.index_copy(1, i, y),
    "index_fill": lambda x, i, y: x.index_fill(1, i, 0.5),
    "index_fill_tensor": lambda x, i, y: x.index_fill(1, i, y[0, 0, 0]),
    "index_fill_in_place": lambda x, i, y: (x * 1).index_fill_(-1, i, -1),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows(name):
    torch.manual_seed(1)
    check(ROWS[name], torch.randn(2, 4, 3), torch.tensor([2, 0]), torch.randn(2, 2, 3))


def _put(*indices, accumulate=False):
    def f(x, y):
        return torch.index_put(x, indices, y, accumulate)

    return f


I, J = torch.tensor([1, 0]), torch.tensor([[2, 1], [0, 1]])
PUTS = {
    "rows": (_put(I), (2, 3, 4)),
    "rows_broadcast": (_put(I), (4, )),
    "rows_added": (_put(torch.tensor([1, 1]), accumulate=True), (2, 3, 4)),
    "two": (_put(I, J), (2, 2, 4)),
    "two_added": (_put(torch.tensor([1, 1]), torch.tensor([0, 0]), accumulate=True), (2, 4)),
    "negative": (_put(torch.tensor([-1, 0])), (2, 3, 4)),
}


@pytest.mark.parametrize("name", PUTS)
def test_index_put(name):
    f, shape = PUTS[name]
    torch.manual_seed(1)
    check(f, torch.randn(2, 3, 4), torch.randn(shape))
    check(lambda y, x: f(x, y), torch.randn(shape), torch.randn(2, 3, 4))


def _assign(key):
    def f(x, y):
        x = x * 1
        x[key] = y
        return x

    return f


@pytest.mark.parametrize("key, shape", [((slice(None), I), (2, 2, 4)), ((slice(None), slice(None), J), (2, 3, 2, 2)),
                                        ((I, slice(None), I), (2, 3)), ((I, 1), (2, 4)), ((slice(1), I), (1, 2, 4))])
def test_assign(key, shape):
    torch.manual_seed(1)
    check(_assign(key), torch.randn(2, 3, 4), torch.randn(shape))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_assign_masked(rank):
    torch.manual_seed(1)
    x = torch.randn(2, 3, 4)
    mask = torch.tensor([True, False]) if rank == 1 else torch.rand(x.shape[:rank]) > 0.5

    def f(x, mask, y):
        x = x * 1
        x[mask] = y
        return x

    check(f, x, mask, torch.tensor(1.5))
    check(f, x, mask, torch.randn((1, ) + x.shape[rank:]))
    check(f, x, mask, torch.randn((int(mask.sum()), ) + x.shape[rank:]))


MASKED = {
    "fill": lambda x, m, y: x.masked_fill(m, 2.5),
    "fill_inf": lambda x, m, y: x.masked_fill(m, float("-inf")).exp(),
    "fill_tensor": lambda x, m, y: x.masked_fill(m, y[0, 0]),
    "fill_broadcast": lambda x, m, y: x.masked_fill(m[:1], 2.5),
    "fill_in_place": lambda x, m, y: (x * 1).masked_fill_(m, 2.5),
    "scatter": lambda x, m, y: x.masked_scatter(m, y),
    "put": lambda x, m, y: x.put(torch.tensor([0, 5]), y[0, :2]),
    "put_added": lambda x, m, y: x.put(torch.tensor([5, 5]), y[0, :2], accumulate=True),
}


@pytest.mark.parametrize("name", MASKED)
def test_masked(name):
    torch.manual_seed(1)
    check(MASKED[name], torch.randn(3, 4), torch.rand(3, 4) > 0.4, torch.randn(3, 4))


def test_integers():
    x, i = torch.arange(12).reshape(3, 4), torch.tensor([[0, 1], [2, 2], [1, 1]])
    y = torch.arange(6).reshape(3, 2) - 2
    check(lambda x, i, y: (x.scatter_add(1, i, y), x.scatter_reduce(1, i, y, "amax"), x.index_add(0, i[:, 0], x),
                           x.scatter_reduce(1, i, y, "amin", include_self=False)), x, i, y, train=False)


# ---- indices that were expanded: whole slices ----

EXPANDED = {
    "gather": lambda x, i, y: x.gather(1, i.view(1, -1, 1).expand(2, 5, 3)),
    "gather_less": lambda x, i, y: x.gather(1, i.view(1, -1, 1).expand(1, 5, 2)),
    "scatter": lambda x, i, y: x.scatter(1, torch.tensor([[[3], [0], [1], [2]]]).expand(2, 4, 3), y[:, :4]),
    "scatter_add": lambda x, i, y: x.scatter_add(1, i.view(1, -1, 1).expand_as(y), y),
    "scatter_add_less": lambda x, i, y: x.scatter_add(1, i.view(1, -1, 1).expand(2, 5, 2), y[:, :, :2]),
    "scatter_max": lambda x, i, y: x.scatter_reduce(1, i.view(1, -1, 1).expand_as(y), y, "amax"),
    "scatter_mean": lambda x, i, y: x.scatter_reduce(1, i.view(-1, 1).expand(2, 5, 3), y, "mean", include_self=False),
    "same_index": lambda x, i, y: x.scatter_add(1, i[:1].view(1, 1, 1).expand_as(y), y),
    "partly": lambda x, i, y: x.scatter_add(1, torch.tensor([[[3, 0, 1]]]).expand(2, 5, 3), y),
}


@pytest.mark.parametrize("name", EXPANDED)
def test_expanded(name):
    torch.manual_seed(1)
    check(EXPANDED[name], torch.randn(2, 4, 3), torch.tensor([0, 3, 3, 1, 0]), torch.randn(2, 5, 3))
