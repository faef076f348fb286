/* Device attributes as text: one table of keys, evaluated for every IPU when a snapshot is taken. Public
 * half: ipu/ipuinfo.h. */
#include "ipu/ipuinfo.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/status.h"
#include "device/event.h"
#include "device/list.h"
#include "ipu/version.h"

enum { MOST_ATTRIBUTES = 80, VALUE_BYTES = 512 };

typedef struct attribute {
    const char *key, *value;
} attribute;

typedef struct attributes {
    attribute *at;
    int        n;
} attributes;

typedef struct picture {
    ipu_device_list *list;
    ipu__arena       arena;
    attributes      *singles; /* over all partitions */
    int              n_singles;
    attributes      *devices; /* of the active partition, by id */
    int              n_devices;
    const char     **health; /* by single: what is wrong, or who uses it */
    bool            *healthy;
    ipu__event      *event;
    size_t           n_event;
} picture;

struct ipu_info {
    unsigned flags;
    picture  now;
};

/* ---- values: each writes to `out`, or returns false if the IPU has no such attribute at present ---- */

typedef struct subject {
    const ipu_partition *p;
    const ipu_single    *s;
} subject;

typedef bool (*value_fn)(const subject *x, char out[VALUE_BYTES]);

static bool put(char out[VALUE_BYTES], const char *text)
{
    snprintf(out, VALUE_BYTES, "%s", text);
    return true;
}

static bool put_number(char out[VALUE_BYTES], int64_t number)
{
    snprintf(out, VALUE_BYTES, "%lld", (long long)number);
    return true;
}

static bool put_bool(char out[VALUE_BYTES], bool value) { return put(out, value ? "true" : "false"); }

static bool put_share(char out[VALUE_BYTES], double share)
{
    if (share < 0) return put(out, IPU__NOT_AVAILABLE);
    snprintf(out, VALUE_BYTES, "%.2f%%", 100 * share);
    return true;
}

static bool is_fabric(const subject *x)
{
    return strcmp(x->p->arch, "ipu1") != 0 && strcmp(x->p->arch, "ipu21") != 0;
}

/* The i-th number of "2.3.5". */
static bool version_part(const subject *x, int i, char out[VALUE_BYTES])
{
    int part[3];
    if (sscanf(x->s->machine->firmware, "%d.%d.%d", &part[0], &part[1], &part[2]) != 3)
        return put(out, IPU__NOT_AVAILABLE);
    return put_number(out, part[i]);
}

static bool put_start(const subject *x, char out[VALUE_BYTES])
{
    struct tm utc;
    time_t    seconds = x->s->process ? (time_t)(x->s->process->since_ns / 1000000000) : 0;
    return x->s->process && gmtime_r(&seconds, &utc)
        && strftime(out, VALUE_BYTES, "%Y%m%dT%H%M%SZ", &utc) > 0;
}

static bool put_or_none(char out[VALUE_BYTES], const char *text)
{
    return put(out, *text ? text : IPU__NOT_AVAILABLE);
}

static bool put_known(char out[VALUE_BYTES], int64_t number)
{
    return number < 0 ? put(out, IPU__NOT_AVAILABLE) : put_number(out, number);
}

#define PROCESS (x->s->process)
#define COUNTERS (x->s->process->counters)

#define ATTRIBUTE(name, key, expression)                              \
    static bool value_##name(const subject *x, char out[VALUE_BYTES]) \
    {                                                                 \
        (void)x;                                                      \
        return expression;                                            \
    }
#define NONE(key)
#include "device/attributes.inc"
#undef ATTRIBUTE
#undef NONE

static const struct {
    const char *key;
    value_fn    value; /* NULL if nothing could supply one */
} rows[] = {
#define ATTRIBUTE(name, key, expression) {key, value_##name},
#define NONE(key) {key, NULL},
#include "device/attributes.inc"
#undef ATTRIBUTE
#undef NONE
};
enum { N_ROWS = sizeof rows / sizeof *rows };
static_assert(N_ROWS + 2 <= MOST_ATTRIBUTES, "room for id, target and all rows");

/* ---- a picture ---- */

static bool add(ipu__arena *arena, attributes *to, const char *key, const char *value)
{
    char *own           = ipu__arena_strdup(arena, value);
    to->at[to->n].key   = key;
    to->at[to->n].value = own;
    to->n++;
    return own != NULL;
}

static bool begin(ipu__arena *arena, attributes *to, int id, const char *target)
{
    char number[16];
    *to = (attributes){ipu__arena_alloc(arena, MOST_ATTRIBUTES * sizeof *to->at), 0};
    snprintf(number, sizeof number, "%d", id);
    return to->at && add(arena, to, "id", number) && add(arena, to, "target", target);
}

static bool describe_single(picture *now, const ipu_partition *p, int i, attributes *to)
{
    const subject x      = {p, &p->singles[i]};
    const char   *target = p->reconfigurable ? p->devices[i].target : is_fabric(&x) ? "Fabric" : "PCIe";
    if (!begin(&now->arena, to, p->n_before + i, target)) return false;
    for (int k = 0; k < N_ROWS; k++) {
        char value[VALUE_BYTES] = IPU__NOT_AVAILABLE;
        if (rows[k].value && !rows[k].value(&x, value)) continue;
        if (!add(&now->arena, to, rows[k].key, value)) return false;
    }
    return true;
}

static const char *find(const attributes *a, const char *key)
{
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->at[i].key, key) == 0) return a->at[i].value;
    return NULL;
}

static bool all_have(const attributes *members, int n, const attribute *a)
{
    for (int i = 1; i < n; i++) {
        const char *other = find(&members[i], a->key);
        if (!other || strcmp(other, a->value) != 0) return false;
    }
    return true;
}

static bool describe_device(picture *now, const attributes *singles, const ipu_device_info *d, attributes *to)
{
    const attributes *members = singles + d->first;
    if (d->n_ipus == 1) {
        *to = *members;
        return true;
    }
    if (!begin(&now->arena, to, d->id, d->target)) return false;
    for (int i = 2; i < members->n; i++)
        if (all_have(members, d->n_ipus, &members->at[i])) to->at[to->n++] = members->at[i];
    return true;
}

static ipu_status describe(picture *now)
{
    const ipu_partition *p, *active = ipu_device_list_active(now->list);
    for (size_t i = 0; (p = ipu_device_list_at(now->list, i)); i++) now->n_singles += (int)p->n_ipus;
    now->n_devices = (int)active->n_devices;
    now->singles   = ipu__arena_alloc(&now->arena, (size_t)now->n_singles * sizeof *now->singles);
    now->devices   = ipu__arena_alloc(&now->arena, (size_t)now->n_devices * sizeof *now->devices);
    if (!now->singles || !now->devices) return ipu__fail_memory();
    for (size_t i = 0; (p = ipu_device_list_at(now->list, i)); i++)
        for (int k = 0; k < (int)p->n_ipus; k++)
            if (!describe_single(now, p, k, &now->singles[p->n_before + k])) return ipu__fail_memory();
    for (int i = 0; i < now->n_devices; i++)
        if (!describe_device(now, now->singles + active->n_before, &active->devices[i], &now->devices[i]))
            return ipu__fail_memory();
    return IPU_OK;
}

static const char *judge(ipu__arena *arena, const ipu_single *s, int id, bool *healthy)
{
    *healthy = strcmp(s->error, IPU__NO_ERRORS) == 0;
    if (!*healthy) return ipu__arena_format(arena, "reports %s: reset it (gc-reset -d %d)", s->error, id);
    if (!s->process) return "idle";
    return ipu__arena_format(arena, "in use by pid %lld (%s) of user %s", (long long)s->process->pid,
                             s->process->command, s->process->user);
}

static ipu_status judge_all(picture *now)
{
    const ipu_partition *p;
    now->health  = ipu__arena_alloc(&now->arena, (size_t)now->n_singles * sizeof *now->health);
    now->healthy = ipu__arena_alloc(&now->arena, (size_t)now->n_singles * sizeof *now->healthy);
    if (!now->health || !now->healthy) return ipu__fail_memory();
    for (size_t i = 0; (p = ipu_device_list_at(now->list, i)); i++)
        for (int k = 0; k < (int)p->n_ipus; k++) {
            int at          = p->n_before + k;
            now->health[at] = judge(&now->arena, &p->singles[k], k, &now->healthy[at]);
            if (!now->health[at]) return ipu__fail_memory();
        }
    return ipu__event_read(&now->arena, &now->event, &now->n_event);
}

static void forget(picture *now)
{
    ipu_device_list_destroy(now->list);
    ipu__arena_fini(&now->arena);
}

static ipu_status take(unsigned flags, picture *out)
{
    *out = (picture){0};
    IPU_TRY(ipu_device_list_create(flags, &out->list));
    ipu_status status = describe(out);
    if (status == IPU_OK) status = judge_all(out);
    if (status != IPU_OK) forget(out);
    return status;
}

/* ---- the public calls ---- */

ipu_status ipu_info_create(ipu_info_discovery discovery, ipu_info **out)
{
    *out           = NULL;
    ipu_info *info = ipu__alloc_zeroed(sizeof *info);
    if (!info) return ipu__fail_memory();
    info->flags       = discovery == IPU_INFO_ALL_PARTITIONS ? IPU_ALL_PARTITIONS : 0;
    ipu_status status = take(info->flags, &info->now);
    if (status != IPU_OK) {
        ipu__free(info);
        return status;
    }
    *out = info;
    return IPU_OK;
}

void ipu_info_destroy(ipu_info *info)
{
    if (!info) return;
    forget(&info->now);
    ipu__free(info);
}

ipu_status ipu_info_update(ipu_info *info)
{
    picture next;
    IPU_TRY(take(info->flags, &next));
    forget(&info->now);
    info->now = next;
    return IPU_OK;
}

int ipu_info_n_devices(const ipu_info *info) { return info->now.n_singles; }

const char *ipu_info_get(const ipu_info *info, int device, const char *key)
{
    const char *value = NULL;
    if (device >= 0 && device < info->now.n_singles) value = find(&info->now.singles[device], key);
    return value ? value : IPU__NOT_AVAILABLE;
}

static bool at(const attributes *all, int n, int device, int i, const char **key, const char **value)
{
    if (device < 0 || device >= n || i < 0 || i >= all[device].n) return false;
    *key   = all[device].at[i].key;
    *value = all[device].at[i].value;
    return true;
}

bool ipu_info_at(const ipu_info *info, int device, int i, const char **key, const char **value)
{
    return at(info->now.singles, info->now.n_singles, device, i, key, value);
}

bool ipu_info_device_at(const ipu_info *info, int id, int i, const char **key, const char **value)
{
    return at(info->now.devices, info->now.n_devices, id, i, key, value);
}

bool ipu_info_is_healthy(const ipu_info *info, int device, const char **why)
{
    bool known = device >= 0 && device < info->now.n_singles;
    if (why) *why = known ? info->now.health[device] : "there is no such device";
    return known && info->now.healthy[device];
}

bool ipu_info_event_at(const ipu_info *info, int i, const char **key, const char **value)
{
    if (i < 0 || (size_t)i >= info->now.n_event) return false;
    *key   = info->now.event[i].key;
    *value = info->now.event[i].value;
    return true;
}
