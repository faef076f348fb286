/* A session's network over several IPUs: in stages, in replicas, and several batches to a run.
 *
 * A run has batches x replicas batches, replicas innermost. Its inputs hold them along dimension 0, one for each group of
 * replicas, and the model is that of one of them; outputs, of the batches that the output mode gives, are put together along
 * dimension 0. What is known when it is compiled is the same for all.
 */
#ifndef IPU_ONNX_SESSION_PARALLEL_H
#define IPU_ONNX_SESSION_PARALLEL_H

#include "onnx/ports.h"
#include "session/streams.h"

/* Whether these options ask for any of it. */
bool ipu__spreads(const ipu_onnx_options *o);
/* Batches that an input of a run holds. */
int64_t ipu__spread_batches(const ipu_onnx_options *o);
/* Whether outputs are given as sums, or what is made of these. */
bool ipu__spread_sums(const ipu_onnx_options *o);

/* `target` becomes that of all IPUs; its chip, and the tiles it has of one, stay. Statuses: INVALID (the message names the
 * option). */
ipu_status ipu__spread_target(const ipu_onnx_options *o, ipu_target *target);

/* `in` as one batch has them: those that are fixed are whole. Data are not divided. Returns the number of the first that does not
 * divide, SIZE_MAX if all do. */
size_t ipu__spread_divide(const ipu_onnx_options *o, const ipu_onnx_value *in, const bool *fixed, size_t n,
                          ipu_onnx_value *out);
/* Whether `whole` holds a run's batches of `one`. */
bool ipu__spread_fits(const ipu_onnx_options *o, const ipu_shape *one, const ipu_shape *whole);
/* INVALID: a message on input `name`, which does not divide. */
ipu_status ipu__spread_fail(const ipu_onnx_options *o, const char *name, const ipu_onnx_value *v);

/* The imported model compiled, with its ports noted, and priced for the target of all IPUs. Statuses: UNSUPPORTED (the
 * batches of a run do not go together; replicas would draw the same random numbers), INVALID (there are fewer ops than
 * stages; there is no sum of an output). */
ipu_status ipu__spread_compile(const ipu_onnx_options *o, const ipu_target *target,
                               const ipu__imported *imported, size_t n_outputs, ipu_executable **out);
ipu_status ipu__spread_cost(const ipu_onnx_options *o, const ipu_target *target, const ipu_model *m,
                            ipu_cost **out);

/* What its runs are fed and collected by. `n_outputs`: of the file, and those that the options ask for. To be undone with
 * ipu__streams_fini also when it fails. */
ipu_status ipu__spread_list(const ipu_onnx_options *o, const ipu__ports *ports, size_t n_outputs,
                            ipu__streams *out);

/* With streams that are connected, on inputs that were checked. The first `n_out` outputs are wanted. */
ipu_status ipu__spread_run(ipu__streams *s, const ipu__ports *ports, const ipu_onnx_value *in,
                           const bool *fixed, size_t n_in, ipu_onnx_value *out, size_t n_out);

#endif
