/* All kernels there are, for the layers that look them up by name and know none of them. A program that is linked to the archive and
 * defines a list of its own has those instead, and needs no op (tests/engine/own_kernels_test.c).
 */
#include "op/op.h"

const ipu__kernel_def *const ipu__kernels[] = {
#define OP(name) &ipu__op_##name.kernel,
#include "op/ops.inc"
#undef OP
    NULL};
