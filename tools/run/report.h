/* The report of `ipu run`: summaries of outputs, times of runs, estimated time on the chip. */
#ifndef TOOLS_RUN_REPORT_H
#define TOOLS_RUN_REPORT_H

#include <jansson.h>

#include "ipu/cost.h"
#include "run/inputs.h"
#include "run/ipus.h"

typedef struct run_result {
    const onnx_file      *file;
    const run_inputs     *in;
    const ipu_onnx_value *out;        /* as many as the file has outputs */
    double                first;      /* seconds, including compilation */
    bool                  was_cached; /* nothing needed compiling */
    double                median, least;
    int64_t               n_timed;
    int                   threads;
    ipu_cost_summary      cost;
    const run_ipus       *ipus;
    const ipu_engine     *engine; /* whose kernels are listed; NULL: they are not */
} run_result;

void    run_print(const run_result *r);
json_t *run_json(const run_result *r); /* NULL if out of memory */

/* An element as text: integers in full, floats with 6 digits. */
void run_element_text(const ipu_array *a, int64_t i, char *out, size_t size);
/* "[0,3]": the index of element `i`. */
void run_index_text(const ipu_shape *shape, int64_t i, char *out, size_t size);

#endif
