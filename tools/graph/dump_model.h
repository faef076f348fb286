/* `ipu dump` of a model. */
#ifndef TOOLS_GRAPH_DUMP_MODEL_H
#define TOOLS_GRAPH_DUMP_MODEL_H

#include "graph/source.h"

tool_exit dump_model(const tool_arguments *args, ipu_model *m);

#endif
