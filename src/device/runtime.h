/* The folder where the state of devices is: the user's own, and nobody else's. */
#ifndef IPU_DEVICE_RUNTIME_H
#define IPU_DEVICE_RUNTIME_H

#include <limits.h>
#include <stdbool.h>

#include "base/status.h"

/* IPU_RUNTIME_DIR, or else openipu in XDG_RUNTIME_DIR or in /run/user/UID, whichever is a folder of the
 * effective user's, or else /tmp/openipu-UID. Made if `create`; if not, *exists says whether it is there.
 * Statuses: IO (cannot be made; is not the user's, or others may write to it). */
ipu_status ipu__runtime_folder(bool create, char out[PATH_MAX], bool *exists);

#endif
