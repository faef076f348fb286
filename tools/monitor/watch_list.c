/* Samples from lists of devices. */
#include <string.h>

#include "device/devices.h"
#include "ipu/target.h"
#include "monitor/watch_sample.h"

enum { MOST_OWN = 1 << 20 }; /* IPUs that a process may have of its own */

#define COPY(to, text) harmless_copy(to, sizeof(to), text)

static int64_t bytes_per_ipu(const char *chip)
{
    ipu_target t;
    if (ipu_target_find(chip, 1, &t) != IPU_OK) return 0;
    return ipu_target_bytes_per_tile(&t) * ipu_target_n_tiles(&t);
}

static void set_partition(watch_partition *to, const ipu_device_list *list, const ipu_partition *p)
{
    char title[DEVICE_TEXT];
    device_partition_name(list, p, title);
    COPY(to->name, p->name);
    COPY(to->title, title);
    COPY(to->chip, p->chip);
    COPY(to->arch, p->arch);
    to->gcd            = p->gcd;
    to->active         = p->active;
    to->elastic        = p->elastic;
    to->reconfigurable = p->reconfigurable;
    to->clock_hz       = p->clock_hz;
    to->bytes_per_ipu  = bytes_per_ipu(p->chip);
    to->n_ipus         = (int)p->n_ipus;
    to->n_processes    = (int)p->n_processes;
}

static void set_ipu(watch_ipu *to, const ipu_single *from)
{
    const ipu_machine *m = from->machine;
    to->index            = from->index;
    to->number           = from->number;
    COPY(to->machine, m->host);
    COPY(to->type, m->type);
    COPY(to->software, m->software);
    COPY(to->server, m->server);
    COPY(to->firmware, m->firmware);
    COPY(to->board, from->board);
    COPY(to->error, strcmp(from->error, "no errors") ? from->error : "");
}

static int within(int value, int least, int most)
{
    return value < least ? least : value > most ? most : value;
}
static int64_t at_least(int64_t value, int64_t least) { return value < least ? least : value; }
static double  share(double value) { return !(value >= 0) ? -1 : value > 1 ? 1 : value; }

/* The counters come from a user's file, so they may be anything. */
static ipu_device_counters plausible(const ipu_device_counters *c)
{
    return (ipu_device_counters){.runs                = at_least(c->runs, 0),
                                 .supersteps          = at_least(c->supersteps, 0),
                                 .cycles              = at_least(c->cycles, -1),
                                 .host_bytes          = at_least(c->host_bytes, 0),
                                 .tile_bytes          = at_least(c->tile_bytes, -1),
                                 .utilisation         = share(c->utilisation),
                                 .utilisation_session = share(c->utilisation_session)};
}

static void set_process(watch_process *to, const ipu_attached *from, int n_ipus, int raise)
{
    bool own     = from->first < 0;
    to->pid      = from->pid;
    to->uid      = from->uid;
    to->since_ns = at_least(from->since_ns, 0);
    to->device   = from->id < 0 ? -1 : from->id;
    to->first_id = own ? -1 : within(from->first, 0, n_ipus - 1) + raise;
    to->n_ipus   = within(from->n_ipus, 1, own ? MOST_OWN : n_ipus + raise - to->first_id);
    to->counters = plausible(&from->counters);
    COPY(to->user, from->user);
    COPY(to->command, from->command);
    COPY(to->executable, from->executable);
    to->runs_per_second = to->host_bytes_per_second = -1;
}

static bool add_partition(watch_sample *s, const ipu_device_list *list, const ipu_partition *p, int raise)
{
    watch_partition *to        = WATCH_GROW(s->partitions, s->n_partitions, 1);
    watch_ipu       *ipus      = WATCH_GROW(s->ipus, s->n_ipus, (int)p->n_ipus);
    watch_process   *processes = WATCH_GROW(s->processes, s->n_processes, (int)p->n_processes);
    if (!to || !ipus || !processes) return false;
    set_partition(to, list, p);
    to->first_ipu = s->n_ipus;
    for (size_t i = 0; i < p->n_ipus; i++) {
        const ipu_attached *by = p->singles[i].process;
        set_ipu(&ipus[i], &p->singles[i]);
        ipus[i].partition = s->n_partitions;
        ipus[i].id        = raise + p->singles[i].index;
        ipus[i].process   = by ? s->n_processes + (int)(by - p->processes) : -1;
        to->n_free += !by;
    }
    for (size_t i = 0; i < p->n_processes; i++) {
        set_process(&processes[i], &p->processes[i], (int)p->n_ipus, raise);
        processes[i].partition = s->n_partitions;
    }
    s->n_partitions++;
    s->n_ipus += (int)p->n_ipus;
    s->n_processes += (int)p->n_processes;
    return true;
}

bool watch_sample_add(watch_sample *s, const ipu_device_list *list, int64_t uid, const char *owner, bool all)
{
    const ipu_partition *p;
    for (size_t i = 0; (p = ipu_device_list_at(list, i)); i++) {
        if (!all && !p->active) continue;
        if (!add_partition(s, list, p, all ? p->n_before : 0)) return false;
        s->partitions[s->n_partitions - 1].uid = uid;
        COPY(s->partitions[s->n_partitions - 1].owner, owner);
    }
    return true;
}
