/* Folders: creating, trusting, cleaning and trimming them. */
#ifndef IPU_BASE_HOST_FOLDER_H
#define IPU_BASE_HOST_FOLDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* Creates the folder and its parents if they are missing; `mode` is subject to the umask. */
ipu_status ipu__folder_make(const char *path, mode_t mode);

/* Why the folder cannot be trusted: it does not belong to the effective user, others may write to it, or it
 * cannot be used. NULL if it can. Static, or from strerror. */
const char *ipu__folder_distrust(const char *path);

/* Removes temporary files (base/host/file.h) whose writer was killed: nobody holds the lock, and the process is gone
 * or an hour has passed. */
void ipu__folder_clear_rests(const char *path);
/* The same for other names: `is_temporary` says whether a name is that of a temporary file, and who writes
 * it. */
void ipu__folder_clear(const char *path, bool (*is_temporary)(const char *name, pid_t *writer));

/* Removes files, least recently used first, until no more than that are left. Only regular files for which
 * `is_entry` is true are counted and removed. The time of use is that of modification: ipu__folder_note_use. */
void ipu__folder_trim(const char *path, bool (*is_entry)(const char *name), uint64_t most_bytes,
                      size_t most_files);
void ipu__folder_note_use(const char *file);

#endif
