/* Gradients of recurrent layers as ops: one op back through time, then products over all steps at once. */
#include "ipu/op.h"
#include "op/sequence/recurrent.h"

static ipu_value zeros(ipu_builder *b, ipu_value like)
{
    return ipu_constant_value(b, ipu_value_type(like), ipu_value_shape(like), 0);
}

/* Steps and rows of the batch as one dimension. */
static ipu_value flat(ipu_builder *b, ipu_value x)
{
    return ipu_reshape(b, x, IPU_SHAPE(ipu_value_dim(x, 0) * ipu_value_dim(x, 1), ipu_value_dim(x, 2)));
}

/* The op again, keeping what it did not keep. */
static void run_again(const ipu__gradient *g, const ipu__recurrent *r, ipu_value *out)
{
    const ipu__op_def *op = ipu__op_of(g->call->def);
    ipu_emit(g->b, op->kernel.name,
             IPU__WITH(IPU_INT_ATTRIBUTE("reverse", r->reverse), IPU_INT_ATTRIBUTE("training", 1)), g->in,
             (size_t)op->n_in, out, (size_t)ipu__op_n_out(op));
}

typedef struct pieces {
    ipu_value d_ih, d_hh, d_h0, d_c0;
} pieces;

static pieces emit_back(const ipu__gradient *g, const ipu__recurrent *r, const ipu_value *out)
{
    enum { Y, H_N, C_N, GRU_GATES = 2, LSTM_GATES = 3, CELLS };
    const ipu_value *in = g->in, *d = g->d_out;
    ipu_attribute    attributes[] = {IPU_INT_ATTRIBUTE("reverse", r->reverse),
                                     IPU_TEXT_ATTRIBUTE("activation", r->relu ? "relu" : "tanh")};
    ipu_value        w = in[r->at.w_hh], back[4] = {{0}};
    if (r->cell == IPU__RNN) {
        ipu_emit(g->b, "rnn_grad", attributes, 2, IPU__IN(d[Y], d[H_N], w, out[Y]), back, 2);
        return (pieces){back[0], back[0], back[1], IPU_NO_VALUE};
    }
    if (r->cell == IPU__GRU) {
        ipu_emit(g->b, "gru_grad", attributes, 1,
                 IPU__IN(d[Y], d[H_N], w, out[Y], out[GRU_GATES], in[r->at.h0], d[GRU_GATES]), back, 3);
        return (pieces){back[0], back[1], back[2], IPU_NO_VALUE};
    }
    ipu_emit(g->b, "lstm_grad", attributes, 1,
             IPU__IN(d[Y], d[H_N], d[C_N], w, out[LSTM_GATES], out[CELLS], in[r->at.c0], d[LSTM_GATES],
                     d[CELLS]),
             back, 3);
    return (pieces){back[0], back[0], back[1], back[2]};
}

/* Sum over steps of (gradient of gates)^T h, where h is of the step before. Steps are slices, which lie in
 * one piece: nothing is copied. */
static ipu_value recurrent_weights(const ipu__gradient *g, const ipu__recurrent *r, ipu_value d_hh,
                                   ipu_value y)
{
    ipu_builder *b = g->b;
    int64_t      n = r->steps, first = r->reverse;
    ipu_value    h0 = g->in[r->at.h0], sum = IPU_NO_VALUE;
    if (n > 1)
        sum = ipu_matmul_with(b, flat(b, ipu_slice(b, d_hh, 1 - first, n - first, 0)),
                              flat(b, ipu_slice(b, y, first, n - 1 + first, 0)), true, false);
    if (n > 0 && ipu__has(h0)) {
        ipu_value begin = ipu_index(b, d_hh, ipu__recurrent_time(r, 0), 0);
        ipu_value more  = ipu_matmul_with(b, begin, h0, true, false);
        sum             = ipu__has(sum) ? ipu_add(b, sum, more) : more;
    }
    return ipu__has(sum) ? sum : zeros(b, g->in[r->at.w_hh]);
}

void ipu__recurrent_emit_grad(ipu__gradient *g)
{
    ipu_builder                   *b      = g->b;
    ipu__recurrent                 r      = ipu__recurrent_get(g->call);
    const ipu__recurrent_operands *at     = &r.at;
    ipu_value                      out[5] = {{0}};
    for (int i = 0; i < g->call->n_operands - at->y; i++) out[i] = g->out[i];
    if (r.cell != IPU__RNN && !r.keeps) run_again(g, &r, out);
    pieces p = emit_back(g, &r, out);
    if (g->wanted[at->x]) g->d_in[at->x] = ipu_matmul(b, p.d_ih, g->in[at->w_ih]);
    if (g->wanted[at->w_ih])
        g->d_in[at->w_ih] = ipu_matmul_with(b, flat(b, p.d_ih), flat(b, g->in[at->x]), true, false);
    if (g->wanted[at->w_hh]) g->d_in[at->w_hh] = recurrent_weights(g, &r, p.d_hh, out[0]);
    if (g->wanted[at->b_ih]) g->d_in[at->b_ih] = ipu_reduce_sum(b, p.d_ih, (int[]){0, 1}, 2, false);
    if (g->wanted[at->b_hh]) g->d_in[at->b_hh] = ipu_reduce_sum(b, p.d_hh, (int[]){0, 1}, 2, false);
    if (g->wanted[at->h0]) g->d_in[at->h0] = p.d_h0;
    if (at->c0 >= 0 && g->wanted[at->c0]) g->d_in[at->c0] = p.d_c0;
}
