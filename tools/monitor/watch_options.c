/* Options shared by all modes of watching. */
#include <stdlib.h>
#include <unistd.h>

#include "output.h"
#include "monitor/watch.h"

#define LEAST_INTERVAL 0.1
#define MOST_INTERVAL 86400

static tool_exit read_rules(const tool_arguments *args, watch_options *out)
{
    char        problem[ALERT_PROBLEM];
    const char *text;
    int         at = 0;
    out->rules     = calloc((size_t)args->n_given + 1, sizeof *out->rules);
    if (!out->rules) return tool_fail("out of memory");
    while ((text = tool_next(args, MONITOR_ALERT, &at)))
        if (!alert_parse(text, &out->rules[out->n_rules++], problem, sizeof problem))
            return tool_usage("monitor", "option --alert: %s", problem);
    return TOOL_OK;
}

tool_exit watch_options_read(const tool_arguments *args, watch_options *out)
{
    const char *interval = args->values[MONITOR_INTERVAL];
    *out                 = (watch_options){.all_partitions = args->values[MONITOR_ALL],
                                           .all_users      = args->values[MONITOR_ALL_USERS],
                                           .interval       = 1,
                                           .exec           = args->values[MONITOR_EXEC]};
    if (interval && !tool_number("interval", interval, LEAST_INTERVAL, MOST_INTERVAL, &out->interval))
        return TOOL_USAGE;
    if (out->exec && !args->values[MONITOR_ALERT])
        return tool_usage("monitor", "--exec needs --alert: it is run when an alert fires");
    if (out->all_users && geteuid() != 0)
        return tool_fail(
            "--all-users is for root: each user's IPUs are seen by that user alone; run it with sudo");
    return read_rules(args, out);
}

void watch_options_fini(watch_options *options)
{
    free(options->rules);
    options->rules   = NULL;
    options->n_rules = 0;
}
