"""Views and copies: other shapes, other orders, joining and cutting."""
from __future__ import annotations

from itertools import combinations_with_replacement, combinations as combinations_of
from math import prod
from typing import List, Optional, Sequence, Tuple

import torch

from openipu.emitter import Emitter

from .._errors import Error
from .known import constant_of, data_of, dynamic_shape_error
from .registry import function, op


def at(dim: int, rank: int) -> int:
    """A dimension counted from the front; a scalar has one for this purpose."""
    return dim % max(1, rank)


transposed = Emitter.transpose  # transposed(g, x, perm), beside those that follow


def moved(g, x, source: int, target: int):
    """`x` with one dimension moved to another place, the rest in their order."""
    order = [d for d in range(x.rank) if d != at(source, x.rank)]
    order.insert(at(target, x.rank), at(source, x.rank))
    return transposed(g, x, order)


def joined(g, values: Sequence[object], dim: int):
    """Values joined along a dimension; one value is itself."""
    return values[0] if len(values) == 1 else g.emit("concat", list(values), axis=dim)


def cut(g, x, dim: int, begin: int, end: int, step: int = 1):
    """Elements begin, begin + step, ... < end of a dimension, bounds within it."""
    if (begin, end, step) == (0, x.shape[dim], 1):
        return x
    return g.op.slice(x, begin=[begin], end=[end], step=[step], axes=[dim])


def dropped(g, x, dim: int):
    """`x` without a dimension of extent 1."""
    return g.reshape(x, x.shape[:dim] + x.shape[dim + 1:])


def added(g, x, dim: int):
    """`x` with a new dimension of extent 1 at `dim` of the result."""
    return g.reshape(x, x.shape[:dim] + (1, ) + x.shape[dim:])


# ---- the same elements in the same order ----


@op("aten::view", "aten::_unsafe_view", "aten::_reshape_alias", "aten::squeeze", "aten::unsqueeze", "aten::view_copy",
    "aten::_reshape_alias_copy", "aten::squeeze_copy", "aten::unsqueeze_copy", "aten::squeeze_", "aten::unsqueeze_")
def reshaped(g, node, x, *_, **__):
    return g.reshape(x, tuple(node.outputs[0].shape))


@op("aten::view.dtype")
def view_as_type(g, node, x, dtype: torch.dtype):
    if g.type_of(dtype) == x.type:
        return x
    raise Error(f"view({dtype}) reads the bits of a tensor as another type, which is not supported. "
                f"Use .to({dtype}) to convert the values.")


@op("aten::alias", "aten::alias_copy", "aten::clone", "aten::lift", "aten::lift_fresh", "aten::lift_fresh_copy",
    "aten::_conj", "aten::conj_physical", "aten::_conj_physical", "aten::_neg_view_copy", "aten::_fw_primal")
def same(g, node, x, *_, **__):
    return x


@op("aten::detach", "aten::detach_copy", "aten::detach_")
def detach(g, node, x):
    return g.op.stop_gradient(x)


@op("aten::copy", "aten::copy_")
def copy(g, node, x, source, non_blocking: bool = False):
    return g.broadcast(g.cast(source, x.type), x.shape)


# ---- another order ----


@op("aten::permute", "aten::permute_copy")
def permute(g, node, x, dims):
    return transposed(g, x, dims)


@op("aten::transpose.int", "aten::transpose_copy", "aten::transpose_")
def transpose(g, node, x, dim0: int, dim1: int):
    order = list(range(x.rank))
    if order:
        a, b = at(dim0, x.rank), at(dim1, x.rank)
        order[a], order[b] = order[b], order[a]
    return transposed(g, x, order)


@op("aten::t", "aten::t_copy", "aten::t_")
def reverse_dimensions(g, node, x):
    return transposed(g, x, range(x.rank - 1, -1, -1))


@op("aten::flip")
def flip(g, node, x, dims):
    axes = sorted({at(d, x.rank) for d in dims})
    return g.op.reverse(x, axes=axes) if axes and x.rank else x


@op("aten::roll")
def roll(g, node, x, shifts, dims=()):
    return g.op.roll(x, shifts=list(shifts), axes=[at(d, x.rank) for d in dims] or None)


@op("aten::rot90")
def rot90(g, node, x, k: int = 1, dims=(0, 1)):
    a, b = (at(d, x.rank) for d in dims)
    turns = k % 4
    if turns == 0:
        return x
    if turns == 2:
        return g.op.reverse(x, axes=[a, b])
    flipped = g.op.reverse(x, axes=[b if turns == 1 else a])
    return transpose(g, node, flipped, a, b)


# ---- repeating ----


@op("aten::expand", "aten::expand_copy")
def expand(g, node, x, *_, **__):
    return g.broadcast(x, tuple(node.outputs[0].shape))


@op("aten::repeat")
def repeat(g, node, x, repeats):
    missing = len(repeats) - x.rank
    if missing > 0:
        x = g.reshape(x, (1, ) * missing + x.shape)
    repeats = [1] * max(0, -missing) + list(repeats)
    return x if all(n == 1 for n in repeats) else g.op.tile(x, repeats=repeats)


def _flat(x, dim: Optional[int]) -> Tuple[Tuple[int, ...], int]:
    """The shape whose dimension is repeated, and which it is."""
    shape = tuple(x.shape)
    return ((prod(shape), ), 0) if dim is None else (shape or (1, ), at(dim, len(shape)))


def _counts(repeats, extent: int) -> Optional[List[int]]:
    """How often each element is repeated, where that is known."""
    if isinstance(repeats, int):
        return [repeats] * extent
    data = data_of(repeats)
    if data is None:
        return None
    counts = data.reshape(-1).tolist()
    return counts * extent if len(counts) == 1 else counts


def _repeat_interleave_meta(x, repeats=None, dim=None, *, output_size=None):
    shape, where = _flat(x, dim)
    counts = _counts(repeats, shape[where])
    if counts is None and output_size is None:
        raise dynamic_shape_error("torch.repeat_interleave", "how often elements are repeated is known only when the "
                                  "model runs", "Give `repeats` as a number or a CPU tensor, or give `output_size`.")
    extent = sum(counts) if counts is not None else output_size
    return torch.empty(shape[:where] + (extent, ) + shape[where + 1:], dtype=x.dtype, device="meta")


@function(torch.repeat_interleave, torch.Tensor.repeat_interleave, meta=_repeat_interleave_meta)
def repeat_interleave(g, node, x, repeats=None, dim: Optional[int] = None, *, output_size: Optional[int] = None):
    shape, where = _flat(x, dim)
    x = g.reshape(x, shape)
    if isinstance(repeats, int):
        return g.op.repeat(x, axis=where, times=repeats)
    counts = constant_of(g, repeats)
    counts = g.cast(repeats, "int32") if counts is None else g.const(counts.reshape(-1), torch.int32)
    return g.emit("repeat", [x, counts], axis=where, size=node.outputs[0].shape[where])


# ---- joining ----


@op("aten::cat")
def cat(g, node, tensors, dim: int = 0):
    out = node.outputs[0]
    rank = len(out.shape)
    there = [t for t in tensors if t.rank == rank and not (rank != 1 and t.shape == (0, ))]
    values = [g.cast(t, out.dtype) for t in there if t.shape[at(dim, rank)] > 0] or [g.cast(there[0], out.dtype)]
    return joined(g, values, at(dim, rank))


@op("aten::stack", "aten::_stack")
def stack(g, node, tensors, dim: int = 0):
    where = at(dim, len(node.outputs[0].shape))
    return joined(g, [added(g, g.cast(t, node.outputs[0].dtype), where) for t in tensors], where)


@op("aten::block_diag")
def block_diag(g, node, tensors):
    dtype = node.outputs[0].dtype
    blocks = [g.reshape(g.cast(t, dtype), (1, ) * (2 - t.rank) + t.shape) for t in tensors]
    width = sum(b.shape[1] for b in blocks)
    rows, before = [], 0
    for block in blocks:
        rows.append(g.op.pad(block, before=[0, before], after=[0, width - before - block.shape[1]]))
        before += block.shape[1]
    return joined(g, rows, 0)


# ---- cutting ----


@op("aten::split.Tensor", "aten::split_with_sizes", "aten::unsafe_split", "aten::unsafe_split_with_sizes",
    "aten::split_copy", "aten::split_with_sizes_copy")
def split(g, node, x, sizes, dim: int = 0):
    where = at(dim, x.rank)
    parts, begin = [], 0
    for out in node.outputs:
        parts.append(cut(g, x, where, begin, begin + out.shape[where]))
        begin += out.shape[where]
    return tuple(parts)


@op("aten::unbind.int", "aten::unbind_copy")
def unbind(g, node, x, dim: int = 0):
    where = at(dim, x.rank)
    return tuple(dropped(g, cut(g, x, where, i, i + 1), where) for i in range(x.shape[where]))


# ---- windows and places of storage ----


@op("aten::unfold", "aten::unfold_copy")
def unfold(g, node, x, dim: int, size: int, step: int):
    if x.rank == 0:
        return g.reshape(x, tuple(node.outputs[0].shape))
    where = at(dim, x.rank)
    n = node.outputs[0].shape[where]
    if size == step:
        x = g.reshape(cut(g, x, where, 0, n * size), x.shape[:where] + (n, size) + x.shape[where + 1:])
    else:
        places = torch.arange(n).reshape(-1, 1) * step + torch.arange(size)
        x = g.op.gather(x, g.const(places, torch.int64), axis=where)
    return moved(g, x, where + 1, -1)


def storage_places(size: Sequence[int], stride: Sequence[int], offset: int) -> torch.Tensor:
    """For each element of a view of that size, stride and offset: where it is in the storage."""
    places = torch.tensor(offset)
    for n, s in zip(size, stride):
        places = places.unsqueeze(-1) + torch.arange(n) * s
    return places.reshape(tuple(size))


@op("aten::as_strided", "aten::as_strided_copy")
def as_strided(g, node, x, size, stride, storage_offset: Optional[int] = None):
    places = storage_places(size, stride, storage_offset or 0)
    flat = g.reshape(x, (-1, ))
    first = int(places.reshape(-1)[0]) if places.numel() else 0
    if torch.equal(places.reshape(-1), torch.arange(first, first + places.numel())):
        return g.reshape(cut(g, flat, 0, first, first + places.numel()), tuple(size))
    return g.op.gather(flat, g.const(places, torch.int64), axis=0)


# ---- diagonals ----


@op("aten::diag")
def diag(g, node, x, diagonal: int = 0):
    if x.rank == 1:
        return g.op.diag_embed(x, offset=diagonal)
    return g.op.diagonal(x, offset=diagonal, rows=0, columns=1)


@op("aten::trace")
def trace(g, node, x):
    return g.op.reduce_sum(g.cast(g.op.diagonal(x), node.outputs[0].dtype), axes=[0])


@op("aten::tril")
def tril(g, node, x, diagonal: int = 0):
    return _triangle(g, x, 0, diagonal)


@op("aten::triu")
def triu(g, node, x, diagonal: int = 0):
    return _triangle(g, x, 1, diagonal)


def _triangle(g, x, upper: int, diagonal: int):
    if x.type == "bool":
        return g.cast(g.op.trilu(g.cast(x, "uint8"), upper=upper, k=diagonal), "bool")
    return g.op.trilu(x, upper=upper, k=diagonal)


# ---- channels and pixels ----


def _reordered(g, node, name: str, x, block: int):
    """Channels dealt to blocks of pixels, or back. torch has any number of dimensions in front, the ops one."""
    images = g.reshape(x, (prod(x.shape[:-3]), ) + x.shape[-3:])
    return g.reshape(g.emit(name, [images], block=block, mode="CRD"), tuple(node.outputs[0].shape))


@op("aten::pixel_shuffle")
def pixel_shuffle(g, node, x, upscale_factor: int):
    return _reordered(g, node, "depth_to_space", x, upscale_factor)


@op("aten::pixel_unshuffle")
def pixel_unshuffle(g, node, x, downscale_factor: int):
    return _reordered(g, node, "space_to_depth", x, downscale_factor)


@op("aten::channel_shuffle", meta=lambda x, groups: torch.empty_like(x))
def channel_shuffle(g, node, x, groups: int):
    split_up = g.reshape(x, (x.shape[0], groups, x.shape[1] // groups) + x.shape[2:])
    return g.reshape(transpose(g, node, split_up, 1, 2), x.shape)


# ---- combinations ----


def _chosen(n: int, r: int, with_replacement: bool) -> torch.Tensor:
    choose = combinations_with_replacement if with_replacement else combinations_of
    return torch.tensor(list(choose(range(n), r)), dtype=torch.int64).reshape(-1, r)


def _combinations_meta(x, r=2, with_replacement=False):
    return torch.empty(tuple(_chosen(x.shape[0], r, with_replacement).shape), dtype=x.dtype, device="meta")


@function(torch.combinations, meta=_combinations_meta)
def combinations(g, node, x, r: int = 2, with_replacement: bool = False):
    return g.op.gather(x, g.const(_chosen(x.shape[0], r, with_replacement), torch.int64), axis=0)
