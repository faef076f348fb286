/* Lists of devices: the configured partitions, and who is attached to their IPUs. */
#include "device/list.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/status.h"
#include "device/config.h"
#include "device/counters.h"
#include "device/holder.h"
#include "device/runtime.h"
#include "ipu/target.h"

typedef IPU__ARRAY(ipu_attached) processes;

/* ---- who is attached ---- */

static const char *executable_of(ipu__arena *arena, const ipu__holder *h)
{
    char    link[40], path[512];
    ssize_t n = -1;
    snprintf(link, sizeof link, "/proc/%lld/exe", (long long)h->pid);
    if (h->pid > 0) n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return ipu__arena_strdup(arena, h->command);
    path[n] = 0;
    ipu__clean_name(path);
    return ipu__arena_strdup(arena, path);
}

static bool add_process(ipu__arena *arena, const ipu__holder *h, processes *to)
{
    ipu_attached a = {.pid      = h->pid,
                      .uid      = h->uid,
                      .command  = ipu__arena_strdup(arena, h->command),
                      .since_ns = h->since_ns,
                      .id       = h->id,
                      .first    = h->first,
                      .n_ipus   = h->n_ipus};
    a.executable   = executable_of(arena, h);
    ipu__counts_tell(&h->counts, h->measures, h->attached_ns, &a.counters);
    return a.command && a.executable && ipu__push(to, a);
}

/* Slots of one attachment are consecutive; the record shows where a new one begins. */
static bool add_shown(ipu__arena *arena, const ipu__state *state, ipu_partition *p, processes *to,
                      size_t *of_single)
{
    ipu__holder h;
    for (int i = 0; i < (int)p->n_ipus; i++) {
        of_single[i] = SIZE_MAX;
        if (!ipu__holder_read(state, i, &h)) continue;
        const ipu_attached *last = to->n > 0 ? &to->at[to->n - 1] : NULL;
        bool                same = last && h.first == last->first && h.pid == last->pid && h.first < i;
        if (!same && !add_process(arena, &h, to)) return false;
        of_single[i] = to->n - 1;
    }
    return true;
}

static bool add_own(ipu__arena *arena, const ipu__state *state, processes *to)
{
    ipu__holder h;
    bool        any = ipu__state_any_other(state, IPU__MOST_IPUS, IPU__MOST_OWN);
    for (int i = IPU__MOST_IPUS; i < IPU__N_SLOTS; i++)
        if ((any || state->held[i]) && ipu__holder_read(state, i, &h) && !add_process(arena, &h, to))
            return false;
    return true;
}

static bool read_errors(ipu__arena *arena, const ipu__state *state, ipu_partition *p)
{
    char error[IPU__ERROR_BYTES];
    for (size_t i = 0; i < p->n_ipus; i++) {
        ipu__state_read_error(state, (int)i, error);
        if (!*error) continue;
        p->singles[i].error = ipu__arena_strdup(arena, error);
        if (!p->singles[i].error) return false;
    }
    return true;
}

/* Under the state's lock. */
static ipu_status read_state(ipu__arena *arena, const ipu__state *state, ipu_partition *p)
{
    processes found = {0};
    size_t    of_single[IPU__MOST_IPUS];
    bool      ok = read_errors(arena, state, p) && add_shown(arena, state, p, &found, of_single)
           && add_own(arena, state, &found);
    if (ok && found.n > 0) {
        p->n_processes = found.n;
        p->processes   = ipu__arena_copy(arena, found.at, found.n * sizeof *found.at);
        ok             = p->processes != NULL;
        for (size_t i = 0; ok && i < p->n_ipus; i++)
            if (of_single[i] != SIZE_MAX) p->singles[i].process = &p->processes[of_single[i]];
    }
    ipu__array_fini(&found);
    return ok ? IPU_OK : ipu__fail_memory();
}

/* Not under the state's lock: user names may come over a network. */
static ipu_status name_users(ipu__arena *arena, ipu_partition *p)
{
    char user[64];
    for (size_t i = 0; i < p->n_processes; i++) {
        ipu__user_name(p->processes[i].uid, user, sizeof user);
        p->processes[i].user = ipu__arena_strdup(arena, user);
        if (!p->processes[i].user) return ipu__fail_memory();
    }
    return IPU_OK;
}

static ipu_status look(ipu__arena *arena, ipu_partition *p)
{
    ipu__state *state;
    ipu__state_lock();
    ipu_status status = ipu__state_open(p->name, p->gcd, false, &state);
    if (status == IPU_OK && state) status = read_state(arena, state, p);
    ipu__state_close(state);
    ipu__state_unlock();
    ipu__runtime_tell();
    return status == IPU_OK ? name_users(arena, p) : status;
}

/* ---- lists ---- */

static ipu_status fill(ipu_device_list *list, bool all)
{
    ipu__config config;
    IPU_TRY(ipu__config_load(&list->arena, &config));
    list->partitions = config.partitions + (all ? 0 : config.active);
    list->n          = all ? config.n : 1;
    list->active     = all ? config.active : 0;
    if (!all) list->partitions[0].n_before = 0;
    for (size_t i = 0; i < list->n; i++) IPU_TRY(look(&list->arena, &list->partitions[i]));
    return IPU_OK;
}

ipu_status ipu_device_list_create(unsigned flags, ipu_device_list **out)
{
    *out = NULL;
    if (flags & ~(unsigned)IPU_ALL_PARTITIONS)
        return ipu__fail(IPU_INVALID, "device list: expected flags 0 or IPU_ALL_PARTITIONS, found 0x%x",
                         flags);
    ipu_device_list *list = ipu__alloc_zeroed(sizeof *list);
    if (!list) return ipu__fail_memory();
    ipu_status status = fill(list, flags & IPU_ALL_PARTITIONS);
    if (status != IPU_OK) {
        ipu_device_list_destroy(list);
        return status;
    }
    *out = list;
    return IPU_OK;
}

void ipu_device_list_destroy(ipu_device_list *list)
{
    if (!list) return;
    ipu__arena_fini(&list->arena);
    ipu__free(list);
}

const ipu_partition *ipu_device_list_at(const ipu_device_list *list, size_t i)
{
    return i < list->n ? &list->partitions[i] : NULL;
}

const char *ipu_device_chip(void)
{
    ipu__arena  arena = {0};
    ipu__config config;
    const char *found = "gc200", *name, *summary;
    if (ipu__config_load(&arena, &config) == IPU_OK)
        for (int i = 0; ipu_target_chip_at(i, &name, &summary); i++)
            if (!strcmp(name, config.partitions[config.active].chip)) found = name;
    ipu__arena_fini(&arena);
    return found;
}

const ipu_partition *ipu_device_list_active(const ipu_device_list *list)
{
    return &list->partitions[list->active];
}
