/* Counters of an attachment: written by its process with relaxed additions, read by anyone. */
#ifndef IPU_DEVICE_COUNTERS_H
#define IPU_DEVICE_COUNTERS_H

#include "device/state.h"

static inline void ipu__count(atomic_llong *counter, int64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Everything at 0, what is not known at -1. */
void ipu__counters_clear(ipu__counters *c);

/* Around a run; several may be in progress at once. */
void ipu__counters_begin(ipu__counters *c, int64_t now_ns);
void ipu__counters_end(ipu__counters *c, int64_t now_ns);

void ipu__counters_read(const ipu__counters *c, bool measures, int64_t attached_ns, ipu_device_counters *out);

#endif
