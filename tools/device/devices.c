/* Shared by the commands about devices. In the gc tools' JSON every value is text, even numbers. */
#include "device/devices.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "output.h"

bool device_number(const char *text, int *out)
{
    int64_t n;
    if (!tool_integer("device-id", text, 0, INT_MAX, &n)) return false;
    *out = (int)n;
    return true;
}

void device_partition_name(const ipu_device_list *list, const ipu_partition *p, char out[DEVICE_TEXT])
{
    const ipu_partition *other;
    int                  domains = 0;
    for (size_t i = 0; (other = ipu_device_list_at(list, i)); i++) domains += !strcmp(other->name, p->name);
    if (domains > 1)
        snprintf(out, DEVICE_TEXT, "%s (gcd:%d)", p->name, p->gcd);
    else
        snprintf(out, DEVICE_TEXT, "%s", p->name);
}

const char *device_single_target(const ipu_partition *p)
{
    bool is_card = !strcmp(p->arch, "ipu1") || !strcmp(p->arch, "ipu21");
    return is_card ? "PCIe" : "Fabric";
}

void device_clock(const ipu_partition *p, char out[DEVICE_TEXT])
{
    snprintf(out, DEVICE_TEXT, "%.0fMHz", p->clock_hz / 1e6);
}

bool device_set(json_t *object, const char *key, const char *text)
{
    return json_object_set_new(object, key, tool_json_text(text)) == 0;
}

bool device_set_number(json_t *object, const char *key, long long number)
{
    char text[DEVICE_TEXT];
    snprintf(text, sizeof text, "%lld", number);
    return device_set(object, key, text);
}

bool device_set_known(json_t *object, const char *key, long long number)
{
    return number < 0 ? device_set(object, key, "N/A") : device_set_number(object, key, number);
}
