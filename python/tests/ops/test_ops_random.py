"""Random numbers: their distributions, types and repetition."""

import math

import pytest
import torch
from torch import nn

import poptorch

N = (20, 1000)


def run(fn, *inputs, seed=8):
    """What a model of `fn` gives with a seed."""

    class Model(nn.Module):

        def forward(self, *inputs):
            return fn(*inputs)

    return poptorch.inferenceModel(Model(), poptorch.Options().randomSeed(seed))(*inputs)


def run_training(fn, x, seed=8):
    """What a training model of `fn` gives with a seed."""

    class Model(nn.Module):

        def __init__(self):
            super().__init__()
            self.offset = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            y = fn(x + self.offset)
            return y, poptorch.identity_loss(y, "sum")

    model = Model()
    trained = poptorch.trainingModel(model, poptorch.Options().randomSeed(seed))
    return trained(x)[0]


def expect(x, mean, std, low=None, high=None, within=0.05):
    x = x.double()
    assert abs(x.mean().item() - mean) < within * max(1, std)
    assert abs(x.std().item() - std) < within * max(1, std)
    if low is not None:
        assert x.min().item() >= low
    if high is not None:
        assert x.max().item() <= high


UNIFORM = 1 / math.sqrt(12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_uniform(dtype):
    x = torch.zeros(N, dtype=dtype)
    drawn = run(lambda x: (torch.rand(x.shape, dtype=x.dtype), torch.rand_like(x), (x + 0).uniform_(-2, 4)), x)
    expect(drawn[0], 0.5, UNIFORM, 0, 1)
    expect(drawn[1], 0.5, UNIFORM, 0, 1)
    expect(drawn[2], 1, 6 * UNIFORM, -2, 4)
    assert all(y.dtype == dtype for y in drawn)
    assert not torch.equal(drawn[0], drawn[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_normal(dtype):
    x = torch.zeros(N, dtype=dtype)
    drawn = run(lambda x: (torch.randn(x.shape, dtype=x.dtype), torch.randn_like(x), (x + 0).normal_(1, 2)), x)
    expect(drawn[0], 0, 1)
    expect(drawn[1], 0, 1)
    expect(drawn[2], 1, 2)
    assert all(y.dtype == dtype for y in drawn)


def test_normal_of_tensors():
    x = torch.full(N, 4.0)
    drawn = run(lambda x: (torch.normal(x, 3.0), torch.normal(1.0, x), torch.normal(x, x),
                           torch.normal(2.0, 5.0, size=N)), x)
    for y, (mean, std) in zip(drawn, [(4, 3), (1, 4), (4, 4), (2, 5)]):
        expect(y, mean, std)


@pytest.mark.parametrize("dtype", [None, torch.int32, torch.float32, torch.float16])
def test_whole_numbers(dtype):
    x = torch.zeros(N)
    y = run(lambda x: torch.randint(5, 100, x.shape, dtype=dtype), x)
    expect(y, 52, 95 * UNIFORM, 5, 99)
    assert y.dtype == (dtype or torch.int32)
    y = run(lambda x: (torch.randint(3, N), torch.randint_like(x, 7), (x + 0).random_(5, 100), x.int().random_(4)), x)
    expect(y[0], 1, math.sqrt(2 / 3), 0, 2)
    expect(y[1], 3, 2, 0, 6)
    expect(y[2], 52, 95 * UNIFORM, 5, 99)
    expect(y[3], 1.5, math.sqrt(1.25), 0, 3)


def test_bernoulli():
    p = torch.full(N, 0.3)
    drawn = run(lambda p: (torch.bernoulli(p), torch.bernoulli(p, 0.8), (p + 0).bernoulli_(0.25),
                           torch.zeros(N).bernoulli_(p)), p)
    for y, mean in zip(drawn, [0.3, 0.8, 0.25, 0.3]):
        expect(y, mean, math.sqrt(mean * (1 - mean)), 0, 1)
    assert run(torch.bernoulli, torch.zeros(50)).sum() == 0
    assert run(torch.bernoulli, torch.ones(50)).sum() == 50


def test_other_distributions():
    x = torch.zeros(N)
    drawn = run(lambda x: ((x + 0).exponential_(0.5), (x + 0).geometric_(0.25), (x + 0).log_normal_(0.0, 0.25),
                           (x + 0).cauchy_(1.0, 2.0)), x)
    expect(drawn[0], 2, 2, 0)
    expect(drawn[1], 4, math.sqrt(12), 1)
    expect(drawn[2].log(), 0, 0.25)
    assert abs(drawn[3].median().item() - 1) < 0.2


def test_randperm():
    y = run(lambda x: torch.randperm(x.shape[0]) + 0, torch.zeros(100))
    assert sorted(y.tolist()) == list(range(100)) and y.tolist() != list(range(100))


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial(replacement):
    weights = torch.tensor([[0.0, 3.0, 1.0, 4.0]] * 2000)
    y = run(lambda w: torch.multinomial(w, 2, replacement), weights)
    counts = torch.bincount(y[:, 0].long(), minlength=4) / 2000
    assert torch.allclose(counts, weights[0] / 8, atol=0.05)
    assert replacement or not (y[:, 0] == y[:, 1]).any()


def test_distributions():

    def draw(x):
        d = torch.distributions
        return (d.Uniform(0.0, 10.0).sample(N), d.Normal(x[0], torch.sqrt(x[0])).sample(N), d.Bernoulli(0.5).sample(N),
                d.Exponential(0.5).sample(N))

    uniform, normal, bernoulli, exponential = run(draw, torch.tensor([100.0]))
    expect(uniform, 5, 10 * UNIFORM, 0, 10)
    expect(normal, 100, 10)
    expect(bernoulli, 0.5, 0.5, 0, 1)
    expect(exponential, 2, 2, 0)


def test_seeds():
    first, again = run(torch.randn_like, torch.zeros(9)), run(torch.randn_like, torch.zeros(9))
    assert torch.equal(first, again)
    assert not torch.equal(first, run(torch.randn_like, torch.zeros(9), seed=9))


def test_runs_differ():
    model = poptorch.inferenceModel(lambda x: torch.randn_like(x))
    assert not torch.equal(model(torch.zeros(9)), model(torch.zeros(9)))


@pytest.mark.parametrize("inplace", [False, True])
def test_dropout(inplace):
    x = torch.ones(N)
    y = run_training(lambda x: nn.functional.dropout(x + 0, 0.2, True, inplace), x)
    assert torch.allclose(y[y != 0], torch.tensor(1.25))
    expect((y == 0).float(), 0.2, 0.4)
    assert torch.equal(run_training(lambda x: nn.functional.dropout(x + 0, 0.2, False, inplace), x), x)
    assert torch.equal(run_training(lambda x: nn.functional.dropout(x + 0, 1.0, True, inplace), x), x * 0)
    assert torch.equal(run(lambda x: nn.functional.dropout(x + 0, 0.2, True, inplace), x), x)


@pytest.mark.parametrize("fn,shape", [(nn.functional.dropout1d, (50, 40, 3)), (nn.functional.dropout2d, (50, 40, 3, 3)),
                                      (nn.functional.dropout3d, (50, 40, 2, 2, 2))])
def test_channels_drop_out_as_a_whole(fn, shape):
    x = torch.ones(shape)
    assert torch.equal(run(lambda x: fn(x, 0.25, True), x), x)
    y = run_training(lambda x: fn(x, 0.25, True), x).reshape(50, 40, -1)
    assert torch.equal(y.amin(-1), y.amax(-1))
    expect((y[..., 0] == 0).float(), 0.25, math.sqrt(0.1875))


def test_alpha_dropout():
    x = torch.randn(N)
    expect(run(lambda x: nn.functional.alpha_dropout(x, 0.2, True), x), x.mean().item(), x.std().item())
    assert torch.equal(run(lambda x: nn.functional.alpha_dropout(x, 0.2, False), x), x)


def test_gradient_of_dropout_is_where_it_let_through():

    class Model(nn.Module):

        def __init__(self):
            super().__init__()
            self.offset = nn.Parameter(torch.zeros(N))

        def forward(self, x):
            y = nn.functional.dropout(x + self.offset, 0.5, True)
            return y, poptorch.identity_loss(y, "sum")

    model = Model()
    trained = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0))
    y, _ = trained(torch.ones(N))
    assert torch.allclose(model.offset, -y)


def test_rrelu_draws_its_slopes():
    x = torch.full(N, -1.0)
    y = run(lambda x: nn.functional.rrelu(x, 0.1, 0.3, True), x)
    expect(y, -0.2, 0.2 * UNIFORM, -0.3, -0.1, within=0.01)
    assert torch.equal(run(lambda x: nn.functional.rrelu(x, 0.1, 0.3, True), -x), -x)


def test_distributions_by_rejection():

    def draw(rate):
        d = torch.distributions
        return (d.Gamma(rate, rate).sample(), d.Dirichlet(rate).sample(), d.Beta(rate, rate).sample(),
                torch.poisson(rate), torch.poisson(rate * 30))

    gamma, dirichlet, beta, few, many = run(draw, torch.full((10000, 2), 0.5))
    expect(gamma, 1, math.sqrt(2), 0, within=0.1)
    assert torch.allclose(dirichlet.sum(1), torch.ones(10000))
    expect(beta, 0.5, math.sqrt(0.125), 0, 1)
    expect(few, 0.5, math.sqrt(0.5), 0)
    expect(many, 15, math.sqrt(15), 0)


def test_samples_without_gradient_are_refused():

    class Model(nn.Module):

        def __init__(self):
            super().__init__()
            self.shape = nn.Parameter(torch.ones(3))

        def forward(self):
            return poptorch.identity_loss(torch.distributions.Gamma(self.shape, self.shape).rsample(), "sum")

    with pytest.raises(poptorch.Error, match="gradients through samples"):
        poptorch.trainingModel(Model())()


def test_turns_of_loops_differ():

    def nested(x):

        def turn(x):
            return torch.cat([x[1:], torch.rand(1)])

        def outer(x):
            return poptorch.for_loop(3, turn, [x])[0]

        return poptorch.for_loop(4, outer, [x])[0]

    drawn = run(nested, torch.zeros(12))
    assert len(set(drawn.tolist())) == 12 and drawn.min() > 0


def test_branches_draw():
    model = poptorch.inferenceModel(
        lambda x, condition: poptorch.cond(condition, lambda x: x + torch.rand(3), [x], lambda x: x - 1, [x])[0])
    assert (model(torch.zeros(3), torch.tensor([True])) > 0).all()
    assert (model(torch.zeros(3), torch.tensor([False])) == -1).all()
