/* `ipu monitor`, gc-monitor: shows the IPUs and who is attached to them, once or repeatedly. */
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "device/devices.h"
#include "live/live.h"
#include "monitor/monitor_json.h"
#include "monitor/monitor_table.h"
#include "output.h"
#include "table.h"
#include "monitor/watch_lines.h"
#include "web/web.h"

/* ---- one look ---- */

static void print_partitions(const ipu_device_list *list, bool all, bool cards)
{
    const int64_t        now_ns = tool_time();
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

/* All partitions are always read: names include the domain where there are several. */
static tool_exit print_once(const tool_arguments *args)
{
    bool             all  = args->values[MONITOR_ALL];
    tool_exit        code = TOOL_OK;
    ipu_device_list *list;
    if (ipu_device_list_create(IPU_ALL_PARTITIONS, &list) != IPU_OK) return tool_fail("%s", ipu_message());
    if (args->values[MONITOR_JSON])
        code = tool_print_json(stdout, monitor_json(list, all, tool_time()));
    else
        print_partitions(list, all, !args->values[MONITOR_NO_CARDS]);
    ipu_device_list_destroy(list);
    return code;
}

/* ---- modes ---- */

typedef enum way { ONCE, CSV, JSONL, ALERTS, LIVE, WEB } way;

/* Options that select each mode, and those that do not go with it. */
static const struct {
    int         option;
    const char *name;
    way         asks_for;
} askers[] = {
    {MONITOR_ONCE, "once", ONCE}, {MONITOR_JSON, "json", ONCE},    {MONITOR_NO_CARDS, "no-card-info", ONCE},
    {MONITOR_CSV, "csv", CSV},    {MONITOR_JSONL, "jsonl", JSONL}, {MONITOR_WEB, "web", WEB},
};

static const struct {
    int         option;
    const char *name;
} of_repeated[] = {
    {MONITOR_INTERVAL, "interval"}, {MONITOR_COUNT, "count"},         {MONITOR_ALERT, "alert"},
    {MONITOR_EXEC, "exec"},         {MONITOR_ALL_USERS, "all-users"},
};

static const struct {
    int         option;
    const char *name;
} of_web[] = {{MONITOR_LISTEN, "listen"}, {MONITOR_TOKEN_FILE, "token-file"}};

static bool is_live(void) { return !tool_is_link() && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO); }

static tool_exit choose(const tool_arguments *args, way *out)
{
    const char *asked = NULL;
    *out              = is_live() ? LIVE : args->values[MONITOR_ALERT] ? ALERTS : ONCE;
    for (size_t i = 0; i < sizeof askers / sizeof *askers; i++) {
        if (!args->values[askers[i].option]) continue;
        if (asked && *out != askers[i].asks_for)
            return tool_usage("monitor", "--%s and --%s do not go together", asked, askers[i].name);
        asked = askers[i].name;
        *out  = askers[i].asks_for;
    }
    for (size_t i = 0; *out != WEB && i < sizeof of_web / sizeof *of_web; i++)
        if (args->values[of_web[i].option]) return tool_usage("monitor", "--%s needs --web", of_web[i].name);
    for (size_t i = 0; *out == ONCE && i < sizeof of_repeated / sizeof *of_repeated; i++) {
        if (!args->values[of_repeated[i].option]) continue;
        if (asked) return tool_usage("monitor", "--%s does not go with --%s", of_repeated[i].name, asked);
        return tool_usage("monitor",
                          "--%s needs --csv, --jsonl, --web or --alert, or `ipu monitor` on a terminal",
                          of_repeated[i].name);
    }
    return TOOL_OK;
}

static tool_exit run_watch(const tool_arguments *args, way chosen)
{
    watch_options options;
    int64_t       count = 0;
    tool_exit     code  = watch_options_read(args, &options);
    if (code == TOOL_OK && args->values[MONITOR_COUNT]
        && !tool_integer("count", args->values[MONITOR_COUNT], 1, INT64_MAX, &count))
        code = TOOL_USAGE;
    options.quiet = chosen == LIVE;
    watch *w      = code == TOOL_OK ? watch_create(&options) : NULL;
    if (code == TOOL_OK && !w) code = tool_fail("out of memory");
    watch_options_fini(&options);
    if (!w) return code;
    switch (chosen) {
    case CSV: code = watch_lines_run(w, WATCH_CSV, count); break;
    case JSONL: code = watch_lines_run(w, WATCH_JSONL, count); break;
    case WEB:
        code = web_run(w,
                       &(web_options){args->values[MONITOR_LISTEN], args->values[MONITOR_TOKEN_FILE], count});
        break;
    case LIVE: code = live_run(w, count); break;
    default: code = watch_lines_run(w, WATCH_ALERTS, count); break;
    }
    watch_destroy(w);
    return code;
}

tool_exit run_monitor(const tool_arguments *args)
{
    way       chosen;
    tool_exit code = choose(args, &chosen);
    if (code != TOOL_OK) return code;
    if (chosen == ONCE) return print_once(args);
    tool_must_finish(); /* it notices by itself, and ends in good order */
    return run_watch(args, chosen);
}
