/* Texts that commands take: a graph with its programs, or a model, told by the first word. */
#ifndef TOOLS_GRAPH_SOURCE_H
#define TOOLS_GRAPH_SOURCE_H

#include "command.h"
#include "ipu/model.h"
#include "ipu/text.h"

typedef struct tool_source {
    ipu_model  *model; /* NULL: it is a graph */
    ipu_parsed  parsed;
    ipu_program run; /* of a model that was lowered */
} tool_source;

/* "-": standard input. `side` NULL: no side file. */
tool_exit tool_source_read(tool_source *s, const char *path, const char *side);
/* Makes `parsed` of the model after these passes (IPU_PASS_*): ALL, what this host runs; CHIP, what is priced. */
tool_exit tool_source_lower(tool_source *s, const char *target, unsigned passes);
void      tool_source_free(tool_source *s);

#endif
