/* gc-info --list-devices: single IPUs and groups, line by line as in captured output, or as JSON. */
#include "device/info_list.h"

#include <stdio.h>

#include "device/devices.h"
#include "output.h"

/* With all partitions, ids continue from one to the next; groups, whose ids would collide, are left out. */
static size_t n_listed(const ipu_partition *p, bool all) { return all ? p->n_ipus : p->n_devices; }

static bool is_single(const ipu_partition *p, size_t i, bool all) { return all || p->devices[i].n_ipus == 1; }

/* ---- text ---- */

static void print_where(const ipu_single *s)
{
    printf(", IPU-M host: [%s], IPU#: [%d]\n", s->machine->host, s->number);
}

static void print_group(const ipu_partition *p, const ipu_device_info *d)
{
    printf("-+- Id: [%d], target: [%s]\n", d->id, d->target);
    for (int k = 0; k < d->n_ipus; k++) {
        printf(" |--- Id: [%d], DNC Id: [%d]", d->first + k, k);
        print_where(&p->singles[d->first + k]);
    }
}

static void print_partition(const ipu_device_list *list, const ipu_partition *p, bool all)
{
    char name[DEVICE_TEXT];
    device_partition_name(list, p, name);
    printf("Partition: %s%s\n", name, p->active ? " [active]" : "");
    for (size_t i = 0; i < n_listed(p, all); i++) {
        if (!is_single(p, i, all)) {
            print_group(p, &p->devices[i]);
            continue;
        }
        printf("-+- Id: [%d], target: [%s]", (all ? p->n_before : 0) + (int)i, device_single_target(p));
        print_where(&p->singles[i]);
    }
}

/* ---- JSON: keys are those of attributes ---- */

static bool set_where(json_t *object, const ipu_single *s)
{
    return device_set(object, "ipuof host", s->machine->host)
        && device_set_number(object, "board ipu index", s->number);
}

static bool add_members(json_t *members, const ipu_partition *p, const ipu_device_info *d)
{
    for (int k = 0; k < d->n_ipus; k++) {
        json_t *member = json_object();
        bool    set = device_set_number(member, "id", d->first + k) && device_set_number(member, "dnc id", k)
                && set_where(member, &p->singles[d->first + k]);
        if (json_array_append_new(members, member) != 0 || !set) return false;
    }
    return true;
}

static bool set_device(json_t *object, const ipu_partition *p, size_t i, bool all)
{
    bool single = is_single(p, i, all);
    bool set    = device_set_number(object, "id", (all ? p->n_before : 0) + (int)i)
            && device_set(object, "target", single ? device_single_target(p) : p->devices[i].target);
    if (single) return set && set_where(object, &p->singles[i]);
    json_t *members = json_array();
    set             = set && add_members(members, p, &p->devices[i]);
    return json_object_set_new(object, "ipus", members) == 0 && set;
}

static bool add_partition(json_t *partitions, const ipu_partition *p, bool all)
{
    json_t *object = json_object(), *devices = json_array();
    bool    made = device_set(object, "partition", p->name) && device_set_number(object, "gcd", p->gcd)
             && device_set(object, "active", p->active ? "true" : "false");
    for (size_t i = 0; made && i < n_listed(p, all); i++) {
        json_t *device = json_object();
        made           = set_device(device, p, i, all);
        made           = json_array_append_new(devices, device) == 0 && made;
    }
    made = json_object_set_new(object, "devices", devices) == 0 && made;
    return json_array_append_new(partitions, object) == 0 && made;
}

static json_t *describe(const ipu_device_list *list, bool all)
{
    const ipu_partition *p;
    json_t              *partitions = json_array();
    bool                 made       = partitions;
    for (size_t i = 0; made && (p = ipu_device_list_at(list, i)); i++)
        if (all || p->active) made = add_partition(partitions, p, all);
    if (made) return json_pack("{s:o}", "partitions", partitions);
    json_decref(partitions);
    return NULL;
}

tool_exit info_list(bool all, bool json)
{
    ipu_device_list *list;
    tool_exit        code = TOOL_OK;
    if (ipu_device_list_create(IPU_ALL_PARTITIONS, &list) != IPU_OK) return tool_fail("%s", ipu_message());
    if (json) {
        code = tool_print_json(stdout, describe(list, all));
    } else {
        const ipu_partition *p;
        puts("Graphcore device listing:");
        for (size_t i = 0; (p = ipu_device_list_at(list, i)); i++)
            if (all || p->active) print_partition(list, p, all);
    }
    ipu_device_list_destroy(list);
    return code;
}
