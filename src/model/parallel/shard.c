/* The sharded optimizer's step: each replica keeps and updates its part of every large parameter.
 *
 * A parameter of n elements is R rows of ceil(n / R), the last padded with zeros; row r belongs to replica r.
 * Gradients are summed by recursive halving: with the replica whose number differs in bit 0, then 1, and so
 * on, each sends the half it does not need. These are the additions of the sum over all replicas, with the
 * same bits. New weights are gathered in the opposite order. Rows lie in the order in which halves are sent:
 * place q of replica r holds row reversed(q) ^ r, where reversed reverses the bits, so that all replicas send
 * the same part of the same variable, and place 0 is their own row.
 */
#include <string.h>

#include "graph/graph.h"
#include "op/op.h"
#include "model/parallel/lower.h"

enum {
    LEAST         = 1024,    /* elements of a part; smaller parameters stay whole to save messages */
    CHUNK         = 1 << 20, /* elements exchanged at once: 3 KB of a tile, held 2.5 times */
    MOST_CHUNKS   = 16,      /* each has its own code */
    MOST_REPLICAS = IPU__MOST_REPLICAS
};

/* ---- which parameters, and into how many parts ---- */

int64_t ipu__parallel_n_shards(const ipu__parallel *o, const ipu_shape *shape)
{
    int64_t n = o->replicas;
    return o->trains && o->shard_optimizer && ipu__op_n_elements(shape) >= LEAST * n ? n : 1;
}

ipu_shape ipu__parallel_shard_shape(const ipu__parallel *o, ipu_shape shape)
{
    int64_t n = ipu__parallel_n_shards(o, &shape);
    return n > 1 ? IPU_SHAPE((ipu__op_n_elements(&shape) + n - 1) / n) : shape;
}

/* ---- divided parameters ---- */

typedef struct part {
    ipu_tensor whole, whole_sum; /* of the network */
    ipu_tensor own, own_sum;     /* this replica's */
    int64_t    n;                /* elements of `own` */
} part;

typedef struct sharding {
    ipu_graph  *g;
    ipu_program p;
    int64_t     n_replicas;
    part       *parts;
    size_t      n_parts;
    ipu_tensor  own_row, in_order, back; /* int32: its number; rows by place; places by row */
    ipu_tensor *scratch;                 /* room for one tensor per part */
} sharding;

static void reversed(int64_t n, int32_t out[MOST_REPLICAS])
{
    out[0] = 0;
    for (int64_t half = 1, bit = n / 2; half < n; half *= 2, bit /= 2)
        for (int64_t i = 0; i < half; i++) out[half + i] = out[i] | (int32_t)bit;
}

static ipu_tensor add_variable(ipu_graph *g, ipu_type type, ipu_shape shape, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, type, shape, name);
    ipu_graph_map_linearly(g, t);
    return t;
}

static ipu_tensor add_constant(ipu_graph *g, ipu_shape shape, const int32_t *data)
{
    ipu_tensor t = ipu_graph_add_constant(g, IPU_INT32, shape, data, NULL);
    ipu_graph_map_linearly(g, t);
    return t;
}

static void add_kernel3(ipu_program p, const char *name, ipu_tensor a, ipu_tensor b, ipu_tensor out)
{
    ipu_program_add_kernel(p, name, NULL, 0, (ipu_tensor[]){a, b, out}, 3);
}

/* Everything that depends on the replica's number, computed once. */
static void add_orders(sharding *s)
{
    int32_t   places[MOST_REPLICAS], mask = (int32_t)s->n_replicas - 1;
    ipu_shape all = IPU_SHAPE(s->n_replicas), one = IPU_SHAPE(1);
    reversed(s->n_replicas, places);
    ipu_tensor table  = add_constant(s->g, all, places);
    ipu_tensor number = ipu_graph_add_replication_index(s->g, "replica");
    ipu_tensor row    = add_variable(s->g, IPU_INT32, one, NULL),
               turned = add_variable(s->g, IPU_INT32, one, NULL);
    ipu_graph_set_tile_mapping(s->g, number, 0);
    s->own_row         = add_variable(s->g, IPU_INT32, one, "shard.row");
    s->in_order        = add_variable(s->g, IPU_INT32, all, "shard.order");
    s->back            = add_variable(s->g, IPU_INT32, all, "shard.back");
    ipu_program   p    = ipu_program_sequence(s->g);
    ipu_attribute type = IPU_TEXT_ATTRIBUTE("to", "int32");
    ipu_program_add_kernel(p, IPU__KERNEL(cast), &type, 1,
                           (ipu_tensor[]){ipu_tensor_reshape(number, one), row}, 2);
    add_kernel3(p, IPU__KERNEL(bitwise_and), row, add_constant(s->g, one, &mask), s->own_row);
    add_kernel3(p, IPU__KERNEL(gather), table, s->own_row, turned);
    add_kernel3(p, IPU__KERNEL(bitwise_xor), table, s->own_row, s->in_order);
    add_kernel3(p, IPU__KERNEL(bitwise_xor), table, turned, s->back);
    ipu_graph_add_start(s->g, p);
}

/* ---- rows ---- */

/* Each row is spread over all tiles, so that halves meet where they are. */
static ipu_tensor add_rows(ipu_graph *g, ipu_type type, int64_t n_rows, int64_t n)
{
    ipu_tensor t = ipu_graph_add_variable(g, type, IPU_SHAPE(n_rows, n), "shard.rows");
    for (int64_t i = 0; i < n_rows; i++) ipu_graph_map_linearly(g, ipu_tensor_slice(t, i, i + 1, 0));
    return t;
}

/* A whole tensor as R rows, the last padded: with zeros, or with a scratch tensor for writing. */
static ipu_tensor as_rows(const sharding *s, ipu_tensor whole, int64_t n, bool writes)
{
    ipu_tensor flat   = ipu_tensor_flatten(whole);
    ipu_type   type   = ipu_tensor_type(whole);
    ipu_shape  lack   = IPU_SHAPE(n * s->n_replicas - ipu_tensor_n_elements(whole));
    ipu_tensor filler = writes ? ipu_graph_add_variable(s->g, type, lack, "shard.filler")
                               : ipu_graph_add_constant_value(s->g, type, lack, 0, NULL);
    ipu_graph_map_linearly(s->g, filler);
    return ipu_tensor_reshape(ipu_tensor_concat2(flat, filler, 0), IPU_SHAPE(s->n_replicas, n));
}

/* One kind of tensor of all parts of this type: rows [R, n] of the whole ones to read and to write, and the
 * vector [n] of this replica's. */
typedef struct bundle {
    ipu_type   type;
    int64_t    n;
    ipu_tensor from, to, own;
} bundle;

enum { SUMS, WEIGHTS };

static ipu_tensor joined(const sharding *s, int kind, ipu_type type, bool writes)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_parts; i++) {
        const part *at    = &s->parts[i];
        ipu_tensor  whole = kind == SUMS ? at->whole_sum : at->whole;
        if (ipu_tensor_type(whole) != type) continue;
        s->scratch[n++] = as_rows(s, whole, at->n, writes);
    }
    return n > 0 ? ipu_tensor_concat(s->scratch, n, 1) : (ipu_tensor){s->g, 0};
}

static ipu_tensor joined_own(const sharding *s, int kind, ipu_type type)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_parts; i++) {
        ipu_tensor own = kind == SUMS ? s->parts[i].own_sum : s->parts[i].own;
        if (ipu_tensor_type(own) == type) s->scratch[n++] = own;
    }
    return ipu_tensor_concat(s->scratch, n, 0);
}

/* Returns false if there are none of that type. */
static bool bundle_of(const sharding *s, int kind, ipu_type type, bool writes, bundle *out)
{
    *out         = (bundle){.type = type};
    ipu_tensor t = joined(s, kind, type, writes);
    if (!t.id) return false;
    if (writes)
        out->to = t;
    else
        out->from = t;
    out->own = joined_own(s, kind, type);
    out->n   = ipu_tensor_n_elements(out->own);
    return ipu_graph_status(s->g) == IPU_OK;
}

/* The end of the columns exchanged together, starting at `begin`. */
static int64_t chunk_end(const sharding *s, const bundle *b, int64_t begin)
{
    int64_t most = b->n * s->n_replicas / CHUNK;
    most         = most < 1 ? 1 : most > MOST_CHUNKS ? MOST_CHUNKS : most;
    int64_t end  = begin + (b->n + most - 1) / most;
    return end < b->n ? end : b->n;
}

static void swap(const sharding *s, ipu_tensor from, ipu_tensor to, int64_t bit)
{
    int64_t partner[MOST_REPLICAS];
    for (int64_t r = 0; r < s->n_replicas; r++) partner[r] = r ^ bit;
    ipu_program_add_cross_replica_copy(s->p, from, to, partner, (size_t)s->n_replicas);
}

static ipu_tensor rows_of(ipu_tensor t, int64_t begin, int64_t end)
{
    return ipu_tensor_slice(t, begin, end, 0);
}

/* Columns [begin, end) of a bundle as rows of a variable. */
static ipu_tensor read_rows(const sharding *s, const bundle *b, int64_t begin, int64_t end)
{
    ipu_tensor all = add_rows(s->g, b->type, s->n_replicas, end - begin);
    ipu_program_add_copy(s->p, ipu_tensor_slice(b->from, begin, end, 1), all);
    return all;
}

/* Sums the own row over all replicas. */
static void scatter(const sharding *s, const bundle *b, int64_t begin, int64_t end)
{
    int64_t    n   = end - begin;
    ipu_tensor all = read_rows(s, b, begin, end), placed = add_rows(s->g, b->type, s->n_replicas, n);
    add_kernel3(s->p, IPU__KERNEL(gather), all, s->in_order, placed);
    for (int64_t half = s->n_replicas / 2, bit = 1; half > 0; half /= 2, bit *= 2) {
        ipu_tensor arriving = add_rows(s->g, b->type, half, n), kept = rows_of(placed, 0, half);
        swap(s, rows_of(placed, half, 2 * half), arriving, bit);
        add_kernel3(s->p, IPU__KERNEL(add), kept, arriving, kept);
    }
    ipu_program_add_copy(s->p, ipu_tensor_flatten(rows_of(placed, 0, 1)),
                         ipu_tensor_slice(b->own, begin, end, 0));
}

/* Takes the own row of what is the same in all replicas. */
static void take_own(const sharding *s, const bundle *b, int64_t begin, int64_t end)
{
    ipu_tensor all = read_rows(s, b, begin, end), own = add_rows(s->g, b->type, 1, end - begin);
    add_kernel3(s->p, IPU__KERNEL(gather), all, s->own_row, own);
    ipu_program_add_copy(s->p, ipu_tensor_flatten(own), ipu_tensor_slice(b->own, begin, end, 0));
}

/* Gathers all rows, each from its replica. */
static void gather(const sharding *s, const bundle *b, int64_t begin, int64_t end)
{
    int64_t    n      = end - begin;
    ipu_tensor placed = add_rows(s->g, b->type, s->n_replicas, n),
               all    = add_rows(s->g, b->type, s->n_replicas, n);
    ipu_program_add_write_undef(s->p, placed); /* written piece by piece: it is not live before */
    ipu_program_add_copy(s->p, ipu_tensor_slice(b->own, begin, end, 0),
                         ipu_tensor_flatten(rows_of(placed, 0, 1)));
    for (int64_t has = 1, bit = s->n_replicas / 2; bit > 0; has *= 2, bit /= 2)
        swap(s, rows_of(placed, 0, has), rows_of(placed, has, 2 * has), bit);
    add_kernel3(s->p, IPU__KERNEL(gather), placed, s->back, all);
    ipu_program_add_copy(s->p, all, ipu_tensor_slice(b->to, begin, end, 1));
}

typedef void (*move_fn)(const sharding *s, const bundle *b, int64_t begin, int64_t end);

/* For all parts, in chunks. */
static ipu_status move(const sharding *s, int kind, bool writes, move_fn fn)
{
    static const ipu_type types[] = {IPU_HALF, IPU_BFLOAT16, IPU_FLOAT, IPU_DOUBLE};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        bundle b;
        if (!bundle_of(s, kind, types[i], writes, &b)) continue;
        for (int64_t begin = 0, end; begin < b.n && ipu_graph_status(s->g) == IPU_OK; begin = end) {
            end = chunk_end(s, &b, begin);
            fn(s, &b, begin, end);
        }
    }
    return ipu__parallel_graph_status(s->g);
}

/* ---- moving rows around the step ---- */

static ipu_status find_parts(ipu__lowering *l, sharding *s)
{
    const ipu__ties *ties = &l->models->ties;
    ipu_model       *m    = l->step;
    s->parts              = ipu__alloc((ties->trained.n + 1) * sizeof *s->parts);
    s->scratch            = ipu__alloc((ties->trained.n + 1) * sizeof *s->scratch);
    if (!s->parts || !s->scratch) return ipu__fail_memory();
    for (size_t i = 0; i < ties->trained.n; i++) {
        const ipu__trained       *t   = &ties->trained.at[i];
        const ipu__builder_value *v   = &m->base.values.at[t->parameter.step],
                                 *sum = &m->base.values.at[t->sum.step];
        part p                        = {.whole     = l->net->tensors.at[t->parameter.net],
                                         .whole_sum = l->net->tensors.at[t->sum.net],
                                         .n         = v->shape.dim[0]};
        if (!p.whole.id || ipu_tensor_n_elements(p.whole) == ipu__op_n_elements(&v->shape)) continue;
        p.own     = add_variable(s->g, v->type, v->shape, v->name);
        p.own_sum = add_variable(s->g, sum->type, sum->shape, sum->name);
        ipu__model_bind(m, t->parameter.step, p.own);
        ipu__model_bind(m, t->sum.step, p.own_sum);
        s->parts[s->n_parts++] = p;
    }
    return ipu__parallel_graph_status(l->g);
}

/* Sums over several processes are complete by now, in all replicas. */
static ipu_status before(const ipu__parallel *o, sharding *s)
{
    if (s->n_parts == 0) return IPU_OK;
    add_orders(s);
    for (size_t i = 0; i < s->n_parts; i++) {
        ipu_program_add_write_undef(s->p, s->parts[i].own);
        ipu_program_add_write_undef(s->p, s->parts[i].own_sum);
    }
    IPU_TRY(move(s, SUMS, false, o->processes > 1 ? take_own : scatter));
    return move(s, WEIGHTS, false, take_own);
}

/* ---- states in streaming memory ---- */

typedef struct off_chip {
    ipu_remote_buffer buffer;
    ipu_tensor        t;
} off_chip;

/* Turns optimizer states of parameters into variables known only to the step; returns their number. */
static size_t find_off_chip(ipu__lowering *l, off_chip *out)
{
    ipu_model *m = l->step;
    size_t     n = 0;
    for (size_t i = 0; l->o->optimizer_off_chip && i < m->states.n; i++) {
        uint32_t                  id = m->states.at[i];
        const ipu__builder_value *v  = &m->base.values.at[id];
        if (!m->values.at[id].parameter) continue;
        out[n].t      = add_variable(l->g, v->type, v->shape, v->name);
        out[n].buffer = ipu_graph_add_remote_buffer(l->g, v->name, v->type, ipu_tensor_n_elements(out[n].t),
                                                    1);
        ipu__model_bind(m, id, out[n++].t);
    }
    return n;
}

/* ---- the step ---- */

/* Zeroes the sums for the next step; sums of a single batch are simply overwritten. They belong to the
 * network, the parameters to the step. */
static ipu_status clear_sums(const ipu__lowering *l, ipu_program p)
{
    const ipu__ties *ties = &l->models->ties;
    ipu_attribute    zero = IPU_FLOAT_ATTRIBUTE("value", 0);
    for (size_t i = 0; l->o->accumulation > 1 && i < ties->trained.n; i++) {
        ipu_tensor sum = l->net->tensors.at[ties->trained.at[i].sum.net];
        ipu_program_add_kernel(p, IPU__KERNEL(fill), &zero, 1, &sum, 1);
    }
    return ipu__parallel_graph_status(l->g);
}

static ipu_status lower_step(ipu__lowering *l, sharding *s, off_chip *away)
{
    ipu_program step;
    ipu_tensor  first = {l->g, 0};
    IPU_TRY(find_parts(l, s));
    IPU_TRY(before(l->o, s));
    size_t n = find_off_chip(l, away);
    for (size_t i = 0; i < n; i++) ipu_program_add_remote_read(s->p, away[i].buffer, first, away[i].t);
    IPU_TRY(ipu_model_lower(l->step, l->g, &step));
    ipu_program_add(s->p, step);
    for (size_t i = 0; i < n; i++) ipu_program_add_remote_write(s->p, away[i].t, away[i].buffer, first);
    if (s->n_parts > 0) IPU_TRY(move(s, WEIGHTS, true, gather));
    return clear_sums(l, s->p);
}

ipu_status ipu__parallel_lower_step(ipu__lowering *l, ipu_program p)
{
    sharding   s      = {.g = l->g, .p = p, .n_replicas = ipu_graph_replication(l->g)};
    off_chip  *away   = ipu__alloc((l->step->states.n + 1) * sizeof *away);
    ipu_status status = away ? lower_step(l, &s, away) : ipu__fail_memory();
    ipu__free(away);
    ipu__free(s.parts);
    ipu__free(s.scratch);
    return status;
}

bool ipu__parallel_find_place(const ipu__parallel *o, const ipu__parallel_models *models, uint32_t id,
                              ipu__parallel_place *out)
{
    const ipu_model    *step  = models->step;
    const ipu_shape    *own   = &step->base.values.at[id].shape;
    uint32_t            owner = step->values.at[id].parameter;
    const ipu__trained *t     = owner ? ipu__trained_by_step(&models->ties, owner) : NULL;
    if (!t) return false;
    ipu_shape whole = models->net->base.values.at[t->parameter.net].shape;
    *out            = (ipu__parallel_place){.whole       = whole,
                                            .n_part      = ipu__op_n_elements(own),
                                            .is_divided  = !ipu__shape_equal(&whole, own),
                                            .is_off_chip = o->optimizer_off_chip};
    return true;
}
