/* Runs on devices: counting them, failing where GCDA_OPTIONS simulates errors, and resets. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/host/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "device/config.h"
#include "device/event.h"
#include "device/holder.h"
#include "device/runtime.h"

static bool fired; /* the simulated errors have occurred; under the state's lock */

/* ---- errors ---- */

static ipu_status fail_device(ipu_device *d)
{
    char errors[IPU__ERROR_BYTES], found[IPU__ERROR_BYTES];
    memcpy(errors, d->gcda.errors, sizeof errors);
    for (int i = d->slot; d->state && d->slot < IPU__MOST_IPUS && i < d->slot + d->n_slots; i++) {
        ipu__state_read_error(d->state, i, found);
        if (*found) memcpy(errors, found, sizeof errors);
    }
    return ipu__fail(
        IPU_DEVICE_ERROR,
        "device %d of partition %s reports %s: reset it (ipu_device_reset, gc-reset -d %d) and run again",
        d->id, d->partition.name, errors, d->id < 0 ? 0 : d->id);
}

static void raise_errors(ipu_device *d)
{
    for (int i = d->slot; d->state && d->slot < IPU__MOST_IPUS && i < d->slot + d->n_slots; i++)
        ipu__state_write_error(d->state, i, d->gcda.errors);
    atomic_store(&d->failed, true);
    fired = true;
}

/* Only relevant if errors are being, or have been, simulated. */
static ipu_status check_errors(ipu_device *d)
{
    ipu_status status = IPU_OK;
    int64_t    run    = atomic_fetch_add(&d->n_runs, 1) + 1;
    ipu__state_lock();
    if (*d->gcda.errors && !fired && run >= d->gcda.trigger) raise_errors(d);
    if (atomic_load(&d->failed)) status = fail_device(d);
    ipu__state_unlock();
    if (status == IPU_OK) return IPU_OK;
    ipu__log_text(IPU_LOG_ERR, "device", ipu_message());
    return ipu__event_failed(d, status);
}

/* ---- what others see ---- */

static void publish_once(ipu_device *d)
{
    const int64_t second = 1000000000;
    ipu__counts   counts;
    int64_t       now = ipu__clock_ns();
    if (now - d->recorded_ns > second) { /* a repair has wiped it out, or the file was truncated */
        int last = d->slot + d->n_slots - 1;
        if (ipu__state_read_pid(d->state, d->slot) != getpid()
            || ipu__state_read_pid(d->state, last) != getpid())
            ipu__device_record(d);
        d->recorded_ns = now;
    }
    ipu__counters_copy(&d->counters, &counts);
    ipu__state_write_counts(d->state, d->slot, &counts);
}

/* One thread at a time, so that older counts never replace newer ones. Others do not wait: the one publishing writes
 * once more. */
static void publish(ipu_device *d)
{
    if (!d->state || atomic_fetch_add(&d->n_unpublished, 1) > 0) return;
    for (int seen = 1; seen > 0;) {
        publish_once(d);
        seen = atomic_fetch_sub(&d->n_unpublished, seen) - seen;
    }
}

/* ---- runs ---- */

ipu_status ipu__device_begin_run(ipu_device *device, double wait_seconds)
{
    for (;;) {
        atomic_fetch_add(&device->n_running, 1); /* from here on it cannot be detached */
        if (atomic_load(&device->attached)) break;
        atomic_fetch_sub(&device->n_running, 1);
        IPU_TRY(ipu_device_attach(device, wait_seconds));
    }
    if (*device->gcda.errors || atomic_load(&device->failed)) {
        ipu_status status = check_errors(device);
        if (status != IPU_OK) {
            atomic_fetch_sub(&device->n_running, 1);
            return status;
        }
    }
    if (device->gcda.measures) {
        ipu__counters_begin(&device->counters, ipu__clock_ns());
        publish(device);
    }
    return IPU_OK;
}

void ipu__device_end_run(ipu_device *device, const ipu__run_counts *counts)
{
    ipu__counters *c = &device->counters;
    if (device->generation != ipu__state_generation()) return; /* a child forked during the run holds none */
    if (device->gcda.measures) ipu__counters_end(c, ipu__clock_ns());
    ipu__count(&c->runs, 1);
    ipu__count(&c->supersteps, counts->supersteps);
    ipu__count(&c->host_bytes, counts->host_bytes);
    if (counts->cycles >= 0) {
        long long unknown = -1;
        atomic_compare_exchange_strong(&c->cycles, &unknown, 0);
        ipu__count(&c->cycles, counts->cycles);
    }
    if (counts->tile_bytes >= 0)
        atomic_store_explicit(&c->tile_bytes, counts->tile_bytes, memory_order_relaxed);
    publish(device);
    atomic_fetch_sub(&device->n_running, 1);
}

void ipu__device_count_host_bytes(ipu_device *device, int64_t bytes)
{
    atomic_fetch_add(&device->n_running, 1);
    if (ipu_device_is_attached(device)) {
        ipu__count(&device->counters.host_bytes, bytes);
        publish(device);
    }
    atomic_fetch_sub(&device->n_running, 1);
}

/* ---- resets ---- */

static void clear_errors(ipu__state *state, int first, int n)
{
    static const char none[IPU__ERROR_BYTES];
    for (int i = first; i < first + n; i++) ipu__state_write_error(state, i, none);
}

static bool all_held_here(const ipu__state *state, int first, int n)
{
    for (int i = first; i < first + n; i++)
        if (!state->held[i]) return false;
    return true;
}

static ipu_status reset_open(ipu__state *state, const ipu_partition *p, const ipu_device_info *info)
{
    char holders[640];
    bool here = all_held_here(state, info->first, info->n_ipus);
    if (!here && !ipu__state_take(state, info->first, info->n_ipus)) {
        ipu__holders_text(state, info->first, info->n_ipus, holders, sizeof holders);
        return ipu__fail(
            IPU_BUSY,
            "device %d of partition %s cannot be reset while it is in use: held are %s: end that first",
            info->id, p->name, holders);
    }
    clear_errors(state, info->first, info->n_ipus);
    if (here)
        ipu__device_rearm(state, info->first, info->n_ipus);
    else
        ipu__state_give(state, info->first, info->n_ipus);
    return IPU_OK;
}

static ipu_status reset(ipu__arena *arena, int id)
{
    ipu__config            config;
    ipu__gcda              gcda;
    ipu__state            *state;
    const ipu_device_info *info;
    IPU_TRY(ipu__gcda_read(&gcda));
    IPU_TRY(ipu__config_load(arena, &config));
    const ipu_partition *p = &config.partitions[config.active];
    IPU_TRY(ipu_partition_find_device(p, id, &info));
    ipu__state_lock();
    ipu_status status = ipu__state_open(p->name, p->gcd, true, &state);
    if (status == IPU_OK) status = reset_open(state, p, info);
    if (status == IPU_OK && gcda.rearms) fired = false;
    ipu__state_close(state);
    ipu__state_unlock();
    ipu__runtime_tell();
    return status;
}

ipu_status ipu_device_reset(int id)
{
    ipu__arena arena  = {0};
    ipu_status status = reset(&arena, id);
    ipu__arena_fini(&arena);
    return status;
}
