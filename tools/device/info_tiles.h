/* gc-info --tile-overview. */
#ifndef TOOLS_DEVICE_INFO_TILES_H
#define TOOLS_DEVICE_INFO_TILES_H

#include <stdbool.h>

#include "command.h"

/* A map of the tiles of each IPU of a device, which is attached while it runs. */
tool_exit info_tiles(int id, bool json);

#endif
