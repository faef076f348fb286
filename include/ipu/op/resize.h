/* Resizing by interpolation, like ONNX's Resize: images, volumes, anything.
 *
 *     int64_t   sizes[] = {n, channels, 2 * height, 2 * width};
 *     ipu_value y = ipu_resize(b, x, sizes, (ipu_resize_options){.mode = IPU_RESIZE_LINEAR});
 *
 * Each dimension is resized independently. `coordinates` says at which position of the input, possibly
 * between elements, output o lies, with scale = outputs / inputs, or as given. PyTorch's interpolate is
 * IPU_RESIZE_PYTORCH_HALF_PIXEL (or ALIGN_CORNERS); its "nearest" is ASYMMETRIC with IPU_RESIZE_FLOOR. Types
 * are half, bfloat16, float and double; nearest works for any type.
 */
#ifndef IPU_OP_RESIZE_H
#define IPU_OP_RESIZE_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ipu_resize_mode { IPU_RESIZE_NEAREST, IPU_RESIZE_LINEAR, IPU_RESIZE_CUBIC } ipu_resize_mode;

typedef enum ipu_resize_coordinates {
    IPU_RESIZE_HALF_PIXEL,           /* (o + 0.5) / scale - 0.5 */
    IPU_RESIZE_PYTORCH_HALF_PIXEL,   /* the same, but 0 if there is only one output */
    IPU_RESIZE_ALIGN_CORNERS,        /* o * (inputs - 1) / (outputs - 1) */
    IPU_RESIZE_ASYMMETRIC,           /* o / scale */
    IPU_RESIZE_TF_HALF_PIXEL_FOR_NN, /* (o + 0.5) / scale */
    IPU_RESIZE_TF_CROP_AND_RESIZE    /* from roi_begin to roi_end, in units of inputs - 1 */
} ipu_resize_coordinates;

typedef enum ipu_resize_nearest {
    IPU_RESIZE_ROUND_PREFER_FLOOR,
    IPU_RESIZE_ROUND_PREFER_CEIL,
    IPU_RESIZE_FLOOR,
    IPU_RESIZE_CEIL
} ipu_resize_nearest;

typedef struct ipu_resize_options {
    ipu_resize_mode        mode;
    ipu_resize_coordinates coordinates;
    ipu_resize_nearest     nearest;
    double                 cubic_a;         /* of the cubic; 0 means -0.75, as in PyTorch */
    bool                   exclude_outside; /* cubics: elements beyond the edge have no weight */
    double roi_begin[IPU_MAX_RANK], roi_end[IPU_MAX_RANK]; /* 0 is the first, 1 the last element */
    double extrapolation;                                  /* TF_CROP_AND_RESIZE: value beyond the edge */
} ipu_resize_options;

/* To sizes[d] along each dimension, or by scales[d], rounded down. */
ipu_value ipu_resize(ipu_builder *b, ipu_value x, const int64_t *sizes, ipu_resize_options options);
ipu_value ipu_resize_by(ipu_builder *b, ipu_value x, const double *scales, ipu_resize_options options);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_resize(...) IPU_AT(ipu_resize(__VA_ARGS__))
#define ipu_resize_by(...) IPU_AT(ipu_resize_by(__VA_ARGS__))
#endif
#endif
