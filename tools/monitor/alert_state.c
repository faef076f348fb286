/* The states of alerts: each rule evaluated for each of its subjects, look after look. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/alert_metric.h"
#include "monitor/monitor_table.h"

struct alerts {
    alert_rule *rules;
    int         n_rules;
    alert      *open; /* pending or firing */
    int         n, room;
    alert      *changes;
    int         n_changes, changes_room;
};

alerts *alerts_create(const alert_rule *rules, int n)
{
    alerts *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->rules = calloc((size_t)n + 1, sizeof *rules);
    if (!a->rules) {
        free(a);
        return NULL;
    }
    if (n > 0) memcpy(a->rules, rules, (size_t)n * sizeof *rules);
    a->n_rules = n;
    return a;
}

void alerts_destroy(alerts *a)
{
    if (!a) return;
    free(a->rules);
    free(a->open);
    free(a->changes);
    free(a);
}

int               alerts_n_rules(const alerts *a) { return a->n_rules; }
const alert_rule *alerts_rule(const alerts *a, int i) { return &a->rules[i]; }
int               alerts_n(const alerts *a) { return a->n; }
const alert      *alerts_at(const alerts *a, int i) { return &a->open[i]; }
int               alerts_n_changes(const alerts *a) { return a->n_changes; }
const alert      *alerts_change(const alerts *a, int i) { return &a->changes[i]; }

static bool push(alert **list, int *n, int *room, const alert *one)
{
    if (*n == *room) {
        int    more  = *room ? 2 * *room : 8;
        alert *grown = realloc(*list, (size_t)more * sizeof *grown);
        if (!grown) return false;
        *list = grown;
        *room = more;
    }
    (*list)[(*n)++] = *one;
    return true;
}

static bool put_change(alerts *a, const alert *one)
{
    return push(&a->changes, &a->n_changes, &a->changes_room, one);
}

/* ---- subjects ---- */

#define COPY(to, text) harmless_copy(to, sizeof(to), text)

static void set_process(alert *one, const watch_sample *s, const watch_process *p)
{
    char ipus[ALERT_SUBJECT / 2];
    watch_ipus_text(s, p, ipus, sizeof ipus);
    if (p->pid)
        snprintf(one->subject, sizeof one->subject, "%s (pid %lld, %s)", ipus, (long long)p->pid, p->user);
    else
        snprintf(one->subject, sizeof one->subject, "%s (a process of another namespace)", ipus);
    one->ipu         = p->first_id;
    one->place       = p->device;
    one->n_ipus      = p->n_ipus;
    one->pid         = p->pid;
    one->attached_ns = p->since_ns;
    COPY(one->user, p->user);
    COPY(one->command, p->command);
}

static const watch_partition *partition_of(alert_scope scope, const watch_sample *s, int i)
{
    return &s->partitions[scope == ALERT_PROCESS ? s->processes[i].partition
                          : scope == ALERT_IPU   ? s->ipus[i].partition
                                                 : i];
}

/* Fills in the subject that has index i in a sample. */
static void describe(alert *one, const alert_rule *rule, const watch_sample *s, int i)
{
    alert_scope            scope = rule->metric->scope;
    const watch_partition *p     = partition_of(scope, s, i);
    one->ipu = one->place = -1;
    if (scope == ALERT_PROCESS) {
        set_process(one, s, &s->processes[i]);
    } else if (scope == ALERT_IPU) {
        one->ipu    = s->ipus[i].id;
        one->n_ipus = 1;
        one->place  = s->ipus[i].index;
        snprintf(one->subject, sizeof one->subject, "IPU %d of %s", one->ipu, p->title);
    } else {
        one->n_ipus = p->n_ipus;
        snprintf(one->subject, sizeof one->subject, "partition %s", p->title);
    }
    one->uid = p->uid;
    one->gcd = p->gcd;
    COPY(one->owner, p->owner);
    COPY(one->partition, p->name);
}

static bool is_same(const alert *a, const alert *b)
{
    return a->rule == b->rule && a->uid == b->uid && a->gcd == b->gcd && a->place == b->place
        && a->pid == b->pid && a->attached_ns == b->attached_ns && !strcmp(a->partition, b->partition);
}

static int n_subjects(alert_scope scope, const watch_sample *s)
{
    return scope == ALERT_PROCESS ? s->n_processes : scope == ALERT_IPU ? s->n_ipus : s->n_partitions;
}

/* ---- looking ---- */

static bool holds(const alert_rule *r, double value)
{
    if (isnan(value)) return false;
    bool equal = value == r->bound;
    switch (r->op[0]) {
    case '<': return value < r->bound || (r->op[1] && equal);
    case '>': return value > r->bound || (r->op[1] && equal);
    case '!': return !equal;
    default: return equal;
    }
}

/* Starting to fire is a change. */
static bool advance(alerts *a, alert *one, int64_t now_ns, int64_t time_ns)
{
    if (one->state != ALERT_PENDING || now_ns - one->began_ns < a->rules[one->rule].for_ns) return true;
    one->state    = ALERT_FIRING;
    one->since_ns = time_ns;
    return put_change(a, one);
}

/* Subjects that could not be looked at keep their states. */
static bool look_at(alerts *a, int rule, const watch_sample *s, int i, int64_t now_ns)
{
    const alert_rule *r     = &a->rules[rule];
    double            value = r->metric->value(s, i);
    bool              stale = partition_of(r->metric->scope, s, i)->stale;
    bool              found = !stale && holds(r, value);
    if (!found && a->n == 0) return true; /* the usual case */
    alert one = {.rule     = rule,
                 .state    = ALERT_PENDING,
                 .value    = value,
                 .since_ns = s->time_ns,
                 .began_ns = now_ns,
                 .seen     = true};
    describe(&one, r, s, i);
    for (int k = 0; k < a->n; k++) {
        if (!is_same(&a->open[k], &one)) continue;
        a->open[k].value = value;
        a->open[k].seen  = found || stale;
        return !found || advance(a, &a->open[k], now_ns, s->time_ns);
    }
    if (!found) return true;
    return push(&a->open, &a->n, &a->room, &one) && advance(a, &a->open[a->n - 1], now_ns, s->time_ns);
}

/* Alerts whose rule no longer holds are resolved if they fired, and removed in any case. */
static bool close_unseen(alerts *a, int64_t time_ns)
{
    int  kept = 0;
    bool ok   = true;
    for (int i = 0; i < a->n; i++) {
        alert *one = &a->open[i];
        if (one->seen) {
            a->open[kept++] = *one;
        } else if (one->state == ALERT_FIRING) {
            one->state    = ALERT_RESOLVED;
            one->since_ns = time_ns;
            ok &= put_change(a, one);
        }
    }
    a->n = kept;
    return ok;
}

bool alerts_look(alerts *a, const watch_sample *s, int64_t now_ns)
{
    bool ok      = true;
    a->n_changes = 0;
    for (int i = 0; i < a->n; i++) {
        a->open[i].seen  = false;
        a->open[i].value = NAN;
    }
    for (int rule = 0; rule < a->n_rules; rule++) {
        int n = n_subjects(a->rules[rule].metric->scope, s);
        for (int i = 0; i < n; i++) ok &= look_at(a, rule, s, i, now_ns);
    }
    return close_unseen(a, s->time_ns) && ok;
}

/* ---- words ---- */

const char *alert_state_name(alert_state state)
{
    static const char *const names[] = {"ok", "pending", "firing", "resolved"};
    return names[state];
}

static void put_bytes(double value, char out[ALERT_VALUE])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int                      i       = 0;
    while (value >= 1024 && i < 5) value /= 1024, i++;
    snprintf(out, ALERT_VALUE, "%.*f %s", i ? 1 : 0, value, names[i]);
}

void alert_value_text(const alert_rule *rule, double value, char out[ALERT_VALUE])
{
    if (isnan(value)) {
        strcpy(out, "gone");
        return;
    }
    switch (rule->metric->kind) {
    case ALERT_SHARE: snprintf(out, ALERT_VALUE, "%.2f%%", 100 * value); break;
    case ALERT_TIME: monitor_time(1, 1 + (int64_t)(value * 1e9), out); break;
    case ALERT_BYTES: put_bytes(value, out); break;
    case ALERT_COUNT: snprintf(out, ALERT_VALUE, "%.10g", value); break;
    }
}
