/* Thread pools: the threads of one engine.
 *
 * The caller is thread 0; the pool holds the others. They spin for some microseconds between jobs and then
 * sleep, so that an idle pool does not take CPU time from others.
 *
 *     ipu__pool_run(pool, job, &work);        job(&work, part, n_parts) once per thread, then returns
 */
#ifndef IPU_BASE_HOST_POOL_H
#define IPU_BASE_HOST_POOL_H

#include <stdbool.h>

#include "base/status.h"

typedef struct ipu__pool ipu__pool;
typedef void (*ipu__job_fn)(void *work, int part, int n_parts);

/* `n_threads` >= 1, including the caller. Threads start with all signals blocked. */
ipu_status ipu__pool_create(int n_threads, ipu__pool **out);
/* Joins the threads. NULL is allowed. In a forked child, where the threads do not exist, it only frees
 * memory. */
void ipu__pool_destroy(ipu__pool *pool);
int  ipu__pool_n_threads(const ipu__pool *pool);

/* Runs parts 1.. on the threads and part 0 here; returns when all are done. Parts not started by the time part 0 is
 * done run here, too. Does not allocate. One caller at a time. */
void ipu__pool_run(ipu__pool *pool, ipu__job_fn job, void *work);
/* The same, but always with each part on its own thread. */
void ipu__pool_run_each(ipu__pool *pool, ipu__job_fn job, void *work);

/* From now on the caller of ipu__pool_run runs all parts, in order, while the threads sleep. */
void ipu__pool_set_alone(ipu__pool *pool, bool alone);

/* Number of threads this process may use, at least 1, respecting affinity and cgroup quotas. */
int ipu__pool_default_threads(void);

/* The cgroup part of that, for testing: CPUs that the groups in `membership` (the text of
 * /proc/self/cgroup, which is modified) may use, with `root` in place of /sys/fs/cgroup. INT_MAX if there
 * is no quota. */
int ipu__pool_quota(const char *root, char *membership);

#endif
