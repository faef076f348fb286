/* Where `ipu run` puts what a model gives: .npy and .npz files. */
#ifndef TOOLS_RUN_OUTPUTS_H
#define TOOLS_RUN_OUTPUTS_H

#include "onnx_file.h"

/* Whether all uses of --output name outputs of the file; asked before anything runs. */
tool_exit run_outputs_check(const onnx_file *f, const tool_arguments *args);
tool_exit run_outputs_write(const onnx_file *f, const tool_arguments *args, const ipu_onnx_value *out);

#endif
