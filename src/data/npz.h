/* numpy's archives of arrays, from memory. Public half: ipu/data.h. */
#ifndef IPU_DATA_NPZ_H
#define IPU_DATA_NPZ_H

#include "data/array.h"

/* ipu_npz_read of a file that is in memory; `name` is for messages. */
ipu_status ipu__npz_read_bytes(const void *data, size_t bytes, const char *name, ipu_npz *out);

/* Archives that are sealed: the last bytes of the file, a zip comment, are the CRC-32 of all others. A zip's own
 * sums cover what its entries hold, but neither their names nor their places. Not compressed. */
ipu_status ipu__npz_write_sealed(const char *path, const ipu_named_array *arrays, size_t n);
/* Statuses: also INVALID (there is no seal, or it is broken). */
ipu_status ipu__npz_read_sealed(const char *path, ipu_npz *out);

#endif
