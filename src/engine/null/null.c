/* The null engine: runs programs without computing anything.
 *
 * Control flow, streams, callbacks, remote buffers and host access are done by src/engine/run as on any engine;
 * variables have no memory and read as zeros. What remains is the overhead of running, and of a program's own
 * callbacks. It is also the smallest possible engine, a starting point for new ones: docs/engines.md goes through it.
 */
#include <string.h>

#include "engine/engine.h"

/* In a real engine e->own would be the memory of all replicas, with the executable's constants, and what
 * kernels need. */
static ipu_status create(ipu_engine *e)
{
    e->own = NULL;
    return IPU_OK;
}

static void destroy(ipu_engine *e) { (void)e; }

static ipu_status execute(ipu__runner *l, const ipu__instruction *i)
{
    (void)l, (void)i;
    return IPU_OK;
}

/* One kernel at a time: *n stays 1. Look kernels up in `create`, not here. */
static ipu_status kernel(ipu__runner *l, const ipu__instruction *i, uint32_t *n)
{
    (void)l, (void)i;
    *n = 1;
    return IPU_OK;
}

static ipu_status move(ipu__runner *l, uint32_t batch, const int64_t *to_replica)
{
    (void)l, (void)batch, (void)to_replica;
    return IPU_OK;
}

/* `packed` is sent to other processes, so it must be defined. */
static ipu_status reduce(ipu__runner *l, uint32_t reduce_, unsigned what, void *packed)
{
    const ipu__exe_reduce *r = &l->e->exe->reduces.at[reduce_];
    if (packed && (what & IPU__REDUCE_ADD)) memset(packed, 0, (size_t)r->n_elements * ipu_type_size(r->type));
    return IPU_OK;
}

static ipu_status write_packed(ipu__runner *l, const ipu__exe_tensor *t, int64_t first, int64_t end,
                               const void *packed)
{
    (void)l, (void)t, (void)first, (void)end, (void)packed;
    return IPU_OK;
}

static ipu_status read_packed(ipu__runner *l, const ipu__exe_tensor *t, int64_t replica, void *packed)
{
    (void)l, (void)replica;
    if (t->bytes > 0) memset(packed, 0, (size_t)t->bytes);
    return IPU_OK;
}

const ipu__engine_def ipu__null_engine = {
    .name    = "null",
    .summary = "computes nothing: programs run through, every tensor reads as zeros",
    .create  = create,
    .destroy = destroy,
    .execute = execute,
    .kernel  = kernel,
    .move    = move,
    .reduce  = reduce,
    .write   = write_packed,
    .read    = read_packed,
};
