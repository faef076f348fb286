/* Device handles: attaching, running, counting. Public half: ipu/device.h. */
#ifndef IPU_DEVICE_DEVICE_H
#define IPU_DEVICE_DEVICE_H

#include "device/counters.h"
#include "device/gcda.h"
#include "ipu/device.h"

enum { IPU__CHIP_BYTES = 16 };

struct ipu_device {
    atomic_int      n_refs;
    unsigned        generation;
    ipu__arena      arena;
    ipu_partition   partition;             /* active when it was opened */
    int             wanted_id;             /* -1 for any */
    int64_t         n_ipus;                /* requested; once attached, actual */
    char            chip[IPU__CHIP_BYTES]; /* requested; "" for the partition's */
    ipu_device_info allowed; /* only these IPUs, because of IPU_DEVICE_ID; id -1: the whole partition */

    atomic_bool   attached;
    atomic_int    n_running;
    ipu__state   *state; /* NULL if not attached, or attached to IPUs that nobody else sees */
    int           slot, n_slots, id;
    ipu__counters counters;
    atomic_int    n_unpublished; /* changes not yet published */
    int64_t       attached_ns, since_ns;
    int64_t       recorded_ns; /* when publishing last found its record in place */
    ipu__gcda     gcda;
    atomic_llong  n_runs; /* started since it was attached */
    atomic_bool   failed; /* it reported an error */
    ipu_device   *next;   /* among those attached in this process */
    ipu_device   *next_shared;
    int64_t       n_shared;  /* IPUs requested of a shared one */
    int           n_holders; /* under the state's lock */
};

/* A device for an engine that needs `n_ipus` of `chip`: one that the process has attached, or a new one.
 * With `on_demand`, a new one is attached when it first runs. Released by ipu_device_close. */
ipu_status  ipu__device_use(const char *chip, int64_t n_ipus, double wait_seconds, bool on_demand,
                            ipu_device **out);
ipu_device *ipu__device_retain(ipu_device *device);
/* Device `id`, through the handle that others in this process use for it, attached or not; a new handle if there is
 * none. Statuses: those of ipu_device_open. Released by ipu_device_close. */
ipu_status ipu__device_use_id(int id, ipu_device **out);

/* Several users in this process may each hold a device once; the last to call ipu__device_leave detaches it.
 * Statuses: those of ipu_device_detach, after which it is still held. */
void       ipu__device_hold(ipu_device *device);
ipu_status ipu__device_leave(ipu_device *device);
/* Releases the hold without detaching. */
void ipu__device_unhold(ipu_device *device);

/* Before and after an engine run. Begin attaches if necessary. Statuses: those of ipu_device_attach;
 * DEVICE_ERROR. After an error there is nothing to end. */
ipu_status ipu__device_begin_run(ipu_device *device, double wait_seconds);

/* What the run did. */
typedef struct ipu__run_counts {
    int64_t supersteps, host_bytes;
    int64_t cycles, tile_bytes; /* -1 if unknown */
} ipu__run_counts;
void ipu__device_end_run(ipu_device *device, const ipu__run_counts *counts);

/* The errors of the IPUs in slots [first, first + n) have been cleared: this process's devices on them may
 * run, and count their runs afresh. Under the state's lock. */
void ipu__device_rearm(const ipu__state *state, int first, int n);

/* Writes its identity into its slots: under the state's lock or during a run. */
void ipu__device_record(const ipu_device *device);

/* Between runs. */
void ipu__device_count_host_bytes(ipu_device *device, int64_t bytes);

#endif
