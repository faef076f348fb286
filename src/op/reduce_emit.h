/* Until the headers of other families are here: their functions, by name. */
#ifndef IPU_OP_REDUCE_EMIT_H
#define IPU_OP_REDUCE_EMIT_H
#include "op/op.h"
#include "ipu/elementwise.h"
#include "ipu/model.h"
#include "ipu/shape.h"
#endif
