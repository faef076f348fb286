"""What is held: nothing that grows with calls, nothing after a model is gone."""

from __future__ import annotations

import gc
import os
import weakref

import torch
from torch import nn

import poptorch
from openipu.executor import Executor


def resident() -> int:
    """Bytes of memory that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Loss(nn.Module):
    def __init__(self, n=16):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x, y):
        out = self.linear(x)
        return out, nn.functional.mse_loss(out, y)


def test_ten_thousand_calls():
    model = Loss()
    training = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.001))
    inference = poptorch.inferenceModel(model.linear)
    x, y = torch.randn(8, 16), torch.randn(8, 16)

    def calls(n):
        for i in range(n):
            training(x, y)
            if i % 10 == 0:
                inference(x)
        gc.collect()

    calls(1000)
    before = resident()
    calls(10000)
    assert resident() - before < 4 << 20


def test_calls_that_are_not_plain():
    inference = poptorch.inferenceModel(lambda pair, scale: {"y": [pair[0] * scale, pair[1]]})

    def calls(n):
        for _ in range(n):
            inference((torch.ones(256), torch.ones(256)), scale=2)
        gc.collect()

    calls(500)
    before = resident()
    calls(3000)
    assert resident() - before < 4 << 20


def executors() -> int:
    return sum(type(o) is Executor for o in gc.get_objects())


def test_models_that_are_gone_hold_nothing():
    gc.collect()
    n = executors()
    for destroys in (True, False):
        model = Loss()
        training = poptorch.trainingModel(model, optimizer=poptorch.optim.Adam(model.parameters(), lr=0.1))
        training(torch.randn(8, 16), torch.randn(8, 16))
        inference = poptorch.inferenceModel(model.linear)
        inference(torch.randn(8, 16))
        gone = [weakref.ref(training), weakref.ref(inference), weakref.ref(training._executable)]
        if destroys:
            training.destroy()
            inference.destroy()
        del training, inference, model
        gc.collect()
        assert [ref() for ref in gone] == [None] * 3
        assert executors() == n


def test_many_models():
    x = torch.randn(8, 256)

    def make(n):
        for _ in range(n):
            poptorch.inferenceModel(nn.Linear(256, 256))(x)
        gc.collect()

    make(30)
    before = resident()
    make(100)
    assert resident() - before < 16 << 20


def test_overhead_of_a_call():
    import time
    inference = poptorch.inferenceModel(nn.Linear(3, 2))
    x = torch.randn(1, 3)
    inference(x)
    best = min(_seconds(inference, x, 500, time.process_time) for _ in range(10))
    assert best < 60e-6


def _seconds(call, x, n, clock):
    begin = clock()
    for _ in range(n):
        call(x)
    return (clock() - begin) / n
