/* The op library: functions that emit ops into a builder (ipu/builder.h), a header per family.
 *
 *     ipu_value y = ipu_softmax(b, ipu_matmul(b, x, w), -1);
 *
 * An op takes inputs of one type unless it says otherwise: nothing is converted behind the user's back
 * (ipu_cast does). Floating types are half, bfloat16, float and double; half and bfloat16 are computed in
 * float and rounded to nearest even at the end of every op.
 */
#ifndef IPU_OP_H
#define IPU_OP_H

#include "ipu/builder.h"
#include "ipu/attention.h"
#include "ipu/conv.h"
#include "ipu/distance.h"
#include "ipu/elementwise.h"
#include "ipu/gather.h"
#include "ipu/host.h"
#include "ipu/linalg.h"
#include "ipu/loss.h"
#include "ipu/matmul.h"
#include "ipu/norm.h"
#include "ipu/optimizer.h"
#include "ipu/pool.h"
#include "ipu/quantize.h"
#include "ipu/random.h"
#include "ipu/recurrent.h"
#include "ipu/reduce.h"
#include "ipu/resize.h"
#include "ipu/search.h"
#include "ipu/select.h"
#include "ipu/shape.h"
#include "ipu/signal.h"
#include "ipu/softmax.h"
#include "ipu/sort.h"
#include "ipu/special.h"
#include "ipu/vision.h"

#endif
