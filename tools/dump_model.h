/* `ipu dump` of a model. */
#ifndef TOOLS_DUMP_MODEL_H
#define TOOLS_DUMP_MODEL_H

#include "source.h"

tool_exit dump_model(const tool_arguments *args, ipu_model *m);

#endif
