/* IPUs of `ipu run`: stages, replicas, and batches of a run. */
#ifndef TOOLS_RUN_IPUS_H
#define TOOLS_RUN_IPUS_H

#include <jansson.h>

#include "command.h"
#include "ipu/executor.h"
#include "ipu/target.h"

typedef struct run_ipus {
    int64_t         ipus, stages, replicas;
    int64_t         batches; /* of each replica */
    ipu_output_mode mode;
    int64_t         period; /* for EVERY_N */
} run_ipus;

tool_exit run_ipus_read(run_ipus *out, const tool_arguments *args);
/* Batches of all replicas. */
int64_t run_ipus_batches(const run_ipus *r);
/* The target: one IPU or a whole system, unless something else was asked for. */
tool_exit run_ipus_target(const run_ipus *r, const tool_arguments *args, ipu_target *out);

void    run_ipus_print(const run_ipus *r); /* prints nothing for one batch on one IPU */
json_t *run_ipus_json(const run_ipus *r);  /* NULL if out of memory */

#endif
