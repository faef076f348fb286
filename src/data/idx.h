/* IDX files, in which MNIST comes: bytes with up to four dimensions, compressed by gzip or not. */
#ifndef IPU_DATA_IDX_H
#define IPU_DATA_IDX_H

#include "data/block.h"
#include "ipu/tensor.h"

typedef struct ipu__idx { /* all zero: empty */
    ipu_shape      shape;
    const uint8_t *elements;
    ipu__bytes     block;
} ipu__idx;

/* Plain files are mapped; compressed ones, told by their first bytes, are in memory. Statuses: IO, INVALID
 * (damaged), UNSUPPORTED (elements that are no bytes), OUT_OF_MEMORY. */
ipu_status ipu__idx_open(const char *path, ipu__idx *out);
/* The same of a file in memory, which stays the caller's and must outlive it; `name` is for messages. */
ipu_status ipu__idx_read(const void *data, size_t bytes, const char *name, ipu__idx *out);
void       ipu__idx_close(ipu__idx *x);

enum { IPU__IDX_HEADER_BYTES = 16 };
/* The header of bytes in 1 or 3 dimensions of up to 2^32 - 1; its length. */
size_t ipu__idx_header(const int64_t *dims, int rank, uint8_t out[IPU__IDX_HEADER_BYTES]);

#endif
