/* `ipu powertest`, gc-powertest: reports that there is no power to measure. */
#include "device/devices.h"
#include "output.h"

tool_exit run_powertest(const tool_arguments *args)
{
    const char            *text = args->values[POWERTEST_DEVICE];
    const ipu_device_info *info;
    ipu_device_list       *list;
    int                    id = 0;
    if (text && !device_number(text, &id)) return TOOL_USAGE;
    if (ipu_device_list_create(0, &list) != IPU_OK) return tool_fail("%s", ipu_message());
    bool found = ipu_partition_find_device(ipu_device_list_active(list), id, &info) == IPU_OK;
    ipu_device_list_destroy(list);
    if (!found) return tool_fail("%s", ipu_message());
    return tool_fail(
        "device %d is virtual: it draws no power and has no sensors, and a load would only warm this host: "
        "nothing was tested (gc-flops keeps a device busy)",
        id);
}
