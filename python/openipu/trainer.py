"""Trainers of libipu (ipu/trainer.h): a whole training, with tests, checkpoints, logs, and going on from them.

    options = TrainerOptions(n_epochs=5, loader=LoaderOptions(batch_size=16, shuffle=True),
                             training=Training(Optimizer(rate=0.01, momentum=0.9)), log_folder="runs/1")
    trainer = Trainer(module, Dataset.from_arrays({"x": x, "y": y}), test, options)
    print(trainer.run().epochs[-1].test_accuracy)

All of it is C's: this passes on what it is told, and what it tells.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import weakref
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_int, c_int64, c_void_p, cast
from typing import Any, Callable, Iterator, List, NamedTuple, Optional

from .abi import Record
from .arrays import numpy_over
from .dataset import Dataset
from .error import Error
from .executor import Module, executor_options_of, fill, training_of
from .library import ProgressFn, Shape, check, declare, finalizer, lib
from .settings import RateSchedule, TrainerOptions


class _CLoaderOptions(Record):
    _name_ = "ipu_loader_options"


class _CSchedule(Record):
    _name_ = "ipu_schedule"


class _CEvents(Record):
    _name_ = "ipu_trainer_events"


class _CBatch(Record):
    _name_ = "ipu_batch"


class Step(Record):
    """ipu_trainer_step: epoch, batch, n_epochs, n_batches, n_samples, rate, loss, mean_loss, accuracy, samples_per_second, seconds_left."""
    _name_ = "ipu_trainer_step"


class Test(Record):
    """ipu_trainer_test: batch, n_batches, accuracy."""
    _name_ = "ipu_trainer_test"


class Epoch(Record):
    """ipu_trainer_epoch: loss, accuracy, test_loss, test_accuracy, seconds, n_samples."""
    _name_ = "ipu_trainer_epoch"


class _CResults(Record):
    # It and the next have others as members, which come first: ctypes takes no other class.
    _name_ = "ipu_trainer_results"


class _COptions(Record):
    _name_ = "ipu_trainer_options"


_SimpleFn = CFUNCTYPE(None, c_void_p)
_StructureFn = CFUNCTYPE(None, c_void_p, c_void_p)
_EpochFn = CFUNCTYPE(None, c_void_p, c_int64, c_void_p)
_TextFn = CFUNCTYPE(None, c_void_p, c_char_p)
_MessageFn = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
_RateFn = CFUNCTYPE(c_double, c_void_p, c_int64, c_int64)
_MetricFn = CFUNCTYPE(c_double, c_void_p, c_void_p, c_void_p)

declare("ipu_trainer_create", c_int, [c_void_p, POINTER(c_void_p)])
declare("ipu_trainer_destroy", None, [c_void_p])
declare("ipu_trainer_run", c_int, [c_void_p])
declare("ipu_trainer_interrupt", None, [c_void_p])
declare("ipu_trainer_stop", None, [c_void_p])
declare("ipu_trainer_save_checkpoint", c_int, [c_void_p])
declare("ipu_trainer_get_results", None, [c_void_p, c_void_p])


class Events:
    """What a trainer tells, as methods to override. What one of them raises interrupts the training, and ``run`` raises it."""

    def compiled(self) -> None:
        """Once, before the first run."""

    def step(self, step: Step) -> None:
        """After a run of the device."""

    def testing(self, test: Test) -> None:
        """After a batch of the test set."""

    def epoch(self, i: int, epoch: Epoch) -> None:
        """Epoch i, from 0, is trained and tested."""

    def checkpoint(self, path: str) -> None:
        """A checkpoint was written."""

    def message(self, level: int, text: str) -> None:
        """Where it goes on from, and warnings; to the log, unless this is overridden."""


class Results(NamedTuple):
    """ipu_trainer_results"""
    epochs: List[Epoch]
    runs: int
    runs_per_epoch: int
    seconds: float
    n_samples: float
    points: List[float]
    runs_per_point: int
    resumed_from: int
    last_saved: int
    has_diverged: bool


class Trainer:
    """A training of `module` with `data`, tested with `test`. The process that others train together with has its events called."""

    def __init__(self, module: Module, data: Dataset, test: Optional[Dataset] = None, options: Optional[TrainerOptions] = None,
                 events: Optional[Events] = None):
        self.module = module
        self.options = options or TrainerOptions()
        self.events = events or Events()
        self._raised: Optional[BaseException] = None
        self._kept: List[object] = []  # what C borrows
        self._handles = [part.handle for part in (module, data, test) if part is not None]
        for handle in self._handles:
            handle.use()
        self.pointer = c_void_p()
        own = self._c_options(data, test)
        check(lib().ipu_trainer_create(byref(own), byref(self.pointer)))
        self._progress = self._callback(ProgressFn, self._on_progress)

    # ---- what C is told

    def _c_options(self, data: Dataset, test: Optional[Dataset]) -> _COptions:
        options = self.options
        own = fill(_COptions(), options)
        own.module = self.module.handle.pointer
        own.data = data.handle.pointer
        own.test = test.handle.pointer if test is not None else None
        own.input = Shape.of(tuple(options.input))
        own.executor = executor_options_of(options.executor, self._kept)
        own.training = training_of(options.training)
        own.loader = fill(_CLoaderOptions(), options.loader)
        own.schedule = _schedule_of(options.schedule)
        for name in ("checkpoint_folder", "log_folder"):
            folder = getattr(options, name)
            setattr(own, name, None if folder is None else os.fsencode(folder))
        own.model = None if options.model is None else options.model.encode()
        own.settings = None if options.settings is None else json.dumps(options.settings).encode()
        if options.may_differ:
            own.may_differ = (c_char_p * len(options.may_differ))(*[name.encode() for name in options.may_differ])
            own.n_may_differ = len(options.may_differ)
        if options.rate is not None:
            own.rate = cast(self._callback(_RateFn, self._on_rate), c_void_p)
        if options.metric is not None:
            own.metric = cast(self._callback(_MetricFn, self._on_metric), c_void_p)
        own.events = self._c_events()
        self._kept.append(own)
        return own

    def _c_events(self) -> _CEvents:
        own = _CEvents()
        own.compiled = cast(self._callback(_SimpleFn, self._on_compiled), c_void_p)
        own.step = cast(self._callback(_StructureFn, self._on_step), c_void_p)
        own.testing = cast(self._callback(_StructureFn, self._on_testing), c_void_p)
        own.epoch = cast(self._callback(_EpochFn, self._on_epoch), c_void_p)
        own.checkpoint = cast(self._callback(_TextFn, self._on_checkpoint), c_void_p)
        if type(self.events).message is not Events.message:
            own.message = cast(self._callback(_MessageFn, self._on_message), c_void_p)
        return own

    def _callback(self, kind: Any, method: Callable) -> Any:
        """No cycle: a trainer is freed when it is no longer used."""
        weak = weakref.WeakMethod(method)
        function = kind(lambda *arguments: weak()(*arguments))
        self._kept.append(function)
        return function

    # ---- what C tells: exceptions are kept for `run`, as C cannot pass them on

    def _call(self, function: Callable, *arguments: object) -> float:
        if self._raised is None:
            try:
                return function(*arguments)
            except BaseException as e:  # pylint: disable=broad-except
                self._raised = e
                lib().ipu_trainer_interrupt(self.pointer)
        return float("nan")

    @contextlib.contextmanager
    def _ctrl_c(self) -> Iterator[None]:
        """Its handler runs when C calls back, where nobody could catch what it raises."""
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            yield
            return
        signal.signal(signal.SIGINT, lambda number, frame: self._call(before, number, frame))
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _on_progress(self, _user: Optional[int], _done: int, _total: int) -> bool:
        return self._raised is None

    def _on_compiled(self, _user: Optional[int]) -> None:
        self._call(self.events.compiled)

    def _on_step(self, _user: Optional[int], step: int) -> None:
        self._call(lambda: self.events.step(_copy(Step, step)))

    def _on_testing(self, _user: Optional[int], test: int) -> None:
        self._call(lambda: self.events.testing(_copy(Test, test)))

    def _on_epoch(self, _user: Optional[int], i: int, epoch: int) -> None:
        self._call(lambda: self.events.epoch(i, _copy(Epoch, epoch)))

    def _on_checkpoint(self, _user: Optional[int], path: bytes) -> None:
        self._call(lambda: self.events.checkpoint(os.fsdecode(path)))

    def _on_message(self, _user: Optional[int], level: int, text: bytes) -> None:
        self._call(lambda: self.events.message(level, text.decode(errors="replace")))

    def _on_rate(self, _user: Optional[int], run: int, n_runs: int) -> float:
        return self._call(lambda: float(self.options.rate(run, n_runs)))

    def _on_metric(self, _user: Optional[int], executor: int, batch: int) -> float:

        def measure() -> float:
            own = _CBatch.from_address(batch)
            fields = [numpy_over(own.arrays[i]) for i in range(own.n_arrays)]
            outputs, name = {}, c_char_p()
            for i in range(lib().ipu_executor_n_outputs(executor)):
                array = lib().ipu_executor_output_at(executor, i, byref(name))
                outputs[name.value.decode()] = numpy_over(array.contents)
            return float(self.options.metric(outputs, fields, own.n_samples))

        return self._call(measure)

    # ---- running

    def _open(self) -> c_void_p:
        if not self.pointer:
            raise Error("this trainer was closed: make another one")
        return self.pointer

    def run(self) -> Results:
        """To the end. openipu.Error with status INTERRUPTED: ``interrupt`` was called; called again, it goes on. What an event raised,
        Ctrl-C too, is raised when a checkpoint is written; it goes on likewise."""
        with self._ctrl_c():
            lib().ipu_set_compile_progress(self._progress, None)
            try:
                status = lib().ipu_trainer_run(self._open())
            finally:
                lib().ipu_set_compile_progress(ProgressFn(), None)
        self._check(status)
        return self.results()

    def _check(self, status: int) -> None:
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        self.module.check_built(status)

    def interrupt(self) -> None:
        """From any thread, and from events: finishes the run in progress, and writes a checkpoint."""
        if self.pointer:
            lib().ipu_trainer_interrupt(self.pointer)

    def stop(self) -> None:
        """From any thread, and from events: the epoch that runs is the last."""
        if self.pointer:
            lib().ipu_trainer_stop(self.pointer)

    def save_checkpoint(self) -> None:
        """Now, between calls of ``run``, if this run has none."""
        self._check(lib().ipu_trainer_save_checkpoint(self._open()))

    def results(self) -> Results:
        """At any time, also in events."""
        own = _CResults()
        lib().ipu_trainer_get_results(self._open(), byref(own))
        epochs = [Epoch.from_buffer_copy(own.epochs[i]) for i in range(own.n_epochs)]
        return Results(epochs, own.runs, own.runs_per_epoch, own.seconds, own.n_samples, own.points[:own.n_points],
                       own.runs_per_point, own.resumed_from, own.last_saved, own.has_diverged)

    def close(self) -> None:
        """Nothing can be done with it afterwards."""
        pointer, self.pointer = getattr(self, "pointer", None), None
        if pointer:
            lib().ipu_trainer_destroy(pointer)
        handles, self._handles = getattr(self, "_handles", []), []
        for handle in handles:
            handle.drop()

    __del__ = finalizer(close)


def _schedule_of(schedule: RateSchedule) -> _CSchedule:
    c = fill(_CSchedule(), schedule)
    c.milestones = (c_double * len(schedule.milestones))(*schedule.milestones)  # the pointer keeps them alive
    c.n_milestones = len(schedule.milestones)
    return c


def _copy(kind: Any, address: int) -> Any:
    """Of a structure that is lent for a call."""
    return kind.from_buffer_copy(kind.from_address(address))
