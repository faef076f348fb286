/* Where `ipu run` puts what a model gives: .npy and .npz files. */
#ifndef TOOLS_RUN_OUTPUTS_H
#define TOOLS_RUN_OUTPUTS_H

#include "run/onnx_file.h"

/* Tensors named by --anchor become outputs behind those of the file; what is an output already is not added. That the
 * file has them shows when it is run. */
tool_exit run_outputs_add_anchors(onnx_file *f, const tool_arguments *args);

/* Whether all uses of --output name outputs of the file; asked before anything runs. */
tool_exit run_outputs_check(const onnx_file *f, const tool_arguments *args);
tool_exit run_outputs_write(const onnx_file *f, const tool_arguments *args, const ipu_onnx_value *out);

#endif
