/* gc-monitor as JSON. All that is known of the vendor's format is that there are `cards` with `ipus`, with a
 * `PID` where one is in use; the other keys are ours (docs/tools.md). */
#include "monitor/monitor_json.h"

#include <string.h>
#include <time.h>

#include "device/devices.h"
#include "monitor/monitor_table.h"

/* Functions that fill an object return false if out of memory. */

static bool set_date(json_t *object, const char *key, int64_t ns)
{
    struct tm utc;
    time_t    seconds = (time_t)(ns / 1000000000);
    char      text[DEVICE_TEXT];
    if (!gmtime_r(&seconds, &utc) || !strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc))
        strcpy(text, "N/A");
    return device_set(object, key, text);
}

static bool set_share(json_t *object, const char *key, double share)
{
    char text[DEVICE_TEXT] = "N/A";
    if (share >= 0) snprintf(text, sizeof text, "%.2f%%", 100 * share);
    return device_set(object, key, text);
}

static bool set_process(json_t *object, const ipu_attached *a, int64_t now_ns)
{
    const ipu_device_counters *c = &a->counters;
    char                       time[MONITOR_TIME];
    monitor_time(a->since_ns, now_ns, time);
    return device_set_number(object, "PID", a->pid) && device_set(object, "user", a->user)
        && device_set(object, "command", a->command) && device_set(object, "executable", a->executable)
        && device_set(object, "time", time) && set_date(object, "process start time", a->since_ns)
        && device_set_known(object, "device id", a->id)
        && set_share(object, "ipu utilisation", c->utilisation)
        && set_share(object, "ipu utilisation (session)", c->utilisation_session)
        && device_set_number(object, "programs run (session)", c->runs)
        && device_set_number(object, "supersteps (session)", c->supersteps)
        && device_set_known(object, "modelled cycles (session)", c->cycles)
        && device_set_number(object, "host bytes (session)", c->host_bytes)
        && device_set_known(object, "tile memory used (bytes)", c->tile_bytes);
}

static bool set_ipu(json_t *object, const ipu_partition *p, const ipu_single *s, int raise, int64_t now_ns)
{
    char clock[DEVICE_TEXT];
    device_clock(p, clock);
    return device_set_number(object, "id", raise + s->index) && device_set_number(object, "ipu", s->number)
        && device_set(object, "routing", p->routing) && device_set(object, "clock", clock)
        && device_set(object, "temp", "N/A") && device_set(object, "ipu error state", s->error)
        && (!s->process || set_process(object, s->process, now_ns));
}

static bool set_card(json_t *object, const ipu_partition *p, const ipu_single *s)
{
    const ipu_machine *m = s->machine;
    return device_set(object, "partition", p->name) && device_set_number(object, "gcd", p->gcd)
        && device_set(object, "ipu-m", m->host) && device_set(object, "serial", s->board)
        && device_set(object, "ipu-m sw", m->software) && device_set(object, "server version", m->server)
        && device_set(object, "icu fw", m->firmware) && device_set(object, "type", m->type)
        && device_set(object, "board temp", "N/A") && device_set(object, "board power", "N/A");
}

static bool is_new_card(const ipu_partition *p, size_t i)
{
    const ipu_single *s = &p->singles[i];
    return i == 0 || s[-1].machine != s->machine || strcmp(s[-1].board, s->board) != 0;
}

static bool add_cards(json_t *cards, const ipu_partition *p, int raise, int64_t now_ns)
{
    json_t *ipus = NULL;
    for (size_t i = 0; i < p->n_ipus; i++) {
        json_t *ipu = json_object();
        if (is_new_card(p, i)) {
            json_t *card = json_object();
            ipus         = json_array();
            bool made    = card && set_card(card, p, &p->singles[i]);
            made         = json_object_set_new(card, "ipus", ipus) == 0 && made;
            if (json_array_append_new(cards, card) != 0 || !made) {
                json_decref(ipu);
                return false;
            }
        }
        bool set = ipu && set_ipu(ipu, p, &p->singles[i], raise, now_ns);
        if (json_array_append_new(ipus, ipu) != 0 || !set) return false;
    }
    return true;
}

/* Processes with IPUs of their own, beyond those of the partition. */
static bool add_own(json_t *list, const ipu_partition *p, int64_t now_ns)
{
    for (size_t i = 0; i < p->n_processes; i++) {
        const ipu_attached *a = &p->processes[i];
        if (a->first >= 0) continue;
        json_t *process = json_object();
        bool    set     = process && device_set(process, "partition", p->name)
                && device_set_number(process, "ipus", a->n_ipus) && set_process(process, a, now_ns);
        if (json_array_append_new(list, process) != 0 || !set) return false;
    }
    return true;
}

static json_t *partition(const ipu_partition *p)
{
    json_t *object = json_object();
    bool    set    = object && device_set(object, "name", p->name) && device_set_number(object, "gcd", p->gcd)
            && device_set(object, "active", p->active ? "true" : "false")
            && device_set_number(object, "ipus", (long long)p->n_ipus)
            && device_set(object, "reconfigurable", p->reconfigurable ? "true" : "false")
            && device_set(object, "elastic", p->elastic ? "true" : "false")
            && device_set(object, "ipu architecture", p->arch);
    if (set) return object;
    json_decref(object);
    return NULL;
}

json_t *monitor_json(const ipu_device_list *list, bool all, int64_t now_ns)
{
    json_t *top = json_object(), *cards = json_array(), *own = json_array();
    json_t *partitions = all ? json_array() : NULL;
    bool    made       = top && cards && own && (partitions || !all) && set_date(top, "timestamp", now_ns);
    made = json_object_set_new(top, "partition", partition(ipu_device_list_active(list))) == 0 && made;
    const ipu_partition *p;
    for (size_t i = 0; made && (p = ipu_device_list_at(list, i)); i++) {
        if (!all && !p->active) continue;
        if (all) made = json_array_append_new(partitions, partition(p)) == 0;
        made = made && add_cards(cards, p, all ? p->n_before : 0, now_ns) && add_own(own, p, now_ns);
    }
    if (all) made = json_object_set_new(top, "partitions", partitions) == 0 && made;
    made = json_object_set_new(top, "cards", cards) == 0 && made;
    made = json_object_set_new(top, "elastic", own) == 0 && made;
    if (made) return top;
    json_decref(top);
    return NULL;
}
