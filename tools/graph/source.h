/* Text input of commands: a graph with its programs or a model, told apart by the first word. */
#ifndef TOOLS_GRAPH_SOURCE_H
#define TOOLS_GRAPH_SOURCE_H

#include "command.h"
#include "ipu/model.h"
#include "ipu/text.h"

typedef struct tool_source {
    ipu_model  *model; /* NULL if it is a graph */
    ipu_parsed  parsed;
    ipu_program run; /* of a lowered model */
} tool_source;

/* `path` "-" is standard input; `side` NULL means no side file. */
tool_exit tool_source_read(tool_source *s, const char *path, const char *side);
/* Lowers the model to `parsed` after these passes (IPU_PASS_*): ALL for what this host runs, CHIP for what is
 * priced. */
tool_exit tool_source_lower(tool_source *s, const char *target, unsigned passes);
void      tool_source_free(tool_source *s);

#endif
