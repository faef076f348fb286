/* IPUoF configuration files: one partition each, as JSON. The keys are in docs/devices.md. */
#ifndef IPU_DEVICE_IPUOF_H
#define IPU_DEVICE_IPUOF_H

#include "device/partition.h"

/* `file` is for messages; its stem is the partition's name unless the text gives one. All strings in *out
 * are in `arena`. Statuses: INVALID (the message names file, key and fix), OUT_OF_MEMORY. */
ipu_status ipu__ipuof_parse(ipu__arena *arena, const char *file, const char *text, size_t bytes,
                            ipu__partition_spec *out);

/* The text of a file that parses to `spec`. Owned: ipu__free. */
ipu_status ipu__ipuof_print(const ipu__partition_spec *spec, char **out);

#endif
