/* Partitions: a configuration turned into machines, IPUs and devices. */
#ifndef IPU_DEVICE_PARTITION_H
#define IPU_DEVICE_PARTITION_H

#include "base/arena.h"
#include "ipu/device.h"

enum {
    IPU__MOST_IPUS       = 256, /* a POD256 */
    IPU__PARTITION_BYTES = 64,  /* name size, including the 0 */
};

#define IPU__NOT_AVAILABLE "N/A"
#define IPU__NO_ERRORS "no errors"

/* All zero gives the default partition. Strings are copied. */
typedef struct ipu__partition_spec {
    const char        *name, *file;
    int                gcd;
    const char        *target; /* a chip or system; NULL means "m2000" */
    int64_t            n_ipus; /* 0 means the system's */
    bool               fixed;  /* not reconfigurable */
    bool               hard;
    const char        *routing, *sync_type; /* NULL means "DNC", "c2-compatible" */
    int                n_replicas;
    const ipu_machine *machines; /* one per machine of the target, with NULL members for defaults; or NULL */
    size_t             n_machines;
} ipu__partition_spec;

/* Number of machines in a target of that many IPUs. */
ipu_status ipu__partition_machines(const char *target, int64_t n_ipus, size_t *out);

/* Everything except processes and errors, in `arena`. Statuses: those of ipu_target_find; INVALID;
 * OUT_OF_MEMORY. */
ipu_status ipu__partition_build(ipu__arena *arena, const ipu__partition_spec *spec, ipu_partition *out);

/* INVALID unless `name` is 1 to 63 letters, digits, '.', '_' or '-', and does not begin with '.' or '-'. */
ipu_status ipu__partition_check_name(const char *name);

/* Like printf, in `arena`; NULL on allocation failure. */
char *ipu__arena_format(ipu__arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
