"""Groups of replicas: inputs that they share, and parameters with a value for each group."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import poptorch
from poptorch import CommGroupType as Kind
from openipu.replicas import groups_of

ONE_EACH = poptorch.VariableRetrievalMode.OnePerGroup


@pytest.mark.parametrize("kind, size, expected", [(Kind.Consecutive, 2, [0, 0, 1, 1]),
                                                  (Kind.Orthogonal, 2, [0, 1, 0, 1]),
                                                  (Kind.NoGrouping, 0, [0, 1, 2, 3]), (Kind.All, 0, [0, 0, 0, 0])])
def test_groups(kind, size, expected):
    assert groups_of(kind, size, 4) == expected


@pytest.mark.parametrize("kind", [Kind.Consecutive, Kind.Orthogonal])
def test_shared_inputs(kind):
    options = poptorch.Options().replicationFactor(4).deviceIterations(2).inputReplicaGrouping(2, kind)
    model = poptorch.inferenceModel(lambda x: x * 1.0, options)
    x = torch.arange(4.0)
    order = groups_of(kind, 2, 4)
    for _ in range(2):
        assert model(x).tolist() == [2.0 * step + group for step in (0, 1) for group in order]
        x = x + 0


class Product(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        out = x @ self.weight
        return out, poptorch.identity_loss(out**2, reduction="mean")


@pytest.mark.parametrize("kind, size", [(Kind.Consecutive, 2), (Kind.Orthogonal, 2), (Kind.NoGrouping, 0)])
def test_parameters_of_groups(kind, size):
    torch.manual_seed(0)
    numbers = groups_of(kind, size, 4)
    model = Product(torch.randn(max(numbers) + 1, 3, 2))
    weights = nn.Parameter(model.weight.detach().clone())
    sgd = torch.optim.SGD([weights], lr=0.1, momentum=0.9)
    options = poptorch.Options().replicationFactor(4).outputMode(poptorch.OutputMode.All)
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    training.weight.replicaGrouping(kind, size, ONE_EACH)
    for _ in range(3):
        x = torch.randn(8, 3)
        out, losses = training(x)
        sgd.zero_grad()
        parts = [batch @ weights[group] for batch, group in zip(x.reshape(4, 2, 3), numbers)]
        expected = [(part**2).mean() for part in parts]
        (sum(expected) / 4).backward()
        sgd.step()
        torch.testing.assert_close(out, torch.cat(parts).detach())
        torch.testing.assert_close(losses, torch.stack(expected).detach())
    torch.testing.assert_close(model.weight.detach(), weights.detach())


def test_parameters_and_inputs_of_groups():
    torch.manual_seed(0)
    weight = torch.randn(2, 3, 2)
    model = Product(copy.deepcopy(weight))
    options = poptorch.Options().replicationFactor(4).inputReplicaGrouping(2, Kind.Consecutive)
    inference = poptorch.inferenceModel(model, options)
    inference.weight.replicaGrouping(Kind.Orthogonal, 2, ONE_EACH)
    x = torch.randn(4, 3)
    out, _ = inference(x)
    first, second = x[:2], x[2:]
    torch.testing.assert_close(out, torch.cat([first @ weight[0], first @ weight[1], second @ weight[0],
                                               second @ weight[1]]))


@pytest.mark.parametrize("weight, size, message", [(torch.randn(3, 3, 2), 2, "there are 2 groups"),
                                                   (torch.tensor(1.0), 2, "Scalars cannot be passed"),
                                                   (torch.randn(2, 3, 2), 3, "divides the 4 replicas")])
def test_mistakes(weight, size, message):
    model = Product(weight)
    inference = poptorch.inferenceModel(model, poptorch.Options().replicationFactor(4))
    inference.weight.replicaGrouping(Kind.Consecutive, size, ONE_EACH)
    with pytest.raises(poptorch.Error, match=message):
        inference(torch.randn(4, 3))
    assert model.weight.shape == weight.shape
