/* gc-monitor's output as JSON. */
#ifndef TOOLS_MONITOR_MONITOR_JSON_H
#define TOOLS_MONITOR_MONITOR_JSON_H

#include <jansson.h>

#include "ipu/device.h"

/* For the active partition, or all in the list. NULL if out of memory. */
json_t *monitor_json(const ipu_device_list *list, bool all, int64_t now_ns);

#endif
