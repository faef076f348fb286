/* The inputs `ipu run` gives a model: arrays from files, random numbers for the rest. */
#ifndef TOOLS_RUN_INPUTS_H
#define TOOLS_RUN_INPUTS_H

#include "run/onnx_file.h"

typedef struct run_inputs {
    ipu_onnx_value *values; /* as many as the file has inputs */
    const char    **files;  /* source; NULL if random or omitted */
    size_t          n;
} run_inputs;

/* Random inputs hold `batches` batches. To be freed even on failure. */
tool_exit run_inputs_make(run_inputs *in, const onnx_file *f, const tool_arguments *args, int64_t batches);
void      run_inputs_free(run_inputs *in);

/* The index of the port in NAME=FILE, with *file set to what follows; `what` the `ports` are ("input"). A
 * sole port need not be named. -1 after reporting that there is none. */
int run_find_port(const ipu_onnx_port *ports, size_t n, const char *what, const char *text,
                  const char **file);

#endif
