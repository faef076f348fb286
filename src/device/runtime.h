/* The folder for the state of devices, private to the user. */
#ifndef IPU_DEVICE_RUNTIME_H
#define IPU_DEVICE_RUNTIME_H

#include <limits.h>
#include <stdbool.h>

#include "base/status.h"

/* IPU_RUNTIME_DIR, or else the first existing folder that belongs to the effective user alone among openipu in
 * XDG_RUNTIME_DIR and in /run/user/UID, /tmp/openipu-UID, openipu-HOST in XDG_STATE_HOME, .openipu-HOST in the home.
 * If there is none, and `create` is set, creates the first that can be created; *exists says whether there is one.
 * Statuses: IO (none can be created; IPU_RUNTIME_DIR does not belong to the user, or is writable by others). */
ipu_status ipu__runtime_folder(bool create, char out[PATH_MAX], bool *exists);

/* Records something in the folder that should not be there, to be logged later; and logs it, not under the
 * state's lock. */
__attribute__((format(printf, 1, 2))) void ipu__runtime_note(const char *format, ...);
void                                       ipu__runtime_tell(void);

/* Removes from `folder` what killed processes had begun to write. */
void ipu__runtime_clear(const char *folder);

#endif
