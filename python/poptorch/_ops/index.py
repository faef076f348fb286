"""Elements and rows picked by tensors of indices."""
from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import torch

from .._errors import DynamicShapeError
from .._logging import TRACE, logger
from .known import constant_of, data_of, dynamic_shape_error
from .registry import op
from .shape import added, at, cut, joined, transposed

MASKS = (torch.bool, torch.uint8)


# ---- shapes that depend on data ----

_WHERE_INSTEAD = "Use torch.where(mask, x, other) or multiply by the mask, which keep the shape."
_BEFORE_INSTEAD = "Find the different elements before the model is called."


def _how_many(what: str, instead: str) -> DynamicShapeError:
    return dynamic_shape_error(what, "how many elements it gives depends on the data", instead)


def _nonzero_meta(x):
    data = data_of(x)
    if data is None:
        raise _how_many("torch.nonzero", _WHERE_INSTEAD)
    return data.nonzero().to("meta")


@op("aten::nonzero", meta=_nonzero_meta)
def nonzero(g, node, x):
    return g.const(constant_of(g, x).nonzero(), torch.int64)


def _places(x_shape, mask: torch.Tensor) -> torch.Tensor:
    """Places, in a flattened tensor, of what a mask selects after broadcasting."""
    shape = torch.broadcast_shapes(tuple(x_shape), mask.shape)
    return mask.expand(shape).reshape(-1).nonzero().reshape(-1)


def _masked_select_meta(x, mask):
    data = data_of(mask)
    if data is None:
        raise _how_many("torch.masked_select", _WHERE_INSTEAD)
    return torch.empty(_places(x.shape, data).shape, dtype=x.dtype, device="meta")


@op("aten::masked_select", meta=_masked_select_meta)
def masked_select(g, node, x, mask):
    flat = g.reshape(g.broadcast(x, torch.broadcast_shapes(x.shape, mask.shape)), (-1, ))
    return g.op.gather(flat, g.const(_places(x.shape, constant_of(g, mask)), torch.int64), axis=0)


def _unique_meta(x, *_, **__):
    raise _how_many("torch.unique", _BEFORE_INSTEAD)


@op("aten::_unique", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::unique_dim_consecutive",
    meta=_unique_meta)
def unique(g, node, x, *_, **__):
    raise _how_many("torch.unique", _BEFORE_INSTEAD)


# ---- advanced indexing ----


def as_index(g, index):
    """Indices in a type that the library takes."""
    return index if index.type in ("int32", "int64", "uint32") else g.cast(index, "int32")


class Places:
    """Which elements a list of index tensors names: x[i, :, j] has [i, None, j].

    Attributes:
        order: dimensions of x, those that are indexed first.
        front: order of a result [index dimensions, rest] in which torch has it.
        indices: one int tensor [..., n indexed dimensions].
        shape: what the index tensors have in common after broadcasting.
    """

    def __init__(self, g, rank: int, indices: Sequence[Optional[object]]):
        self.indexed = [d for d, i in enumerate(indices) if i is not None]
        self.rest = [d for d in range(rank) if d not in self.indexed]
        self.order = self.indexed + self.rest
        values = [as_index(g, indices[d]) for d in self.indexed]
        self.shape: Tuple[int, ...] = tuple(torch.broadcast_shapes(*(v.shape for v in values)))
        self.values = [g.broadcast(v, self.shape) for v in values]
        n = len(self.shape)
        together = self.indexed == list(range(self.indexed[0], self.indexed[-1] + 1))
        before = self.indexed[0] if together else 0
        self.front: List[int] = [*range(n, n + before), *range(n), *range(n + before, n + len(self.rest))]

    def tensor(self, g):
        last = len(self.shape)
        return joined(g, [added(g, v, last) for v in self.values], last)


def _index_meta(x, indices):
    found = []
    for i in indices:
        if i is None or i.dtype not in MASKS:
            found.append(i.long() if i is not None and i.dtype is torch.int32 else i)
        elif data_of(i) is not None:
            found += [places.to("meta") for places in data_of(i).nonzero().unbind(1)]
        else:
            raise dynamic_shape_error("Indexing with a mask", "how many elements are true depends on the data",
                                      _WHERE_INSTEAD + " Assigning to masked elements, x[mask] = value, is fine.")
    return torch.ops.aten.index(x, found)


def places_of_masks(g, indices) -> list:
    """Constant masks as the places where they are true."""
    found = []
    for i in indices:
        if i is None or i.type not in ("bool", "uint8"):
            found.append(i)
        else:
            found += [g.const(places, torch.int64) for places in constant_of(g, i).nonzero().unbind(1)]
    return found


@op("aten::index.Tensor", meta=_index_meta)
def index(g, node, x, indices):
    indices = places_of_masks(g, indices)
    given = [d for d, i in enumerate(indices) if i is not None]
    if not given:
        return x
    if len(given) == 1:
        return g.op.gather(x, as_index(g, indices[given[0]]), axis=given[0])
    places = Places(g, x.rank, indices)
    found = g.op.gather_nd(transposed(g, x, places.order), places.tensor(g))
    return transposed(g, found, places.front)


@op("aten::index_select")
def index_select(g, node, x, dim: int, index):
    if x.rank == 0:
        return x
    return g.op.gather(x, g.reshape(as_index(g, index), (-1, )), axis=at(dim, x.rank))


# ---- one index for each element ----


def row_index(g, node, dim: int):
    """Indices that were repeated by expand in all dimensions but `dim`, as a vector; None: they were not."""
    slot = node.args[2] if len(node.args) > 2 else node.kwargs["index"]
    if slot.node is None or not slot.node.target.startswith("aten::expand"):
        return None
    base = slot.node.args[0]
    shape = (1, ) * (len(slot.shape) - len(base.shape)) + tuple(base.shape)
    if any(n != 1 for d, n in enumerate(shape) if d != dim) or base not in g.values:
        return None
    return g.broadcast(g.reshape(as_index(g, g.values[base]), (shape[dim], )), (slot.shape[dim], ))


@op("aten::gather")
def gather(g, node, x, dim: int, index, sparse_grad: bool = False):
    shape = tuple(node.outputs[0].shape)
    rows = row_index(g, node, at(dim, x.rank)) if x.rank else None
    if rows is not None:
        logger.log(TRACE, "Optimising gather: whole slices of dimension %d instead of elements, at %s", dim, node.where)
        for d, n in enumerate(shape):
            x = x if d == at(dim, x.rank) else cut(g, x, d, 0, n)
        return g.op.gather(x, rows, axis=at(dim, x.rank))
    if x.rank == 0:
        return g.broadcast(x, shape) if shape == () else g.reshape(x, shape)
    index = as_index(g, index)
    if index.rank == 0:
        index = g.reshape(index, (1, ))
    return g.reshape(g.op.gather_elements(x, index, axis=at(dim, x.rank)), shape)


@op("aten::take", meta=lambda x, index: torch.empty(index.shape, dtype=x.dtype, device="meta"))
def take(g, node, x, index):
    return g.op.gather(g.reshape(x, (-1, )), as_index(g, index), axis=0)
