/* Broadcasting as it was before opset 7: by attributes. */
#ifndef IPU_ONNX_IMPORT_BROADCAST_H
#define IPU_ONNX_IMPORT_BROADCAST_H

#include "onnx/import/import.h"

/* `y`, with dimensions of 1 behind its own where attribute axis puts it at a place of x other than the end. */
ipu_value ipu__aligned(ipu__node *n, ipu_value x, ipu_value y);

#endif
