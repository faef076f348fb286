/* Writes elementwise ops as the text of a chain. Relies on the C locale, which fuse.c sets. */
#include <inttypes.h>
#include <string.h>

#include "graph/text/literal.h"
#include "model/fuse/fuse.h"

/* Empty tensors are left alone: an operand of shape [0] means an absent one. */
bool ipu__is_chainable(const ipu_model *m, const ipu__model_op *op)
{
    return op->kind == IPU__MODEL_OP && (op->def->flags & IPU__OP_ELEMENTWISE)
        && !(op->def->flags & IPU__OP_IMPURE) && op->n_out == 1
        && ipu__op_n_elements(&m->base.values.at[op->first_out].shape) > 0;
}

bool ipu__chain_operand(ipu__chain_text *c, uint32_t id)
{
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i] == id) return true;
    if (c->n_in == IPU__CHAIN_MAX_IN) return false;
    c->in[c->n_in++] = id;
    return true;
}

static int result_of(const ipu__chain_text *c, uint32_t id)
{
    for (int i = 0; i < c->n_results; i++)
        if (c->result[i] == id) return i;
    return -1;
}

static void add_attribute(ipu__text *out, const ipu_attribute *a)
{
    ipu__text_add(out, "%s=", a->name);
    switch (a->kind) {
    case IPU_ATTRIBUTE_INT: ipu__text_add(out, "%" PRId64, a->i); break;
    case IPU_ATTRIBUTE_FLOAT: ipu__float_print(out, a->f); break;
    case IPU_ATTRIBUTE_TEXT: ipu__text_add(out, "%s", a->text); break;
    case IPU_ATTRIBUTE_INTS:
        for (size_t i = 0; i < a->n_ints; i++) ipu__text_add(out, "%s%" PRId64, i ? "," : "[", a->ints[i]);
        ipu__text_add(out, "%s", a->n_ints ? "]" : "[]");
        break;
    }
}

static void add_ref(ipu__chain_text *c, uint32_t id)
{
    int at = result_of(c, id);
    if (at >= 0) {
        ipu__text_add(&c->out, " t%d", at);
        return;
    }
    while (++at < c->n_in && c->in[at] != id) {}
    ipu__text_add(&c->out, " a%d", at);
}

bool ipu__chain_step(ipu__chain_text *c, const ipu__model_op *op)
{
    if (c->n_results == IPU__CHAIN_MAX_STEPS) return false;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i] && result_of(c, op->in[i]) < 0 && !ipu__chain_operand(c, op->in[i])) return false;
    ipu__text_add(&c->out, "%s", op->def->kernel.name);
    for (size_t i = 0; i < op->n_attributes; i++) {
        ipu__text_add(&c->out, "%s", i ? ", " : "(");
        add_attribute(&c->out, &op->attributes[i]);
    }
    if (op->n_attributes) ipu__text_add(&c->out, ")");
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i]) add_ref(c, op->in[i]);
    ipu__text_add(&c->out, "; ");
    c->result[c->n_results++] = op->first_out;
    return true;
}

void ipu__chain_results(ipu__chain_text *c, const uint32_t *ids, int n)
{
    ipu__text_add(&c->out, "out");
    for (int i = 0; i < n; i++) ipu__text_add(&c->out, " t%d", result_of(c, ids[i]));
}

void ipu__chain_text_fini(ipu__chain_text *c) { ipu__text_fini(&c->out); }
