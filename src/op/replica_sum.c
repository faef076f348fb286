/* replica_sum: the sum over all replicas of a graph. With a single replica it is a view: nothing moves.
 *
 * Lowering (model/lower.c) inserts the exchange, because an op knows only one replica.
 */
#include "op/op.h"

static ipu_status infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, 0));
    *out = call->operand[0];
    return IPU_OK;
}

static ipu_tensor view(ipu_graph *g, const ipu__kernel_call *call, const ipu_tensor *in)
{
    (void)g, (void)call;
    return in[0];
}

static void grad(ipu__gradient *g)
{
    g->d_in[0] = ipu__emit1(g->b, "replica_sum", NULL, 0, IPU__IN(g->d_out[0]));
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OUTPUT("y")};

static const char *const samples[] = {"float[2,3]", "float[]", NULL};

const ipu__op_def ipu__op_replica_sum = {
    .kernel  = {.name = "replica_sum", .operands = operands, .n_operands = 2, .check = ipu__op_check},
    .n_in    = 1,
    .family  = "reduce",
    .summary = "the sum over replicas of a model; of one replica, the same values",
    .flags   = IPU__OP_IMPURE,
    .infer   = infer,
    .grad    = grad,
    .view    = view,
    .samples = samples,
};
