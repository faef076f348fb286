/* `ipu monitor`, gc-monitor: a picture of the IPUs and who is attached to them. */
#include <stdio.h>
#include <time.h>

#include "devices.h"
#include "monitor_json.h"
#include "monitor_table.h"
#include "output.h"
#include "table.h"

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void print_partitions(const ipu_device_list *list, bool all, bool cards)
{
    const int64_t        now_ns = now();
    const ipu_partition *p;
    for (size_t i = 0; (p = ipu_device_list_at(list, i)); i++) {
        char name[DEVICE_TEXT];
        if (!all && !p->active) continue;
        device_partition_name(list, p, name);
        monitor_print(stdout, p,
                      &(monitor_view){.name    = name,
                                      .cards   = cards,
                                      .raise   = all ? p->n_before : 0,
                                      .columns = table_columns(),
                                      .now_ns  = now_ns});
    }
}

/* All partitions are read in any case: names show the domain where there are several. */
tool_exit run_monitor(const tool_arguments *args)
{
    bool             all  = args->values[MONITOR_ALL];
    tool_exit        code = TOOL_OK;
    ipu_device_list *list;
    if (ipu_device_list_create(IPU_ALL_PARTITIONS, &list) != IPU_OK) return tool_fail("%s", ipu_message());
    if (args->values[MONITOR_JSON])
        code = tool_print_json(stdout, monitor_json(list, all, now()));
    else
        print_partitions(list, all, !args->values[MONITOR_NO_CARDS]);
    ipu_device_list_destroy(list);
    return code;
}
