/* Device handles: opening, attaching, releasing. The state records who has what, this file who wants what. */
#include "device/device.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/host/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "device/config.h"
#include "device/event.h"
#include "device/holder.h"
#include "device/runtime.h"

enum { HEAD_SLEEP_NS = 500000, LINE_SLEEP_NS = 5000000, HOLDERS_BYTES = 640, WHY_BYTES = 512 };

static ipu_device *attached_here, *shared_here; /* under the state's lock */

static ipu_status check_fork(const ipu_device *d)
{
    if (d->generation == ipu__state_generation()) return IPU_OK;
    return ipu__fail(IPU_FORKED, "the device was opened before a fork, by the parent process: open one here");
}

/* ---- opening ---- */

/* The IPUs allowed by the environment: the whole partition, or one device of it. */
static ipu_status read_allowed(ipu_device *d)
{
    const char            *text = getenv("IPU_DEVICE_ID");
    const ipu_device_info *info;
    char                  *end;
    d->allowed = (ipu_device_info){.id = -1, .first = 0, .n_ipus = (int)d->partition.n_ipus};
    if (!text || !*text) return IPU_OK;
    errno   = 0;
    long id = strtol(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || id > INT_MAX)
        return ipu__fail(IPU_INVALID,
                         "IPU_DEVICE_ID: expected the number of a device (gc-info -l lists them), found "
                         "\"%.40s\": correct or unset it",
                         text);
    ipu_status status = ipu_partition_find_device(&d->partition, (int)id, &info);
    if (status != IPU_OK) return ipu__fail(status, "IPU_DEVICE_ID: %s: correct or unset it", ipu_message());
    d->allowed = *info;
    return IPU_OK;
}

static bool is_allowed(const ipu_device *d, const ipu_device_info *info)
{
    const ipu_device_info *a = &d->allowed;
    return info->first >= a->first && info->first + info->n_ipus <= a->first + a->n_ipus;
}

static bool may_take_own(const ipu_device *d)
{
    return d->partition.elastic && d->wanted_id < 0 && d->allowed.id < 0;
}

static ipu_status load(ipu_device *d)
{
    ipu__config config;
    IPU_TRY(ipu__config_load(&d->arena, &config));
    d->partition = config.partitions[config.active];
    return read_allowed(d);
}

static ipu_status make(int id, int64_t n_ipus, const char *chip, ipu_device **out)
{
    *out          = NULL;
    ipu_device *d = ipu__alloc_zeroed(sizeof *d);
    if (!d) return ipu__fail_memory();
    atomic_init(&d->n_refs, 1);
    d->generation = ipu__state_generation();
    d->wanted_id  = id;
    d->n_ipus     = n_ipus;
    d->id         = -1;
    snprintf(d->chip, sizeof d->chip, "%s", chip);
    ipu_status status = load(d);
    if (status != IPU_OK) {
        ipu_device_close(d);
        return status;
    }
    *out = d;
    return IPU_OK;
}

static ipu_status fail_not_allowed(const ipu_device *d, int64_t n_ipus)
{
    char what[48];
    snprintf(what, sizeof what, d->wanted_id >= 0 ? "device %lld is" : "%lld IPUs are",
             d->wanted_id >= 0 ? (long long)d->wanted_id : (long long)n_ipus);
    return ipu__fail(
        IPU_NOT_FOUND,
        "%s wanted, and IPU_DEVICE_ID=%d allows IPUs %d to %d of partition %s only: use these, or "
        "change or unset it",
        what, d->allowed.id, d->allowed.first, d->allowed.first + d->allowed.n_ipus - 1, d->partition.name);
}

static ipu_status check_wanted(ipu_device *d)
{
    const ipu_partition   *p = &d->partition;
    const ipu_device_info *info;
    if (d->wanted_id >= 0) {
        IPU_TRY(ipu_partition_find_device(p, d->wanted_id, &info));
        d->n_ipus = info->n_ipus;
        return is_allowed(d, info) ? IPU_OK : fail_not_allowed(d, info->n_ipus);
    }
    if (may_take_own(d)) return IPU_OK;
    if (d->allowed.id >= 0 && d->n_ipus > d->allowed.n_ipus) return fail_not_allowed(d, d->n_ipus);
    if (d->n_ipus > (int64_t)p->n_ipus)
        return ipu__fail(
            IPU_NOT_FOUND,
            "%lld IPUs are wanted, and partition %s has %zu: use fewer, configure a larger partition "
            "(ipu partition create), or set IPU_ELASTIC=1",
            (long long)d->n_ipus, p->name, p->n_ipus);
    if (*d->chip && strcmp(d->chip, p->chip) != 0)
        return ipu__fail(
            IPU_NOT_FOUND,
            "the program is for %s, and partition %s has IPUs of %s: compile it for these, configure "
            "another partition (ipu partition create), or set IPU_ELASTIC=1",
            d->chip, p->name, p->chip);
    return IPU_OK;
}

static ipu_status open_checked(int id, int64_t n_ipus, const char *chip, ipu_device **out)
{
    IPU_TRY(make(id, n_ipus, chip, out));
    ipu_status status = check_wanted(*out);
    if (status == IPU_OK) return IPU_OK;
    ipu_device_close(*out);
    *out = NULL;
    return status;
}

ipu_status ipu_device_open(int id, ipu_device **out)
{
    *out = NULL;
    if (id < 0) return ipu__fail(IPU_NOT_FOUND, "device %d: expected a number from 0", id);
    return open_checked(id, 0, "", out);
}

ipu_status ipu_device_open_any(int64_t n_ipus, ipu_device **out)
{
    *out = NULL;
    if (n_ipus < 1)
        return ipu__fail(IPU_INVALID, "a device of %lld IPUs: expected 1 or more", (long long)n_ipus);
    return open_checked(-1, n_ipus, "", out);
}

/* ---- one attempt to attach, under the state's lock ---- */

typedef struct attempt {
    ipu_device        *d, *adopted;
    bool               adopts; /* a device that the process has already attached will do */
    ipu__gcda          gcda;
    ipu__state        *state; /* private until success: other threads may be trying with the same handle */
    bool               in_line;
    ipu__place_in_line place;
    int64_t            deadline_ns;
    double             wait_seconds;
    char               why[WHY_BYTES]; /* why it has IPUs of its own; "" if it has not */
} attempt;

void ipu__device_record(const ipu_device *d)
{
    ipu__slot slot = {.pid           = getpid(),
                      .uid           = (int64_t)geteuid(),
                      .since_ns      = d->since_ns,
                      .attached_ns   = d->attached_ns,
                      .pid_namespace = ipu__state_pid_namespace(),
                      .id            = d->id,
                      .first         = d->slot < IPU__MOST_IPUS ? d->slot : -1,
                      .n_ipus        = (int32_t)(d->n_ipus < INT32_MAX ? d->n_ipus : INT32_MAX),
                      .measures      = d->gcda.measures};
    snprintf(slot.command, sizeof slot.command, "%s", program_invocation_short_name);
    for (int i = d->slot; i < d->slot + d->n_slots; i++) ipu__state_write(d->state, i, &slot);
}

static bool has_error(const ipu_device *d)
{
    char error[IPU__ERROR_BYTES] = "";
    for (int i = d->slot; !*error && d->slot < IPU__MOST_IPUS && i < d->slot + d->n_slots; i++)
        ipu__state_read_error(d->state, i, error);
    return *error;
}

static void become_attached(attempt *a, int slot, int n_slots, int id)
{
    ipu_device     *d = a->d;
    struct timespec now;
    ipu__counts     counts;
    clock_gettime(CLOCK_REALTIME, &now);
    d->state       = a->state;
    a->state       = NULL;
    d->gcda        = a->gcda;
    d->since_ns    = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    d->attached_ns = d->recorded_ns = ipu__clock_ns();
    d->slot                         = slot;
    d->n_slots                      = n_slots;
    d->id                           = id;
    ipu__counters_clear(&d->counters);
    ipu__counters_copy(&d->counters, &counts);
    atomic_store(&d->n_runs, 0);
    atomic_store(&d->n_unpublished, 0);
    atomic_store(&d->failed, d->state && has_error(d));
    if (d->state) {
        ipu__state_write_counts(d->state, slot, &counts);
        ipu__device_record(d);
    }
    d->next       = attached_here;
    attached_here = d;
    atomic_store(&d->attached, true);
}

/* A file that has been removed protects nothing: its locks are invisible to others. */
static bool take_slots(attempt *a, int first, int n)
{
    if (!ipu__state_take(a->state, first, n)) return false;
    if (ipu__state_is_current(a->state)) return true;
    ipu__state_give(a->state, first, n);
    return false;
}

static bool take(attempt *a, const ipu_device_info *info)
{
    if (!take_slots(a, info->first, info->n_ipus)) return false;
    a->d->n_ipus = info->n_ipus;
    become_attached(a, info->first, info->n_ipus, info->id);
    return true;
}

/* The requested device, or the first free one of the smallest sufficient size. */
static bool take_shown(attempt *a)
{
    const ipu_device    *d    = a->d;
    const ipu_partition *p    = &d->partition;
    int                  size = 0;
    if (d->wanted_id >= 0) return take(a, &p->devices[d->wanted_id]);
    if (*d->chip && strcmp(d->chip, p->chip) != 0) return false;
    for (size_t i = 0; i < p->n_devices; i++) {
        const ipu_device_info *info = &p->devices[i];
        if (info->n_ipus < d->n_ipus || (size && info->n_ipus != size) || !is_allowed(d, info)) continue;
        size = info->n_ipus;
        if (take(a, info)) return true;
    }
    return false;
}

/* IPUs of its own; if there are no slots left, ones that nobody else sees. */
static void take_own(attempt *a, const char *why)
{
    snprintf(a->why, sizeof a->why, "%s", why);
    for (int i = IPU__MOST_IPUS; a->state && i < IPU__N_SLOTS; i++)
        if (take_slots(a, i, 1)) {
            become_attached(a, i, 1, -1);
            return;
        }
    ipu__state_close(a->state);
    a->state = NULL;
    become_attached(a, 0, 0, -1);
}

/* ---- attaching ---- */

static bool serves(const ipu_device *have, const attempt *a)
{
    const ipu_device *want = a->d;
    const char       *chip = *have->chip ? have->chip : have->partition.chip;
    const char       *asks = *want->chip ? want->chip : want->partition.chip;
    return have->generation == want->generation && have->state == a->state && have->n_ipus >= want->n_ipus
        && strcmp(chip, asks) == 0;
}

static bool adopt(attempt *a)
{
    for (ipu_device *have = a->adopts ? attached_here : NULL; have; have = have->next)
        if (serves(have, a)) {
            a->adopted = ipu__device_retain(have);
            return true;
        }
    return false;
}

static ipu_status fail_busy(const attempt *a)
{
    const ipu_device *d     = a->d;
    int               first = d->allowed.first, n = d->allowed.n_ipus;
    int64_t           waiter;
    char holders[HOLDERS_BYTES], what[64] = "no device of that size is free", waited[48] = "", line[64] = "";
    if (d->wanted_id >= 0) {
        first = d->partition.devices[d->wanted_id].first;
        n     = d->partition.devices[d->wanted_id].n_ipus;
        snprintf(what, sizeof what, "device %d is busy", d->wanted_id);
    }
    if (d->wanted_id < 0 && d->allowed.id >= 0)
        snprintf(what, sizeof what, "none within IPU_DEVICE_ID=%d is free", d->allowed.id);
    ipu__holders_text(a->state, first, n, holders, sizeof holders);
    if (a->in_line) snprintf(waited, sizeof waited, " after a wait of %g s", a->wait_seconds);
    if (!a->in_line && ipu__state_line_others(a->state, NULL, &waiter))
        snprintf(line, sizeof line, "; pid %lld waits in line before", (long long)waiter);
    return ipu__fail(
        IPU_BUSY,
        "%lld IPUs of partition %s are wanted: %s%s: held are %s%s: wait for it (ipu_device_attach, "
        "engine option device.wait)%s",
        (long long)d->n_ipus, d->partition.name, what, waited, holders, line,
        d->wanted_id >= 0    ? " or use another"
        : d->allowed.id >= 0 ? ", or change or unset IPU_DEVICE_ID"
                             : ", use fewer, or set IPU_ELASTIC=1");
}

static void leave_line(attempt *a)
{
    if (a->in_line) ipu__state_line_leave(&a->place);
    a->in_line = false;
}

/* The current state; NULL, with IPU_OK, if an elastic partition does without one. */
static ipu_status open_state(attempt *a)
{
    const ipu_partition *p = &a->d->partition;
    if (a->state && ipu__state_is_current(a->state)) return IPU_OK;
    leave_line(a);
    ipu__state_close(a->state);
    ipu_status status = ipu__state_open(p->name, p->gcd, true, &a->state);
    return status == IPU_OUT_OF_MEMORY || !may_take_own(a->d) ? status : IPU_OK;
}

/* One look at the state. *done is set if attached or adopted. */
static ipu_status try_once(attempt *a, bool *is_first, bool *done)
{
    const ipu_device    *d = a->d;
    const ipu_partition *p = &d->partition;
    int64_t              pid;
    IPU_TRY(open_state(a));
    *is_first = a->state && !ipu__state_line_others(a->state, a->in_line ? &a->place : NULL, &pid);
    *done     = a->state && (adopt(a) || (*is_first && take_shown(a)));
    if (*done || !may_take_own(d)) return IPU_OK;
    take_own(a, !a->state                                   ? ipu_message()
                : d->n_ipus > (int64_t)p->n_ipus            ? "it has fewer"
                : *d->chip && strcmp(d->chip, p->chip) != 0 ? "its are of another chip"
                                                            : "they are busy");
    *done = true;
    return IPU_OK;
}

/* Not under the state's lock: the log calls user code, and has its own lock. */
static void tell(const attempt *a)
{
    const ipu_device *d = a->d;
    if (d->state)
        ipu__log(IPU_LOG_INFO, "device", "%lld IPUs beyond those of partition %s: %s", (long long)d->n_ipus,
                 d->partition.name, a->why);
    else
        ipu__log(IPU_LOG_WARN, "device", "%lld IPUs that other processes do not see: %s",
                 (long long)d->n_ipus, a->why);
}

static void sleep_unlocked(int64_t ns)
{
    ipu__state_unlock();
    nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
    ipu__state_lock();
}

static ipu_status acquire(attempt *a)
{
    while (!atomic_load(&a->d->attached)) { /* another thread may have done it in the meantime */
        bool is_first = false, done = false;
        IPU_TRY(try_once(a, &is_first, &done));
        if (done) return IPU_OK;
        if (!ipu__state_is_current(a->state)) continue;
        int64_t left = a->deadline_ns - ipu__clock_ns();
        if (a->wait_seconds >= 0 && left <= 0) return fail_busy(a);
        if (!a->in_line) ipu__state_line_enter(a->state, &a->place);
        a->in_line    = true;
        int64_t sleep = is_first ? HEAD_SLEEP_NS : LINE_SLEEP_NS;
        sleep_unlocked(a->wait_seconds >= 0 && left < sleep ? left : sleep);
    }
    return IPU_OK;
}

static ipu_status attach(attempt *a)
{
    IPU_TRY(ipu__gcda_read(&a->gcda));
    ipu__state_lock();
    ipu_status status = acquire(a);
    leave_line(a);
    ipu__state_close(a->state);
    ipu__state_unlock();
    ipu__runtime_tell();
    if (*a->why) tell(a);
    return status == IPU_BUSY ? ipu__event_failed(a->d, status) : status;
}

/* Waits longer than a lifetime are capped. */
static attempt attempt_of(ipu_device *d, double wait_seconds)
{
    const double longest = 1e9;
    double       wait    = wait_seconds < longest ? wait_seconds : longest;
    return (attempt){.d            = d,
                     .wait_seconds = wait,
                     .deadline_ns  = ipu__clock_ns() + (wait > 0 ? (int64_t)(wait * 1e9) : 0)};
}

ipu_status ipu_device_attach(ipu_device *device, double wait_seconds)
{
    IPU_TRY(check_fork(device));
    if (wait_seconds != wait_seconds) return ipu__fail(IPU_INVALID, "the time to wait is not a number");
    attempt a = attempt_of(device, wait_seconds);
    return attach(&a);
}

/* ---- sharing within the process ---- */

static bool is_partition_of(const ipu_device *a, const ipu_device *b)
{
    return a->generation == b->generation && a->partition.gcd == b->partition.gcd
        && strcmp(a->partition.name, b->partition.name) == 0;
}

static bool is_same_wish(const ipu_device *a, const ipu_device *b)
{
    return is_partition_of(a, b) && a->wanted_id == b->wanted_id && a->n_shared == b->n_shared
        && a->allowed.id == b->allowed.id && strcmp(a->chip, b->chip) == 0;
}

/* Under the state's lock; NULL if there is none. */
static ipu_device *find_shared(const ipu_device *wanted)
{
    for (ipu_device *have = shared_here; have; have = have->next_shared)
        if (is_same_wish(have, wanted)) return have;
    for (ipu_device *have = wanted->wanted_id < 0 ? NULL : attached_here; have; have = have->next)
        if (have->id == wanted->wanted_id && is_partition_of(have, wanted)) return have;
    return NULL;
}

/* Replaces `*d`, which is new, by the process's existing handle for the same device, if any. */
static void share(ipu_device **d)
{
    ipu_device *own = *d;
    own->n_shared   = own->n_ipus;
    ipu__state_lock();
    ipu_device *have = find_shared(own);
    if (have) {
        ipu__device_retain(have);
    } else {
        own->next_shared = shared_here;
        shared_here      = own;
    }
    ipu__state_unlock();
    if (!have) return;
    ipu_device_close(own);
    *d = have;
}

ipu_status ipu__device_use_id(int id, ipu_device **out)
{
    IPU_TRY(ipu_device_open(id, out));
    share(out);
    return IPU_OK;
}

ipu_status ipu__device_use(const char *chip, int64_t n_ipus, double wait_seconds, bool on_demand,
                           ipu_device **out)
{
    IPU_TRY(open_checked(-1, n_ipus, chip, out));
    share(out);
    attempt a         = attempt_of(*out, wait_seconds);
    a.adopts          = true;
    ipu_status status = IPU_OK;
    if (!on_demand) status = attach(&a);
    if (status == IPU_OK && !a.adopted) return IPU_OK;
    ipu_device_close(*out);
    *out = a.adopted;
    return status;
}

/* ---- letting go ---- */

/* Under the state's lock. */
static void let_go(ipu_device *d)
{
    for (ipu_device **at = &attached_here; *at; at = &(*at)->next)
        if (*at == d) {
            *at = d->next;
            break;
        }
    atomic_store(&d->attached, false);
    if (d->state) ipu__state_give(d->state, d->slot, d->n_slots);
    ipu__state_close(d->state);
    d->state = NULL;
    d->id    = -1;
}

/* Under the state's lock. Returns false if a program is running on it. */
static bool detach(ipu_device *d)
{
    bool was     = atomic_exchange(&d->attached, false);
    bool running = atomic_load(&d->n_running) > 0;
    if (was && running) atomic_store(&d->attached, true);
    if (was && !running) let_go(d);
    return !running;
}

static ipu_status detached(const ipu_device *d, bool done)
{
    return done ? IPU_OK
                : ipu__fail(IPU_INVALID, "a program runs on device %d: detach it when it has ended", d->id);
}

ipu_status ipu_device_detach(ipu_device *device)
{
    IPU_TRY(check_fork(device));
    ipu__state_lock();
    bool done = detach(device);
    ipu__state_unlock();
    return detached(device, done);
}

void ipu__device_hold(ipu_device *device)
{
    ipu__state_lock();
    device->n_holders++;
    ipu__state_unlock();
}

void ipu__device_unhold(ipu_device *device)
{
    ipu__state_lock();
    device->n_holders--;
    ipu__state_unlock();
}

ipu_status ipu__device_leave(ipu_device *device)
{
    IPU_TRY(check_fork(device));
    ipu__state_lock();
    bool done = device->n_holders > 1 || detach(device);
    if (done) device->n_holders--;
    ipu__state_unlock();
    return detached(device, done);
}

ipu_device *ipu__device_retain(ipu_device *device)
{
    atomic_fetch_add(&device->n_refs, 1);
    return device;
}

void ipu_device_close(ipu_device *device)
{
    if (!device) return;
    ipu__state_lock(); /* so that no one adopts what is about to go */
    bool is_last = atomic_fetch_sub(&device->n_refs, 1) == 1;
    if (is_last && atomic_load(&device->attached)) let_go(device);
    for (ipu_device **at = &shared_here; is_last && *at; at = &(*at)->next_shared)
        if (*at == device) {
            *at = device->next_shared;
            break;
        }
    ipu__state_unlock();
    if (!is_last) return;
    ipu__arena_fini(&device->arena);
    ipu__free(device);
}

void ipu__device_rearm(const ipu__state *state, int first, int n)
{
    for (ipu_device *d = attached_here; d; d = d->next) {
        if (d->state != state || d->slot < first || d->slot >= first + n) continue;
        atomic_store(&d->failed, false);
        atomic_store(&d->n_runs, 0);
    }
}

/* ---- what it is ---- */

bool ipu_device_is_attached(const ipu_device *device)
{
    return atomic_load(&device->attached) && device->generation == ipu__state_generation();
}

int ipu_device_id(const ipu_device *device) { return ipu_device_is_attached(device) ? device->id : -1; }

int64_t ipu_device_n_ipus(const ipu_device *device) { return device->n_ipus; }

void ipu_device_get_counters(const ipu_device *device, ipu_device_counters *out)
{
    ipu__counts counts;
    *out = (ipu_device_counters){0};
    ipu__state_lock();
    if (ipu_device_is_attached(device)) {
        ipu__counters_copy(&device->counters, &counts);
        ipu__counts_tell(&counts, device->gcda.measures, device->attached_ns, out);
    }
    ipu__state_unlock();
}
