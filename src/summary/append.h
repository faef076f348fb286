/* Files that grow by whole pieces: what was appended is the system's at once and outlives the process, however that ends; what
 * cannot be written whole (a full disk) is not there at all. */
#ifndef IPU_SUMMARY_APPEND_H
#define IPU_SUMMARY_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ipu__appended { /* all zero: not open */
    int     fd;
    int64_t bytes; /* of the file */
    char   *path;
} ipu__appended;

/* Makes the file if there is none; `exclusive`: and else fails, with errno EEXIST. To be closed in either case. Statuses: IO
 * (also: it is no regular file, or there is a link on the way that is not to be trusted), OUT_OF_MEMORY. */
ipu_status ipu__append_open(const char *path, bool exclusive, ipu__appended *out);
void       ipu__append_close(ipu__appended *f);

/* IO: nothing was appended. */
ipu_status ipu__append(ipu__appended *f, const void *data, size_t bytes);
/* Keeps the first so many bytes. Statuses: IO. */
ipu_status ipu__append_cut(ipu__appended *f, int64_t bytes);

#endif
