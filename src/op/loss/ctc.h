/* Internals of connectionist temporal classification: the operands of its kernels. */
#ifndef IPU_OP_LOSS_CTC_H
#define IPU_OP_LOSS_CTC_H

#include "op/op.h"

/* Operands of ctc and ctc_loss; in ctc_grad, d_loss follows. */
enum { IPU__CTC_LOG_PROBS, IPU__CTC_TARGETS, IPU__CTC_INPUT_LENGTHS, IPU__CTC_TARGET_LENGTHS, IPU__CTC_N_IN };

/* ctc as other ops, a few per step (ctc_compose.c). */
void ipu__ctc_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out);

#endif
