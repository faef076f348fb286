"""Interpolation: nearest, linear, cubic, with and without antialiasing."""
from __future__ import annotations

from typing import Sequence

import torch

from .registry import op


def _floored(size: int, scale: float) -> int:
    return int(size * scale)


def _listed(scales: Sequence) -> Sequence:
    """One scale for each dimension; the overloads that Python calls have them as a list, or None."""
    if len(scales) == 1 and isinstance(scales[0], (list, tuple)):
        return scales[0]
    return scales or (None, )


def _resized(g, node, x, scales: Sequence, **attributes):
    """Scales that the user gave say where elements lie; without them the extents do."""
    scales = _listed(scales)
    shape = tuple(node.outputs[0].shape)
    given = all(s is not None and s > 0 and _floored(x.shape[2 + i], s) == shape[2 + i] for i, s in enumerate(scales))
    if given and attributes.get("coordinates") != "align_corners":
        where = {f"scale_{2 + i}": s for i, s in enumerate(scales)}
    else:
        where = {"sizes": list(shape)}
    return g.emit("resize", [x], **where, **attributes)


@op("aten::upsample_nearest1d", "aten::upsample_nearest2d", "aten::upsample_nearest3d")
def nearest(g, node, x, output_size, *scales):
    return _resized(g, node, x, scales, mode="nearest", coordinates="asymmetric", nearest="floor")


@op("aten::_upsample_nearest_exact1d", "aten::_upsample_nearest_exact2d", "aten::_upsample_nearest_exact3d")
def nearest_exact(g, node, x, output_size, *scales):
    return _resized(g, node, x, scales, mode="nearest", coordinates="tf_half_pixel_for_nn", nearest="floor")


def _coordinates(align_corners: bool) -> str:
    return "align_corners" if align_corners else "half_pixel"


@op("aten::upsample_linear1d", "aten::upsample_bilinear2d", "aten::upsample_trilinear3d")
def linear(g, node, x, output_size, align_corners, *scales):
    return _resized(g, node, x, scales, mode="linear", coordinates=_coordinates(align_corners))


@op("aten::upsample_bicubic2d")
def cubic(g, node, x, output_size, align_corners, *scales):
    return _resized(g, node, x, scales, mode="cubic", coordinates=_coordinates(align_corners))


def _matrix(kernel, size: int, n: int, align_corners: bool, scale) -> torch.Tensor:
    """The weights [n, size] by which n elements are made of `size`: what torch makes of the unit vectors."""
    images = torch.eye(size).reshape(1, size, 1, size)
    return kernel(images, [1, n], align_corners, None, scale).reshape(size, n).t()


def _antialiased(g, node, x, kernel, align_corners, scales):
    scale_h, scale_w = (*_listed(scales), None)[:2]
    height, width = node.outputs[0].shape[2:]
    with torch.no_grad():
        rows = _matrix(kernel, x.shape[2], height, align_corners, scale_h)
        columns = _matrix(kernel, x.shape[3], width, align_corners, scale_w)
    y = g.emit("matmul", [x, g.const(columns, x.type)], transpose_b=1)
    return g.emit("matmul", [g.const(rows, x.type), y])


@op("aten::_upsample_bilinear2d_aa")
def linear_antialiased(g, node, x, output_size, align_corners, *scales):
    return _antialiased(g, node, x, torch.ops.aten._upsample_bilinear2d_aa.default, align_corners, scales)


@op("aten::_upsample_bicubic2d_aa")
def cubic_antialiased(g, node, x, output_size, align_corners, *scales):
    return _antialiased(g, node, x, torch.ops.aten._upsample_bicubic2d_aa.default, align_corners, scales)
