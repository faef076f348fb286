/* Utilisation from two clocks: how long programs ran, and how long ago that began. */
#include "device/counters.h"

#include "base/host/clock.h"

enum { WINDOW_NS = 1000000000, MILLION = 1000000, NO_SHARE = -1 };

static int64_t get(const atomic_llong *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void set(atomic_llong *counter, int64_t n) { atomic_store_explicit(counter, n, memory_order_relaxed); }

void ipu__counters_clear(ipu__counters *c)
{
#define X(name) set(&c->name, 0);
    IPU__COUNTERS(X)
#undef X
    set(&c->cycles, -1);
    set(&c->tile_bytes, -1);
    set(&c->last_share, NO_SHARE);
    set(&c->window_began_ns, ipu__clock_ns());
}

void ipu__counters_copy(const ipu__counters *c, ipu__counts *out)
{
#define X(name) out->name = get(&c->name);
    IPU__COUNTERS(X)
#undef X
}

void ipu__counters_begin(ipu__counters *c, int64_t now_ns)
{
    if (atomic_fetch_add_explicit(&c->running, 1, memory_order_relaxed) == 0) set(&c->run_began_ns, now_ns);
}

/* The fraction of a window, in millionths. */
static int64_t share(int64_t part, int64_t whole)
{
    if (whole <= 0 || part <= 0) return 0;
    return part >= whole ? MILLION : (int64_t)((double)part / (double)whole * MILLION);
}

void ipu__counters_end(ipu__counters *c, int64_t now_ns)
{
    if (atomic_fetch_sub_explicit(&c->running, 1, memory_order_relaxed) > 1) return;
    int64_t took   = now_ns - get(&c->run_began_ns);
    int64_t busy   = atomic_fetch_add_explicit(&c->busy_ns, took, memory_order_relaxed) + took;
    int64_t window = now_ns - get(&c->window_began_ns);
    if (window < WINDOW_NS) return;
    set(&c->last_share, share(busy - get(&c->window_busy_ns), window));
    set(&c->window_busy_ns, busy);
    set(&c->window_began_ns, now_ns);
}

/* Differences of numbers from a file, which may be anything. */
static int64_t less(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

void ipu__counts_tell(const ipu__counts *c, bool measures, int64_t attached_ns, ipu_device_counters *out)
{
    int64_t now = ipu__clock_ns(), busy = c->busy_ns;
    *out = (ipu_device_counters){.runs                = c->runs,
                                 .supersteps          = c->supersteps,
                                 .cycles              = c->cycles,
                                 .host_bytes          = c->host_bytes,
                                 .tile_bytes          = c->tile_bytes,
                                 .utilisation         = -1,
                                 .utilisation_session = -1};
    if (!measures) return;
    if (c->running > 0) busy = less(busy, less(c->run_began_ns, now));
    int64_t life = less(now, attached_ns), window = less(now, c->window_began_ns);
    /* A window that has just begun says little, so use the previous one. */
    bool    young            = window < WINDOW_NS && c->last_share != NO_SHARE;
    int64_t part             = young ? c->last_share : share(less(busy, c->window_busy_ns), window);
    out->utilisation         = (double)part / MILLION;
    out->utilisation_session = life <= 0 || busy <= 0 ? 0 : busy >= life ? 1 : (double)busy / (double)life;
}
