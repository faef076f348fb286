/* The implementations an engine chose for its kernels, as text and as JSON. */
#ifndef TOOLS_GRAPH_KERNELS_H
#define TOOLS_GRAPH_KERNELS_H

#include <jansson.h>
#include <stdio.h>

#include "command.h"
#include "ipu/engine.h"
#include "ipu/text.h"

void kernels_print(FILE *out, const ipu_engine *e);
/* {"kernels": [...], "turned_bytes": N}. NULL if out of memory. */
json_t *kernels_json(const ipu_engine *e);
/* Makes an engine for the programs and writes its kernels to `output` (NULL: standard output). */
tool_exit kernels_write(const ipu_parsed *p, const char *output, bool json);

#endif
