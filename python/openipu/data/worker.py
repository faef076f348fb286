"""The loading process: it iterates over a dataset, ahead of who uses its batches.

Two pipes join it to the host process. Batches, ends and errors go one way in order, as small messages; what the host
wants goes the other way. Both sides sleep in a read: there is no polling, and the death of either side is an end of
file for the other.
"""

from __future__ import annotations

import enum
import math
import os
import pickle
import select
import signal
import struct
import sys
import time
import traceback
import weakref
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Iterator, Optional

import torch
from torch._utils import ExceptionWrapper

from ..error import UsageError
from ..log import logger
from .fetch import Token, batches_of, fill_slots
from .ring import Arena, Layout, SharedFile, tensors_of

MESSAGE = struct.Struct("<iiiI")  # kind, slot, rows, bytes that follow
COMMAND = struct.Struct("<ii")  # kind, slot
_POLL_SECONDS = 0.002


class Message(enum.IntEnum):
    """From the loading process to the host."""
    READY = 0  # the layout is in the shared file
    BATCH = 1  # a batch is in a slot
    END = 2  # of the dataset
    RESTARTED = 3  # everything before this is void
    ERROR = 4  # an exception follows, and then nothing


class Command(enum.IntEnum):
    """From the host to the loading process."""
    RELEASE = 0  # a slot
    START = 1  # the next iteration has begun
    RESTART = 2  # begin again; all slots are released
    QUIT = 3


@dataclass
class Settings:
    """What a loading process is told.

    ``dataset``: any iterable of structures of tensors. ``buffer_size``: how many batches the ring holds.
    ``load_indefinitely``: it goes on with the next iteration ahead of the time. ``early_preload``: so with the first.
    ``rebatched_size``: rows that are joined to one batch. ``name``: what messages call the loader;
    ``to_fork``: how it is told to be forked.
    """
    dataset: Any
    buffer_size: int
    load_indefinitely: bool
    early_preload: bool
    rebatched_size: Optional[int]
    seed: int
    name: str = "AsynchronousLoader"
    to_fork: str = 'method="fork"'
    dataset_file: Optional[str] = None


class _Quit(Exception):
    pass


class _Restart(Exception):
    pass


_pipe_ends: "weakref.WeakSet[Connection]" = weakref.WeakSet()


def keep_from_children(end: Connection) -> None:
    """Close a pipe's end in processes that are forked from this one, so that the other end sees when this one dies."""
    _pipe_ends.add(end)


def _close_pipe_ends() -> None:
    for end in list(_pipe_ends):
        end.close()


os.register_at_fork(after_in_child=_close_pipe_ends)


class _HostLink:
    """The pipes, as the loading process sees them."""
    def __init__(self, messages: Connection, commands: Connection, loader: "Loader") -> None:
        self._messages = messages
        self._commands = commands
        self._loader = loader
        self._poll = select.poll()
        self._poll.register(commands.fileno(), select.POLLIN)
        self._polled = 0.0
        self._partial = b""
        self.started = 0

    def send(self, kind: Message, slot: int = 0, rows: int = 0, payload: bytes = b"") -> None:
        data = memoryview(MESSAGE.pack(kind, slot, rows, len(payload)) + payload)
        try:
            while data:
                data = data[os.write(self._messages.fileno(), data):]
        except BrokenPipeError:
            raise _Quit() from None

    def poll(self) -> None:
        """Do what the host has asked for by now. What is not seen here is seen soon, when the ring is full."""
        now = time.monotonic()
        if now - self._polled > _POLL_SECONDS:
            self._polled = now
            if self._poll.poll(0):
                self.wait()

    def wait(self) -> None:
        """Do what the host asks for next."""
        data = os.read(self._commands.fileno(), 4096)
        if not data:
            raise _Quit()
        data = self._partial + data
        n_whole = len(data) // COMMAND.size * COMMAND.size
        self._partial = data[n_whole:]
        restart = False
        for kind, slot in COMMAND.iter_unpack(data[:n_whole]):
            if kind == Command.RELEASE:
                self._loader.release(slot)
            elif kind == Command.START:
                self.started += 1
            elif kind == Command.RESTART:
                restart = True
            else:
                raise _Quit()
        if restart:
            raise _Restart()


class Loader:
    """Iterates over a dataset and puts its batches into slots."""
    def __init__(self, settings: Settings, file: SharedFile, messages: Connection, commands: Connection) -> None:
        self._settings = settings
        self._dataset = settings.dataset
        self._file = file
        self._host = _HostLink(messages, commands, self)
        self._arena: Optional[Arena] = None
        self._queued: set = set()
        self._joining: Optional[int] = None
        self._joined_rows = 0
        self._drop_last = getattr(self._dataset, "rebatched_drop_last", True)
        self._iterator: Optional[Iterator[Any]] = None

    def run(self) -> None:
        """Load until the host has had enough."""
        try:
            self._prepare()
            self._load_epochs()
        except _Quit:
            logger.debug("%s worker: clean exit", self._settings.name)
        except Exception:  # pylint: disable=broad-except
            self._report_error()
        finally:
            self._stop_workers()

    def release(self, slot: int) -> None:
        """Take back a slot that the host has had."""
        self._queued.discard(slot)
        self._arena.give_back(slot)

    def _stop_workers(self) -> None:
        self._iterator = None
        if getattr(self._dataset, "_iterator", None) is not None:
            self._dataset._iterator = None  # pylint: disable=protected-access

    def _report_error(self) -> None:
        error = ExceptionWrapper(where=f"in the {self._settings.name} worker process")
        if self._arena is None:
            traceback.print_exc()
        try:
            payload = pickle.dumps(error)
        except Exception:  # pylint: disable=broad-except
            error.exc_type = RuntimeError
            payload = pickle.dumps(error)
        try:
            self._host.send(Message.ERROR, payload=payload)
        except _Quit:
            pass

    # Setting up

    def _prepare(self) -> None:
        if self._settings.dataset_file is not None:
            with open(self._settings.dataset_file, "rb") as file:
                self._dataset = pickle.load(file)
            self._drop_last = getattr(self._dataset, "rebatched_drop_last", True)
        n_workers = fill_slots(self._dataset, self._file, self._reclaim)
        self._iterator = batches_of(self._dataset)
        first = next(self._iterator, None)
        if first is None:
            raise UsageError("The Dataset is empty")
        depth = self._settings.buffer_size
        slots = [depth + 2]
        if n_workers > 0:
            ahead = getattr(self._dataset, "prefetch_factor", None) or 2
            slots += [ahead + math.ceil(depth / n_workers) + 2] * n_workers
        layout = Layout(first, self._settings.rebatched_size, slots)
        self._arena = Arena.create(self._file, layout)
        self._host.send(Message.READY)
        self._accept(first)

    def _reclaim(self) -> None:
        """Take back the slots of batches that nobody has waited for: the workers are idle."""
        if self._arena is not None:
            for slot in range(self._arena.layout.slots[0], self._arena.layout.n_slots):
                if slot not in self._queued:
                    self._arena.give_back(slot)

    # Iterating

    def _load_epochs(self) -> None:
        epoch = 0
        while True:
            try:
                self._await_epoch(epoch)
                if self._iterator is None:
                    self._iterator = batches_of(self._dataset)
                for batch in self._iterator:
                    self._accept(batch)
                self._iterator = None
                self._finish_joining()
                self._host.send(Message.END)
                epoch += 1
            except _Restart:
                epoch = 0
                self._restart()

    def _await_epoch(self, epoch: int) -> None:
        """Wait until an epoch may be loaded: it has begun, or is the next one and may be loaded ahead."""
        ahead = self._settings.early_preload if epoch == 0 else self._settings.load_indefinitely
        while epoch >= self._host.started + int(ahead):
            self._host.wait()

    def _restart(self) -> None:
        self._iterator = None
        self._queued.clear()
        self._joining = None
        self._joined_rows = 0
        for slot in self._arena.layout.range_of(0):
            self._arena.give_back(slot)
        self._host.started = 1
        self._host.send(Message.RESTARTED)

    # Batches

    def _accept(self, batch: Any) -> None:
        """Hand a batch over, or join it with others."""
        if self._settings.rebatched_size is not None:
            self._join(batch)
        elif isinstance(batch, Token):
            self._hand_over(batch.slot, batch.rows)
        else:
            slot = self._own_slot()
            self._hand_over(slot, self._store(slot, batch))

    def _own_slot(self) -> int:
        slot = self._arena.take(0)
        while slot is None:
            self._host.wait()
            slot = self._arena.take(0)
        return slot

    def _store(self, slot: int, batch: Any) -> int:
        tensors = tensors_of(batch, self._arena.layout.structure)
        rows = self._arena.store(slot, tensors)
        if rows is None:
            found = ", ".join(f"{list(tensor.shape)} of {tensor.dtype}" for tensor in tensors)
            raise UsageError(
                f"{self._settings.name} expects batches like the first one, or with fewer rows: "
                f"{self._arena.layout.describe()}; found {found}. Pad batches to one size")
        return rows

    def _hand_over(self, slot: int, rows: int) -> None:
        self._host.poll()
        while len(self._queued) >= self._settings.buffer_size:
            self._host.wait()
        self._queued.add(slot)
        self._host.send(Message.BATCH, slot, rows)

    def _join(self, batch: Any) -> None:
        """Add a batch's rows to those of the batch that is being joined; hand that over whenever it is full."""
        arena = self._arena
        if isinstance(batch, Token):
            if batch.rows == arena.layout.rows and self._joined_rows == 0:
                self._hand_over(batch.slot, batch.rows)
                return
            self._join_rows(arena.batch(batch.slot, batch.rows))
            arena.give_back(batch.slot)
        else:
            self._join_rows(tensors_of(batch, arena.layout.structure))

    def _join_rows(self, tensors: Any) -> None:
        n_rows, first = len(tensors[0]), 0
        while first < n_rows:
            if self._joining is None:
                self._joining = self._own_slot()
            count = min(n_rows - first, self._arena.layout.rows - self._joined_rows)
            for target, tensor in zip(self._arena.views(self._joining), tensors):
                target[self._joined_rows:self._joined_rows + count].copy_(tensor[first:first + count])
            first += count
            self._joined_rows += count
            if self._joined_rows == self._arena.layout.rows:
                self._hand_over_joined()

    def _hand_over_joined(self) -> None:
        slot, rows = self._joining, self._joined_rows
        self._joining, self._joined_rows = None, 0
        self._hand_over(slot, rows)

    def _finish_joining(self) -> None:
        if self._joined_rows > 0 and not self._drop_last:
            self._hand_over_joined()
        self._joined_rows = 0


def main(settings: Settings, file: SharedFile, messages: Connection, commands: Connection) -> None:
    """The body of the loading process."""
    # Ctrl-C reaches the whole process group: the host decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for end in (messages, commands):
        keep_from_children(end)
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    logger.debug("%s worker process: %d", settings.name, os.getpid())
    Loader(settings, file, messages, commands).run()
