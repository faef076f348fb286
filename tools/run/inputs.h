/* What `ipu run` gives a model: arrays from files, random numbers for the rest. */
#ifndef TOOLS_RUN_INPUTS_H
#define TOOLS_RUN_INPUTS_H

#include "run/onnx_file.h"

typedef struct run_inputs {
    ipu_onnx_value *values; /* as many as the file has inputs */
    const char    **files;  /* where from; NULL: random, or left out */
    size_t          n;
} run_inputs;

/* Random ones hold `batches` batches. To be freed also when it fails. */
tool_exit run_inputs_make(run_inputs *in, const onnx_file *f, const tool_arguments *args, int64_t batches);
void      run_inputs_free(run_inputs *in);

/* The number of the port that NAME=FILE names, with *file what follows; `ports` of `what` ("input"). One that is
 * alone need not be named. -1: none, which is reported. */
int run_find_port(const ipu_onnx_port *ports, size_t n, const char *what, const char *text,
                  const char **file);

#endif
