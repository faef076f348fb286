/* Pictures as input of networks: a PNG file converted to floats of the input's size and order. */
#ifndef TOOLS_RUN_PICTURE_H
#define TOOLS_RUN_PICTURE_H

#include "run/onnx_file.h"

typedef struct picture_form {
    int64_t   n, channels, height, width; /* n: samples per run */
    bool      channels_last;
    ipu_shape shape;     /* of the input */
    bool      digit;     /* located, inverted to light on dark and centred, as in MNIST */
    bool      raw;       /* 0 to 255; else (x / 255 - mean) / std */
    double    mean, std; /* the same for all channels */
} picture_form;

/* Written into ONNX files by `ipu train`, and read by picture_form_find. */
#define PICTURE_MEAN "openipu.mean"
#define PICTURE_STD "openipu.std"
#define PICTURE_RAW "openipu.raw"

/* Reads how pixels are scaled from the file's metadata; what they do not give is left unchanged. `path` is
 * for messages. */
tool_exit picture_metadata(const ipu_onnx *file, const char *path, bool *raw, double *mean, double *std);

/* The form of the one input of a model: [N, channels, height, width], [N, height, width, channels], [N,
 * height, width] or [N, pixels of a square]. Scaling follows the metadata, default x / 255; 28 x 28 without
 * colours means a digit. */
tool_exit picture_form_find(const onnx_file *f, picture_form *out);

/* Floats of one sample. */
int64_t   picture_n_elements(const picture_form *form);
tool_exit picture_read(const picture_form *form, const char *path, float *out);

#endif
