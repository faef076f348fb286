"""Views: how a tensor that shares memory with another is got from it, and how a change to it is put back."""

from __future__ import annotations

from math import prod
from typing import Any, Callable, Dict, Tuple

import torch

from .._errors import createPoptorchError
from . import torch_compat as compat


class View:
    """One step from a tensor to a view of it.

    :ivar name: the op, such as "aten::slice.Tensor", and its arguments behind the tensor.
    :ivar before: shape that the step is from.
    :ivar after: shape of the view; `dtype` its type.
    """

    __slots__ = ("name", "args", "kwargs", "before", "after", "dtype")

    def __init__(self, name: str, args: tuple, kwargs: dict, before: Tuple[int, ...], after: Tuple[int, ...],
                 dtype: torch.dtype) -> None:
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.before = before
        self.after = after
        self.dtype = dtype


def _reshape_back(view: View) -> tuple:
    return "aten::view", False, (list(view.before), ), {}


def _permute_back(view: View) -> tuple:
    dims = [d % len(view.before) for d in view.args[0]]
    back = [dims.index(i) for i in range(len(dims))]
    return "aten::permute", False, (back, ), {}


def _expand_back(view: View) -> tuple:
    if prod(view.before) != prod(view.after):
        raise createPoptorchError("unsupported operation: more than one element of the written-to tensor refers to a "
                                  "single memory location. Please clone() the tensor before performing the operation.")
    return _reshape_back(view)


def _same(view: View) -> tuple:
    return view.name, False, view.args, view.kwargs


def _scatter(name: str) -> Callable[[View], tuple]:
    return lambda view: (name, True, view.args, view.kwargs)


def _by_strides(view: View) -> tuple:
    """Any other view, such as unfold: where its elements are in what it is a view of."""
    overload = compat.overload_of(view.name)
    if overload is None:
        raise createPoptorchError(f"A tensor that {view.name} made of another cannot be changed in place: change a copy of "
                                  "it (.clone()) and put that where it belongs")
    meta = overload(torch.empty(view.before, dtype=view.dtype, device="meta"), *view.args, **view.kwargs)
    return "aten::as_strided_scatter", True, (list(meta.size()), list(meta.stride()), meta.storage_offset()), {}


#: How to go back, by the name of the op without its overload: a function of the View that gives the op, whether it takes
#: the old value before the new one, and further arguments. Ops that only change the shape go back by "aten::view".
_BACK: Dict[str, Callable[[View], tuple]] = {
    "aten::view": _reshape_back,
    "aten::_unsafe_view": _reshape_back,
    "aten::_reshape_alias": _reshape_back,
    "aten::reshape": _reshape_back,
    "aten::flatten": _reshape_back,
    "aten::unflatten": _reshape_back,
    "aten::squeeze": _reshape_back,
    "aten::unsqueeze": _reshape_back,
    "aten::expand": _expand_back,
    "aten::transpose": _same,
    "aten::t": _same,
    "aten::permute": _permute_back,
    "aten::slice": _scatter("aten::slice_scatter"),
    "aten::select": _scatter("aten::select_scatter"),
    "aten::diagonal": _scatter("aten::diagonal_scatter"),
    "aten::as_strided": _scatter("aten::as_strided_scatter"),
    "poptorch::slice": _scatter("poptorch::slice_scatter"),
    "poptorch::select": _scatter("poptorch::select_scatter"),
}

#: Views that are the tensor itself.
IDENTITIES = frozenset(("aten::alias", "aten::detach", "aten::lift_fresh", "aten::lift", "aten::_conj", "aten::_neg_view",
                        "aten::resolve_conj", "aten::resolve_neg"))


def back(view: View) -> tuple:
    """(op, whether it takes the old value first, further arguments, keyword arguments) that puts a view's new value
    into what it is a view of."""
    found = _BACK.get(view.name.partition(".")[0])
    return found(view) if found is not None else _by_strides(view)


def pieces(name: str, tensor: torch.Tensor, args: tuple, kwargs: dict) -> Any:
    """Views that are lists, as lists of (op, arguments) on the same tensor; None: the op is no such one."""
    packet = name.partition(".")[0]
    if packet == "aten::unbind":
        dim = args[0] if args else kwargs.get("dim", 0)
        return [("aten::select.int", (dim, i)) for i in range(tensor.shape[dim])]
    if packet in ("aten::split", "aten::split_with_sizes"):
        sizes = args[0] if args else kwargs.get("split_size", kwargs.get("split_sizes"))
        dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
        extent = tensor.shape[dim]
        if isinstance(sizes, int):
            sizes = [min(sizes, extent - i) for i in range(0, extent, sizes)] if extent else [0]
        begins = [sum(sizes[:i]) for i in range(len(sizes))]
        return [("aten::slice.Tensor", (dim, begin, begin + size)) for begin, size in zip(begins, sizes)]
    return None
