/* Handles of devices: attaching, running on them, counting. Public half: ipu/device.h. */
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
    ipu_partition   partition;             /* the active one when it was opened */
    int             wanted_id;             /* -1: any */
    int64_t         n_ipus;                /* wanted; once attached, those it has */
    char            chip[IPU__CHIP_BYTES]; /* wanted; "": the partition's */
    ipu_device_info allowed; /* its IPUs and no others, by IPU_DEVICE_ID; id -1: all of the partition */

    atomic_bool   attached;
    atomic_int    n_running;
    ipu__state   *state; /* NULL: not attached, or to IPUs that no one else sees */
    int           slot, n_slots, id;
    ipu__counters counters;
    atomic_int    n_unpublished; /* changes of them that others do not see yet */
    int64_t       attached_ns, since_ns;
    int64_t       recorded_ns; /* when its record was last found to be there, by who publishes */
    ipu__gcda     gcda;
    atomic_llong  n_runs; /* that were begun since it was attached */
    atomic_bool   failed; /* it reported an error */
    ipu_device   *next;   /* of those that are attached in this process */
    ipu_device   *next_shared;
    int64_t       n_shared;  /* IPUs that were wanted of a shared one */
    int           n_holders; /* under the state's lock */
};

/* Device for an engine that needs `n_ipus` of `chip`: one that the process has attached, or a new one. With
 * `on_demand` a new one is attached when it first runs. Released by ipu_device_close. */
ipu_status  ipu__device_use(const char *chip, int64_t n_ipus, double wait_seconds, bool on_demand,
                            ipu_device **out);
ipu_device *ipu__device_retain(ipu_device *device);
/* Device `id`, by the handle that others of this process use for it, attached or not; a new one if there is none. Statuses: those
 * of ipu_device_open. Released by ipu_device_close. */
ipu_status ipu__device_use_id(int id, ipu_device **out);

/* Several may hold a device of this process, each once: ipu__device_leave detaches it when it was the last to. Statuses: those of
 * ipu_device_detach; it is held still then. */
void       ipu__device_hold(ipu_device *device);
ipu_status ipu__device_leave(ipu_device *device);
/* Without detaching it. */
void ipu__device_unhold(ipu_device *device);

/* Around a run of an engine. Begin attaches if need be. Statuses: those of ipu_device_attach; DEVICE_ERROR.
 * Then there is nothing to end. */
ipu_status ipu__device_begin_run(ipu_device *device, double wait_seconds);

/* What the run did. */
typedef struct ipu__run_counts {
    int64_t supersteps, host_bytes;
    int64_t cycles, tile_bytes; /* -1: not known */
} ipu__run_counts;
void ipu__device_end_run(ipu_device *device, const ipu__run_counts *counts);

/* The errors of the IPUs in slots [first, first + n) are no more: devices of this process there may run,
 * and count their runs anew. Under the state's lock. */
void ipu__device_rearm(const ipu__state *state, int first, int n);

/* Writes who it is into its slots: under the state's lock or during a run. */
void ipu__device_record(const ipu_device *device);

/* Between runs. */
void ipu__device_count_host_bytes(ipu_device *device, int64_t bytes);

#endif
