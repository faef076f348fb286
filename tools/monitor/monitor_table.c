/* The tables of gc-monitor. Their words, order and widths follow captured output (docs/tools.md lists
 * exceptions). Everything here depends on its arguments only. */
#include "monitor/monitor_table.h"

#include <string.h>

#include "table.h"

enum { TEXT = 160 };

typedef struct painter {
    FILE                *out;
    const ipu_partition *p;
    const monitor_view  *view;
    char                 clock[TEXT];
} painter;

/* ---- the partition, and its IPUs ---- */

static const int title_widths[] = {15, 80};

static void print_title(const painter *t)
{
    char text[2 * TEXT];
    snprintf(text, sizeof text, "Partition: %s%s has %zu %sIPUs", t->view->name,
             t->p->active ? " [active]" : "", t->p->n_ipus, t->p->reconfigurable ? "reconfigurable " : "");
    table_rule(t->out, title_widths, 2);
    table_row(t->out, title_widths, (const char *const[]){"gc-monitor", text}, 2);
}

enum { N_CARD = 9, N_PROCESS = 9, N_OTHER = 6 };

static void print_cards(const painter *t)
{
    static const int         widths[N_CARD] = {13, 20, 8, 14, 10, 6, 4, 6, 7};
    static const char *const heads[N_CARD]  = {"IPU-M", "Serial", "IPU-M SW", "Server version", "ICU FW",
                                               "Type",  "ID",     "IPU#",     "Routing"};
    table_rule(t->out, widths, N_CARD);
    table_row(t->out, widths, heads, N_CARD);
    for (size_t i = 0; i < t->p->n_ipus; i++) {
        const ipu_single  *s = &t->p->singles[i];
        const ipu_machine *m = s->machine;
        char               id[TEXT], number[TEXT];
        snprintf(id, sizeof id, "%d", t->view->raise + s->index);
        snprintf(number, sizeof number, "%d", s->number);
        if (i == 0 || m != t->p->singles[i - 1].machine) table_rule(t->out, widths, N_CARD);
        table_row(t->out, widths,
                  (const char *const[]){m->host, s->board, m->software, m->server, m->firmware, m->type, id,
                                        number, t->p->routing},
                  N_CARD);
    }
    table_rule(t->out, widths, N_CARD);
}

/* ---- processes ---- */

void monitor_time(int64_t since_ns, int64_t now_ns, char out[MONITOR_TIME])
{
    long long s = since_ns > 0 && now_ns > since_ns ? (long long)((now_ns - since_ns) / 1000000000) : 0;
    long long m = s / 60, h = m / 60, d = h / 24;
    if (d)
        snprintf(out, MONITOR_TIME, "%lldd%lldh", d, h % 24);
    else if (h)
        snprintf(out, MONITOR_TIME, "%lldh%lldm", h, m % 60);
    else if (m)
        snprintf(out, MONITOR_TIME, "%lldm%llds", m, s % 60);
    else
        snprintf(out, MONITOR_TIME, "%llds", s);
}

/* A row of a table of processes: an IPU that somebody is attached to. The partition's come first, then those
 * that processes have of their own. */
typedef struct row {
    size_t              next; /* where to look for the next row: an IPU, or after them, a process */
    int                 own;  /* how many of that process's own IPUs have been shown */
    const ipu_attached *process;
    const char         *board; /* NULL if the IPU is the process's own */
    bool                new_board;
    char                id[TEXT];
} row;

static void set_row(row *r, const ipu_attached *process, const char *board)
{
    bool same = r->process && board && r->board ? !strcmp(board, r->board) : r->process == process && !board;
    r->new_board = !same || !r->process;
    r->process   = process;
    r->board     = board;
}

static bool is_own(const ipu_attached *a) { return a->first < 0; }

/* Moves to the next row of processes in this namespace, or in others; returns false after the last. */
static bool next_row(const painter *t, bool others, row *r)
{
    const ipu_partition *p = t->p;
    for (; r->next < p->n_ipus; r->next++) {
        const ipu_single *s = &p->singles[r->next];
        if (!s->process || (s->process->pid == 0) != others) continue;
        set_row(r, s->process, s->board);
        snprintf(r->id, sizeof r->id, "%d", t->view->raise + s->index);
        r->next++;
        return true;
    }
    for (; r->next < p->n_ipus + p->n_processes; r->next++, r->own = 0) {
        const ipu_attached *a = &p->processes[r->next - p->n_ipus];
        if (!is_own(a) || (a->pid == 0) != others || r->own >= a->n_ipus) continue;
        set_row(r, a, NULL);
        strcpy(r->id, "-");
        r->own++;
        return true;
    }
    return false;
}

/* A board's sensor, shown once per board; virtual boards have none. */
static const char *board_sensor(const row *r) { return r->new_board ? "N/A" : ""; }

/* Observed: 41, 82 and 87 for the command. It fills the terminal, but the table stays as wide as that of
 * IPUs. */
static int command_width(int columns)
{
    enum { FIXED = 76, LEAST = 22, SEEN = 41 };
    if (columns == 0) return SEEN;
    return columns - FIXED > LEAST ? columns - FIXED : LEAST;
}

static void print_processes(const painter *t)
{
    const int                widths[N_PROCESS] = {8, command_width(t->view->columns), 8, 12, 4, 10, 8, 8, 8};
    static const char *const heads[N_PROCESS]  = {"PID",   "Command", "Time", "User", "ID",
                                                  "Clock", "Temp",    "Temp", "Power"};
    const int                groups[]          = {widths[0] + widths[1] + widths[2] + widths[3] + 3, 24, 17};
    char                     title[2 * TEXT];
    row                      r = {0};
    snprintf(title, sizeof title, "Attached processes in partition %s", t->view->name);
    table_rule(t->out, groups, 3);
    table_row(t->out, groups, (const char *const[]){title, "IPU", "Board"}, 3);
    table_rule(t->out, widths, N_PROCESS);
    table_row(t->out, widths, heads, N_PROCESS);
    while (next_row(t, false, &r)) {
        char pid[TEXT], time[MONITOR_TIME];
        snprintf(pid, sizeof pid, "%lld", (long long)r.process->pid);
        monitor_time(r.process->since_ns, t->view->now_ns, time);
        if (r.new_board) table_rule(t->out, widths, N_PROCESS);
        table_row(t->out, widths,
                  (const char *const[]){pid, r.process->command, time, r.process->user, r.id, t->clock, "N/A",
                                        board_sensor(&r), board_sensor(&r)},
                  N_PROCESS);
    }
    table_rule(t->out, widths, N_PROCESS);
}

/* Locks are visible on this host only, so the processes run on it. */
static void print_others(const painter *t)
{
    static const int         widths[N_OTHER] = {4, 30, 14, 11, 11, 11};
    static const char *const heads[N_OTHER]  = {"ID", "Application host", "Clock", "Temp", "Temp", "Power"};
    static const int         groups[]        = {62, 23};
    char                     title[2 * TEXT];
    row                      r = {0};
    snprintf(title, sizeof title, "IPUs in %s attached from other namespaces", t->view->name);
    table_rule(t->out, groups, 2);
    table_row(t->out, groups, (const char *const[]){title, "Board"}, 2);
    table_rule(t->out, widths, N_OTHER);
    table_row(t->out, widths, heads, N_OTHER);
    while (next_row(t, true, &r)) {
        if (r.new_board) table_rule(t->out, widths, N_OTHER);
        table_row(t->out, widths,
                  (const char *const[]){r.id, "localhost", t->clock, "N/A", board_sensor(&r),
                                        board_sensor(&r)},
                  N_OTHER);
    }
    table_rule(t->out, widths, N_OTHER);
}

static void print_none(const painter *t)
{
    static const int width = 98;
    char             text[2 * TEXT];
    snprintf(text, sizeof text, "No attached processes in partition %s", t->view->name);
    table_rule(t->out, &width, 1);
    table_row(t->out, &width, (const char *const[]){text}, 1);
    table_rule(t->out, &width, 1);
}

void monitor_print(FILE *out, const ipu_partition *p, const monitor_view *view)
{
    painter t      = {.out = out, .p = p, .view = view};
    size_t  others = 0;
    snprintf(t.clock, sizeof t.clock, "%.0fMHz", p->clock_hz / 1e6);
    for (size_t i = 0; i < p->n_processes; i++) others += p->processes[i].pid == 0;
    print_title(&t);
    if (view->cards)
        print_cards(&t);
    else
        table_rule(out, title_widths, 2);
    if (p->n_processes == 0) print_none(&t);
    if (p->n_processes > others) print_processes(&t);
    if (others) print_others(&t);
}
