/* Models: creating values and ops, inputs and outputs, copies.
 *
 * requires: a builder whose table of values grows in step with the model's.
 */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "ipu/op/elementwise.h"

/* Marks outputs in `names`, whose other numbers are ids. */
#define OUTPUT_MARK 0x80000000u

/* ---- life ---- */

ipu_status ipu_model_create(ipu_model **out)
{
    *out         = NULL;
    ipu_model *m = ipu__alloc_zeroed(sizeof *m);
    if (!m) return ipu__fail_memory();
    ipu__block whole  = {.op = IPU__NO_BLOCK, .parent = IPU__NO_BLOCK};
    ipu_status status = ipu__builder_init(&m->base, &ipu__model_class);
    bool ok = status == IPU_OK && ipu__push(&m->values, (ipu__model_value){0}) && ipu__push(&m->blocks, whole)
           && ipu__push(&m->locations, (ipu__location){NULL, 0});
    if (ok) {
        m->seed_value = 42;
        *out          = m;
        return IPU_OK;
    }
    ipu_model_destroy(m);
    return ipu__fail_memory();
}

void ipu_model_destroy(ipu_model *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->blocks.n; i++) {
        ipu__array_fini(&m->blocks.at[i].order);
        ipu__array_fini(&m->blocks.at[i].yields);
    }
    ipu__array_fini(&m->values);
    ipu__array_fini(&m->ops);
    ipu__array_fini(&m->blocks);
    ipu__array_fini(&m->inputs);
    ipu__array_fini(&m->parameters);
    ipu__array_fini(&m->states);
    ipu__array_fini(&m->outputs);
    ipu__array_fini(&m->aliases);
    ipu__array_fini(&m->losses);
    ipu__array_fini(&m->customs);
    ipu__array_fini(&m->shards);
    ipu__array_fini(&m->stages);
    ipu__array_fini(&m->locations);
    ipu__array_fini(&m->tensors);
    ipu__array_fini(&m->output_tensors);
    ipu__map_fini(&m->names);
    ipu__map_fini(&m->files);
    ipu__builder_fini(&m->base);
    ipu__free(m);
}

ipu_builder *ipu_model_builder(ipu_model *m) { return &m->base; }

static void fail_memory(ipu_model *m)
{
    if (m->base.status == IPU_OK) m->base.status = IPU_OUT_OF_MEMORY;
    ipu__fail_memory();
}

static ipu_value null_of(ipu_model *m) { return (ipu_value){&m->base, 0}; }

/* ---- locations ---- */

uint32_t ipu__model_here(ipu_model *m)
{
    ipu__location here = ipu__here(), *last = &m->locations.at[m->locations.n - 1];
    if (!here.file) return 0;
    if (last->file && last->line == here.line && strcmp(last->file, here.file) == 0)
        return (uint32_t)m->locations.n - 1;
    uint32_t known;
    if (ipu__map_find(&m->files, here.file, &known)) {
        here.file = m->locations.at[known].file;
    } else {
        here.file = ipu__arena_strdup(&m->base.arena, here.file);
        if (!here.file || !ipu__map_set(&m->files, here.file, (uint32_t)m->locations.n)) {
            fail_memory(m);
            return 0;
        }
    }
    if (ipu__push(&m->locations, here)) return (uint32_t)m->locations.n - 1;
    fail_memory(m);
    return 0;
}

const char *ipu__model_where(const ipu_model *m, uint32_t location, char buffer[512])
{
    const ipu__location *at = &m->locations.at[location];
    buffer[0]               = 0;
    if (at->file) snprintf(buffer, 512, "%s:%d: ", at->file, at->line);
    return buffer;
}

/* ---- values and ops ---- */

ipu_value ipu__model_add_value(ipu_model *m, ipu__kernel_value type, const char *name, ipu__model_value v)
{
    v.block    = m->block;
    v.location = ipu__model_here(m);
    if (!ipu__reserve(&m->values, 1)) {
        fail_memory(m);
        return null_of(m);
    }
    ipu_value out = ipu__builder_add(&m->base, type.type, &type.shape, name);
    if (out.id) m->values.at[m->values.n++] = v;
    return out;
}

ipu_status ipu__model_add_op(ipu_model *m, const ipu__model_op *op, const uint32_t *in,
                             const ipu__kernel_value *types, ipu_value *out)
{
    ipu__model_op own = *op;
    own.in            = ipu__arena_copy(&m->base.arena, in, own.n_in * sizeof *own.in);
    own.block         = m->block;
    own.location      = ipu__model_here(m);
    own.recompute     = m->recompute;
    own.stage         = m->stage;
    if (m->n_recomputes < m->recompute) m->n_recomputes = m->recompute; /* parsed ones */
    own.first_out = (uint32_t)m->base.values.n;
    uint32_t id   = (uint32_t)m->ops.n;
    if (!own.in || !ipu__reserve(&m->blocks.at[m->block].order, 1) || !ipu__push(&m->ops, own))
        return ipu__fail_memory();
    for (uint32_t i = 0; i < own.n_out; i++) {
        out[i] = ipu__model_add_value(m, types[i], NULL,
                                      (ipu__model_value){.kind = IPU__VALUE_OP, .of = id, .at = i});
        if (!out[i].id) return ipu__fail_memory();
    }
    (void)ipu__push(&m->blocks.at[m->block].order, id); /* reserved above */
    return IPU_OK;
}

bool ipu__model_sees(const ipu_model *m, uint32_t id)
{
    if (m->values.at[id].kind == IPU__VALUE_CONSTANT) return true;
    for (uint32_t block = m->block; block != IPU__NO_BLOCK; block = m->blocks.at[block].parent)
        if (m->values.at[id].block == block) return true;
    return false;
}

static ipu_status emit(ipu_builder *b, const ipu__op_def *op, const ipu__kernel_call *call,
                       const ipu_value *in, ipu_value *out)
{
    ipu_model       *m   = ipu__model_of(b);
    ipu__kernel_call own = *call;
    uint32_t         ids[IPU__MAX_OPERANDS];
    for (int i = 0; i < op->n_in; i++) {
        ids[i] = ipu__model_substitute(m, in[i].id);
        if (ids[i] && !ipu__model_sees(m, ids[i]))
            return ipu__fail(IPU_INVALID,
                             "%s: %s was made in a branch or loop that has ended: yield it from there",
                             op->kernel.name, ipu__value_str(in[i]));
        if (ids[i]) IPU_TRY(ipu__model_check_stage(m, op->kernel.name, ids[i]));
    }
    IPU_TRY(ipu__builder_keep_attributes(b, &own));
    ipu__model_op made = {.kind         = IPU__MODEL_OP,
                          .def          = op,
                          .attributes   = own.attributes,
                          .n_attributes = own.n_attributes,
                          .n_in         = (uint32_t)op->n_in,
                          .n_out        = (uint32_t)ipu__op_n_out(op),
                          .body         = IPU__NO_BLOCK,
                          .otherwise    = IPU__NO_BLOCK};
    return ipu__model_add_op(m, &made, ids, call->operand + op->n_in, out);
}

static ipu_status constant(ipu_builder *b, ipu__kernel_value value, const void *data, ipu_value *out)
{
    ipu_model *m    = ipu__model_of(b);
    size_t     size = (size_t)ipu__op_n_elements(&value.shape) * ipu_type_size(value.type);
    void      *own  = size ? ipu__arena_copy(&b->arena, data, size) : ipu__arena_alloc(&b->arena, 1);
    if (!own) return ipu__fail_memory();
    *out = ipu__model_add_value(m, value, NULL, (ipu__model_value){.kind = IPU__VALUE_CONSTANT, .data = own});
    return b->status;
}

const ipu__builder_class ipu__model_class = {.emit = emit, .constant = constant};

/* ---- inputs, kept values, outputs ---- */

static bool check_boundary(ipu_model *m, const char *caller, ipu_type type, const ipu_shape *shape,
                           const char *name)
{
    ipu_builder *b = &m->base;
    uint32_t     known;
    if (b->status != IPU_OK) return false;
    if (m->block != 0)
        ipu__builder_fail(b, IPU_INVALID, "%s: \"%s\" is made inside a branch or loop: make it before",
                          caller, name ? name : "");
    else if (!name || !*name)
        ipu__builder_fail(b, IPU_INVALID, "%s: expected a name, by which the host can reach it", caller);
    else if ((unsigned)type >= IPU_N_TYPES)
        ipu__builder_fail(b, IPU_INVALID, "%s: \"%s\": there is no type %d", caller, name, (int)type);
    else if (ipu__builder_check_extent(caller, &(ipu__kernel_value){type, *shape}) != IPU_OK)
        ipu__builder_fail(b, IPU_INVALID, "%s (\"%s\")", ipu_message(), name);
    else if (ipu__map_find(&m->names, name, &known))
        ipu__builder_fail(b, IPU_INVALID,
                          "%s: the name \"%s\" is taken: inputs, parameters, states and outputs share names",
                          caller, name);
    return b->status == IPU_OK;
}

static ipu_value add_boundary(ipu_model *m, const char *caller, ipu__kernel_value type, const char *name,
                              ipu__model_value v)
{
    ipu__text full = {0};
    ipu__text_add(&full, "%s%s", m->base.scope.n ? m->base.scope.at : "", name ? name : "");
    bool      ok  = !full.failed && check_boundary(m, caller, type.type, &type.shape, name ? full.at : NULL);
    ipu_value out = ok ? ipu__model_add_value(m, type, name, v) : null_of(m);
    if (full.failed) fail_memory(m);
    ipu__text_fini(&full);
    if (out.id && !ipu__map_set(&m->names, ipu_value_name(out), out.id)) fail_memory(m);
    return m->base.status == IPU_OK ? out : null_of(m);
}

static const void *keep_data(ipu_model *m, ipu_type type, const ipu_shape *shape, const void *data)
{
    if (!data || m->base.status != IPU_OK) return NULL;
    size_t      bytes = (size_t)ipu__op_n_elements(shape) * ipu_type_size(type);
    const void *own   = ipu__arena_copy(&m->base.arena, data, bytes);
    if (!own) fail_memory(m);
    return own;
}

ipu_value ipu_model_input(ipu_model *m, ipu_type type, ipu_shape shape, const char *name)
{
    ipu_value out = add_boundary(m, __func__, (ipu__kernel_value){type, shape}, name,
                                 (ipu__model_value){.kind = IPU__VALUE_INPUT});
    if (out.id && !ipu__push(&m->inputs, out.id)) fail_memory(m);
    return out;
}

static ipu_value add_kept(ipu_model *m, const char *caller, ipu__value_kind kind, ipu__kernel_value type,
                          const void *initial, const char *name)
{
    ipu_value out = add_boundary(m, caller, type, name, (ipu__model_value){.kind = kind});
    if (!out.id) return out;
    m->values.at[out.id].data = keep_data(m, type.type, &type.shape, initial);
    return out;
}

ipu_value ipu_model_parameter(ipu_model *m, ipu_type type, ipu_shape shape, const void *initial,
                              const char *name)
{
    ipu__kernel_value value = {type, shape};
    ipu_value         out   = add_kept(m, __func__, IPU__VALUE_PARAMETER, value, initial, name);
    if (out.id && !ipu__push(&m->parameters, out.id)) fail_memory(m);
    return out;
}

ipu_value ipu_model_state(ipu_model *m, ipu_type type, ipu_shape shape, const void *initial, const char *name)
{
    ipu__kernel_value value = {type, shape};
    ipu_value         out   = add_kept(m, __func__, IPU__VALUE_STATE, value, initial, name);
    if (out.id && !ipu__push(&m->states, out.id)) fail_memory(m);
    return out;
}

static bool is_kept(const ipu_model *m, ipu_value v)
{
    ipu__value_kind kind = m->values.at[v.id].kind;
    return kind == IPU__VALUE_PARAMETER || kind == IPU__VALUE_STATE;
}

void ipu_model_set_initial(ipu_model *m, ipu_value kept, ipu_initial initial)
{
    if (!ipu__builder_has(&m->base, __func__, kept)) return;
    ipu__model_value *v    = &m->values.at[kept.id];
    ipu_type          type = ipu_value_type(kept);
    bool              ok   = initial.kind == IPU_INITIAL_CONSTANT || ipu__op_is_floating(type);
    uint64_t          bits;
    if (!is_kept(m, kept))
        ipu__builder_fail(&m->base, IPU_INVALID, "ipu_model_set_initial: %s is no parameter and no state",
                          ipu__value_str(kept));
    else if (!ok)
        ipu__builder_fail(&m->base, IPU_INVALID,
                          "ipu_model_set_initial: %s: only floating types begin with random values",
                          ipu__value_str(kept));
    else if (initial.kind == IPU_INITIAL_CONSTANT && !ipu__value_from_double(type, initial.a, &bits))
        ipu__builder_fail(&m->base, IPU_INVALID, "ipu_model_set_initial: %s cannot hold the value %.17g",
                          ipu__value_str(kept), initial.a);
    if (m->base.status != IPU_OK) return;
    v->data    = NULL;
    v->initial = initial;
    v->key     = m->n_keys++;
}

void ipu_model_output(ipu_model *m, ipu_value v, const char *name)
{
    ipu_builder *b = &m->base;
    if (!ipu__builder_has(b, __func__, v)) return;
    const ipu__builder_value *value = &b->values.at[v.id];
    if (!check_boundary(m, __func__, value->type, &value->shape, name)) return;
    if (!ipu__model_sees(m, v.id)) {
        ipu__builder_fail(b, IPU_INVALID,
                          "ipu_model_output: %s was made in a branch or loop: yield it from there",
                          ipu__value_str(v));
        return;
    }
    ipu__model_output out  = {v.id, ipu__arena_strdup(&b->arena, name), ipu__model_here(m)};
    uint32_t          mark = (uint32_t)m->outputs.n | OUTPUT_MARK;
    if (!out.name || !ipu__push(&m->outputs, out) || !ipu__map_set(&m->names, out.name, mark)) fail_memory(m);
}

void ipu_model_update(ipu_model *m, ipu_value kept, ipu_value value)
{
    ipu_builder *b = &m->base;
    if (!ipu__builder_has(b, __func__, kept) || !ipu__builder_has(b, __func__, value)) return;
    ipu__model_value *v     = &m->values.at[kept.id];
    ipu_shape         shape = ipu_value_shape(kept), given = ipu_value_shape(value);
    if (!is_kept(m, kept))
        ipu__builder_fail(b, IPU_INVALID, "ipu_model_update: %s is no parameter and no state",
                          ipu__value_str(kept));
    else if (v->update)
        ipu__builder_fail(b, IPU_INVALID, "ipu_model_update: %s is updated already", ipu__value_str(kept));
    else if (ipu_value_type(kept) != ipu_value_type(value) || !ipu__shape_equal(&shape, &given))
        ipu__builder_fail(b, IPU_INVALID,
                          "ipu_model_update: %s cannot take %s: type and shape must be its own",
                          ipu__value_str(kept), ipu__value_str(value));
    else if (m->block != 0 || m->values.at[value.id].block != 0)
        ipu__builder_fail(
            b, IPU_INVALID,
            "ipu_model_update: %s is updated from inside a branch or loop: yield the value first",
            ipu__value_str(kept));
    else
        v->update = value.id;
}

ipu_value ipu_model_seed(ipu_model *m)
{
    if (m->seed) return ipu__model_handle(m, m->seed);
    uint32_t initial[2] = {m->seed_value, 0}, next[2] = {0, 1};
    size_t   scope   = m->base.scope.n;
    m->base.scope.n  = 0; /* one for the whole model */
    ipu__stage stage = ipu__model_any_stage(m);
    ipu_value  seed  = ipu_model_state(m, IPU_UINT32, IPU_SHAPE(2), initial, "seed");
    ipu_value  step  = ipu_constant_data(&m->base, IPU_UINT32, IPU_SHAPE(2), next);
    ipu_model_update(m, seed, ipu_add(&m->base, seed, step));
    m->base.scope.n = scope;
    m->stage        = stage;
    m->seed         = seed.id;
    return seed;
}

void ipu_model_set_seed(ipu_model *m, uint32_t seed)
{
    m->seed_value = seed;
    if (!m->seed || m->base.status != IPU_OK) return;
    uint32_t initial[2]        = {seed, 0};
    m->values.at[m->seed].data = keep_data(m, IPU_UINT32, &m->base.values.at[m->seed].shape, initial);
}

/* ---- queries ---- */

size_t ipu_model_n_parameters(const ipu_model *m) { return m->parameters.n; }
size_t ipu_model_n_inputs(const ipu_model *m) { return m->inputs.n; }
size_t ipu_model_n_outputs(const ipu_model *m) { return m->outputs.n; }

ipu_value ipu_model_parameter_at(ipu_model *m, size_t i)
{
    return ipu__model_handle(m, i < m->parameters.n ? m->parameters.at[i] : 0);
}

ipu_value ipu_model_input_at(ipu_model *m, size_t i)
{
    return ipu__model_handle(m, i < m->inputs.n ? m->inputs.at[i] : 0);
}

ipu_value ipu_model_output_at(ipu_model *m, size_t i, const char **name)
{
    if (name) *name = i < m->outputs.n ? m->outputs.at[i].name : "";
    return ipu__model_handle(m, i < m->outputs.n ? m->outputs.at[i].value : 0);
}

size_t ipu_model_n_ops(const ipu_model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ops.n; i++) n += !m->ops.at[i].dead;
    return n;
}

ipu__kernel_call ipu__model_call(const ipu_model *m, const ipu__model_op *op)
{
    ipu__kernel_call call = {.def          = &op->def->kernel,
                             .attributes   = op->attributes,
                             .n_attributes = op->n_attributes,
                             .n_operands   = (int)(op->n_in + op->n_out)};
    for (uint32_t i = 0; i < op->n_in + op->n_out; i++) {
        uint32_t                  id = i < op->n_in ? op->in[i] : op->first_out + i - op->n_in;
        const ipu__builder_value *v  = &m->base.values.at[id];
        call.operand[i]              = (ipu__kernel_value){v->type, v->shape};
        if (id == 0) call.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    }
    return call;
}

/* ---- copies ---- */

/* Copies arrays of plain values; the copy's capacity is its size. */
#define COPY(array)                                                                                \
    (ipu__reserve(&copy->array, m->array.n)                                                        \
     && ((m->array.n ? (void)memcpy(copy->array.at, m->array.at, m->array.n * sizeof *m->array.at) \
                     : (void)0),                                                                   \
         copy->array.n = m->array.n, true))

static bool copy_blocks(const ipu_model *m, ipu_model *copy)
{
    if (!ipu__reserve(&copy->blocks, m->blocks.n)) return false;
    for (size_t i = 0; i < m->blocks.n; i++) {
        const ipu__block *from = &m->blocks.at[i];
        ipu__block       *to   = &copy->blocks.at[copy->blocks.n++];
        *to                    = *from;
        memset(&to->order, 0, sizeof to->order);
        memset(&to->yields, 0, sizeof to->yields);
        for (size_t k = 0; k < from->order.n; k++)
            if (!ipu__push(&to->order, from->order.at[k])) return false;
        for (size_t k = 0; k < from->yields.n; k++)
            if (!ipu__push(&to->yields, from->yields.at[k])) return false;
    }
    return true;
}

static bool copy_ops(const ipu_model *m, ipu_model *copy)
{
    if (!COPY(ops)) return false;
    for (size_t i = 0; i < copy->ops.n; i++) {
        ipu__model_op *op = &copy->ops.at[i];
        op->in            = ipu__arena_copy(&copy->base.arena, op->in, op->n_in * sizeof *op->in);
        if (!op->in) return false;
    }
    return true;
}

static bool copy_names(const ipu_model *m, ipu_model *copy)
{
    for (size_t i = 0; i < m->names.capacity; i++) {
        const ipu__map_slot *slot = &m->names.slots[i];
        if (slot->key && !ipu__map_set(&copy->names, slot->key, slot->value)) return false;
    }
    return true;
}

ipu_model *ipu__model_copy(const ipu_model *m)
{
    ipu_model *copy = ipu__alloc_zeroed(sizeof *copy);
    if (!copy) return NULL;
    copy->base.class    = m->base.class;
    copy->base.status   = m->base.status;
    copy->base.next_key = m->base.next_key;
    copy->block         = m->block;
    copy->seed          = m->seed;
    copy->seed_value    = m->seed_value;
    copy->rounding_seed = m->rounding_seed;
    copy->loss_scale    = m->loss_scale;
    copy->good_steps    = m->good_steps;
    copy->n_keys        = m->n_keys;
    copy->recompute     = m->recompute;
    copy->stage         = m->stage;
    copy->n_recomputes  = m->n_recomputes;
    bool ok = COPY(base.values) && COPY(values) && COPY(inputs) && COPY(parameters) && COPY(states)
           && COPY(outputs) && COPY(aliases) && COPY(stages) && COPY(locations) && copy_ops(m, copy)
           && copy_blocks(m, copy) && copy_names(m, copy);
    if (ok) return copy;
    ipu_model_destroy(copy);
    return NULL;
}

/* ---- uses ---- */

uint32_t *ipu__model_count_uses(const ipu_model *m)
{
    uint32_t *uses = ipu__alloc_zeroed(m->values.n * sizeof *uses);
    if (!uses) return NULL;
    for (size_t i = 0; i < m->ops.n; i++)
        for (uint32_t k = 0; !m->ops.at[i].dead && k < m->ops.at[i].n_in; k++) uses[m->ops.at[i].in[k]]++;
    for (size_t i = 0; i < m->blocks.n; i++) {
        const ipu__block *block = &m->blocks.at[i];
        if (block->op != IPU__NO_BLOCK && m->ops.at[block->op].dead) continue;
        for (size_t k = 0; k < block->yields.n; k++) uses[block->yields.at[k]]++;
        uses[block->go_on]++;
    }
    for (size_t i = 0; i < m->outputs.n; i++) uses[m->outputs.at[i].value]++;
    for (size_t i = 0; i < m->values.n; i++) uses[m->values.at[i].update]++;
    uses[0] = 0;
    return uses;
}

void ipu__model_replace(ipu_model *m, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < m->ops.n; i++)
        for (uint32_t k = 0; k < m->ops.at[i].n_in; k++)
            if (m->ops.at[i].in[k] == from) m->ops.at[i].in[k] = to;
    for (size_t i = 0; i < m->blocks.n; i++) {
        ipu__block *block = &m->blocks.at[i];
        for (size_t k = 0; k < block->yields.n; k++)
            if (block->yields.at[k] == from) block->yields.at[k] = to;
        if (block->go_on == from) block->go_on = to;
    }
    for (size_t i = 0; i < m->outputs.n; i++)
        if (m->outputs.at[i].value == from) m->outputs.at[i].value = to;
    for (size_t i = 0; i < m->aliases.n; i++)
        if (m->aliases.at[i].id == from) m->aliases.at[i].id = to;
    for (size_t i = 0; i < m->values.n; i++)
        if (m->values.at[i].update == from) m->values.at[i].update = to;
}
