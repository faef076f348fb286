/* Chains: elementwise ops that run one after another, block by block.
 *
 * A chain is text, so that it can be an attribute of a kernel (op "chain", and "epilogue" of matmul and
 * convolution), printed and compared:
 *
 *     "add a0 a1; leaky_relu(alpha=0.1) t0; cast(to=half) t1; out t1 t2"
 *
 * Instruction K consists of the name of an elementwise op, its attributes if any (separated by commas), and
 * its inputs: aN is operand N of the chain, tK the result of instruction K. `out` lists the results. All
 * inputs are broadcast to one shape, which all results have. Every result, even an intermediate one, is
 * rounded to its type: a chain gives the same bits as its ops one by one.
 */
#ifndef IPU_OP_ELEMENTWISE_CHAIN_H
#define IPU_OP_ELEMENTWISE_CHAIN_H

#include "op/op.h"

enum { IPU__CHAIN_MAX_IN = 12, IPU__CHAIN_MAX_OUT = 4, IPU__CHAIN_MAX_STEPS = 64 };

/* Types and shape of its results, *n_out of them. Statuses: INVALID (not a chain, incompatible types or
 * shapes), naming the problem and its place in the text. */
ipu_status ipu__chain_infer(const char *text, const ipu__kernel_value *in, int n_in,
                            ipu__kernel_value out[IPU__CHAIN_MAX_OUT], int *n_out);

typedef struct ipu__chain ipu__chain;

/* Ready to run on operands of these types and shapes. Owned: ipu__chain_destroy. */
ipu_status ipu__chain_create(const char *text, const ipu__kernel_value *in, int n_in, ipu__chain **out);
void       ipu__chain_destroy(ipu__chain *chain);
size_t     ipu__chain_scratch_bytes(const ipu__chain *chain);

/* Elements begin <= i < end of the results, in row-major order. An output may share the memory of an input of
 * the same shape and type. Does not allocate; `scratch` must be aligned to 64 bytes. */
void ipu__chain_run(const ipu__chain *chain, const void *const *in, void *const *out, int64_t begin,
                    int64_t end, void *scratch);

/* One elementwise op as a chain, to implement `run` of its kernel. Its scratch suffices for any of these. */
ipu_status ipu__chain_create_op(const ipu__kernel_call *call, ipu__chain **out);
size_t     ipu__chain_op_scratch_bytes(void);

/* Operations per element, for `work`; cycles for n elements on one tile, and where they come from. */
double     ipu__chain_work(const ipu__chain *chain);
ipu_status ipu__chain_cycles(const char *text, const ipu__kernel_value *in, int n_in, int64_t n,
                             const ipu_target *target, double *cycles, const char **basis);

#endif
