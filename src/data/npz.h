/* numpy's archives of arrays, from memory. Public half: ipu/data.h. */
#ifndef IPU_DATA_NPZ_H
#define IPU_DATA_NPZ_H

#include "data/array.h"

/* ipu_npz_read of a file that is in memory; `name` is for messages. */
ipu_status ipu__npz_read_bytes(const void *data, size_t bytes, const char *name, ipu_npz *out);

#endif
