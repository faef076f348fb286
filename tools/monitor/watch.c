/* Looking repeatedly. */
#include "monitor/watch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/alert_exec.h"
#include "clock.h"
#include "output.h"
#include "monitor/watch_signals.h"
#include "monitor/watch_users.h"

enum { LAST_WAIT_MS = 3000 }; /* for commands to end, at exit */

struct watch {
    bool             all_partitions, all_users;
    double           interval;
    watch_user       me;
    watch_user      *users; /* others */
    int              n_users;
    watch_sample     sample, last; /* `last`: the look before, for rates */
    int64_t          looked_ns;    /* monotonic; 0 if never */
    int64_t          due_ns;       /* the next look, monotonic */
    watch_histories *histories;
    alerts          *alerts;
    alert_exec      *exec; /* NULL if none */
    void (*tell)(void *to, const char *text);
    void *to;
    bool  stopped; /* by a signal */
    char  problem[WATCH_PROBLEM];
};

static void tell(void *to, const char *text)
{
    const watch *w = to;
    if (w->tell)
        w->tell(w->to, text);
    else
        tool_fail("%s", text);
}

/* ---- creating ---- */

watch *watch_create(const watch_options *o)
{
    watch *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->all_partitions = o->all_partitions;
    w->all_users      = o->all_users;
    w->interval       = o->interval;
    w->histories      = watch_histories_create();
    w->alerts         = alerts_create(o->rules, o->n_rules);
    w->exec           = o->exec ? alert_exec_create(o->exec, o->quiet, tell, w) : NULL;
    if (!w->histories || !w->alerts || (o->exec && !w->exec)) {
        watch_destroy(w);
        return NULL;
    }
    w->me.uid = geteuid();
    watch_user_name(w->me.uid, w->me.name, sizeof w->me.name);
    watch_signals_catch();
    return w;
}

static void wait_for_commands(watch *w)
{
    int64_t until = tool_clock() / 1000000 + LAST_WAIT_MS;
    while (alert_exec_n(w->exec) > 0) {
        int64_t       left = until - tool_clock() / 1000000;
        struct pollfd p    = {.fd = watch_signals_fd(), .events = POLLIN};
        if (left <= 0) {
            tell(w, "commands of --exec still run: nobody will look after them");
            return;
        }
        poll(&p, 1, (int)left < 100 ? (int)left : 100);
        if (watch_take_signal(w)) return;
    }
}

void watch_destroy(watch *w)
{
    if (!w) return;
    if (w->exec && !w->stopped) wait_for_commands(w);
    watch_sample_fini(&w->me.sample);
    watch_users_free(w->users, w->n_users);
    watch_sample_fini(&w->sample);
    watch_sample_fini(&w->last);
    watch_histories_destroy(w->histories);
    alerts_destroy(w->alerts);
    alert_exec_destroy(w->exec);
    free(w);
}

void watch_tell_to(watch *w, void (*fn)(void *to, const char *text), void *to)
{
    w->tell = fn;
    w->to   = to;
}

/* ---- looking ---- */

/* Looks at the user's own IPUs. All partitions are always read: names include the domain where there are
 * several. */
static void look_own(watch *w)
{
    watch_user      *me = &w->me;
    ipu_device_list *list;
    if (ipu_device_list_create(IPU_ALL_PARTITIONS, &list) != IPU_OK) {
        harmless_copy(me->problem, sizeof me->problem, ipu_message());
        return;
    }
    watch_sample_clear(&me->sample);
    bool ok = watch_sample_add(&me->sample, list, me->uid, me->name, w->all_partitions);
    snprintf(me->problem, sizeof me->problem, "%s", ok ? "" : "out of memory");
    ipu_device_list_destroy(list);
}

/* Joins the samples of all users, and their problems. Returns false if out of memory. */
static bool join(watch *w)
{
    int used          = 0;
    int room          = (int)sizeof w->problem;
    w->sample.time_ns = tool_time();
    for (int i = -1; i < w->n_users; i++) {
        watch_user *u = i < 0 ? &w->me : &w->users[i];
        for (int k = 0; k < u->sample.n_partitions; k++) u->sample.partitions[k].stale = *u->problem != 0;
        if (!watch_sample_append(&w->sample, &u->sample)) return false;
        if (*u->problem && used < room)
            used += snprintf(w->problem + used, (size_t)(room - used), "%s%s", used ? "; " : "", u->problem);
    }
    return true;
}

/* The rates at which a process's counters grow. */
static void set_rates(watch *w, double seconds)
{
    int hint = 0, n = w->last.n_processes;
    for (int i = 0; i < w->sample.n_processes && seconds > 0; i++)
        for (int k = 0; k < n; k++) {
            int before = (hint + k) % n;
            if (w->sample.partitions[w->sample.processes[i].partition].stale) break;
            if (!watch_same_process(&w->sample, i, &w->last, before)) continue;
            watch_process             *p   = &w->sample.processes[i];
            const ipu_device_counters *old = &w->last.processes[before].counters;
            p->runs_per_second             = (double)(p->counters.runs - old->runs) / seconds;
            p->host_bytes_per_second       = (double)(p->counters.host_bytes - old->host_bytes) / seconds;
            hint                           = before + 1;
            break;
        }
}

static void start_commands(watch *w)
{
    for (int i = 0; w->exec && i < alerts_n_changes(w->alerts); i++) {
        const alert *one = alerts_change(w->alerts, i);
        alert_exec_run(w->exec, alerts_rule(w->alerts, one->rule), one);
    }
}

static void set_due(watch *w, int64_t now)
{
    int64_t step = (int64_t)(w->interval * 1e9);
    int64_t next = w->due_ns + step;
    /* Keeps to the rhythm of earlier looks, unless this one is late or was not due. */
    w->due_ns = w->due_ns && next > now && next <= now + step ? next : now + step;
}

bool watch_look(watch *w)
{
    int64_t      now  = tool_clock();
    watch_sample last = w->last;
    w->last           = w->sample;
    w->sample         = last;
    watch_sample_clear(&w->sample);
    w->problem[0] = 0;
    set_due(w, now);
    look_own(w);
    int  left_out = 0;
    bool ok       = !w->all_users || watch_users_find(w->me.uid, &w->users, &w->n_users, &left_out);
    if (w->all_users) watch_users_look(w->users, w->n_users, w->all_partitions);
    ok = join(w) && ok;
    if (left_out && !*w->problem)
        snprintf(w->problem, sizeof w->problem,
                 "%d users more than are looked at have IPUs: those with the highest numbers", left_out);
    set_rates(w, w->looked_ns ? (double)(now - w->looked_ns) / 1e9 : 0);
    w->looked_ns = now;
    ok &= watch_histories_add(w->histories, &w->sample);
    ok &= alerts_look(w->alerts, &w->sample, now);
    start_commands(w);
    if (!ok) snprintf(w->problem, sizeof w->problem, "out of memory");
    if (w->exec) alert_exec_tend(w->exec);
    return !*w->problem;
}

/* ---- waiting ---- */

int watch_due_ms(const watch *w)
{
    int64_t left = w->due_ns - tool_clock();
    return left <= 0 ? 0 : (int)((left + 999999) / 1000000);
}

int watch_signal_fd(void) { return watch_signals_fd(); }

int watch_take_signal(watch *w)
{
    int number = watch_signals_take();
    if (w->exec) alert_exec_tend(w->exec);
    w->stopped |= number != 0;
    return number;
}

/* Wakes up every second to notice commands that take too long. */
int watch_wait(watch *w)
{
    for (;;) {
        int           number = watch_take_signal(w), left = watch_due_ms(w);
        struct pollfd p = {.fd = watch_signals_fd(), .events = POLLIN};
        if (number || left == 0) return number;
        if (w->exec && alert_exec_n(w->exec) > 0 && left > 1000) left = 1000;
        poll(&p, 1, left);
    }
}

double watch_interval(const watch *w) { return w->interval; }

void watch_set_interval(watch *w, double seconds)
{
    w->interval = seconds;
    w->due_ns   = w->looked_ns + (int64_t)(seconds * 1e9);
}

bool watch_shows_all(const watch *w) { return w->all_partitions; }
void watch_set_all(watch *w, bool all_partitions) { w->all_partitions = all_partitions; }

const watch_sample    *watch_sample_of(const watch *w) { return &w->sample; }
const char            *watch_problem(const watch *w) { return *w->problem ? w->problem : NULL; }
const watch_histories *watch_histories_of(const watch *w) { return w->histories; }
const alerts          *watch_alerts(const watch *w) { return w->alerts; }
