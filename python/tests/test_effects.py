"""Options that change nothing are told of once; those that do something do it."""

import inspect
import json
import logging
import pathlib
import re

import pytest
import torch

import poptorch
from poptorch._run import effects, options_impl
from poptorch.options import executor_options

MANUAL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "poptorch.md"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x):
        return poptorch.identity_loss(self.linear(x), "sum")


@pytest.fixture
def said(caplog, monkeypatch):
    """What a model that is compiled with options tells of them."""
    monkeypatch.setattr(effects, "_said", set())
    caplog.set_level(logging.INFO, "poptorch::python")

    def compiled(options, n=1):
        options.showCompilationProgressBar(False)
        model = Net()
        caplog.clear()
        poptorch.trainingModel(model, options).compile(torch.ones(4 * n, 3))
        return [(r.levelname, r.getMessage()) for r in caplog.records if "has no effect here" in r.getMessage()]

    return compiled


def location(**settings):
    made = poptorch.TensorLocationSettings()
    for name, value in settings.items():
        getattr(made, name)(value)
    return made


@pytest.mark.parametrize("set_it, name", [
    (lambda o: o.syncPattern(poptorch.SyncPattern.SinglePipeline), "Options.syncPattern"),
    (lambda o: o.setAvailableMemoryProportion({"IPU0": 0.3}), "Options.setAvailableMemoryProportion"),
    (lambda o: o.logDir("logs"), "Options.logDir"),
    (lambda o: o.maxRepeatLogs(None), "Options.maxRepeatLogs"),
    (lambda o: o.Training.setConvolutionDithering(True), "Options.Training.setConvolutionDithering"),
    (lambda o: o.TensorLocations.numIOTiles(32), "Options.TensorLocations.numIOTiles"),
    (lambda o: o.TensorLocations.setWeightLocation(location(useOnChipStorage=False)),
     "Options.TensorLocations.setWeightLocation: useOnChipStorage"),
    (lambda o: o.TensorLocations.setAccumulatorLocation(location(useIOTilesToLoad=True)),
     "Options.TensorLocations.setAccumulatorLocation: useIOTilesToLoad"),
    (lambda o: o.TensorLocations.setActivationLocation(location(useReplicatedTensorSharding=True)),
     "Options.TensorLocations.setActivationLocation: useReplicatedTensorSharding"),
    (lambda o: o.TensorLocations.setActivationLocation(location(useOnChipStorage=False)),
     "Options.TensorLocations.setActivationLocation: useOnChipStorage(False)"),
    (lambda o: o.TensorLocations.setOptimizerLocation(location(minElementsForOffChip=8)),
     "Options.TensorLocations.setOptimizerLocation: minElementsForOffChip"),
    (lambda o: o.setExecutionStrategy(poptorch.SerialPhasedExecution("a").useSeparateBackwardPhase()),
     "useSeparateBackwardPhase"),
    (lambda o: o._Popart.set("autoRecomputation", 3), "_Popart option autoRecomputation"),
    (lambda o: o._Popart.set("enableOutlining", True), "_Popart option enableOutlining"),
    (lambda o: o._Popart.setPatterns({"A": False}), "_Popart option patterns"),
    (lambda o: o._Popart.setEngineOptions({"autoReport.streamAtEachRun": "false"}),
     "engine option autoReport.streamAtEachRun"),
])
def test_what_changes_nothing_is_said_once(said, set_it, name):
    options = poptorch.Options()
    set_it(options)
    lines = said(options.clone())
    assert [level for level, line in lines if line.startswith(name + " has no effect")] == ["INFO"], lines
    assert said(options.clone()) == [], "once in a process"


def test_what_does_something_is_not_said(said):
    options = poptorch.Options().deviceIterations(2).replicationFactor(2).modelName("m").enableStableNorm(True)
    options.Training.gradientAccumulation(2)
    options.Precision.enableStochasticRounding(False).setPartialsType(torch.half)
    options.TensorLocations.setOptimizerLocation(location(useOnChipStorage=False, useReplicatedTensorSharding=True))
    options.TensorLocations.setWeightLocation(location(useOnChipStorage=True, useIOTilesToLoad=False))
    options._Popart.set("enableFloatingPointChecks", True)
    options._Popart.setEngineOptions({"threads": 1, "check.floats": True})
    assert said(options, 8) == []


def test_sharding_among_one_replica(said):
    options = poptorch.Options()
    options.TensorLocations.setOptimizerLocation(location(useReplicatedTensorSharding=True))
    (level, line), = said(options.clone())
    assert level == "WARNING" and "useReplicatedTensorSharding" in line and "replicationFactor" in line
    assert said(options.clone()) == []
    options.outputMode(poptorch.OutputMode.All)
    assert not executor_options(options.clone(), True).shard_optimizer
    assert executor_options(options.clone().replicationFactor(2), True).shard_optimizer


def test_errors_of_the_library_name_options_of_ours():
    options = poptorch.Options().replicationFactor(3).autoRoundNumIPUs()
    with pytest.raises(poptorch.Error, match="Options.replicationFactor: expected 1 or a power of two"):
        poptorch.inferenceModel(torch.nn.Linear(3, 2), options)(torch.ones(6, 3))


@pytest.mark.parametrize("engine, environment, where", [
    ({"autoReport.all": "true"}, {}, "."),
    ({"autoReport.all": True, "autoReport.directory": "there"}, {}, "there"),
    ({"autoReport.outputExecutionProfile": "true", "autoReport.directory": "there"}, {}, "there"),
    ({}, {"autoReport.all": "true", "autoReport.directory": "elsewhere"}, "elsewhere"),
    ({"autoReport.all": "true", "autoReport.directory": "there"}, {"autoReport.directory": "elsewhere"}, "elsewhere"),
    ({"autoReport.all": "true"}, {"autoReport.all": "false"}, None),
    ({"autoReport.directory": "there"}, {}, None),
    ({}, {}, None),
])
def test_profiles_by_engine_options(tmp_path, monkeypatch, engine, environment, where):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(environment))
    options = poptorch.Options()
    if engine:
        options._Popart.setEngineOptions(engine)
    poptorch.inferenceModel(torch.nn.Linear(3, 2), options)(torch.ones(4, 3))
    found = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("profile.pop")]
    assert found == ([] if where is None else [str(pathlib.Path(where, "inference", "profile.pop"))])


def test_names_of_popart_are_known():
    names = options_impl._POPART_NAMES | options_impl._CONTAINERS
    assert effects.POPART_EFFECTIVE <= names and effects._OWN <= names


@pytest.mark.skipif(not MANUAL.exists(), reason="the manual is not installed")
def test_the_manual_has_every_option():
    text = MANUAL.read_text(encoding="utf-8")
    table = set(re.findall(r"\w+", text[text.index("### Options"):text.index("Beyond PopTorch:")]))
    options = poptorch.Options()
    of_all = {"set", "createOrSet", "exists", "deleteIfExists", "checkIsFrozen", "update", "toDict", "clone"}
    for part in (options, options.Training, options.Precision, options.Jit, options.Distributed, options.TensorLocations,
                 poptorch.TensorLocationSettings()):
        methods = {name for name, member in inspect.getmembers(type(part), inspect.isfunction) if name[0] != "_"}
        assert methods - of_all <= table, f"{type(part).__name__}: {sorted(methods - of_all - table)}"
    assert effects.POPART_EFFECTIVE - {"engineOptions"} <= {w for w in re.findall(r"[\w.]+", text)} | {
        "automaticLossScalingSettings.updatePeriod"}
