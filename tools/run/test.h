/* `ipu run --test`: folders of ONNX test data. */
#ifndef TOOLS_RUN_TEST_H
#define TOOLS_RUN_TEST_H

#include "run/onnx_file.h"

/* Runs every set in DIR: DIR itself, or its folders test_data_set_*. TOOL_FAILED if one differs. */
tool_exit run_test(const tool_arguments *args, const onnx_file *f, ipu_onnx_session *session);

#endif
