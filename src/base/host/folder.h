/* Folders: made, trusted or not, cleared of what was left, kept small. */
#ifndef IPU_BASE_HOST_FOLDER_H
#define IPU_BASE_HOST_FOLDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* Makes the folder and those above it, if they are not there; `mode` less the umask. */
ipu_status ipu__folder_make(const char *path, mode_t mode);

/* Why it is no place for what will be trusted: it is not the effective user's, others may write to it, or it cannot
 * be used. NULL: nothing is wrong. Static or as strerror's. */
const char *ipu__folder_distrust(const char *path);

/* Removes temporary files (base/host/file.h) in it whose writer was killed: nobody has them locked, and its process is no more
 * or it is an hour since. */
void ipu__folder_clear_rests(const char *path);
/* The same of other names: `is_temporary` says whether a name is that of a temporary file, and whose. */
void ipu__folder_clear(const char *path, bool (*is_temporary)(const char *name, pid_t *writer));

/* Removes files, those used least recently first, until there are no more than that. Only regular files for which
 * `is_entry` holds count and are removed. Use is the time of modification: ipu__folder_note_use. */
void ipu__folder_trim(const char *path, bool (*is_entry)(const char *name), uint64_t most_bytes,
                      size_t most_files);
void ipu__folder_note_use(const char *file);

#endif
