/* Utilisation out of two clocks: how long programs ran, and how long ago that began. */
#include "device/counters.h"

#include "base/clock.h"

enum { WINDOW_NS = 1000000000, MILLION = 1000000, NO_SHARE = -1 };

static int64_t get(const atomic_llong *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void set(atomic_llong *counter, int64_t n) { atomic_store_explicit(counter, n, memory_order_relaxed); }

void ipu__counters_clear(ipu__counters *c)
{
    atomic_llong *const zero[] = {&c->runs,         &c->supersteps, &c->host_bytes,    &c->running,
                                  &c->run_began_ns, &c->busy_ns,    &c->window_busy_ns};
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++) set(zero[i], 0);
    set(&c->cycles, -1);
    set(&c->tile_bytes, -1);
    set(&c->last_share, NO_SHARE);
    set(&c->window_began_ns, ipu__clock_ns());
}

void ipu__counters_begin(ipu__counters *c, int64_t now_ns)
{
    if (atomic_fetch_add_explicit(&c->running, 1, memory_order_relaxed) == 0) set(&c->run_began_ns, now_ns);
}

/* Of the window since it began, in millionths. */
static int64_t share(const ipu__counters *c, int64_t busy_ns, int64_t now_ns)
{
    int64_t whole = now_ns - get(&c->window_began_ns), part = busy_ns - get(&c->window_busy_ns);
    if (whole <= 0 || part <= 0) return 0;
    return part >= whole ? MILLION : (int64_t)((double)part / (double)whole * MILLION);
}

void ipu__counters_end(ipu__counters *c, int64_t now_ns)
{
    if (atomic_fetch_sub_explicit(&c->running, 1, memory_order_relaxed) > 1) return;
    int64_t took = now_ns - get(&c->run_began_ns);
    int64_t busy = atomic_fetch_add_explicit(&c->busy_ns, took, memory_order_relaxed) + took;
    if (now_ns - get(&c->window_began_ns) < WINDOW_NS) return;
    set(&c->last_share, share(c, busy, now_ns));
    set(&c->window_busy_ns, busy);
    set(&c->window_began_ns, now_ns);
}

void ipu__counters_read(const ipu__counters *c, bool measures, int64_t attached_ns, ipu_device_counters *out)
{
    int64_t now = ipu__clock_ns(), busy = get(&c->busy_ns);
    *out = (ipu_device_counters){.runs                = get(&c->runs),
                                 .supersteps          = get(&c->supersteps),
                                 .cycles              = get(&c->cycles),
                                 .host_bytes          = get(&c->host_bytes),
                                 .tile_bytes          = get(&c->tile_bytes),
                                 .utilisation         = -1,
                                 .utilisation_session = -1};
    if (!measures) return;
    if (get(&c->running) > 0) busy += now - get(&c->run_began_ns);
    int64_t life = now - attached_ns, last = get(&c->last_share);
    /* A window that has just begun tells little: the one before does. */
    bool young               = now - get(&c->window_began_ns) < WINDOW_NS && last != NO_SHARE;
    out->utilisation         = (double)(young ? last : share(c, busy, now)) / MILLION;
    out->utilisation_session = life <= 0 || busy <= 0 ? 0 : busy >= life ? 1 : (double)busy / (double)life;
}
