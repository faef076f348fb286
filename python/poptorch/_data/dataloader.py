"""poptorch.DataLoader: a torch DataLoader whose batches feed all micro-batches of a model's run."""

from __future__ import annotations

import weakref
from typing import Any, Dict, Iterable, Iterator, Optional, Sequence, Union

import torch
import torch.utils.data

from openipu.data.parts import Part, joined

from .._errors import createPoptorchError
from .._logging import logger
from ..enums import DataLoaderMode
from ..options import Options
from .accessor import AsynchronousDataAccessor

__all__ = ["AsynchronousDataAccessor", "DataLoader"]


class DataLoader(torch.utils.data.DataLoader):
    """A ``torch.utils.data.DataLoader`` that does the arithmetic of batch sizes.

    ``batch_size`` is what the model's ``forward`` sees. A batch of the loader has as many rows as one call of the
    model takes: ``batch_size`` times device iterations, gradient accumulation and replicas
    (:py:attr:`combinedBatchSize`).

    When a program runs as several processes (``options.Distributed``) each one gets its own part of the dataset.
    """
    def __init__(self, options: Options, dataset: Any, batch_size: Optional[int] = 1, shuffle: Optional[bool] = None,
                 num_workers: int = 0, drop_last: bool = True, persistent_workers: Optional[bool] = None,
                 auto_distributed_partitioning: bool = True, mode: DataLoaderMode = DataLoaderMode.Sync,
                 async_options: Optional[Dict[str, Any]] = None, rebatched_worker_size: Optional[int] = None,
                 batch_sampler: Optional[Union[torch.utils.data.Sampler, Iterable[Sequence]]] = None,
                 **kwargs: Any) -> None:
        """
        :param options: The options of the model. They cannot be changed any more after this.
        :param dataset: The dataset to read.
        :param batch_size: The rows of a micro-batch. None: no batches are made, the dataset yields them.
        :param shuffle: Read the dataset in random order.
        :param num_workers: How many processes read the dataset; 0: none but this one.
        :param drop_last: Drop the rows that do not fill a last batch.
        :param persistent_workers: Keep the workers from one iteration to the next. Default: when there are workers.
        :param auto_distributed_partitioning: Give each process of a distributed program its part of the dataset.
        :param mode: ``Sync``: load in this process; ``Async``: by an :py:class:`AsynchronousDataAccessor`;
            ``AsyncRebatched``: by one that makes the batches out of smaller ones.
        :param async_options: Arguments of that accessor.
        :param rebatched_worker_size: With ``AsyncRebatched``, the rows that a worker loads at a time. Default: the
            combined batch size.
        :param batch_sampler: Yields the indices of micro-batches. It goes without ``batch_size`` and ``shuffle``.
        :param kwargs: Other arguments of ``torch.utils.data.DataLoader``.
        """
        assert isinstance(options, Options), f"options must be a poptorch.Options: found {type(options).__name__}"
        assert isinstance(mode, DataLoaderMode), f"mode must be a poptorch.DataLoaderMode: found {mode!r}"
        assert isinstance(dataset, torch.utils.data.IterableDataset) or hasattr(dataset, "__getitem__"), (
            "dataset must be a torch.utils.data.Dataset, or another thing that is indexed: found "
            f"{type(dataset).__name__}")
        self.has_batch_sampler = batch_sampler is not None
        if self.has_batch_sampler:
            _check_batch_sampler(options, batch_size, shuffle, auto_distributed_partitioning)
            batch_size = getattr(batch_sampler, "batch_size", batch_size)
        options._freeze()  # pylint: disable=protected-access
        self._options = options
        self._accessor: Optional[AsynchronousDataAccessor] = None
        self._n_combined = (options.device_iterations * (options.replication_factor // options.input_group_size) *
                            options.Training.gradient_accumulation)
        self._combined_batch_size = None if batch_size is None else batch_size * self._n_combined
        self._shuffles_part = False
        self._sampler_drop_last = drop_last
        if isinstance(dataset, torch.utils.data.IterableDataset):
            _check_iterable(options, auto_distributed_partitioning, num_workers, kwargs)
        else:
            if drop_last:
                self._warn_of_nothing(_length(dataset))
            else:
                self._warn_of_remainder(len(dataset), batch_size, batch_sampler)
            if options.Distributed.numProcesses > 1 and auto_distributed_partitioning:
                dataset = self._part(dataset, shuffle, drop_last)
                self._shuffles_part, shuffle = bool(shuffle), None

        rebatched_size = self._rebatched_size(mode, drop_last)
        rows = self._combined_batch_size
        if rebatched_size is not None:
            # Whoever joins batches deals with what is left over.
            self.rebatched_drop_last = drop_last
            drop_last = False
            rows = self._worker_rows(rebatched_worker_size)
        if self.has_batch_sampler:
            arguments = {"batch_sampler": batch_sampler}
        else:
            arguments = {"batch_size": rows, "shuffle": shuffle, "drop_last": drop_last and rows is not None}
        super().__init__(dataset, num_workers=num_workers,
                         persistent_workers=num_workers > 0 if persistent_workers is None else persistent_workers,
                         **arguments, **kwargs)
        if mode != DataLoaderMode.Sync:
            self._start_accessor(rebatched_size, dict(async_options or {}))

    def _start_accessor(self, rebatched_size: Optional[int], arguments: Dict[str, Any]) -> None:
        assert "rebatched_size" not in arguments, (
            "You cannot specify rebatched_size in async_options: use DataLoaderMode.AsyncRebatched, which joins "
            "batches to the combined batch size")
        self._accessor = AsynchronousDataAccessor(self, rebatched_size=rebatched_size, **arguments)
        self._accessor._dataset = weakref.proxy(self)  # pylint: disable=protected-access

    def _part(self, dataset: Any, shuffle: Optional[bool], drop_last: bool) -> Part:
        assert not shuffle or self._options.exists("random_seed"), (
            "When using auto_distributed_partitioning with shuffle=True you must set "
            "poptorch.Options.randomSeed(), to the same number in all processes")
        assert self._combined_batch_size is not None, (
            "batch_size=None is not allowed when using auto_distributed_partitioning")
        options = self._options
        return Part(dataset, options.Distributed.processId, options.Distributed.numProcesses, self._combined_batch_size,
                    drop_last, options.random_seed if options.exists("random_seed") else None)

    def _rebatched_size(self, mode: DataLoaderMode, drop_last: bool) -> Optional[int]:
        if self.has_batch_sampler or self._combined_batch_size in (None, 1):
            return None
        if mode == DataLoaderMode.AsyncRebatched or (mode == DataLoaderMode.Async and not drop_last):
            return self._combined_batch_size
        return None

    def _worker_rows(self, rebatched_worker_size: Optional[int]) -> Optional[int]:
        if rebatched_worker_size is None or self._combined_batch_size is None:
            return self._combined_batch_size
        assert rebatched_worker_size <= self._combined_batch_size, (
            f"The rebatched_worker_size ({rebatched_worker_size}) must be <= the combined batch "
            f"size ({self._combined_batch_size})")
        return rebatched_worker_size

    def _warn_of_nothing(self, n_elements: Optional[int]) -> None:
        """Of a dataset that does not fill one batch."""
        if self.has_batch_sampler or n_elements is None or not isinstance(self._combined_batch_size, int):
            return
        step = self._combined_batch_size * self._options.Distributed.numProcesses
        if n_elements < step:
            logger.warning(
                "The dataset has %d elements, but one step takes %d (batch_size times device iterations, gradient "
                "accumulation and replicas) and drop_last=True: there are no batches. Use a smaller batch_size",
                n_elements, step)

    def _warn_of_remainder(self, n_elements: int, batch_size: Optional[int], batch_sampler: Any) -> None:
        if self.has_batch_sampler:
            n_batches = _length(batch_sampler)
            if n_batches is None:
                logger.warning(
                    "The `batch_sampler` has no length and drop_last=False. The last tensor may be incomplete: "
                    "fewer than %d batches. drop_last=True avoids it", self._n_combined)
            elif n_batches % self._n_combined != 0:
                logger.warning(
                    "The number of batches generated by the batch sampler (%d) is not divisible by the number of "
                    "batches processed per step (%d) and drop_last=False. "
                    "The last tensor will have a batch size of %d. drop_last=True avoids it",
                    n_batches, self._n_combined, n_batches % self._n_combined * (batch_size or 1))
        elif self._combined_batch_size is not None:
            step = self._combined_batch_size * self._options.Distributed.numProcesses
            if n_elements % step != 0:
                logger.warning(
                    "The number of elements in the dataset (%d) is not divisible by the number of elements "
                    "processed per step (%d) and drop_last=False. "
                    "The last tensor will have a batch size of %d. drop_last=True avoids it",
                    n_elements, step, n_elements % step)

    @property
    def combinedBatchSize(self) -> Optional[int]:
        """How many rows of the dataset one call of the model takes; None when the dataset makes the batches."""
        return self._combined_batch_size

    @property
    def options(self) -> Options:
        """The options that this loader was made with."""
        return self._options

    @property
    def combines_batches(self) -> bool:
        """Are several batches of a batch sampler joined to one?"""
        return self.has_batch_sampler and self._n_combined != 1

    def __len__(self) -> int:
        if self._accessor is not None and self._accessor.rebatched_size:
            n_rows, step, drop_last = len(self.dataset), self._accessor.rebatched_size, self.rebatched_drop_last
        elif self.combines_batches:
            n_rows, step, drop_last = super().__len__(), self._n_combined, self._sampler_drop_last
        else:
            return super().__len__()
        return n_rows // step if drop_last else -(-n_rows // step)

    def terminate(self) -> None:
        """End the process of an asynchronous loader; nothing happens otherwise."""
        if self._accessor is not None:
            self._accessor.terminate()

    def begin_iteration(self) -> None:
        """Choose which elements of the dataset, in which order, this process's next iteration has."""
        if self._shuffles_part:
            self.dataset.shuffle()
            self.dataset.shift()

    def __iter__(self) -> Iterator[Any]:
        if self._accessor is not None:
            return iter(self._accessor)
        self.begin_iteration()
        batches = super().__iter__()
        return joined(batches, self._n_combined, self._sampler_drop_last) if self.combines_batches else batches


def _check_batch_sampler(options: Options, batch_size: Optional[int], shuffle: Optional[bool],
                         partitioning: bool) -> None:
    if batch_size != 1 or shuffle:
        raise createPoptorchError(
            "The `batch_sampler` option is mutually exclusive with batch_size and shuffle: the sampler decides both")
    if options.Distributed.numProcesses > 1 and partitioning:
        raise createPoptorchError(
            "The `batch_sampler` option is mutually exclusive with auto_distributed_partitioning=True: set that to "
            "False, and let the sampler of each process yield its part of the dataset")


def _check_iterable(options: Options, partitioning: bool, num_workers: int, kwargs: Dict[str, Any]) -> None:
    assert not partitioning or options.Distributed.numProcesses == 1, (
        "auto_distributed_partitioning is not supported for IterableDataset: set it to False, and let the dataset "
        "yield the part of its process")
    if num_workers > 1 and kwargs.get("worker_init_fn") is None:
        logger.warning(
            "IterableDataset used with num_workers=%d but no worker_init_fn specified: the DataLoader will return "
            "%d times each element of the "
            "dataset (see torch.utils.data.IterableDataset)", num_workers, num_workers)


def _length(sampler: Any) -> Optional[int]:
    try:
        length = len(sampler)
    except (TypeError, NotImplementedError):
        return None
    return length if isinstance(length, int) else None
