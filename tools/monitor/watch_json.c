/* A sample as JSON: numbers are numbers, unmeasured values are null (docs/tools.md). */
#include <math.h>
#include <string.h>

#include "output.h"
#include "monitor/watch.h"

static json_t *known(double value) { return value < 0 ? json_null() : tool_json_finite(value); }
static json_t *whole(int64_t value, bool there)
{
    return there ? json_integer((json_int_t)value) : json_null();
}
static json_t *text(const char *value) { return tool_json_text(value); }
static json_t *seconds(int64_t ns) { return json_real((double)ns / 1e9); }

static json_t *partition(const watch_partition *p)
{
    return json_pack("{s:o, s:o, s:i, s:b, s:b, s:b, s:b, s:o, s:o, s:o, s:i, s:i, s:i}", "owner",
                     text(p->owner), "name", text(p->name), "gcd", p->gcd, "active", p->active, "elastic",
                     p->elastic, "reconfigurable", p->reconfigurable, "stale", p->stale, "chip",
                     text(p->chip), "architecture", text(p->arch), "clock_hz", tool_json_finite(p->clock_hz),
                     "ipus", p->n_ipus, "free", p->n_free, "processes", p->n_processes);
}

static json_t *ipu(const watch_sample *s, const watch_ipu *u)
{
    const watch_partition *p    = &s->partitions[u->partition];
    const watch_process   *by   = u->process < 0 ? NULL : &s->processes[u->process];
    json_t                *user = by ? text(by->user) : json_null();
    return json_pack("{s:o, s:o, s:i, s:i, s:i, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o}", "owner",
                     text(p->owner), "partition", text(p->name), "gcd", p->gcd, "id", u->id, "index",
                     u->index, "machine", text(u->machine), "type", text(u->type), "board", text(u->board),
                     "number", u->number, "error", *u->error ? text(u->error) : json_null(), "utilisation",
                     by ? known(by->counters.utilisation) : json_null(), "pid", whole(by ? by->pid : 0, by),
                     "user", user, "command", by ? text(by->command) : json_null());
}

static json_t *process(const watch_sample *s, const watch_process *a)
{
    const watch_partition     *p = &s->partitions[a->partition];
    const ipu_device_counters *c = &a->counters;
    json_t *object   = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:i, s:o, s:o}", "pid",
                                 json_integer((json_int_t)a->pid), "user", text(a->user), "command",
                                 text(a->command), "executable", text(a->executable), "owner", text(p->owner),
                                 "partition", text(p->name), "gcd", p->gcd, "device",
                                 whole(a->device, a->device >= 0), "first_ipu",
                                 whole(a->first_id, a->first_id >= 0), "ipus", a->n_ipus, "since",
                                 seconds(a->since_ns), "seconds",
                                 seconds(s->time_ns > a->since_ns ? s->time_ns - a->since_ns : 0));
    json_t *counters = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "utilisation", known(c->utilisation),
        "utilisation_session", known(c->utilisation_session), "runs", whole(c->runs, true), "supersteps",
        whole(c->supersteps, true), "cycles", whole(c->cycles, c->cycles >= 0), "host_bytes",
        whole(c->host_bytes, true), "tile_bytes", whole(c->tile_bytes, c->tile_bytes >= 0), "runs_per_second",
        known(a->runs_per_second), "host_bytes_per_second", known(a->host_bytes_per_second));
    bool made = object && counters && json_object_update(object, counters) == 0;
    json_decref(counters);
    if (made) return object;
    json_decref(object);
    return NULL;
}

static json_t *alert_object(const alerts *a, const alert *one)
{
    return json_pack("{s:o, s:s, s:o, s:o, s:o}", "alert", text(alerts_rule(a, one->rule)->text), "state",
                     alert_state_name(one->state), "subject", text(one->subject), "since",
                     seconds(one->since_ns), "value", tool_json_finite(one->value));
}

static json_t *quiet_alert(const alert_rule *rule)
{
    return json_pack("{s:o, s:s, s:n, s:n, s:n}", "alert", text(rule->text), "state", "ok", "subject",
                     "since", "value");
}

/* Functions that fill a list return false if out of memory. */

static bool add_alerts(json_t *list, const alerts *a)
{
    bool ok = true;
    for (int rule = 0; rule < alerts_n_rules(a); rule++) {
        int n = 0;
        for (int i = 0; i < alerts_n(a); i++) {
            if (alerts_at(a, i)->rule != rule) continue;
            n++;
            ok &= json_array_append_new(list, alert_object(a, alerts_at(a, i))) == 0;
        }
        if (!n) ok &= json_array_append_new(list, quiet_alert(alerts_rule(a, rule))) == 0;
    }
    return ok;
}

static bool add_sample(json_t *partitions, json_t *ipus, json_t *processes, const watch_sample *s)
{
    bool ok = true;
    for (int i = 0; i < s->n_partitions; i++)
        ok &= json_array_append_new(partitions, partition(&s->partitions[i])) == 0;
    for (int i = 0; i < s->n_ipus; i++) ok &= json_array_append_new(ipus, ipu(s, &s->ipus[i])) == 0;
    for (int i = 0; i < s->n_processes; i++)
        ok &= json_array_append_new(processes, process(s, &s->processes[i])) == 0;
    return ok;
}

json_t *watch_json(const watch *w)
{
    const watch_sample *s          = watch_sample_of(w);
    const char         *problem    = watch_problem(w);
    json_t             *partitions = json_array(), *ipus = json_array(), *processes = json_array();
    json_t             *alert_list = json_array();
    bool    ok  = add_sample(partitions, ipus, processes, s) && add_alerts(alert_list, watch_alerts(w));
    json_t *top = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "time", seconds(s->time_ns), "problem",
                            problem ? text(problem) : json_null(), "partitions", partitions, "ipus", ipus,
                            "processes", processes, "alerts", alert_list);
    if (top && ok) return top;
    json_decref(top);
    return NULL;
}
