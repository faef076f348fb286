/* OpenIPU: everything. See the headers below, in this order, for the manual. */
#ifndef IPU_IPU_H
#define IPU_IPU_H

#include "ipu/status.h"
#include "ipu/log.h"
#include "ipu/type.h"
#include "ipu/target.h"
#include "ipu/device.h"
#include "ipu/ipuinfo.h"
#include "ipu/tensor.h"
#include "ipu/data.h"
#include "ipu/dataset.h"
#include "ipu/codelet.h"
#include "ipu/graph.h"
#include "ipu/stream.h"
#include "ipu/program.h"
#include "ipu/options.h"
#include "ipu/builder.h"
#include "ipu/op.h"
#include "ipu/engine.h"
#include "ipu/model.h"
#include "ipu/nn.h"
#include "ipu/onnx.h"
#include "ipu/module.h"
#include "ipu/executor.h"
#include "ipu/loader.h"
#include "ipu/checkpoint.h"
#include "ipu/text.h"
#include "ipu/cost.h"
#include "ipu/profile.h"
#include "ipu/version.h"

#endif
