/* Sums the gradients of all replicas and processes before the optimizer's step.
 *
 * Between processes that takes time, which is overlapped with the backward pass: as soon as the sum of a
 * parameter's gradients is final in the last batch of a step, its summation starts, with small ones bundled.
 */
#include <string.h>

#include "graph/graph.h"
#include "op/op.h"
#include "model/parallel/lower.h"

enum { BUNDLE_BYTES = 256 << 10 }; /* of several parameters: enough to outweigh the cost of a message */

/* Whether it is summed here: parameters divided among the replicas of a single process are handled elsewhere
 * (shard.c). */
static bool is_wanted(const ipu__lowering *l, const ipu__trained *t)
{
    const ipu_shape *whole = &l->net->base.values.at[t->sum.net].shape,
                    *own   = &l->step->base.values.at[t->sum.step].shape;
    return l->o->processes > 1 || ipu__op_n_elements(whole) == ipu__op_n_elements(own);
}

/* ---- while gradients are computed ---- */

typedef struct splitter {
    ipu__lowering *l;
    IPU__ARRAY(ipu_program) segments; /* of the network's program */
    IPU__ARRAY(size_t) ends;          /* by segment: end of the sums in l->begun that start after it */
    size_t first;                     /* index in l->begun of the bundle's first */
    size_t bytes;                     /* size of the bundle */
} splitter;

/* The summation of the bundle up to `end` starts after what has been lowered so far. */
static bool close_segment(splitter *s, ipu_program *program, size_t end)
{
    ipu_program done = *program;
    *program         = ipu_program_sequence(s->l->g);
    s->first         = end;
    return ipu__push(&s->segments, done) && ipu__push(&s->ends, end);
}

/* Large ones go by themselves, and are summed where they lie; small ones wait for others. */
static bool begin_alone(splitter *s, ipu_tensor t, ipu_program *program)
{
    ipu_tensor *at = s->l->begun.at;
    memmove(at + s->first + 1, at + s->first, (s->l->begun.n - 1 - s->first) * sizeof *at);
    at[s->first] = t;
    return close_segment(s, program, s->first + 1);
}

static ipu_status settled(void *user, uint32_t kept, ipu_program *program)
{
    splitter        *s = user;
    const ipu_model *m = s->l->net;
    if (!ipu__ties_is_sum(&s->l->models->ties, kept)) return IPU_OK;
    ipu_tensor t     = ipu_tensor_flatten(m->tensors.at[kept]);
    size_t     bytes = (size_t)ipu_tensor_n_elements(t) * ipu_type_size(ipu_tensor_type(t));
    bool       ok    = true;
    if (s->bytes > 0 && ipu_tensor_type(s->l->begun.at[s->first]) != ipu_tensor_type(t)) {
        ok       = close_segment(s, program, s->l->begun.n);
        s->bytes = 0;
    }
    ok = ok && ipu__push(&s->l->begun, t);
    if (ok && bytes >= BUNDLE_BYTES) {
        ok = begin_alone(s, t, program);
    } else {
        s->bytes += bytes;
        if (ok && s->bytes >= BUNDLE_BYTES) {
            ok       = close_segment(s, program, s->l->begun.n);
            s->bytes = 0;
        }
    }
    return ok ? ipu__parallel_graph_status(s->l->g) : ipu__fail_memory();
}

static void add_segments(const splitter *s, bool begins, ipu_program p)
{
    size_t done = 0;
    for (size_t i = 0; i < s->segments.n; i++) {
        ipu_program_add(p, s->segments.at[i]);
        size_t n = s->ends.at[i] - done;
        if (begins && n > 0) ipu_program_add_all_reduce(p, ipu_tensor_concat(s->l->begun.at + done, n, 0));
        done = s->ends.at[i];
    }
}

static ipu_status update_early(const ipu__lowering *l)
{
    const ipu__ties *ties = &l->models->ties;
    uint32_t        *sums = ipu__alloc((ties->trained.n + 1) * sizeof *sums);
    if (!sums) return ipu__fail_memory();
    for (size_t i = 0; i < ties->trained.n; i++) sums[i] = ties->trained.at[i].sum.net;
    ipu_status status = ipu__model_schedule_updates(l->net, sums, ties->trained.n);
    ipu__free(sums);
    return status;
}

/* Gradients need not all exist at once: each weight is updated when its gradient is ready, and the next
 * gradient reuses the memory. An engine may prefer to update all of them together if they are few bytes, once
 * no product reads the weights any more. */
static ipu_status update_soon(ipu_model *m, const ipu__engine_def *engine)
{
    int64_t   bytes = 0;
    uint32_t *kept  = ipu__alloc((m->parameters.n + m->states.n + 1) * sizeof *kept);
    size_t    n     = 0;
    if (!kept) return ipu__fail_memory();
    for (size_t i = 0; i < m->parameters.n; i++) {
        const ipu__builder_value *v = &m->base.values.at[m->parameters.at[i]];
        bytes += ipu__op_n_elements(&v->shape) * (int64_t)ipu_type_size(v->type);
        kept[n++] = m->parameters.at[i];
    }
    for (size_t i = 0; i < m->states.n; i++) kept[n++] = m->states.at[i];
    ipu_status status = engine && bytes < engine->update_bytes ? IPU_OK
                                                               : ipu__model_schedule_updates(m, kept, n);
    ipu__free(kept);
    return status;
}

ipu_status ipu__parallel_lower_net(ipu__lowering *l, ipu_program *net, ipu_program *last)
{
    const ipu__engine_def *engine = l->models->engine;
    bool                   alone  = l->o->processes == 1;
    *last                         = (ipu_program){l->g, 0};
    if (!l->o->trains) return ipu_model_lower(l->net, l->g, net);
    IPU_TRY(alone ? update_soon(l->net, engine) : update_early(l));
    if (engine && engine->remat_bytes > 0) IPU_TRY(ipu__model_remat(l->net, engine->remat_bytes));
    if (alone) return ipu_model_lower(l->net, l->g, net);
    splitter   s      = {.l = l};
    ipu_status status = ipu__model_lower_with(l->net, l->g, settled, &s, net);
    if (status == IPU_OK && !close_segment(&s, net, l->begun.n)) status = ipu__fail_memory();
    if (status == IPU_OK) add_segments(&s, false, *net); /* replaced by a new program */
    if (status == IPU_OK && l->begun.n > 0) {
        *last = ipu_program_sequence(l->g);
        add_segments(&s, true, *last);
    }
    if (status == IPU_OK) status = ipu__parallel_graph_status(l->g);
    ipu__array_fini(&s.segments);
    ipu__array_fini(&s.ends);
    return status;
}

/* ---- the rest, once all are ready ---- */

static bool has_begun(const ipu__lowering *l, ipu_tensor t)
{
    for (size_t i = 0; i < l->begun.n; i++)
        if (ipu_tensor_equal(l->begun.at[i], t)) return true;
    return false;
}

/* All sums of gradients of one type as one vector; null if there are none. `parts` has room for all. */
static ipu_tensor all_sums(const ipu__lowering *l, ipu_type type, ipu_tensor *parts)
{
    const ipu__ties *ties = &l->models->ties;
    size_t           n    = 0;
    for (size_t i = 0; i < ties->trained.n; i++) {
        uint32_t id = ties->trained.at[i].sum.net;
        if (!l->net->tensors.at[id].id || l->net->base.values.at[id].type != type) continue;
        ipu_tensor t = ipu_tensor_flatten(l->net->tensors.at[id]);
        if (is_wanted(l, &ties->trained.at[i]) && !has_begun(l, t)) parts[n++] = t;
    }
    return n > 0 ? ipu_tensor_concat(parts, n, 0) : (ipu_tensor){l->g, 0};
}

ipu_status ipu__parallel_reduce(ipu__lowering *l, ipu_program p)
{
    static const ipu_type types[] = {IPU_FLOAT, IPU_DOUBLE}; /* the possible types of sums */
    if (ipu_graph_replication(l->g) == 1 && l->o->processes == 1) return IPU_OK;
    ipu_tensor *parts = ipu__alloc((l->models->ties.trained.n + 1) * sizeof *parts);
    if (!parts) return ipu__fail_memory();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        ipu_tensor all = all_sums(l, types[i], parts);
        if (all.id) ipu_program_add_all_reduce(p, all);
    }
    ipu_program_add_all_reduce_wait(p);
    ipu__free(parts);
    return ipu__parallel_graph_status(l->g);
}
