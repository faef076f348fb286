/* Shared by the commands about devices: options, names, numbers as text. */
#ifndef TOOLS_DEVICE_DEVICES_H
#define TOOLS_DEVICE_DEVICES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "command.h"
#include "ipu/device.h"

enum { DEVICE_TEXT = 128 }; /* fits any text made here */

/* Parses the number of --device-id; reports any error. */
bool device_number(const char *text, int *out);

/* "p1", or "p1 (gcd:0)" if the list has several domains of the partition. */
void device_partition_name(const ipu_device_list *list, const ipu_partition *p, char out[DEVICE_TEXT]);

/* How a single IPU is reached: "Fabric" or "PCIe". */
const char *device_single_target(const ipu_partition *p);

/* "1330MHz" */
void device_clock(const ipu_partition *p, char out[DEVICE_TEXT]);

/* Sets `key` of an object to text; both may be NULL. Returns false if out of memory. */
bool device_set(json_t *object, const char *key, const char *text);
bool device_set_number(json_t *object, const char *key, long long number);
/* Likewise for a number; below 0 becomes "N/A". */
bool device_set_known(json_t *object, const char *key, long long number);

#endif
