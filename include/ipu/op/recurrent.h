/* Recurrent layers: stacks of one or two directions, like torch.nn.RNN, GRU and LSTM.
 *
 *     ipu_value weights[4] = {w_ih, w_hh, b_ih, b_hh}, last;
 *     ipu_value y = ipu_lstm(b, x, weights, 4, h0, c0, (ipu_recurrent_options){0}, &last, NULL);
 *
 * x is [time, batch, features], or [batch, time, features] with batch_first; y has the hidden states of the
 * last layer in place of features, with both directions side by side. Weights are in PyTorch's order and
 * layout: for each layer, and within it each direction, w_ih [G*H, features], w_hh [G*H, H], b_ih and b_hh
 * [G*H], biases null where there are none. G is 1, for GRU 3 (reset, update, new; the reset acts after the
 * product, as in PyTorch), for LSTM 4 (input, forget, cell, output). h0 and c0 are [layers * directions,
 * batch, H]; null for zeros. h_n and c_n receive the final state, with the same shape; either may be NULL.
 */
#ifndef IPU_OP_RECURRENT_H
#define IPU_OP_RECURRENT_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_recurrent_options {
    int       n_layers; /* 0 means 1 */
    bool      bidirectional, batch_first;
    bool      relu;         /* ipu_rnn: instead of tanh */
    bool      no_gradients; /* do not keep gates: faster, but a gradient would recompute the layer */
    double    dropout;      /* applied to outputs of all layers but the last */
    ipu_value seed;         /* what dropout draws from (ipu/op/random.h) */
} ipu_recurrent_options;

ipu_value ipu_rnn(ipu_builder *b, ipu_value x, const ipu_value *weights, size_t n_weights, ipu_value h0,
                  ipu_recurrent_options options, ipu_value *h_n);
ipu_value ipu_gru(ipu_builder *b, ipu_value x, const ipu_value *weights, size_t n_weights, ipu_value h0,
                  ipu_recurrent_options options, ipu_value *h_n);
ipu_value ipu_lstm(ipu_builder *b, ipu_value x, const ipu_value *weights, size_t n_weights, ipu_value h0,
                   ipu_value c0, ipu_recurrent_options options, ipu_value *h_n, ipu_value *c_n);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_rnn(...) IPU_AT(ipu_rnn(__VA_ARGS__))
#define ipu_gru(...) IPU_AT(ipu_gru(__VA_ARGS__))
#define ipu_lstm(...) IPU_AT(ipu_lstm(__VA_ARGS__))
#endif
#endif
