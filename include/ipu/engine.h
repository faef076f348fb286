/* Executables and engines: a graph compiled, and a machine that runs it.
 *
 *     ipu_executable *exe;
 *     ipu_engine     *e;
 *     IPU_TRY(ipu_executable_compile(g, (ipu_program[]){p}, 1, NULL, &exe));
 *     IPU_TRY(ipu_engine_create(exe, NULL, &e));
 *     IPU_TRY(ipu_engine_write(e, "x", data, sizeof data));
 *     IPU_TRY(ipu_engine_run(e, 0));
 *     IPU_TRY(ipu_engine_read(e, "y", result, sizeof result));
 *
 * An executable does not need its graph any more, is never changed once made, and may be used by
 * any number of threads and engines at once. An engine is used by one thread at a time, except for
 * ipu_engine_interrupt; different engines run side by side. Variables keep their values
 * from run to run of one engine if some program reads them before it writes them, or the host can
 * reach them; others share memory.
 *
 * Compiled with the option "check", its engines run in checking mode (docs/checking.md): slowly, on
 * copies, telling of elements that are read and never written and of vertices that write where they must
 * not. Then a run with such a finding is ABORTED, and a read of elements without a value INVALID.
 *
 * An engine has threads: a child made by fork cannot use it (IPU_FORKED) and must create its own.
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

/* Check everything about `programs` and what they use; report up to 20 problems at once, each
 * with the user's file and line. Codelets may be known by their signatures only. Statuses: those of
 * ipu_executable_compile. */
ipu_status ipu_graph_check(ipu_graph *g, const ipu_program *programs, size_t n);

/* Compile. Program i is run by ipu_engine_run(e, i). `options` NULL: the defaults.
 * Owned: ipu_executable_release. Statuses: the graph's own error, INVALID (what ipu_graph_check
 * finds), INTERRUPTED (the progress callback said so), OUT_OF_MEMORY. */
ipu_status ipu_executable_compile(ipu_graph *g, const ipu_program *programs, size_t n,
                                  const ipu_options *options, ipu_executable **out);

/* Called now and then with done <= total; false stops the compilation. Set per thread: it holds for
 * the compilations this thread starts. NULL: none. */
typedef bool (*ipu_progress_fn)(void *user, int done, int total);
void ipu_set_compile_progress(ipu_progress_fn fn, void *user);

ipu_executable *ipu_executable_retain(ipu_executable *exe);
void            ipu_executable_release(ipu_executable *exe);
size_t          ipu_executable_n_programs(const ipu_executable *exe);

/* Bytes of host memory an engine will hold for variables, in all and without sharing. */
void ipu_executable_memory(const ipu_executable *exe, int64_t *planned, int64_t *unshared);

/* ---- executables as files ---- */

/* Write to a file, at one stroke: readers see the old file or the new one. */
ipu_status ipu_executable_save(const ipu_executable *exe, const char *path);

/* Read what ipu_executable_save wrote. Codelets that were compiled in are found by name among the `n` of
 * `codelets`, and their fields must be those the file says. Codelets that a graph compiled from source
 * travel as source and are compiled here, if the file is the effective user's, nobody else may write to
 * it, or the option "load.trust" is true. The file is checked as a whole: a damaged or forged one gives an
 * error. Owned: ipu_executable_release. Statuses: INVALID (it is no executable, of another format, damaged
 * or forged; a codelet's fields differ; source that is not trusted), NOT_FOUND (a codelet), IO,
 * UNSUPPORTED (no compiler), OUT_OF_MEMORY. */
ipu_status ipu_executable_load(const char *path, const ipu_codelet *const *codelets, size_t n,
                               const ipu_options *options, ipu_executable **out);

/* The same in memory. `*data` is owned: ipu_free. Source is compiled only with "load.trust". */
ipu_status ipu_executable_serialise(const ipu_executable *exe, void **data, size_t *bytes);
ipu_status ipu_executable_deserialise(const void *data, size_t bytes, const ipu_codelet *const *codelets,
                                      size_t n, const ipu_options *options, ipu_executable **out);

/* An engine with its own memory and threads, variables at their initial values. Retains `exe`. Holds IPUs of the
 * active partition (ipu/device.h): those the process has attached already, if they are enough and of the
 * program's chip, or others; options "device.attach" and "device.wait" say when, and how long it waits.
 * Owned: ipu_engine_destroy. Statuses: those of ipu_device_open_any and ipu_device_attach, INVALID, OUT_OF_MEMORY. */
ipu_status ipu_engine_create(ipu_executable *exe, const ipu_options *options, ipu_engine **out);
/* The same on a device of the caller's, whatever its chip; it is attached if it is not. INVALID: it has too few IPUs. */
ipu_status ipu_engine_create_on(ipu_executable *exe, const ipu_options *options, ipu_device *device,
                                ipu_engine **out);
void       ipu_engine_destroy(ipu_engine *e);
/* What computes: "cpu". */
const char *ipu_engine_name(const ipu_engine *e);
/* The i-th that the option "engine" (IPU_ENGINE) can name, and a line about it; NULL past the last. The first is the default.
 * Static. */
const char *ipu_engine_at(int i, const char **summary);
/* What it is on, which other engines of the process may be on too. Borrowed; NULL: on none (option "device.attach"). */
ipu_device *ipu_engine_device(ipu_engine *e);

/* Run program `i`. Statuses: INVALID (no such program, a stream not connected), ABORTED (the program
 * stopped itself: a failed vertex, AbortOnCondition, a row out of range, replicas that diverge),
 * INTERRUPTED, FORKED, DEVICE_ERROR, those of ipu_device_attach if it is not attached, or what a stream
 * callback returned. After any of these the engine can run again; variables hold what had been computed. */
ipu_status ipu_engine_run(ipu_engine *e, size_t i);

/* Stop the run in progress, or the next one, at its next step. From any thread or signal handler. */
void ipu_engine_interrupt(ipu_engine *e);

/* ---- streams ---- */

/* Connect a stream to memory, used as a ring: `bytes` is a multiple of a transfer, each transfer takes
 * the next part, the last is followed by the first. Borrowed until connected anew. With several
 * replicas and mode REPLICATE, each connection serves one replica. */
ipu_status ipu_engine_connect_stream(ipu_engine *e, const char *handle, void *data, size_t bytes);
ipu_status ipu_engine_connect_stream_replica(ipu_engine *e, const char *handle, int64_t replica, void *data,
                                             size_t bytes);

/* Called for every transfer, on the thread that runs: fill `data`, or take from it and leave it as it is (it may be the
 * variable itself). The bodies of a parallel step (ipu/program.h) run on threads of the engine's own, and so do their
 * callbacks, those of different bodies at the same time. Anything but IPU_OK stops the run with that status. Must not
 * use the engine, but for ipu_engine_interrupt. */
typedef ipu_status (*ipu_stream_fn)(void *user, void *data, size_t bytes);
ipu_status ipu_engine_connect_callback(ipu_engine *e, const char *handle, ipu_stream_fn fn, void *user);
ipu_status ipu_engine_connect_callback_replica(ipu_engine *e, const char *handle, int64_t replica,
                                               ipu_stream_fn fn, void *user);

/* For a stream to the device whose data lie in memory already: called for every transfer like a callback, says where
 * the next `bytes` are. They stay there as they are until the next call or the end of the run: kernels read them in
 * place where they can (aligned to 16 bytes; nothing else needs them), or all threads of the engine copy them
 * together. NULL stops the run with ABORTED. */
typedef const void *(*ipu_stream_lend_fn)(void *user, size_t bytes);
ipu_status ipu_engine_connect_lender_replica(ipu_engine *e, const char *handle, int64_t replica,
                                             ipu_stream_lend_fn lend, void *user);

/* For a stream to the host whose data shall lie in memory that there is: called for every transfer, says where the
 * next `bytes` go, and all threads of the engine copy them there together. NULL: they are not wanted. */
typedef void *(*ipu_stream_place_fn)(void *user, size_t bytes);
ipu_status ipu_engine_connect_place_replica(ipu_engine *e, const char *handle, int64_t replica,
                                            ipu_stream_place_fn place, void *user);

/* ---- host access between runs ---- */

/* `bytes` is the tensor's size. Write: to all replicas. Read: from replica 0. */
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

/* What the engine did since it was made. */
typedef struct ipu_engine_counters {
    int64_t runs, supersteps, vertices, copied_bytes, streamed_bytes;
    int     threads;
} ipu_engine_counters;
void ipu_engine_get_counters(const ipu_engine *e, ipu_engine_counters *out);

/* ---- how it runs kernels on this host ---- */

/* Texts are static. Numbers are of one replica and one run of the kernel. */
typedef struct ipu_engine_kernel {
    const char *name; /* of the op: "conv" */
    const char *
        implementation; /* that was chosen: "winograd"; "reference": none fits; "nothing": it has no result */
    int n_operands, n_parts;
    int64_t
        n_chunks; /* it runs with its neighbours, so many parts of the batch one after the other; 1: as a whole */
    double operations;
    double turned_bytes; /* of operands between kernels that do not lie as the implementation works on them */
} ipu_engine_kernel;

typedef struct ipu_engine_operand {
    const char *name;   /* "x" */
    const char *layout; /* "plain" (row-major), "lanes" or "blocked": docs/performance.md */
    ipu_type    type;
    ipu_shape   shape;
    bool        is_output, is_absent; /* absent: it has no elements, or is optional and was not given */
} ipu_engine_operand;

/* In the order of the executable. False: there is no such one. */
bool ipu_engine_kernel_at(const ipu_engine *e, size_t i, ipu_engine_kernel *out);
bool ipu_engine_operand_at(const ipu_engine *e, size_t i, int operand, ipu_engine_operand *out);

#ifdef __cplusplus
}
#endif
#endif
