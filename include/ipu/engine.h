/* Executables and engines: a compiled graph, and the machine that runs it.
 *
 *     ipu_executable *exe;
 *     ipu_engine     *e;
 *     IPU_TRY(ipu_executable_compile(g, (ipu_program[]){p}, 1, NULL, &exe));
 *     IPU_TRY(ipu_engine_create(exe, NULL, &e));
 *     IPU_TRY(ipu_engine_write(e, "x", data, sizeof data));
 *     IPU_TRY(ipu_engine_run(e, 0));
 *     IPU_TRY(ipu_engine_read(e, "y", result, sizeof result));
 *
 * An executable is immutable, does not need its graph once made, and may be used by any number of threads and
 * engines at once. An engine is used by one thread at a time, except for ipu_engine_interrupt; different
 * engines can run concurrently. A variable keeps its value from run to run of an engine if some program reads
 * it before writing it, or if the host can access it; the others share memory.
 *
 * Engines of an executable compiled with the option "check" run in checking mode (docs/checking.md): slowly,
 * on copies, reporting elements that are read but never written and vertices that write where they must not.
 * A run with such a finding is ABORTED, and a host read of undefined elements is INVALID.
 *
 * An engine has threads: a forked child cannot use it (IPU_FORKED) and must create its own.
 */
#ifndef IPU_ENGINE_H
#define IPU_ENGINE_H

#include "ipu/device.h"
#include "ipu/options.h"
#include "ipu/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_executable ipu_executable;
typedef struct ipu_engine     ipu_engine;

/* Check everything about `programs` and what they use; report up to 20 problems at once, each with the user's
 * file and line. Codelets without a body are allowed. Statuses: those of ipu_executable_compile. */
ipu_status ipu_graph_check(ipu_graph *g, const ipu_program *programs, size_t n);

/* Compile. Program i is run by ipu_engine_run(e, i). `options` may be NULL for the defaults. Owned:
 * ipu_executable_release. Statuses: the graph's own error, INVALID (what ipu_graph_check finds), INTERRUPTED
 * (by the progress callback), OUT_OF_MEMORY. */
ipu_status ipu_executable_compile(ipu_graph *g, const ipu_program *programs, size_t n,
                                  const ipu_options *options, ipu_executable **out);

/* Called now and then with done <= total; returning false stops the compilation. Set per thread, for the
 * compilations that thread starts. NULL for none. */
typedef bool (*ipu_progress_fn)(void *user, int done, int total);
void ipu_set_compile_progress(ipu_progress_fn fn, void *user);

ipu_executable *ipu_executable_retain(ipu_executable *exe);
void            ipu_executable_release(ipu_executable *exe);
size_t          ipu_executable_n_programs(const ipu_executable *exe);

/* Bytes of host memory that an engine will hold for variables: with sharing (*planned) and without. */
void ipu_executable_memory(const ipu_executable *exe, int64_t *planned, int64_t *unshared);

/* ---- executables as files ---- */

/* Write to a file atomically: readers see either the old file or the new one. */
ipu_status ipu_executable_save(const ipu_executable *exe, const char *path);

/* Read what ipu_executable_save wrote. Precompiled codelets are looked up by name among the `n` of
 * `codelets`, and their fields must match the file's. Codelets that the graph compiled from source travel as
 * source and are compiled here if the file belongs to the effective user and nobody else may write to it, or
 * if the option "load.trust" is true. The whole file is checked: a damaged or forged one is an error. Owned:
 * ipu_executable_release. Statuses: INVALID (not an executable, or of another format version; damaged or
 * forged; a codelet's fields differ; untrusted source), NOT_FOUND (a codelet), IO, UNSUPPORTED (no compiler),
 * OUT_OF_MEMORY. */
ipu_status ipu_executable_load(const char *path, const ipu_codelet *const *codelets, size_t n,
                               const ipu_options *options, ipu_executable **out);

/* The same in memory. `*data` is owned: ipu_free. Source is compiled only with "load.trust". */
ipu_status ipu_executable_serialise(const ipu_executable *exe, void **data, size_t *bytes);
ipu_status ipu_executable_deserialise(const void *data, size_t bytes, const ipu_codelet *const *codelets,
                                      size_t n, const ipu_options *options, ipu_executable **out);

/* An engine with its own memory and threads, variables at their initial values. Retains `exe`. Holds IPUs of the
 * active partition (ipu/device.h): those the process has already attached, if there are enough and their chip is the
 * program's, or others; the options "device.attach" and "device.wait" control when it attaches and how long it waits.
 * Owned: ipu_engine_destroy. Statuses: those of ipu_device_open_any and ipu_device_attach, INVALID, OUT_OF_MEMORY. */
ipu_status ipu_engine_create(ipu_executable *exe, const ipu_options *options, ipu_engine **out);
/* The same on a device of the caller's, whatever its chip; attaches it if necessary. Statuses: also INVALID
 * (it has too few IPUs). */
ipu_status ipu_engine_create_on(ipu_executable *exe, const ipu_options *options, ipu_device *device,
                                ipu_engine **out);
void       ipu_engine_destroy(ipu_engine *e);
/* The kind of engine: "cpu". */
const char *ipu_engine_name(const ipu_engine *e);
/* The i-th engine that the option "engine" (IPU_ENGINE) can name, with a one-line summary; NULL past the last. The
 * first is the default. Static. */
const char *ipu_engine_at(int i, const char **summary);
/* The device it is on, possibly shared with other engines of the process. Borrowed; NULL if it has none
 * (option "device.attach"). */
ipu_device *ipu_engine_device(ipu_engine *e);

/* Run program `i`. Statuses: INVALID (no such program, a stream not connected), ABORTED (the program stopped
 * itself: a failed vertex, AbortOnCondition, a row out of range, diverging replicas), INTERRUPTED, FORKED,
 * DEVICE_ERROR, those of ipu_device_attach if it must attach, or whatever a stream callback returned. After
 * any of these the engine can run again; variables hold what was computed so far. */
ipu_status ipu_engine_run(ipu_engine *e, size_t i);

/* Stop the run in progress, or the next one, at its next step. May be called from any thread or signal
 * handler. */
void ipu_engine_interrupt(ipu_engine *e);

/* ---- streams ---- */

/* Connect a stream to memory, used as a ring: `bytes` is a multiple of a transfer, each transfer uses the
 * next part, and after the last comes the first. Borrowed until reconnected. With several replicas and mode
 * REPLICATE, each connection serves one replica. */
ipu_status ipu_engine_connect_stream(ipu_engine *e, const char *handle, void *data, size_t bytes);
ipu_status ipu_engine_connect_stream_replica(ipu_engine *e, const char *handle, int64_t replica, void *data,
                                             size_t bytes);

/* Called for every transfer, on the thread that runs: fill `data`, or read from it without changing it (it may be the
 * variable itself). The bodies of a parallel step (ipu/program.h) run on the engine's own threads, and so do their
 * callbacks, those of different bodies concurrently. Any status but IPU_OK stops the run with that status. Must not use
 * the engine, except for ipu_engine_interrupt. */
typedef ipu_status (*ipu_stream_fn)(void *user, void *data, size_t bytes);
ipu_status ipu_engine_connect_callback(ipu_engine *e, const char *handle, ipu_stream_fn fn, void *user);
ipu_status ipu_engine_connect_callback_replica(ipu_engine *e, const char *handle, int64_t replica,
                                               ipu_stream_fn fn, void *user);

/* For a stream to the device whose data are already in memory: called for every transfer, returns where the next
 * `bytes` are. They must stay there unchanged until the next call or the end of the run: kernels read them in place
 * if they can (they are aligned to 16 bytes and nothing else needs them); otherwise all threads of the engine share
 * in copying them. Returning NULL stops the run with ABORTED. */
typedef const void *(*ipu_stream_lend_fn)(void *user, size_t bytes);
ipu_status ipu_engine_connect_lender_replica(ipu_engine *e, const char *handle, int64_t replica,
                                             ipu_stream_lend_fn lend, void *user);

/* For a stream to the host that should deliver into existing memory: called for every transfer, returns where the
 * next `bytes` go; all threads of the engine share in copying them there. NULL discards them. */
typedef void *(*ipu_stream_place_fn)(void *user, size_t bytes);
ipu_status ipu_engine_connect_place_replica(ipu_engine *e, const char *handle, int64_t replica,
                                            ipu_stream_place_fn place, void *user);

/* ---- host access between runs ---- */

/* `bytes` is the tensor's size. Writes go to all replicas, reads come from replica 0. */
ipu_status ipu_engine_write(ipu_engine *e, const char *handle, const void *data, size_t bytes);
ipu_status ipu_engine_read(ipu_engine *e, const char *handle, void *data, size_t bytes);
ipu_status ipu_engine_write_replica(ipu_engine *e, const char *handle, int64_t replica, const void *data,
                                    size_t bytes);
ipu_status ipu_engine_read_replica(ipu_engine *e, const char *handle, int64_t replica, void *data,
                                   size_t bytes);

/* One row of a remote buffer. */
ipu_status ipu_engine_write_remote(ipu_engine *e, const char *handle, int64_t replica, int64_t row,
                                   const void *data, size_t bytes);
ipu_status ipu_engine_read_remote(ipu_engine *e, const char *handle, int64_t replica, int64_t row, void *data,
                                  size_t bytes);

/* What the engine has done since it was created. */
typedef struct ipu_engine_counters {
    int64_t runs, supersteps, vertices, copied_bytes, streamed_bytes;
    int     threads;
} ipu_engine_counters;
void ipu_engine_get_counters(const ipu_engine *e, ipu_engine_counters *out);

/* ---- how it runs kernels on this host ---- */

/* Strings are static. Numbers are for one replica and one run of the kernel. */
typedef struct ipu_engine_kernel {
    const char *name; /* of the op: "conv" */
    /* The one chosen: "winograd"; "reference" if none fits; "nothing" if there is no result. */
    const char *implementation;
    int         n_operands, n_parts;
    /* Slices of the batch, when run slice by slice together with its neighbours; 1: as a whole. */
    int64_t n_chunks;
    double  operations;
    double  turned_bytes; /* of operands converted to the implementation's memory layout */
} ipu_engine_kernel;

typedef struct ipu_engine_operand {
    const char *name;   /* "x" */
    const char *layout; /* "plain" (row-major), "lanes" or "blocked": see docs/performance.md */
    ipu_type    type;
    ipu_shape   shape;
    bool        is_output, is_absent; /* absent: no elements, or an optional operand that was not given */
} ipu_engine_operand;

/* In the order of the executable. Returns false past the last. */
bool ipu_engine_kernel_at(const ipu_engine *e, size_t i, ipu_engine_kernel *out);
bool ipu_engine_operand_at(const ipu_engine *e, size_t i, int operand, ipu_engine_operand *out);

#ifdef __cplusplus
}
#endif
#endif
