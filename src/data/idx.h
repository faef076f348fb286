/* IDX files, the format of MNIST: bytes with up to four dimensions, optionally compressed by gzip. */
#ifndef IPU_DATA_IDX_H
#define IPU_DATA_IDX_H

#include "data/block.h"
#include "ipu/tensor.h"

typedef struct ipu__idx { /* all zero: empty */
    ipu_shape      shape;
    const uint8_t *elements;
    ipu__bytes     block;
} ipu__idx;

/* Plain files are mapped; compressed ones, recognised by their first bytes, are inflated into memory.
 * Statuses: IO, INVALID (damaged), UNSUPPORTED (elements other than bytes), OUT_OF_MEMORY. */
ipu_status ipu__idx_open(const char *path, ipu__idx *out);
/* The same for a file in memory, which remains the caller's and must outlive it; `name` is for messages. */
ipu_status ipu__idx_read(const void *data, size_t bytes, const char *name, ipu__idx *out);
void       ipu__idx_close(ipu__idx *x);

enum { IPU__IDX_HEADER_BYTES = 16 };
/* Writes the header for bytes in 1 or 3 dimensions of up to 2^32 - 1; returns its length. */
size_t ipu__idx_header(const int64_t *dims, int rank, uint8_t out[IPU__IDX_HEADER_BYTES]);

#endif
