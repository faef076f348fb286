/* numpy's format of one array, in memory. Public half: ipu/data.h. */
#ifndef IPU_DATA_NPY_H
#define IPU_DATA_NPY_H

#include "data/array.h"

/* A header never needs more: rank 8 with dimensions of 19 digits. */
enum { IPU__NPY_HEADER_BYTES = 320 };

/* Makes the array of `buffer`, a whole file from ipu__alloc, which it owns from now on, also when it fails.
 * `name` is for messages. */
ipu_status ipu__npy_take(char *buffer, size_t bytes, const char *name, ipu_array *out);

/* The array of a whole file that lies in memory, if its elements can be used where they are: *is_plain. Otherwise
 * `out` has its type and shape and no data, and ipu__npy_take converts it. */
ipu_status ipu__npy_view(const void *data, size_t bytes, const char *name, ipu_array *out, bool *is_plain);

/* What goes before the elements of `a`; its length, a multiple of 64. INVALID: it is no array. */
ipu_status ipu__npy_header(const ipu_array *a, char out[IPU__NPY_HEADER_BYTES], size_t *bytes);

#endif
