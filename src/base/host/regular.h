/* For files in places where waiting for a pipe, device or terminal would make no sense, or could not be
 * interrupted. */
#ifndef IPU_BASE_HOST_REGULAR_H
#define IPU_BASE_HOST_REGULAR_H

#include <stddef.h>

#include "base/status.h"

/* A descriptor for reading that never blocks. Statuses: IO (errno is ENOENT if there is no file), also for anything
 * but regular files. */
ipu_status ipu__regular_open(const char *path, int *fd);

/* Like ipu__file_read (base/host/file.h), but without pipes. */
ipu_status ipu__regular_read(const char *path, size_t limit, char **out, size_t *bytes);

#endif
