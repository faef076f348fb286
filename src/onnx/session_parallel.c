/* A session's network over several IPUs: lowered by model/parallel, fed and collected by streams (session/streams.h). */
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

bool ipu__spread_sums(const ipu_onnx_options *o)
{
    return o->output_mode == IPU_OUTPUT_SUM || o->output_mode == IPU_OUTPUT_MEAN;
}

bool ipu__spreads(const ipu_onnx_options *o)
{
    return or_one(o->stages) > 1 || or_one(o->replicas) > 1 || or_one(o->batches) > 1 || ipu__spread_sums(o);
}

/* What goes into a run and comes out. */
static ipu__batches count_batches(const ipu_onnx_options *o)
{
    bool is_default = o->output_mode == IPU_OUTPUT_DEFAULT;
    return (ipu__batches){.each       = or_one(o->batches),
                          .replicas   = or_one(o->replicas),
                          .group_size = or_one(o->input_group_size),
                          .mode       = is_default ? IPU_OUTPUT_ALL : o->output_mode,
                          .period     = o->output_period};
}

int64_t ipu__spread_batches(const ipu_onnx_options *o)
{
    ipu__batches b = count_batches(o);
    return ipu__batches_in(&b);
}

/* ---- IPUs ---- */

/* Stages take turns where a run has fewer batches than a pipeline of them needs. */
static ipu__parallel over(const ipu_onnx_options *o, const ipu_target *target)
{
    int64_t      stages = or_one(o->stages), batches = or_one(o->batches);
    ipu__batches counts = count_batches(o);
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
        .give          = ipu__parallel_give_of(counts.mode),
    };
}

static ipu_status check_count(const char *name, int64_t value, int64_t most)
{
    if (value >= 0 && value <= most) return IPU_OK;
    return ipu__fail(IPU_INVALID, "ipu_onnx_options.%s: expected 1 to %" PRId64 " (0 is 1), found %" PRId64,
                     name, most, value);
}

static ipu_status check_outputs(const ipu_onnx_options *o)
{
    int64_t n = or_one(o->batches) * or_one(o->replicas);
    if ((int)o->output_mode < IPU_OUTPUT_DEFAULT || o->output_mode > IPU_OUTPUT_MEAN)
        return ipu__fail(IPU_INVALID,
                         "ipu_onnx_options.output_mode: expected one of ipu_output_mode, found %d",
                         (int)o->output_mode);
    if (o->output_mode != IPU_OUTPUT_EVERY_N || (o->output_period > 0 && n % o->output_period == 0))
        return IPU_OK;
    return ipu__fail(IPU_INVALID,
                     "ipu_onnx_options.output_period: expected a number that divides the %" PRId64
                     " batches of a run, found %" PRId64,
                     n, o->output_period);
}

ipu_status ipu__spread_target(const ipu_onnx_options *o, ipu_target *target)
{
    IPU_TRY(check_count("stages", o->stages, IPU__MOST_REPLICAS));
    IPU_TRY(check_count("replicas", o->replicas, IPU__MOST_REPLICAS));
    IPU_TRY(check_count("batches", o->batches, MOST_BATCHES / IPU__MOST_REPLICAS));
    IPU_TRY(check_count("input_group_size", o->input_group_size, IPU__MOST_REPLICAS));
    if (or_one(o->replicas) & (or_one(o->replicas) - 1))
        return ipu__fail(IPU_INVALID,
                         "ipu_onnx_options.replicas: expected 1 or a power of two, found %" PRId64,
                         o->replicas);
    if (or_one(o->replicas) % or_one(o->input_group_size) != 0)
        return ipu__fail(IPU_INVALID,
                         "ipu_onnx_options.input_group_size: expected a number that divides the %" PRId64
                         " replicas, found %" PRId64,
                         or_one(o->replicas), o->input_group_size);
    IPU_TRY(check_outputs(o));
    if (!ipu__spreads(o)) return IPU_OK;
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
    char found[200] = "a sequence", groups[64] = "";
    if (or_one(o->input_group_size) > 1)
        snprintf(groups, sizeof groups, " / input_group_size %" PRId64, o->input_group_size);
    if (v->kind == IPU_ONNX_ARRAY && v->array.shape.rank == 0) snprintf(found, sizeof found, "a scalar");
    if (v->kind == IPU_ONNX_ARRAY && v->array.shape.rank > 0)
        snprintf(found, sizeof found, "%" PRId64 " in %s", v->array.shape.dim[0],
                 ipu__shape_str(&v->array.shape));
    return ipu__fail(IPU_INVALID,
                     "input \"%s\": a run has %" PRId64 " batches (batches %" PRId64 " x replicas %" PRId64
                     "%s), which divide its dimension 0: expected a multiple of %" PRId64 ", found %s",
                     name, ipu__spread_batches(o), or_one(o->batches), or_one(o->replicas), groups,
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
    for (size_t i = 0; i < p->outputs.n; i++) {
        ipu__free((void *)(uintptr_t)p->outputs.at[i].stream);
        ipu__free((void *)(uintptr_t)p->outputs.at[i].sum);
    }
    ipu__parallel_fini(p);
}

static bool has_sums(const ipu__parallel *p)
{
    return p->give == IPU__GIVE_SUM || p->give == IPU__GIVE_WIDE_SUM;
}

static ipu_status name_streams(ipu__parallel *p, ipu_model *m)
{
    const ipu__parallel_models models = {.net = m};
    bool                       sums   = has_sums(p);
    if (!ipu__reserve(&p->inputs, m->inputs.n) || !ipu__reserve(&p->outputs, m->outputs.n))
        return ipu__fail_memory();
    for (size_t i = 0; i < m->inputs.n; i++) {
        char *stream                       = stream_of("in:", m->base.values.at[m->inputs.at[i]].name);
        p->inputs.at[p->inputs.n++].stream = stream;
        if (!stream) return ipu__fail_memory();
    }
    for (size_t i = 0; i < m->outputs.n; i++) {
        const char *name              = m->outputs.at[i].name;
        char       *stream            = stream_of("out:", name);
        char       *sum               = sums ? ipu__parallel_free_name(&models, "sum:", name) : NULL;
        p->outputs.at[p->outputs.n++] = (ipu__parallel_output){name, stream, sum};
        if (!stream || (sums && !sum)) return ipu__fail_memory();
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
    if (status == IPU_OK) status = name_streams(&p, models.net);
    if (status == IPU_OK) status = ipu__parallel_begin_stages(&p, models.net);
    if (status == IPU_OK) status = ipu__parallel_end_stages(&p, models.net);
    if (status == IPU_OK) status = ipu__parallel_lower(&p, &models, out);
    ipu__parallel_models_fini(&models);
    fini(&p);
    return status;
}

static ipu_status check_output(const ipu_onnx_options *o, size_t i, const ipu__output *output)
{
    ipu__batches b    = count_batches(o);
    const char  *what = output->has_count ? "as large as its data say" : "a sequence";
    if (output->kind != IPU_ONNX_SEQUENCE && !output->has_count) return IPU_OK;
    if (ipu__spread_sums(o))
        return ipu__fail(IPU_UNSUPPORTED,
                         "output %zu is %s: there is no sum of it (ipu_onnx_options.output_mode)", i, what);
    if (ipu__batches_out(&b) == 1) return IPU_OK;
    return ipu__fail(IPU_UNSUPPORTED,
                     "output %zu is %s: those of %" PRId64 " batches of a run do not go together "
                     "(ipu_onnx_options.batches, replicas)",
                     i, what, ipu__batches_out(&b));
}

/* What can be told before a run of it. */
static ipu_status check(const ipu_onnx_options *o, const ipu__imported *imported, size_t n_outputs)
{
    if (imported->m->seed && or_one(o->replicas) > 1)
        return ipu__fail(IPU_UNSUPPORTED,
                         "the network draws random numbers, which all replicas would draw alike: "
                         "ipu_onnx_options.replicas: expected 1");
    for (size_t i = 0; i < n_outputs; i++) IPU_TRY(check_output(o, i, &imported->outputs[i]));
    return IPU_OK;
}

/* Puts down where its outputs, and their sums, are. */
static ipu_status note(const ipu__parallel *over, const ipu__imported *imported, size_t n_outputs,
                       ipu_executable *exe)
{
    ipu__parallel p      = {.give = over->give};
    ipu_status    status = name_streams(&p, imported->m);
    const char  **sums   = ipu__alloc((p.outputs.n + 1) * sizeof *sums);
    if (status == IPU_OK) status = ipu__or_memory(sums != NULL);
    for (size_t i = 0; sums && i < p.outputs.n; i++) sums[i] = p.outputs.at[i].sum;
    if (status == IPU_OK) status = ipu__ports_note(imported, n_outputs, has_sums(over) ? sums : NULL, exe);
    ipu__free(sums);
    fini(&p);
    return status;
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
    if (status == IPU_OK) status = note(&p, imported, n_outputs, *out);
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

/* ---- streams ---- */

static ipu_status add_output(ipu__streams *s, const char *name, const ipu__port *port, const char *sum)
{
    return ipu__streams_add_output(s, name, port, ipu__strdup(sum ? sum : ""));
}

/* An array, and its count behind it. */
static ipu_status add_result(ipu__streams *s, const ipu__result *from)
{
    const ipu__port array = {from->array.type, from->array.shape}, count = {IPU_INT64, IPU_SCALAR};
    bool            is_array = from->kind == IPU_ONNX_ARRAY;
    if (is_array) IPU_TRY(add_output(s, from->array.name, &array, from->sum));
    if (is_array && from->count) IPU_TRY(add_output(s, from->count, &count, NULL));
    for (size_t i = 0; i < from->n_items; i++) IPU_TRY(add_result(s, &from->items[i]));
    return IPU_OK;
}

ipu_status ipu__spread_list(const ipu_onnx_options *o, const ipu__ports *ports, size_t n_outputs,
                            ipu__streams *out)
{
    out->batches  = count_batches(o);
    out->n_folded = 1;
    for (size_t i = 0; i < ports->n_inputs; i++) {
        const ipu__handle *in   = &ports->inputs[i];
        const ipu__port    port = {in->type, in->shape};
        IPU_TRY(ipu__streams_add_input(out, in->name, &port, in->type, false));
    }
    for (size_t i = 0; i < n_outputs; i++) IPU_TRY(add_result(out, &ports->outputs[i]));
    return IPU_OK;
}

/* ---- running ---- */

static void list_arrays(const ipu_onnx_value *v, ipu_array *arrays, size_t *n)
{
    if (v->kind == IPU_ONNX_ARRAY) arrays[(*n)++] = v->array;
    for (size_t i = 0; i < v->n_items; i++) list_arrays(&v->items[i], arrays, n);
}

static ipu_status begin(ipu__streams *s, const ipu_onnx_value *in, const bool *fixed, size_t n_in)
{
    size_t     n      = 0;
    ipu_array *arrays = ipu__alloc((s->inputs.n + 1) * sizeof *arrays);
    if (!arrays) return ipu__fail_memory();
    for (size_t i = 0; i < n_in; i++)
        if (!fixed[i]) list_arrays(&in[i], arrays, &n);
    ipu_status status = ipu__streams_begin(s, arrays);
    ipu__free(arrays);
    return status;
}

/* `*next`: the stream of its first array. */
static ipu_status give(ipu__streams *s, const ipu__result *from, size_t *next, ipu_onnx_value *out)
{
    out->kind = from->kind;
    if (from->kind == IPU_ONNX_ARRAY) ipu__streams_give(s, (*next)++, &out->array);
    if (from->kind == IPU_ONNX_ARRAY && from->count)
        ipu__ports_cut(&out->array, from->dim, *(const int64_t *)s->outputs.at[(*next)++].array.data);
    if (from->n_items == 0) return IPU_OK;
    out->items = ipu__alloc_zeroed(from->n_items * sizeof *out->items);
    if (!out->items) return ipu__fail_memory();
    out->n_items = from->n_items;
    for (size_t i = 0; i < from->n_items; i++) IPU_TRY(give(s, &from->items[i], next, &out->items[i]));
    return IPU_OK;
}

ipu_status ipu__spread_run(ipu__streams *s, const ipu__ports *ports, const ipu_onnx_value *in,
                           const bool *fixed, size_t n_in, ipu_onnx_value *out, size_t n_out)
{
    size_t next = 0;
    IPU_TRY(begin(s, in, fixed, n_in));
    IPU_TRY(ipu_engine_run(s->engine, 0));
    IPU_TRY(ipu__streams_read(s));
    for (size_t i = 0; i < n_out; i++) IPU_TRY(give(s, &ports->outputs[i], &next, &out[i]));
    return IPU_OK;
}
