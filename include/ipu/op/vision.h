/* Sampling images at computed positions: grids, regions, boxes.
 *
 *     ipu_value grid = ipu_affine_grid(b, theta, height, width, false);            theta: [n, 2, 3]
 *     ipu_value y    = ipu_grid_sample(b, x, grid, (ipu_grid_sample_options){0});
 *
 * Images are [n, channels, height, width]. Coordinates are computed in double whatever their type.
 */
#ifndef IPU_OP_VISION_H
#define IPU_OP_VISION_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ipu_grid_mode { IPU_GRID_BILINEAR, IPU_GRID_NEAREST, IPU_GRID_BICUBIC } ipu_grid_mode;
/* Beyond the edge: 0, the element at the edge, or the reflected image. */
typedef enum ipu_grid_padding { IPU_GRID_ZEROS, IPU_GRID_BORDER, IPU_GRID_REFLECTION } ipu_grid_padding;

typedef struct ipu_grid_sample_options {
    ipu_grid_mode    mode;
    ipu_grid_padding padding;
    bool align_corners; /* -1 and 1 are the centres of the first and last element rather than their edges */
} ipu_grid_sample_options;

/* `grid` is [n, out height, out width, 2]: positions (x, y) in each image, from -1 to 1. Like PyTorch's
 * grid_sample. */
ipu_value ipu_grid_sample(ipu_builder *b, ipu_value x, ipu_value grid, ipu_grid_sample_options options);
/* The grid that `theta` [n, 2, 3] gives for the positions of an output: theta times (x, y, 1). At most 2^24
 * positions. */
ipu_value ipu_affine_grid(ipu_builder *b, ipu_value theta, int64_t height, int64_t width, bool align_corners);
/* For volumes [n, channels, depth, height, width], with grids [n, out depth, out height, out width, 3] of positions (x,
 * y, z) and `theta` [n, 3, 4]. There is no bicubic mode; half types are computed in float. */
ipu_value ipu_grid_sample_3d(ipu_builder *b, ipu_value x, ipu_value grid, ipu_grid_sample_options options);
ipu_value ipu_affine_grid_3d(ipu_builder *b, ipu_value theta, int64_t depth, int64_t height, int64_t width,
                             bool align_corners);

typedef struct ipu_roi_align_options {
    int64_t height, width;  /* of the output; 0 means 1 */
    double  scale;          /* from the regions' coordinates to those of x; 0 means 1 */
    int64_t sampling_ratio; /* samples along each side of a cell; 0 means as many as it has elements */
    bool    is_max;         /* the maximum of a cell's samples rather than their mean */
    bool    half_pixel;     /* subtract 0.5 from coordinates: PyTorch's `aligned` */
} ipu_roi_align_options;

/* Regions of x, divided into cells: [regions, channels, height, width]. `rois` is [regions, 4]: x1, y1, x2,
 * y2; `batch_indices` (int32 or int64) says which image each belongs to. The maximum is over the
 * contributions of the four elements around each sample, as in ONNX. `rois` has no gradient. */
ipu_value ipu_roi_align(ipu_builder *b, ipu_value x, ipu_value rois, ipu_value batch_indices,
                        ipu_roi_align_options options);

typedef struct ipu_non_max_suppression_options {
    int64_t bound;            /* maximum number of boxes to return; 0 means all */
    bool    center_point_box; /* boxes are centre x, y, width, height, not corners y1, x1, y2, x2 */
} ipu_non_max_suppression_options;

/* Boxes in order of score, without those that overlap an earlier one. `boxes`: [n, boxes, 4] and `scores`:
 * [n, classes, boxes], float. Scalars (or [1]), which may be null for the default in brackets: `most` (0),
 * int64: maximum per image and class; `iou` (0), float: overlap above which a box is dropped; `score` (none),
 * float: minimum, exclusive. Returns [bound, 3] int64: image, class, box; *count: how many there are; the
 * rest is 0. */
ipu_value ipu_non_max_suppression(ipu_builder *b, ipu_value boxes, ipu_value scores, ipu_value most,
                                  ipu_value iou, ipu_value score, ipu_non_max_suppression_options options,
                                  ipu_value *count);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_grid_sample(...) IPU_AT(ipu_grid_sample(__VA_ARGS__))
#define ipu_affine_grid(...) IPU_AT(ipu_affine_grid(__VA_ARGS__))
#define ipu_grid_sample_3d(...) IPU_AT(ipu_grid_sample_3d(__VA_ARGS__))
#define ipu_affine_grid_3d(...) IPU_AT(ipu_affine_grid_3d(__VA_ARGS__))
#define ipu_roi_align(...) IPU_AT(ipu_roi_align(__VA_ARGS__))
#define ipu_non_max_suppression(...) IPU_AT(ipu_non_max_suppression(__VA_ARGS__))
#endif
#endif
