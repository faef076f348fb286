"""Execution strategies: how the blocks of a model become stages or phases on IPUs."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Union

from openipu.stages import BlockId, Phase, Place, Plan, Stage, Strategy, plan_in_turn, plan_of_pipeline

from .. import enums
from .._errors import Error
from .._logging import logger

MOST_IPUS = 64


class ExecutionStrategy(Strategy):
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

    def _number_of_new(self, block: BlockId, ipu_id: Optional[int], n: int) -> int:
        if self._auto_stage != enums.AutoStage.SameAsIpu:
            return n
        assert ipu_id is not None, ("poptorch.AutoStage.SameAsIpu was selected but no IPU was specified for block "
                                    f"{block}")
        return ipu_id


def _add_stage(block_map: Dict[BlockId, Stage], stage: Stage, what: str) -> None:
    for block in stage.blocks:
        assert block not in block_map, f"{block} associated with more than one stage"
        where = f" on IPU {stage._ipu}" if stage._ipu is not None else ""
        logger.debug("block %s added to %s%s", block, what, where)
        block_map[block] = stage


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
        plan = plan_of_pipeline(places)
        if plan.stages and self._auto_stage == enums.AutoStage.SameAsIpu and not self._block_map:
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
        return plan_in_turn(places)

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
        plan = plan_in_turn(places)
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
