"""Weights of a model that is trained: where the newest are, and how the host sees them."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import pickle

import numpy as np
import pytest
import torch
from torch import nn

import poptorch
from openipu.executor import Executor, Module
from openipu.arrays import numpy_over
from openipu.library import TYPE_NUMBERS, Array, Shape


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x, y=None):
        out = self.norm(self.linear(x))
        return out if y is None else (out, nn.functional.mse_loss(out, y))


def batch():
    return torch.randn(4, 3), torch.randn(4, 2)


def trained(model=None, n=3, **kwargs):
    model = model or Net()
    training = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), **kwargs)
    for _ in range(n):
        training(*batch())
    return model, training


def test_classes_while_it_is_trained():
    model, training = trained()
    assert type(model).__name__ == "PoptorchNet" and isinstance(model, Net)
    assert type(model.linear.weight).__name__ == "PoptorchParameter"
    assert isinstance(model.linear.weight, nn.Parameter)
    assert type(model.norm.running_mean).__name__ == "PoptorchBuffer"
    training.destroy()
    assert type(model) is Net and type(model.linear.weight) is nn.Parameter
    assert type(model.norm.running_mean) is torch.Tensor


@pytest.mark.parametrize("look", [
    lambda m: m.linear.weight.detach().clone(),
    lambda m: m.state_dict()["linear.weight"].clone(),
    lambda m: next(m.parameters()).data.clone(),
    lambda m: m.linear.weight + 0,
    lambda m: torch.add(torch.zeros(2, 3), m.linear.weight),
    lambda m: torch.from_numpy(m.linear.weight.detach().numpy().copy()),
    lambda m: torch.tensor(m.linear.weight.tolist()),
    lambda m: copy.deepcopy(m).linear.weight,
    lambda m: dict(m.named_parameters())["linear.weight"].clone(),
])
def test_every_look_sees_the_newest(look):
    torch.manual_seed(0)
    model, training = trained(n=1)
    first = look(model).detach()
    training(*batch())
    second = look(model).detach()
    assert not torch.equal(first, second)
    training.copyWeightsToHost()
    assert torch.equal(second, model.linear.weight.detach())


def test_forward_on_the_host_uses_the_newest():
    model, training = trained()
    x, _ = batch()
    model.eval()
    host = model(x)
    inference = poptorch.inferenceModel(model)
    torch.testing.assert_close(inference(x), host.detach(), rtol=1e-4, atol=1e-5)


def test_buffers_are_brought_back():
    torch.manual_seed(0)
    model = Net()
    reference = copy.deepcopy(model)
    training = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.0))
    for _ in range(3):
        x, y = batch()
        reference(x, y)
        training(x, y)
    torch.testing.assert_close(model.norm.running_mean + 0, reference.norm.running_mean)
    torch.testing.assert_close(model.norm.running_var + 0, reference.norm.running_var)
    assert model.norm.num_batches_tracked == 3


def test_if_needed():
    model, training = trained()
    assert training.copyWeightsToHostIfNeeded()
    assert not training.copyWeightsToHostIfNeeded()
    training(*batch())
    assert model.copyWeightsToHostIfNeeded()


def test_inference_follows_training():
    model, training = trained()
    model.eval()
    inference = poptorch.inferenceModel(model)
    x, _ = batch()
    for _ in range(3):
        training(*batch())
        torch.testing.assert_close(inference(x), model(x).detach(), rtol=1e-4, atol=1e-5)
    training.destroy()
    torch.testing.assert_close(inference(x), model(x).detach(), rtol=1e-4, atol=1e-5)


def test_inference_of_a_part_follows_too():

    class WithLoss(nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, x, y):
            return nn.functional.mse_loss(self.net(x), y)

    net = nn.Linear(3, 2)
    inference = poptorch.inferenceModel(net)
    x, y = batch()
    before = inference(x)
    whole = WithLoss(net)
    training = poptorch.trainingModel(whole, optimizer=torch.optim.SGD(whole.parameters(), lr=0.1))
    training(x, y)
    after = inference(x)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, net(x).detach())


def test_host_changes_need_a_copy():
    model = nn.Linear(3, 2)
    inference = poptorch.inferenceModel(model)
    x, _ = batch()
    before = inference(x)
    with torch.no_grad():
        model.weight.zero_()
        model.bias.fill_(3)
    inference(x)
    inference.copyWeightsToDevice()
    assert torch.all(inference(x) == 3) and not torch.all(before == 3)


def test_host_changes_reach_a_training_model():
    model, training = trained()
    with torch.no_grad():
        model.linear.weight.zero_()
    training.copyWeightsToDevice()
    training.copyWeightsToHost()
    assert torch.all(model.linear.weight == 0)


def test_copy_to_device_discards_what_was_trained():
    model = Net()
    alias = model.linear.weight.data  # known from before: looking at it brings nothing
    begin = alias.clone()
    _, training = trained(model)
    training.copyWeightsToDevice()
    training.copyWeightsToHost()
    assert torch.equal(model.linear.weight.detach(), begin)


def test_load_state_dict_of_the_executor():
    model, training = trained()
    other = Net()
    found = training.load_state_dict(other.state_dict())
    assert not found.missing_keys and not found.unexpected_keys
    training.copyWeightsToHost()
    assert torch.equal(model.linear.weight.detach(), other.linear.weight.detach())
    with pytest.raises(RuntimeError, match="Unexpected key"):
        training.load_state_dict({"nothing": torch.ones(1)})


def test_other_data_of_a_parameter():
    model, training = trained()
    model.linear.weight.data = torch.zeros(2, 3)
    training.copyWeightsToDevice()
    training(*batch())
    assert model.linear.weight.abs().sum() > 0


def test_strided_and_wide_weights():

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 2).t())
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
            self.register_buffer("wide", torch.ones(2, dtype=torch.float64))

        def forward(self, x, y):
            self.steps += 1
            self.wide.mul_(2)
            return nn.functional.mse_loss(nn.functional.linear(x, self.weight), y)

    model = Odd()
    reference = copy.deepcopy(model)
    sgd = torch.optim.SGD(reference.parameters(), lr=0.1)
    training = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(2):
        x, y = batch()
        sgd.zero_grad()
        reference(x, y).backward()
        sgd.step()
        training(x, y)
    torch.testing.assert_close(model.weight.detach(), reference.weight.detach())
    assert model.steps == 2 and model.wide.tolist() == [4, 4] and model.wide.dtype == torch.float64


def test_buffers_that_torch_negates_later():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch._neg_view(torch.tensor([1.0, 2.0])))

        def forward(self, x):
            return x + self.b

    assert poptorch.inferenceModel(Model())(torch.zeros(2)).tolist() == [-1, -2]


def test_tied_parameters():

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 3, bias=False)
            self.second = nn.Linear(3, 3, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x):
            return (self.second(self.first(x))**2).mean()

    class Loss(Tied):
        def forward(self, x):
            return poptorch.identity_loss(super().forward(x), reduction="none")

    model = Loss()
    reference = Tied()
    reference.load_state_dict(model.state_dict())
    sgd = torch.optim.SGD(reference.parameters(), lr=0.1)
    training = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(3):
        x = torch.randn(4, 3)
        sgd.zero_grad()
        reference(x).backward()
        sgd.step()
        training(x)
    assert model.first.weight is model.second.weight
    torch.testing.assert_close(model.first.weight.detach(), reference.first.weight.detach())


def test_frozen_parameters_stay():
    model = Net()
    model.linear.weight.requires_grad_(False)
    begin = model.linear.weight.detach().clone()
    _, training = trained(model)
    assert torch.equal(model.linear.weight.detach(), begin)
    assert not torch.equal(model.norm.weight.detach(), torch.ones(2))


def test_weights_of_another_type():
    model = nn.Linear(3, 2)
    inference = poptorch.inferenceModel(model)
    inference(torch.ones(1, 3))
    model.half()
    with pytest.raises(poptorch.Error, match='weight "weight": expected float'):
        inference.copyWeightsToDevice()


def test_wrapped_parameters_print_as_others():
    model, training = trained()
    texts = repr(model.linear.weight), repr(model.norm.running_mean)
    training.destroy()
    assert (repr(model.linear.weight), repr(model.norm.running_mean)) == texts


# ---- copies


def test_copies_are_not_wrapped():
    model, _ = trained()
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(other) is Net
    assert type(copy.deepcopy(model).linear.weight) is nn.Parameter
    assert type(copy.deepcopy(model.linear.weight)) is nn.Parameter
    assert type(copy.deepcopy(model).norm.running_mean) is torch.Tensor
    for value in model.state_dict().values():
        assert type(value) is torch.Tensor
    for value in model.state_dict(keep_vars=True).values():
        assert not type(value).__name__.startswith("Poptorch")


def test_torch_save():
    model, _ = trained()
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    more = {"weights_only": False} if "weights_only" in inspect.signature(torch.load).parameters else {}
    loaded = torch.load(file, **more)
    assert type(loaded) is Net and torch.equal(loaded.linear.weight, model.linear.weight)


def test_wrapped_once():
    model, training = trained()
    with pytest.raises(RuntimeError, match="already been wrapped"):
        poptorch.trainingModel(model)
    training.destroy()
    _, again = trained(model)
    assert again.isCompiled()


def test_training_goes_on_after_destroy():
    model, training = trained()
    training.destroy()
    before = model.linear.weight.detach().clone()
    training(*batch())
    assert type(model).__name__ == "PoptorchNet"
    assert not torch.equal(model.linear.weight.detach(), before)


def test_an_executor_that_is_gone_gives_the_model_back():
    model, training = trained()
    training.copyWeightsToHost()
    training(*batch())
    before = copy.deepcopy(model.state_dict())
    del training
    assert type(model) is Net
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_buffers_of_other_classes_are_refused():

    class Other(torch.Tensor):
        pass

    model = Net()
    model.register_buffer("other", torch.ones(1).as_subclass(Other))
    with pytest.raises(poptorch.Error, match="All buffers must be an instance of torch.Tensor"):
        poptorch.trainingModel(model)
    assert type(model) is Net


def test_only_a_shallow_copy_runs():

    class Mode(nn.Module):
        def forward(self, x):
            return x + (1 if self.training else 2)

    model = Mode()
    inference = poptorch.inferenceModel(model)
    model.eval()
    assert inference(torch.zeros(1)) == 1


class Counter(nn.Module):
    """Counts its calls in buffers: one of a type that is the library's own memory, one of a type that is not."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(2))
        self.register_buffer("long", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        self.long += 1
        return x + self.calls


def test_buffers_of_inference_come_to_the_host_when_asked_for():
    model = Counter()
    inference = poptorch.inferenceModel(model)
    for n in (1, 2, 5):
        for _ in range(n):
            inference(torch.zeros(2))
        before = model.calls.clone()
        inference.copyWeightsToHost()
        assert torch.all(model.calls == before + n) and model.long == model.calls[0]
    assert inference(torch.zeros(2)).tolist() == [9, 9] and model.calls.tolist() == [8, 8]
    model.calls.fill_(100)
    inference.copyWeightsToDevice()  # the host's, not what the device had made of it
    assert inference(torch.zeros(2)).tolist() == [101, 101] and model.calls.tolist() == [100, 100]


@pytest.mark.parametrize("end", ["destroy", "detachFromDevice", "del"])
def test_buffers_of_inference_stay_where_they_are_when_it_ends(end):
    model = Counter()
    inference = poptorch.inferenceModel(model)
    for _ in range(3):
        inference(torch.zeros(2))
    if end != "del":
        getattr(inference, end)()
    del inference
    gc.collect()
    assert model.calls.tolist() == [0, 0] and model.long == 0


def test_a_module_shows_states_that_inference_changed():
    """What a library's module is asked for is fetched from the device each time that a run has changed it."""
    data = np.array([4, 1], np.float32)

    def forward(network, values):
        total = network.state("total", "float", (2, ))
        network.update(total, network.emit("add", [total, values[0]]))
        network.output(total, "before")

    module = Module(forward)
    executor = Executor(module)
    arrays = (Array * 1)(Array(TYPE_NUMBERS["float"], Shape.of((2, )), data.ctypes.data))
    for n in (1, 2, 3):
        executor.run(arrays, 1)
        assert numpy_over(module.weight("total")).tolist() == [4 * n, n]


def test_named_buffers():

    class Buffers(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("first", torch.ones(2))
            self.register_buffer("second", torch.ones(2))

        def forward(self, x):
            return x + self.first + 10 * self.second

    options = poptorch.Options()
    options.updatableNamedBuffers(["first"])
    model = Buffers()
    inference = poptorch.inferenceModel(model, options)
    assert torch.all(inference(torch.zeros(2)) == 11)
    model.first.fill_(2)
    model.second.fill_(2)
    inference.copyNamedBuffersToDevice()
    assert torch.all(inference(torch.zeros(2)) == 12)


def test_replicas_need_buffers_that_may_differ():

    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count.add_(1)
            return x + self.count

    options = poptorch.Options().replicationFactor(2)
    with pytest.raises(poptorch.Error, match="does not support broadcasting buffers"):
        poptorch.inferenceModel(Counts(), options)(torch.zeros(2))
    options = poptorch.Options().replicationFactor(2).broadcastBuffers(False)
    assert torch.all(poptorch.inferenceModel(Counts(), options)(torch.zeros(2)) == 1)


def test_copies_that_nobody_asked_for_are_the_users(monkeypatch):
    model = torch.nn.Linear(3, 1)

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            y = self.model(x)
            return y, poptorch.identity_loss(y, "sum")

    training = poptorch.trainingModel(Loss())
    calls = []
    real = training.copyWeightsToHost
    monkeypatch.setattr(training, "copyWeightsToHost", lambda: (calls.append(1), real()))
    training(torch.ones(2, 3))
    assert not calls
    before = model.weight.sum().item()
    assert calls == [1] and model.weight.sum().item() == before and calls == [1]
    training(torch.ones(2, 3))
    training.detachFromDevice()
    assert calls == [1, 1]
