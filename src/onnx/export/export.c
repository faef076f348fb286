/* The exporter: values and their names, ops by the table, compositions, branches and loops. */
#include "onnx/export/export.h"

#include <string.h>

#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/target.h"
#include "onnx/tensor.h"

enum { MOST_DEPTH = 32 }; /* compositions within compositions */

static bool write_op(ipu__writer *w, ipu__export_frame *frame, const ipu__model_op *op);

/* ---- names of values ---- */

static const ipu__builder_value *value_of(const ipu__export_frame *frame, uint32_t id)
{
    return &frame->m->base.values.at[id];
}

/* Random initial values: drawn as a run would, by an engine over the parameters alone. It needs no device. */
static ipu_status draw(ipu__writer *w)
{
    ipu_target      target;
    ipu_options    *options = NULL;
    ipu_executable *exe     = NULL;
    ipu_model      *bare    = ipu__model_copy(w->m);
    if (!bare) return ipu__fail_memory();
    bare->outputs.n   = 0;
    ipu_status status = ipu_options_create(&options);
    if (status == IPU_OK) status = ipu_options_set(options, "device.attach", "never");
    if (status == IPU_OK) status = ipu_target_find("gc200", 1, &target);
    if (status == IPU_OK) status = ipu_model_compile(bare, &target, options, &exe);
    if (status == IPU_OK) status = ipu_engine_create(exe, options, &w->drawn);
    ipu_executable_release(exe);
    ipu_options_destroy(options);
    ipu_model_destroy(bare);
    return status;
}

/* What a parameter or state is now. *data: borrowed from the model, or the writer's own. */
static ipu_status kept_data(ipu__writer *w, const ipu__export_frame *frame, uint32_t id, const void **data)
{
    const ipu__model_value   *v     = &frame->m->values.at[id];
    const ipu__builder_value *type  = value_of(frame, id);
    size_t                    bytes = (size_t)ipu__op_n_elements(&type->shape) * ipu_type_size(type->type);
    bool                      draws = !v->data && v->initial.kind != IPU_INITIAL_CONSTANT;
    *data                           = v->data;
    if (bytes == 0 || (v->data && !w->options->engine)) return IPU_OK;
    void *own = ipu__alloc_zeroed(bytes);
    if (!own || !ipu__push(&w->data, own)) {
        ipu__free(own);
        return ipu__fail_memory();
    }
    *data = own;
    if (w->options->engine) return ipu_engine_read(w->options->engine, type->name, own, bytes);
    if (draws) {
        if (!w->drawn) IPU_TRY(draw(w));
        return ipu_engine_read(w->drawn, type->name, own, bytes);
    }
    uint64_t bits = 0;
    size_t   unit = ipu_type_size(type->type);
    ipu__value_from_double(type->type, v->initial.a, &bits); /* ipu_model_set_initial has seen that it fits */
    for (size_t at = 0; at < bytes; at += unit) memcpy((char *)own + at, &bits, unit);
    return IPU_OK;
}

static const char *put_initializer(ipu__writer *w, ipu__export_frame *frame, uint32_t id, const char *name)
{
    const ipu__model_value   *v    = &frame->m->values.at[id];
    const ipu__builder_value *type = value_of(frame, id);
    const void               *data = v->data;
    ipu_status status              = v->kind == IPU__VALUE_CONSTANT ? IPU_OK : kept_data(w, frame, id, &data);
    if (status != IPU_OK && ipu__writer_ok(w)) w->status = status;
    if (frame->m != w->m && data
        && status == IPU_OK) { /* of a composition, which goes before the file is written */
        size_t bytes = (size_t)ipu__op_n_elements(&type->shape) * ipu_type_size(type->type);
        void  *own   = ipu__writer_alloc(w, bytes);
        if (own && bytes) memcpy(own, data, bytes);
        data = own;
    }
    Ipu__TensorProto *t = ipu__writer_tensor(w, type->type, &type->shape, data);
    if (!t) return "";
    t->name = (char *)name;
    if (v->kind == IPU__VALUE_CONSTANT ? !ipu__push(&w->constants, t) : !ipu__push(&w->initializers, t))
        ipu__writer_fail_memory(w);
    return name;
}

static const char *name_of(ipu__writer *w, ipu__export_frame *frame, uint32_t id)
{
    if (frame->name[id]) return frame->name[id];
    ipu__value_kind kind = frame->m->values.at[id].kind;
    const char     *own  = value_of(frame, id)->name;
    bool            kept = kind == IPU__VALUE_PARAMETER || kind == IPU__VALUE_STATE;
    if (kept || kind == IPU__VALUE_CONSTANT)
        frame->name[id] = put_initializer(w, frame, id, ipu__fresh(w, *own ? own : "constant"));
    else if (ipu__writer_ok(w))
        w->status = ipu__fail(IPU_INVALID, "ipu_onnx_write: value %u is used before it is made", id);
    return frame->name[id] ? frame->name[id] : "";
}

/* The name that a value gets where it is made. */
static const char *new_name(ipu__writer *w, ipu__export_frame *frame, uint32_t id, const char *otherwise)
{
    if (frame->name[id]) return frame->name[id];
    const char *own = value_of(frame, id)->name;
    frame->name[id] = ipu__fresh(w, *own ? own : frame->hint ? frame->hint : otherwise);
    return frame->name[id];
}

const char *ipu__take(ipu__wop *o, int i)
{
    uint32_t id = o->op->in[i];
    return id ? name_of(o->w, o->frame, id) : "";
}

/* ---- frames ---- */

static bool open_frame(ipu__writer *w, ipu__export_frame *frame, ipu_model *m, const char *hint)
{
    *frame      = (ipu__export_frame){.m = m, .hint = hint};
    frame->name = ipu__alloc_zeroed(m->values.n * sizeof *frame->name);
    frame->uses = ipu__model_count_uses(m);
    frame->done = ipu__alloc_zeroed(m->ops.n + 1);
    if (!frame->name || !frame->uses || !frame->done) {
        ipu__writer_fail_memory(w);
        return false;
    }
    for (size_t i = 0; i < m->ops.n; i++) {
        ipu__batch_norm norm;
        bool            is_op = !m->ops.at[i].dead && m->ops.at[i].kind == IPU__MODEL_OP;
        if (!is_op || !ipu__match_batch_norm(frame, &m->ops.at[i], &norm)) continue;
        for (int k = 0; k < norm.n_parts; k++) frame->done[norm.part[k] - m->ops.at] = true;
    }
    return true;
}

static void close_frame(ipu__export_frame *frame)
{
    ipu__free(frame->name);
    ipu__free(frame->uses);
    ipu__free(frame->done);
}

/* Ops that give an output of the model give it its name. */
static void claim(ipu__export_frame *frame, uint32_t id, const char *name)
{
    const ipu__model_value *v = &frame->m->values.at[id];
    if (v->kind == IPU__VALUE_OP && v->block == 0 && !frame->name[id]) frame->name[id] = name;
}

static void settle(ipu__writer *w, ipu__export_frame *frame, uint32_t id, const char *name)
{
    if (frame->name[id] != name) ipu__put(w, "Identity", IPU__NAMES(name_of(w, frame, id)), name);
}

static void write_block(ipu__writer *w, ipu__export_frame *frame, uint32_t block)
{
    const ipu__block *b = &frame->m->blocks.at[block];
    for (size_t i = 0; i < b->order.n && ipu__writer_ok(w); i++) {
        const ipu__model_op *op      = &frame->m->ops.at[b->order.at[i]];
        bool                 is_left = !op->dead && !frame->done[b->order.at[i]];
        if (is_left && !write_op(w, frame, op)) ipu__writer_missing(w, op->def->kernel.name);
    }
}

/* ---- ops in terms of others ---- */

typedef void (*compose_fn)(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out);

static bool is_narrow(ipu_type type) { return type == IPU_HALF || type == IPU_BFLOAT16; }

static void build_composition(ipu__wop *o, compose_fn compose, bool in_float, ipu_model *m)
{
    ipu_builder *b                     = ipu_model_builder(m);
    ipu_value    in[IPU__MAX_OPERANDS] = {{0}}, out[IPU__MAX_OPERANDS] = {{0}};
    int          n_in = (int)o->op->n_in;
    for (int i = 0; i < n_in; i++) {
        char              name[] = {'i', (char)('a' + i), 0};
        ipu__kernel_value type   = o->call.operand[i];
        if (!o->op->in[i]) continue;
        in[i] = ipu_model_input(m, type.type, type.shape, name);
        if (in_float && is_narrow(type.type)) in[i] = ipu_cast(b, in[i], IPU_FLOAT);
    }
    compose(b, &o->call, in, out);
    for (uint32_t i = 0; i < o->op->n_out; i++) {
        char     name[] = {'o', (char)('a' + (char)i), 0};
        ipu_type type   = o->call.operand[o->op->n_in + i].type;
        if (!ipu__gives(o, (int)i)) continue;
        if (!ipu__has(out[i])) /* left out, which is a tensor of no elements */
            out[i] = ipu_constant_value(b, type, o->call.operand[o->op->n_in + i].shape, 0);
        if (ipu_value_type(out[i]) != type) out[i] = ipu_cast(b, out[i], type);
        ipu_model_output(m, out[i], name);
    }
}

static void write_composition(ipu__wop *o, ipu_model *m)
{
    ipu__export_frame frame;
    size_t            next = 0;
    if (open_frame(o->w, &frame, m, o->out[0])) {
        for (uint32_t i = 0; i < o->op->n_in; i++)
            if (o->op->in[i]) frame.name[m->inputs.at[next++]] = ipu__take(o, (int)i);
        next = 0;
        for (uint32_t i = 0; i < o->op->n_out; i++)
            if (ipu__gives(o, (int)i)) claim(&frame, m->outputs.at[next++].value, o->out[i]);
        write_block(o->w, &frame, 0);
        next = 0;
        for (uint32_t i = 0; i < o->op->n_out; i++)
            if (ipu__gives(o, (int)i)) settle(o->w, &frame, m->outputs.at[next++].value, o->out[i]);
    }
    close_frame(&frame);
}

static bool compose_op(ipu__wop *o, compose_fn compose, bool in_float)
{
    ipu_model *m;
    if (!compose || o->w->depth >= MOST_DEPTH) return false;
    ipu_status status = ipu_model_create(&m);
    if (status == IPU_OK) build_composition(o, compose, in_float, m);
    if (status == IPU_OK) status = ipu_model_optimise(m, IPU_PASS_FOLD | IPU_PASS_CSE | IPU_PASS_DCE);
    o->w->depth++;
    if (status == IPU_OK)
        write_composition(o, m);
    else if (ipu__writer_ok(o->w))
        o->w->status = status;
    o->w->depth--;
    ipu_model_destroy(m);
    return true;
}

/* ---- ops ---- */

static bool write_plain(ipu__wop *o)
{
    const ipu__op_def     *def = o->op->def;
    const ipu__export_row *row = ipu__export_row_find(def->kernel.name);
    if (row && row->onnx && ipu__put_same(o, row->onnx, (int)o->op->n_in, (int)o->op->n_out)) return true;
    if (row && row->write && row->write(o)) return true;
    if (row && row->compose && compose_op(o, row->compose, row->in_float)) return true;
    return compose_op(o, def->compose, false);
}

static bool write_batch_norm(ipu__writer *w, ipu__export_frame *frame, const ipu__model_op *op)
{
    ipu__batch_norm n;
    if (!ipu__match_batch_norm(frame, op, &n)) return false;
    const uint32_t ids[5] = {n.x, n.weight, n.bias, n.mean, n.var};
    const char    *in[5];
    for (int i = 0; i < 5; i++) in[i] = name_of(w, frame, ids[i]);
    Ipu__NodeProto *node = ipu__put(w, "BatchNormalization", in, 5,
                                    new_name(w, frame, op->first_out, "norm"));
    ipu__put_float(w, node, "epsilon", n.epsilon);
    return true;
}

static bool write_one(ipu__writer *w, ipu__export_frame *frame, const ipu__model_op *op)
{
    if (write_batch_norm(w, frame, op)) return true;
    ipu__wop o = {.w = w, .frame = frame, .op = op, .call = ipu__model_call(frame->m, op)};
    for (uint32_t i = 0; i < op->n_out; i++) {
        bool is_wanted = i == 0 || frame->uses[op->first_out + i] > 0;
        o.out[i]       = is_wanted ? new_name(w, frame, op->first_out + i, op->def->kernel.name) : "";
    }
    bool done = write_plain(&o);
    for (uint32_t i = 0; done && i < op->n_out; i++)
        if (o.cast[i]) ipu__put_cast(w, o.cast[i], o.call.operand[op->n_in + i].type, o.out[i]);
    return done;
}

/* ---- branches and loops ---- */

static void add_info(ipu__writer *w, Ipu__ValueInfoProto ***list, size_t *n, const char *name,
                     const ipu__builder_value *v)
{
    Ipu__ValueInfoProto **longer = ipu__writer_alloc(w, (*n + 1) * sizeof *longer);
    Ipu__ValueInfoProto  *info   = ipu__writer_info(w, name, v->type, &v->shape);
    if (!longer || !info) return;
    if (*n) memcpy(longer, *list, *n * sizeof *longer);
    longer[(*n)++] = info;
    *list          = longer;
}

static Ipu__GraphProto *new_graph(ipu__writer *w, const char *name)
{
    Ipu__GraphProto *g = ipu__writer_alloc(w, sizeof *g);
    if (!g) return NULL;
    ipu__graph_proto__init(g);
    g->name = (char *)ipu__fresh(w, name);
    return g;
}

static void take_nodes(ipu__writer *w, Ipu__GraphProto *g, ipu__sheet *sheet)
{
    g->node = ipu__writer_alloc(w, sheet->nodes.n * sizeof *g->node);
    if (g->node && sheet->nodes.n) memcpy(g->node, sheet->nodes.at, sheet->nodes.n * sizeof *g->node);
    if (g->node) g->n_node = sheet->nodes.n;
    ipu__array_fini(&sheet->nodes);
}

/* A value that a block gives: made in it, once, or copied there. */
static void add_yield(ipu__writer *w, ipu__export_frame *frame, Ipu__GraphProto *g, uint32_t id)
{
    const char *name = ipu__put(w, "Identity", IPU__NAMES(name_of(w, frame, id)), NULL)->output[0];
    add_info(w, &g->output, &g->n_output, name, value_of(frame, id));
}

static void write_yields(ipu__writer *w, ipu__export_frame *frame, Ipu__GraphProto *g, uint32_t block)
{
    const ipu__block *b = &frame->m->blocks.at[block];
    for (size_t i = 0; i < b->yields.n && ipu__writer_ok(w); i++) add_yield(w, frame, g, b->yields.at[i]);
}

static Ipu__GraphProto *write_branch(ipu__writer *w, ipu__export_frame *frame, uint32_t block,
                                     const char *name)
{
    ipu__sheet       sheet = {{0}}, *outer = w->sheet;
    Ipu__GraphProto *g = new_graph(w, name);
    if (!g) return NULL;
    w->sheet = &sheet;
    write_block(w, frame, block);
    write_yields(w, frame, g, block);
    take_nodes(w, g, &sheet);
    w->sheet = outer;
    return g;
}

static void put_outputs(ipu__writer *w, ipu__export_frame *frame, const ipu__model_op *op,
                        Ipu__NodeProto *node)
{
    for (uint32_t i = 1; i < op->n_out; i++)
        ipu__put_output(w, node, new_name(w, frame, op->first_out + i, node->op_type));
}

static void write_if(ipu__writer *w, ipu__export_frame *frame, const ipu__model_op *op)
{
    Ipu__GraphProto *then      = write_branch(w, frame, op->body, "then");
    Ipu__GraphProto *otherwise = write_branch(w, frame, op->otherwise, "else");
    if (!then || !otherwise) return;
    Ipu__NodeProto *node = ipu__put(w, "If", IPU__NAMES(name_of(w, frame, op->in[0])),
                                    new_name(w, frame, op->first_out, "If"));
    put_outputs(w, frame, op, node);
    ipu__put_graph(w, node, "then_branch", then);
    ipu__put_graph(w, node, "else_branch", otherwise);
}

/* Inputs of a body: the turn (int64; ours is int32), whether to go on, and what is carried. */
static Ipu__GraphProto *write_body(ipu__writer *w, ipu__export_frame *frame, uint32_t block)
{
    static const ipu__builder_value turn_type = {.type = IPU_INT64}, bool_type = {.type = IPU_BOOL};
    const ipu__block               *b     = &frame->m->blocks.at[block];
    ipu__sheet                      sheet = {{0}}, *outer = w->sheet;
    Ipu__GraphProto                *g = new_graph(w, "body");
    if (!g) return NULL;
    w->sheet         = &sheet;
    const char *turn = ipu__fresh(w, "turn"), *condition = ipu__fresh(w, "condition");
    add_info(w, &g->input, &g->n_input, turn, &turn_type);
    add_info(w, &g->input, &g->n_input, condition, &bool_type);
    for (uint32_t i = 0; i < b->n_carried; i++)
        add_info(w, &g->input, &g->n_input, new_name(w, frame, b->first_carried + i, "carried"),
                 value_of(frame, b->first_carried + i));
    if (b->index && frame->uses[b->index])
        ipu__put_cast(w, turn, IPU_INT32, new_name(w, frame, b->index, "index"));
    write_block(w, frame, block);
    const char *go_on = b->go_on ? name_of(w, frame, b->go_on) : condition;
    add_info(w, &g->output, &g->n_output, ipu__put(w, "Identity", IPU__NAMES(go_on), NULL)->output[0],
             &bool_type);
    write_yields(w, frame, g, block);
    take_nodes(w, g, &sheet);
    w->sheet = outer;
    return g;
}

static void write_loop(ipu__writer *w, ipu__export_frame *frame, const ipu__model_op *op)
{
    Ipu__GraphProto *body = write_body(w, frame, op->body);
    const char     **in   = ipu__writer_alloc(w, (op->n_in + 1) * sizeof *in);
    if (!body || !in) return;
    in[0] = ipu__put_scalar(w, IPU_INT64, (double)op->most);
    in[1] = op->in[0] ? name_of(w, frame, op->in[0]) : "";
    /* without a condition, what the body says of going on would be ignored */
    if (!*in[1] && frame->m->blocks.at[op->body].go_on) in[1] = ipu__put_scalar(w, IPU_BOOL, 1);
    for (uint32_t i = 1; i < op->n_in; i++) in[i + 1] = name_of(w, frame, op->in[i]);
    Ipu__NodeProto *node = ipu__put(w, "Loop", in, op->n_in + 1, new_name(w, frame, op->first_out, "Loop"));
    put_outputs(w, frame, op, node);
    ipu__put_graph(w, node, "body", body);
}

static bool write_op(ipu__writer *w, ipu__export_frame *frame, const ipu__model_op *op)
{
    if (op->kind == IPU__MODEL_IF)
        write_if(w, frame, op);
    else if (op->kind == IPU__MODEL_LOOP)
        write_loop(w, frame, op);
    else
        return write_one(w, frame, op);
    return true;
}

/* ---- the graph ---- */

static void name_inputs(ipu__writer *w, ipu__export_frame *frame, Ipu__GraphProto *g)
{
    const ipu_model *m = frame->m;
    for (size_t i = 0; i < m->inputs.n && ipu__writer_ok(w); i++) {
        uint32_t id = m->inputs.at[i];
        add_info(w, &g->input, &g->n_input, new_name(w, frame, id, "input"), value_of(frame, id));
    }
}

Ipu__GraphProto *ipu__writer_graph(ipu__writer *w, const char *name)
{
    ipu__export_frame frame;
    ipu__sheet        sheet = {{0}};
    const ipu_model  *m     = w->m;
    Ipu__GraphProto  *g     = ipu__writer_alloc(w, sizeof *g);
    if (!g) return NULL;
    ipu__graph_proto__init(g);
    g->name          = (char *)name;
    w->sheet         = &sheet;
    const char **own = ipu__writer_alloc(w, m->outputs.n * sizeof *own);
    if (open_frame(w, &frame, w->m, NULL) && own) {
        name_inputs(w, &frame, g);
        for (size_t i = 0; i < m->outputs.n && ipu__writer_ok(w); i++) {
            own[i] = ipu__fresh(w, m->outputs.at[i].name);
            claim(&frame, m->outputs.at[i].value, own[i]);
            add_info(w, &g->output, &g->n_output, own[i], value_of(&frame, m->outputs.at[i].value));
        }
        for (int kind = 0; kind < 2; kind++) { /* their names are theirs, whoever asks first */
            size_t          n   = kind ? m->states.n : m->parameters.n;
            const uint32_t *ids = kind ? m->states.at : m->parameters.at;
            for (size_t i = 0; i < n && ipu__writer_ok(w); i++)
                if (frame.uses[ids[i]]) name_of(w, &frame, ids[i]);
        }
        write_block(w, &frame, 0);
        for (size_t i = 0; i < m->outputs.n && ipu__writer_ok(w); i++)
            settle(w, &frame, m->outputs.at[i].value, own[i]);
    }
    take_nodes(w, g, &sheet);
    w->sheet = NULL;
    close_frame(&frame);
    return ipu__writer_ok(w) ? g : NULL;
}
