/* A builder that computes at once: each op is its reference on plain memory, with a tape for gradients.
 *
 * The oracle for everything that is emitted: gradients, compositions, whole networks. Values come from
 * ipu_constant_data. It shares nothing with the model layer or the engine.
 */
#ifndef IPU_TESTS_EAGER_H
#define IPU_TESTS_EAGER_H

#include "op/builder.h"

/* `take_apart`: ops that have a composition are emitted as that, also where they have a kernel. NULL:
 * memory. */
ipu_builder *eager_create(bool take_apart);
void         eager_destroy(ipu_builder *b);

/* Shows `fn` every call of a kernel from now on, before it is computed. */
void eager_watch(ipu_builder *b, void (*fn)(const ipu__kernel_call *call, void *user), void *user);

/* The values themselves, in the type's own format. Borrowed from the builder. */
void *eager_data(ipu_value v);

/* d_x[i] = gradient of sum_k <d_y[k], y[k]> with respect to x[i]; null: no dependence. Values of y without a
 * d_y are left out. Errors, as of an op without a gradient, are the builder's. */
void eager_gradients(ipu_builder *b, const ipu_value *y, const ipu_value *d_y, size_t n_y, const ipu_value *x,
                     size_t n_x, ipu_value *d_x);

#endif
