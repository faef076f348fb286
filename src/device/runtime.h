/* The folder where the state of devices is: the user's own, and nobody else's. */
#ifndef IPU_DEVICE_RUNTIME_H
#define IPU_DEVICE_RUNTIME_H

#include <limits.h>
#include <stdbool.h>

#include "base/status.h"

/* IPU_RUNTIME_DIR, or else the first that is there and the effective user's alone of openipu in XDG_RUNTIME_DIR and in
 * /run/user/UID, /tmp/openipu-UID, openipu-HOST in XDG_STATE_HOME, .openipu-HOST in the home. If none is there, the
 * first of them that can be made is, if `create`; *exists says whether there is one. Statuses: IO (none can be made;
 * IPU_RUNTIME_DIR is not the user's, or others may write to it). */
ipu_status ipu__runtime_folder(bool create, char out[PATH_MAX], bool *exists);

/* What was found in the folder that should not have been, to be logged later; and logs it: not under the state's lock. */
__attribute__((format(printf, 1, 2))) void ipu__runtime_note(const char *format, ...);
void                                       ipu__runtime_tell(void);

/* Removes from `folder` what processes that were killed had begun to write. */
void ipu__runtime_clear(const char *folder);

#endif
