"""tensor[...] and tensor[...] = value, written with the ops that they mean."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np
import torch

from .._errors import createPoptorchError
from .._ops.slice import check_size
from .tensor import IpuTensor
from .views import View

_aten = torch.ops.aten
_MASKS = (torch.bool, torch.uint8)


def _as_tuple(index: Any) -> tuple:
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and len(index) < 32 and any(
            isinstance(i, (torch.Tensor, list, tuple, slice, np.ndarray)) or i is None or i is Ellipsis for i in index):
        return tuple(index)
    return (index, )


def _consumes(index: Any) -> int:
    """Dimensions that an element of the index is for."""
    if index is None or index is Ellipsis or isinstance(index, bool):
        return 0
    if isinstance(index, torch.Tensor) and index.dtype in _MASKS:
        return index.dim()
    return 1


def _expanded(x: torch.Tensor, index: tuple) -> list:
    used = sum(_consumes(i) for i in index)
    if used > x.dim():
        raise IndexError(f"too many indices for tensor of dimension {x.dim()}")
    whole = [slice(None)] * (x.dim() - used)
    at = next((n for n, i in enumerate(index) if i is Ellipsis), None)
    if at is None:
        return list(index) + whole
    return list(index[:at]) + whole + list(index[at + 1:])


def _as_index(index: Any) -> Any:
    """Lists and arrays as tensors; numpy's numbers as Python's."""
    if isinstance(index, np.integer):
        return int(index)
    if isinstance(index, np.ndarray):
        index = torch.from_numpy(index)
    if isinstance(index, torch.Tensor) and not isinstance(index, IpuTensor) and index.dim() == 0 and \
            index.dtype not in _MASKS:
        return int(index)
    if isinstance(index, (list, tuple)):
        return torch.tensor(index, device="cpu") if not _has_ipu(index) else torch.stack(
            [i if isinstance(i, torch.Tensor) else torch.tensor(i, device="ipu") for i in index])
    return index


def _has_ipu(sequence: Any) -> bool:
    return any(isinstance(i, IpuTensor) for i in sequence)


def _offset(capture: Any, start: Any, stop: Any) -> Optional[int]:
    """stop - start, if stop was made by adding a number to start."""
    if isinstance(stop, IpuTensor):
        first = capture.read(start) if isinstance(start, IpuTensor) else None
        return capture.distance(first, capture.read(stop))
    return None


def _view(capture: Any, x: IpuTensor, name: str, args: tuple, meta: torch.Tensor) -> IpuTensor:
    """A view of `x` by an op of ours, whose place only the run knows."""
    view = View(name, args, {}, tuple(x.shape), tuple(meta.shape), meta.dtype)
    return IpuTensor(meta, x._cell, x._views + (view, ), capture._apply_view(view, capture.read(x)))


def slice_at(capture: Any, x: IpuTensor, dim: int, start: IpuTensor, size: int, step: int = 1) -> IpuTensor:
    """`size` elements of a dimension from `start` on, every step-th of them; past the end those from the front."""
    check_size(size)
    dim %= x.dim()
    if size > x.shape[dim]:
        raise createPoptorchError(f"A slice of {size} elements was taken of dimension {dim}, which has {x.shape[dim]}")
    meta = _aten.slice(x._meta, dim, 0, size, step)
    return _view(capture, x, "poptorch::slice", (dim, capture.read(start), size, step), meta)


def select_at(capture: Any, x: IpuTensor, dim: int, index: IpuTensor) -> IpuTensor:
    """One element of a dimension."""
    return _view(capture, x, "poptorch::select", (dim, capture.read(index)), _aten.select(x._meta, dim, 0))


def _dynamic_slice(capture: Any, x: IpuTensor, dim: int, index: slice) -> IpuTensor:
    start, stop, step = index.start, index.stop, index.step if index.step is not None else 1
    for bound in (start, stop):
        if isinstance(bound, torch.Tensor) and bound.numel() != 1:
            raise createPoptorchError(f"A bound of a slice has to be a single number, not a tensor of shape "
                                      f"{tuple(bound.shape)}")
    if isinstance(start, IpuTensor):
        size = _offset(capture, start, stop)
        if size is not None:
            return slice_at(capture, x, dim, start, size, step)
    raise createPoptorchError(
        "The size of a slice must be a constant: x[t:t+n] with a number n can be sliced at run time, since its size is "
        "known. Found a slice whose size depends on values of tensors on the IPU.")


def _basic(capture: Any, x: IpuTensor, index: tuple) -> Tuple[IpuTensor, List[Any]]:
    """The view for the numbers and slices of an index, and what is left for its tensors: one for each dimension, or None."""
    dim = 0
    rest: List[Any] = []
    for i in _expanded(x, index):
        i = _as_index(i)
        if i is None:
            x = _aten.unsqueeze(x, dim)
            rest.append(None)
            dim += 1
        elif isinstance(i, bool):
            x = _aten.unsqueeze(x, dim)
            rest.append(torch.tensor([0] if i else [], dtype=torch.int64, device="cpu"))
            dim += 1
        elif isinstance(i, int):
            if not -x.shape[dim] <= i < x.shape[dim]:
                raise IndexError(f"index {i} is out of bounds for dimension {dim} with size {x.shape[dim]}")
            x = _aten.select(x, dim, i)
        elif isinstance(i, slice):
            x = _slice(capture, x, dim, i)
            rest.append(None)
            dim += 1
        elif isinstance(i, IpuTensor) and i.dim() == 0 and i.dtype not in _MASKS:
            x = select_at(capture, x, dim, i)
        elif isinstance(i, torch.Tensor):
            rest.append(i)
            dim += _consumes(i)
        else:
            raise TypeError(f"only integers, slices (`:`), ellipsis (`...`), None and tensors are valid indices (got "
                            f"{type(i).__name__})")
    return x, rest


def _slice(capture: Any, x: torch.Tensor, dim: int, index: slice) -> torch.Tensor:
    if isinstance(index.start, IpuTensor) or isinstance(index.stop, IpuTensor):
        return _dynamic_slice(capture, x, dim, index)
    if index.start is None and index.stop is None and index.step is None:
        return x
    start, stop, step = (None if b is None else int(b) for b in (index.start, index.stop, index.step))
    if step is not None and step <= 0:
        raise ValueError("step must be greater than zero")
    return _aten.slice(x, dim, start, stop, 1 if step is None else step)


def getitem(capture: Any, x: torch.Tensor, index: Any) -> torch.Tensor:
    """x[index]"""
    view, rest = _basic(capture, x, _as_tuple(index))
    if any(i is not None for i in rest):
        while rest and rest[-1] is None:
            rest.pop()
        return _aten.index(view, rest)
    return _aten.alias(x) if view is x else view


def _as_value(x: torch.Tensor, value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        value = torch.tensor(value, dtype=x.dtype, device="cpu")
    return value


def setitem(capture: Any, x: torch.Tensor, index: Any, value: Any) -> None:
    """x[index] = value"""
    view, rest = _basic(capture, x, _as_tuple(index))
    if any(i is not None for i in rest):
        while rest and rest[-1] is None:
            rest.pop()
        _aten.index_put_(view, rest, _as_value(x, value))
        return
    if isinstance(value, (int, float, bool)):
        _aten.fill_(view, value)
        return
    value = _as_value(x, value)
    while value.dim() > view.dim() and value.shape[0] == 1:
        value = _aten.squeeze(value, 0)
    _aten.copy_(view, value)
