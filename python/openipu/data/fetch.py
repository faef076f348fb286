"""How a data loader's batches get into slots of shared memory: by a collate_fn that writes there, in whichever
process it runs."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Optional, Sequence

import torch
import torch.utils.data
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset, get_worker_info
from torch.utils.data.dataloader import default_collate

from .ring import Arena, SharedFile, tensors_of


class Token:
    """Stands for a batch that is in a slot."""
    __slots__ = ("slot", "rows")

    def __init__(self, slot: int, rows: int) -> None:
        self.slot = slot
        self.rows = rows

    def __reduce__(self) -> Any:
        return Token, (self.slot, self.rows)


class SlotCollate:
    """A collate_fn that puts its batch into a slot of this process's and returns a Token.

    As long as no slot is there (before the first batch has told sizes, when all are taken, in processes that do not
    share the file) and for batches that do not fit it returns the batch itself.
    """
    def __init__(self, collate: Callable[[Any], Any], file: SharedFile) -> None:
        self._collate = collate
        self._file = file
        self._direct = collate is default_collate
        self._owner = -1
        self._arena: Optional[Arena] = None

    def __reduce__(self) -> Any:
        return _same, (self._collate, )

    def __call__(self, samples: Any) -> Any:
        arena = self._attach()
        slot = None if arena is None else arena.take(self._owner)
        if slot is None:
            return self._collate(samples)
        rows = None
        try:
            rows = self._fill(arena, slot, samples)
            if rows is None:
                batch = self._collate(samples)
                rows = arena.store(slot, tensors_of(batch, arena.layout.structure))
        finally:
            if rows is None:
                arena.give_back(slot)
        return batch if rows is None else Token(slot, rows)

    def _fill(self, arena: Arena, slot: int, samples: Any) -> Optional[int]:
        """Make the batch in the slot, if that can be done."""
        return arena.stack(slot, samples) if self._direct else None

    def _attach(self) -> Optional[Arena]:
        info = get_worker_info()
        owner = 0 if info is None else info.id + 1
        if self._arena is None or owner != self._owner:
            self._owner = owner
            self._arena = Arena.attach(self._file)
        return self._arena


class _Gather:
    """The collate_fn of a dataset that is tensors in memory: takes indices, and picks all their rows at once."""
    def __init__(self, tensors: Sequence[torch.Tensor], order: Optional[torch.Tensor]) -> None:
        self.tensors = tensors
        self._order = order

    def positions(self, indices: Sequence[int]) -> torch.Tensor:
        positions = torch.tensor(indices, dtype=torch.int64)
        return positions if self._order is None else self._order[positions]

    def __call__(self, indices: Sequence[int]) -> List[torch.Tensor]:
        positions = self.positions(indices)
        return [tensor.index_select(0, positions) for tensor in self.tensors]


class _SlotGather(SlotCollate):
    """The same, into a slot."""
    def _fill(self, arena: Arena, slot: int, samples: Any) -> Optional[int]:
        if arena.layout.rows is None or len(samples) > arena.layout.rows:
            return None
        positions = self._collate.positions(samples)
        for tensor, target in zip(self._collate.tensors, arena.batch(slot, len(samples))):
            torch.index_select(tensor, 0, positions, out=target)
        return len(samples)


class _Indices(torch.utils.data.Dataset):
    """A dataset whose elements are their indices."""
    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> int:
        return index


def _is_plain(tensor: torch.Tensor) -> bool:
    in_memory = tensor.layout is torch.strided and tensor.device.type == "cpu"
    return in_memory and type(tensor) is torch.Tensor and not tensor.requires_grad


def _tensors_in_memory(dataset: Any) -> Optional[_Gather]:
    """How to pick elements of a dataset of plain tensors, or None for other datasets."""
    order: Optional[torch.Tensor] = None
    while type(dataset) is Subset:
        indices = torch.as_tensor(dataset.indices)
        order = indices if order is None else indices[order]
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset or not all(_is_plain(tensor) for tensor in dataset.tensors):
        return None
    return _Gather(dataset.tensors, order)


def fill_slots(dataset: Any, file: SharedFile, workers_idle: Callable[[], None]) -> int:
    """Make a data loader put its batches into slots. Returns how many workers it has.

    workers_idle is called at the beginning of every epoch, while no worker has anything to do.
    """
    loader = dataset
    if not isinstance(loader, DataLoader) or getattr(loader, "combines_batches", False):
        return 0
    gather = _tensors_in_memory(loader.dataset)
    plain = loader.collate_fn is default_collate and loader.worker_init_fn is None and loader.batch_sampler is not None
    if gather is not None and plain:
        loader.__dict__["dataset"] = _Indices(len(loader.dataset))
        loader.collate_fn = _SlotGather(gather, file)
    else:
        loader.collate_fn = SlotCollate(loader.collate_fn, file)
    if loader.num_workers > 0:
        if loader.multiprocessing_context is None:
            loader.multiprocessing_context = "fork"  # this process has no threads: the quick way is safe
        loader.__class__ = _with_notice(type(loader), workers_idle)
    return loader.num_workers


def batches_of(dataset: Any) -> Iterator[Any]:
    """A new iteration over a dataset."""
    if (not isinstance(dataset, DataLoader) or dataset.num_workers > 0 or dataset.batch_sampler is None
            or isinstance(dataset.dataset, IterableDataset) or getattr(dataset, "combines_batches", False)):
        return iter(dataset)
    begin = getattr(dataset, "begin_iteration", None)
    if begin is not None:
        begin()
    return _map_batches(dataset.dataset, dataset.batch_sampler, dataset.collate_fn)


def _map_batches(elements: Any, sampler: Any, collate: Callable[[Any], Any]) -> Iterator[Any]:
    """What a data loader without workers does, less its bookkeeping."""
    for indices in sampler:
        yield collate([elements[index] for index in indices])


def _with_notice(loader_class: type, notice: Callable[[], None]) -> type:
    """A class of data loaders that call a function when their workers are idle: before the first indices of an epoch
    are asked for."""
    indices_of = loader_class._index_sampler.fget  # pylint: disable=protected-access
    return type(loader_class.__name__, (loader_class, ),
                {"_index_sampler": property(lambda self: _FirstNotice(indices_of(self), notice))})


class _FirstNotice:
    """A sampler that calls a function when an iteration asks for its first element."""
    def __init__(self, sampler: Any, notice: Callable[[], None]) -> None:
        self._sampler = sampler
        self._notice = notice

    def __iter__(self) -> Iterator[Any]:
        self._notice()
        yield from self._sampler

    def __len__(self) -> int:
        return len(self._sampler)


def _same(value: Any) -> Any:
    return value
