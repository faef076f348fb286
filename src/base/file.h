/* Whole files. */
#ifndef IPU_BASE_FILE_H
#define IPU_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* The contents, with a 0 after the last byte that *bytes does not count. Refuses what is larger
 * than `limit` and what is no regular file or pipe. Owned: ipu__free. Statuses: IO, OUT_OF_MEMORY. */
ipu_status ipu__file_read(const char *path, size_t limit, char **out, size_t *bytes);

/* The same. `*is_ours`: a regular file of the effective user's, which no other may write to. */
ipu_status ipu__file_read_owned(const char *path, size_t limit, char **out, size_t *bytes, bool *is_ours);

/* Replaces `path` at one stroke: a temporary file beside it, fsync, rename. On any failure
 * the old contents stay. */
ipu_status ipu__file_write(const char *path, const void *data, size_t bytes);

typedef struct ipu__file_piece {
    const void *data;
    size_t      bytes;
} ipu__file_piece;

/* The same, of pieces one after the other. */
ipu_status ipu__file_write_pieces(const char *path, const ipu__file_piece *pieces, size_t n);

#endif
