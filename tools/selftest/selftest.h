/* Self-tests: tools that have a device to themselves, run programs on it, and check what comes back.
 *
 *     selftest s;
 *     tool_exit code = selftest_begin(&s, args->values[MEMORYTEST_DEVICE]);
 *     if (code == TOOL_OK) code = measure(&s);
 *     return selftest_end(&s, code);
 *
 * All that they measure is the time of this host's virtual IPUs; what a chip would take is an estimate of the
 * cost model, and is called modelled wherever it is shown. A signal ends a test between two runs, with the
 * device free.
 */
#ifndef TOOLS_SELFTEST_SELFTEST_H
#define TOOLS_SELFTEST_SELFTEST_H

#include <jansson.h>

#include "device/devices.h"
#include "ipu/engine.h"
#include "train/progress.h"

typedef struct selftest {
    ipu_device_list       *list;
    const ipu_partition   *partition;
    const ipu_device_info *info; /* the device */
    ipu_device            *device;
    ipu_target             target; /* all IPUs of the device */
    progress               progress;
    double                 began;
} selftest;

/* Attaches to device `id`, a text; NULL: the one of IPU_DEVICE_ID, or 0. Any result goes to selftest_end. */
tool_exit selftest_begin(selftest *s, const char *id);
/* The same, but the whole partition, not 0. */
tool_exit selftest_begin_all(selftest *s, const char *id);
/* The same in two steps, where the device depends on what the partition has. */
tool_exit selftest_look(selftest *s);
tool_exit selftest_attach(selftest *s, int id);
/* Lets go. Returns `code`, or that of the signal which stopped it. */
tool_exit selftest_end(selftest *s, tool_exit code);

bool selftest_is_stopped(void);

/* Reports the library's last error; returns TOOL_FAILED. */
tool_exit selftest_fail(void);

/* Return early from a function that itself returns tool_exit. */
#define SELFTEST_TRY(call)                \
    do {                                  \
        tool_exit try_ = (call);          \
        if (try_ != TOOL_OK) return try_; \
    } while (0)

/* The number that option `option` (of name `name`) was given, within least..most; not given: *out stays. */
bool selftest_option(const tool_arguments *args, int option, const char *name, int64_t least, int64_t most,
                     int64_t *out);

/* Are there so many tiles on an IPU? 0 becomes all of them. */
tool_exit selftest_tiles(const selftest *s, int64_t *tiles);

/* Host memory that a test may take: half of what is free, in bytes. */
double selftest_memory(void);
/* Reports it if `bytes` are more than that; `advice` says what to do. */
bool selftest_has_memory(double bytes, const char *advice);

/* ---- programs ---- */

/* A graph for all tiles of the device. Owned: ipu_graph_destroy. NULL: reported. */
ipu_graph *selftest_graph(const selftest *s);
/* What one run of each would take on the chip, by the model, in seconds. */
ipu_status selftest_price(ipu_graph *g, const ipu_program *programs, size_t n, double *seconds);
/* Compiles and loads. Owned: ipu_engine_destroy; NULL after a failure, which is reported. */
tool_exit selftest_load(const selftest *s, ipu_graph *g, const ipu_program *programs, size_t n,
                        ipu_engine **out);
/* One run. `seconds` grows by its time. A signal that has come is TOOL_INTERRUPTED, without a message. */
tool_exit selftest_run(ipu_engine *e, size_t program, double *seconds);

/* Does the model have this constant of the chip? What needs one that it lacks reads N/A. */
bool selftest_knows(const selftest *s, const char *constant);

/* ---- showing ---- */

/* On a terminal, for what takes more than a second: "IPU 3  45% [====>    ]". */
void selftest_show(selftest *s, const char *what, int64_t done, int64_t total);

/* In JSON every value is text. False: out of memory. */
bool selftest_set(json_t *object, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the output of a test that came to its end, well or not: JSON, if there is `out`, with an object
 * "measurement" that says what was measured and for which chip figures are modelled; or the same as a last
 * line of text. Owns `out`. Returns `verdict`, or that the output could not be written. */
tool_exit selftest_finish(selftest *s, tool_exit verdict, json_t *out);

#endif
