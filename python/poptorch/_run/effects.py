"""Options that change nothing on a host. Each that is set is mentioned once in a process when a model is compiled:
docs/poptorch.md has the list of all."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Set, Tuple

from .. import enums
from .._logging import logger

#: Options of PopART's sessions that do something here (``BackendOptions`` says what).
POPART_EFFECTIVE = frozenset("""
    autoRecomputation automaticLossScalingSettings.enabled automaticLossScalingSettings.updatePeriod cachePath
    enableEngineCaching enableFloatingPointChecks enableStochasticRounding engineOptions groupNormStridedChannelGrouping
    instrumentWithHardwareCycleCounter partialsTypeMatMuls syntheticDataMode updatableNamedBuffers
""".split())

#: Those that setters of poptorch.Options leave there, which are mentioned by the setters' names or have no need of it:
#: norms are always stable, and what is priced is said by partialsTypeMatMuls.
_OWN = frozenset(("convolutionOptions", "enableStableNorm", "rearrangeAnchorsOnHost"))

#: Settings of TensorLocations by their kind, of which the others change nothing.
_LOCATIONS = {"location_activation": ("setActivationLocation", ("onChip", )),
              "location_weight": ("setWeightLocation", ()),
              "location_optimizer": ("setOptimizerLocation", ("onChip", "useReplicatedTensorSharding")),
              "location_accumulator": ("setAccumulatorLocation", ())}

_SETTERS = {"onChip": "useOnChipStorage"}

_HOST = "it is about the memory of tiles, which a host does not have"

#: What of the options is set, by name, and why that changes nothing.
_PLAIN: List[Tuple[str, Callable[[Any], bool], str]] = [
    ("Options.syncPattern", lambda o: o.sync_pattern != enums.SyncPattern.Full.value,
     "IPUs of a host wait for each other where they must"),
    ("Options.setAvailableMemoryProportion", lambda o: bool(o.available_memory_proportion), _HOST),
    ("Options.logDir", lambda o: o.log_dir != ".", "there are no files of logs; POPTORCH_LOG_DEST names one"),
    ("Options.maxRepeatLogs", lambda o: o.max_repeat_logs != 4, "lines are logged as often as they come"),
    ("Options.Training.setConvolutionDithering",
     lambda o: bool(o._Popart.options.get("convolutionOptions", {}).get("enableConvDithering")),
     "the compiler balances tiles itself"),
    ("Options.TensorLocations.numIOTiles", lambda o: o.TensorLocations.exists("numIOTiles"),
     "what is transferred needs no tiles of its own"),
    ("useSeparateBackwardPhase", lambda o: getattr(o._execution_strategy, "_separate_backward_phase", False),
     "phases of a host run one after another in any case"),
]

_said: Set[str] = set()


def _once(level: Callable[..., None], name: str, why: str) -> None:
    if name not in _said:
        _said.add(name)
        level("%s has no effect here: %s", name, why)


def _locations(options: Any) -> Iterator[Tuple[str, str]]:
    for kind, (setter, effective) in _LOCATIONS.items():
        settings: Dict[str, int] = options.TensorLocations(kind) if options.TensorLocations.exists(kind) else {}
        for setting, value in settings.items():
            is_default = value == (1 if setting == "onChip" else 0)
            if setting not in effective and not is_default:
                yield f"Options.TensorLocations.{setter}: {_SETTERS.get(setting, setting)}", _HOST


def _engine(options: Any) -> Iterator[Tuple[str, str]]:
    for key in options._Popart.options.get("engineOptions", {}):
        if key.startswith("autoReport.") and not options._is_known_report(key):
            yield f"engine option {key}", "a profile is one file, written when a model is compiled"


def without_effect(options: Any) -> List[Tuple[str, str]]:
    """What of the options is set and changes nothing, with the reason."""
    found = [(name, why) for name, is_set, why in _PLAIN if is_set(options)]
    found += _locations(options)
    found += _engine(options)
    found += [(f"_Popart option {name}", "it is PopART's own, and there is no PopART") for name, value in
              options._Popart.options.items() if name not in POPART_EFFECTIVE | _OWN and value not in (False, None)]
    return found


def _of_stages(options: Any, plan: Any, training: bool) -> Iterator[Tuple[str, str]]:
    """What only a pipeline of several stages has a use for."""
    if plan.stages or not training:
        return
    alone = "all of the model is on one IPU: its blocks (poptorch.Block, poptorch.BeginBlock) say what is not"
    if options._Popart.options.get("autoRecomputation", 0):
        yield "_Popart option autoRecomputation", alone
    if options.TensorLocations._has("location_activation", "onChip", 0):
        yield "Options.TensorLocations.setActivationLocation: useOnChipStorage(False)", alone


def tell(options: Any, plan: Any, training: bool) -> None:
    """Mention what changes nothing, once in a process."""
    for name, why in (*without_effect(options), *_of_stages(options, plan, training)):
        _once(logger.info, name, why)
    if training and options.replication_factor == 1 and options.TensorLocations._has(
            "location_optimizer", "useReplicatedTensorSharding", 1):
        _once(logger.warning, "Options.TensorLocations.setOptimizerLocation: useReplicatedTensorSharding",
              "states of the optimizer are divided among replicas, of which there is one: see "
              "poptorch.Options.replicationFactor")
