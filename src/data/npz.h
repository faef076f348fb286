/* numpy's archives of arrays, in memory. Public half: ipu/data.h. */
#ifndef IPU_DATA_NPZ_H
#define IPU_DATA_NPZ_H

#include "data/array.h"

/* ipu_npz_read for a file in memory; `name` is for messages. */
ipu_status ipu__npz_read_bytes(const void *data, size_t bytes, const char *name, ipu_npz *out);

/* Sealed archives: the last bytes of the file, a zip comment, are the CRC-32 of all others. A zip's own
 * checksums cover the contents of entries, but neither their names nor their positions. Not compressed. */
ipu_status ipu__npz_write_sealed(const char *path, const ipu_named_array *arrays, size_t n);
/* Statuses: also INVALID (the seal is missing or broken). */
ipu_status ipu__npz_read_sealed(const char *path, ipu_npz *out);

#endif
