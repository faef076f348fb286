/* Devices: the virtual IPUs of this host.
 *
 * A host offers partitions of IPUs. With nothing configured there is one, "default", of one IPU-Machine
 * with four GC200s. IPUoF configuration files, or ipu_partition_create, give others: docs/devices.md has
 * the places, the order in which they are looked at, and the keys. There is no daemon: state is in files of
 * the user's, and each user has their own.
 *
 *     ipu_device_list *list;
 *     IPU_TRY(ipu_device_list_create(0, &list));
 *     const ipu_partition *p = ipu_device_list_active(list);
 *     for (size_t i = 0; i < p->n_devices; i++)
 *         printf("device %d: %d IPUs\n", p->devices[i].id, p->devices[i].n_ipus);
 *     ipu_device_list_destroy(list);
 *
 * A partition is elastic or hard. Elastic, as the default one: it shows so many IPUs, and a program that
 * needs more, or finds them busy, gets further ones of its own. Hard, as any configured one: there are no
 * others; busy is an error that names the holder, or a wait. IPU_ELASTIC=0 and IPU_ELASTIC=1 make all
 * partitions hard or elastic.
 *
 * Virtual IPUs have no sensors: what would be measured on a chip is "N/A" (ipu/ipuinfo.h has all
 * attributes).
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
    const char *type;     /* "M2000", "C2", "C600"; "Bow" is our name for that machine */
    const char *software; /* version of the gateway's software; "": unknown */
    const char *server;   /* version of what serves the IPUs: OpenIPU's unless configured */
    const char *firmware; /* "N/A" unless configured */
    const char *board[2]; /* serial numbers of its boards, two IPUs each; NULL: there is none */
    int         n_ipus;
} ipu_machine;

/* What a device, or the process on it, did. */
typedef struct ipu_device_counters {
    int64_t runs, supersteps;
    int64_t cycles;     /* by the model of the chip; -1: not estimated for what ran */
    int64_t host_bytes; /* streamed from and to the host, and its reads and writes between runs */
    int64_t tile_bytes; /* of memory, on all tiles together, by the model; -1: not estimated */
    double
        utilisation; /* share of the last second or so in which programs ran, 0 to 1; below 0: not measured */
    double utilisation_session; /* the same since it was attached */
} ipu_device_counters;

/* An attached process. One that holds several devices has one entry for each. */
typedef struct ipu_attached {
    int64_t             pid; /* 0: a process of another namespace (a container) */
    int64_t             uid;
    const char         *user;       /* "root", or the number if it has no name */
    const char         *command;    /* "python3" */
    const char         *executable; /* "/usr/bin/python3"; the command, if it cannot be told */
    int64_t             since_ns;   /* when it attached, in nanoseconds since 1970 */
    int                 id;         /* of the device; -1: IPUs of its own, beyond those the partition shows */
    int                 first, n_ipus; /* its IPUs; `first` is -1 if they are its own */
    ipu_device_counters counters;
} ipu_attached;

/* One IPU of a partition. */
typedef struct ipu_single {
    int                 index; /* in the partition, from 0 */
    const ipu_machine  *machine;
    int                 number;  /* the machine's, from 0; counts down while indices go up */
    const char         *board;   /* serial number */
    const char         *error;   /* "no errors", or the names of errors that wait for ipu_device_reset */
    const ipu_attached *process; /* who is attached to it, alone or with others of a device; NULL: nobody */
} ipu_single;

/* What a program attaches to: one IPU or a group. In a reconfigurable partition of N IPUs ids 0 to N - 1
 * are the single ones, followed by pairs, groups of 4, 8 ... N, in ascending order. Otherwise device 0 is
 * all of it. */
typedef struct ipu_device_info {
    int         id;
    const char *target;        /* "Fabric", "PCIe" or "Multi IPU" */
    int         first, n_ipus; /* singles[first] .. singles[first + n_ipus - 1] */
} ipu_device_info;

typedef struct ipu_partition {
    const char *name;
    int         gcd;    /* graph compilation domain */
    bool        active; /* the one that programs attach to: IPU_PARTITION=name, or the first */
    bool        elastic, reconfigurable;
    const char *chip; /* "gc200" */
    const char *arch; /* "ipu2" */
    double      clock_hz;
    int64_t     tiles_per_ipu;
    const char *routing;   /* "DNC" */
    const char *sync_type; /* "c2-compatible" */
    int         n_replicas;
    const char *file; /* that configures it; "": it is the default */
    int n_before;     /* IPUs of the partitions before it: what its ids are raised by where all are listed */
    ipu_machine     *machines;
    size_t           n_machines;
    ipu_single      *singles;
    size_t           n_ipus;
    ipu_device_info *devices;
    size_t           n_devices;
    ipu_attached    *processes; /* in the order of their IPUs, then those with IPUs of their own */
    size_t           n_processes;
} ipu_partition;

typedef struct ipu_device_list ipu_device_list; /* a picture of one moment */

enum { IPU_ALL_PARTITIONS = 1 }; /* flag: not only the active one */

/* Takes no device and disturbs nobody. Owned: ipu_device_list_destroy. Statuses: INVALID (a configuration
 * that is wrong: the message names file, key and fix), NOT_FOUND (IPU_PARTITION names none), UNSUPPORTED
 * (IPUOF_VIPU_API_* ask for a server), IO, OUT_OF_MEMORY. */
ipu_status ipu_device_list_create(unsigned flags, ipu_device_list **out);
void       ipu_device_list_destroy(ipu_device_list *list);

/* All of it is borrowed from the list. Partitions by name; NULL past the last. */
const ipu_partition *ipu_device_list_at(const ipu_device_list *list, size_t i);
const ipu_partition *ipu_device_list_active(const ipu_device_list *list); /* never NULL */

/* The chip of the active partition, "gc200" or "bow": what models are compiled for that are not told otherwise.
 * "gc200" where no partition can be read: attaching says why. */
const char *ipu_device_chip(void);

/* Device `id` of a partition. NOT_FOUND: the message says which there are. */
ipu_status ipu_partition_find_device(const ipu_partition *partition, int id, const ipu_device_info **out);

/* ---- attaching ---- */

typedef struct ipu_device ipu_device; /* a handle: what is, or is to be, attached */

/* Device `id` of the active partition, or any that has `n_ipus` IPUs or, if there is none of that size, the
 * fewest more. With IPU_DEVICE_ID=N in the environment, only IPUs of device N, and no further ones of an
 * elastic partition. Nothing is attached yet. Owned: ipu_device_close. Statuses: those of
 * ipu_device_list_create; NOT_FOUND (no such device; in an elastic partition there is one for every n_ipus;
 * IPU_DEVICE_ID does not allow it). */
ipu_status ipu_device_open(int id, ipu_device **out);
ipu_status ipu_device_open_any(int64_t n_ipus, ipu_device **out);

/* Detaches, when no engine uses it any more. NULL: nothing. */
void ipu_device_close(ipu_device *device);

/* Hold it, so that nobody else does. `wait_seconds` 0: at once or not at all; below 0: wait as long as it
 * takes. Those who wait are served in the order they came. Attached already: nothing is done. What is
 * attached is this process's: a forked child does not have it, and when the process ends, in whatever way,
 * it is free. In an elastic partition ipu_device_open_any's never fails for want of IPUs. Statuses: BUSY
 * (the message says who has it, since when), INVALID (GCDA_OPTIONS), FORKED, IO, OUT_OF_MEMORY. */
ipu_status ipu_device_attach(ipu_device *device, double wait_seconds);

/* Let go; the handle can attach again. Engines on it attach again when they run. INVALID: one is running. */
ipu_status ipu_device_detach(ipu_device *device);

bool ipu_device_is_attached(const ipu_device *device);
int  ipu_device_id(const ipu_device *device); /* -1: not attached, or IPUs beyond those the partition shows */
int64_t ipu_device_n_ipus(const ipu_device *device);

/* Since it was attached; all 0 if it is not. */
void ipu_device_get_counters(const ipu_device *device, ipu_device_counters *out);

/* The folder that the state of the user's devices is in, as a whole path; made if it is not there. Who shares
 * it, in a container too, shares the devices. Statuses: IO (it cannot be made, or is not the user's), INVALID
 * (`bytes` are too few: PATH_MAX always do). */
ipu_status ipu_device_folder(char *out, size_t bytes);

/* Clear the errors of the IPUs of device `id` of the active partition. BUSY: another process is attached. */
ipu_status ipu_device_reset(int id);

/* ---- partitions ---- */

typedef struct ipu_partition_options {
    const char *target;  /* "pod16", "bow-pod64", or a chip, "gc200"; NULL: "m2000" */
    int64_t     n_ipus;  /* 0: the system's, or 1 */
    bool        fixed;   /* not reconfigurable: one device */
    bool        elastic; /* or else hard */
} ipu_partition_options;

/* Write ~/.ipuof.conf.d/NAME.conf. While IPUOF_CONFIG_PATH names another file, that one counts. `options`
 * NULL: the defaults. Statuses: INVALID (there is such a partition; a name or number that is none),
 * NOT_FOUND (no such target), IO. */
ipu_status ipu_partition_create(const char *name, const ipu_partition_options *options);

/* Remove what ipu_partition_create wrote. Statuses: NOT_FOUND; BUSY (a process is attached), INVALID (it is
 * not configured in the user's folder), IO. */
ipu_status ipu_partition_remove(const char *name);

#ifdef __cplusplus
}
#endif
#endif
