"""Datasets that several processes share, and batches that are joined."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional

import torch
import torch.utils.data

from ..structures import flatten, rebuild


class Part(torch.utils.data.Dataset):
    """The part of a dataset that one of several processes has: one range after the other, of the dataset or of a
    permutation of it.

    When rows are left over the ranges begin that much later in every other iteration. Position and permutation are in
    shared memory: workers that go on from one iteration to the next see them.
    """
    def __init__(self, dataset: Any, process: int, n_processes: int, step: int, drop_last: bool,
                 seed: Optional[int] = None) -> None:
        """``step``: elements that a process takes at a time; ``seed``: of permutations, the same in all processes."""
        n_elements = len(dataset)
        if drop_last:
            self._length = step * (n_elements // (step * n_processes))
            self._base = process * self._length
            self._left_over = n_elements - n_processes * self._length
        else:
            share, rest = divmod(n_elements, n_processes)
            self._length = share + int(process < rest)
            self._base = process * share + min(process, rest)
            self._left_over = 0
        self._dataset = dataset
        self._start = torch.tensor(self._base).share_memory_()
        self._seed = seed
        self._random_state: Optional[torch.Tensor] = None
        self._order: Optional[torch.Tensor] = None

    def shuffle(self) -> None:
        """Another permutation, the same in all processes."""
        generator = torch.Generator()
        if self._random_state is None:
            generator.manual_seed(self._seed)
        else:
            generator.set_state(self._random_state)
        order = torch.randperm(len(self._dataset), generator=generator)
        self._random_state = generator.get_state()
        if self._order is None:
            self._order = order.share_memory_()
        else:
            self._order.copy_(order)

    def shift(self) -> None:
        """Begin where the left over elements are used, or no longer so."""
        self._start.fill_(self._base + self._left_over if int(self._start) == self._base else self._base)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        position = index + int(self._start)
        return self._dataset[position if self._order is None else int(self._order[position])]


def joined(batches: Iterator[Any], count: int, drop_last: bool) -> Iterator[Any]:
    """Batches of `count` batches each, joined along dim 0."""
    group: List[Any] = []
    for batch in batches:
        group.append(batch)
        if len(group) == count:
            yield _join(group)
            group = []
    if group and not drop_last:
        yield _join(group)


def _join(group: List[Any]) -> Any:
    columns = zip(*(flatten(batch, group[0]) for batch in group))
    return rebuild(group[0], iter([torch.cat(column) for column in columns]))
