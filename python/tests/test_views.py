"""Views that share memory and changes in place, in programs made at random, against torch."""
from __future__ import annotations

import random
from typing import Callable, List

import pytest
import torch

import poptorch


def _views(r: random.Random, x: torch.Tensor, detach: bool) -> List[Callable]:
    """Ways to look at `x`."""
    ways: List[Callable] = [lambda t: t.view_as(t), lambda t: t.reshape(-1), lambda t: t.squeeze(),
                            lambda t: t[..., None]]
    if detach:
        ways.append(lambda t: t.detach())
    n = x.dim()
    if n == 0 or 0 in x.shape:
        return ways
    d = r.randrange(n)
    extent = x.shape[d]
    first = r.randrange(extent)
    last, step, order = r.randrange(first, extent) + 1, r.choice([1, 1, 2]), r.sample(range(n), n)
    ways += [
        lambda t: t.select(d, first), lambda t: t.narrow(d, first, last - first),
        lambda t: t[(slice(None), ) * d + (slice(first, last, step), )], lambda t: t.unsqueeze(d),
        lambda t: t.transpose(d, 0), lambda t: t.split(max(1, extent // 2), d)[-1], lambda t: t.chunk(2, d)[0],
        lambda t: t.unbind(d)[first], lambda t: t.expand_as(t), lambda t: t.movedim(d, -1), lambda t: t.permute(order)
    ]
    if n >= 2:
        ways += [lambda t: t.diagonal(0, 0, 1), lambda t: t.mT]
    return ways


def _changes(r: random.Random, x: torch.Tensor) -> List[Callable]:
    """Ways to change a tensor in place by a number and another tensor."""
    k = r.random() * 4 - 2
    ways: List[Callable] = [
        lambda t, o: t.add_(k), lambda t, o: t.mul_(k), lambda t, o: t.fill_(k), lambda t, o: t.zero_(),
        lambda t, o: t.copy_(o.sum()), lambda t, o: t.sub_(o.mean()), lambda t, o: t.clamp_(-1, 1),
        lambda t, o: t.neg_(), lambda t, o: t.masked_fill_(t > 0, k), lambda t, o: t.copy_(t * 2)
    ]
    if x.dim() and x.shape[0] > 0:
        i = torch.tensor([r.randrange(x.shape[0])])
        ways += [lambda t, o, key=key: t.__setitem__(key, k) for key in (0, i, slice(None, None, 2))]
        ways += [lambda t, o: t.index_fill_(0, i, k), lambda t, o: t.__setitem__(t > 0, k)]
    return ways


def _program(seed: int, detach: bool) -> Callable:
    """A function that looks at its arguments in several ways, changes some of them, and gives all back."""

    def run(*inputs: torch.Tensor) -> List[torch.Tensor]:
        r = random.Random(seed)
        tensors = list(inputs)
        for _ in range(r.randrange(3, 12)):
            kind, t = r.random(), r.choice(tensors)
            if kind < 0.45:
                tensors.append(r.choice(_views(r, t, detach))(t))
            elif kind < 0.9:
                r.choice(_changes(r, t))(t, r.choice(tensors))
            else:
                tensors.append(t.clone() * 1.5)
        return tensors

    return run


def _inputs(seed: int) -> List[torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(3, 4, generator=g), torch.randn(2, 3, 2, generator=g)]


@pytest.mark.parametrize("seed", range(60))
def test_results_and_inputs(seed):
    program, host, device = _program(seed, detach=True), _inputs(seed), _inputs(seed)
    expected = program(*host)
    found = poptorch.inferenceModel(program)(*device)
    torch.testing.assert_close(list(found), expected)
    torch.testing.assert_close(device, host)


class _Model(torch.nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.program = _program(seed, detach=False)
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(x) for x in _inputs(seed))

    def forward(self) -> torch.Tensor:
        results = self.program(*[w * 1 for w in self.weights])
        loss = sum((y * y).sum() * (0.1 + 0.05 * i) for i, y in enumerate(results))
        return poptorch.identity_loss(loss, reduction="sum")


@pytest.mark.parametrize("seed", range(60))
def test_gradients(seed):
    host, device = _Model(seed), _Model(seed)
    try:
        loss = host()
        loss.backward()
    except RuntimeError as e:
        pytest.skip(f"torch does not differentiate this: {e}")
    torch.optim.SGD(host.parameters(), lr=0.1).step()
    trained = poptorch.trainingModel(device, optimizer=torch.optim.SGD(device.parameters(), lr=0.1))
    torch.testing.assert_close(trained(), loss.detach(), rtol=1e-4, atol=1e-4)
    for a, b in zip(device.parameters(), host.parameters()):
        torch.testing.assert_close(a.detach().clone(), b.detach(), rtol=1e-4, atol=1e-4)


def _trained(function: Callable) -> None:
    """Weights after a step of training by a loss that is a function of two of them are torch's."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Parameter(torch.tensor([1., 2., 3., 4.]))
            self.b = torch.nn.Parameter(torch.tensor([1., -2., 0.5, 4.]))

        def forward(self) -> torch.Tensor:
            return poptorch.identity_loss(function(self.a, self.b), reduction="sum")

    host, device = Model(), Model()
    host().backward()
    torch.optim.SGD(host.parameters(), lr=1.0).step()
    trained = poptorch.trainingModel(device, optimizer=torch.optim.SGD(device.parameters(), lr=1.0))
    trained()
    for a, b in zip(device.parameters(), host.parameters()):
        torch.testing.assert_close(a.detach().clone(), b.detach())


def test_view_read_without_gradients_keeps_its_own():

    def loss(a, b):
        x = a * b
        y = x[1:]
        x.mul_(2)
        with torch.no_grad():
            y + 1
        return (y * y).sum()

    _trained(loss)


def test_change_of_detached_has_no_gradient_of_the_rest():

    def loss(a, b):
        x = a * 1
        y = x.detach()
        y.mul_(2)
        return (y * x * b).sum()

    _trained(loss)


def test_change_of_detached_has_gradient_of_the_factor():

    def loss(a, b):
        y = (a * 1).detach()
        y.mul_(b)
        return (y * 3).sum() + (a * 0).sum()

    _trained(loss)


def test_shape_changed_in_place_without_gradients():

    def loss(a, b):
        x = a * b
        with torch.no_grad():
            x.unsqueeze_(0)
        return (x * x).sum()

    _trained(loss)


def test_strided_view_of_detached():

    def loss(a, b):
        x = torch.outer(a, b)
        x.detach().fill_diagonal_(2.0)
        return (x * x).sum()

    _trained(loss)


def test_write_through_unfold():

    def change(x):
        x.unfold(0, 2, 3)[..., 1].add_(5)
        return x * 1

    x = torch.arange(9.0)
    torch.testing.assert_close(poptorch.inferenceModel(change)(x.clone()), change(x.clone()))


def test_shape_of_part_changed_in_place():

    def change(x):
        part = x[2:, 1:]
        part.transpose_(0, 1).mul_(2)
        return part * 1, x * 1

    x = torch.arange(12.0).reshape(4, 3)
    torch.testing.assert_close(poptorch.inferenceModel(change)(x.clone()), change(x.clone()))


def test_lists_of_tensors():

    def change(x, y):
        torch._foreach_add_([x, y], 1.0)
        return torch._foreach_mul([x, y], [2.0, 3.0])

    x, y = torch.arange(3.0), torch.arange(4.0)
    torch.testing.assert_close(list(poptorch.inferenceModel(change)(x.clone(), y.clone())),
                               list(change(x.clone(), y.clone())))
