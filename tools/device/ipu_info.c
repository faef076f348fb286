/* `ipu info`, gc-info: list devices, or show details of one. */
#include <stdio.h>
#include <string.h>

#include "device/devices.h"
#include "harmless.h"
#include "device/info_list.h"
#include "device/info_tiles.h"
#include "ipu/ipuinfo.h"
#include "output.h"

/* The parsed options. */
typedef struct query {
    int  command; /* the option that selects what to print */
    bool all, json;
    bool has_id;
    int  id;
} query;

/* ---- attributes of one device ---- */

static bool attribute(const ipu_info *info, const query *q, int i, const char **key, const char **value)
{
    return q->all && q->has_id ? ipu_info_at(info, q->id, i, key, value)
                               : ipu_info_device_at(info, q->id, i, key, value);
}

static tool_exit no_device(const ipu_info *info, const query *q)
{
    const ipu_device_info *device;
    ipu_device_list       *list;
    if (q->all)
        return tool_fail("no device %d: the IPUs of all partitions are 0 to %d", q->id,
                         ipu_info_n_devices(info) - 1);
    if (ipu_device_list_create(0, &list) != IPU_OK) return tool_fail("%s", ipu_message());
    (void)ipu_partition_find_device(ipu_device_list_active(list), q->id, &device);
    ipu_device_list_destroy(list);
    return tool_fail("%s", ipu_message());
}

static tool_exit print_attributes(const ipu_info *info, const query *q)
{
    const char *key, *value;
    json_t     *object = q->json ? json_object() : NULL;
    bool        made   = true;
    if (!q->json) puts("Device Info:");
    for (int i = 0; attribute(info, q, i, &key, &value); i++)
        if (q->json)
            made = device_set(object, key, value) && made;
        else
            printf("  %s: %s\n", key, harmless(value));
    if (!q->json) return TOOL_OK;
    if (made) return tool_print_json(stdout, object);
    json_decref(object);
    return tool_print_json(stdout, NULL);
}

/* Prints a single value, or JSON with the value under its name. */
static tool_exit print_one(const query *q, const char *name, const char *value)
{
    if (q->json) return tool_print_json(stdout, json_pack("{s:o}", name, tool_json_text(value)));
    puts(harmless(value));
    return TOOL_OK;
}

static tool_exit print_attribute(const ipu_info *info, const query *q, const char *wanted)
{
    const char *key, *value;
    for (int i = 0; attribute(info, q, i, &key, &value); i++)
        if (!strcmp(key, wanted)) return print_one(q, key, value);
    return print_one(q, wanted, "N/A");
}

static tool_exit print_count(const ipu_info *info, const query *q)
{
    char text[DEVICE_TEXT];
    snprintf(text, sizeof text, "%d", ipu_info_n_devices(info));
    return print_one(q, "ipu count", text);
}

static tool_exit about_devices(const query *q)
{
    const char *key, *value;
    ipu_info   *info;
    tool_exit   code;
    if (ipu_info_create(q->all ? IPU_INFO_ALL_PARTITIONS : IPU_INFO_ACTIVE_PARTITION, &info) != IPU_OK)
        return tool_fail("%s", ipu_message());
    if (q->has_id && !attribute(info, q, 0, &key, &value))
        code = no_device(info, q);
    else if (q->command == INFO_ATTRIBUTES)
        code = print_attributes(info, q);
    else if (q->command == INFO_ARCH)
        code = print_attribute(info, q, "ipu architecture");
    else if (q->command == INFO_CLOCK)
        code = print_attribute(info, q, "clock");
    else
        code = print_count(info, q);
    ipu_info_destroy(info);
    return code;
}

/* ---- the command ---- */

/* Which of the commands among the options was given; at most one is allowed. */
static tool_exit choose(const tool_arguments *args, query *q)
{
    static const int commands[] = {INFO_LIST, INFO_ATTRIBUTES, INFO_COUNT,
                                   INFO_ARCH, INFO_CLOCK,      INFO_OVERVIEW};
    q->command                  = -1;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (!args->values[commands[i]]) continue;
        const tool_option *options = tool_find_command("info")->options;
        if (q->command >= 0)
            return tool_usage("info", "--%s and --%s do not go together: ask for one",
                              options[q->command].name, options[commands[i]].name);
        q->command = commands[i];
    }
    if (q->command < 0) q->command = q->has_id ? INFO_ATTRIBUTES : INFO_LIST;
    return TOOL_OK;
}

static tool_exit check(const query *q)
{
    bool needs_id = q->command == INFO_ATTRIBUTES || q->command == INFO_OVERVIEW;
    bool takes_id = needs_id || q->command == INFO_ARCH || q->command == INFO_CLOCK;
    if (needs_id && !q->has_id)
        return tool_usage("info", "expected --device-id N as well: --list-devices lists them");
    if (q->has_id && !takes_id)
        return tool_usage("info", "--device-id does not go with --%s, which is about all devices",
                          q->command == INFO_LIST ? "list-devices" : "ipu-count");
    if (q->all && q->command == INFO_OVERVIEW)
        return tool_usage("info", "--tile-overview is of the active partition only: set IPU_PARTITION=NAME");
    return TOOL_OK;
}

tool_exit run_info(const tool_arguments *args)
{
    const char *id = args->values[INFO_DEVICE];
    query       q  = {.all = args->values[INFO_ALL], .json = args->values[INFO_JSON], .has_id = id};
    if (id && !device_number(id, &q.id)) return TOOL_USAGE;
    tool_exit code = choose(args, &q);
    if (code == TOOL_OK) code = check(&q);
    if (code != TOOL_OK) return code;
    if (q.command == INFO_LIST) return info_list(q.all, q.json);
    if (q.command == INFO_OVERVIEW) return info_tiles(q.id, q.json);
    return about_devices(&q);
}
