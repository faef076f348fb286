/* Common subexpression elimination: merges equal ops on equal values, and equal constants.
 *
 * Ops are visited in the order they run. Earlier ones that are still visible are in a chained hash table,
 * newest first, so that on leaving a branch or loop its ops are removed from the front.
 */
#include <string.h>

#include "model/pass/pass.h"

enum { CONSTANT_BYTES = 1 << 16 }; /* larger ones are not compared */

typedef struct merging {
    ipu_model   *m;
    ipu__renames renames;
    size_t       mask;            /* buckets - 1 */
    uint32_t    *bucket;          /* first op of the chain + 1, or 0 */
    uint32_t    *next;            /* by op: next in the same chain */
    uint64_t    *hash;            /* by op */
    IPU__ARRAY(uint32_t) visible; /* ops in the table, in order of insertion */
    bool changed, failed;
} merging;

/* ---- what makes ops equal ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
    return hash ^ hash >> 29;
}

static uint64_t mix_bytes(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *at = data;
    for (; n >= 8; n -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = mix(hash, word);
    }
    for (size_t i = 0; i < n; i++) hash = mix(hash, at[i]);
    return hash;
}

static uint64_t hash_attribute(uint64_t hash, const ipu_attribute *a)
{
    hash = mix(mix_bytes(hash, a->name, strlen(a->name)), (uint64_t)a->kind);
    switch (a->kind) {
    case IPU_ATTRIBUTE_INT: return mix(hash, (uint64_t)a->i);
    case IPU_ATTRIBUTE_FLOAT: return mix_bytes(hash, &a->f, sizeof a->f);
    case IPU_ATTRIBUTE_TEXT: return mix_bytes(hash, a->text, strlen(a->text));
    case IPU_ATTRIBUTE_INTS: return mix_bytes(hash, a->ints, a->n_ints * sizeof *a->ints);
    }
    return hash;
}

static bool equal_attribute(const ipu_attribute *a, const ipu_attribute *b)
{
    if (a->kind != b->kind || strcmp(a->name, b->name) != 0) return false;
    switch (a->kind) {
    case IPU_ATTRIBUTE_INT: return a->i == b->i;
    case IPU_ATTRIBUTE_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case IPU_ATTRIBUTE_TEXT: return strcmp(a->text, b->text) == 0;
    case IPU_ATTRIBUTE_INTS:
        return a->n_ints == b->n_ints
            && (a->n_ints == 0 || memcmp(a->ints, b->ints, a->n_ints * sizeof *a->ints) == 0);
    }
    return false;
}

static uint64_t hash_op(const ipu__model_op *op)
{
    uint64_t hash = mix((uint64_t)(uintptr_t)op->def, op->recompute);
    if (op->def->flags & IPU__OP_COMMUTES)
        hash = mix(hash, mix(0, op->in[0]) + mix(0, op->in[1])); /* sums of ids collide easily */
    else
        for (uint32_t i = 0; i < op->n_in; i++) hash = mix(hash, op->in[i]);
    for (size_t i = 0; i < op->n_attributes; i++) hash = hash_attribute(hash, &op->attributes[i]);
    return hash;
}

static bool equal_inputs(const ipu__model_op *a, const ipu__model_op *b)
{
    if (a->n_in != b->n_in) return false;
    if (a->n_in == 0 || memcmp(a->in, b->in, a->n_in * sizeof *a->in) == 0) return true;
    return (a->def->flags & IPU__OP_COMMUTES) && a->in[0] == b->in[1] && a->in[1] == b->in[0];
}

static bool equal_ops(const merging *g, const ipu__model_op *a, const ipu__model_op *b)
{
    if (a->def != b->def || a->recompute != b->recompute || !ipu__model_same_stage(g->m, a->stage, b->stage)
        || a->n_attributes != b->n_attributes || a->n_out != b->n_out || !equal_inputs(a, b))
        return false;
    for (size_t i = 0; i < a->n_attributes; i++)
        if (!equal_attribute(&a->attributes[i], &b->attributes[i])) return false;
    return true;
}

/* ---- ops ---- */

static void replace_op(merging *g, ipu__model_op *op, const ipu__model_op *by)
{
    for (uint32_t i = 0; i < op->n_out; i++)
        g->failed |= !ipu__rename(&g->renames, op->first_out + i, by->first_out + i);
    op->dead   = true;
    g->changed = true;
}

static void meet_op(merging *g, uint32_t id)
{
    ipu__model_op *op = &g->m->ops.at[id];
    if (op->def->flags & IPU__OP_IMPURE) return;
    uint64_t  hash  = hash_op(op);
    uint32_t *chain = &g->bucket[hash & g->mask];
    for (uint32_t at = *chain; at; at = g->next[at - 1]) {
        if (g->hash[at - 1] != hash || !equal_ops(g, op, &g->m->ops.at[at - 1])) continue;
        replace_op(g, op, &g->m->ops.at[at - 1]);
        return;
    }
    g->hash[id] = hash;
    g->next[id] = *chain;
    *chain      = id + 1;
    if (!ipu__push(&g->visible, id)) g->failed = true;
}

static void leave(merging *g, size_t n_visible)
{
    while (g->visible.n > n_visible) {
        uint32_t id                      = g->visible.at[--g->visible.n];
        g->bucket[g->hash[id] & g->mask] = g->next[id];
    }
}

static void walk(merging *g, uint32_t block)
{
    size_t before = g->visible.n, kept = 0;
    for (size_t i = 0; i < g->m->blocks.at[block].order.n && !g->failed; i++) {
        uint32_t       id = g->m->blocks.at[block].order.at[i];
        ipu__model_op *op = &g->m->ops.at[id];
        if (op->dead) continue;
        ipu__rename_inputs(&g->renames, op);
        if (op->kind == IPU__MODEL_OP) meet_op(g, id);
        if (op->kind != IPU__MODEL_OP) walk(g, op->body);
        if (op->kind == IPU__MODEL_IF) walk(g, op->otherwise);
        if (!op->dead) g->m->blocks.at[block].order.at[kept++] = id;
    }
    if (!g->failed) g->m->blocks.at[block].order.n = kept;
    leave(g, before);
}

/* ---- constants ---- */

typedef struct constants {
    uint32_t *bucket; /* first value of the chain, or 0 */
    uint32_t *next;   /* by value */
    uint64_t *hash;   /* by value */
} constants;

static size_t bytes_of(const ipu_model *m, uint32_t id)
{
    const ipu__builder_value *v = &m->base.values.at[id];
    return (size_t)ipu__op_n_elements(&v->shape) * ipu_type_size(v->type);
}

static bool equal_constants(const ipu_model *m, uint32_t a, uint32_t b)
{
    const ipu__builder_value *x = &m->base.values.at[a], *y = &m->base.values.at[b];
    return x->type == y->type && ipu__shape_equal(&x->shape, &y->shape)
        && memcmp(m->values.at[a].data, m->values.at[b].data, bytes_of(m, a)) == 0;
}

static void meet_constant(merging *g, const constants *c, uint32_t id)
{
    ipu_model *m     = g->m;
    size_t     bytes = bytes_of(m, id);
    if (bytes > CONSTANT_BYTES) return;
    uint64_t hash   = mix_bytes((uint64_t)m->base.values.at[id].type, m->values.at[id].data, bytes);
    c->hash[id]     = hash;
    uint32_t *chain = &c->bucket[hash & g->mask];
    for (uint32_t at = *chain; at; at = c->next[at]) {
        if (c->hash[at] != hash || !equal_constants(m, at, id)) continue;
        m->values.at[at].block = 0; /* now usable everywhere */
        g->failed |= !ipu__rename(&g->renames, id, at);
        return;
    }
    c->next[id] = *chain;
    *chain      = id;
}

/* Not counted as a change: unused constants cost nothing and would be found again. */
static void merge_constants(merging *g)
{
    size_t    n = g->m->values.n;
    constants c = {.bucket = ipu__alloc_zeroed((g->mask + 1) * sizeof *c.bucket),
                   .next   = ipu__alloc_zeroed(n * sizeof *c.next),
                   .hash   = ipu__alloc_zeroed(n * sizeof *c.hash)};
    g->failed   = !c.bucket || !c.next || !c.hash;
    for (uint32_t id = 1; id < n && !g->failed; id++)
        if (g->m->values.at[id].kind == IPU__VALUE_CONSTANT) meet_constant(g, &c, id);
    ipu__free(c.bucket);
    ipu__free(c.next);
    ipu__free(c.hash);
}

/* ---- the pass ---- */

ipu_status ipu__model_cse(ipu_model *m, bool *changed)
{
    merging g = {.m = m, .mask = 63};
    while (g.mask + 1 < m->values.n) g.mask = 2 * g.mask + 1;
    g.bucket = ipu__alloc_zeroed((g.mask + 1) * sizeof *g.bucket);
    g.next   = ipu__alloc_zeroed(m->ops.n * sizeof *g.next);
    g.hash   = ipu__alloc_zeroed(m->ops.n * sizeof *g.hash);
    g.failed = !g.bucket || !g.next || !g.hash;
    if (!g.failed) merge_constants(&g);
    if (!g.failed) walk(&g, 0);
    if (!g.failed) ipu__renames_apply(&g.renames, m);
    *changed = g.changed;
    ipu__renames_fini(&g.renames);
    ipu__array_fini(&g.visible);
    ipu__free(g.bucket);
    ipu__free(g.next);
    ipu__free(g.hash);
    return g.failed ? ipu__fail_memory() : IPU_OK;
}
