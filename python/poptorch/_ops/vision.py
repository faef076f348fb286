"""Images read at places that are computed: grids, regions."""
from __future__ import annotations

import itertools

import torch

from .registry import op

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


@op("aten::grid_sampler_2d", "aten::cudnn_grid_sampler")
def grid_sampler_2d(g, node, input, grid, interpolation_mode=0, padding_mode=0, align_corners=True):
    return g.emit("grid_sample", [input, g.cast(grid, input.type)],
                  mode=_MODES[interpolation_mode],
                  padding=_PADDINGS[padding_mode],
                  align_corners=int(align_corners))


# ---- volumes ----


def _at_edges(g, place, size: int, padding: str, align_corners: bool):
    """Where a place lies that may be beyond the edges."""
    if padding == "reflection":
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span == 0:
            return g.op.mul(place, 0)
        away = g.op.abs(g.op.sub(place, low))
        turns = g.op.stop_gradient(g.op.floor(g.op.div(away, span)))
        rest = g.op.sub(away, g.op.mul(turns, span))
        is_odd = g.op.equal(g.op.mod(turns, 2), 1)
        place = g.op.add(g.op.where(is_odd, g.op.sub(g.const(span, place.type), rest), rest), low)
    if padding != "zeros":
        place = g.emit("clip", [place], min=0, max=size - 1)
    return place


def _places(g, grid, axis: int, size: int, padding: str, align_corners: bool):
    """One coordinate of a grid, [n, places], in elements."""
    n = grid.shape[0]
    at = g.reshape(g.emit("slice", [grid], begin=[axis], end=[axis + 1], axes=[grid.rank - 1]), (n, -1))
    if align_corners:
        at = g.op.mul(g.op.add(at, 1), (size - 1) / 2)
    else:
        at = g.op.mul(g.op.sub(g.op.add(g.op.mul(at, size), size), 1), 0.5)
    return _at_edges(g, at, size, padding, align_corners)


def _read(g, volume, corner, sizes):
    """Elements of a volume [n, channels, elements] at whole places, and whether these are inside."""
    inside, index = None, None
    for at, size in zip(corner, sizes):
        here = g.op.logical_and(g.op.greater_equal(at, 0), g.op.less(at, size))
        inside = here if inside is None else g.op.logical_and(inside, here)
        at = g.emit("clip", [at], min=0, max=size - 1)
        index = at if index is None else g.op.add(g.op.mul(index, size), at)
    n, channels, _ = volume.shape
    index = g.broadcast(g.reshape(g.cast(index, "int32"), (n, 1, -1)), (n, channels, index.shape[1]))
    return g.emit("gather_elements", [volume, index], axis=2), g.cast(inside, volume.type)


@op("aten::grid_sampler_3d")
def grid_sampler_3d(g, node, input, grid, interpolation_mode=0, padding_mode=0, align_corners=True):
    if interpolation_mode == 2:
        raise ValueError("grid_sample: bicubic interpolation only supports 4D input")
    narrow, sizes = input.type, input.shape[2:]
    x, grid = g.cast(input, "float"), g.cast(grid, "float")
    padding = _PADDINGS[padding_mode]
    places = [_places(g, grid, 2 - d, sizes[d], padding, align_corners) for d in range(3)]
    n, channels = x.shape[:2]
    volume, total = g.reshape(x, (n, channels, -1)), None
    nearest = interpolation_mode == 1
    base = [g.op.stop_gradient(g.op.round(p) if nearest else g.op.floor(p)) for p in places]
    for offset in itertools.product((0, 1), repeat=0 if nearest else 3) or ((), ):
        corner = [g.op.add(b, o) for b, o in zip(base, offset)] if offset else base
        value, weight = _read(g, volume, corner, sizes)
        if not nearest:
            for place, at in zip(places, corner):
                weight = g.op.mul(weight, g.op.sub(g.const(1, "float"), g.op.abs(g.op.sub(place, at))))
        term = g.op.mul(value, g.reshape(weight, (n, 1, -1)))
        total = term if total is None else g.op.add(total, term)
    return g.cast(g.reshape(total, tuple(node.outputs[0].shape)), narrow)


# ---- regions ----


def _roi_meta(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    return input.new_empty((rois.shape[0], input.shape[1], pooled_height, pooled_width))


@op("torchvision::roi_align", meta=_roi_meta)
def roi_align(g, node, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    """rois: [n, 5], the image of each, then its corners."""
    images = g.emit("slice", [rois], begin=[0], end=[1], axes=[1])
    corners = g.emit("slice", [rois], begin=[1], end=[5], axes=[1])
    images = g.cast(g.reshape(images, (rois.shape[0], )), "int32")
    return g.emit("roi_align", [input, g.cast(corners, input.type), images],
                  size=[pooled_height, pooled_width],
                  scale=spatial_scale,
                  sampling_ratio=max(0, sampling_ratio),
                  half_pixel=int(aligned))


# ---- grids ----


@op("aten::affine_grid_generator")
def affine_grid(g, node, theta, size, align_corners):
    """theta times (x, y, 1) or (x, y, z, 1) for all places of an output."""
    extents = list(size)[2:]
    steps = []
    for n in extents:
        edge = 1.0 if align_corners else 1 - 1 / n
        steps.append(torch.linspace(-edge, edge, n) if n > 1 else torch.zeros(1))
    places = torch.meshgrid(*steps, indexing="ij")
    base = torch.stack([*reversed(places), torch.ones(extents)], dim=-1).reshape(-1, len(extents) + 1)
    grid = g.emit("matmul", [g.const(base, theta.type), theta], transpose_b=1)
    return g.reshape(grid, tuple(node.outputs[0].shape))
