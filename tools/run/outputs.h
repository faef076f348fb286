/* Saves the outputs of `ipu run` as .npy and .npz files. */
#ifndef TOOLS_RUN_OUTPUTS_H
#define TOOLS_RUN_OUTPUTS_H

#include "run/onnx_file.h"

/* Adds tensors named by --anchor as outputs after those of the file, unless they are outputs already. Whether
 * the file has them is found out when it is run. */
tool_exit run_outputs_add_anchors(onnx_file *f, const tool_arguments *args);

/* Checks that all uses of --output name outputs of the file, before anything runs. */
tool_exit run_outputs_check(const onnx_file *f, const tool_arguments *args);
tool_exit run_outputs_write(const onnx_file *f, const tool_arguments *args, const ipu_onnx_value *out);

#endif
