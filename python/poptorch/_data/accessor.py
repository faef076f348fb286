"""AsynchronousDataAccessor: batches that a process of their own loads ahead of the time."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Tuple

import torch

from openipu import error as ipu_error
from openipu.data import worker
from openipu.data.process import AsynchronousWorker, must_fork

from .._errors import createPoptorchError, from_library, library_errors
from .._logging import logger
from ..enums import SharingStrategy

#: How the process is made, and whether the dataset goes through a file.
_METHODS: Dict[SharingStrategy, Tuple[str, bool]] = {
    SharingStrategy.SharedMemory: ("spawn", False),
    SharingStrategy.FileSystem: ("spawn", True),
    SharingStrategy.Fork: ("fork", False),
    SharingStrategy.ForkServer: ("forkserver", False),
}


def _main(*arguments: Any) -> None:
    """The body of the loading process, which has this package's log because this is of it."""
    worker.main(*arguments)


def _settled(strategy: SharingStrategy, dataset: Any) -> SharingStrategy:
    """The strategy that was asked for, but where the process has to be forked."""
    strategy = SharingStrategy(strategy)
    if strategy == SharingStrategy.Fork or not must_fork(dataset):
        return strategy
    logger.info("The dataset is defined in an interactive session: its loading process is forked "
                "(poptorch.SharingStrategy.Fork)")
    return SharingStrategy.Fork


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
        settings = worker.Settings(dataset, buffer_size, load_indefinitely, early_preload, rebatched_size, seed,
                                   type(self).__name__, "sharing_strategy=poptorch.SharingStrategy.Fork")
        method, in_file = _METHODS[_settled(sharing_strategy, dataset)]
        with library_errors():
            self._worker = AsynchronousWorker(settings, method, in_file, _main)

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
        with library_errors():
            self._running().reset_iterator()
        return self

    def __next__(self) -> Any:
        try:
            return self._running().next_batch()
        except ipu_error.Error as error:
            raise from_library(error) from None

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
