/* Files that grow by whole pieces: appended data are handed to the system at once and survive the process, however it
 * ends; what cannot be written completely (a full disk) is not written at all. */
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

/* Creates the file if needed; with `exclusive`, fails with errno EEXIST if it exists. Close it in any case. Statuses:
 * IO (also if it is not a regular file, or the path contains an untrusted link), OUT_OF_MEMORY. */
ipu_status ipu__append_open(const char *path, bool exclusive, ipu__appended *out);
void       ipu__append_close(ipu__appended *f);

/* IO means that nothing was appended. */
ipu_status ipu__append(ipu__appended *f, const void *data, size_t bytes);
/* Truncates to that many bytes. Statuses: IO. */
ipu_status ipu__append_cut(ipu__appended *f, int64_t bytes);

#endif
