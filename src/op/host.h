/* Host functions by name. The public half is ipu/op/host.h. */
#ifndef IPU_OP_HOST_CALLS_H
#define IPU_OP_HOST_CALLS_H

#include "ipu/op/host.h"

/* IPU_OK, or NOT_FOUND with a message that says what to do. */
ipu_status ipu__host_find(const char *name);
ipu_status ipu__host_run(const char *name, const ipu_array *in, size_t n_in, ipu_array *out, size_t n_out);

#endif
