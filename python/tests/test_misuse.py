"""Mistakes that users make: what is said, and that the model can be used afterwards."""

import logging

import numpy
import pytest
import torch
from torch import nn

import poptorch

X = torch.ones(2, 4)
LABELS = torch.tensor([0, 2])


class Net(nn.Module):

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, labels=None):
        y = self.fc(x)
        return y if labels is None else (y, self.loss(y, labels))


def _options():
    return poptorch.Options().showCompilationProgressBar(False)


def _is_usable(model, net):
    torch.testing.assert_close(model(X), net(X))


@pytest.fixture(name="warnings")
def _warnings(caplog):
    poptorch.logger.addHandler(caplog.handler)
    caplog.handler.setLevel(logging.WARNING)
    yield caplog
    poptorch.logger.removeHandler(caplog.handler)


# ---- arguments of a call


@pytest.mark.parametrize("wrong, error, message", [
    (torch.ones(2, 5), RuntimeError, "cannot be multiplied|same reduction dim"),
    (torch.tensor(1.), RuntimeError, "0D"),
    (numpy.ones((2, 4), numpy.float32), TypeError, "must be Tensor, not numpy.ndarray"),
    ([1., 2.], TypeError, "must be Tensor, not list"),
    (None, TypeError, "must be Tensor, not NoneType"),
    (torch.ones(2, 4, device="meta"), poptorch.Error, "expected a tensor on device cpu, found one on meta"),
    (torch.ones(2, 4).to_sparse(), poptorch.Error, r"dense tensors: found a sparse_coo one; use \.to_dense"),
    (torch.quantize_per_tensor(X, 0.1, 0, torch.qint8), poptorch.Error, "found a quantized one"),
    (X.to(torch.complex64), poptorch.Error, "torch.complex64 are not supported; expected one of: torch.float32"),
], ids=["inner", "scalar", "numpy", "list", "none", "meta", "sparse", "quantized", "complex"])
@pytest.mark.parametrize("is_compiled", [False, True], ids=["first", "later"])
def test_wrong_input(wrong, error, message, is_compiled):
    net = Net()
    model = poptorch.inferenceModel(net, _options())
    if is_compiled:
        model(X)
        if error is not poptorch.Error or wrong.is_complex() or wrong.is_quantized:
            message = "mismatch for x: expected"
        error = poptorch.Error
    with pytest.raises(error, match=message):
        model(wrong)
    _is_usable(model, net)


@pytest.mark.parametrize("labels, error, message", [
    (torch.tensor([0., 2.]), poptorch.Error, r"cross_entropy(.|\n)*test_misuse\.py:\d+"),
    (torch.tensor([0, 1, 2]), ValueError, "Expected target size"),
], ids=["floats", "too many"])
def test_wrong_labels(labels, error, message):
    model = poptorch.trainingModel(Net(), _options())
    with pytest.raises(error, match=message):
        model(X, labels)
    first = float(model(X, LABELS)[1])
    assert float(model(X, LABELS)[1]) < first


def test_label_out_of_range():
    net = Net()
    before = net.fc.weight.detach().clone()
    model = poptorch.trainingModel(net, _options())
    with pytest.raises(poptorch.Error, match="label 1 is 17: expected 0 to 2"):
        model(X, torch.tensor([0, 17]))
    torch.testing.assert_close(net.fc.weight.detach(), before)
    first = float(model(X, LABELS)[1])
    assert float(model(X, LABELS)[1]) < first


def test_labels_forgotten():
    model = poptorch.trainingModel(Net(), _options())
    with pytest.raises(poptorch.Error, match=r"Couldn't find a loss(.|\n)*identity_loss"):
        model(X)
    assert model(X, LABELS)[1].shape == ()


class Two(Net):

    def forward(self, x, labels):
        y = self.fc(x)
        return self.loss(y, labels), nn.functional.mse_loss(y, torch.zeros_like(y))


def test_two_losses_are_named():
    model = poptorch.trainingModel(Two(), _options())
    with pytest.raises(poptorch.Error, match=r"cross_entropy at .*test_misuse\.py:\d+; mse_loss at .*test_misuse\.py"):
        model(X, LABELS)


def test_model_of_other_options_than_the_loader():
    dataset = torch.utils.data.TensorDataset(torch.ones(8, 4))
    loader = poptorch.DataLoader(_options().deviceIterations(2), dataset, batch_size=2)
    model = poptorch.inferenceModel(Net(), _options().deviceIterations(3))
    with pytest.raises(AssertionError, match=r"batch dimension \(4\) must be a multiple of Options.deviceIterations\(3\)"):
        model(*next(iter(loader)))
    assert model(torch.ones(6, 4)).shape == (6, 3)


# ---- the model


@pytest.mark.parametrize("wrong, message", [
    (None, "found <class 'NoneType'>"),
    (X, "found <class 'torch.Tensor'>"),
    (Net, r"found the class Net itself: make one of it, as in Net\(\)"),
], ids=["none", "tensor", "class"])
def test_not_a_model(wrong, message):
    with pytest.raises(TypeError, match="expected a torch.nn.Module.*" + message):
        poptorch.inferenceModel(wrong, _options())


def test_model_on_another_device():
    net = Net().to("meta")
    model = poptorch.inferenceModel(net, _options())
    with pytest.raises(poptorch.Error, match=r"found fc.weight on meta, fc.bias on meta. Use model.cpu\(\)"):
        model(X)


class Outer(nn.Module):

    def __init__(self, inner):
        super().__init__()
        self.inner = [inner]

    def forward(self, x):
        return self.inner[0](x)


def test_model_in_a_model():
    net = Net()
    inner = poptorch.inferenceModel(net, _options())
    for _ in range(2):
        with pytest.raises(poptorch.Error, match="cannot be called in forward"):
            poptorch.inferenceModel(Outer(inner), _options())(X)
        _is_usable(inner, net)


def test_call_after_destroy_compiles_again():
    net = Net()
    model = poptorch.trainingModel(net, _options())
    model(X, LABELS)
    model.destroy()
    for call in (model.detachFromDevice, model.copyWeightsToHost, model.copyWeightsToDevice):
        with pytest.raises(poptorch.Error, match="has been destroyed"):
            call()
    model.destroy()
    trained = net.fc.weight.detach().clone()
    model(X, LABELS)
    assert not torch.equal(net.fc.weight, trained)


def test_wrong_state_dict():
    net = Net()
    model = poptorch.inferenceModel(net, _options())
    model(X)
    with pytest.raises(RuntimeError, match="Missing key"):
        model.load_state_dict({"other": X})
    _is_usable(model, net)


# ---- the optimizer


@pytest.mark.parametrize("wrong", ["SGD", torch.optim.SGD, [nn.Parameter(X)]], ids=["name", "class", "parameters"])
def test_not_an_optimizer(wrong, warnings):
    with pytest.raises(AssertionError, match="expected a torch.optim.Optimizer, found"):
        poptorch.trainingModel(Net(), _options(), wrong)
    assert not warnings.records
    net = Net()
    model = poptorch.trainingModel(net, _options())
    with pytest.raises(AssertionError, match="expected a torch.optim.Optimizer, found"):
        model.setOptimizer(wrong)
    first = float(model(X, LABELS)[1])
    assert float(model(X, LABELS)[1]) < first


def test_optimizer_of_another_model(warnings):
    net = Net()
    model = poptorch.trainingModel(net, _options(), poptorch.optim.SGD(Net().parameters(), lr=0.1))
    assert "None of the optimizer's parameters is one of the model's" in warnings.text
    before = net.fc.weight.detach().clone()
    model(X, LABELS)
    assert torch.equal(net.fc.weight.detach(), before)
    warnings.clear()
    model.setOptimizer(poptorch.optim.SGD(net.parameters(), lr=0.1))
    assert not warnings.records
    model(X, LABELS)
    assert not torch.equal(net.fc.weight.detach(), before)


# ---- options


@pytest.mark.parametrize("wrong", [0, -1, "2", 2.0])
@pytest.mark.parametrize("name", ["deviceIterations", "replicationFactor", "Training.gradientAccumulation"])
def test_counts(name, wrong):
    target = options = _options()
    *path, method = name.split(".")
    for part in path:
        target = getattr(target, part)
    with pytest.raises(AssertionError, match="at least 1|Expected <class 'int'>"):
        getattr(target, method)(wrong)
    assert options.device_iterations == options.replication_factor == options.Training.gradient_accumulation == 1


def test_misspelled_method():
    with pytest.raises(AttributeError, match="Did you mean deviceIterations?"):
        _options().deviceIteration(2)
    with pytest.raises(AttributeError, match="Did you mean gradientAccumulation?"):
        _options().Training.gradientAcumulation(2)


def test_options_are_frozen_with_all_parts():
    options = _options()
    poptorch.inferenceModel(Net(), options)
    for part in (options, options.Training, options.Precision):
        with pytest.raises(AttributeError, match=r"frozen Options.*options\.clone\(\)"):
            part._frozen_test = 1
    assert options.clone().deviceIterations(2).device_iterations == 2


def test_folder_of_the_cache_cannot_be_made(warnings, tmp_path):
    (tmp_path / "file").write_text("")
    net = Net()
    model = poptorch.inferenceModel(net, _options().enableExecutableCaching(str(tmp_path / "file" / "cache")))
    _is_usable(model, net)
    assert "Executables cannot be cached" in warnings.text


# ---- the data loader

DATASET = torch.utils.data.TensorDataset(torch.ones(10, 4))


@pytest.mark.parametrize("arguments, keywords, error, message", [
    ((DATASET, _options()), {}, AssertionError, "options must be a poptorch.Options: found TensorDataset"),
    ((None, DATASET), {}, AssertionError, "options must be a poptorch.Options: found NoneType"),
    ((_options(), None), {}, AssertionError, "found NoneType"),
    ((_options(), 5), {}, AssertionError, "dataset must be .*found int"),
    ((_options(), DATASET), {"mode": "async"}, AssertionError, "poptorch.DataLoaderMode: found 'async'"),
    ((_options(), DATASET), {"batch_size": 0}, ValueError, "positive integer"),
    ((_options(), DATASET), {"batch_size": "4"}, ValueError, "positive integer"),
    ((_options(), DATASET), {"batchsize": 4}, TypeError, "batchsize"),
    ((_options(), DATASET), {"num_workers": -1}, ValueError, "non-negative"),
], ids=["swapped", "no options", "no dataset", "number", "mode", "zero", "text", "misspelled", "workers"])
def test_loader(arguments, keywords, error, message):
    with pytest.raises(error, match=message):
        poptorch.DataLoader(*arguments, **keywords)


def test_loader_with_no_batches(warnings):
    loader = poptorch.DataLoader(_options().deviceIterations(10), DATASET, batch_size=2)
    assert len(loader) == 0 and not list(loader)
    assert "The dataset has 10 elements, but one step takes 20" in warnings.text
    warnings.clear()
    poptorch.DataLoader(_options().deviceIterations(5), DATASET, batch_size=2)
    assert not warnings.records
