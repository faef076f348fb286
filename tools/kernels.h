/* What an engine chose for its kernels, for people and as JSON. */
#ifndef TOOLS_KERNELS_H
#define TOOLS_KERNELS_H

#include <jansson.h>
#include <stdio.h>

#include "ipu/engine.h"

void kernels_print(FILE *out, const ipu_engine *e);
/* {"kernels": [...], "turned_bytes": N}. NULL: out of memory */
json_t *kernels_json(const ipu_engine *e);

#endif
