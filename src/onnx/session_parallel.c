/* A session's network over several IPUs: lowered by model/parallel, fed and collected batch by batch. */
#include "onnx/session_parallel.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "engine/executable.h"
#include "engine/options.h"
#include "model/fit.h"
#include "graph/graph.h"
#include "model/parallel/parallel.h"

enum { MOST_BATCHES = 1 << 30 };

static int64_t or_one(int64_t n) { return n == 0 ? 1 : n; }

bool ipu__spreads(const ipu_onnx_options *o)
{
    return or_one(o->stages) > 1 || or_one(o->replicas) > 1 || or_one(o->batches) > 1;
}

int64_t ipu__spread_batches(const ipu_onnx_options *o) { return or_one(o->batches) * or_one(o->replicas); }

/* ---- IPUs ---- */

/* Stages take turns where a run has fewer batches than a pipeline of them needs. */
static ipu__parallel over(const ipu_onnx_options *o, const ipu_target *target)
{
    int64_t stages = or_one(o->stages), batches = or_one(o->batches);
    return (ipu__parallel){
        .target        = ipu_target_chip_name(target),
        .tiles_per_ipu = target->tiles_per_ipu,
        .replicas      = or_one(o->replicas),
        .processes     = 1,
        .iterations    = batches,
        .accumulation  = 1,
        .stages        = stages,
        .round_ipus    = true,
        .schedule      = batches < stages ? IPU_PIPELINE_SEQUENTIAL : IPU_PIPELINE_GROUPED,
        .give          = IPU__GIVE_BATCHES,
    };
}

static ipu_status check_count(const char *name, int64_t value, int64_t most)
{
    if (value >= 0 && value <= most) return IPU_OK;
    return ipu__fail(IPU_INVALID, "ipu_onnx_options.%s: expected 1 to %" PRId64 " (0 is 1), found %" PRId64,
                     name, most, value);
}

ipu_status ipu__spread_target(const ipu_onnx_options *o, ipu_target *target)
{
    IPU_TRY(check_count("stages", o->stages, IPU__MOST_REPLICAS));
    IPU_TRY(check_count("replicas", o->replicas, IPU__MOST_REPLICAS));
    IPU_TRY(check_count("batches", o->batches, MOST_BATCHES / IPU__MOST_REPLICAS));
    if (!ipu__spreads(o)) return IPU_OK;
    if (or_one(o->replicas) & (or_one(o->replicas) - 1))
        return ipu__fail(IPU_INVALID,
                         "ipu_onnx_options.replicas: expected 1 or a power of two, found %" PRId64,
                         o->replicas);
    ipu__parallel p = over(o, target);
    return ipu__parallel_target(&p, p.replicas * ipu__parallel_ipus_per_replica(&p, p.stages), target);
}

/* ---- batches ---- */

size_t ipu__spread_divide(const ipu_onnx_options *o, const ipu_onnx_value *in, const bool *fixed, size_t n,
                          ipu_onnx_value *out)
{
    int64_t batches = ipu__spread_batches(o);
    size_t  odd     = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        const ipu_shape *shape = &in[i].array.shape;
        out[i]                 = in[i];
        if (fixed[i] || in[i].kind == IPU_ONNX_NONE || batches == 1) continue;
        if (in[i].kind == IPU_ONNX_ARRAY && shape->rank > 0 && shape->dim[0] % batches == 0) {
            out[i].array.shape.dim[0] /= batches;
        } else if (odd == SIZE_MAX) {
            odd = i;
        }
    }
    return odd;
}

bool ipu__spread_fits(const ipu_onnx_options *o, const ipu_shape *one, const ipu_shape *whole)
{
    ipu_shape all     = *one;
    int64_t   batches = ipu__spread_batches(o);
    if (batches > 1 && one->rank == 0) return false;
    if (batches > 1) all.dim[0] *= batches;
    return ipu__shape_equal(&all, whole);
}

ipu_status ipu__spread_fail(const ipu_onnx_options *o, const char *name, const ipu_onnx_value *v)
{
    char found[200] = "a sequence";
    if (v->kind == IPU_ONNX_ARRAY && v->array.shape.rank == 0) snprintf(found, sizeof found, "a scalar");
    if (v->kind == IPU_ONNX_ARRAY && v->array.shape.rank > 0)
        snprintf(found, sizeof found, "%" PRId64 " in %s", v->array.shape.dim[0],
                 ipu__shape_str(&v->array.shape));
    return ipu__fail(IPU_INVALID,
                     "input \"%s\": a run has %" PRId64 " batches (batches %" PRId64 " x replicas %" PRId64
                     "), which divide its dimension 0: expected a multiple of %" PRId64 ", found %s",
                     name, ipu__spread_batches(o), or_one(o->batches), or_one(o->replicas),
                     ipu__spread_batches(o), found);
}

/* ---- names of streams ---- */

static char *stream_of(const char *prefix, const char *name)
{
    ipu__text t = {0};
    ipu__text_add(&t, "%s%s", prefix, name);
    return ipu__text_take(&t);
}

static void fini(ipu__parallel *p)
{
    for (size_t i = 0; i < p->inputs.n; i++) ipu__free((void *)(uintptr_t)p->inputs.at[i].stream);
    for (size_t i = 0; i < p->outputs.n; i++) ipu__free((void *)(uintptr_t)p->outputs.at[i].stream);
    ipu__parallel_fini(p);
}

static ipu_status name_streams(ipu__parallel *p, const ipu_model *m)
{
    if (!ipu__reserve(&p->inputs, m->inputs.n) || !ipu__reserve(&p->outputs, m->outputs.n))
        return ipu__fail_memory();
    for (size_t i = 0; i < m->inputs.n; i++) {
        char *stream                       = stream_of("in:", m->base.values.at[m->inputs.at[i]].name);
        p->inputs.at[p->inputs.n++].stream = stream;
        if (!stream) return ipu__fail_memory();
    }
    for (size_t i = 0; i < m->outputs.n; i++) {
        char *stream                  = stream_of("out:", m->outputs.at[i].name);
        p->outputs.at[p->outputs.n++] = (ipu__parallel_output){.name   = m->outputs.at[i].name,
                                                               .stream = stream};
        if (!stream) return ipu__fail_memory();
    }
    return IPU_OK;
}

/* ---- compiling ---- */

/* For an engine, or the chip (NULL). To be undone also when it fails. */
static ipu_status lower(const ipu_onnx_options *o, const ipu_target *target, const ipu_model *m,
                        const ipu__engine_def *engine, ipu__parallel_program *out)
{
    ipu__parallel        p      = over(o, target);
    ipu__parallel_models models = {.net = ipu__model_copy(m), .engine = engine};
    *out                        = (ipu__parallel_program){0};
    ipu_status status           = ipu__or_memory(models.net != NULL);
    if (status == IPU_OK) status = name_streams(&p, m);
    if (status == IPU_OK) status = ipu__parallel_begin_stages(&p, models.net);
    if (status == IPU_OK) status = ipu__parallel_end_stages(&p, models.net);
    if (status == IPU_OK) status = ipu__parallel_lower(&p, &models, out);
    ipu__parallel_models_fini(&models);
    fini(&p);
    return status;
}

/* What can be told before a run of it. */
static ipu_status check(const ipu_onnx_options *o, const ipu__imported *imported, size_t n_outputs)
{
    if (imported->m->seed && or_one(o->replicas) > 1)
        return ipu__fail(IPU_UNSUPPORTED,
                         "the network draws random numbers, which all replicas would draw alike: "
                         "ipu_onnx_options.replicas: expected 1");
    for (size_t i = 0; i < n_outputs && ipu__spread_batches(o) > 1; i++)
        if (imported->outputs[i].kind == IPU_ONNX_SEQUENCE || imported->outputs[i].has_count)
            return ipu__fail(IPU_UNSUPPORTED,
                             "output %zu is %s: those of %" PRId64 " batches of a run do not go together "
                             "(ipu_onnx_options.batches, replicas)",
                             i, imported->outputs[i].has_count ? "as large as its data say" : "a sequence",
                             ipu__spread_batches(o));
    return IPU_OK;
}

ipu_status ipu__spread_compile(const ipu_onnx_options *o, const ipu_target *target,
                               const ipu__imported *imported, size_t n_outputs, ipu_executable **out)
{
    ipu__parallel_program host, chip = {0};
    ipu__settings         settings;
    ipu__parallel         p   = over(o, target);
    ipu_target            one = *target;
    *out                      = NULL;
    one.n_ipus                = ipu__parallel_ipus_per_replica(&p, p.stages);
    IPU_TRY(check(o, imported, n_outputs));
    IPU_TRY(ipu__options_settle(o->options, &settings));
    ipu_status status = lower(o, target, imported->m, ipu__engine_find(settings.engine), &host);
    if (status == IPU_OK) ipu__warn_if_too_large(ipu__model_kept_bytes(imported->m), &one);
    if (status == IPU_OK && settings.estimate) status = lower(o, target, imported->m, NULL, &chip);
    if (status == IPU_OK)
        status = ipu__executable_compile(host.g, &host.run, 1, o->options, chip.g, &chip.run, out);
    ipu__parallel_program_fini(&host);
    ipu__parallel_program_fini(&chip);
    return status;
}

ipu_status ipu__spread_cost(const ipu_onnx_options *o, const ipu_target *target, const ipu_model *m,
                            ipu_cost **out)
{
    ipu__parallel_program chip;
    *out              = NULL;
    ipu_status status = lower(o, target, m, NULL, &chip);
    if (status == IPU_OK) status = ipu_cost_estimate(chip.g, &chip.run, 1, NULL, out);
    ipu__parallel_program_fini(&chip);
    return status;
}

/* ---- running ---- */

/* One stream of one replica: what it has next is `bytes` at at[(n_done * replicas + replica) * bytes]. */
typedef struct wire {
    char   *at;
    int64_t replicas, replica, n_done;
} wire;

typedef struct running {
    ipu_engine *e;
    int64_t     batches, replicas; /* batches: of all replicas */
    IPU_ARRAY(wire) wires;         /* has room for all from the first: engines keep their addresses */
} running;

static void *next_place(void *user, size_t bytes)
{
    wire *w = user;
    return w->at + (size_t)(w->n_done++ * w->replicas + w->replica) * bytes;
}

static const void *next_batch(void *user, size_t bytes) { return next_place(user, bytes); }

static ipu_status connect(running *r, bool is_input, const char *name, void *data)
{
    char *stream = stream_of(is_input ? "in:" : "out:", name);
    if (!stream) return ipu__fail_memory();
    ipu_status status = IPU_OK;
    for (int64_t k = 0; k < r->replicas && status == IPU_OK; k++) {
        wire *w = &r->wires.at[r->wires.n++];
        *w      = (wire){.at = data, .replicas = r->replicas, .replica = k};
        status  = is_input ? ipu_engine_connect_lender_replica(r->e, stream, k, next_batch, w)
                           : ipu_engine_connect_place_replica(r->e, stream, k, next_place, w);
    }
    ipu__free(stream);
    return status;
}

static ipu_status connect_input(running *r, const ipu__ports *ports, const ipu_onnx_value *v, size_t *next)
{
    if (v->kind == IPU_ONNX_ARRAY) return connect(r, true, ports->inputs[(*next)++].name, v->array.data);
    for (size_t i = 0; i < v->n_items; i++) IPU_TRY(connect_input(r, ports, &v->items[i], next));
    return IPU_OK;
}

/* Outputs, and where their extents go. */
static ipu_status connect_output(running *r, const ipu__result *from, ipu_onnx_value *out, int64_t **counts)
{
    out->kind = from->kind;
    if (from->kind == IPU_ONNX_ARRAY) {
        ipu_shape all = from->array.shape;
        if (r->batches > 1 && all.rank == 0) all = IPU_SHAPE(1);
        if (r->batches > 1) all.dim[0] *= r->batches;
        IPU_TRY(ipu_array_create(from->array.type, all, &out->array));
        IPU_TRY(connect(r, false, from->array.name, out->array.data));
        return from->count ? connect(r, false, from->count, (*counts)++) : IPU_OK;
    }
    if (from->n_items == 0) return IPU_OK;
    out->items = ipu__alloc_zeroed(from->n_items * sizeof *out->items);
    if (!out->items) return ipu__fail_memory();
    out->n_items = from->n_items;
    for (size_t i = 0; i < from->n_items; i++)
        IPU_TRY(connect_output(r, &from->items[i], &out->items[i], counts));
    return IPU_OK;
}

static void cut_output(const ipu__result *from, ipu_onnx_value *out, const int64_t **counts)
{
    if (from->kind == IPU_ONNX_ARRAY && from->count) ipu__ports_cut(&out->array, from->dim, *(*counts)++);
    for (size_t i = 0; i < from->n_items; i++) cut_output(&from->items[i], &out->items[i], counts);
}

static size_t n_arrays(const ipu__result *from)
{
    size_t n = from->kind == IPU_ONNX_ARRAY;
    for (size_t i = 0; i < from->n_items; i++) n += n_arrays(&from->items[i]);
    return n;
}

static ipu_status run(running *r, const ipu__ports *ports, const ipu_onnx_value *in, const bool *fixed,
                      size_t n_in, ipu_onnx_value *out, size_t n_all, int64_t *counts)
{
    int64_t       *room = counts;
    const int64_t *told = counts;
    size_t         next = 0;
    for (size_t i = 0; i < n_in; i++)
        if (!fixed[i]) IPU_TRY(connect_input(r, ports, &in[i], &next));
    for (size_t i = 0; i < n_all; i++) IPU_TRY(connect_output(r, &ports->outputs[i], &out[i], &room));
    IPU_TRY(ipu_engine_run(r->e, 0));
    for (size_t i = 0; i < n_all; i++) cut_output(&ports->outputs[i], &out[i], &told);
    return IPU_OK;
}

ipu_status ipu__spread_run(const ipu_onnx_options *o, ipu_engine *e, const ipu__ports *ports,
                           const ipu_onnx_value *in, const bool *fixed, size_t n_in, size_t n_outputs,
                           ipu_onnx_value *out, size_t n_out)
{
    running r = {.e = e, .batches = ipu__spread_batches(o), .replicas = or_one(o->replicas)};
    size_t  n = 0;
    for (size_t i = 0; i < n_outputs; i++) n += n_arrays(&ports->outputs[i]);
    /* All are taken, also those that nobody wants; each array may have a count. */
    ipu_onnx_value *all    = ipu__alloc_zeroed((n_outputs + 1) * sizeof *all);
    int64_t        *counts = ipu__alloc_zeroed((n + 1) * sizeof *counts);
    bool            ok     = ipu__reserve(&r.wires, (ports->n_inputs + 2 * n) * (size_t)r.replicas + 1);
    ipu_status      status = ipu__or_memory(ok && all && counts);
    if (status == IPU_OK) status = run(&r, ports, in, fixed, n_in, all, n_outputs, counts);
    for (size_t i = 0; all && i < n_outputs; i++)
        if (status == IPU_OK && i < n_out)
            out[i] = all[i];
        else
            ipu_onnx_value_free(&all[i]);
    ipu__array_fini(&r.wires);
    ipu__free(counts);
    ipu__free(all);
    return status;
}
