/* Prints models as text: inputs, kept values, constants, ops block by block, outputs.
 *
 * Values are numbered in the order of the text, whatever their ids, so that printing, parsing and printing
 * again gives the same bytes (docs/text-format.md).
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "graph/text/literal.h"
#include "graph/text/print.h"
#include "ipu/text.h"
#include "model/model.h"

enum { DEFAULT_SEED = 42 };

typedef struct model_printer {
    ipu__printer base; /* first member */
    ipu_model   *m;
    uint32_t    *uses;   /* by value */
    uint32_t    *number; /* by value; 0 if not in the text */
    bool        *shared; /* by value: another one has the same name */
    ipu__map     names;  /* to values */
    ipu__stage   stage;  /* the last one printed */
    uint32_t     next;
    bool         failed;
} model_printer;

/* ---- numbers and names ---- */

static const char *name_of(const model_printer *p, uint32_t id) { return p->m->base.values.at[id].name; }

static void number_value(model_printer *p, uint32_t id)
{
    const char *name = name_of(p, id);
    uint32_t    other;
    p->number[id] = p->next++;
    p->shared[id] = strcmp(name, "none") == 0 || strcmp(name, "while") == 0; /* these words are keywords */
    if (*name == 0) return;
    if (ipu__map_find(&p->names, name, &other))
        p->shared[id] = p->shared[other] = true;
    else
        p->failed |= !ipu__map_set(&p->names, name, id);
}

static void number_run(model_printer *p, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) number_value(p, first + i);
}

static void number_block(model_printer *p, uint32_t block)
{
    const ipu__block *b = &p->m->blocks.at[block];
    for (size_t i = 0; i < b->order.n; i++) {
        const ipu__model_op *op = &p->m->ops.at[b->order.at[i]];
        if (op->dead) continue;
        if (op->kind == IPU__MODEL_LOOP) {
            number_run(p, p->m->blocks.at[op->body].first_carried, op->n_out);
            number_value(p, p->m->blocks.at[op->body].index);
        }
        if (op->kind != IPU__MODEL_OP) number_block(p, op->body);
        if (op->kind == IPU__MODEL_IF) number_block(p, op->otherwise);
        number_run(p, op->first_out, op->n_out);
    }
}

static bool is_shown_constant(const model_printer *p, uint32_t id)
{
    return p->m->values.at[id].kind == IPU__VALUE_CONSTANT && p->uses[id] > 0;
}

static void number_all(model_printer *p)
{
    const ipu_model *m = p->m;
    p->next            = 1;
    for (size_t i = 0; i < m->inputs.n; i++) number_value(p, m->inputs.at[i]);
    for (size_t i = 0; i < m->parameters.n; i++) number_value(p, m->parameters.at[i]);
    for (size_t i = 0; i < m->states.n; i++) number_value(p, m->states.at[i]);
    for (uint32_t id = 1; id < m->values.n; id++)
        if (is_shown_constant(p, id)) number_value(p, id);
    number_block(p, 0);
}

/* ---- helpers ---- */

static void add(model_printer *p, const char *text) { ipu__text_add_bytes(&p->base.out, text, strlen(text)); }

static void print_ref(model_printer *p, uint32_t id)
{
    bool is_word = ipu__is_word(name_of(p, id));
    if (id == 0) {
        add(p, "none");
        return;
    }
    if (is_word) add(p, name_of(p, id));
    if (!is_word || p->shared[id]) ipu__text_add(&p->base.out, "~%" PRIu32, p->number[id]);
}

/* Prints the declaration of a value: its label, and its name if the label does not show it. */
static void print_declared(model_printer *p, uint32_t id)
{
    print_ref(p, id);
    if (*name_of(p, id) == 0 || ipu__is_word(name_of(p, id))) return;
    add(p, " ");
    ipu__text_add_quoted(&p->base.out, name_of(p, id));
}

static void print_list(model_printer *p, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        add(p, i ? ", " : "");
        print_ref(p, ids[i]);
    }
}

static void print_at(model_printer *p, uint32_t location)
{
    if (!(p->base.flags & IPU_PRINT_LOCATIONS)) return;
    ipu__location where = p->m->locations.at[location];
    add(p, " at ");
    ipu__text_add_quoted(&p->base.out, where.file ? where.file : "");
    ipu__text_add(&p->base.out, ":%d", where.file ? where.line : 0);
}

static void print_type(model_printer *p, uint32_t id)
{
    const ipu__builder_value *v = &p->m->base.values.at[id];
    ipu__text_add(&p->base.out, " %s", ipu_type_name(v->type));
    ipu__print_dims(&p->base, &v->shape);
}

/* ---- inputs, kept values and constants ---- */

static void print_initial(model_printer *p, const ipu__model_value *v)
{
    static const char *const words[] = {
        [IPU_INITIAL_CONSTANT] = "fill", [IPU_INITIAL_UNIFORM] = "uniform", [IPU_INITIAL_NORMAL] = "normal"};
    bool is_fill = v->initial.kind == IPU_INITIAL_CONSTANT;
    if (is_fill && v->initial.a == 0 && !signbit(v->initial.a)) return;
    ipu__text_add(&p->base.out, " = %s(", words[v->initial.kind]);
    ipu__float_print(&p->base.out, v->initial.a);
    if (!is_fill) {
        add(p, ", ");
        ipu__float_print(&p->base.out, v->initial.b);
    }
    add(p, ")");
    if (!is_fill) ipu__text_add(&p->base.out, " key %" PRIu32, v->key);
}

static void print_value(model_printer *p, const char *word, uint32_t id)
{
    const ipu__model_value   *v     = &p->m->values.at[id];
    const ipu__builder_value *shown = &p->m->base.values.at[id];
    ipu__print_line(&p->base);
    ipu__text_add(&p->base.out, "%s ", word);
    print_declared(p, id);
    print_type(p, id);
    if (v->data)
        ipu__print_data(&p->base, shown->type, v->data, ipu__op_n_elements(&shown->shape));
    else if (v->kind != IPU__VALUE_INPUT)
        print_initial(p, v);
    print_at(p, v->location);
    add(p, ";");
}

static void print_values(model_printer *p)
{
    const ipu_model *m = p->m;
    for (size_t i = 0; i < m->inputs.n; i++) print_value(p, "input", m->inputs.at[i]);
    for (size_t i = 0; i < m->parameters.n; i++) print_value(p, "parameter", m->parameters.at[i]);
    for (size_t i = 0; i < m->states.n; i++) print_value(p, "state", m->states.at[i]);
    for (uint32_t id = 1; id < m->values.n && p->base.status == IPU_OK; id++)
        if (is_shown_constant(p, id)) print_value(p, "constant", id);
}

/* ---- ops ---- */

static void print_attribute(model_printer *p, const ipu_attribute *a)
{
    ipu__text *out = &p->base.out;
    add(p, " ");
    ipu__name_print(out, a->name);
    add(p, "=");
    switch (a->kind) {
    case IPU_ATTRIBUTE_INT: ipu__text_add(out, "%" PRId64, a->i); break;
    case IPU_ATTRIBUTE_FLOAT: ipu__float_print(out, a->f); break;
    case IPU_ATTRIBUTE_TEXT: ipu__text_add_quoted(out, a->text); break;
    case IPU_ATTRIBUTE_INTS:
        add(p, "[");
        for (size_t i = 0; i < a->n_ints; i++) ipu__text_add(out, "%s%" PRId64, i ? "," : "", a->ints[i]);
        add(p, "]");
        break;
    }
}

/* Outputs up to the last that is used or has a name, at least one. */
static void print_outputs(model_printer *p, const ipu__model_op *op)
{
    uint32_t n = op->n_out;
    while (n > 1 && !p->uses[op->first_out + n - 1] && !*name_of(p, op->first_out + n - 1)) n--;
    for (uint32_t i = 0; i < n; i++) {
        add(p, i ? ", " : "");
        print_declared(p, op->first_out + i);
    }
}

static void print_op(model_printer *p, const ipu__model_op *op)
{
    uint32_t n_in = op->n_in;
    while (n_in > 0 && op->in[n_in - 1] == 0) n_in--;
    ipu__print_line(&p->base);
    print_outputs(p, op);
    add(p, " = ");
    ipu__name_print(&p->base.out, op->def->kernel.name);
    add(p, "(");
    print_list(p, op->in, n_in);
    add(p, ")");
    for (size_t i = 0; i < op->n_attributes; i++) print_attribute(p, &op->attributes[i]);
    if (op->recompute) ipu__text_add(&p->base.out, " recompute %" PRIu32, op->recompute);
    print_at(p, op->location);
    add(p, ";");
}

static void print_block(model_printer *p, uint32_t block);

static void print_body(model_printer *p, uint32_t block)
{
    const ipu__block *b = &p->m->blocks.at[block];
    add(p, " {");
    p->base.depth++;
    print_block(p, block);
    ipu__print_line(&p->base);
    add(p, b->yields.n ? "yield " : "yield");
    print_list(p, b->yields.at, b->yields.n);
    if (b->go_on) {
        add(p, " while ");
        print_ref(p, b->go_on);
    }
    add(p, ";");
    p->base.depth--;
    ipu__print_line(&p->base);
    add(p, "}");
}

static void print_results(model_printer *p, const ipu__model_op *op)
{
    for (uint32_t i = 0; i < op->n_out; i++) {
        add(p, i ? ", " : " -> ");
        print_declared(p, op->first_out + i);
    }
    add(p, ";");
}

static void print_if(model_printer *p, const ipu__model_op *op)
{
    ipu__print_line(&p->base);
    add(p, "if ");
    print_ref(p, op->in[0]);
    print_at(p, op->location);
    print_body(p, op->body);
    add(p, " else");
    print_body(p, op->otherwise);
    print_results(p, op);
}

static void print_loop(model_printer *p, const ipu__model_op *op)
{
    const ipu__block *b = &p->m->blocks.at[op->body];
    ipu__print_line(&p->base);
    ipu__text_add(&p->base.out, "loop %" PRId64 " (", op->most);
    for (uint32_t i = 0; i < op->n_out; i++) {
        add(p, i ? ", " : "");
        print_declared(p, b->first_carried + i);
        add(p, " = ");
        print_ref(p, op->in[1 + i]);
    }
    add(p, ")");
    if (p->uses[b->index] || *name_of(p, b->index)) {
        add(p, " index ");
        print_declared(p, b->index);
    }
    if (op->in[0]) {
        add(p, " if ");
        print_ref(p, op->in[0]);
    }
    print_at(p, op->location);
    print_body(p, op->body);
    print_results(p, op);
}

static void print_stage(model_printer *p, ipu__stage stage)
{
    ipu__print_line(&p->base);
    add(p, "stage ");
    if (stage.number == IPU__STAGE_ANY)
        add(p, "none");
    else
        ipu__text_add_quoted(&p->base.out, p->m->stages.at[stage.number]);
    add(p, stage.is_backward && stage.number != IPU__STAGE_ANY ? " backward;" : ";");
    p->stage = stage;
}

static void print_block(model_printer *p, uint32_t block)
{
    static void (*const by_kind[])(model_printer *, const ipu__model_op *) = {
        [IPU__MODEL_OP] = print_op, [IPU__MODEL_IF] = print_if, [IPU__MODEL_LOOP] = print_loop};
    const ipu__block *b = &p->m->blocks.at[block];
    for (size_t i = 0; i < b->order.n && p->base.status == IPU_OK; i++) {
        const ipu__model_op *op = &p->m->ops.at[b->order.at[i]];
        if (op->dead) continue;
        if (block == 0 && !ipu__model_same_stage(p->m, p->stage, op->stage)) print_stage(p, op->stage);
        by_kind[op->kind](p, op);
    }
}

/* ---- the whole ---- */

static void print_updates(model_printer *p, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t value = p->m->values.at[ids[i]].update;
        if (!value) continue;
        ipu__print_line(&p->base);
        add(p, "update ");
        print_ref(p, ids[i]);
        add(p, " = ");
        print_ref(p, value);
        add(p, ";");
    }
}

static void print_model(ipu__printer *base)
{
    model_printer   *p = (model_printer *)base;
    const ipu_model *m = p->m;
    add(p, "model");
    if (m->seed_value != DEFAULT_SEED) ipu__text_add(&base->out, " seed %" PRIu32, m->seed_value);
    if (m->base.next_key) ipu__text_add(&base->out, " keys %" PRIu32, m->base.next_key);
    add(p, " {");
    base->depth = 1;
    print_values(p);
    /* all of them first, so that they get the same numbers again */
    for (uint32_t i = 0; i < m->stages.n; i++) print_stage(p, (ipu__stage){i, false});
    print_block(p, 0);
    for (size_t i = 0; i < m->outputs.n; i++) {
        ipu__print_line(base);
        add(p, "output ");
        ipu__name_print(&base->out, m->outputs.at[i].name);
        add(p, " = ");
        print_ref(p, m->outputs.at[i].value);
        print_at(p, m->outputs.at[i].location);
        add(p, ";");
    }
    print_updates(p, m->parameters.at, m->parameters.n);
    print_updates(p, m->states.at, m->states.n);
    add(p, "\n}\n");
}

static ipu_status print_all(model_printer *p, const char *side_file, char **out)
{
    p->uses   = ipu__model_count_uses(p->m);
    p->number = ipu__alloc_zeroed(p->m->values.n * sizeof *p->number);
    p->shared = ipu__alloc_zeroed(p->m->values.n * sizeof *p->shared);
    if (!p->uses || !p->number || !p->shared) return ipu__fail_memory();
    number_all(p);
    if (p->failed) return ipu__fail_memory();
    return ipu__print_finish(&p->base, print_model, side_file, out);
}

ipu_status ipu_model_print(ipu_model *m, unsigned flags, const char *side_file, char **out)
{
    *out = NULL;
    if (m->base.status != IPU_OK) return ipu__fail(m->base.status, "%s", ipu_builder_message(&m->base));
    if (m->block != 0)
        return ipu__fail(IPU_INVALID,
                         "ipu_model_print: a branch or loop has no end yet: ipu_model_end is missing");
    model_printer p      = {.base = {.flags = flags, .with_side = side_file != NULL}, .m = m};
    ipu_status    status = print_all(&p, side_file, out);
    ipu__text_fini(&p.base.out);
    ipu__side_writer_fini(&p.base.side);
    ipu__map_fini(&p.names);
    ipu__free(p.uses);
    ipu__free(p.number);
    ipu__free(p.shared);
    return status;
}
