"""The memory of asynchronous loading: slots of one size in one anonymous file that all processes map.

A slot holds one batch. Its owner (the loading process, or one of its workers) takes it, fills it and hands on its
number; nothing is copied or allocated on the way. The loading process alone gives slots back: a byte for each slot
says whether it is taken.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
import tempfile
from dataclasses import dataclass
from multiprocessing import reduction
from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch.utils.data.dataloader import default_collate

from ..error import UsageError
from ..library import finalizer
from ..structures import flatten, rebuild

_PAGE = mmap.PAGESIZE
_CACHE_LINE = 64
_LENGTH = struct.Struct("<Q")


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


class SharedFile:
    """An anonymous file: it goes through process creation, and is freed with the last process that has it open."""
    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self.fd = os.memfd_create("openipu-batches", os.MFD_CLOEXEC)
        else:
            with tempfile.TemporaryFile() as file:
                self.fd = os.dup(file.fileno())

    def __getstate__(self) -> Any:
        return reduction.DupFd(self.fd)

    def __setstate__(self, handle: Any) -> None:
        self.fd = handle.detach()

    def _close(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)

    __del__ = finalizer(_close)


@dataclass(frozen=True)
class Field:
    """One tensor of a batch, and where it is in a slot."""
    shape: Tuple[int, ...]
    dtype: torch.dtype
    offset: int
    n_bytes: int


class Layout:
    """What a batch consists of, and how many slots each owner has.

    structure: a batch with empty tensors; rows: the size of dim 0 that all tensors share, or None when they do not.
    """
    def __init__(self, batch: Any, rows: Optional[int], slots: Sequence[int]) -> None:
        tensors = tensors_of(batch)
        shapes = [tuple(tensor.shape) for tensor in tensors]
        leading = {shape[:1] for shape in shapes}
        self.rows: Optional[int] = None
        if len(leading) == 1 and shapes[0]:
            self.rows = rows or shapes[0][0]
            shapes = [(self.rows, *shape[1:]) for shape in shapes]
        elif rows is not None:
            raise UsageError(
                "Batches can be joined only along dim 0, which must be of one size in all tensors of a batch: "
                f"found shapes {', '.join(str(list(shape)) for shape in shapes)}")
        self.structure = rebuild(batch, iter([tensor.new_empty(0) for tensor in tensors]))
        self.fields: List[Field] = []
        offset = 0
        for tensor, shape in zip(tensors, shapes):
            n_bytes = torch.Size(shape).numel() * tensor.element_size()
            self.fields.append(Field(shape, tensor.dtype, offset, n_bytes))
            offset += _round_up(n_bytes, _CACHE_LINE)
        self.slot_bytes = _round_up(max(offset, 1), _PAGE)
        self.slots = list(slots)
        self.data_offset = 0
        self.states_offset = 0

    @property
    def n_slots(self) -> int:
        return sum(self.slots)

    def range_of(self, owner: int) -> range:
        first = sum(self.slots[:owner])
        return range(first, first + self.slots[owner])

    def describe(self) -> str:
        return ", ".join(f"{list(field.shape)} of {field.dtype}" for field in self.fields)


def tensors_of(batch: Any, like: Any = None) -> List[torch.Tensor]:
    """The tensors of a batch, which must hold nothing else."""
    leaves = flatten(batch, like, lambda value: True)
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            raise UsageError(
                f"Asynchronous loading expects batches of tensors: element {i} is of type {type(leaf).__name__}. "
                "Let the dataset or collate_fn make a tensor of it, or leave it out")
    if not leaves:
        raise UsageError("Asynchronous loading expects batches of tensors: this dataset's have none")
    return leaves


class Arena:
    """The slots, mapped into this process."""
    def __init__(self, file: SharedFile, layout: Layout, size: int) -> None:
        self.layout = layout
        self._memory = mmap.mmap(file.fd, size)
        self.states = memoryview(self._memory)[layout.states_offset:layout.states_offset + layout.n_slots]
        self._views: List[Optional[List[torch.Tensor]]] = [None] * layout.n_slots

    @staticmethod
    def create(file: SharedFile, layout: Layout) -> "Arena":
        """Size the file for a layout and publish it: `attach` finds it from then on."""
        layout.states_offset = _round_up(len(pickle.dumps(layout)) + 256, _PAGE)
        layout.data_offset = layout.states_offset + _round_up(layout.n_slots, _PAGE)
        head = pickle.dumps(layout)
        size = layout.data_offset + layout.n_slots * layout.slot_bytes
        os.ftruncate(file.fd, size)
        os.pwrite(file.fd, head, _LENGTH.size)
        os.pwrite(file.fd, _LENGTH.pack(len(head)), 0)
        return Arena(file, layout, size)

    @staticmethod
    def attach(file: SharedFile) -> Optional["Arena"]:
        """The arena in a file, or None as long as there is none."""
        start = os.pread(file.fd, _LENGTH.size, 0)
        n_bytes = _LENGTH.unpack(start)[0] if len(start) == _LENGTH.size else 0
        if n_bytes == 0:
            return None
        layout = pickle.loads(os.pread(file.fd, n_bytes, _LENGTH.size))
        return Arena(file, layout, os.fstat(file.fd).st_size)

    def views(self, slot: int) -> List[torch.Tensor]:
        """The tensors of a slot."""
        found = self._views[slot]
        if found is None:
            base = self.layout.data_offset + slot * self.layout.slot_bytes
            found = self._views[slot] = [self._view(field, base) for field in self.layout.fields]
        return found

    def _view(self, field: Field, base: int) -> torch.Tensor:
        if field.n_bytes == 0:
            return torch.empty(field.shape, dtype=field.dtype)
        raw = torch.frombuffer(self._memory, dtype=torch.uint8, count=field.n_bytes, offset=base + field.offset)
        return raw.view(field.dtype).view(field.shape)

    def batch(self, slot: int, rows: int) -> List[torch.Tensor]:
        """The tensors of a slot, of which the first `rows` rows are filled."""
        views = self.views(slot)
        if self.layout.rows is None or rows == self.layout.rows:
            return views
        return [view[:rows] for view in views]

    # Of the owner of a slot

    def take(self, owner: int) -> Optional[int]:
        """A free slot of an owner's, from now on taken, or None."""
        states = self.states
        for slot in self.layout.range_of(owner):
            if not states[slot]:
                states[slot] = 1
                return slot
        return None

    def give_back(self, slot: int) -> None:
        self.states[slot] = 0

    def rows_of(self, tensors: Sequence[torch.Tensor]) -> Optional[int]:
        """How many rows tensors have, or None when they are not of the layout. Short batches are; other types are
        cast."""
        fields = self.layout.fields
        if len(tensors) != len(fields):
            return None
        skip = 0 if self.layout.rows is None else 1
        for tensor, field in zip(tensors, fields):
            if tuple(tensor.shape[skip:]) != field.shape[skip:] or tensor.dim() != len(field.shape):
                return None
        if self.layout.rows is None:
            return 0
        rows = {tensor.shape[0] for tensor in tensors}
        return rows.pop() if len(rows) == 1 and max(rows) <= self.layout.rows else None

    def store(self, slot: int, tensors: Sequence[torch.Tensor]) -> Optional[int]:
        """Copy tensors into a slot. Returns how many rows, or None when they are not of the layout."""
        rows = self.rows_of(tensors)
        if rows is not None:
            for target, tensor in zip(self.batch(slot, rows), tensors):
                target.copy_(tensor)
        return rows

    def stack(self, slot: int, samples: Sequence[Any]) -> Optional[int]:
        """default_collate into a slot. Returns how many rows, or None when it cannot be done here: let
        default_collate do it, then."""
        n_rows = len(samples)
        if self.layout.rows is None or n_rows > self.layout.rows:
            return None
        columns = _columns(samples, self.layout.structure, len(self.layout.fields))
        if columns is None:
            return None
        for target, column in zip(self.batch(slot, n_rows), columns):
            first = column[0]
            if type(first) is not torch.Tensor:
                collated = default_collate(column)
                if not isinstance(collated, torch.Tensor) or collated.shape != target.shape:
                    return None
                target.copy_(collated)
            elif first.shape == target.shape[1:] and first.dtype == target.dtype and not first.requires_grad:
                torch.stack(column, out=target)
            else:
                return None
        return n_rows


def _columns(samples: Sequence[Any], structure: Any, n_fields: int) -> Optional[List[List[Any]]]:
    """The values of each field of flat samples, or None when samples are not flat."""
    first = samples[0]
    if isinstance(first, (tuple, list)):
        if len(first) == n_fields and isinstance(structure, (tuple, list)) and not hasattr(first, "_fields"):
            return [list(column) for column in zip(*samples)]
    elif isinstance(first, dict):
        if type(structure) is dict and len(first) == n_fields and first.keys() == structure.keys():
            return [[sample[key] for sample in samples] for key in structure]
    elif n_fields == 1 and isinstance(structure, torch.Tensor):
        return [list(samples)]
    return None
