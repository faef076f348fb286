/* Configuration: which partitions there are, and where they are defined. */
#ifndef IPU_DEVICE_CONFIG_H
#define IPU_DEVICE_CONFIG_H

#include <limits.h>

#include "device/partition.h"

typedef struct ipu__config {
    ipu_partition *partitions; /* by name, then GCD */
    size_t         n, active;
} ipu__config;

/* In `arena`; without looking for processes on the IPUs. Statuses: those of ipu_device_list_create. */
ipu_status ipu__config_load(ipu__arena *arena, ipu__config *out);

/* Only the user's folder, whatever the environment says; may be empty. `active` is not set. */
ipu_status ipu__config_load_user(ipu__arena *arena, ipu__config *out);

/* ~/.ipuof.conf.d. */
ipu_status ipu__config_user_folder(char out[PATH_MAX]);

#endif
