/* gc-info --list-devices. */
#ifndef TOOLS_DEVICE_INFO_LIST_H
#define TOOLS_DEVICE_INFO_LIST_H

#include <stdbool.h>

#include "command.h"

/* For the active partition, or all single IPUs of every partition. */
tool_exit info_list(bool all, bool json);

#endif
