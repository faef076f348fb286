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
    /* Names of the last `n_anchors` outputs, which are tensors inside the file. */
    const char **anchors;
    size_t       n_anchors;
    const char **dims; /* NAME=NUMBER, as given */
    size_t       n_dims;
} onnx_file;

/* `shape_option` is the id of --shape; every use of it is checked. To be freed even on failure. */
tool_exit onnx_file_open(onnx_file *f, const char *command, const tool_arguments *args, int shape_option);
void      onnx_file_free(onnx_file *f);

/* The value --shape gives for dimension `d` of a port, or -1. */
int64_t onnx_file_dim(const onnx_file *f, const ipu_onnx_port *port, int d);

/* "float[N,3,224,224]", "sequence of float", "optional float[3]". */
void onnx_port_text(const ipu_onnx_port *port, char *out, size_t size);

#endif
