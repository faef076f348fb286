"""Options: values, freezing, reading from text, checking, and what the library is told."""

import copy
import os
import pickle

import pytest
import torch

import poptorch
from openipu import settings
from poptorch._run import options_impl
from poptorch.options import executor_options


class Adder(torch.nn.Module):

    def forward(self, x, y):
        return x + y


def told(options, training=False):
    options = options.clone()
    if options.defaultOutputMode():
        options.outputMode(poptorch.OutputMode.All)
    return executor_options(options, training)


def test_values_are_attributes():
    options = poptorch.Options().deviceIterations(3).replicationFactor(2)
    options.Training.gradientAccumulation(4)
    assert options.device_iterations == options("device_iterations") == 3
    assert options.replication_factor == 2
    assert options.Training.gradient_accumulation == 4
    options.replication_factor = 8
    assert options.replication_factor == 8
    assert options.exists("log_dir") and not options.exists("random_seed")
    with pytest.raises(AttributeError, match="nonsense"):
        options.nonsense
    with pytest.raises(AssertionError, match="Unexpected type .* for option device_iterations"):
        options.deviceIterations("3")
    with pytest.raises(AssertionError, match="Invalid option nonsense"):
        options.set(nonsense=1)


@pytest.mark.parametrize("name, arguments, attribute, value", [
    ("outputMode", (poptorch.OutputMode.EveryN, 3), "output_return_period", 3),
    ("logDir", ("x", ), "log_dir", "x"),
    ("maxRepeatLogs", (None, ), "max_repeat_logs", (1 << 64) - 1),
    ("maxRepeatLogs", (7, ), "max_repeat_logs", 7),
    ("modelName", ("m", ), "model_name", "m"),
    ("autoRoundNumIPUs", (), "auto_round_num_ipus", True),
    ("useIpuModel", (True, ), "use_model", True),
    ("useIpuId", (5, ), "ipu_id", 5),
    ("useOfflineIpuTarget", (21, ), "ipu_version", 21),
    ("connectionType", (poptorch.ConnectionType.OnDemand, ), "connection_type", 1),
    ("syncPattern", (poptorch.SyncPattern.SinglePipeline, ), "sync_pattern", 1),
    ("broadcastBuffers", (False, ), "broadcast_buffers", False),
    ("randomSeed", (11, ), "random_seed", 11),
    ("setAvailableMemoryProportion", ({"IPU0": 0.5, "IPU12": 0.25}, ), "available_memory_proportion",
     {0: 0.5, 12: 0.25}),
    ("recompileOnNewShapes", (), "recompile_on_new_shapes", True),
    ("enableInputGradients", (), "input_gradients", True),
])
def test_setters(name, arguments, attribute, value):
    options = poptorch.Options()
    assert getattr(options, name)(*arguments) is options
    assert getattr(options, attribute) == value


def test_wrong_values():
    options = poptorch.Options()
    with pytest.raises(AssertionError, match="positive integer"):
        options.outputMode(poptorch.OutputMode.EveryN)
    with pytest.raises(AssertionError, match="Invalid key"):
        options.setAvailableMemoryProportion({"0": 0.5})
    for tiles in (10, 33, 193):
        with pytest.raises(AssertionError, match="even number between 32 and 192"):
            options.TensorLocations.numIOTiles(tiles)
    with pytest.raises(ValueError, match="float or torch.half"):
        options.Precision.setPartialsType(torch.int32)
    with pytest.raises(ValueError, match="no longer supported"):
        options.Jit.traceModel(True)
    with pytest.raises(ValueError, match="Mean"):
        options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.NoReduction)
    with pytest.raises(AssertionError, match="bool"):
        options.Precision.enableFloatingPointExceptions(1)


def test_input_groups():
    options = poptorch.Options().replicationFactor(4)
    consecutive = poptorch.CommGroupType.Consecutive
    with pytest.raises(ValueError, match="cannot be All"):
        options.inputReplicaGrouping(2, poptorch.CommGroupType.All)
    with pytest.raises(ValueError, match="larger than"):
        options.inputReplicaGrouping(8, consecutive)
    with pytest.raises(ValueError, match="factor of"):
        options.inputReplicaGrouping(3, consecutive)
    options.inputReplicaGrouping(2, poptorch.CommGroupType.Orthogonal)
    assert (options.input_group_size, options.input_cgt) == (2, poptorch.CommGroupType.Orthogonal)
    options.inputReplicaGrouping(2, poptorch.CommGroupType.NoGrouping)
    assert (options.input_group_size, options.input_cgt) == (1, consecutive)


def test_freezing():
    options = poptorch.Options()
    poptorch.inferenceModel(Adder(), options)
    for change in (lambda: options.deviceIterations(2), lambda: options.Training.gradientAccumulation(2),
                   lambda: options._Popart.set("autoRecomputation", 1), lambda: options.anchorTensor("a", "b"),
                   lambda: options.showCompilationProgressBar(False), lambda: options.set(device_iterations=2),
                   lambda: options.Precision.enableStochasticRounding(True)):
        with pytest.raises(AttributeError, match="Can't modify frozen Options"):
            change()
    for copied in (copy.deepcopy(options), options.clone()):
        copied.deviceIterations(5).Training.gradientAccumulation(3)
        copied.Precision.enableStochasticRounding(True)
        assert copied._Popart.options["enableStochasticRounding"]
    assert options.device_iterations == 1 and "enableStochasticRounding" not in options._Popart.options


def test_pickling_and_printing():
    options = poptorch.Options().replicationFactor(4)
    options.Precision.setPartialsType(torch.half)
    again = pickle.loads(pickle.dumps(options))
    assert repr(again) == repr(options)
    assert repr(options).startswith("Options(") and "replication_factor=4" in repr(options)
    again.Precision.enableStochasticRounding(True)
    assert again._Popart.options["enableStochasticRounding"], "groups must share the options of the backend"


def test_to_dict():
    options = poptorch.Options()
    with pytest.raises(AssertionError, match="output mode"):
        options.toDict()
    options.outputMode(poptorch.OutputMode.Sum)
    options.TensorLocations.setOptimizerLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))
    flat = options.toDict()
    assert flat["device_iterations"] == flat["gradient_accumulation"] == flat["num_distributed_processes"] == 1
    assert flat["output_mode"] == 3 and flat["execution_mode"] == 0
    assert flat["location_optimizer"] == {"onChip": 0}
    options_impl.check(flat)


def test_unknown_options_of_the_backend():
    options = poptorch.Options().outputMode(poptorch.OutputMode.All)
    options._Popart.set("autoRecomputatoin", 1)
    with pytest.raises(poptorch.Error, match="Unknown .* option .*Did you mean autoRecomputation"):
        poptorch.poptorch_core._validateOptions(options.toDict())
    options = poptorch.Options().outputMode(poptorch.OutputMode.All)
    options._Popart.set("dotChecks", torch.empty(1))
    with pytest.raises(poptorch.Error, match="Unknown value type .* for option"):
        poptorch.poptorch_core._validateOptions(options.toDict())


def test_json(monkeypatch):
    options = poptorch.Options().from_json(
        '{"deviceIterations": 2, "outputMode": ["OutputMode.EveryN", 4], "Training.gradientAccumulation": 3,'
        ' "connectionType": "ConnectionType.OnDemand", "logDir": "a.b", "_Popart.set": ["outlineThreshold", 1.5]}')
    assert options.device_iterations == 2 and options.output_return_period == 4
    assert options.Training.gradient_accumulation == 3 and options.log_dir == "a.b"
    assert options.connection_type == poptorch.ConnectionType.OnDemand
    assert options._Popart.options["outlineThreshold"] == 1.5
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", '{"deviceIterations": 9}')
    assert poptorch.Options().device_iterations == 9


def test_files(tmp_path):
    path = tmp_path / "options.conf"
    path.write_text("# comment\n deviceIterations(2)\n\nsetExecutionStrategy(poptorch.ShardedExecution())  # why\n")
    options = poptorch.Options().loadFromFile(str(path))
    assert options.device_iterations == 2
    assert isinstance(options._execution_strategy, poptorch.ShardedExecution)
    path.write_text("deviceIterations(7)\nreplicationFactor(\n")
    with pytest.raises(poptorch.ConfigFileError, match=r"SyntaxError at line 2 of options.conf(.|\n)*> options.repl"):
        options.loadFromFile(str(path))
    assert options.device_iterations == 2, "nothing is set from a file that is wrong"


def test_processes(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    options = poptorch.Options()
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (3, 4)
    assert options.Distributed.disable().numProcesses == 1
    options.Distributed.configureProcessId(5, 8)
    assert options.Distributed.num_distributed_processes == 8


def test_what_the_library_is_told():
    options = poptorch.Options().deviceIterations(2).replicationFactor(4).randomSeed(7).useIpuId(1)
    options.inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive)
    options.outputMode(poptorch.OutputMode.EveryN, 2)
    options.Training.gradientAccumulation(3)
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    options.Precision.enableFloatingPointExceptions(True).enableStochasticRounding(True).setPartialsType(torch.half)
    options.TensorLocations.setOptimizerLocation(
        poptorch.TensorLocationSettings().useOnChipStorage(False).useReplicatedTensorSharding(True))
    found = told(options, training=True)
    expected = settings.ExecutorOptions(
        device_iterations=2, replicas=4, input_group_size=2, gradient_accumulation=3,
        reduction=settings.Reduction.SUM, output_mode=settings.OutputMode.EVERY_N, output_period=2, seed=7,
        device_id=2, device_alone=True, optimizer_off_chip=True, shard_optimizer=True, stochastic_rounding=True, half_partials=True,
        check_floats=True, stage_ipus=[])
    assert found == expected
    assert told(options).gradient_accumulation == 1 and not told(options).shard_optimizer


def test_caching(tmp_path, monkeypatch):
    assert told(poptorch.Options()).cache_folder is None
    there = str(tmp_path / "there")
    assert told(poptorch.Options().enableExecutableCaching(there)).cache_folder == there
    assert told(poptorch.Options().enableExecutableCaching(None)).cache_folder == ""
    monkeypatch.setenv("POPTORCH_CACHE_DIR", str(tmp_path))
    assert told(poptorch.Options()).cache_folder == str(tmp_path)


def test_profiles_and_networks_are_written(tmp_path, monkeypatch):
    monkeypatch.setenv("POPTORCH_EXPORT_PROTO_FILE", str(tmp_path / "deep" / "model.onnx"))
    options = poptorch.Options().modelName("name").enableProfiling(str(tmp_path))
    poptorch.inferenceModel(torch.nn.Linear(3, 2), options)(torch.ones(4, 3))
    assert '"cycles"' in (tmp_path / "name" / "profile.pop").read_text()
    assert os.path.getsize(tmp_path / "deep" / "model.onnx") > 0


def test_help_reads_well():
    for cls in (poptorch.Options, poptorch.TensorLocationSettings, type(poptorch.Options().Training)):
        assert cls.__doc__
        for name, member in vars(cls).items():
            assert name.startswith("_") or member.__doc__, name
