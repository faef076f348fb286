/* Processes that work together: who this one is, and what they add up and share.
 *
 * Under a launcher (mpirun, poprun) the processes it started are one group, over MPI; a process started by itself is a
 * group of one, and MPI need not be installed.
 *
 *     ipu_comm *comm;
 *     IPU_TRY(ipu_comm_open(&comm));
 *     printf("%lld of %lld\n", (long long)ipu_comm_rank(comm), (long long)ipu_comm_size(comm));
 *     IPU_TRY(ipu_comm_all_reduce(comm, IPU_FLOAT, sums, n));
 *     ipu_comm_close(comm);
 *
 * All processes of the group make the same calls in the same order. Sums are added in one order whatever the
 * process, so that all have the same bits. A process that is gone ends the others, and one that leaves, or makes other
 * calls, fails those who wait for it (IO): see docs/distributed.md.
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

/* The group this process was started in; once per process. Owned: ipu_comm_close. Statuses: NOT_FOUND (started by a
 * launcher of MPI, but the part of OpenIPU that speaks it is not there: the message says what to install), INVALID
 * (not a power of two of processes). */
ipu_status ipu_comm_open(ipu_comm **out);
void       ipu_comm_close(ipu_comm *comm);

int64_t ipu_comm_rank(const ipu_comm *comm); /* NULL: 0 */
int64_t ipu_comm_size(const ipu_comm *comm); /* NULL: 1 */

/* Add up `n` elements, float or double, over all; in place. */
ipu_status ipu_comm_all_reduce(ipu_comm *comm, ipu_type type, void *data, size_t n);
/* `bytes` of rank `root` to all. */
ipu_status ipu_comm_broadcast(ipu_comm *comm, int64_t root, void *data, size_t bytes);
/* `bytes` of each, one after another by rank, to rank `root`; `all` is not looked at elsewhere. */
ipu_status ipu_comm_gather(ipu_comm *comm, int64_t root, const void *data, size_t bytes, void *all);
ipu_status ipu_comm_barrier(ipu_comm *comm);

typedef struct ipu_comm_item {
    const char *name, *value;
} ipu_comm_item;

/* Whether all were started alike: `n` names with their values, and the version of OpenIPU, are those of rank 0.
 * Statuses: INVALID in all of them, with the same message, which says what rank differs in what. */
ipu_status ipu_comm_agree(ipu_comm *comm, const ipu_comm_item *items, size_t n);

/* End all processes of the group, this one too: what a tool does that cannot go on. */
void ipu_comm_abort(ipu_comm *comm, int exit_status);

/* What the all-reduce steps of an engine's programs go over; borrowed until the engine is gone. NULL: alone. All
 * processes call it. Statuses: INVALID in all of them (their programs add up other things). */
ipu_status ipu_engine_join(ipu_engine *e, ipu_comm *comm);
/* Seconds that steps of the engine waited for others, and bytes sent, since it was created. */
void ipu_engine_comm_counters(const ipu_engine *e, double *waited, int64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
