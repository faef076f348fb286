/* Pictures as a network takes them: a PNG file made floats of the size and order that its input has. */
#ifndef TOOLS_RUN_PICTURE_H
#define TOOLS_RUN_PICTURE_H

#include "run/onnx_file.h"

typedef struct picture_form {
    int64_t   n, channels, height, width; /* n: samples of a run */
    bool      channels_last;
    ipu_shape shape;     /* of the input */
    bool      digit;     /* found, turned light on dark and centred, as MNIST has it */
    bool      raw;       /* 0 to 255; or else (x / 255 - mean) / std */
    double    mean, std; /* alike in all channels */
} picture_form;

/* What `ipu train` writes into ONNX files and picture_form_find reads. */
#define PICTURE_MEAN "openipu.mean"
#define PICTURE_STD "openipu.std"
#define PICTURE_RAW "openipu.raw"

/* What the metadata of a file say of pixels; what they do not say stays. `path` is for messages. */
tool_exit picture_metadata(const ipu_onnx *file, const char *path, bool *raw, double *mean, double *std);

/* The form of the one input of a model: [N, channels, height, width], [N, height, width, channels], [N, height, width]
 * or [N, pixels of a square]. The rest is as its metadata say, or x / 255; 28 x 28 without colours: a digit. */
tool_exit picture_form_find(const onnx_file *f, picture_form *out);

/* Floats of one sample. */
int64_t   picture_n_elements(const picture_form *form);
tool_exit picture_read(const picture_form *form, const char *path, float *out);

#endif
