"""AsynchronousDataAccessor: batches that a process of their own loads ahead of the time."""

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
from typing import Any, Deque, Dict, Iterator, List, Optional, Tuple

import torch
import torch.multiprocessing as multiprocessing
import torch.utils.data

from .._args import rebuild
from .._errors import createPoptorchError
from .._logging import logger
from .._run import ending
from ..enums import SharingStrategy
from . import worker
from .ring import Arena, SharedFile
from .worker import COMMAND, MESSAGE, Command, Message, Settings

_METHODS: Dict[SharingStrategy, str] = {
    SharingStrategy.SharedMemory: "spawn",
    SharingStrategy.FileSystem: "spawn",
    SharingStrategy.Fork: "fork",
    SharingStrategy.ForkServer: "forkserver",
}
_SHUTDOWN_SECONDS = 5.0
# At exit multiprocessing runs its own finalizers of priority 0 and above and then joins every process that is left, for
# as long as it takes. Finalizers of weakref or atexit may come only after that, so these must be multiprocessing's.
_EXIT_PRIORITY = 10


def _context(strategy: SharingStrategy) -> Any:
    method = _METHODS[SharingStrategy(strategy)]
    if method == "forkserver":
        server = forkserver._forkserver  # pylint: disable=protected-access
        if getattr(server, "_preload_modules", None) == ["__main__"]:
            # Otherwise every loading process imports torch anew.
            forkserver.set_forkserver_preload(["__main__", __name__])
    return multiprocessing.get_context(method)


class _Finder(pickle.Pickler):
    """Looks for what ``__main__`` defines, in all that an object consists of."""
    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.found = False

    def reducer_override(self, obj: Any) -> Any:
        self.found = self.found or getattr(obj, "__module__", None) == "__main__"
        return (int, ()) if isinstance(obj, torch.Tensor) else NotImplemented


def _settled(strategy: SharingStrategy, dataset: Any) -> SharingStrategy:
    """The strategy that was asked for; but what a notebook or an interactive session defines no other process can
    import, so that one is forked for it."""
    if strategy == SharingStrategy.Fork or hasattr(sys.modules["__main__"], "__file__"):
        return strategy
    finder = _Finder()
    try:
        finder.dump(dataset)
    except (AttributeError, TypeError, pickle.PicklingError):
        finder.found = True
    if finder.found:
        logger.info("The dataset is defined in an interactive session: its loading process is forked "
                    "(poptorch.SharingStrategy.Fork)")
    return SharingStrategy.Fork if finder.found else strategy


class _Process:
    """A loading process, and the pipes to it."""
    def __init__(self, settings: Settings, strategy: SharingStrategy) -> None:
        context = _context(strategy)
        self.file = SharedFile()
        self._messages, messages = context.Pipe(duplex=False)
        commands, self._commands = context.Pipe(duplex=False)
        self._process = context.Process(target=worker.main, args=(settings, self.file, messages, commands))
        try:
            self._process.start()
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise createPoptorchError(
                f"The dataset of an AsynchronousDataAccessor cannot be sent to its process ({error}). Use functions "
                "and classes of a module's top level, or sharing_strategy=poptorch.SharingStrategy.Fork") from error
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
            raise createPoptorchError("The process of this AsynchronousDataAccessor has ended: make another one")
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
            raise createPoptorchError("The AsynchronousDataAccessor worker process has died: exit code "
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
    def __init__(self, settings: Settings, strategy: SharingStrategy) -> None:
        logger.debug("AsynchronousDataAccessor parent process: %d", os.getpid())
        self._buffer_size = settings.buffer_size
        if strategy == SharingStrategy.FileSystem:
            with tempfile.TemporaryDirectory() as folder:
                self._start(_in_file(settings, folder), strategy)
        else:
            self._start(settings, strategy)
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

    def _start(self, settings: Settings, strategy: SharingStrategy) -> None:
        self._process = _Process(settings, strategy)
        self._stop = util.Finalize(self, self._process.stop, exitpriority=_EXIT_PRIORITY)
        try:
            kind, _, _, payload = self._process.receive()
        except BaseException as error:
            self._stop()
            if isinstance(error, Exception):
                raise createPoptorchError(f"AsynchronousDataAccessor worker thread failed to start: {error}") from error
            raise
        if kind == Message.ERROR:
            self._stop()
            raise createPoptorchError("AsynchronousDataAccessor worker thread failed to start: " +
                                      pickle.loads(payload).exc_msg)
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


class AsynchronousDataAccessor:
    """Iterates over a dataset, or a data loader, that a process of its own reads ahead of the time.

    That process fills a ring of batches in shared memory, and the batch a model needs next is there when it asks.
    What is yielded is a view of that memory: it is overwritten after the next batch has been asked for. Clone it to
    keep it.

    With ``rebatched_size``, rows that do not fill a last batch are dropped, unless the dataset is a
    ``poptorch.DataLoader`` with ``drop_last=False``.
    """
    def __init__(self, dataset: Any, buffer_size: int = 3, miss_sleep_time_in_ms: float = 0.1,
                 load_indefinitely: bool = True, early_preload: bool = False,
                 sharing_strategy: SharingStrategy = SharingStrategy.ForkServer,
                 rebatched_size: Optional[int] = None) -> None:
        """
        :param dataset: What to iterate over: any iterable of tensors, or of tuples, lists, dicts or registered
            containers of tensors.
        :param buffer_size: How many batches the ring holds.
        :param miss_sleep_time_in_ms: Accepted for compatibility: nothing polls here, so nothing sleeps.
        :param load_indefinitely: Go on with the next iteration ahead of the time when the end of the dataset is
            reached.
        :param early_preload: Fill the ring at once, rather than when the first iteration begins.
        :param sharing_strategy: How the process is made and gets the dataset. A dataset of a class that a notebook
            defines is always shared by ``Fork``.
        :param rebatched_size: Join batches of the dataset to batches of so many rows.
        """
        del miss_sleep_time_in_ms
        self._worker: Optional[AsynchronousWorker] = None
        _check(dataset, buffer_size, rebatched_size)
        self._dataset = dataset
        self.rebatched_size = rebatched_size
        seed = int(torch.empty((), dtype=torch.int64).random_())
        settings = Settings(dataset, buffer_size, load_indefinitely, early_preload, rebatched_size, seed)
        self._worker = AsynchronousWorker(settings, _settled(sharing_strategy, dataset))

    def terminate(self) -> None:
        """End the loading process. The accessor cannot be used any more."""
        if self._worker is not None:
            self._worker.terminate()
            self._worker = None

    def __len__(self) -> int:
        length = len(self._dataset)
        if self.rebatched_size and getattr(self._dataset, "_accessor", None) is not self:
            return length * (getattr(self._dataset, "batch_size", None) or 1) // self.rebatched_size
        return length

    def __iter__(self) -> Iterator[Any]:
        self._running().reset_iterator()
        return self

    def __next__(self) -> Any:
        return self._running().next_batch()

    def _running(self) -> AsynchronousWorker:
        assert self._worker is not None, "This AsynchronousDataAccessor has been terminated: make another one"
        return self._worker


def _check(dataset: Any, buffer_size: int, rebatched_size: Optional[int]) -> None:
    assert buffer_size > 0, f"buffer_size must be positive: found {buffer_size}"
    assert rebatched_size is None or rebatched_size > 1, (
        f"rebatched_size must be None or greater than 1: found {rebatched_size}")
    if not hasattr(dataset, "combinedBatchSize"):
        return
    if dataset._accessor is not None:  # pylint: disable=protected-access
        raise createPoptorchError(
            "The DataLoader already uses an AsynchronousDataAccessor internally. Iterate over the DataLoader, or "
            "make it with mode=poptorch.DataLoaderMode.Sync")
    if rebatched_size is None and not dataset.drop_last and not dataset.has_batch_sampler:
        assert dataset.combinedBatchSize in (None, 1), (
            "The 'drop_last=False' option of the DataLoader only works if 'rebatched_size' is specified too")
