"""Graphs in the words of PopART: names, groups of convolutions, updates, and transfers that overlap."""

import json
import logging

import pytest
import torch

import poptorch

F = torch.nn.functional


class Network(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.one = torch.nn.Conv2d(1, 2, 3)
        self.two = torch.nn.Conv2d(1, 2, 3)
        self.out = torch.nn.Linear(8, 3)

    def forward(self, x, y):
        with poptorch.MultiConv():
            x = torch.relu(self.one(x)) + self.two(x)
        x = self.out(x.flatten(1))
        return x, F.cross_entropy(x, y)


def ops_of(model):
    return json.loads(model._debugGetPopartIR())["maingraph"]


def test_names_and_types():

    class Two(torch.nn.Module):

        def __init__(self):
            super().__init__()
            self.layer = torch.nn.ReLU()

        def forward(self, x):
            return self.layer(x * 2) * self.layer(x)

    model = poptorch.inferenceModel(Two())
    model(torch.ones(2))
    assert [(op["type"], op["outputs"][0]["name"]) for op in ops_of(model)] == [
        ("Mul", "Mul:0"), ("Relu", "layer/Relu:0"), ("Relu", "layer/Relu:0/1"), ("Mul", "Mul:0/1")]


@pytest.mark.parametrize("make, types", [
    (lambda p: torch.optim.SGD(p, lr=0.1), ["SGD0VarUpdate"]),
    (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), ["SGD2PartialAcclUpdate", "SGD2VarUpdate"]),
    (lambda p: poptorch.optim.AdamW(p, lr=0.1), ["AdamUpdater", "AdamVarUpdate"])])
def test_updates_and_groups(make, types):
    network = Network()
    model = poptorch.trainingModel(network, optimizer=make(network.parameters()))
    model(torch.randn(4, 1, 4, 4), torch.randint(0, 3, (4, )))
    found = [op["type"] for op in ops_of(model)]
    assert found.count("MultiConv") == 1 and "Conv" not in found
    assert all(found.count(kind) == 6 for kind in types)


def test_places_are_logged(caplog):

    class Staged(torch.nn.Module):

        def forward(self, x):
            with poptorch.Block(ipu_id=0):
                x = x * 4
            with poptorch.Block(ipu_id=1):
                return x * 2

    with caplog.at_level(logging.DEBUG, logger="poptorch::python"):
        poptorch.inferenceModel(Staged(), poptorch.Options().deviceIterations(2))(torch.ones(2, 5))
    assert " Mul:0 [float32(1, 5), mode(Pipelined), ipu(0), stage(0)]" in caplog.text
    assert " Mul:0/1 [float32(1, 5), mode(Pipelined), ipu(1), stage(1)]" in caplog.text


def test_mistakes_with_groups():

    class Nested(torch.nn.Module):

        def forward(self, x):
            with poptorch.MultiConv():
                with poptorch.MultiConv():
                    return x

    class Empty(torch.nn.Module):

        def forward(self, x):
            with poptorch.MultiConv():
                return x + 1

    for network, message in ((Nested(), "Nested poptorch.MultiConv"), (Empty(), "Unexpected end_multi_conv")):
        with pytest.raises(poptorch.Error, match=message):
            poptorch.inferenceModel(network)(torch.ones(2))


def test_overlaps():
    loop = poptorch.OverlapMode.OverlapAccumulationLoop

    def run(function, options=None):
        return poptorch.inferenceModel(function, options)(torch.ones(2))

    def right(x):
        x = poptorch.set_overlap_for_input(x, loop)
        return poptorch.set_overlap_for_output(x + 1, loop)

    sharded = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())
    with pytest.raises(poptorch.Error, match="not supported with poptorch.PipelinedExecution"):
        run(right)
    with pytest.raises(poptorch.Error, match="No IO tiles allocated"):
        run(right, sharded)
    sharded = sharded.clone()
    sharded.TensorLocations.numIOTiles(32)
    assert run(right, sharded).tolist() == [2, 2]
    for wrong, message in (
            (lambda x: poptorch.set_overlap_for_input(x + 1, loop), "not a tensor input"),
            (lambda x: (x + 1, poptorch.set_overlap_for_input(x, loop)), "must be the only op"),
            (lambda x: poptorch.set_overlap_for_output(x + 1, loop) + 1, "not a tensor output")):
        with pytest.raises(poptorch.Error, match=message):
            run(wrong, sharded)
    assert run(lambda x: poptorch.set_overlap_for_input(x, poptorch.OverlapMode.NoOverlap) + 1).tolist() == [2, 2]
