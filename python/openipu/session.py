"""A model on the device: what was compiled for calls of several kinds, and where the newest weights are.

Weights move by themselves: those that runs have trained reach the host when they are looked at (``tracking``), and sessions
that use the same tensors before they run next.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Iterable, List, Optional, Sequence

import torch

from . import tracking
from .arguments import Arguments
from .error import UsageError
from .executor import ExecutorPool
from .log import logger
from .program import NOT_COMPILED, Program

MOST_PROGRAMS = 8  # that a session keeps, for arguments of several shapes


class Learner:
    """Of a session that trains: what keeps an optimizer equal on the host and on the device."""

    def training(self, names: Sequence[str]) -> Any:
        """settings.Training for a network whose trained parameters have these names."""
        raise NotImplementedError

    def compiled(self, program: Program) -> None:
        """There is a program, with what ``training`` gave."""

    def before_attach(self, program: Program) -> None:
        """The device is about to be taken, perhaps again."""

    def on_attach(self, program: Program) -> None:
        """The device was taken."""

    def on_detach(self, program: Program) -> None:
        """The device is about to be left."""

    def before_run(self, program: Program) -> None:
        """A run is next."""

    def after_run(self, program: Program) -> None:
        """A run is over, and went well."""

    def close(self) -> None:
        """What was compiled is let go."""


class Session:
    """One model, for inference, or with a learner for training.

    ``to_host`` is called in place of ``weights_to_host`` where weights are fetched because somebody looks at them, and
    calls it; False: it did not.
    """

    def __init__(self, learner: Optional[Learner] = None, to_host: Callable[[], bool] = lambda: False) -> None:
        self.learner = learner
        self._to_host = to_host
        self.lock = threading.RLock()
        self.program: Optional[Program] = None  # for the last call
        self.programs: List[Program] = []  # for arguments of several kinds
        self._pool: Optional[ExecutorPool] = None  # of them
        self.is_attached = False
        self._seen_epoch = -1
        self._trainers: List[Any] = []
        self._seen_versions: List[int] = []
        self._rng_state: Optional[List[int]] = None

    def compiled(self) -> Program:
        """The program; UsageError: there is none."""
        if self.program is None:
            raise UsageError(NOT_COMPILED)
        return self.program

    def take(self, program: Program) -> None:
        """Go on with what was compiled just now."""
        before, self.program = self.program, program
        self.programs.append(program)
        self.is_attached = program.executor.is_attached()
        if before is None or self.is_attached:
            self._use(program, before)  # before the learner tells it something newer
        if self.learner is not None:
            self.learner.compiled(program)
        if self.is_attached:
            self._attached()

    # ---- which program

    def program_for(self, arguments: Arguments, may_change: bool, compiled: Callable[[], Program]) -> Program:
        """The program for a call: the last one; or, where it may change, another one there is, or what ``compiled`` makes and
        ``take`` was given. UsageError: the arguments are not those of the last one, and it may not."""
        program = self.compiled()
        try:
            program.arguments.check_same(arguments)
            return program
        except UsageError:
            if not may_change:
                raise
        return self._change(program, arguments, compiled)

    def _change(self, program: Program, arguments: Arguments, compiled: Callable[[], Program]) -> Program:
        """Go on with a program for other arguments: with the same weights, states of the optimizer and of random
        numbers."""
        self.fetch_weights()
        found = next((p for p in self.programs if p is not program and p.arguments.is_same(arguments)), None)
        if found is None:
            found = compiled()
            if self.is_attached:
                return found
            self.attach()
        else:
            self.program = found
            if self.learner is not None:
                found.set_training(self.learner.training(found.trained_names()))
            if found.executor.engine() is None:  # it was compiled, and never run
                self.attach()
            else:
                self.weights_to_device()
        self._use(found, program)
        return found

    def _use(self, program: Program, before: Optional[Program]) -> None:
        """Let a program go on where the one before is; the library knows which others are too many then."""
        if self._pool is None:
            self._pool = ExecutorPool(MOST_PROGRAMS)
        if before is not None:
            program.take_seed(before)
        gone = self._pool.use(program.executor)
        for old in [p for p in self.programs if p.executor.pointer.value in gone]:
            self.programs.remove(old)
            old.close()

    # ---- running

    def run(self, program: Program, dense: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """``Program.run``, with weights and optimizer as they are now."""
        learner = self.learner
        if learner is not None:
            learner.before_run(program)
        else:
            self._follow_training(program)
        try:
            outputs = program.run(dense, tensors)
        finally:  # also when it was interrupted, or failed
            self._rng_state = None
        if learner is not None:
            learner.after_run(program)
        return outputs

    def _follow_training(self, program: Program) -> None:
        """Weights that other sessions train are used as they are now."""
        if self._seen_epoch != tracking.epoch():
            self._look_for_trainers(program)
            self._seen_versions = [-1]
        for trainer in self._trainers:
            trainer._fetch_weights()
        versions = [trainer._host_weights_version for trainer in self._trainers]
        if versions != self._seen_versions:
            self._seen_versions = versions
            self.weights_to_device()

    def _look_for_trainers(self, program: Program) -> None:
        self._seen_epoch = tracking.epoch()
        self._trainers = [] if self.learner is not None else tracking.owners_of(program.weights.tensors)

    # ---- weights: which are the newest the library knows

    @property
    def is_newer(self) -> bool:
        """Whether what was trained on the device is newer than the host's weights."""
        program = self.program
        return self.learner is not None and program is not None and program.module.is_behind()

    @property
    def version(self) -> int:
        """Of the host's weights, for those that follow this one's training: another number whenever they have changed."""
        program = self.program
        return 0 if program is None else program.module.version()

    def fetch_weights(self) -> bool:
        """Bring weights from the device if the host's are older; whether they were."""
        if not self.is_newer:
            return False
        logger.debug("Implicit copyWeightsToHost()")
        if not self._to_host():
            self.weights_to_host()
        return True

    def weights_to_host(self) -> None:
        with self.lock:
            program = self.compiled()
            program.weights.take(program.executor)

    def weights_to_device(self) -> None:
        with self.lock:
            program = self.compiled()
            program.weights.give()
            if self.is_attached:
                program.executor.copy_weights_to_device()

    def write_weights(self, names: Iterable[str]) -> None:
        """Some of them alone."""
        with self.lock:
            program = self.compiled()
            if self.is_attached:  # else all of them reach it when it is
                program.weights.write(program.executor, names)

    # ---- the device

    def attach(self) -> None:
        """Take a device."""
        program = self.compiled()
        if self.learner is not None:
            self.learner.before_attach(program)
        program.attach()
        self.is_attached = True
        self._attached()

    def _attached(self) -> None:
        program = self.compiled()
        if self.learner is not None:
            self.learner.on_attach(program)
        self._look_for_trainers(program)
        self._seen_versions = [trainer._host_weights_version for trainer in self._trainers]
        if self._rng_state is not None:
            program.set_rng_state(self._rng_state)

    def detach(self) -> None:
        """Give the device back; weights and states are brought to the host before."""
        with self.lock:
            program = self.compiled()
            if not self.is_attached:
                raise UsageError("Device is not attached")
            self._rng_state = self.rng_state
            if self.learner is not None:
                self.fetch_weights()
                self.learner.on_detach(program)
            program.detach()
            self.is_attached = False

    def release(self) -> None:
        """Let go what was compiled, if anything; weights and states of the optimizer reach the host before."""
        program = self.program
        if program is None:
            return
        if self.learner is not None:
            self.fetch_weights()
            if self.is_attached:
                self.learner.on_detach(program)
            self.learner.close()
        self.program = None
        self.is_attached = False
        for compiled in self.programs:
            compiled.close()
        self.programs.clear()
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    # ---- random numbers

    @property
    def rng_state(self) -> List[int]:
        """The seed of random numbers on the device, and how far each replica has drawn from it."""
        program = self.compiled()
        if self._rng_state is None and self.is_attached:
            self._rng_state = program.rng_state()
        return list(self._rng_state or [program.seed])

    @rng_state.setter
    def rng_state(self, state: Sequence[int]) -> None:
        program = self.compiled()
        self._rng_state = list(state)
        if self.is_attached:
            program.set_rng_state(self._rng_state)
