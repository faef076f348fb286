/* The partition of a launch: found or created before, reset or removed as requested. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ipu/device.h"
#include "output.h"
#include "launch/poprun.h"

static tool_exit failed(void) { return tool_fail("%s", ipu_message()); }

/* The number of IPUs of the named partition; 0 if it does not exist. */
static tool_exit find(const char *name, int64_t *n_ipus, bool *is_fixed)
{
    ipu_device_list *list;
    *n_ipus   = 0;
    *is_fixed = false;
    if (ipu_device_list_create(IPU_ALL_PARTITIONS, &list) != IPU_OK) return failed();
    const ipu_partition *part;
    for (size_t i = 0; (part = ipu_device_list_at(list, i)); i++) {
        if (strcmp(part->name, name) != 0) continue;
        *n_ipus   = (int64_t)part->n_ipus;
        *is_fixed = !part->reconfigurable;
    }
    ipu_device_list_destroy(list);
    return TOOL_OK;
}

static tool_exit make(poprun *p, const char *name, int64_t n_ipus)
{
    int64_t attempts = 1;
    if (p->values[POPRUN_ATTEMPTS]
        && !tool_integer("vipu-partition-attempts", p->values[POPRUN_ATTEMPTS], 1, 1000, &attempts))
        return TOOL_USAGE;
    ipu_status status = IPU_IO;
    for (int64_t i = 0; i < attempts && status == IPU_IO; i++)
        status = ipu_partition_create(name, &(ipu_partition_options){.target = "gc200", .n_ipus = n_ipus});
    if (status != IPU_OK) return failed();
    p->has_made_partition = true;
    poprun_log(p, 'I', "partition %s of %" PRId64 " IPUs was made", name, n_ipus);
    return TOOL_OK;
}

static tool_exit reset(const poprun *p, const char *name)
{
    if (ipu_device_reset(0) != IPU_OK) return failed();
    poprun_log(p, 'I', "partition %s was reset", name);
    return TOOL_OK;
}

tool_exit poprun_open_partition(poprun *p)
{
    const char *name   = p->values[POPRUN_PARTITION];
    int64_t     needed = p->n_replicas * p->ipus_per_replica, has;
    bool        is_fixed;
    if (!name || p->offline) return TOOL_OK;
    tool_exit code = find(name, &has, &is_fixed);
    if (code == TOOL_OK && has > 0 && has != needed && p->update) {
        if (ipu_partition_remove(name) != IPU_OK) return failed();
        has = 0;
    }
    if (code == TOOL_OK && has == 0) code = make(p, name, needed);
    if (code != TOOL_OK) return code;
    if (has > 0 && has < needed)
        return tool_fail("partition %s has %" PRId64 " IPUs, and %" PRId64 " replicas of %" PRId64
                         " need %" PRId64 ": use another, or --update-partition yes",
                         name, has, p->n_replicas, p->ipus_per_replica, needed);
    if (setenv("IPU_PARTITION", name, 1) != 0) return tool_fail("out of memory");
    bool resets = p->reset < 0 ? is_fixed : p->reset;
    return resets && !p->has_made_partition ? reset(p, name) : TOOL_OK;
}

void poprun_close_partition(poprun *p)
{
    const char *name = p->values[POPRUN_PARTITION];
    if (!p->has_made_partition || !p->remove) return;
    if (ipu_partition_remove(name) == IPU_OK)
        poprun_log(p, 'I', "partition %s was removed", name);
    else
        poprun_log(p, 'E', "partition %s stays: %s", name, ipu_message());
}
