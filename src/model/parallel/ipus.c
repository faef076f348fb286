/* IPUs: how many a network needs, and the target it is lowered for. */
#include <inttypes.h>

#include "ipu/target.h"
#include "model/parallel/parallel.h"

void ipu__parallel_fini(ipu__parallel *o)
{
    ipu__array_fini(&o->inputs);
    ipu__array_fini(&o->outputs);
}

static bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

int64_t ipu__parallel_ipus_per_replica(const ipu__parallel *o, int64_t n_stages)
{
    int64_t n = 0;
    for (size_t i = 0; i < o->n_stage_ipus; i++)
        if (o->stage_ipus[i] >= n) n = o->stage_ipus[i] + 1;
    if (n == 0) n = n_stages;
    while (o->round_ipus && !is_power_of_two(n)) n += n & -n;
    return n;
}

ipu_status ipu__parallel_target(const ipu__parallel *o, int64_t n_ipus, ipu_target *out)
{
    IPU_TRY(ipu_target_find(o->target, n_ipus, out));
    return o->tiles_per_ipu > 0 ? ipu_target_limit_tiles(out, o->tiles_per_ipu) : IPU_OK;
}

ipu_status ipu__parallel_check_ipus(const ipu__parallel *o, int64_t n_stages)
{
    int64_t    each = ipu__parallel_ipus_per_replica(o, n_stages), n = each * o->replicas;
    ipu_target target;
    if (each > IPU__MOST_REPLICAS)
        return ipu__fail(IPU_INVALID,
                         "%" PRId64 " stages are on %" PRId64 " IPUs: expected at most %d for a replica: put "
                         "several on the same (stage_ipus), or cut the network less often",
                         n_stages, each, IPU__MOST_REPLICAS);
    if (!is_power_of_two(n))
        return ipu__fail(IPU_INVALID,
                         "option replicas/stage_ipus: %" PRId64 " stages on %" PRId64 " IPUs x %" PRId64
                         " replicas are %" PRId64 " IPUs: expected 1 or a power of two: put stages on "
                         "the same IPU (stage_ipus), make another, or ask for more IPUs (round_ipus)",
                         n_stages, each, o->replicas, n);
    return ipu__parallel_target(o, n, &target);
}
