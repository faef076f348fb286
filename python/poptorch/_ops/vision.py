"""Images read at places that are computed: grids, regions."""
from __future__ import annotations

from .registry import op

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


@op("aten::grid_sampler_2d", "aten::cudnn_grid_sampler")
def grid_sampler_2d(g, node, input, grid, interpolation_mode=0, padding_mode=0, align_corners=True):
    return g.emit("grid_sample", [input, g.cast(grid, input.type)],
                  mode=_MODES[interpolation_mode],
                  padding=_PADDINGS[padding_mode],
                  align_corners=int(align_corners))


@op("aten::grid_sampler_3d")
def grid_sampler_3d(g, node, input, grid, interpolation_mode=0, padding_mode=0, align_corners=True):
    if interpolation_mode == 2:
        raise ValueError("grid_sample: bicubic interpolation only supports 4D input")
    return g.emit("grid_sample_3d", [g.cast(input, "float"), g.cast(grid, "float")],
                  mode=_MODES[interpolation_mode],
                  padding=_PADDINGS[padding_mode],
                  align_corners=int(align_corners))


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
    return g.emit("affine_grid", [theta], size=list(size)[2:], align_corners=int(align_corners))
