/* The op library: functions that emit ops into a builder (ipu/builder.h), a header per family.
 *
 *     ipu_value y = ipu_softmax(b, ipu_matmul(b, x, w), -1);
 *
 * All inputs of an op have one type unless stated otherwise: nothing is converted implicitly (use ipu_cast).
 * Floating types are half, bfloat16, float and double; half and bfloat16 are computed in float and rounded to
 * nearest even at the end of every op.
 */
#ifndef IPU_OP_H
#define IPU_OP_H

#include "ipu/builder.h"
#include "ipu/op/attention.h"
#include "ipu/op/conv.h"
#include "ipu/op/distance.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/host.h"
#include "ipu/op/linalg.h"
#include "ipu/op/loss.h"
#include "ipu/op/matmul.h"
#include "ipu/op/norm.h"
#include "ipu/op/optimizer.h"
#include "ipu/op/pool.h"
#include "ipu/op/quantize.h"
#include "ipu/op/random.h"
#include "ipu/op/recurrent.h"
#include "ipu/op/reduce.h"
#include "ipu/op/resize.h"
#include "ipu/op/search.h"
#include "ipu/op/select.h"
#include "ipu/op/shape.h"
#include "ipu/op/signal.h"
#include "ipu/op/softmax.h"
#include "ipu/op/sort.h"
#include "ipu/op/special.h"
#include "ipu/op/vision.h"

#endif
