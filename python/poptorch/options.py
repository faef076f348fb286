"""Options: how a model is compiled and run."""

from __future__ import annotations

import copy
import json
import os
from typing import Any, Dict, Optional

import torch

from openipu import comm, settings
from openipu.progress import ProgressBar
from openipu.stages import Plan
from openipu.values import sets

from . import enums
from ._errors import Error
from ._logging import logger
from ._run.options_impl import BackendOptions, ConfigFileError, OptionsDict, apply_file, apply_json, check
from ._run.strategies import (ExecutionStrategy, ParallelPhasedExecution, Phase, PipelinedExecution,
                              SerialPhasedExecution, ShardedExecution, Stage)

__all__ = ["ConfigFileError", "Options", "ParallelPhasedExecution", "Phase", "PipelinedExecution",
           "SerialPhasedExecution", "ShardedExecution", "Stage", "TensorLocationSettings", "executor_options"]

_PopartOptions = BackendOptions

_LONG = 7 * 24 * 60 * 60  # seconds to wait for a device where POPTORCH_WAIT_FOR_IPU says to wait

_SOURCE_LOCATION_EXCLUDES = ["install/poptorch", "site-packages/torch", "site-packages/poptorch"]


class _JitOptions(OptionsDict):
    """``opts.Jit``: of PyTorch's JIT compiler, which is not used any more."""

    def traceModel(self, trace_model: bool) -> _JitOptions:
        """Deprecated: models are never traced."""
        logger.warning("[Deprecated] Do not call options.Jit.traceModel(): options.Jit.traceModel(False) is the "
                       "default, and True is no longer supported.")
        if trace_model:
            raise ValueError("options.Jit.traceModel(True) is no longer supported")
        return self


class _PrecisionOptions(OptionsDict):
    """``opts.Precision``: of numbers.

    >>> opts.Precision.enableStochasticRounding(True)
    """

    def __init__(self, backend: BackendOptions) -> None:
        super().__init__()
        self._backend = backend

    def halfFloatCasting(self, half_float_casting: enums.HalfFloatCastingBehavior) -> _PrecisionOptions:
        """Deprecated: operands of float16 and float32 are cast to float32, as in PyTorch."""
        logger.warning("[Deprecated] Do not call options.Precision.halfFloatCasting(): HalfUpcastToFloat is the only "
                       "behaviour, and that of PyTorch.")
        return self

    def runningStatisticsAlwaysFloat(self, value: bool) -> _PrecisionOptions:
        """Deprecated: running statistics have the type of their tensors, as in PyTorch."""
        if not isinstance(value, bool):
            raise ValueError("runningStatisticsAlwaysFloat needs to be set to a bool")
        logger.warning("[Deprecated] Do not call options.Precision.runningStatisticsAlwaysFloat(): False is the only "
                       "behaviour, and that of PyTorch.")
        return self

    enableFloatingPointExceptions = sets(
        "_backend:enableFloatingPointChecks", "enabled: bool", kind=bool,
        wrong="enableFloatingPointExceptions needs to be set to a bool",
        doc="Whether a run fails when the result of an op is infinite or not a number. False at first.")
    enableStochasticRounding = sets("_backend:enableStochasticRounding", "enabled: bool",
        doc="Whether numbers are rounded to float16 up or down at random, such that their mean is right.")

    def setPartialsType(self, dtype: torch.dtype) -> _PrecisionOptions:
        """In which type products and convolutions of float16 add up: ``torch.float`` or ``torch.half``.

        It decides the modelled time of a Mk2 chip; the host adds up in float32 either way.
        """
        names = {torch.float32: "float", torch.float16: "half"}
        if dtype not in names:
            raise ValueError(f"parameter to setPartialsType should be either torch.float or torch.half, not {dtype}")
        self._backend.set("partialsTypeMatMuls", names[dtype])
        self._backend.set("convolutionOptions", {"partialsType": names[dtype]})
        return self


class _TrainingOptions(OptionsDict):
    """``opts.Training``: for training models only.

    >>> opts.Training.gradientAccumulation(4)
    """

    def __init__(self, backend: BackendOptions) -> None:
        super().__init__(gradient_accumulation=1,
                         accumulation_and_replication_reduction_type=enums.ReductionType.Mean,
                         meanAccumulationAndReplicationReductionStrategy=enums.MeanReductionStrategy.Post)
        self._backend = backend

    gradientAccumulation = sets("gradient_accumulation", "gradient_accumulation: int", at_least=1, doc="""
        Number of micro-batches whose gradients are gathered for one step of the optimizer. 1 at first.

        Inputs of a run hold that many times more. A pipeline must have at least as many as it has stages, those of
        the backward pass counted.""")

    def accumulationAndReplicationReductionType(self, reduction_type: enums.ReductionType) -> _TrainingOptions:
        """Whether the gradients of micro-batches and replicas are averaged (``ReductionType.Mean``, as at first) or
        added up (``ReductionType.Sum``). The reduction of the loss itself is another matter."""
        if reduction_type not in (enums.ReductionType.Mean, enums.ReductionType.Sum) or not isinstance(
                reduction_type, enums.ReductionType):
            raise ValueError("accumulationAndReplicationReductionType must be set to poptorch.ReductionType.Mean or "
                             f"poptorch.ReductionType.Sum, not {reduction_type!r}")
        self.set(accumulation_and_replication_reduction_type=reduction_type)
        return self

    setMeanAccumulationAndReplicationReductionStrategy = sets(
        "meanAccumulationAndReplicationReductionStrategy", "mean_reduction_strategy: enums.MeanReductionStrategy",
        doc="""
        When the mean of gradients is divided. ``Post``, unless the optimizer's ``accum_type`` is float16: then
        ``Running``, for which float16 has the range.""")
    setAutomaticLossScaling = sets("_backend:automaticLossScalingSettings.enabled", "enabled: bool", doc="""
        Whether the loss is scaled by a factor that is halved when gradients overflow, and doubled when they have not
        for a while.""")
    setConvolutionDithering = sets(
        "_backend:convolutionOptions", "enabled: bool", made=lambda enabled: {"enableConvDithering": enabled},
        doc="Whether convolutions begin on different tiles. Tiles are balanced by the compiler: it changes nothing.")


class _DistributedOptions(OptionsDict):
    """``opts.Distributed``: of several processes that train one model.

    The environment of ``mpirun`` (``OMPI_COMM_WORLD_SIZE``, ``OMPI_COMM_WORLD_RANK``) is read when options are made.

    >>> opts.Distributed.configureProcessId(0, 2)
    """

    def __init__(self) -> None:
        super().__init__(num_distributed_processes=1, distributed_process_id=0, ipuof_configs={})
        self.setEnvVarNames("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")

    def disable(self) -> _DistributedOptions:
        """This process is on its own, whatever the environment says."""
        return self.configureProcessId(0, 1)

    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> _DistributedOptions:
        """Read the number of processes and that of this one from the environment."""
        return self.configureProcessId(int(os.environ.get(var_process_id, "0")),
                                       int(os.environ.get(var_num_processes, "1")))

    def configureProcessId(self, process_id: int, num_processes: int) -> _DistributedOptions:
        """This is process ``process_id`` (from 0) of ``num_processes``."""
        self.set(distributed_process_id=process_id, num_distributed_processes=num_processes)
        return self

    @property
    def processId(self) -> int:
        """Number of this process."""
        return self.distributed_process_id

    @property
    def numProcesses(self) -> int:
        """Number of all processes."""
        return self.num_distributed_processes


def _number(name: str) -> Dict[str, Any]:
    return {"kind": int, "wrong": name + ": expected an integer, not {!r}"}


def _flag(name: str) -> Dict[str, Any]:
    return {"kind": bool, "wrong": name + ": expected a boolean, not {!r}", "made": int}


class TensorLocationSettings(OptionsDict):
    """Where tensors of a kind are kept. On a host only ``useOnChipStorage`` of activations and of the optimizer's states
    and ``useReplicatedTensorSharding`` of the latter change what happens.

    >>> opts.TensorLocations.setOptimizerLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))
    """

    minElementsForOffChip = sets(
        "?minElementsForOffChip", "min_elements: int", **_number("minElementsForOffChip"),
        doc="Smaller tensors stay on the chip.")
    minElementsForReplicatedTensorSharding = sets(
        "?minElementsForReplicatedTensorSharding", "min_elements: int",
        **_number("minElementsForReplicatedTensorSharding"), doc="Smaller tensors are not shared out between replicas.")

    def useOnChipStorage(self, use: Optional[bool] = True) -> TensorLocationSettings:
        """On the chip (True), in streaming memory (False), or as it comes (None)."""
        if use is None:
            self.deleteIfExists("onChip")
            return self
        assert isinstance(use, bool), f"onChip: expected a boolean, not {use!r}"
        self.createOrSet(onChip=int(use))
        return self

    useReplicatedTensorSharding = sets(
        "?useReplicatedTensorSharding", "use: bool = True", **_flag("useReplicatedTensorSharding"), doc="""
        Each replica keeps a part of the tensor, rather than all of it: of the optimizer's states. With one replica it
        changes nothing.""")
    useIOTilesToLoad = sets("?useIOTilesToLoad", "use: bool = True", **_flag("useIOTilesToLoad"),
        doc="Load through I/O tiles.")
    useIOTilesToStore = sets("?useIOTilesToStore", "use: bool = True", **_flag("useIOTilesToStore"),
        doc="Keep on I/O tiles.")


_LOCATION: Dict[str, Any] = {"kind": TensorLocationSettings, "made": TensorLocationSettings.toDict,
                             "wrong": "Expected a poptorch.TensorLocationSettings, not {!r}"}


class _TensorLocationOptions(OptionsDict):
    """``opts.TensorLocations``: where tensors are kept, by their kinds."""

    def numIOTiles(self, num_tiles: int) -> _TensorLocationOptions:
        """Tiles of each IPU that only load and store, so that transfers can overlap computing. Checked, and without
        effect on a host."""
        assert isinstance(num_tiles, int) and 32 <= num_tiles <= 192 and num_tiles % 2 == 0, (
            f"numIOTiles must be an even number between 32 and 192. It was {num_tiles!r}")
        self.createOrSet(numIOTiles=num_tiles)
        return self

    setActivationLocation = sets("?location_activation", "location: TensorLocationSettings", **_LOCATION,
        doc="Of what the forward pass keeps for the backward pass.")
    setWeightLocation = sets("?location_weight", "location: TensorLocationSettings", **_LOCATION,
        doc="Of parameters. It changes nothing on a host.")
    setOptimizerLocation = sets("?location_optimizer", "location: TensorLocationSettings", **_LOCATION,
        doc="Of the optimizer's states.")
    setAccumulatorLocation = sets("?location_accumulator", "location: TensorLocationSettings", **_LOCATION,
        doc="Of gradients that are being gathered. It changes nothing on a host.")

    def _has(self, name: str, setting: str, value: int) -> bool:
        return self.exists(name) and self(name).get(setting) == value


class Options(OptionsDict):
    """How a model is compiled and run.

    Setters return the options, so that calls can be chained; values are read as attributes. Options that a model or a
    data loader was given cannot be changed any more: change a :meth:`clone`.

    >>> opts = poptorch.Options().deviceIterations(10).replicationFactor(2)
    >>> opts.Training.gradientAccumulation(4)
    >>> opts.device_iterations
    10

    Inputs of one run hold ``device_iterations * (replication_factor / input_group_size) * gradient_accumulation``
    micro-batches along dimension 0.

    Environment: ``POPTORCH_DEFAULT_OPTIONS`` (as :meth:`from_json`) and ``POPTORCH_CACHE_DIR`` (as
    :meth:`enableExecutableCaching`) are read when options are made.
    """

    def __init__(self) -> None:
        super().__init__(replication_factor=1,
                         input_group_size=1,
                         input_cgt=enums.CommGroupType.Consecutive,
                         broadcast_buffers=True,
                         device_iterations=1,
                         log_dir=".",
                         max_repeat_logs=4,
                         auto_round_num_ipus=False,
                         anchored_tensors={},
                         output_mode=enums.OutputMode.Default.value,
                         output_return_period=1,
                         connection_type=enums.ConnectionType.Always.value,
                         sync_pattern=enums.SyncPattern.Full.value,
                         available_memory_proportion={},
                         recompile_on_new_shapes=False,
                         input_gradients=False)
        self._jit = _JitOptions()
        self._popart = BackendOptions()
        self._precision = _PrecisionOptions(self._popart)
        self._training = _TrainingOptions(self._popart)
        self._distributed = _DistributedOptions()
        self._tensor_locations = _TensorLocationOptions()
        self._execution_strategy: ExecutionStrategy = PipelinedExecution()
        self._source_location_excludes = list(_SOURCE_LOCATION_EXCLUDES)
        self._progress_bar = ProgressBar()
        self._show_compilation_progress_bar = True
        self._relax_optimizer_checks = False
        self._module_namescope_enabled = True
        path = os.environ.get("POPTORCH_CACHE_DIR", "")
        if path:
            logger.info("POPTORCH_CACHE_DIR is set: setting cache path to %s", path)
            self.enableExecutableCaching(path)
        self.from_json(os.environ.get("POPTORCH_DEFAULT_OPTIONS", "{}"))

    # ---- groups of options ----

    @property
    def TensorLocations(self) -> _TensorLocationOptions:
        """Where weights, activations and the optimizer's state are kept: on the chip, or in memory beside it."""
        return self._tensor_locations

    @property
    def Distributed(self) -> _DistributedOptions:
        """Which of several processes this is, where they train one model together."""
        return self._distributed

    @property
    def Jit(self) -> _JitOptions:
        """Deprecated: of PyTorch's JIT compiler, which is not used any more."""
        return self._jit

    @property
    def Precision(self) -> _PrecisionOptions:
        """How numbers are rounded and checked: stochastic rounding, types of partial sums, floating point exceptions."""
        return self._precision

    @property
    def Training(self) -> _TrainingOptions:
        """For training models only: gradient accumulation, how gradients are averaged, loss scaling."""
        return self._training

    @property
    def _Popart(self) -> BackendOptions:
        """Options of PopART by their names."""
        return self._popart

    # ---- from text ----

    def from_json(self, string: str) -> Options:
        """Set what a JSON object says: names of methods, with their argument or a list of arguments.

        >>> opts.from_json('{"deviceIterations": 2, "outputMode": "OutputMode.All", "_Popart.set": ["name", 1]}')
        """
        apply_json(self, string)
        return self

    def loadFromFile(self, filepath: str) -> Options:
        """Set what a file says. Each line is the call of a method, such as ``deviceIterations(2)``; lines that begin
        with # are skipped. What the file does not name stays as it is.

        :raises ConfigFileError: a line is not Python; then none is used.
        """
        apply_file(self, filepath)
        return self

    # ---- how much runs ----

    deviceIterations = sets("device_iterations", "device_iterations: int", at_least=1, doc="""
        Number of turns that a run makes on the device before it returns. 1 at first.

        A turn is one micro-batch, or with gradient accumulation one step of the optimizer.""")
    replicationFactor = sets("replication_factor", "replication_factor: int", at_least=1,
        doc="Number of copies of the model, each on IPUs of its own, that share the work on a batch. 1 at first.")

    def inputReplicaGrouping(self, input_group_size: int, input_group_type: enums.CommGroupType) -> Options:
        """Let groups of replicas work on the same inputs.

        :param input_group_size: replicas of a group; it divides the number of replicas.
        :param input_group_type: which replicas are a group: ``Consecutive`` or ``Orthogonal`` ones; with
            ``NoGrouping`` each has inputs of its own.
        """
        if input_group_type == enums.CommGroupType.NoGrouping:
            input_group_size, input_group_type = 1, enums.CommGroupType.Consecutive
        if input_group_type == enums.CommGroupType.All:
            raise ValueError("input_group_type cannot be All")
        if self.replication_factor < input_group_size:
            raise ValueError(f"input_group_size cannot be larger than replication_factor: {input_group_size} > "
                             f"{self.replication_factor}")
        if self.replication_factor % input_group_size != 0:
            raise ValueError(f"input_group_size must be a factor of replication_factor: {input_group_size} does not "
                             f"divide {self.replication_factor}")
        self.set(input_group_size=input_group_size, input_cgt=input_group_type)
        return self

    broadcastBuffers = sets("broadcast_buffers", "broadcast_buffers: bool = True", doc="""
        Whether all replicas have the same buffers. With several replicas that change them it must be False: each then
        has buffers of its own.""")

    def outputMode(self, output_mode: enums.OutputMode, output_return_period: Optional[int] = None) -> Options:
        """Of which micro-batches results are returned: see :class:`OutputMode`.

        :param output_return_period: of ``OutputMode.EveryN``: every how many.
        """
        assert isinstance(output_mode, enums.OutputMode), f"Expected a poptorch.OutputMode, not {output_mode!r}"
        if output_mode == enums.OutputMode.EveryN:
            assert output_return_period and output_return_period > 0, (
                "EveryN anchor must have output_return_period set to valid positive integer")
        elif output_return_period:
            logger.info("Anchor return period argument ignored with output_mode set to %s", output_mode)
        self.set(output_mode=output_mode.value, output_return_period=output_return_period or 1)
        return self

    def defaultOutputMode(self) -> bool:
        """Whether no output mode was chosen yet."""
        return self.output_mode == enums.OutputMode.Default

    def anchorTensor(self, short_name: str, long_name: str, output_mode: Optional[enums.OutputMode] = None,
                     output_return_period: Optional[int] = 1) -> None:
        """Make a tensor inside the model readable after a run, by ``model.getAnchoredTensor(short_name)``.

        :param long_name: its name, one of ``model.getTensorNames()``.
        :param output_mode: of which micro-batches; without one as the outputs.
        :param output_return_period: of ``OutputMode.EveryN``: every how many.
        """
        self.checkIsFrozen()
        period = output_return_period if output_mode == enums.OutputMode.EveryN else 1
        self.anchored_tensors[short_name] = [long_name, output_mode is None, output_mode, period]

    # ---- where it runs ----

    useIpuModel = sets("?use_model", "use_model: bool", doc="""
        Whether to run on a model of the IPU (``POPTORCH_IPU_MODEL`` in the environment says the same). Everything is
        computed on the host either way; with a model any number of IPUs will do.""")
    useIpuId = sets("?ipu_id", "ipu_id: int", kind=int, wrong="A device is given by its number, not {!r}",
        doc="Run on this device of the partition.")

    def useOfflineIpuTarget(self, ipu_version: int = 2) -> Options:
        """Compile without a device.

        :param ipu_version: 1 for Mk1, 2 for Mk2, 21 for Mk2 with float8.
        """
        self.connectionType(enums.ConnectionType.Never)
        self.createOrSet(ipu_version=ipu_version)
        return self

    connectionType = sets(
        "connection_type", "connection_type: enums.ConnectionType", kind=enums.ConnectionType,
        wrong="Expected a poptorch.ConnectionType, not {!r}", made=int,
        doc="When to attach to a device: see :class:`ConnectionType`.")
    syncPattern = sets(
        "sync_pattern", "sync_pattern: enums.SyncPattern", kind=enums.SyncPattern,
        wrong="Expected a poptorch.SyncPattern, not {!r}", made=int,
        doc="Which IPUs wait for each other: see :class:`SyncPattern`. It changes nothing on a host.")
    autoRoundNumIPUs = sets("auto_round_num_ipus", "auto_round_num_ipus: bool = True", doc="""
        Whether to take more IPUs than the model uses where their number has to be a power of two. Else a model that
        uses another number is an error.""")

    def setExecutionStrategy(self, strategy: ExecutionStrategy) -> Options:
        """How blocks become stages on IPUs: a :class:`PipelinedExecution`, :class:`ShardedExecution`,
        :class:`SerialPhasedExecution` or :class:`ParallelPhasedExecution`."""
        assert isinstance(strategy, ExecutionStrategy), f"Expected an execution strategy, not {strategy!r}"
        self._execution_strategy = strategy
        return self

    def setAvailableMemoryProportion(self, available_memory_proportion: Dict[str, float]) -> Options:
        """How much of the memory of each IPU single ops may use while they run, such as ``{"IPU0": 0.5}``. It changes
        nothing on a host."""
        for key in available_memory_proportion:
            assert key.startswith("IPU"), ('Available memory proportions are expected to be in a dictionary of '
                                           '{"IPU0": 0.5} where the 0 in IPU is the index of the IPU. Invalid key: '
                                           f"{key}")
        self.createOrSet(available_memory_proportion={int(k[3:]): v for k, v in available_memory_proportion.items()})
        return self

    # ---- how it runs ----

    def randomSeed(self, random_seed: int) -> Options:
        """Seed of random ops on the device. It is also PyTorch's, which is set here."""
        assert isinstance(random_seed, int), f"A seed is an integer, not {random_seed!r}"
        torch.manual_seed(random_seed)
        self.createOrSet(random_seed=random_seed)
        return self

    def enableExecutableCaching(self, path: Optional[str]) -> Options:
        """Keep what was compiled in this folder, and use it again for equal models. None: do not."""
        if path is not None:
            self._popart.set("cachePath", path)
        self._popart.set("enableEngineCaching", path is not None)
        return self

    enableStableNorm = sets("_popart:enableStableNorm", "enabled: bool",
        doc="Whether norms are computed the accurate way. They always are.")
    enableSyntheticData = sets(
        "_popart:syntheticDataMode", "enabled: bool", made=lambda enabled: 2 if enabled else 0,
        doc="Whether inputs are made up on the device, and outputs stay there: to measure a model alone.")
    recompileOnNewShapes = sets("recompile_on_new_shapes", "enabled: bool = True", doc="""
        Whether a model that is called with other shapes or types than before is compiled for these too. Else such a
        call is an error. Not in PopTorch.""")
    enableInputGradients = sets("input_gradients", "enabled: bool = True", doc="""
        Whether a training model gives the gradients of inputs that require them, in their ``grad``. Not in
        PopTorch.""")

    # ---- what one learns of it ----

    logDir = sets("log_dir", "log_dir: str",
        doc="Folder for files of logs. The current one at first. There are none here: POPTORCH_LOG_DEST names a file.")
    maxRepeatLogs = sets(
        "max_repeat_logs", "max_lines: Optional[int]", made=lambda most: (1 << 64) - 1 if most is None else most,
        doc="""
        How often the same line is logged. 4 at first; None: always. Kept, but lines are logged as often as they
        come.""")
    modelName = sets("?model_name", "name: str", doc="""
        Name of the model: of the folder of its profile. Without one "training" or "inference".""")
    logCycleCount = sets("_popart:instrumentWithHardwareCycleCounter", "log_cycle_count: bool",
        doc="Whether ``model.cycleCount()`` tells the modelled cycles of a run, and the log too.")

    def enableProfiling(self, profile_dir: Optional[str] = None) -> Options:
        """Write a profile of the model to ``profile_dir/NAME/`` when it is compiled.

        :param profile_dir: the current folder without one. ``POPLAR_ENGINE_OPTIONS`` in the environment goes first.
        """
        mine = {"debug.allowOutOfMemory": "true", "autoReport.directory": profile_dir or ".", "autoReport.all": "true"}
        if any(key in os.environ.get("POPLAR_ENGINE_OPTIONS", "") for key in mine):
            logger.warning("Profiling setting overridden by environment variable. Check content of "
                           "POPLAR_ENGINE_OPTIONS.")
        self._popart.setEngineOptions({**self._popart.options.get("engineOptions", {}), **mine})
        return self

    showCompilationProgressBar = sets("_show_compilation_progress_bar", "show: bool = True",
        doc="Whether a bar shows how far compiling has come. True at first.")
    sourceLocationExcludes = sets("_source_location_excludes", "excludes: list[str]",
        doc="The line that is named for an op is not in a file whose name has one of these in it.")

    def appendToLocationExcludes(self, *excludes: str) -> Options:
        """Add to the list of :meth:`sourceLocationExcludes`."""
        self._source_location_excludes = [*self._source_location_excludes, *excludes]
        return self

    def disableModuleNamescope(self) -> Options:
        """Do not put names of modules before those of ops."""
        self._module_namescope_enabled = False
        return self

    relaxOptimizerAttributesChecks = sets("_relax_optimizer_checks", "relax: bool = True",
        doc="Whether unknown attributes of an optimizer are mentioned in the debug log rather than as warnings.")
    updatableNamedBuffers = sets("_popart:updatableNamedBuffers", "buffers: list[str]",
        doc="Names of the buffers that ``model.copyNamedBuffersToDevice()`` sends to the device.")

    def _shown_progress(self) -> Any:
        """What shows how far compiling has come, as openipu's Program takes it."""
        return self._progress_bar.shown if self._show_compilation_progress_bar else None

    # ---- as a whole ----

    def toDict(self) -> Dict[str, Any]:
        """All options by their names, but for those of ``Jit``. An output mode must have been chosen."""
        assert not self.defaultOutputMode(), "An output mode must be picked before serialisation"
        out = self._execution_strategy.backendOptions()
        out.update(self._popart.options)
        for part in (self._training, self._distributed, self._tensor_locations):
            part.update(out)
        self.update(out)
        if self._show_compilation_progress_bar:
            out["compilation_progress_bar_fn"] = self._progress_bar
        return out

    def clone(self) -> Options:
        """A copy that can be changed."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        parts = ("Distributed", "Jit", "Precision", "TensorLocations", "Training", "_Popart")
        values = [f"{name}={value!r}" for name, value in self._values.items()]
        return f"{type(self).__name__}({', '.join(values + [f'{p}={getattr(self, p)!r}' for p in parts])})"

    # ---- for those who run models ----

    def _uses_ipu_model(self) -> bool:
        if self.exists("use_model"):
            return self.use_model
        return any(os.environ.get(name, "0") == "1" for name in ("POPTORCH_IPU_MODEL", "POPTORCH_SMALL_IPU_MODEL"))

    def _rounds_ipus(self) -> bool:
        never = self.connection_type == enums.ConnectionType.Never
        return self.auto_round_num_ipus or never or self._uses_ipu_model()

    @staticmethod
    def _is_known_report(key: str) -> bool:
        """Whether an option of the engine asks for a profile, or says where it goes."""
        return key in ("autoReport.all", "autoReport.directory") or key.startswith("autoReport.output")

    def _profile_folder(self, training: bool) -> Optional[str]:
        """Where the profile of a model goes; None: there is none to be written."""
        engine = {**self._popart.options.get("engineOptions", {}), **_engine_options_of_environment()}
        if not any(self._is_known_report(key) and _is_true(value) for key, value in engine.items()):
            return None
        name = self.model_name if self.exists("model_name") else "training" if training else "inference"
        return os.path.join(engine.get("autoReport.directory", "."), name)

    def _uses_synthetic_data(self) -> bool:
        return bool(self._popart.options.get("syntheticDataMode", 0))


_OUTPUT_MODES = {enums.OutputMode.Final: settings.OutputMode.FINAL,
                 enums.OutputMode.EveryN: settings.OutputMode.EVERY_N,
                 enums.OutputMode.All: settings.OutputMode.ALL, enums.OutputMode.Sum: settings.OutputMode.SUM,
                 enums.OutputMode.Default: settings.OutputMode.DEFAULT}


def executor_options(options: Options, training: bool, plan: Optional[Plan] = None) -> settings.ExecutorOptions:
    """What the library is told, for a network with the stages of ``plan`` (``strategies.plan_of``).

    :raises Error: there is an option that nothing knows.
    """
    check(options.toDict())
    if options.exists("use_model"):
        logger.info("From the user configuration: Ipu model: %s", "Enabled" if options.use_model else "Disabled")
    plan = plan or Plan()
    backend = options._popart.options
    locations = options.TensorLocations
    mean = options.Training.accumulation_and_replication_reduction_type == enums.ReductionType.Mean
    strategy = options.Training.meanAccumulationAndReplicationReductionStrategy
    out = settings.ExecutorOptions(
        device_iterations=options.device_iterations,
        replicas=options.replication_factor,
        input_group_size=options.input_group_size,
        orthogonal_inputs=options.input_cgt == enums.CommGroupType.Orthogonal,
        gradient_accumulation=options.Training.gradient_accumulation if training else 1,
        reduction=settings.Reduction.MEAN if mean else settings.Reduction.SUM,
        running_mean=mean and strategy == enums.MeanReductionStrategy.Running,
        output_mode=_OUTPUT_MODES[enums.OutputMode(options.output_mode)],
        output_period=options.output_return_period,
        seed=(options.random_seed if options.exists("random_seed") else torch.initial_seed()) & 0xffffffff,
        target=_target(options),
        device_id=options.ipu_id + 1 if options.exists("ipu_id") else 0,
        device_alone=options.exists("ipu_id"),
        attach=settings.Attach(options.connection_type),
        cache_folder=_cache_folder(backend),
        engine=_engine_options(options, backend),
        stage_ipus=list(plan.ipus),
        schedule=plan.schedule,
        recompute=bool(plan.stages) and bool(backend.get("autoRecomputation", 0)),
        activations_off_chip=training and (plan.off_chip or locations._has("location_activation", "onChip", 0)),
        comm=_comm(options) if training else None,
        optimizer_off_chip=training and locations._has("location_optimizer", "onChip", 0),
        shard_optimizer=(training and options.replication_factor > 1
                         and locations._has("location_optimizer", "useReplicatedTensorSharding", 1)),
        stochastic_rounding=bool(backend.get("enableStochasticRounding", False)),
        half_partials=backend.get("partialsTypeMatMuls") == "half",
        round_ipus=options._rounds_ipus(),
        check_floats=bool(backend.get("enableFloatingPointChecks", False)),
    )
    return out


def _is_true(value: Any) -> bool:
    return value is True or str(value).lower() in ("true", "1")


def _engine_options_of_environment() -> Dict[str, Any]:
    """What POPLAR_ENGINE_OPTIONS says; the library looks there itself, and says what is wrong with it."""
    try:
        found = json.loads(os.environ.get("POPLAR_ENGINE_OPTIONS") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _target(options: Options) -> Optional[str]:
    if options.exists("ipu_version"):
        return f"ipu{options.ipu_version}"
    return os.environ.get("POPTORCH_IPU_MODEL_VERSION") or None if options._uses_ipu_model() else None


def _comm(options: Options) -> Optional[comm.Comm]:
    """The processes that train together, where a launcher has started several."""
    n = options.Distributed.numProcesses
    if n == 1 or int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1")) == 1:
        return None
    world = comm.world()
    if (world.size, world.rank) != (n, options.Distributed.processId):
        raise Error(f"Options.Distributed says that this is process {options.Distributed.processId} of {n}, but the "
                    f"launcher has started it as {world.rank} of {world.size}. Leave Options.Distributed as it is, or "
                    "use disable() for a process that trains alone.")
    return world


def waits_for_device() -> bool:
    """Whether who finds no IPU waits for one."""
    return os.environ.get("POPTORCH_WAIT_FOR_IPU", "0") not in ("", "0")


def _engine_options(options: "Options", backend: Dict[str, Any]) -> Dict[str, str]:
    out = {key: str(value).lower() if isinstance(value, bool) else str(value)
           for key, value in backend.get("engineOptions", {}).items()}
    if waits_for_device() and options.connection_type == enums.ConnectionType.OnDemand.value:
        out.setdefault("device.wait", str(_LONG))  # a run attaches; otherwise it is waited for in Python
    return out


def _cache_folder(backend: Dict[str, Any]) -> Optional[str]:
    if "enableEngineCaching" not in backend:
        return None
    if not backend["enableEngineCaching"]:
        return ""
    folder = backend["cachePath"]
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as e:
        logger.warning("Executables cannot be cached in %s (%s): they are compiled every time", folder, e.strerror)
    return folder
