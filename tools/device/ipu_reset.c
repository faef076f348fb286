/* `ipu reset`, gc-reset: clear the errors of a device. */
#include <stdio.h>

#include "device/devices.h"
#include "output.h"

static tool_exit reset(int id)
{
    if (ipu_device_reset(id) != IPU_OK) return tool_fail("%s", ipu_message());
    printf("Device %d has been reset\n", id);
    return TOOL_OK;
}

tool_exit run_reset(const tool_arguments *args)
{
    tool_exit   code = TOOL_OK;
    const char *text;
    int         id, at = 0;
    if (!args->values[RESET_DEVICE])
        return tool_usage("reset", "expected --device-id N: `gc-info -l` lists the devices");
    while ((text = tool_next(args, RESET_DEVICE, &at)))
        if (!device_number(text, &id)) return TOOL_USAGE;
    at = 0;
    while ((text = tool_next(args, RESET_DEVICE, &at)))
        if (device_number(text, &id) && reset(id) != TOOL_OK) code = TOOL_FAILED;
    return code;
}
