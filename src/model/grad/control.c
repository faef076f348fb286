/* Gradients of branches and loops.
 *
 * The gradient of an IF is an IF with the same condition, whose branches redo the forward branch and then go
 * backward over it. Its inputs are the values the branches use from outside; if a branch does not use one,
 * its gradient there is zero.
 */
#include "model/grad/gradient.h"

/* ---- captured values ---- */

static bool is_inside(const ipu_model *m, uint32_t id, uint32_t outer)
{
    for (uint32_t block = m->values.at[id].block; block != IPU__NO_BLOCK; block = m->blocks.at[block].parent)
        if (block == outer) return true;
    return false;
}

static bool note_use(ipu__diff *p, uint32_t id, uint32_t outer, ipu__id_list *list)
{
    if (id == 0 || p->values.at[id].seen == p->walk || is_inside(p->m, id, outer)) return true;
    p->values.at[id].seen = p->walk;
    return ipu__push(list, id);
}

/* Adds what `block` and nested blocks use but `outer`, which contains them, does not define. Returns false if
 * out of memory. */
static bool note_uses(ipu__diff *p, uint32_t block, uint32_t outer, ipu__id_list *list)
{
    if (block == IPU__NO_BLOCK) return true;
    const ipu__block *b  = &p->m->blocks.at[block];
    bool              ok = note_use(p, b->go_on, outer, list);
    for (size_t i = 0; ok && i < b->order.n; i++) {
        const ipu__model_op *op = &p->m->ops.at[b->order.at[i]];
        if (op->dead) continue;
        for (uint32_t k = 0; ok && k < op->n_in; k++) ok = note_use(p, op->in[k], outer, list);
        ok = ok && note_uses(p, op->body, outer, list) && note_uses(p, op->otherwise, outer, list);
    }
    for (size_t i = 0; ok && i < b->yields.n; i++) ok = note_use(p, b->yields.at[i], outer, list);
    return ok;
}

/* Gradients of copies belong to the originals, each listed once. */
static bool note_wanted(ipu__diff *p, uint32_t id, ipu__outside *o)
{
    if (p->values.at[id].origin) id = p->values.at[id].origin;
    if (p->values.at[id].seen == p->walk) return true;
    p->values.at[id].seen = p->walk;
    return ipu__push(&o->wanted, id) && ipu__push(&o->saved, p->values.at[id].d);
}

bool ipu__diff_enter(ipu__diff *p, const ipu__model_op *op, ipu__outside *o)
{
    o->again = p->m->again;
    p->walk++;
    bool ok = ipu__diff_cover(p) && note_uses(p, op->body, op->body, &o->captured)
           && note_uses(p, op->otherwise, op->otherwise, &o->captured);
    p->walk++;
    for (size_t i = 0; ok && i < o->captured.n; i++) {
        uint32_t id = o->captured.at[i], stand_in = ipu__model_substitute(p->m, id);
        ok = ipu__diff_cover(p);
        if (ok && stand_in != id) p->values.at[id].copy = stand_in;
        if (ok && p->values.at[id].is_active) ok = note_wanted(p, id, o);
    }
    for (size_t i = 0; ok && i < o->wanted.n; i++) p->values.at[o->wanted.at[i]].d = 0;
    if (!ok) ipu__diff_fail_memory(p);
    p->m->again = NULL;
    return ok && ipu__diff_ok(p);
}

void ipu__diff_leave(ipu__diff *p, ipu__outside *o, const ipu_value *d)
{
    p->m->again = o->again;
    for (size_t i = 0; i < o->captured.n; i++) p->values.at[o->captured.at[i]].copy = 0;
    for (size_t i = 0; i < o->saved.n; i++) p->values.at[o->wanted.at[i]].d = o->saved.at[i];
    for (size_t i = 0; d && i < o->wanted.n; i++) ipu__diff_add(p, o->wanted.at[i], d[i]);
    ipu__array_fini(&o->captured);
    ipu__array_fini(&o->wanted);
    ipu__array_fini(&o->saved);
}

/* ---- shared by IF and LOOP ---- */

ipu_value ipu__diff_zeros_like(ipu__diff *p, uint32_t id)
{
    const ipu__builder_value v       = p->m->base.values.at[id]; /* values move */
    ipu_attribute            with[3] = {
                   IPU__INTS("shape", v.shape.dim, v.shape.rank),
                   {.name = "type", .kind = IPU_ATTRIBUTE_TEXT, .text = ipu_type_name(v.type)},
                   {.name = "value", .kind = IPU_ATTRIBUTE_FLOAT, .f = 0},
    };
    return ipu__emit1(&p->m->base, IPU__KERNEL(fill), with, 3, NULL, 0);
}

void ipu__diff_block(ipu__diff *p, uint32_t block, const ipu_value *d_yields)
{
    ipu_model *m     = p->m;
    size_t     begin = m->blocks.at[m->block].order.n;
    ipu__clone_block(p, block);
    if (!ipu__diff_ok(p)) return;
    size_t end = m->blocks.at[m->block].order.n;
    ipu__diff_sweep(p, m->block, begin, end);
    for (size_t i = 0; i < m->blocks.at[block].yields.n && ipu__diff_ok(p); i++) {
        uint32_t id = ipu__clone_of(p, m->blocks.at[block].yields.at[i]).id;
        if (ipu__has(d_yields[i]) && p->values.at[id].is_active) ipu__diff_add(p, id, d_yields[i]);
    }
    ipu__diff_reverse(p, m->block, begin, end);
}

ipu_value ipu__diff_take(ipu__diff *p, uint32_t id)
{
    if (!ipu__diff_ok(p) || !ipu__diff_cover(p)) return IPU_NO_VALUE;
    ipu_value d        = ipu__diff_of(p, id);
    p->values.at[id].d = 0;
    return ipu__has(d) ? d : ipu__diff_zeros_like(p, id);
}

ipu_value *ipu__diff_new_values(ipu__diff *p, size_t n)
{
    ipu_value *values = ipu__alloc_zeroed((n + 1) * sizeof *values);
    if (!values) ipu__diff_fail_memory(p);
    return values;
}

/* ---- IF ---- */

static void branch(ipu__diff *p, uint32_t block, const ipu_value *d_out, const ipu__outside *o,
                   ipu_value *results)
{
    ipu__diff_block(p, block, d_out);
    for (size_t i = 0; i < o->wanted.n; i++) results[i] = ipu__diff_take(p, o->wanted.at[i]);
    ipu_model_yield(p->m, results, o->wanted.n);
}

bool ipu__diff_is_wanted(const ipu__diff *p, const ipu__model_op *op)
{
    for (uint32_t i = 0; i < op->n_out; i++)
        if (p->values.at[op->first_out + i].is_active && p->values.at[op->first_out + i].d) return true;
    return false;
}

void ipu__diff_if(ipu__diff *p, uint32_t id)
{
    ipu__model_op op = p->m->ops.at[id];
    ipu__outside  o  = {0};
    if (!ipu__diff_is_wanted(p, &op)) return;
    ipu_value  condition = ipu__model_handle(p->m, ipu__model_substitute(p->m, op.in[0]));
    ipu_value *d_out = ipu__diff_new_values(p, op.n_out), *results = NULL;
    bool       ok = d_out && ipu__diff_enter(p, &op, &o) && (results = ipu__diff_new_values(p, o.wanted.n));
    for (uint32_t i = 0; ok && i < op.n_out; i++) d_out[i] = ipu__diff_of(p, op.first_out + i);
    if (ok) {
        ipu_model_if(p->m, condition);
        branch(p, op.body, d_out, &o, results);
        ipu_model_else(p->m);
        branch(p, op.otherwise, d_out, &o, results);
        ipu_model_end(p->m, results, o.wanted.n);
    }
    ipu__diff_leave(p, &o, ok && ipu__diff_ok(p) ? results : NULL);
    ipu__free(d_out);
    ipu__free(results);
}
