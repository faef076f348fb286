/* Files that are read where waiting for a pipe, a device or a terminal would make no sense, or could not be ended. */
#ifndef IPU_BASE_HOST_REGULAR_H
#define IPU_BASE_HOST_REGULAR_H

#include <stddef.h>

#include "base/status.h"

/* A descriptor to read from, which never waits. Statuses: IO (errno is ENOENT if there is no file), also of what is no
 * regular file. */
ipu_status ipu__regular_open(const char *path, int *fd);

/* As ipu__file_read (base/host/file.h), but without pipes. */
ipu_status ipu__regular_read(const char *path, size_t limit, char **out, size_t *bytes);

#endif
