"""Files of compiled models."""

from __future__ import annotations

import os
import pickle

import pytest
import torch
from torch import nn

import poptorch
from poptorch._run import saving


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, y=None):
        out = self.dropout(self.linear(x))
        return out if y is None else (out, nn.functional.mse_loss(out, y))


class Nested(nn.Module):
    def forward(self, pair, scale=1, *, offset):
        return pair[0] * scale + pair[1]["x"] + offset


def batch(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(4, 3, generator=generator), torch.randn(4, 2, generator=generator)


def test_inference(tmp_path):
    model = Loss().eval()
    path = str(tmp_path / "model.poptorch")
    poptorch.inferenceModel(model).compileAndExport(path, batch()[0])
    loaded = poptorch.load(path)
    assert loaded.isCompiled() and loaded.isAttachedToDevice()
    x, _ = batch(1)
    torch.testing.assert_close(loaded(x), model(x).detach())


def test_training_goes_on_as_if_nothing_had_been(tmp_path):
    model = Loss()
    training = poptorch.trainingModel(model, poptorch.Options().randomSeed(3),
                                      poptorch.optim.Adam(model.parameters(), lr=0.1))
    for i in range(3):
        training(*batch(i))
    path = str(tmp_path / "training")
    training.save(path)
    loaded = poptorch.load(path)
    for i in range(3, 6):
        for a, b in zip(training(*batch(i)), loaded(*batch(i))):
            assert torch.equal(a, b)
    for a, b in zip(model.parameters(), loaded.model.parameters()):
        assert torch.equal(a.detach(), b.detach())


def test_executable_alone(tmp_path):
    model = Loss().eval()
    path = str(tmp_path / "model.poptorch")
    poptorch.inferenceModel(model).compileAndExport(path, batch()[0], export_model=False)
    with pytest.raises(AssertionError, match="export_model=False"):
        poptorch.load(path)
    again = poptorch.inferenceModel(model)
    again.loadExecutable(path)
    assert again.isCompiled()
    x, _ = batch(2)
    torch.testing.assert_close(again(x), model(x).detach())


def test_places(tmp_path, caplog):
    inference = poptorch.inferenceModel(nn.Linear(3, 2))
    inference.compile(batch()[0])
    inference.save(str(tmp_path))
    assert os.path.exists(tmp_path / "model.poptorch") and "is a directory" in caplog.text
    inference.save(str(tmp_path / "new" / "folder" / "file"))
    assert os.path.exists(tmp_path / "new" / "folder" / "file")
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_options_can_be_edited(tmp_path):
    path = str(tmp_path / "model")
    options = poptorch.Options().useOfflineIpuTarget()
    poptorch.inferenceModel(nn.Linear(3, 2), options).compileAndExport(path, batch()[0])
    seen = []
    loaded = poptorch.load(path, lambda o: seen.append(o.connection_type))
    assert seen == [poptorch.ConnectionType.Always]
    assert loaded(batch()[0]).shape == (4, 2)


def test_other_files(tmp_path):
    path = str(tmp_path / "model")
    with open(path, "wb") as file:
        file.write(b"something else")
    with pytest.raises(AssertionError, match="Invalid file"):
        poptorch.load(path)
    inference = poptorch.inferenceModel(nn.Linear(3, 2))
    with pytest.raises(poptorch.Error, match="Invalid file"):
        inference.loadExecutable(path)
    inference.compileAndExport(path, batch()[0])
    with open(path, "rb") as file:
        file.read(len(saving.MAGIC))
        data = pickle.load(file)
    data["version"] = "1.0"
    with open(path, "wb") as file:
        file.write(saving.MAGIC)
        pickle.dump(data, file)
    with pytest.raises(AssertionError, match="version mismatch: File was created with version: 1.0"):
        poptorch.load(path)


def test_arguments_are_remembered(tmp_path):
    path = str(tmp_path / "model")
    call = dict(pair=(torch.ones(2), {"x": torch.ones(2)}), scale=3, offset=torch.ones(2))
    poptorch.inferenceModel(Nested()).compileAndExport(path, **call)
    loaded = poptorch.load(path)
    assert torch.all(loaded(**call) == 5)
    with pytest.raises(poptorch.Error, match="Value mismatch for scale"):
        loaded(**{**call, "scale": 4})


def test_cache(tmp_path):
    options = poptorch.Options().enableExecutableCaching(str(tmp_path))
    for n in range(2):
        inference = poptorch.inferenceModel(nn.Linear(3, 2), options.clone())
        inference(batch()[0])
        assert inference._executable.executor.compile_seconds()[1] == (n == 1)
    assert [name for name in os.listdir(tmp_path) if name.endswith(".ipuexe")]
