/* Counters of an attachment: in the memory of its process, where threads update them. Others see copies in
 * the state. */
#ifndef IPU_DEVICE_COUNTERS_H
#define IPU_DEVICE_COUNTERS_H

#include <stdatomic.h>

#include "device/state.h"
#include "ipu/device.h"

typedef struct ipu__counters {
#define X(name) atomic_llong name;
    IPU__COUNTERS(X)
#undef X
} ipu__counters;

static inline void ipu__count(atomic_llong *counter, int64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Sets everything to 0, and what is unknown to -1. */
void ipu__counters_clear(ipu__counters *c);

/* Called before and after a run; several may be in progress at once. */
void ipu__counters_begin(ipu__counters *c, int64_t now_ns);
void ipu__counters_end(ipu__counters *c, int64_t now_ns);

void ipu__counters_copy(const ipu__counters *c, ipu__counts *out);

/* Converts them for callers. */
void ipu__counts_tell(const ipu__counts *c, bool measures, int64_t attached_ns, ipu_device_counters *out);

#endif
