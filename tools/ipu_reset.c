/* `ipu reset`, gc-reset: clear the errors of a device. */
#include <stdio.h>

#include "devices.h"
#include "output.h"

tool_exit run_reset(const tool_arguments *args)
{
    const char *text = args->values[RESET_DEVICE];
    int         id;
    if (!text) return tool_usage("reset", "expected --device-id N: `gc-info -l` lists the devices");
    if (!device_number(text, &id)) return TOOL_USAGE;
    if (ipu_device_reset(id) != IPU_OK) return tool_fail("%s", ipu_message());
    printf("Device %d has been reset\n", id);
    return TOOL_OK;
}
