/* Groups of cooperating processes: ranks, sums and broadcasts.
 *
 * The processes started by a launcher (mpirun, poprun) form one group, over MPI. A process started on its own is a
 * group of one and does not need MPI.
 *
 *     ipu_comm *comm;
 *     IPU_TRY(ipu_comm_open(&comm));
 *     printf("%lld of %lld\n", (long long)ipu_comm_rank(comm), (long long)ipu_comm_size(comm));
 *     IPU_TRY(ipu_comm_all_reduce(comm, IPU_FLOAT, sums, n));
 *     ipu_comm_close(comm);
 *
 * All processes of the group must make the same calls in the same order. Sums are added in the same order everywhere,
 * so results are bit-identical. A process that dies takes the others with it; one that leaves, or makes different
 * calls, fails those that wait for it (IO): see docs/distributed.md.
 */
#ifndef IPU_COMM_H
#define IPU_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "ipu/engine.h"
#include "ipu/status.h"
#include "ipu/type.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_comm ipu_comm;

/* The group this process was started in; can be opened once per process. Owned: ipu_comm_close. Statuses:
 * NOT_FOUND (started by an MPI launcher, but OpenIPU's MPI plugin is not installed; the message says what to
 * install), INVALID (the number of processes is not a power of two). */
ipu_status ipu_comm_open(ipu_comm **out);
void       ipu_comm_close(ipu_comm *comm);

int64_t ipu_comm_rank(const ipu_comm *comm); /* 0 if NULL */
int64_t ipu_comm_size(const ipu_comm *comm); /* 1 if NULL */

/* Sum `n` elements, float or double, over all processes; in place. */
ipu_status ipu_comm_all_reduce(ipu_comm *comm, ipu_type type, void *data, size_t n);
/* Send `bytes` from rank `root` to all. */
ipu_status ipu_comm_broadcast(ipu_comm *comm, int64_t root, void *data, size_t bytes);
/* Collect `bytes` from each process at rank `root`, in rank order; `all` is ignored elsewhere. */
ipu_status ipu_comm_gather(ipu_comm *comm, int64_t root, const void *data, size_t bytes, void *all);
ipu_status ipu_comm_barrier(ipu_comm *comm);

typedef struct ipu_comm_item {
    const char *name, *value;
} ipu_comm_item;

/* Check that all processes were started alike: the same `n` names and values, and the same version of OpenIPU,
 * as rank 0. Statuses: INVALID in all of them, with the same message, which says which rank differs and in
 * what. */
ipu_status ipu_comm_agree(ipu_comm *comm, const ipu_comm_item *items, size_t n);

/* End all processes of the group, this one included; for tools that cannot continue. */
void ipu_comm_abort(ipu_comm *comm, int exit_status);

/* Sets the group that the all-reduce steps of an engine's programs use; NULL for this process alone. Borrowed
 * for the lifetime of the engine. All processes must call it. Statuses: INVALID in all of them (their programs
 * reduce different things). */
ipu_status ipu_engine_join(ipu_engine *e, ipu_comm *comm);
/* Seconds the engine's steps have waited for other processes, and bytes sent, since it was created. */
void ipu_engine_comm_counters(const ipu_engine *e, double *waited, int64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
