/* gc-info --list-devices. */
#ifndef TOOLS_DEVICE_INFO_LIST_H
#define TOOLS_DEVICE_INFO_LIST_H

#include <stdbool.h>

#include "command.h"

/* Of the active partition, or the single IPUs of all. */
tool_exit info_list(bool all, bool json);

#endif
