"""Options of PopART, options from text, and checking them."""

from __future__ import annotations

import copy
import difflib
import json
import os
from typing import Any, Dict, Iterator, List

from openipu.values import Values

from .. import enums
from .._errors import Error
from .._logging import logger


_FROZEN = "Can't modify frozen Options: a model or data loader uses them. Change a copy: options.clone()."


class ConfigFileError(Exception):
    """A file of options has a line that is not Python."""


class OptionsDict(Values):
    """Values by their names, each of a fixed type.

    Values are read as attributes, or by calling the object with their name; attributes that begin with an underscore
    are ordinary ones. A frozen object cannot be changed; a deep copy of it can.
    """

    _when_frozen = _FROZEN
    createOrSet = Values._create_or_set
    deleteIfExists = Values._delete
    checkIsFrozen = Values._check_frozen
    toDict = Values._to_dict


class BackendOptions:
    """Options of PopART's sessions by their names (``opts._Popart``), for those who know what they do.

    Names that PopART has are accepted, with the effect described below where there is one here; any other is an error
    when a model is compiled. Enumerations are given as integers.

    * ``autoRecomputation`` above 0: a pipeline's stages keep only what they were given.
    * ``enableStochasticRounding``, ``enableFloatingPointChecks``, ``partialsTypeMatMuls``: as ``opts.Precision``.
    * ``syntheticDataMode`` above 0: inputs are made up, and outputs stay on the device.
    * ``cachePath``, ``enableEngineCaching``: as :meth:`Options.enableExecutableCaching`.
    * ``engineOptions``: options of the engine; those of Poplar's that mean nothing here are ignored.

    >>> opts._Popart.set("autoRecomputation", 3)
    """

    def __init__(self) -> None:
        self._frozen = False
        self.options: Dict[str, Any] = {"instrumentWithHardwareCycleCounter": False, "rearrangeAnchorsOnHost": False}

    def set(self, key: str, value: Any) -> "BackendOptions":
        """Set one option."""
        self.checkIsFrozen()
        self.options[key] = value
        return self

    def setEngineOptions(self, engine_options: Dict[str, str]) -> "BackendOptions":
        """Options of the engine, such as ``{"threads": "2"}``."""
        return self.set("engineOptions", engine_options)

    def setPatterns(self, patterns: Dict[str, bool], level: int = 2) -> "BackendOptions":
        """Patterns of PopART's compiler to switch on or off, beginning from those of ``level``. There are none here."""
        assert isinstance(level, int), f"level must be an integer, not {level!r}"
        assert isinstance(patterns, dict), f"patterns must be a dictionary of names and booleans, not {patterns!r}"
        self.set("patterns_level", level)
        return self.set("patterns", patterns)

    def checkIsFrozen(self) -> None:
        """Raise if it may not be changed any more."""
        if self._frozen:
            raise AttributeError(_FROZEN)

    def _set_frozen(self, frozen: bool) -> None:
        self._frozen = frozen

    def __deepcopy__(self, memory: Dict[int, Any]) -> "BackendOptions":
        other = type(self)()
        memory[id(self)] = other
        other.options = copy.deepcopy(self.options, memory)
        return other

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.options.items())})"


# ---- from text ----


def enum_of(text: str) -> Any:
    """The member that a text such as "OutputMode.All" names; the text itself where it names none."""
    kind, _, member = text.partition(".")
    found = getattr(enums, kind, None)
    return getattr(found, member, text) if isinstance(found, type) and member else text


def apply_json(options: Any, text: str) -> None:
    """Call the methods that a JSON object names by their dotted names, with its values."""
    for name, value in json.loads(text).items():
        method = options
        for part in name.split("."):
            method = getattr(method, part)
        arguments = value if isinstance(value, list) else [value]
        method(*(enum_of(a) if isinstance(a, str) else a for a in arguments))


def apply_file(options: Any, path: str) -> None:
    """Run the lines of a file, each a method of ``options`` with its arguments; nothing is run if one is wrong.

    Errors count lines without blank ones and comments.
    """
    import poptorch
    calls: List[str] = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            line = line.strip()
            if line and not line.startswith("#"):
                calls.append("options." + line)
    for code in [_compiled(call, number, os.path.basename(path)) for number, call in enumerate(calls, 1)]:
        exec(code, {"poptorch": poptorch, "options": options})


def _compiled(call: str, number: int, name: str) -> Any:
    try:
        return compile(call, name, "exec")
    except SyntaxError as error:
        # Python's own words for it differ between versions.
        what = "unexpected EOF while parsing" if "was never closed" in error.msg else error.msg
        raise ConfigFileError(f"SyntaxError at line {number} of {name}: {what}\n> {call}") from error


# ---- checking ----

_CONTAINERS = frozenset("""
    accumulateOuterFragmentSettings.excludedVirtualGraphs convolutionOptions customCodelets dotChecks engineOptions
    gclOptions hardwareInstrumentations lstmOptions matmulOptions patterns reportOptions updatableNamedBuffers
""".split())

_POPART_NAMES = frozenset("""
    accumulateOuterFragmentSettings.schedule accumulationAndReplicationReductionType accumulationFactor aliasZeroCopy
    autodiffSettings.stitchStrategy automaticLossScalingSettings.binEdgeLocation automaticLossScalingSettings.enabled
    automaticLossScalingSettings.gradientTensorTrackingMethod
    automaticLossScalingSettings.thresholdUpperCountProportion automaticLossScalingSettings.updatePeriod
    autoRecomputation batchSerializationSettings.batchSchedule
    batchSerializationSettings.concatOnExecutionPhaseChange batchSerializationSettings.concatOnPipelineStageChange
    batchSerializationSettings.concatOnVirtualGraphChange batchSerializationSettings.factor
    batchSerializationSettings.method batchSerializationSettings.transformContext cachePath
    compilationProgressTotal compileEngine constantWeights customCodeletCompileFlags decomposeGradSum
    defaultBufferingDepth defaultPrefetchBufferingDepth delayVarUpdates disableGradAccumulationTensorStreams
    disableOptimizerStateTensorStreams dotOpNames enableDistributedReplicatedGraphs enableEngineCaching
    enableExplicitIR enableExplicitMainLoops enableFloatingPointChecks enableFullyConnectedPass
    enableGradientAccumulation enableInplaceAmbiguityChecking enableLoadAndOffloadRNGState enableMergeExchange
    enableNonStableSoftmax enableOutlining enableOutliningCopyCostPruning enablePipelining
    enablePrefetchDatastreams enableReplicatedGraphs enableSerializedMatmuls enableStableNorm
    enableStochasticRounding enableSupportedDataTypeCasting ensureFp32LossScaleTensor
    executionPhaseSettings.phases executionPhaseSettings.stages explicitRecomputation
    exportPoplarComputationGraph exportPoplarVertexGraph finalDotOp firstDotOp globalReplicaOffset
    globalReplicationFactor groupHostSync groupNormStridedChannelGrouping instrumentWithHardwareCycleCounter
    kahnTieBreaker logDir looseThresholdAtPeak meanAccumulationAndReplicationReductionStrategy mergeVarUpdate
    mergeVarUpdateMemThreshold numIOTiles opxAliasChecking opxModifyChecking outlineSequenceBreakCost
    outlineThreshold partialsTypeMatMuls patterns_level rearrangeAnchorsOnHost rearrangeStreamsOnHost
    replicatedCollectivesSettings.mergeAllReduceCollectives
    replicatedCollectivesSettings.prepareScheduleForMergingCollectives saveInitializersToFile
    scheduleNonWeightUpdateGradientConsumersEarly separateCallOpPdfs serializedPoprithmsShiftGraphsDir
    strictOpVersions subgraphCopyingStrategy swapLimitScheduler syntheticDataMode timeLimitScheduler
    transitiveClosureOptimizationThreshold useHostCopyOps virtualGraphMode
""".split())

_OWN_NAMES = frozenset("""
    accumulation_and_replication_reduction_type anchored_tensors auto_round_num_ipus available_memory_proportion
    broadcast_buffers compilation_progress_bar_fn connection_type device_iterations distributed_process_id
    execution_mode gradient_accumulation input_cgt input_group_size ipu_id ipu_version ipuof_configs
    location_accumulator location_activation location_optimizer location_weight log_dir max_repeat_logs model_name
    num_distributed_processes output_mode output_return_period random_seed replication_factor
    separate_backward_phase serial_phases_execution sync_pattern tensors_liveness use_model
    input_gradients recompile_on_new_shapes
""".split())

_UNSAID = frozenset({"anchored_tensors", "available_memory_proportion", "compilation_progress_bar_fn", "ipuof_configs",
                     "patterns"})


def check(options: Dict[str, Any]) -> None:
    """Raise :class:`poptorch.Error` where ``Options.toDict()`` has a name or value that nothing knows; log the rest."""
    for name, value in options.items():
        if name not in _POPART_NAMES and name not in _OWN_NAMES and name not in _CONTAINERS:
            near = difflib.get_close_matches(name, sorted(_POPART_NAMES | _CONTAINERS), 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise Error(f"Unknown {_kind(value)} option {name}: PopART has none of that name.{hint}")
        for line in _lines(name, value):
            logger.debug("poptorch.Options %s", line)


def _kind(value: Any) -> str:
    if isinstance(value, (list, set, tuple, dict)):
        return "container"
    return type(value).__name__


def _lines(name: str, value: Any) -> Iterator[str]:
    if name in _UNSAID:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"set {name}[{key}] to {item}"
    elif isinstance(value, (list, set, tuple)):
        for item in value:
            yield f"added {item} to {name}"
    elif isinstance(value, bool):
        yield f"set {name} to value {str(value).lower()}"
    elif isinstance(value, (int, float, str)):
        yield f"set {name} to value {int(value) if isinstance(value, int) else value}"
    elif value is not None:
        raise Error(f"Unknown value type {type(value).__name__} for option {name}: "
                    "expected a boolean, number, string, list, set or dictionary.")
