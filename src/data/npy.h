/* numpy's format for a single array, in memory. Public half: ipu/data.h. */
#ifndef IPU_DATA_NPY_H
#define IPU_DATA_NPY_H

#include "data/array.h"

/* Maximum header size: rank 8 with dimensions of 19 digits. */
enum { IPU__NPY_HEADER_BYTES = 320 };

/* Makes an array from `buffer`, a whole file allocated with ipu__alloc, taking ownership even on failure.
 * `name` is for messages. */
ipu_status ipu__npy_take(char *buffer, size_t bytes, const char *name, ipu_array *out);

/* The array of a whole file in memory, if its elements can be used in place (*is_plain). Otherwise `out` has
 * its type and shape but no data, and ipu__npy_take converts it. */
ipu_status ipu__npy_view(const void *data, size_t bytes, const char *name, ipu_array *out, bool *is_plain);

/* Writes what precedes the elements of `a`; returns its length, a multiple of 64. INVALID if it is not an
 * array. */
ipu_status ipu__npy_header(const ipu_array *a, char out[IPU__NPY_HEADER_BYTES], size_t *bytes);

#endif
