/* Recurrent layers in pieces: rnn, gru and lstm, one layer in one direction, and their gradients.
 *
 * PyTorch's equations and layouts: x [T,N,I], w_ih [G*H,I], w_hh [G*H,H], biases [G*H], h and c [N,H], with
 * gates in the order i,f,g,o (lstm) and r,z,n (gru). Values needed by the gradient are outputs: `gates` after
 * their activations [T,N,S*H], `cells` [T,N,H]. gru saves a fourth, q = w_hn h + b_hn, which r multiplies.
 */
#ifndef IPU_OP_SEQUENCE_RECURRENT_H
#define IPU_OP_SEQUENCE_RECURRENT_H

#include "base/simd.h"
#include "engine/cpu/impl.h"
#include "op/op.h"

typedef enum ipu__cell { IPU__RNN, IPU__GRU, IPU__LSTM, IPU__N_CELLS } ipu__cell;

/* Operands; -1 if a cell has none. */
typedef struct ipu__recurrent_operands {
    int x, w_ih, w_hh, b_ih, b_hh, h0, c0, y, h_n, c_n, gates, cells;
} ipu__recurrent_operands;

/* Operands of the gradient ops. `d_ih` and `d_hh` are gradients before the activations, [T,N,G*H]: of the
 * parts that come from x and from h. They differ for gru only; the others have no d_hh. `d_gates` and
 * `d_cells` are for direct uses of these outputs; only the reference supports them. */
typedef struct ipu__recurrent_grad_operands {
    int d_y, d_h_n, d_c_n, w_hh, y, gates, cells, h0, c0, d_gates, d_cells, d_ih, d_hh, d_h0, d_c0;
} ipu__recurrent_grad_operands;

typedef struct ipu__recurrent {
    ipu__cell cell;
    int64_t   steps, batch, inputs, hidden;
    int       n_gates, n_saved; /* G, S */
    bool      reverse, relu;
    bool      keeps; /* gates and cells are outputs */
    union {
        ipu__recurrent_operands      at;
        ipu__recurrent_grad_operands grad_at;
    };
} ipu__recurrent;

/* For a call that passed `infer`. The number of inputs is 0 for a gradient, which does not depend on it. */
ipu__recurrent ipu__recurrent_get(const ipu__kernel_call *call);
ipu__recurrent ipu__recurrent_grad_get(const ipu__kernel_call *call);

/* The time index of the i-th step to run. */
static inline int64_t ipu__recurrent_time(const ipu__recurrent *r, int64_t i)
{
    return r->reverse ? r->steps - 1 - i : i;
}

/* ---- recurrent_ref.c ---- */

void ipu__recurrent_ref(const ipu__kernel_call *call, void *const *operand);
void ipu__recurrent_grad_ref(const ipu__kernel_call *call, void *const *operand);

/* ---- recurrent_run.c, recurrent_run_grad.c ---- */

extern const ipu__cpu_impl ipu__recurrent_impl[1], ipu__recurrent_grad_impl[1];

/* ---- recurrent_emit.c, recurrent_compose.c ---- */

void ipu__recurrent_emit_grad(ipu__gradient *g);
void ipu__recurrent_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                            ipu_value *out);

/* ---- recurrent_simd.c: rows of one step, each of `hidden` units ---- */

/* In place: turns sums of products into gates. Rows of gates are n_saved * hidden apart, others hidden. */
typedef struct ipu__recurrent_step {
    int64_t      rows, hidden;
    const float *bias_ih, *bias_hh; /* [G*H]; except for gru's q, bias_ih contains their sum */
    const float *h_old, *c_old;     /* NULL: zeros */
    float       *gates, *c, *h;
} ipu__recurrent_step;

/* Likewise backwards. `d_h` holds the gradient from later steps, and is replaced by what goes to the previous
 * step without passing through w_hh. `d_c` is updated in place. */
typedef struct ipu__recurrent_back {
    int64_t      rows, hidden;
    const float *d_y; /* NULL: zeros */
    const float *gates, *c, *c_old, *h, *h_old;
    float       *d_h, *d_c, *d_ih, *d_hh;
} ipu__recurrent_back;

typedef struct ipu__recurrent_loops {
    void (*rnn_tanh)(const ipu__recurrent_step *s);
    void (*rnn_relu)(const ipu__recurrent_step *s);
    void (*gru)(const ipu__recurrent_step *s);
    void (*lstm)(const ipu__recurrent_step *s);
    void (*rnn_tanh_back)(const ipu__recurrent_back *s);
    void (*rnn_relu_back)(const ipu__recurrent_back *s);
    void (*gru_back)(const ipu__recurrent_back *s);
    void (*lstm_back)(const ipu__recurrent_back *s);
} ipu__recurrent_loops;

IPU__SIMD_DECLARE(extern const ipu__recurrent_loops, ipu__recurrent_loops)

#endif
