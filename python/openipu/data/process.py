"""Batches that a process of their own loads ahead of the time: the side of who uses them."""

from __future__ import annotations

import collections
import io
import os
import pickle
import select
import signal
import sys
import tempfile
from multiprocessing import forkserver, util
from typing import Any, Callable, Deque, List, Optional, Tuple

import torch
import torch.multiprocessing as multiprocessing
import torch.utils.data

from .. import ending
from ..error import UsageError
from ..log import logger
from ..structures import rebuild
from . import worker
from .ring import Arena, SharedFile
from .worker import COMMAND, MESSAGE, Command, Message, Settings

Main = Callable[..., None]

_SHUTDOWN_SECONDS = 5.0
# At exit multiprocessing runs its own finalizers of priority 0 and above and then joins every process that is left, for
# as long as it takes. Finalizers of weakref or atexit may come only after that, so these must be multiprocessing's.
_EXIT_PRIORITY = 10


def _context(method: str, preload: str) -> Any:
    if method == "forkserver":
        server = forkserver._forkserver  # pylint: disable=protected-access
        if getattr(server, "_preload_modules", None) == ["__main__"]:
            # Otherwise every loading process imports torch anew.
            forkserver.set_forkserver_preload(["__main__", preload])
    return multiprocessing.get_context(method)


class _Finder(pickle.Pickler):
    """Looks for what ``__main__`` defines, in all that an object consists of."""
    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.found = False

    def reducer_override(self, obj: Any) -> Any:
        self.found = self.found or getattr(obj, "__module__", None) == "__main__"
        return (int, ()) if isinstance(obj, torch.Tensor) else NotImplemented


def must_fork(dataset: Any) -> bool:
    """Whether a dataset is of what a notebook or an interactive session defines, which no other process can import."""
    if hasattr(sys.modules["__main__"], "__file__"):
        return False
    finder = _Finder()
    try:
        finder.dump(dataset)
    except (AttributeError, TypeError, pickle.PicklingError):
        return True
    return finder.found


class _Process:
    """A loading process, and the pipes to it."""
    def __init__(self, settings: Settings, method: str, main: Main) -> None:
        self._name = settings.name
        context = _context(method, main.__module__)
        self.file = SharedFile()
        self._messages, messages = context.Pipe(duplex=False)
        commands, self._commands = context.Pipe(duplex=False)
        self._process = context.Process(target=main, args=(settings, self.file, messages, commands))
        try:
            self._process.start()
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise UsageError(
                f"The dataset of this {self._name} cannot be sent to its process ({error}). Use functions and classes "
                f"of a module's top level, or {settings.to_fork}") from error
        messages.close()
        commands.close()
        for end in (self._messages, self._commands):
            worker.keep_from_children(end)
        self._input = b""
        self._pending: Deque[Tuple[int, int, int, bytes]] = collections.deque()
        self._owner = os.getpid()
        self._alive = True

    def send(self, kind: Command, slot: int = 0) -> None:
        try:
            os.write(self._end(self._commands), COMMAND.pack(kind, slot))
        except BrokenPipeError:
            pass  # why it died is in its messages
        except OSError:
            self._end(self._commands)  # closed by another thread just now
            raise

    def _end(self, pipe: Any) -> int:
        """The descriptor of a pipe to the process, if there is one still."""
        if pipe.closed:
            ending.wait_if_ending()
            raise UsageError(f"The process of this {self._name} has ended: make another one")
        return pipe.fileno()

    def receive(self) -> Tuple[int, int, int, bytes]:
        """The next message: kind, slot, rows, payload."""
        while not self._pending:
            self._read()
        return self._pending.popleft()

    def n_batches(self) -> int:
        """How many batches are there to receive without waiting."""
        poll = select.poll()
        poll.register(self._end(self._messages), select.POLLIN)
        while poll.poll(0):
            self._read()
        return sum(message[0] == Message.BATCH for message in self._pending)

    def _read(self) -> None:
        try:
            data = os.read(self._end(self._messages), 65536)
        except OSError:
            self._end(self._messages)  # closed by another thread just now
            raise
        if not data:
            ending.wait_if_ending()
            self._process.join(timeout=_SHUTDOWN_SECONDS)
            raise UsageError(f"The {self._name} worker process has died: exit code "
                             f"{self._process.exitcode} (a negative one is the number of a signal)")
        data = self._input + data if self._input else data
        while len(data) >= MESSAGE.size:
            kind, slot, rows, n_bytes = MESSAGE.unpack_from(data)
            if len(data) < MESSAGE.size + n_bytes:
                break
            self._pending.append((kind, slot, rows, data[MESSAGE.size:MESSAGE.size + n_bytes]))
            data = data[MESSAGE.size + n_bytes:]
        self._input = data

    def stop(self) -> None:
        """End the process, whatever it takes. Only the process that has started it does."""
        if not self._alive or os.getpid() != self._owner:
            return
        self._alive = False
        self.send(Command.QUIT)
        self._messages.close()
        self._commands.close()
        self._process.join(timeout=_SHUTDOWN_SECONDS)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.exitcode is None:
                os.kill(self._process.pid, number)
                self._process.join(timeout=_SHUTDOWN_SECONDS)
        self._process.close()


class AsynchronousWorker:
    """The host's side of a loading process: hands its batches out one by one, in slots of shared memory."""
    def __init__(self, settings: Settings, method: str = "forkserver", in_file: bool = False,
                 main: Main = worker.main) -> None:
        """``method``: how the process is made, by multiprocessing's name. ``in_file``: the dataset goes through a file,
        rather than through memory. ``main``: the process's body, ``worker.main`` or what calls it."""
        logger.debug("%s parent process: %d", settings.name, os.getpid())
        self._name = settings.name
        self._buffer_size = settings.buffer_size
        if in_file:
            with tempfile.TemporaryDirectory() as folder:
                self._start(_in_file(settings, folder), method, main)
        else:
            self._start(settings, method, main)
        layout = self._arena.layout
        self._rows = layout.rows
        self._structure = layout.structure
        self._is_tensor = isinstance(layout.structure, torch.Tensor)
        self._is_list = type(layout.structure) is list and all(
            type(element) is torch.Tensor for element in layout.structure)
        self._held: Optional[int] = None
        self._started = False
        self._used = False
        self._ended = False

    def _start(self, settings: Settings, method: str, main: Main) -> None:
        self._process = _Process(settings, method, main)
        self._stop = util.Finalize(self, self._process.stop, exitpriority=_EXIT_PRIORITY)
        try:
            kind, _, _, payload = self._process.receive()
        except BaseException as error:
            self._stop()
            if isinstance(error, Exception):
                raise UsageError(f"{self._name} worker thread failed to start: {error}") from error
            raise
        if kind == Message.ERROR:
            self._stop()
            raise UsageError(f"{self._name} worker thread failed to start: {pickle.loads(payload).exc_msg}")
        self._arena = Arena.attach(self._process.file)

    def terminate(self) -> None:
        """End the loading process."""
        self._stop()

    @property
    def _data_buffers(self) -> "AsynchronousWorker":
        return self

    @property
    def indices_mem(self) -> List[bool]:
        """For each place of the ring: is a batch ready there?"""
        n_ready = self._process.n_batches()
        return [place < n_ready for place in range(self._buffer_size)]

    def reset_iterator(self) -> None:
        """Begin an iteration: at the first batch."""
        if self._started and not self._used and not self._ended:
            return
        if self._used and not self._ended:
            self._release()
            self._process.send(Command.RESTART)
            while self._receive()[0] != Message.RESTARTED:
                pass
        else:
            self._process.send(Command.START)
        self._started = True
        self._used = False
        self._ended = False

    def next_batch(self) -> Any:
        """The next batch. What the last one was in is given back."""
        ending.stop_if_ending()
        if self._held is not None:
            self._release()
        if self._ended:
            raise StopIteration
        kind, slot, rows = self._receive()
        if kind == Message.END:
            self._ended = True
            raise StopIteration
        self._held = slot
        self._used = True
        tensors = self._arena.views(slot) if rows == self._rows else self._arena.batch(slot, rows)
        if self._is_tensor:
            return tensors[0]
        return list(tensors) if self._is_list else rebuild(self._structure, iter(tensors))

    def _release(self) -> None:
        if self._held is not None:
            self._process.send(Command.RELEASE, self._held)
            self._held = None

    def _receive(self) -> Tuple[int, int, int]:
        kind, slot, rows, payload = self._process.receive()
        if kind == Message.ERROR:
            self._stop()
            pickle.loads(payload).reraise()
        return kind, slot, rows


def _in_file(settings: Settings, folder: str) -> Settings:
    """The same settings, with the dataset in a file rather than in memory that is shared."""
    path = os.path.join(folder, "dataset.pickle")
    logger.debug("Serialising dataset to file: %s", path)
    with open(path, "wb") as file:
        pickle.dump(settings.dataset, file)
    return Settings(**{**vars(settings), "dataset": None, "dataset_file": path})
