/* The program of a run: models lowered to one graph, surrounded by reads, loops and writes. */
#include <string.h>

#include "graph/graph.h"
#include "op/op.h"
#include "model/parallel/lower.h"

ipu_status ipu__parallel_graph_status(ipu_graph *g)
{
    return ipu_graph_status(g) == IPU_OK ? IPU_OK
                                         : ipu__fail(ipu_graph_status(g), "%s", ipu_graph_message(g));
}

ipu_status ipu__parallel_optimise(const ipu__lowering *l, ipu_model *m)
{
    unsigned passes = l->models->engine ? IPU_PASS_ALL : IPU_PASS_CHIP;
    if (l->o->check_floats) passes &= ~(unsigned)(IPU_PASS_FUSE | IPU_PASS_HOST);
    return ipu__model_optimise_for(m, passes, l->models->engine);
}

static ipu_status optimised(const ipu__lowering *l, const ipu_model *m, ipu_model **out)
{
    *out = ipu__model_copy(m);
    return *out ? ipu__parallel_optimise(l, *out) : ipu__fail_memory();
}

/* Tensors of different size are parts (shard.c). */
static void share(const ipu__lowering *l, ipu__tie tie)
{
    ipu_tensor t = l->net->tensors.at[tie.net];
    if (tie.net && t.id
        && ipu_tensor_n_elements(t) == ipu__op_n_elements(&l->step->base.values.at[tie.step].shape))
        ipu__model_bind(l->step, tie.step, t);
}

static void share_kept(const ipu__lowering *l)
{
    const ipu__ties *ties = &l->models->ties;
    for (size_t i = 0; i < ties->trained.n; i++) {
        share(l, ties->trained.at[i].parameter);
        share(l, ties->trained.at[i].sum);
    }
    share(l, ties->count);
    share(l, ties->scale);
}

void ipu__parallel_read_input(ipu__lowering *l, size_t i, ipu_tensor t, ipu_program p)
{
    int64_t    n = ipu_tensor_n_elements(t);
    ipu_stream s = ipu_graph_add_host_to_device(l->g, l->o->inputs.at[i].stream, ipu_tensor_type(t), n,
                                                IPU_STREAM_REPLICATE);
    if (n > 0) ipu_program_add_read(p, s, t);
}

ipu__parallel_give ipu__parallel_give_of(ipu_output_mode mode)
{
    switch (mode) {
    case IPU_OUTPUT_SUM: return IPU__GIVE_SUM;
    case IPU_OUTPUT_MEAN: return IPU__GIVE_WIDE_SUM;
    case IPU_OUTPUT_FINAL: return IPU__GIVE_LAST;
    default: return IPU__GIVE_BATCHES;
    }
}

static ipu_tensor as_float(ipu_program p, ipu_tensor t)
{
    ipu_tensor    wide = ipu_graph_add_variable(p.graph, IPU_FLOAT, ipu_tensor_shape(t), NULL);
    ipu_attribute to   = IPU_TEXT_ATTRIBUTE("to", "float");
    ipu_graph_map_linearly(p.graph, wide);
    ipu_program_add_kernel(p, IPU__KERNEL(cast), &to, 1, (ipu_tensor[]){t, wide}, 2);
    return wide;
}

ipu_status ipu__parallel_give_output(ipu__lowering *l, size_t i, ipu_tensor t, ipu_program begin,
                                     ipu_program p)
{
    const ipu__parallel_output *out  = &l->o->outputs.at[i];
    ipu_type                    type = ipu_tensor_type(t);
    int64_t                     n    = ipu_tensor_n_elements(t);
    if (l->o->give == IPU__GIVE_BATCHES) {
        ipu_stream s = ipu_graph_add_device_to_host(l->g, out->stream, type, n);
        if (n > 0) ipu_program_add_write(p, t, s);
    } else if (l->o->give == IPU__GIVE_SUM || l->o->give == IPU__GIVE_WIDE_SUM) {
        bool is_narrow = type == IPU_HALF || type == IPU_BFLOAT16;
        if (type == IPU_BOOL)
            return ipu__fail(IPU_INVALID, "output \"%s\" is bool: there is no sum of it (output mode)",
                             out->name);
        if (is_narrow && l->o->give == IPU__GIVE_WIDE_SUM) t = as_float(p, t);
        ipu_tensor sum = ipu_graph_add_variable(p.graph, ipu_tensor_type(t), ipu_tensor_shape(t), out->sum);
        ipu_graph_map_linearly(p.graph, sum);
        ipu_graph_add_host_read(l->g, out->sum, sum);
        ipu_attribute zero = IPU_FLOAT_ATTRIBUTE("value", 0);
        ipu_program_add_kernel(begin, IPU__KERNEL(fill), &zero, 1, &sum, 1);
        ipu_program_add_kernel(p, IPU__KERNEL(add), NULL, 0, (ipu_tensor[]){sum, t, sum}, 3);
    }
    return ipu__parallel_graph_status(l->g);
}

static ipu_program repeated(ipu_graph *g, int64_t n, ipu_program body)
{
    if (n == 1) return body;
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_repeat(p, n, body);
    return p;
}

static ipu_program in_order(ipu_graph *g, const ipu_program *parts, size_t n)
{
    ipu_program p = ipu_program_sequence(g);
    for (size_t i = 0; i < n; i++) ipu_program_add(p, parts[i]);
    return p;
}

/* The batches of one step: what precedes the network, the network, what follows it; `last`, if there is one,
 * replaces the network in the last batch. */
static ipu_program batches(const ipu__parallel *o, ipu_graph *g, const ipu_program parts[3], ipu_program last)
{
    int64_t     n     = o->accumulation;
    ipu_program batch = in_order(g, parts, 3);
    if (!last.id) return repeated(g, n, batch);
    ipu_program p = ipu_program_sequence(g);
    if (n > 1) ipu_program_add_repeat(p, n - 1, batch);
    ipu_program_add(p, in_order(g, (ipu_program[]){parts[0], last, parts[2]}, 3));
    return p;
}

/* The batches of one optimizer step, one after another. */
static ipu_status lower_batches(ipu__lowering *l, ipu_program begin, ipu_program *out)
{
    ipu_program before = ipu_program_sequence(l->g), after = ipu_program_sequence(l->g), run, last;
    IPU_TRY(optimised(l, l->models->net, &l->net));
    IPU_TRY(ipu__parallel_lower_net(l, &run, &last));
    const ipu_model *m = l->net;
    for (size_t i = 0; i < l->o->inputs.n; i++)
        ipu__parallel_read_input(l, i, m->tensors.at[m->inputs.at[i]], before);
    for (size_t i = 0; i < l->o->outputs.n; i++)
        IPU_TRY(ipu__parallel_give_output(l, i, m->output_tensors.at[i], begin, after));
    *out = batches(l->o, l->g, (ipu_program[]){before, run, after}, last);
    return IPU_OK;
}

static ipu_status lower_step(ipu__lowering *l, ipu_program p)
{
    if (!l->models->step) return IPU_OK;
    IPU_TRY(optimised(l, l->models->step, &l->step));
    share_kept(l);
    IPU_TRY(ipu__parallel_reduce(l, p));
    return ipu__parallel_lower_step(l, p);
}

static ipu_status lower(ipu__lowering *l, ipu_program *run)
{
    const ipu__parallel *o = l->o;
    ipu_target           target;
    ipu_program          iteration;
    int64_t              n_stages = (int64_t)ipu_model_n_stages(l->models->net), iterations = o->iterations;
    int64_t              n_folded = l->models->n_folded ? l->models->n_folded : 1;
    IPU_TRY(ipu__parallel_target(o, o->replicas * ipu__parallel_ipus_per_replica(o, n_stages), &target));
    IPU_TRY(ipu_graph_create(&target, o->replicas / n_folded, &l->g));
    ipu_program begin = ipu_program_sequence(l->g);
    IPU_TRY(n_stages > 1 ? ipu__parallel_pipeline(l, begin, &iteration)
                         : lower_batches(l, begin, &iteration));
    if (n_stages > 1 && !o->trains) iterations = 1; /* iterations are the pipeline's batches */
    IPU_TRY(lower_step(l, iteration));
    *run = ipu_program_sequence(l->g);
    ipu_program_add(*run, begin);
    ipu_program_add(*run, repeated(l->g, iterations, iteration));
    return ipu__parallel_graph_status(l->g);
}

ipu_status ipu__parallel_lower(const ipu__parallel *o, const ipu__parallel_models *models,
                               ipu__parallel_program *out)
{
    ipu__lowering l   = {.o = o, .models = models};
    *out              = (ipu__parallel_program){0};
    ipu_status status = lower(&l, &out->run);
    out->g            = l.g;
    ipu__array_fini(&l.begun);
    ipu_model_destroy(l.net);
    ipu_model_destroy(l.step);
    return status;
}

void ipu__parallel_program_fini(ipu__parallel_program *p)
{
    ipu_graph_destroy(p->g);
    *p = (ipu__parallel_program){0};
}
