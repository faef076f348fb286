/* Which operands of a call are independent rows: `rows` of records. Derived from their batches (op.h), and
 * for products and softmax from attributes. */
#include "op/elementwise/epilogue.h"
#include "op/matmul/matmul.h"
#include "op/replicas.h"

static bool is_batch(const ipu__kernel_call *call, int i, int64_t n)
{
    const ipu_shape *shape = &call->operand[i].shape;
    return shape->rank > 0 && shape->dim[0] == n;
}

static uint32_t bit(int i) { return (uint32_t)1 << i; }

/* Operands [first, end) are broadcast to operand `like`: rows are those that reach as far and are as many. False: one
 * is told apart in no way. */
static bool add_broadcast(const ipu__kernel_call *call, int first, int end, int like, uint32_t *mask)
{
    const ipu_shape *shape = &call->operand[like].shape;
    for (int i = first; i < end; i++) {
        const ipu_shape *own = &call->operand[i].shape;
        if (!ipu__kernel_has(call, i) || own->rank < shape->rank || own->dim[0] == 1) continue;
        if (own->dim[0] != shape->dim[0]) return false;
        *mask |= bit(i);
    }
    return true;
}

static bool add_epilogue(const ipu__kernel_call *call, uint32_t *mask)
{
    const ipu__op_def *op = ipu__op_of(call->def);
    if (!(op->flags & IPU__OP_EPILOGUE)) return true;
    return add_broadcast(call, op->n_in - IPU__EPILOGUE_IN, op->n_in, call->n_operands - 1, mask);
}

static uint32_t elementwise_rows(const ipu__kernel_call *call)
{
    int      out  = ipu__op_of(call->def)->n_in;
    uint32_t mask = 0;
    if (call->operand[out].shape.rank == 0 || !add_broadcast(call, 0, call->n_operands, out, &mask)) return 0;
    return mask;
}

/* Operands whose batch is their dimension 0; 0: one has it elsewhere. */
static uint32_t list_rows(const ipu__kernel_call *call, const ipu__op_def *op)
{
    uint32_t mask = 0;
    int64_t  n    = -1;
    for (int i = 0; i < call->n_operands; i++) {
        ipu__op_along along = ipu__op_along_of(op, i);
        if (along == IPU__SHARED) continue;
        if (along != IPU__AXIS_0) return 0;
        if (!ipu__kernel_has(call, i)) continue;
        if (n < 0 && call->operand[i].shape.rank > 0) n = call->operand[i].shape.dim[0];
        if (!is_batch(call, i, n)) return 0;
        mask |= bit(i);
    }
    return add_epilogue(call, &mask) ? mask : 0;
}

/* Rows of a, which is not transposed, times one matrix. */
static uint32_t matmul_rows(const ipu__kernel_call *call)
{
    uint32_t mask = bit(IPU__MATMUL_A) | bit(IPU__MATMUL_OUT);
    if (ipu__op_int(call, "transpose_a") || call->operand[IPU__MATMUL_A].shape.rank != 2
        || call->operand[IPU__MATMUL_B].shape.rank != 2)
        return 0;
    return add_epilogue(call, &mask) ? mask : 0;
}

static uint32_t axis_rows(const ipu__kernel_call *call)
{
    uint32_t mask = 0;
    int      rank = call->operand[0].shape.rank, axis;
    if (rank == 0 || ipu__op_axis(call, "axis", rank, &axis) != IPU_OK || axis == 0) return 0;
    for (int i = 0; i < call->n_operands; i++) {
        if (!ipu__shape_equal(&call->operand[i].shape, &call->operand[0].shape)) return 0;
        mask |= bit(i);
    }
    return mask;
}

uint32_t ipu__op_rows(const ipu__kernel_call *call)
{
    const ipu__op_def *op = ipu__op_of(call->def);
    if (op->flags & IPU__OP_IMPURE) return 0;
    if (op == &ipu__op_matmul) return matmul_rows(call);
    if (op == &ipu__op_chain || (op->flags & IPU__OP_ELEMENTWISE)) return elementwise_rows(call);
    if (op->fold == ipu__fold_along_axis) return axis_rows(call);
    return op->batch && !op->fold ? list_rows(call, op) : 0;
}
