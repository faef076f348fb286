/* Thread pools: the threads of one engine.
 *
 * The caller is thread 0; the pool holds the others. They spin for some microseconds between
 * jobs and then sleep, so that an idle or overcommitted machine is not burnt.
 *
 *     ipu__pool_run(pool, job, &work);        job(&work, part, n_parts) once per thread, then returns
 */
#ifndef IPU_BASE_HOST_POOL_H
#define IPU_BASE_HOST_POOL_H

#include <stdbool.h>

#include "base/status.h"

typedef struct ipu__pool ipu__pool;
typedef void (*ipu__job_fn)(void *work, int part, int n_parts);

/* `n_threads` >= 1, the caller included. Threads are started with all signals blocked. */
ipu_status ipu__pool_create(int n_threads, ipu__pool **out);
/* Joins the threads. NULL: nothing. In a forked child the threads do not exist: only memory is freed. */
void ipu__pool_destroy(ipu__pool *pool);
int  ipu__pool_n_threads(const ipu__pool *pool);

/* Runs parts 1.. on the threads and part 0 here; returns when all are done. A part that its thread has not begun with
 * by the time part 0 is done runs here, too. No allocation. One caller at a time. */
void ipu__pool_run(ipu__pool *pool, ipu__job_fn job, void *work);
/* The same, each part on its own thread in any case. */
void ipu__pool_run_each(ipu__pool *pool, ipu__job_fn job, void *work);

/* From now on ipu__pool_run has the caller run all parts, in their order; the threads sleep. */
void ipu__pool_set_alone(ipu__pool *pool, bool alone);

/* Threads this process may use (affinity and cgroup quota respected), at least 1. */
int ipu__pool_default_threads(void);

/* The part of it about cgroups, for its test: CPUs that the groups in `membership` (the text of
 * /proc/self/cgroup, which is cut up) may use, `root` standing for /sys/fs/cgroup. INT_MAX: no quota. */
int ipu__pool_quota(const char *root, char *membership);

#endif
