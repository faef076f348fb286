/* Self-tests: tools that take a device for themselves, run programs on it, and check the results.
 *
 *     selftest s;
 *     tool_exit code = selftest_begin(&s, args->values[MEMORYTEST_DEVICE]);
 *     if (code == TOOL_OK) code = measure(&s);
 *     return selftest_end(&s, code);
 *
 * They measure only the time of this host's virtual IPUs; times on a chip are estimates of the cost model,
 * and are labelled as modelled wherever shown. A signal ends a test between two runs and releases the device.
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

/* Attaches to device `id` given as text; NULL means that of IPU_DEVICE_ID, or 0. Call selftest_end whatever
 * the result. */
tool_exit selftest_begin(selftest *s, const char *id);
/* Likewise, but by default the whole partition rather than 0. */
tool_exit selftest_begin_all(selftest *s, const char *id);
/* Likewise in two steps, for when the device depends on the partition's contents. */
tool_exit selftest_look(selftest *s);
tool_exit selftest_attach(selftest *s, int id);
/* Releases everything. Returns `code`, or that of the signal which stopped the test. */
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

/* Parses the number given to `option` (called `name`), which must be within least..most; if not given, *out
 * is unchanged. */
bool selftest_option(const tool_arguments *args, int option, const char *name, int64_t least, int64_t most,
                     int64_t *out);

/* Checks that an IPU has that many tiles. 0 becomes all of them. */
tool_exit selftest_tiles(const selftest *s, int64_t *tiles);

/* Host memory a test may use, in bytes: half of what is free. */
double selftest_memory(void);
/* Reports an error if `bytes` exceed that; `advice` says what to do. */
bool selftest_has_memory(double bytes, const char *advice);

/* ---- programs ---- */

/* A graph for all tiles of the device. Owned: ipu_graph_destroy. NULL after reporting an error. */
ipu_graph *selftest_graph(const selftest *s);
/* The modelled time of one run of each program on the chip, in seconds. */
ipu_status selftest_price(ipu_graph *g, const ipu_program *programs, size_t n, double *seconds);
/* Compiles and loads. Owned: ipu_engine_destroy; NULL after reporting a failure. */
tool_exit selftest_load(const selftest *s, ipu_graph *g, const ipu_program *programs, size_t n,
                        ipu_engine **out);
/* One run, whose time is added to `seconds`. A pending signal gives TOOL_INTERRUPTED, without a message. */
tool_exit selftest_run(ipu_engine *e, size_t program, double *seconds);

/* Whether the model has this constant of the chip. Figures that need a missing one read N/A. */
bool selftest_knows(const selftest *s, const char *constant);

/* ---- showing ---- */

/* On a terminal, for work of more than a second: "IPU 3 45% [====> ]". */
void selftest_show(selftest *s, const char *what, int64_t done, int64_t total);

/* In JSON every value is text. Returns false if out of memory. */
bool selftest_set(json_t *object, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the output of a completed test, passed or failed: with `out`, as JSON with an object "measurement"
 * that says what was measured and which chip figures are modelled for; otherwise as a last line of text
 * saying the same. Owns `out`. Returns `verdict`, or an error if the output could not be written. */
tool_exit selftest_finish(selftest *s, tool_exit verdict, json_t *out);

#endif
