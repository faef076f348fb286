/* `ipu inventory`, gc-inventory: every attribute of every IPU. */
#include <stdio.h>
#include <string.h>

#include "device/devices.h"
#include "harmless.h"
#include "ipu/ipuinfo.h"
#include "output.h"

/* Scripts ask for the attribute by its older, shorter name; it comes before the newer one. */
static const char newer_key[] = "remote buffers supported", older_key[] = "remote buffers";

static void print_text(const ipu_info *info)
{
    const char *key, *value;
    for (int d = 0; d < ipu_info_n_devices(info); d++) {
        puts("Device:");
        for (int i = 0; ipu_info_at(info, d, i, &key, &value); i++) {
            if (!strcmp(key, newer_key)) printf("  %s: %s\n", older_key, harmless(value));
            printf("  %s: %s\n", key, harmless(value));
        }
    }
}

static json_t *describe(const ipu_info *info)
{
    json_t     *devices = json_array();
    const char *key, *value;
    bool        made = devices;
    for (int d = 0; made && d < ipu_info_n_devices(info); d++) {
        json_t *device = json_object();
        for (int i = 0; ipu_info_at(info, d, i, &key, &value); i++) {
            if (!strcmp(key, newer_key)) made = device_set(device, older_key, value) && made;
            made = device_set(device, key, value) && made;
        }
        made = json_array_append_new(devices, device) == 0 && made;
    }
    if (made) return json_pack("{s:o}", "devices", devices);
    json_decref(devices);
    return NULL;
}

tool_exit run_inventory(const tool_arguments *args)
{
    bool      all = args->values[INVENTORY_ALL];
    ipu_info *info;
    tool_exit code = TOOL_OK;
    if (ipu_info_create(all ? IPU_INFO_ALL_PARTITIONS : IPU_INFO_ACTIVE_PARTITION, &info) != IPU_OK)
        return tool_fail("%s", ipu_message());
    if (args->values[INVENTORY_JSON])
        code = tool_print_json(stdout, describe(info));
    else
        print_text(info);
    ipu_info_destroy(info);
    return code;
}
