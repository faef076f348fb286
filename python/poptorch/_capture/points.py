"""Ops on clouds of points, as torch_cluster has them."""

from __future__ import annotations

import math
from typing import List, Optional, Union

import torch

from .._errors import createPoptorchError

_Batch = Optional[Union[List[int], torch.Tensor]]


def fps(src: torch.Tensor, ptr: List[int], ratio: float = 0.5, random_start: bool = False) -> torch.Tensor:
    """Farthest point sampling: points that are each as far as possible from those chosen before.

    :param src: points [n, features].
    :param ptr: where the points of each sample begin, and the end of the last.
    :param ratio: part of each sample that is chosen, rounded up.
    :param random_start: begin with a point at random rather than the first one.
    :returns: numbers of the points, sample by sample.
    """
    if not isinstance(src, torch.Tensor):
        raise createPoptorchError(f"`fps` must take a torch.tensor input. {type(src)} is not supported.")
    if not isinstance(ptr, list):
        raise createPoptorchError("`ptr` must be a list of integers.")
    if len(ptr) < 2:
        raise createPoptorchError("`ptr` must contain at least 2 elements.")
    if not isinstance(ratio, float):
        raise createPoptorchError(f"`ratio` must be of float type. {type(ratio)} is not supported.")
    if not isinstance(random_start, bool):
        raise createPoptorchError(f"`random_start` must be of bool type. {type(random_start)} is not supported.")
    points = src.reshape(src.shape[0], -1)
    chosen = [_farthest(points[begin:end], math.ceil((end - begin) * ratio), random_start) + begin
              for begin, end in zip(ptr, ptr[1:])]
    return torch.cat(chosen)


def _farthest(points: torch.Tensor, n: int, random_start: bool) -> torch.Tensor:
    if random_start:
        last = torch.randint(0, points.shape[0], (1, ), device=points.device)
    else:
        last = torch.zeros(1, dtype=torch.int64, device=points.device)
    chosen = [last]
    nearest_chosen = None
    for _ in range(n - 1):
        distance = (points - points.index_select(0, last)).square().sum(1)
        nearest_chosen = distance if nearest_chosen is None else torch.minimum(nearest_chosen, distance)
        last = torch.argmax(nearest_chosen, 0, keepdim=True)
        chosen.append(last)
    return torch.cat(chosen)


def _as_batch(batch: _Batch, n: int, device: torch.device) -> Optional[torch.Tensor]:
    if batch is None or (isinstance(batch, list) and not batch):
        return None
    if isinstance(batch, list):
        batch = torch.tensor(batch, device=device)
    if batch.numel() != n:
        raise createPoptorchError(f"a batch vector has {batch.numel()} elements for {n} points")
    return batch.reshape(-1)


def nearest(x: torch.Tensor, y: torch.Tensor, batch_x: _Batch = None, batch_y: _Batch = None) -> torch.Tensor:
    """For each point of `x`, the number of the point of `y` that is nearest.

    :param x: points [n, features]; :param y: points [m, features].
    :param batch_x: sample of each point of `x`, ascending; :param batch_y: of `y`. Points of one sample are compared.
    """
    for name, value in (("x", x), ("y", y)):
        if not isinstance(value, torch.Tensor):
            raise createPoptorchError(f"`nearest` must take a torch.tensor `{name}` input. {type(value)} is not supported.")
    for value in (batch_x, batch_y):
        if value is not None and not isinstance(value, (list, torch.Tensor)):
            raise createPoptorchError(f"`batch_x` and `batch_y` must be torch.Tensors or lists while `batch_x` is of type "
                                      f"{type(batch_x)} and `batch_y` is of type {type(batch_y)}.")
    x, y = x.reshape(x.shape[0], -1), y.reshape(y.shape[0], -1)
    of_x, of_y = _as_batch(batch_x, x.shape[0], x.device), _as_batch(batch_y, y.shape[0], y.device)
    distance = (x.unsqueeze(1) - y.unsqueeze(0)).square().sum(2)
    if of_x is not None or of_y is not None:
        of_x = torch.zeros(x.shape[0], dtype=torch.int64, device=x.device) if of_x is None else of_x
        of_y = torch.zeros(y.shape[0], dtype=torch.int64, device=y.device) if of_y is None else of_y
        apart = of_x.unsqueeze(1) != of_y.unsqueeze(0)
        distance = distance.masked_fill(apart, float("inf"))
    return torch.argmin(distance, 1)
