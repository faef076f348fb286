/* Blocks of bytes to be read: a file mapped into memory, memory that is owned, or someone else's. */
#ifndef IPU_DATA_BLOCK_H
#define IPU_DATA_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ipu__bytes { /* all zero: empty */
    const uint8_t *data;
    size_t         bytes;
    void          *owned;  /* of base/alloc.h; NULL: not owned */
    void          *mapped; /* NULL: no mapping */
} ipu__bytes;

/* A regular file, mapped. It must not become shorter while it is. Statuses: IO. */
ipu_status ipu__bytes_map(const char *path, ipu__bytes *out);
void       ipu__bytes_free(ipu__bytes *b);

#endif
