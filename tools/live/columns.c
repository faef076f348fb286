/* The columns of the live view's tables. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "live/view.h"
#include "monitor/monitor_table.h"

static const watch_sample    *sample(const live_view *v) { return &v->picture.sample; }
static const watch_ipu       *ipu(const live_view *v, int row) { return &sample(v)->ipus[row]; }
static const watch_process   *process(const live_view *v, int row) { return &sample(v)->processes[row]; }
static const watch_partition *home(const live_view *v, int partition)
{
    return &sample(v)->partitions[partition];
}

static void put(char out[LIVE_CELL], const char *text) { snprintf(out, LIVE_CELL, "%s", text); }

static void put_share(char out[LIVE_CELL], double share)
{
    if (share < 0)
        put(out, "");
    else
        snprintf(out, LIVE_CELL, "%.1f%%", 100 * share);
}

/* At most four characters, and the unit. */
static void put_scaled(char out[LIVE_CELL], double value, const char *const *units, int n_units)
{
    int i = 0;
    if (value < 0) {
        put(out, "");
        return;
    }
    while (value >= 999.5 && i < n_units - 1) value /= 1000, i++;
    snprintf(out, LIVE_CELL, "%.*f%s", value < 10 && (i > 0 || value != floor(value)) ? 1 : 0, value,
             units[i]);
}

static const char *const counts[] = {"", "k", "M", "G", "T", "P", "E"};
static const char *const sizes[]  = {" B", " kB", " MB", " GB", " TB", " PB"};

/* ---- of IPUs ---- */

#define LEAST_BUSY 0.005 /* share of the time; as on the monitor's page */

static const watch_process *holder(const live_view *v, int row)
{
    int k = ipu(v, row)->process;
    return k < 0 ? NULL : process(v, k);
}

static double share_of(const live_view *v, int row)
{
    const watch_process *p = holder(v, row);
    return p ? p->counters.utilisation : -1;
}

const char *live_ipu_state(const live_view *v, int row)
{
    if (*ipu(v, row)->error) return "error";
    if (!holder(v, row)) return "free";
    return share_of(v, row) >= LEAST_BUSY ? "busy" : "held";
}

static void ipu_id(const live_view *v, int row, char out[LIVE_CELL])
{
    snprintf(out, LIVE_CELL, "%d", ipu(v, row)->id);
}
static double ipu_order(const live_view *v, int row) { return (void)v, row; }
static void   ipu_owner(const live_view *v, int row, char out[LIVE_CELL])
{
    put(out, home(v, ipu(v, row)->partition)->owner);
}
static void ipu_home(const live_view *v, int row, char out[LIVE_CELL])
{
    put(out, home(v, ipu(v, row)->partition)->title);
}
static void ipu_place(const live_view *v, int row, char out[LIVE_CELL])
{
    snprintf(out, LIVE_CELL, "%s #%d", ipu(v, row)->machine, ipu(v, row)->number);
}
static void ipu_state(const live_view *v, int row, char out[LIVE_CELL]) { put(out, live_ipu_state(v, row)); }
static void ipu_share(const live_view *v, int row, char out[LIVE_CELL]) { put_share(out, share_of(v, row)); }
static void ipu_nothing(const live_view *v, int row, char out[LIVE_CELL])
{
    (void)v, (void)row, put(out, "");
}
static void ipu_process(const live_view *v, int row, char out[LIVE_CELL])
{
    const watch_process *p     = holder(v, row);
    const char          *error = ipu(v, row)->error;
    if (p && p->pid)
        snprintf(out, LIVE_CELL, "%lld %s (%s)", (long long)p->pid, p->command, p->user);
    else if (p)
        snprintf(out, LIVE_CELL, "%s in another namespace", p->command);
    else
        put(out, "");
    if (!*error) return;
    char whole[LIVE_CELL + WATCH_TEXT + 4];
    snprintf(whole, sizeof whole, "%s%s%s", error, *out ? "; " : "", out);
    harmless_copy(out, LIVE_CELL, whole);
}
static double ipu_process_order(const live_view *v, int row)
{
    const watch_process *p = holder(v, row);
    return p ? (double)p->pid : INFINITY;
}

static const live_column of_ipus[] = {
    {"ID", 4, 0, 0, true, LIVE_TEXT, ipu_id, ipu_order},
    {"OWNER", 8, 1, 4, false, LIVE_TEXT, ipu_owner, NULL},
    {"PARTITION", 9, 1, 3, false, LIVE_TEXT, ipu_home, NULL},
    {"MACHINE", 12, 1, 5, false, LIVE_TEXT, ipu_place, ipu_order},
    {"STATE", 5, 0, 0, false, LIVE_TEXT, ipu_state, NULL},
    {"UTIL", 6, 0, 0, true, LIVE_TEXT, ipu_share, share_of},
    {"", 10, 0, 6, false, LIVE_BAR, ipu_nothing, NULL},
    {"HISTORY", 10, 4, 2, false, LIVE_SPARK, ipu_nothing, NULL},
    {"PROCESS", 14, 3, 1, false, LIVE_TEXT, ipu_process, ipu_process_order},
};

/* ---- of processes ---- */

static void process_pid(const live_view *v, int row, char out[LIVE_CELL])
{
    if (process(v, row)->pid)
        snprintf(out, LIVE_CELL, "%lld", (long long)process(v, row)->pid);
    else
        put(out, "-");
}
static double process_pid_order(const live_view *v, int row) { return (double)process(v, row)->pid; }
static void   process_user(const live_view *v, int row, char out[LIVE_CELL])
{
    put(out, process(v, row)->user);
}
static void process_command(const live_view *v, int row, char out[LIVE_CELL])
{
    put(out, process(v, row)->command);
}
static void process_partition(const live_view *v, int row, char out[LIVE_CELL])
{
    put(out, home(v, process(v, row)->partition)->title);
}
static void process_ipus(const live_view *v, int row, char out[LIVE_CELL])
{
    const watch_process *p = process(v, row);
    if (p->first_id < 0)
        snprintf(out, LIVE_CELL, "+%d", p->n_ipus);
    else if (p->n_ipus == 1)
        snprintf(out, LIVE_CELL, "%d", p->first_id);
    else
        snprintf(out, LIVE_CELL, "%d-%d", p->first_id, p->first_id + p->n_ipus - 1);
}
static double process_ipus_order(const live_view *v, int row) { return (void)v, row; }
static void   process_time(const live_view *v, int row, char out[LIVE_CELL])
{
    char text[MONITOR_TIME];
    monitor_time(process(v, row)->since_ns, sample(v)->time_ns, text);
    put(out, text);
}
static double process_time_order(const live_view *v, int row)
{
    return (double)(sample(v)->time_ns - process(v, row)->since_ns);
}
static double process_share(const live_view *v, int row) { return process(v, row)->counters.utilisation; }
static void   process_utilisation(const live_view *v, int row, char out[LIVE_CELL])
{
    put_share(out, process_share(v, row));
}
static double process_runs(const live_view *v, int row) { return process(v, row)->runs_per_second; }
static void   process_run_rate(const live_view *v, int row, char out[LIVE_CELL])
{
    put_scaled(out, process_runs(v, row), counts, 7);
}
static double process_bytes(const live_view *v, int row) { return process(v, row)->host_bytes_per_second; }
static void   process_byte_rate(const live_view *v, int row, char out[LIVE_CELL])
{
    put_scaled(out, process_bytes(v, row), sizes, 6);
}
static double process_cycles(const live_view *v, int row) { return (double)process(v, row)->counters.cycles; }
static void   process_cycle_count(const live_view *v, int row, char out[LIVE_CELL])
{
    put_scaled(out, process_cycles(v, row), counts, 7);
}

static const live_column of_processes[] = {
    {"PID", 8, 0, 0, true, LIVE_TEXT, process_pid, process_pid_order},
    {"USER", 9, 1, 2, false, LIVE_TEXT, process_user, NULL},
    {"COMMAND", 12, 3, 0, false, LIVE_TEXT, process_command, NULL},
    {"PARTITION", 9, 1, 3, false, LIVE_TEXT, process_partition, NULL},
    {"IPUS", 7, 0, 0, true, LIVE_TEXT, process_ipus, process_ipus_order},
    {"TIME", 7, 0, 1, true, LIVE_TEXT, process_time, process_time_order},
    {"UTIL", 6, 0, 0, true, LIVE_TEXT, process_utilisation, process_share},
    {"RUNS/S", 7, 0, 4, true, LIVE_TEXT, process_run_rate, process_runs},
    {"HOST/S", 7, 0, 5, true, LIVE_TEXT, process_byte_rate, process_bytes},
    {"CYCLES", 7, 0, 6, true, LIVE_TEXT, process_cycle_count, process_cycles},
};

static const live_column *const tables[] = {of_ipus, of_processes};
static const int n_columns[] = {sizeof of_ipus / sizeof *of_ipus, sizeof of_processes / sizeof *of_processes};

int                live_n_columns(live_table table) { return n_columns[table]; }
const live_column *live_columns(live_table table) { return tables[table]; }

int live_first_sort(live_table table)
{
    int c = 0;
    if (table == LIVE_PROCESSES)
        while (of_processes[c].text != process_ipus) c++;
    return c;
}

bool live_column_is_used(const live_view *v, live_table table, int column)
{
    const live_column *c = &tables[table][column];
    if (c->text == ipu_owner) return v->several_owners;
    if (c->text == ipu_home || c->text == process_partition) return v->several_partitions;
    return true;
}
