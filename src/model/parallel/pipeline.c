/* Pipelines: the stages of a network on their own IPUs, and when each processes which batch.
 *
 * requires: a network with stages, of which only sums of gradients, its own states and the optimizer's step
 * change between batches. See pipeline.h.
 */
#include "model/parallel/pipeline.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "graph/graph.h"

/* ---- automatic stages ---- */

static bool is_cut_here(const ipu__parallel *o, const ipu_model *net)
{
    return o->stages > 1 && net->stages.n == 0;
}

ipu_status ipu__parallel_begin_stages(const ipu__parallel *o, ipu_model *net)
{
    size_t n = net->stages.n;
    if (n > 0 && o->stages > 0 && (size_t)o->stages != n)
        return ipu__fail(
            IPU_INVALID,
            "option stages: expected %zu, as the network names its stages (from \"%s\" to \"%s\"), or 0; "
            "found %" PRId64,
            n, net->stages.at[0], net->stages.at[n - 1], o->stages);
    return is_cut_here(o, net) ? ipu__model_number_stages(net) : IPU_OK;
}

ipu_status ipu__parallel_end_stages(const ipu__parallel *o, ipu_model *net)
{
    ipu_target target;
    if (!is_cut_here(o, net)) return IPU_OK;
    IPU_TRY(ipu__parallel_target(o, 1, &target));
    return ipu__model_cut(net, (uint32_t)o->stages, &target);
}

/* ---- the schedule ---- */

static bool is_sequential(const ipu__pipeline *l) { return l->o->schedule == IPU_PIPELINE_SEQUENTIAL; }

/* Grouped: forward in even slots, backward in odd ones, each stage two slots after the one before; the last
 * goes backward right after going forward. Interleaved: each a slot after the one before, with a batch every
 * two slots. */
static void make_schedule(ipu__pipeline *l)
{
    uint32_t n = l->plan.n_stages, all = l->plan.n_positions;
    bool     has_backward = all > n;
    bool     grouped      = has_backward && l->o->schedule == IPU_PIPELINE_GROUPED;
    l->period             = is_sequential(l) ? all : has_backward ? 2 : 1;
    for (uint32_t q = 0; q < all; q++) {
        l->parts[q].offset = !grouped ? q : q < n ? 2 * q : 2 * q - 1;
        int64_t begun      = l->parts[q].offset / l->period;
        if (begun > l->warm) l->warm = begun;
    }
}

static ipu_status check_length(const ipu__pipeline *l)
{
    int64_t     n = l->plan.n_stages, least = l->o->trains ? 2 * n - 1 : n;
    const char *name = l->o->trains ? "gradient_accumulation" : "device_iterations";
    if (is_sequential(l) || l->n_batches >= least) return IPU_OK;
    return ipu__fail(IPU_INVALID,
                     "option %s: a pipeline of %" PRId64 " stages fills and empties once in %s: expected at "
                     "least %" PRId64 " (%s), found %" PRId64
                     ": raise it, use fewer stages, or schedule = IPU_PIPELINE_SEQUENTIAL",
                     name, n, l->o->trains ? "a step of the optimizer" : "a run", least,
                     l->o->trains ? "2 x stages - 1" : "the number of stages", l->n_batches);
}

/* Whether position `q` has a batch in turn `turn` of the schedule. */
static bool is_busy(const ipu__pipeline *l, uint32_t q, int64_t turn)
{
    int64_t batch = turn - l->parts[q].offset / l->period;
    return batch >= 0 && batch < l->n_batches;
}

static bool is_in_slot(const ipu__pipeline *l, uint32_t q, int64_t slot, int64_t turn)
{
    return l->parts[q].offset % l->period == slot && is_busy(l, q, turn);
}

/* Runs all IPUs at once. */
static void add_bodies(ipu__pipeline *l, ipu_program p, int64_t slot, int64_t turn)
{
    ipu_program bodies[IPU__MOST_REPLICAS];
    size_t      n = 0;
    for (int64_t ipu = 0; ipu < l->n_ipus; ipu++) {
        ipu_program body = ipu_program_sequence(l->windows[ipu]);
        bool        any  = false;
        for (uint32_t q = l->plan.n_positions; q-- > 0;) {
            if (ipu__plan_ipu(&l->plan, q) != ipu || !is_in_slot(l, q, slot, turn)) continue;
            ipu_program_add_call(body, l->parts[q].f);
            any = true;
        }
        if (any) bodies[n++] = body;
    }
    if (n == 1) ipu_program_add(p, bodies[0]);
    if (n > 1) ipu_program_add_parallel(p, bodies, n);
}

/* From the last position to the first, so that values are passed on before they are overwritten. */
static void add_exchange(ipu__pipeline *l, ipu_program p, int64_t slot, int64_t turn)
{
    for (uint32_t q = l->plan.n_positions; q-- > 0;) {
        if (!is_in_slot(l, q, slot, turn)) continue;
        for (size_t i = 0; i < l->plan.routes.n; i++)
            if (l->plan.routes.at[i].from == q && l->ways[i].crosses)
                ipu_program_add_copy(p, l->ways[i].from, l->ways[i].to);
    }
}

static void add_turn(ipu__pipeline *l, ipu_program p, int64_t turn)
{
    for (int64_t slot = 0; slot < l->period; slot++) {
        add_bodies(l, p, slot, turn);
        add_exchange(l, p, slot, turn);
    }
}

static ipu_program make_program(ipu__pipeline *l)
{
    ipu_program p = ipu_program_sequence(l->l->g), steady = ipu_program_sequence(l->l->g);
    ipu_program_add(p, l->begin);
    for (int64_t turn = 0; turn < l->warm; turn++) add_turn(l, p, turn);
    add_turn(l, steady, l->warm);
    ipu_program_add_repeat(p, l->n_batches - l->warm, steady);
    for (int64_t turn = l->n_batches; turn < l->n_batches + l->warm; turn++) add_turn(l, p, turn);
    return p;
}

/* ---- kept values ---- */

static uint32_t first_user(const ipu__pipeline *l, uint32_t id)
{
    for (uint32_t q = 0; q < l->plan.n_positions; q++)
        if (ipu__plan_uses(&l->plan, q, id)) return q;
    return 0;
}

static int64_t home_of(const ipu__pipeline *l, uint32_t id)
{
    uint32_t q = l->plan.value_position[id];
    return ipu__plan_ipu(&l->plan, q == IPU__EVERYWHERE ? first_user(l, id) : q);
}

static ipu_tensor *kept_at(const ipu__pipeline *l, int64_t ipu, uint32_t id)
{
    return &l->kept[(size_t)ipu * l->net->values.n + id];
}

/* Parameters and states of one IPU, with their handles and initial values. */
static ipu_status lower_home(ipu__pipeline *l, int64_t ipu, uint8_t *is_wanted)
{
    const ipu_model *net = l->net;
    ipu_program      none;
    memset(is_wanted, 0, net->values.n);
    for (size_t i = 0; i < net->parameters.n; i++)
        is_wanted[net->parameters.at[i]] = home_of(l, net->parameters.at[i]) == ipu;
    for (size_t i = 0; i < net->states.n; i++)
        is_wanted[net->states.at[i]] = home_of(l, net->states.at[i]) == ipu;
    ipu_model *m = ipu__plan_kept(&l->plan, is_wanted);
    if (!m) return ipu__fail_memory();
    ipu_status status = ipu_model_lower(m, l->windows[ipu], &none);
    for (uint32_t id = 1; status == IPU_OK && id < net->values.n; id++)
        if (is_wanted[id]) *kept_at(l, ipu, id) = net->tensors.at[id] = m->tensors.at[id];
    ipu_model_destroy(m);
    return status;
}

/* Other IPUs that read a value get it before the first batch: nothing changes it until the last. */
static void lower_copies(ipu__pipeline *l, uint32_t id)
{
    if (l->plan.value_position[id] != IPU__EVERYWHERE) return;
    for (uint32_t q = 0; q < l->plan.n_positions; q++) {
        int64_t     ipu = ipu__plan_ipu(&l->plan, q);
        ipu_tensor *own = kept_at(l, ipu, id), home = l->net->tensors.at[id];
        if (own->id || !ipu__plan_uses(&l->plan, q, id)) continue;
        *own = ipu_graph_add_variable(l->windows[ipu], ipu_tensor_type(home), ipu_tensor_shape(home),
                                      l->net->base.values.at[id].name);
        ipu_graph_map_linearly(l->windows[ipu], *own);
        ipu_program_add_copy(l->begin, home, *own);
    }
}

static ipu_status lower_kept(ipu__pipeline *l)
{
    ipu_model *net       = l->net;
    uint8_t   *is_wanted = ipu__alloc(net->values.n);
    ipu_status status    = is_wanted ? IPU_OK : ipu__fail_memory();
    for (int64_t i = 0; status == IPU_OK && i < l->n_ipus; i++) status = lower_home(l, i, is_wanted);
    ipu__free(is_wanted);
    for (size_t i = 0; status == IPU_OK && i < net->parameters.n; i++) lower_copies(l, net->parameters.at[i]);
    for (size_t i = 0; status == IPU_OK && i < net->states.n; i++) lower_copies(l, net->states.at[i]);
    return status;
}

/* ---- entry points ---- */

static ipu_status make_net(ipu__pipeline *l, const ipu_model *net)
{
    l->net = l->l->net = ipu__model_copy(net);
    if (!l->net) return ipu__fail_memory();
    IPU_TRY(ipu_model_optimise(l->net, IPU_PASS_DCE | IPU_PASS_FOLD));
    if (!ipu__reserve(&l->net->tensors, l->net->values.n)
        || !ipu__reserve(&l->net->output_tensors, l->net->outputs.n))
        return ipu__fail_memory();
    l->net->tensors.n        = l->net->values.n;
    l->net->output_tensors.n = l->net->outputs.n;
    for (size_t i = 0; i < l->net->tensors.n; i++) l->net->tensors.at[i] = (ipu_tensor){l->l->g, 0};
    return IPU_OK;
}

/* Stages left empty by folding and dead code elimination would only fill slots in a pipeline. */
static void make_stage_ipus(ipu__pipeline *l, bool *is_kept)
{
    const ipu__parallel *o        = l->o;
    size_t               n_stages = l->net->stages.n, n = 0;
    size_t               n_out = ipu__model_leave_out_stages(l->net, is_kept);
    if (n_out > 0)
        ipu__log(IPU_LOG_INFO, "model",
                 "%zu of %zu stages are left out: nothing in them is computed in a run", n_out, n_stages);
    for (size_t i = 0; i < n_stages; i++)
        if (is_kept[i]) l->stage_ipus[n++] = o->n_stage_ipus > 0 ? o->stage_ipus[i] : (int64_t)i;
}

static ipu_status make_stages(ipu__pipeline *l)
{
    const ipu__parallel *o = l->o;
    size_t               n = l->net->stages.n;
    if (o->n_stage_ipus > 0 && o->n_stage_ipus != n)
        return ipu__fail(
            IPU_INVALID,
            "option stage_ipus: expected an IPU for each of the %zu stages of the network, found %zu", n,
            o->n_stage_ipus);
    l->stage_ipus = ipu__alloc(n * sizeof *l->stage_ipus);
    bool *is_kept = ipu__alloc(n * sizeof *is_kept);
    if (l->stage_ipus && is_kept) make_stage_ipus(l, is_kept);
    ipu__free(is_kept);
    return l->stage_ipus && is_kept ? IPU_OK : ipu__fail_memory();
}

static ipu_status make_room(ipu__pipeline *l)
{
    int64_t tiles = ipu_graph_n_tiles(l->l->g) / l->n_ipus;
    l->windows    = ipu__alloc_zeroed((size_t)l->n_ipus * sizeof *l->windows);
    l->kept       = ipu__alloc_zeroed((size_t)l->n_ipus * l->net->values.n * sizeof *l->kept);
    l->parts      = ipu__alloc_zeroed(l->plan.n_positions * sizeof *l->parts);
    l->ways       = ipu__alloc_zeroed((l->plan.routes.n + 1) * sizeof *l->ways);
    if (!l->windows || !l->kept || !l->parts || !l->ways) return ipu__fail_memory();
    for (int64_t i = 0; i < l->n_ipus; i++) {
        l->windows[i] = ipu_graph_add_virtual_range(l->l->g, i * tiles, (i + 1) * tiles);
        if (!l->windows[i]) return ipu__parallel_graph_status(l->l->g);
    }
    for (uint32_t q = 0; q < l->plan.n_positions; q++) l->parts[q].g = l->windows[ipu__plan_ipu(&l->plan, q)];
    return IPU_OK;
}

static ipu_status lower(ipu__pipeline *l, const ipu_model *net)
{
    const ipu__parallel *o = l->o;
    IPU_TRY(make_net(l, net));
    int64_t n_stages = (int64_t)l->net->stages.n;
    IPU_TRY(make_stages(l));
    IPU_TRY(ipu__plan_make(l->net, l->stage_ipus, o->recompute, &l->plan));
    l->n_ipus    = ipu__parallel_ipus_per_replica(o, n_stages);
    l->n_batches = l->o->trains ? o->accumulation : o->iterations;
    IPU_TRY(check_length(l));
    IPU_TRY(make_room(l));
    make_schedule(l);
    l->begin = ipu_program_sequence(l->l->g);
    IPU_TRY(lower_kept(l));
    for (uint32_t q = 0; q < l->plan.n_positions; q++) IPU_TRY(ipu__pipeline_lower_part(l, q));
    return ipu__parallel_graph_status(l->l->g);
}

static void fini(ipu__pipeline *l)
{
    for (uint32_t q = 0; l->parts && q < l->plan.n_positions; q++) {
        ipu_model_destroy(l->parts[q].m);
        ipu__array_fini(&l->parts[q].rows);
    }
    ipu__free(l->parts);
    ipu__free(l->ways);
    ipu__free(l->windows);
    ipu__free(l->kept);
    ipu__free(l->stage_ipus);
    ipu__plan_fini(&l->plan);
}

ipu_status ipu__parallel_pipeline(ipu__lowering *l, ipu_program begin, ipu_program *out)
{
    ipu__pipeline own    = {.o = l->o, .l = l, .begin_run = begin};
    ipu_status    status = lower(&own, l->models->net);
    if (status == IPU_OK) {
        *out   = make_program(&own);
        status = ipu__parallel_graph_status(l->g);
    }
    fini(&own);
    return status;
}
