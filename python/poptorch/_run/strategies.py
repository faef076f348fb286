"""Execution strategies: how the blocks of a model become stages or phases on IPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from openipu.settings import Schedule

from .. import enums
from .._errors import Error
from .._logging import logger

BlockId = str
MOST_IPUS = 64


class Stage:
    """One or more blocks that run on one IPU.

    >>> strategy = poptorch.PipelinedExecution(poptorch.Stage("A", "B").ipu(0), poptorch.Stage("C").ipu(1))
    """

    def __init__(self, *block_ids: BlockId) -> None:
        assert all(isinstance(b, str) for b in block_ids), (
            f"Block IDs are supposed to be strings but got {block_ids}")
        self._blocks = block_ids
        self._stage_id = -1
        self._phase_id = -1
        self._ipu: Optional[int] = None

    @property
    def blocks(self) -> Tuple[BlockId, ...]:
        """Names of the blocks."""
        return self._blocks

    def ipu(self, ipu: int) -> "Stage":
        """Let the stage run on this IPU of a replica."""
        assert isinstance(ipu, int), f"An IPU is given by its number, not {ipu!r}"
        self._ipu = ipu
        return self


class Phase:
    """What runs at one time of a phased execution: stages, side by side on IPUs of their own.

    >>> poptorch.Phase(poptorch.Stage("A"), poptorch.Stage("B"))  # two stages
    >>> poptorch.Phase("A", "B")                                  # one stage of two blocks
    """

    def __init__(self, *arg: Union[BlockId, Stage]) -> None:
        if all(isinstance(a, Stage) for a in arg):
            self.stages: Sequence[Stage] = arg
        else:
            assert all(isinstance(a, str) for a in arg), (
                "All arguments must either be block IDs (strings) or Stages, but their types are "
                f"{[type(a).__name__ for a in arg]}")
            self.stages = [Stage(*arg)]

    def stage(self, idx: int) -> Stage:
        """Stage number ``idx``."""
        return self.stages[idx]

    def ipus(self, *ipus: int) -> None:
        """The IPU of each stage, in order."""
        assert len(ipus) == len(self.stages), (
            f"Phase contains {len(self.stages)} stages but you provided {len(ipus)} ipus")
        for stage, ipu in zip(self.stages, ipus):
            stage.ipu(ipu)


class Place(NamedTuple):
    """Where an op runs."""
    stage: int
    phase: int
    ipu: int


FIRST_PLACE = Place(0, 0, 0)


class Placement:
    """The blocks of one capture of a model: where the op that comes next runs."""

    def __init__(self, strategy: "ExecutionStrategy") -> None:
        self._strategy = strategy
        self._stages: Dict[BlockId, Stage] = {}
        self._next_stage = 1
        self._next_auto_id = 0
        self._ids_of_hooks: Dict[int, BlockId] = {}
        self._enclosing: List[Optional[Place]] = []
        self._place: Optional[Place] = FIRST_PLACE

    def place(self) -> Place:
        """Where ops run now. Error: a block was closed, and no other begun."""
        if self._place is None:
            raise Error("No active Block: this op comes after the end of a poptorch.Block and is in none. All ops "
                        "after the first block must be in one: use poptorch.Block.start or poptorch.BeginBlock for "
                        "blocks that go on until the next one begins.")
        return self._place

    def begin(self, user_id: Any, ipu_id: Optional[int], hook: Any = None) -> None:
        """A block begins, and goes on until another does. ``hook``: what begins it, to know it again."""
        self._place = self._resolve(self._name(user_id, hook), ipu_id)

    def begin_at(self, where: Optional[Place]) -> None:
        """Ops that come now run there; None: they are in no block."""
        if where is not None:
            self._strategy._check_place(where)
        self._place = where

    def enter(self, user_id: Any, ipu_id: Optional[int]) -> None:
        """A block begins that ``leave`` ends."""
        here = self._place if self._enclosing else None
        self.begin(user_id, ipu_id)
        self._enclosing.append(here)

    def leave(self) -> None:
        """The block that was entered last ends: its enclosing one goes on, if it has one."""
        self._place = self._enclosing.pop()

    def restart_auto_ids(self) -> None:
        """Blocks without a name are numbered from 0 again."""
        self._next_auto_id = 0

    def _name(self, user_id: Any, hook: Any) -> BlockId:
        if user_id is not None:
            return str(user_id)
        known = self._ids_of_hooks.get(id(hook)) if hook is not None else None
        if known is not None:
            return known
        name = str(self._next_auto_id)
        self._next_auto_id += 1
        if hook is not None:
            self._ids_of_hooks[id(hook)] = name
        return name

    def _resolve(self, block: BlockId, ipu_id: Optional[int]) -> Place:
        stage = self._stage(block, ipu_id)
        ipu = stage._ipu if stage._ipu is not None else ipu_id
        if ipu is None:
            ipu = max(stage._stage_id, 0)
            logger.debug("No IPU specified for block %s: default to stage_id %d", block, ipu)
        place = Place(max(stage._stage_id, 0), max(stage._phase_id, 0), ipu)
        logger.debug("Starting block id=%s stage=%d phase=%d ipu=%d", block, *place)
        self._strategy._check_place(place)
        return place

    def _stage(self, block: BlockId, ipu_id: Optional[int]) -> Stage:
        named = self._strategy._block_map
        if named:
            assert block in named, f"Unknown Block '{block}' list of expected Blocks: {list(named)}"
            return named[block]
        if block not in self._stages:
            stage = Stage(block)
            if self._strategy._auto_stage == enums.AutoStage.SameAsIpu:
                assert ipu_id is not None, ("poptorch.AutoStage.SameAsIpu was selected but no IPU was specified for "
                                            f"block {block}")
                stage._stage_id = ipu_id
            else:
                stage._stage_id = self._next_stage
                self._next_stage += 1
            self._stages[block] = stage
        return self._stages[block]


@dataclass
class Plan:
    """The stages of a network: ``names[i]`` is the stage of op i, ``ipus[s]`` the IPU of stage number s.

    ``stages`` is empty where all runs on one IPU.
    """
    stages: List[str] = field(default_factory=list)
    ipus: List[int] = field(default_factory=list)
    names: List[str] = field(default_factory=list)
    schedule: Schedule = Schedule.GROUPED
    off_chip: bool = False
    hint: str = ""  # for whom the order of the stages is an error

    @property
    def n_ipus(self) -> int:
        """IPUs of one replica."""
        return max(self.ipus, default=0) + 1


class ExecutionStrategy:
    """What all strategies have."""

    _mode = "Pipelined"
    _auto_stage = enums.AutoStage.SameAsIpu

    def __init__(self, block_map: Dict[BlockId, Stage]) -> None:
        self._block_map = block_map

    def stage(self, block_id: BlockId) -> Stage:
        """The stage that has this block."""
        assert block_id in self._block_map, f"Unknown block {block_id}, expected one of {list(self._block_map)}"
        return self._block_map[block_id]

    def backendOptions(self) -> Dict[str, Any]:
        """What ``Options.toDict`` says of the strategy."""
        return {}

    def describe(self, place: Place) -> str:
        """A place in words, for the log."""
        return f"mode({self._mode}), ipu({place.ipu}), stage({place.stage})"

    def plan(self, places: Sequence[Place]) -> Plan:
        """Stages for ops that are at these places."""
        raise NotImplementedError

    def choices(self, places: Sequence[Place]) -> Dict[str, Any]:
        """What follows from the places, by the names of PopART's options, for the log."""
        return {}

    def check(self, plan: Plan, options: Any, training: bool) -> None:
        """Raise if ``options`` and the stages do not go together."""

    def _check_place(self, place: Place) -> None:
        pass


def _add_stage(block_map: Dict[BlockId, Stage], stage: Stage, what: str) -> None:
    for block in stage.blocks:
        assert block not in block_map, f"{block} associated with more than one stage"
        where = f" on IPU {stage._ipu}" if stage._ipu is not None else ""
        logger.debug("block %s added to %s%s", block, what, where)
        block_map[block] = stage


def _dense(ipus: Sequence[int]) -> List[int]:
    order = {ipu: i for i, ipu in enumerate(sorted(set(ipus)))}
    return [order[ipu] for ipu in ipus]


def _plan_in_turn(places: Sequence[Place]) -> Plan:
    """A stage wherever the place changes, one after another."""
    plan = Plan(schedule=Schedule.SEQUENTIAL)
    ipus: List[int] = []
    for i, place in enumerate(places):
        if i == 0 or place != places[i - 1]:
            plan.stages.append(f"{len(plan.stages)}")
            ipus.append(place.ipu)
        plan.names.append(plan.stages[-1])
    if len(set(ipus)) < 2:
        return Plan()
    plan.ipus = _dense(ipus)
    return plan


class PipelinedExecution(ExecutionStrategy):
    """Stages that work at the same time, each on another micro-batch. This is the strategy of new options.

    Without arguments, blocks with the same ``ipu_id`` are a stage, and all blocks must have one. With an
    :class:`AutoStage` stages are made of blocks by that rule. Else the arguments are the stages in their order: names
    of blocks, lists of names, or :class:`Stage` objects. The IPU of a stage is what :meth:`Stage.ipu` or the block
    says, else its number.

    >>> opts.setExecutionStrategy(poptorch.PipelinedExecution("A", "B"))
    >>> opts.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.Stage("A", "B"), poptorch.Stage("C")))
    >>> opts.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))

    Stages that follow one another on the same IPU are one stage, as in PopTorch.

    A training model needs at least as many micro-batches to a step (``Training.gradientAccumulation``) as there are
    stages, those of the backward pass counted; an inference model that many ``deviceIterations``.
    """

    def __init__(self, *args: Union[enums.AutoStage, BlockId, Sequence[BlockId], Stage]) -> None:
        block_map: Dict[BlockId, Stage] = {}
        if len(args) == 1 and isinstance(args[0], enums.AutoStage):
            self._auto_stage = args[0]
            args = ()
        for number, arg in enumerate(args):
            if isinstance(arg, Stage):
                stage = arg
            else:
                names = [arg] if isinstance(arg, str) else list(arg)  # type: ignore[arg-type]
                stage = Stage(*names)
            stage._stage_id = number
            _add_stage(block_map, stage, f"stage {number}")
        super().__init__(block_map)

    def backendOptions(self) -> Dict[str, Any]:
        return {"execution_mode": 0}

    def plan(self, places: Sequence[Place]) -> Plan:
        """Stages that follow one another on one IPU are one: a pipeline has as many as there are changes of the IPU, and
        one more."""
        first = {place.stage: place.ipu for place in reversed(places)}
        if len(set(first.values())) < 2:
            return Plan()
        starts: List[int] = []  # stages that are on another IPU than the one before
        start_of: Dict[int, int] = {}
        for i in sorted(first):
            if not starts or first[starts[-1]] != first[i]:
                starts.append(i)
            start_of[i] = starts[-1]
        plan = Plan([str(i) for i in starts], _dense([first[i] for i in starts]), [str(start_of[p.stage]) for p in places])
        if self._auto_stage == enums.AutoStage.SameAsIpu and not self._block_map:
            plan.hint = (". With poptorch.AutoStage.SameAsIpu stages are numbered as their IPUs are: a block that goes back "
                         "to an earlier IPU needs a stage of its own, by poptorch.AutoStage.AutoIncrement or poptorch.Stage")
        return plan

    def choices(self, places: Sequence[Place]) -> Dict[str, Any]:
        return {"enablePipelining": len({p.ipu for p in places}) > 1}

    def check(self, plan: Plan, options: Any, training: bool) -> None:
        n = max(len(plan.stages), 1)
        if training:
            most, given = 2 * n - 1, options.Training.gradient_accumulation
            if given < most:
                raise Error("poptorch.Options().Training.gradientAccumulation must be greater than or equal to the "
                            f"number of pipeline stages ({most}) when using poptorch.PipelinedExecution. Please note "
                            f"that a model with {n} pipeline stages in PopTorch will have an additional {n - 1} stages "
                            f"when training. Found: {given}.")
        elif options.device_iterations < n:
            raise Error("poptorch.Options().deviceIterations must be greater than or equal to the number of pipeline "
                        f"stages ({n}) when using PopTorch.PipelinedExecution. Found: "
                        f"{options.device_iterations}.")


class ShardedExecution(PipelinedExecution):
    """Blocks that run one after another, each on its IPU. Arguments are those of :class:`PipelinedExecution`.

    >>> opts.setExecutionStrategy(poptorch.ShardedExecution())
    """

    _mode = "Sharded"

    def backendOptions(self) -> Dict[str, Any]:
        return {"execution_mode": 1}

    def plan(self, places: Sequence[Place]) -> Plan:
        return _plan_in_turn(places)

    def choices(self, places: Sequence[Place]) -> Dict[str, Any]:
        return {"enablePipelining": False}

    def check(self, plan: Plan, options: Any, training: bool) -> None:
        """Nothing to check: stages take turns."""


class _PhasedExecution(ExecutionStrategy):
    """A model in phases, whose tensors are off the chip when it is not their turn.

    :param phases: each a :class:`Phase`, a list of :class:`Stage`, or a list of names of blocks that are one stage.
    """

    _mode = "Phased"
    _serial = False

    def __init__(self, *phases: Union[Phase, Stage, BlockId, List[Stage], List[BlockId]]) -> None:
        assert phases, "There is currently no AutoStage for PhasedExecution, please explicitly specify the phases"
        self._liveness = enums.Liveness.AlwaysLive
        self._separate_backward_phase = False
        self._phases = [p if isinstance(p, Phase) else Phase(*(p if isinstance(p, list) else [p])) for p in phases]
        block_map: Dict[BlockId, Stage] = {}
        for number, phase in enumerate(self._phases):
            for stage in phase.stages:
                stage._phase_id = number
                _add_stage(block_map, stage, f"phase {number}")
        super().__init__(block_map)

    def phase(self, phase: int) -> Phase:
        """Phase number ``phase``."""
        assert isinstance(phase, int) and phase >= 0, "Phases are identified by positive integers"
        return self._phases[phase]

    def useSeparateBackwardPhase(self, use: bool = True) -> "_PhasedExecution":
        """Whether the backward pass begins in a phase of its own, rather than in the last one of the forward pass."""
        assert isinstance(use, bool), f"Expected a boolean, not {use!r}"
        self._separate_backward_phase = use
        return self

    def backendOptions(self) -> Dict[str, Any]:
        return {"execution_mode": 2, "separate_backward_phase": self._separate_backward_phase,
                "tensors_liveness": self._liveness.value, "serial_phases_execution": self._serial}

    def describe(self, place: Place) -> str:
        return f"mode(Phased), ipu({place.ipu}), phase({place.phase * self._stride})"

    def plan(self, places: Sequence[Place]) -> Plan:
        plan = _plan_in_turn(places)
        plan.off_chip = self._liveness != enums.Liveness.AlwaysLive
        return plan

    def choices(self, places: Sequence[Place]) -> Dict[str, Any]:
        phases = max((p.phase * self._stride for p in places), default=0) + 1
        if self._liveness != enums.Liveness.AlwaysLive:
            phases += 3
        elif self._separate_backward_phase:
            phases += 1
        chosen: Dict[str, Any] = {"enablePipelining": False, "executionPhaseSettings.phases": phases,
                                  "executionPhaseSettings.stages": 1 if self._serial else 2}
        chosen.update({f"location_{what}": "useOnChipStorage(False)"
                       for what in ("activation", "weight", "optimizer", "accumulator")})
        return chosen

    @property
    def _stride(self) -> int:
        return {enums.Liveness.OffChipAfterFwdNoOverlap: 2, enums.Liveness.OffChipAfterEachPhase: 4}.get(
            self._liveness, 1)


class ParallelPhasedExecution(_PhasedExecution):
    """Phases that alternate between two groups of IPUs: even phases run on even IPUs, odd ones on odd IPUs.

    >>> strategy = poptorch.ParallelPhasedExecution([poptorch.Stage("0"), poptorch.Stage("1")],
    ...                                             [poptorch.Stage("2"), poptorch.Stage("3")])
    >>> strategy.phase(0).ipus(0, 2)
    >>> strategy.phase(1).ipus(1, 3)
    >>> opts.setExecutionStrategy(strategy)
    """

    def sendTensorsOffChipAfterFwd(self, off_chip: bool = True) -> "ParallelPhasedExecution":
        """Whether activations leave the chip at the end of the forward pass."""
        assert isinstance(off_chip, bool), f"Expected a boolean, not {off_chip!r}"
        self._liveness = enums.Liveness.OffChipAfterFwd if off_chip else enums.Liveness.AlwaysLive
        return self

    def _check_place(self, place: Place) -> None:
        if place.phase % 2 != place.ipu % 2:
            raise Error("When phases are executed in parallel: even phases must run on even IPUs and odd phases on odd "
                        f"IPUs, but phase {place.phase} is on IPU {place.ipu}.")


class SerialPhasedExecution(_PhasedExecution):
    """Phases that run one after another on one group of IPUs.

    >>> strategy = poptorch.SerialPhasedExecution("A", "B")
    >>> strategy.setTensorsLiveness(poptorch.Liveness.OffChipAfterFwd)
    >>> opts.setExecutionStrategy(strategy)
    """

    _serial = True

    def setTensorsLiveness(self, liveness: enums.Liveness) -> "SerialPhasedExecution":
        """How long tensors stay on the chip: see :class:`Liveness`."""
        assert isinstance(liveness, enums.Liveness), f"Expected a poptorch.Liveness, not {liveness!r}"
        self._liveness = liveness
        return self


def plan_of(places: Sequence[Place], options: Any, training: bool) -> Plan:
    """The stages of a network whose ops are at ``places``, checked against ``options``."""
    strategy = options._execution_strategy
    plan = strategy.plan(places)
    check_n_ipus(plan.n_ipus * options.replication_factor, options)
    strategy.check(plan, options, training)
    for name, value in strategy.choices(places).items():
        logger.debug("%s set to value %s", name, int(value) if isinstance(value, bool) else value)
    return plan


def check_n_ipus(n: int, options: Any) -> None:
    """Raise if a process cannot have ``n`` IPUs."""
    if n > MOST_IPUS:
        raise Error(f"Too many IPUs requested ({n}). Experiments that need more than {MOST_IPUS} IPUs require "
                    "distributed execution.")
    rounded = 1 << (n - 1).bit_length()
    if n != rounded and not options._rounds_ipus():
        raise Error(f"The model specifies the use of {n} IPUs, however PopTorch must reserve a minimum of {rounded} in "
                    "order to allow the model to run, because PopTorch must reserve a power of 2 or maximum of "
                    f"{MOST_IPUS} IPUs per process. Please reconfigure your model to use a different number of IPUs or "
                    "set poptorch.Options().autoRoundNumIPUs(True).")
