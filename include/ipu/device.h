/* Devices: the virtual IPUs of this host.
 *
 * A host offers partitions of IPUs. By default there is one, "default": an IPU-Machine with four GC200s.
 * Others come from IPUoF configuration files or ipu_partition_create; docs/devices.md lists where files are
 * searched, in which order, and their keys. There is no daemon: state lives in files, separately for each
 * user.
 *
 *     ipu_device_list *list;
 *     IPU_TRY(ipu_device_list_create(0, &list));
 *     const ipu_partition *p = ipu_device_list_active(list);
 *     for (size_t i = 0; i < p->n_devices; i++)
 *         printf("device %d: %d IPUs\n", p->devices[i].id, p->devices[i].n_ipus);
 *     ipu_device_list_destroy(list);
 *
 * A partition is elastic or hard. An elastic one, like the default, shows a number of IPUs, but a program
 * that needs more, or finds them busy, gets additional ones of its own. A hard one, like any configured one,
 * has no others: if its IPUs are busy, attaching waits or fails with an error that names the holder.
 * IPU_ELASTIC=0 and IPU_ELASTIC=1 make all partitions hard or elastic.
 *
 * Virtual IPUs have no sensors: whatever a chip would measure is "N/A" (ipu/ipuinfo.h has all attributes).
 */
#ifndef IPU_DEVICE_H
#define IPU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipu/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what there is ---- */

/* An IPU-Machine, or a card. */
typedef struct ipu_machine {
    const char *host;     /* address; "localhost" unless configured */
    const char *type;     /* "M2000", "C2", "C600"; "Bow" is our own name */
    const char *software; /* version of the gateway software; "" if unknown */
    const char *server;   /* version of the IPU server: OpenIPU's unless configured */
    const char *firmware; /* "N/A" unless configured */
    const char *board[2]; /* serial numbers of its boards, two IPUs each; NULL if there is none */
    int         n_ipus;
} ipu_machine;

/* Activity of a device, or of the process on it. */
typedef struct ipu_device_counters {
    int64_t runs, supersteps;
    int64_t cycles;              /* estimated by the chip model; -1 if what ran was not estimated */
    int64_t host_bytes;          /* streamed to and from the host, plus host reads and writes between runs */
    int64_t tile_bytes;          /* memory over all tiles, estimated by the model; -1 if not estimated */
    double  utilisation;         /* share of the last second or so spent in programs; below 0: not measured */
    double  utilisation_session; /* the same since it attached */
} ipu_device_counters;

/* An attached process. One that holds several devices has an entry for each. */
typedef struct ipu_attached {
    int64_t             pid; /* 0 for a process of another namespace (a container) */
    int64_t             uid;
    const char         *user;       /* "root", or the numeric id if it has no name */
    const char         *command;    /* "python3" */
    const char         *executable; /* "/usr/bin/python3"; the command if it cannot be determined */
    int64_t             since_ns;   /* when it attached, in nanoseconds since 1970 */
    int                 id; /* of the device; -1 for IPUs of its own, beyond those the partition shows */
    int                 first, n_ipus; /* its IPUs; `first` is -1 if they are its own */
    ipu_device_counters counters;
} ipu_attached;

/* One IPU of a partition. */
typedef struct ipu_single {
    int                 index; /* in the partition, from 0 */
    const ipu_machine  *machine;
    int                 number;  /* within the machine, from 0; descends as indices ascend */
    const char         *board;   /* serial number */
    const char         *error;   /* "no errors", or the names of errors pending until ipu_device_reset */
    const ipu_attached *process; /* attached process, of this IPU or a group that contains it; NULL if none */
} ipu_single;

/* What a program attaches to: one IPU or a group. In a reconfigurable partition of N IPUs, ids 0 to N - 1 are
 * single IPUs, followed by pairs, groups of 4, 8 ... N, in ascending order. Otherwise device 0 is the whole
 * partition. */
typedef struct ipu_device_info {
    int         id;
    const char *target;        /* "Fabric", "PCIe" or "Multi IPU" */
    int         first, n_ipus; /* singles[first] .. singles[first + n_ipus - 1] */
} ipu_device_info;

typedef struct ipu_partition {
    const char  *name;
    int          gcd;    /* graph compilation domain */
    bool         active; /* the one programs attach to: IPU_PARTITION=name, or the first */
    bool         elastic, reconfigurable;
    const char  *chip; /* "gc200" */
    const char  *arch; /* "ipu2" */
    double       clock_hz;
    int64_t      tiles_per_ipu;
    const char  *routing;   /* "DNC" */
    const char  *sync_type; /* "c2-compatible" */
    int          n_replicas;
    const char  *file;     /* configuration file; "" for the default partition */
    int          n_before; /* IPUs of the partitions before it: the offset of its ids when all are listed */
    ipu_machine *machines;
    size_t       n_machines;
    ipu_single  *singles;
    size_t       n_ipus;
    ipu_device_info *devices;
    size_t           n_devices;
    ipu_attached    *processes; /* in IPU order, then those with IPUs of their own */
    size_t           n_processes;
} ipu_partition;

typedef struct ipu_device_list ipu_device_list; /* a snapshot */

enum { IPU_ALL_PARTITIONS = 1 }; /* flag: not just the active one */

/* Read-only: attaches to nothing. Owned: ipu_device_list_destroy. Statuses: INVALID (a configuration error;
 * the message names file, key and fix), NOT_FOUND (no partition is called IPU_PARTITION), UNSUPPORTED
 * (IPUOF_VIPU_API_* ask for a server), IO, OUT_OF_MEMORY. */
ipu_status ipu_device_list_create(unsigned flags, ipu_device_list **out);
void       ipu_device_list_destroy(ipu_device_list *list);

/* All borrowed from the list. Partitions are ordered by name; NULL past the last. */
const ipu_partition *ipu_device_list_at(const ipu_device_list *list, size_t i);
const ipu_partition *ipu_device_list_active(const ipu_device_list *list); /* never NULL */

/* The chip of the active partition, "gc200" or "bow": the default target of models. "gc200" if no partition can
 * be read; attaching then reports why. */
const char *ipu_device_chip(void);

/* Device `id` of a partition. Statuses: NOT_FOUND (the message lists the ids). */
ipu_status ipu_partition_find_device(const ipu_partition *partition, int id, const ipu_device_info **out);

/* ---- attaching ---- */

typedef struct ipu_device ipu_device; /* a handle, attached or not */

/* A handle to device `id` of the active partition, or to any device with `n_ipus` IPUs or, if there is none
 * of that size, the smallest larger one. With IPU_DEVICE_ID=N in the environment, only IPUs of device N are
 * used, and an elastic partition adds none. Does not attach. Owned: ipu_device_close. Statuses: those of
 * ipu_device_list_create; NOT_FOUND (no such device; in an elastic partition there is one for every n_ipus;
 * IPU_DEVICE_ID does not allow it). */
ipu_status ipu_device_open(int id, ipu_device **out);
ipu_status ipu_device_open_any(int64_t n_ipus, ipu_device **out);

/* Detaches once no engine uses it any more. NULL is allowed. */
void ipu_device_close(ipu_device *device);

/* Take exclusive hold of the device. `wait_seconds` 0 fails at once if it is busy; negative waits
 * indefinitely. Waiters are served in order of arrival. Does nothing if already attached. The device belongs
 * to this process: a forked child does not inherit it, and it is released when the process ends, however it
 * ends. In an elastic partition a handle from ipu_device_open_any never fails for lack of IPUs. Statuses:
 * BUSY (the message says who holds it, and since when), INVALID (GCDA_OPTIONS), FORKED, IO, OUT_OF_MEMORY. */
ipu_status ipu_device_attach(ipu_device *device, double wait_seconds);

/* Release it; the handle can attach again. Engines on it reattach when they run. Statuses: INVALID (an engine
 * is running). */
ipu_status ipu_device_detach(ipu_device *device);

bool    ipu_device_is_attached(const ipu_device *device);
int     ipu_device_id(const ipu_device *device); /* -1: not attached, or beyond the partition */
int64_t ipu_device_n_ipus(const ipu_device *device);

/* Since it attached; all 0 if it is not attached. */
void ipu_device_get_counters(const ipu_device *device, ipu_device_counters *out);

/* The absolute path of the folder that holds the state of the user's devices, created if needed. Processes
 * that share it, even across containers, share the devices. Statuses: IO (it cannot be created, or is not the
 * user's), INVALID (`bytes` is too small; PATH_MAX always suffices). */
ipu_status ipu_device_folder(char *out, size_t bytes);

/* Clear the errors of the IPUs of device `id` of the active partition. Statuses: BUSY (another process is
 * attached). */
ipu_status ipu_device_reset(int id);

/* ---- partitions ---- */

typedef struct ipu_partition_options {
    const char *target;  /* "pod16", "bow-pod64", or a chip, "gc200"; NULL means "m2000" */
    int64_t     n_ipus;  /* 0 means the system's, or 1 */
    bool        fixed;   /* not reconfigurable: one device */
    bool        elastic; /* otherwise hard */
} ipu_partition_options;

/* Write ~/.ipuof.conf.d/NAME.conf; while IPUOF_CONFIG_PATH names another file, that one takes precedence.
 * `options` may be NULL for the defaults. Statuses: INVALID (the partition exists, or a name or number is not
 * valid), NOT_FOUND (no such target), IO. */
ipu_status ipu_partition_create(const char *name, const ipu_partition_options *options);

/* Remove what ipu_partition_create wrote. Statuses: NOT_FOUND, BUSY (a process is attached), INVALID (it is
 * not configured in the user's folder), IO. */
ipu_status ipu_partition_remove(const char *name);

#ifdef __cplusplus
}
#endif
#endif
