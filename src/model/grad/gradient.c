/* Gradients: reverse mode over ops, emitted as ops of the same model.
 *
 * requires: order lists in which every value is defined before its uses. See gradient.h.
 */
#include "model/grad/gradient.h"

#include <string.h>

#include "ipu/op/elementwise.h"

void ipu__diff_fail_memory(ipu__diff *p)
{
    if (p->m->base.status == IPU_OK) p->m->base.status = IPU_OUT_OF_MEMORY;
    ipu__fail_memory();
}

bool ipu__diff_cover(ipu__diff *p)
{
    size_t have = p->values.n, want = p->m->values.n;
    if (p->values.at && have >= want) return true;
    if (!ipu__reserve(&p->values, want - have) || !p->values.at) {
        ipu__diff_fail_memory(p);
        return false;
    }
    memset(p->values.at + have, 0, (want - have) * sizeof *p->values.at);
    p->values.n = want;
    return true;
}

static ipu_type type_of(const ipu__diff *p, uint32_t id) { return p->m->base.values.at[id].type; }

static bool carries_gradient(const ipu__diff *p, uint32_t id)
{
    return id != 0 && ipu__op_is_floating(type_of(p, id));
}

ipu_value ipu__diff_of(const ipu__diff *p, uint32_t id)
{
    return ipu__model_handle(p->m, p->values.at[id].d);
}

void ipu__diff_add(ipu__diff *p, uint32_t id, ipu_value part)
{
    if (!ipu__has(part) || !ipu__diff_ok(p) || !ipu__diff_cover(p)) return;
    uint32_t origin = p->values.at[id].origin;
    if (origin) id = origin;
    uint32_t sofar = p->values.at[id].d;
    if (sofar) part = ipu_add(&p->m->base, ipu__model_handle(p->m, sofar), part);
    p->values.at[id].d = part.id;
}

/* ---- forward: which values depend on x ---- */

static bool any_active(const ipu__diff *p, const ipu__model_op *op)
{
    for (uint32_t i = 0; i < op->n_in; i++)
        if (p->values.at[op->in[i]].is_active) return true;
    return false;
}

/* Outputs of an IF or LOOP are active if what its blocks yield is. Returns whether that changed anything. */
static bool activate_from(ipu__diff *p, uint32_t first, const ipu__block *block)
{
    bool news = false;
    for (size_t i = 0; i < block->yields.n; i++) {
        ipu__diff_value *to = &p->values.at[first + i];
        if (to->is_active || !p->values.at[block->yields.at[i]].is_active) continue;
        to->is_active = news = true;
    }
    return news;
}

static void sweep_block(ipu__diff *p, uint32_t block)
{
    ipu__diff_sweep(p, block, 0, p->m->blocks.at[block].order.n);
}

static void sweep_loop(ipu__diff *p, const ipu__model_op *op)
{
    const ipu__block *body = &p->m->blocks.at[op->body];
    for (uint32_t i = 0; i < body->n_carried; i++)
        p->values.at[body->first_carried + i].is_active |= p->values.at[op->in[i + 1]].is_active;
    do sweep_block(p, op->body);
    while (activate_from(p, body->first_carried, body));
    for (uint32_t i = 0; i < op->n_out; i++) /* with no turns they are the values carried in */
        p->values.at[op->first_out + i].is_active |= p->values.at[body->first_carried + i].is_active;
}

static void sweep_op(ipu__diff *p, const ipu__model_op *op)
{
    if (op->kind == IPU__MODEL_IF) {
        sweep_block(p, op->body);
        sweep_block(p, op->otherwise);
        activate_from(p, op->first_out, &p->m->blocks.at[op->body]);
        activate_from(p, op->first_out, &p->m->blocks.at[op->otherwise]);
        return;
    }
    if (op->kind == IPU__MODEL_LOOP) {
        sweep_loop(p, op);
        return;
    }
    const ipu__custom *custom = ipu__diff_custom(p->m, op);
    bool               active = custom ? ipu__diff_custom_is_active(p, custom) : any_active(p, op);
    if ((op->def->flags & IPU__OP_NO_GRADIENT) || !active) return;
    for (uint32_t i = 0; i < op->n_out; i++)
        if (carries_gradient(p, op->first_out + i)) p->values.at[op->first_out + i].is_active = true;
}

void ipu__diff_sweep(ipu__diff *p, uint32_t block, size_t begin, size_t end)
{
    if (!ipu__diff_cover(p)) return;
    for (size_t i = begin; i < end; i++) {
        const ipu__model_op *op = &p->m->ops.at[p->m->blocks.at[block].order.at[i]];
        if (!op->dead) sweep_op(p, op);
    }
}

/* ---- backward ---- */

/* Gradients are named after their values, if those have names. */
static void name_gradient(ipu__diff *p, uint32_t id)
{
    ipu_builder *b    = &p->m->base;
    uint32_t     d    = p->values.at[id].d;
    const char  *name = b->values.at[id].name;
    if (d < p->first_new || !*name || *b->values.at[d].name) return;
    size_t n   = strlen(name);
    char  *own = ipu__arena_alloc(&b->arena, n + sizeof "grad/");
    if (!own) {
        ipu__diff_fail_memory(p);
        return;
    }
    memcpy(own, "grad/", 5);
    memcpy(own + 5, name, n + 1);
    b->values.at[d].name = own;
}

typedef struct op_step {
    ipu__model_op    op; /* a copy: ops move when others are emitted */
    ipu__kernel_call call;
    ipu_value        in[IPU__MAX_OPERANDS], out[IPU__MAX_OPERANDS];
    ipu_value        d_in[IPU__MAX_OPERANDS], d_out[IPU__MAX_OPERANDS];
    bool             wanted[IPU__MAX_OPERANDS];
} op_step;

static void fail_no_gradient(ipu__diff *p, const op_step *s)
{
    uint32_t i = 0;
    while (i + 1 < s->op.n_in && !s->wanted[i]) i++;
    ipu__builder_fail(
        &p->m->base, IPU_UNSUPPORTED,
        "ipu_model_gradients: op %s (%s = %s to %s) has no gradient, and the path from x to y goes "
        "through it: pass its input through ipu_stop_gradient, use another op, or, if it came from a gradient, take "
        "that one with options.higher_order",
        s->call.def->name, s->call.def->operands[i].name, ipu__value_str(s->in[i]),
        ipu__value_str(s->out[0]));
}

/* A gradient that does not fit its input is a bug of the op, reported here rather than far away. */
static bool check_part(ipu__diff *p, const op_step *s, uint32_t i)
{
    ipu_shape want = ipu_value_shape(s->in[i]), found = ipu_value_shape(s->d_in[i]);
    if (!ipu__diff_ok(p)) return false;
    if (ipu_value_type(s->in[i]) == ipu_value_type(s->d_in[i]) && ipu__shape_equal(&want, &found))
        return true;
    ipu__builder_fail(
        &p->m->base, IPU_UNSUPPORTED,
        "ipu_model_gradients: op %s gives %s as the gradient of its input %s, %s: expected that "
        "type and shape",
        s->call.def->name, ipu__value_str(s->d_in[i]), s->call.def->operands[i].name,
        ipu__value_str(s->in[i]));
    return false;
}

static void step_own(ipu__diff *p, op_step *s)
{
    ipu__gradient g = {.b      = &p->m->base,
                       .call   = &s->call,
                       .in     = s->in,
                       .out    = s->out,
                       .d_out  = s->d_out,
                       .wanted = s->wanted,
                       .d_in   = s->d_in};
    s->op.def->grad(&g);
    for (uint32_t i = 0; i < s->op.n_in; i++)
        if (s->wanted[i] && ipu__has(s->d_in[i]) && check_part(p, s, i))
            ipu__diff_add(p, s->op.in[i], s->d_in[i]);
}

/* Emits the op again as simpler ones, which are then processed like those of the model. */
static void step_composed(ipu__diff *p, op_step *s)
{
    ipu_model *m     = p->m;
    size_t     begin = m->blocks.at[m->block].order.n;
    ipu_value  out[IPU__MAX_OPERANDS];
    for (uint32_t i = 0; i < s->op.n_out; i++) out[i] = (ipu_value){&m->base, 0};
    s->op.def->compose(&m->base, &s->call, s->in, out);
    size_t end = m->blocks.at[m->block].order.n;
    if (!ipu__diff_ok(p)) return;
    ipu__diff_sweep(p, m->block, begin, end);
    for (uint32_t i = 0; i < s->op.n_out; i++)
        if (ipu__has(s->d_out[i]) && out[i].id && p->values.at[out[i].id].is_active)
            ipu__diff_add(p, out[i].id, s->d_out[i]);
    ipu__diff_reverse(p, m->block, begin, end);
}

static void step_op(ipu__diff *p, const ipu__model_op *op)
{
    op_step s = {.op = *op, .call = ipu__model_call(p->m, op)};
    for (uint32_t i = 0; i < s.op.n_in; i++) {
        s.in[i]     = ipu__model_handle(p->m, s.op.in[i]);
        s.wanted[i] = p->values.at[s.op.in[i]].is_active;
    }
    for (uint32_t i = 0; i < s.op.n_out; i++) {
        s.out[i]   = ipu__model_handle(p->m, s.op.first_out + i);
        s.d_out[i] = ipu__diff_of(p, s.op.first_out + i);
    }
    const ipu__op_def *def   = s.op.def;
    bool               apart = def->compose && p->higher_order && (def->flags & IPU__OP_GRAD_ONCE);
    if (def->grad && !apart)
        step_own(p, &s);
    else if (def->compose)
        step_composed(p, &s);
    else
        fail_no_gradient(p, &s);
}

static bool has_gradient(ipu__diff *p, const ipu__model_op *op)
{
    bool has = false;
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (!p->values.at[op->first_out + i].d) continue;
        has = true;
        name_gradient(p, op->first_out + i);
    }
    return has;
}

static void step(ipu__diff *p, uint32_t id)
{
    const ipu__model_op *op = &p->m->ops.at[id];
    const ipu__location *at = &p->m->locations.at[op->location];
    if (p->again) ipu__recompute_step(p, op);
    const ipu__custom *custom = ipu__diff_custom(p->m, op);
    if (!has_gradient(p, op) && !custom) return;
    if (op->kind == IPU__MODEL_OP && !custom
        && ((op->def->flags & IPU__OP_NO_GRADIENT) || !any_active(p, op)))
        return;
    if (at->file) ipu_enter(at->file, at->line);
    bool       entered = at->file;
    ipu__stage stage   = p->m->stage;
    p->m->stage        = (ipu__stage){op->stage.number, op->stage.number != IPU__STAGE_ANY};
    if (custom)
        ipu__diff_step_custom(p, op, custom);
    else if (op->kind == IPU__MODEL_OP)
        step_op(p, op);
    else if (op->kind == IPU__MODEL_IF)
        ipu__diff_if(p, id);
    else
        ipu__diff_loop(p, id);
    p->m->stage = stage;
    if (entered) ipu_leave();
}

void ipu__diff_reverse(ipu__diff *p, uint32_t block, size_t begin, size_t end)
{
    /* Steps may insert ops into the block, but only after the current one. */
    for (size_t i = end; i-- > begin && ipu__diff_ok(p) && ipu__diff_cover(p);) {
        uint32_t id = p->m->blocks.at[block].order.at[i];
        if (!p->m->ops.at[id].dead) step(p, id);
    }
}

/* ---- entry points ---- */

static bool check_values(ipu_model *m, ipu_value y, const ipu_value *x, size_t n)
{
    const char *caller = "ipu_model_gradients";
    if (!ipu__builder_has(&m->base, caller, y)) return false;
    for (size_t i = 0; i <= n; i++) {
        ipu_value v = i < n ? x[i] : y;
        if (!ipu__builder_has(&m->base, caller, v)) return false;
        if (!ipu__model_sees(m, v.id))
            ipu__builder_fail(&m->base, IPU_INVALID,
                              "%s: %s was made in a branch or loop that has ended: yield it from there",
                              caller, ipu__value_str(v));
        else if (!ipu__op_is_floating(ipu_value_type(v)))
            ipu__builder_fail(&m->base, IPU_INVALID,
                              "%s: %s has no gradient: expected half, bfloat16, float or double", caller,
                              ipu__value_str(v));
    }
    return m->base.status == IPU_OK;
}

/* The initial gradient of y; null after an error. */
static ipu_value first_gradient(ipu_model *m, ipu_value y, ipu_value d_y)
{
    ipu_builder *b = &m->base;
    if (!ipu__has(d_y)) {
        if (ipu_value_n_elements(y) == 1)
            return ipu_constant_value(b, ipu_value_type(y), ipu_value_shape(y), 1);
        ipu__builder_fail(b, IPU_INVALID,
                          "ipu_model_gradients: %s is not a scalar: reduce it to one (a loss), or give its "
                          "gradient as options.d_y",
                          ipu__value_str(y));
        return IPU_NO_VALUE;
    }
    if (!ipu__builder_has(b, "ipu_model_gradients: options.d_y", d_y)) return IPU_NO_VALUE;
    ipu_shape want = ipu_value_shape(y), found = ipu_value_shape(d_y);
    if (ipu_value_type(y) == ipu_value_type(d_y) && ipu__shape_equal(&want, &found)
        && ipu__model_sees(m, d_y.id))
        return d_y;
    ipu__builder_fail(b, IPU_INVALID,
                      "ipu_model_gradients: options.d_y is %s: expected type and shape of y, %s",
                      ipu__value_str(d_y), ipu__value_str(y));
    return IPU_NO_VALUE;
}

/* Blocks from the model's own to the one being built. */
static void sweep_all(ipu__diff *p, uint32_t block)
{
    if (block != 0) sweep_all(p, p->m->blocks.at[block].parent);
    sweep_block(p, block);
}

static void reverse_all(ipu__diff *p, const size_t *ends)
{
    for (uint32_t block = p->m->block; block != IPU__NO_BLOCK; block = p->m->blocks.at[block].parent)
        ipu__diff_reverse(p, block, 0, *ends++);
}

static void run(ipu__diff *p, ipu_value y, const ipu_value *x, size_t n, ipu_value d_y)
{
    ipu_model *m      = p->m;
    size_t     n_ends = 0;
    for (uint32_t block = m->block; block != IPU__NO_BLOCK; block = m->blocks.at[block].parent) n_ends++;
    size_t *ends = ipu__alloc(n_ends * sizeof *ends), *end = ends; /* of the orders as they are now */
    if (!ends || !ipu__diff_cover(p)) {
        ipu__free(ends);
        ipu__diff_fail_memory(p);
        return;
    }
    for (uint32_t block = m->block; block != IPU__NO_BLOCK; block = m->blocks.at[block].parent)
        *end++ = m->blocks.at[block].order.n;
    for (size_t i = 0; i < n; i++) p->values.at[x[i].id].is_active = true;
    sweep_all(p, m->block);
    p->values.at[y.id].d = d_y.id;
    reverse_all(p, ends);
    ipu__free(ends);
}

void ipu_model_gradients(ipu_model *m, ipu_value y, const ipu_value *x, size_t n,
                         const ipu_gradient_options *options, ipu_value *d_x)
{
    static const ipu_gradient_options defaults = {0};
    if (!options) options = &defaults;
    for (size_t i = 0; i < n; i++) d_x[i] = (ipu_value){&m->base, 0};
    if (!check_values(m, y, x, n)) return;
    ipu_value d_y = first_gradient(m, y, options->d_y);
    if (!d_y.id) return;
    ipu__diff p = {.m = m, .higher_order = options->higher_order, .first_new = (uint32_t)m->values.n};
    if (options->n_checkpoints > 0)
        ipu__recompute_begin(&p, options->checkpoints, options->n_checkpoints, d_y);
    if (ipu__diff_ok(&p)) run(&p, y, x, n, d_y);
    ipu__recompute_end(&p);
    for (size_t i = 0; i < n && ipu__diff_ok(&p); i++) {
        name_gradient(&p, x[i].id);
        if (!p.values.at[x[i].id].d && !options->allow_unused) ipu__diff_fail_cut(&p, y, x[i]);
    }
    for (size_t i = 0; i < n && ipu__diff_ok(&p); i++) d_x[i] = ipu__diff_of(&p, x[i].id);
    ipu__array_fini(&p.values);
    IPU__ASSERT(m->base.status != IPU_OK || m->block != 0 || ipu__model_verify(m) != IPU_INVALID);
}
