/* What the commands about devices share: options, names, numbers as text. */
#ifndef TOOLS_DEVICE_DEVICES_H
#define TOOLS_DEVICE_DEVICES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "command.h"
#include "ipu/device.h"

enum { DEVICE_TEXT = 128 }; /* room for any text made here */

/* The number of --device-id; reports anything else. */
bool device_number(const char *text, int *out);

/* "p1", or "p1 (gcd:0)" if the list has other domains of the same partition. */
void device_partition_name(const ipu_device_list *list, const ipu_partition *p, char out[DEVICE_TEXT]);

/* What a single IPU is reached by: "Fabric" or "PCIe". */
const char *device_single_target(const ipu_partition *p);

/* "1330MHz" */
void device_clock(const ipu_partition *p, char out[DEVICE_TEXT]);

/* Sets `key` of an object to text; both may be NULL. False: out of memory. */
bool device_set(json_t *object, const char *key, const char *text);
bool device_set_number(json_t *object, const char *key, long long number);
/* The same; below 0 is "N/A". */
bool device_set_known(json_t *object, const char *key, long long number);

#endif
