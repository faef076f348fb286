/* ONNX files as commands take them: names of inputs and outputs, dimensions given by --shape. */
#ifndef TOOLS_RUN_ONNX_FILE_H
#define TOOLS_RUN_ONNX_FILE_H

#include "command.h"
#include "ipu/onnx.h"

typedef struct onnx_file {
    const char    *path;
    ipu_onnx      *onnx;
    ipu_onnx_port *inputs, *outputs;
    size_t         n_inputs, n_outputs;
    /* Names of the last `n_anchors` of the outputs, which the file has as tensors only. */
    const char **anchors;
    size_t       n_anchors;
    const char **dims; /* NAME=NUMBER, as given */
    size_t       n_dims;
} onnx_file;

/* `shape_option`: the id of --shape, of which every use is checked. To be freed also when it fails. */
tool_exit onnx_file_open(onnx_file *f, const char *command, const tool_arguments *args, int shape_option);
void      onnx_file_free(onnx_file *f);

/* What --shape says of dimension `d` of a port; -1: nothing. */
int64_t onnx_file_dim(const onnx_file *f, const ipu_onnx_port *port, int d);

/* "float[N,3,224,224]", "sequence of float", "optional float[3]". */
void onnx_port_text(const ipu_onnx_port *port, char *out, size_t size);

#endif
