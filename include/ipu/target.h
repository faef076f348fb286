/* Targets: what a program is compiled for: a chip, and how many of them.
 *
 * Chips and systems are data. Each constant of a chip carries its unit, its source and its certainty; the
 * model of the machine contains no number without a source.
 *
 *     ipu_target t;
 *     IPU_TRY(ipu_target_find("gc200", 4, &t));        four GC200s
 *     printf("%lld tiles\n", (long long)ipu_target_n_tiles(&t));
 *
 * A target is a small value that can be copied freely and need not be released.
 */
#ifndef IPU_TARGET_H
#define IPU_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "ipu/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_chip ipu_chip; /* a row of src/target/chips.inc */

typedef struct ipu_target {
    const ipu_chip *chip;
    int64_t         n_ipus;
    int64_t         tiles_per_ipu; /* the chip's, or fewer: see ipu_target_limit_tiles */
} ipu_target;

/* How far a constant can be trusted. */
typedef enum ipu_certainty {
    IPU_CERTAIN_READ,    /* read in the source named */
    IPU_CERTAIN_DERIVED, /* computed from numbers read; the source shows how */
    IPU_CERTAIN_HIGH,    /* from memory, confidence high: not a test oracle */
    IPU_CERTAIN_MEDIUM,
    IPU_CERTAIN_LOW,
    IPU_CERTAIN_DEFINED, /* defined by us (test chips) */
} ipu_certainty;

typedef struct ipu_constant {
    const char   *name; /* "bytes_per_tile" */
    double        value;
    const char   *unit; /* "B" */
    const char   *source;
    ipu_certainty certainty;
} ipu_constant;

/* A machine or pod: a chip, the number of them, and how they are connected. */
typedef struct ipu_system {
    const char *name; /* "pod16" */
    const char *chip; /* "gc200" */
    int64_t     n_ipus, n_machines;
    const char *links; /* one line: what connects its IPUs */
    const char *source;
} ipu_system;

/* The target for a chip ("gc200") or system ("pod16"), by case-insensitive name. `n_ipus` 0 means the
 * system's number, or 1 for a chip. Statuses: NOT_FOUND (the message lists all names), INVALID (not 1 or a
 * power of two up to 256, or more than the system has). */
ipu_status ipu_target_find(const char *name, int64_t n_ipus, ipu_target *out);

/* Use only the first `tiles_per_ipu` tiles of each IPU: small machines for small tests. */
ipu_status ipu_target_limit_tiles(ipu_target *target, int64_t tiles_per_ipu);

const char *ipu_target_chip_name(const ipu_target *target);
int64_t     ipu_target_n_tiles(const ipu_target *target); /* over all IPUs */
int64_t     ipu_target_bytes_per_tile(const ipu_target *target);
int64_t     ipu_target_n_workers(const ipu_target *target); /* worker threads per tile */
double      ipu_target_clock_hz(const ipu_target *target);

/* A constant of the chip by name. Statuses: NOT_FOUND (the message lists all names). */
ipu_status ipu_target_constant(const ipu_target *target, const char *name, ipu_constant *out);

/* The i-th constant, chip or system. Returns false past the last. Borrowed: static data. */
bool ipu_target_constant_at(const ipu_target *target, int i, ipu_constant *out);
bool ipu_target_chip_at(int i, const char **name, const char **summary);
bool ipu_target_system_at(int i, ipu_system *out);

const char *ipu_certainty_text(ipu_certainty certainty);

#ifdef __cplusplus
}
#endif
#endif
