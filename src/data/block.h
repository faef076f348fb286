/* Blocks of readable bytes: a mapped file, owned memory, or someone else's. */
#ifndef IPU_DATA_BLOCK_H
#define IPU_DATA_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ipu__bytes { /* all zero: empty */
    const uint8_t *data;
    size_t         bytes;
    void          *owned;  /* from base/alloc.h; NULL if not owned */
    void          *mapped; /* NULL if not mapped */
} ipu__bytes;

/* Maps a regular file, which must not shrink while mapped. Statuses: IO. */
ipu_status ipu__bytes_map(const char *path, ipu__bytes *out);
void       ipu__bytes_free(ipu__bytes *b);

#endif
