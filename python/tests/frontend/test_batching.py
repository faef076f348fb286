"""How a call's tensors are cut into batches, and which batches' outputs come back."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import poptorch

MODES = poptorch.OutputMode


def options_of(iterations=1, replicas=1, accumulation=1, group=1, mode=None, period=None):
    options = poptorch.Options().deviceIterations(iterations).replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation)
    if group > 1:
        options.inputReplicaGrouping(group, poptorch.CommGroupType.Consecutive)
    if mode is not None:
        options.outputMode(mode, period)
    return options


class Batch(nn.Module):
    """Gives its input, and the sum of a batch."""

    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        assert x.shape[0] == self.n
        return x * 1.0, x.sum()


@pytest.mark.parametrize("iterations, replicas", [(1, 1), (3, 1), (1, 2), (3, 2), (2, 4)])
def test_all_batches_in_order(iterations, replicas):
    n = iterations * replicas
    model = poptorch.inferenceModel(Batch(2), options_of(iterations, replicas))
    x = torch.randn(2 * n, 3)
    whole, sums = model(x)
    torch.testing.assert_close(whole, x)
    assert sums.shape == ((n, ) if n > 1 else ())
    torch.testing.assert_close(sums.reshape(n), x.reshape(n, -1).sum(1))


@pytest.mark.parametrize("iterations, replicas", [(4, 1), (2, 2), (4, 2)])
def test_modes(iterations, replicas):
    n = iterations * replicas
    x = torch.randn(2 * n, 3)
    batches = x.reshape(iterations, replicas, 2, 3)

    def run(mode, period=None):
        return poptorch.inferenceModel(Batch(2), options_of(iterations, replicas, mode=mode, period=period))(x)

    whole, sums = run(MODES.Final)
    torch.testing.assert_close(whole, batches[-1].reshape(-1, 3))
    assert sums.shape == ((replicas, ) if replicas > 1 else ())
    whole, sums = run(MODES.Sum)
    torch.testing.assert_close(whole, batches.sum(0).reshape(-1, 3))
    torch.testing.assert_close(sums.reshape(replicas), batches.sum((0, 2, 3)))
    whole, _ = run(MODES.EveryN, 2)
    torch.testing.assert_close(whole, x.reshape(n, 2, 3)[1::2].reshape(-1, 3))


def test_groups_of_replicas_share_inputs():
    model = poptorch.inferenceModel(Batch(2), options_of(replicas=4, group=2))
    x = torch.randn(4, 3)
    whole, sums = model(x)
    first, second = x[:2], x[2:]
    torch.testing.assert_close(whole, torch.cat([first, first, second, second]))
    assert sums.shape == (4, )


@pytest.mark.parametrize("options", [options_of(iterations=3), options_of(replicas=4), options_of(2, 2)])
def test_batches_must_divide(options):
    with pytest.raises(AssertionError, match="^Invalid batch dimension"):
        poptorch.inferenceModel(Batch(1), options)(torch.ones(7, 1))


def test_scalars_are_one_batch():
    model = poptorch.inferenceModel(lambda x: x * 2)
    assert model(torch.tensor(3.0)) == 6
    with pytest.raises(AssertionError, match="Invalid batch dimension"):
        poptorch.inferenceModel(lambda x: x * 2, options_of(2))(torch.tensor(3.0))


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x, y):
        out = self.linear(x)
        return out, nn.functional.mse_loss(out, y)


def reference_steps(model, x, y, iterations, batches, mean):
    """torch's weights after as many steps as iterations, each with the gradients of so many batches."""
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    size = x.shape[0] // (iterations * batches)
    for step in range(iterations):
        sgd.zero_grad()
        for batch in range(batches):
            at = (step * batches + batch) * size
            loss = model(x[at:at + size], y[at:at + size])[1]
            losses.append(loss.detach())
            (loss / batches if mean else loss).backward()
        sgd.step()
    return torch.stack(losses)


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("iterations, replicas, accumulation", [(1, 1, 1), (3, 1, 1), (2, 1, 3), (1, 2, 1), (2, 2, 2)])
def test_training(iterations, replicas, accumulation, mean):
    torch.manual_seed(iterations + 10 * replicas)
    model = Loss()
    reference = copy.deepcopy(model)
    options = options_of(iterations, replicas, accumulation, mode=MODES.All)
    kind = poptorch.ReductionType.Mean if mean else poptorch.ReductionType.Sum
    options.Training.accumulationAndReplicationReductionType(kind)
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    n = iterations * replicas * accumulation
    for _ in range(2):
        x, y = torch.randn(2 * n, 3), torch.randn(2 * n, 2)
        out, losses = training(x, y)
        assert out.shape == (2 * n, 2)
        expected = reference_steps(reference, x, y, iterations, replicas * accumulation, mean)
        torch.testing.assert_close(losses.reshape(n), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.linear.weight.detach(), reference.linear.weight.detach(), rtol=1e-4, atol=1e-5)


def test_training_gives_the_last_loss():
    training = poptorch.trainingModel(Loss(), options_of(4))
    _, loss = training(torch.randn(8, 3), torch.randn(8, 2))
    assert loss.shape == ()
    training = poptorch.trainingModel(Loss(), options_of(4, 2))
    out, loss = training(torch.randn(16, 3), torch.randn(16, 2))
    assert loss.shape == (2, ) and out.shape == (4, 2)


def test_constants_of_the_host_are_not_multiplied():
    constant = torch.ones(3)

    class Model(nn.Module):
        def forward(self, x):
            return x + 1, constant

    _, found = poptorch.inferenceModel(Model(), options_of(4))(torch.ones(4, 1))
    assert found.shape == (3, )


def test_synthetic_data():
    options = options_of(2).enableSyntheticData(True)
    model = poptorch.inferenceModel(Batch(2), options)
    whole, _ = model(torch.randn(4, 3))
    assert whole.shape == (4, 3)
    assert model.getPerfCounters()["input"] == [[]]
