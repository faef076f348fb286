/* What gc-monitor knows, as JSON. */
#ifndef TOOLS_MONITOR_MONITOR_JSON_H
#define TOOLS_MONITOR_MONITOR_JSON_H

#include <jansson.h>

#include "ipu/device.h"

/* Of the active partition, or of all in the list. NULL: out of memory. */
json_t *monitor_json(const ipu_device_list *list, bool all, int64_t now_ns);

#endif
