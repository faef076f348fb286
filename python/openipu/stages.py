"""Stages: the parts of a network that run on IPUs of their own, and the blocks of a model that they are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from .log import logger
from .settings import Schedule

BlockId = str


class Stage:
    """One or more blocks that run on one IPU.

    >>> first, second = Stage("A", "B").ipu(0), Stage("C").ipu(1)
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

    >>> Phase(Stage("A"), Stage("B"))  # two stages
    >>> Phase("A", "B")                # one stage of two blocks
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


class Strategy:
    """What blocks become."""

    _block_map: Dict[BlockId, Stage] = {}  # stages of blocks that are named before; empty: blocks make stages

    def _number_of_new(self, block: BlockId, ipu_id: Optional[int], n: int) -> int:
        """The number of the stage that a block makes, the n-th one that does."""
        return n

    def _check_place(self, place: Place) -> None:
        """Raise if nothing can run there."""


class Placement:
    """The blocks of one capture of a model: where the op that comes next runs."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._stages: Dict[BlockId, Stage] = {}
        self._next_auto_id = 0
        self._ids_of_hooks: Dict[int, BlockId] = {}
        self._enclosing: List[Optional[Place]] = []
        self._place: Optional[Place] = FIRST_PLACE

    def place(self) -> Optional[Place]:
        """Where ops run now. None: nowhere, a block was closed and no other begun."""
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
            stage._stage_id = self._strategy._number_of_new(block, ipu_id, len(self._stages) + 1)
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


def _dense(ipus: Sequence[int]) -> List[int]:
    order = {ipu: i for i, ipu in enumerate(sorted(set(ipus)))}
    return [order[ipu] for ipu in ipus]


def plan_in_turn(places: Sequence[Place]) -> Plan:
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


def plan_of_pipeline(places: Sequence[Place]) -> Plan:
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
    return Plan([str(i) for i in starts], _dense([first[i] for i in starts]), [str(start_of[p.stage]) for p in places])
