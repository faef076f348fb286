/* `ipu partition`: make, list and remove partitions of virtual IPUs. */
#include <stdio.h>
#include <string.h>

#include "device/devices.h"
#include "harmless.h"
#include "output.h"

/* ---- list ---- */

static int n_used(const ipu_partition *p)
{
    int n = 0;
    for (size_t i = 0; i < p->n_ipus; i++) n += p->singles[i].process != NULL;
    return n;
}

static void print_list(const ipu_device_list *list)
{
    const ipu_partition *p;
    int                  width = 9;
    for (size_t i = 0; (p = ipu_device_list_at(list, i)); i++)
        if ((int)strlen(p->name) > width) width = (int)strlen(p->name);
    printf("%-*s  GCD  CHIP    IPUS  DEVICES  KIND     IN USE  ACTIVE  FILE\n", width, "PARTITION");
    for (size_t i = 0; (p = ipu_device_list_at(list, i)); i++)
        printf("%-*s  %3d  %-6s  %4zu  %7zu  %-7s  %6d  %-6s  %s\n", width, p->name, p->gcd, p->chip,
               p->n_ipus, p->n_devices, p->elastic ? "elastic" : "hard", n_used(p), p->active ? "yes" : "no",
               *p->file ? harmless(p->file) : "-");
}

static json_t *describe_one(const ipu_partition *p)
{
    return json_pack("{s:s, s:i, s:s, s:s, s:I, s:I, s:i, s:b, s:b, s:b, s:o}", "name", p->name, "gcd",
                     p->gcd, "chip", p->chip, "architecture", p->arch, "ipus", (json_int_t)p->n_ipus,
                     "devices", (json_int_t)p->n_devices, "in_use", n_used(p), "elastic", (int)p->elastic,
                     "reconfigurable", (int)p->reconfigurable, "active", (int)p->active, "file",
                     *p->file ? tool_json_text(p->file) : json_null());
}

static json_t *describe(const ipu_device_list *list)
{
    const ipu_partition *p;
    json_t              *partitions = json_array();
    bool                 made       = partitions;
    for (size_t i = 0; made && (p = ipu_device_list_at(list, i)); i++)
        made = json_array_append_new(partitions, describe_one(p)) == 0;
    if (made) return json_pack("{s:o}", "partitions", partitions);
    json_decref(partitions);
    return NULL;
}

static tool_exit list_all(const tool_arguments *args)
{
    tool_exit        code = TOOL_OK;
    ipu_device_list *list;
    if (ipu_device_list_create(IPU_ALL_PARTITIONS, &list) != IPU_OK) return tool_fail("%s", ipu_message());
    if (args->values[PARTITION_JSON])
        code = tool_print_json(stdout, describe(list));
    else
        print_list(list);
    ipu_device_list_destroy(list);
    return code;
}

/* ---- create, remove ---- */

static tool_exit create(const tool_arguments *args)
{
    enum { MOST_IPUS = 256 };
    const char           *ipus    = args->values[PARTITION_IPUS];
    ipu_partition_options options = {.target  = args->values[PARTITION_TARGET],
                                     .fixed   = args->values[PARTITION_FIXED],
                                     .elastic = args->values[PARTITION_ELASTIC]};
    if (ipus && !tool_integer("ipus", ipus, 1, MOST_IPUS, &options.n_ipus)) return TOOL_USAGE;
    if (ipu_partition_create(args->operands[1], &options) == IPU_OK) return TOOL_OK;
    return tool_fail("%s", ipu_message());
}

static tool_exit remove_one(const tool_arguments *args)
{
    return ipu_partition_remove(args->operands[1]) == IPU_OK ? TOOL_OK : tool_fail("%s", ipu_message());
}

/* ---- the command ---- */

typedef struct action {
    const char *name;
    int         n_operands; /* including its own name */
    bool        options[N_OPTIONS_partition];
    tool_exit (*run)(const tool_arguments *args);
} action;

static const action actions[] = {
    {"create",
     2,
     {[PARTITION_TARGET]  = true,
      [PARTITION_IPUS]    = true,
      [PARTITION_FIXED]   = true,
      [PARTITION_ELASTIC] = true},
     create},
    {"list", 1, {[PARTITION_JSON] = true}, list_all},
    {"remove", 2, {false}, remove_one},
};

tool_exit run_partition(const tool_arguments *args)
{
    const tool_option *options = tool_find_command("partition")->options;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        const action *a = &actions[i];
        if (strcmp(a->name, args->operands[0]) != 0) continue;
        if (args->n_operands < a->n_operands) return tool_usage("partition", "expected %s NAME", a->name);
        if (args->n_operands > a->n_operands)
            return tool_usage("partition", "unexpected \"%s\"", args->operands[a->n_operands]);
        for (int o = 0; o < N_OPTIONS_partition; o++)
            if (args->values[o] && !a->options[o])
                return tool_usage("partition", "option --%s does not go with %s", options[o].name, a->name);
        return a->run(args);
    }
    return tool_usage("partition", "expected create, list or remove, found \"%s\"", args->operands[0]);
}
