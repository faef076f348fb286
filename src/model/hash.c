/* Hashes of models: models with equal hashes compile to the same executable.
 *
 * It is the hash of a description of everything that lowering looks at, which includes constants and initial
 * values by their own hashes. Locations are left out: they only name lines in messages.
 */
#include <string.h>

#include "base/text.h"
#include "graph/graph.h"
#include "model/model.h"

static void add_data(ipu__text *t, const void *data, size_t bytes)
{
    if (!data) return;
    ipu__hash128 hash = ipu__hash_bytes(data, bytes);
    ipu__text_add_bytes(t, (const char *)hash.bytes, sizeof hash.bytes);
}

static void add_value(ipu__text *t, const ipu_model *m, uint32_t id, bool with_values)
{
    const ipu__builder_value *type = &m->base.values.at[id];
    const ipu__model_value   *v    = &m->values.at[id];
    ipu__text_add(t, "v%u %d %d %u %u %u %u %d %a %a %u ", id, (int)v->kind, (int)type->type, v->of, v->at,
                  v->block, v->update, (int)v->initial.kind, v->initial.a, v->initial.b, v->key);
    int64_t n = 1;
    for (int i = 0; i < type->shape.rank; i++) {
        ipu__text_add(t, "%lld,", (long long)type->shape.dim[i]);
        n *= type->shape.dim[i];
    }
    if (v->kind == IPU__VALUE_INPUT || v->kind == IPU__VALUE_PARAMETER || v->kind == IPU__VALUE_STATE)
        ipu__text_add_quoted(t, type->name);
    bool begins = v->kind == IPU__VALUE_PARAMETER || v->kind == IPU__VALUE_STATE;
    if (with_values || !begins) add_data(t, v->data, (size_t)n * ipu_type_size(type->type));
}

static void add_attribute(ipu__text *t, const ipu_attribute *a)
{
    ipu__text_add_quoted(t, a->name);
    switch (a->kind) {
    case IPU_ATTRIBUTE_INT: ipu__text_add(t, "i%lld", (long long)a->i); break;
    case IPU_ATTRIBUTE_FLOAT: ipu__text_add(t, "f%a", a->f); break;
    case IPU_ATTRIBUTE_TEXT: ipu__text_add_quoted(t, a->text); break;
    case IPU_ATTRIBUTE_INTS:
        ipu__text_add(t, "n%zu", a->n_ints);
        for (size_t i = 0; i < a->n_ints; i++) ipu__text_add(t, ",%lld", (long long)a->ints[i]);
        break;
    }
}

static void add_op(ipu__text *t, const ipu_model *m, const ipu__model_op *op)
{
    ipu__text_add(t, "o%d %s %u %u %u %u %u %lld %u:", (int)op->kind, op->def ? op->def->kernel.name : "",
                  op->first_out, op->n_out, op->block, op->body, op->otherwise, (long long)op->most,
                  op->recompute);
    if (m->stages.n) ipu__text_add(t, "s%u %d:", op->stage.number, (int)op->stage.is_backward);
    for (uint32_t i = 0; i < op->n_in; i++) ipu__text_add(t, "%u,", op->in[i]);
    for (size_t i = 0; i < op->n_attributes; i++) add_attribute(t, &op->attributes[i]);
}

static void add_block(ipu__text *t, const ipu__block *b)
{
    ipu__text_add(t, "b%u %u %u %u %u:", b->op, b->go_on, b->first_carried, b->n_carried, b->index);
    for (size_t i = 0; i < b->order.n; i++) ipu__text_add(t, "%u,", b->order.at[i]);
    for (size_t i = 0; i < b->yields.n; i++) ipu__text_add(t, ";%u", b->yields.at[i]);
}

static ipu_status hash_model(ipu_model *m, bool with_values, ipu__hash128 *out)
{
    ipu__text t = {0};
    ipu__text_add(&t, "seed %u %u;", m->seed, with_values ? m->seed_value : 0);
    ipu__text_add(&t, "stages %zu;", m->stages.n);
    for (uint32_t id = 1; id < m->values.n; id++) add_value(&t, m, id, with_values);
    for (size_t i = 0; i < m->ops.n; i++)
        if (!m->ops.at[i].dead) add_op(&t, m, &m->ops.at[i]);
    for (size_t i = 0; i < m->blocks.n; i++) add_block(&t, &m->blocks.at[i]);
    for (size_t i = 0; i < m->outputs.n; i++) {
        ipu__text_add(&t, "out %u ", m->outputs.at[i].value);
        ipu__text_add_quoted(&t, m->outputs.at[i].name);
    }
    ipu_status status = t.failed ? ipu__fail_memory() : IPU_OK;
    if (status == IPU_OK) *out = ipu__hash_bytes(t.at, t.n);
    ipu__text_fini(&t);
    return status;
}

ipu_status ipu__model_hash(ipu_model *m, ipu__hash128 *out) { return hash_model(m, true, out); }

ipu_status ipu__model_hash_program(ipu_model *m, ipu__hash128 *out) { return hash_model(m, false, out); }
