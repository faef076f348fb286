/* Writing models: the message around the graph, to a file or to memory. */
#include <string.h>

#include "base/alloc.h"
#include "onnx/export/export.h"
#include "onnx/export/save.h"
#include "onnx/tensor.h"

enum { LEAST_OPSET = 13, MOST_OPSET = 17, MOST_OF_A_NODE = 1 << 20 /* bytes */ };

/* The first IR version that goes with each operator set, from 13 on. */
static int64_t ir_version(int64_t opset) { return opset < 15 ? 7 : 8; }

/* ---- the table ---- */

static const ipu__export_row rows[] = {
#define SAME(op, onnx) {#op, onnx, NULL, NULL, false},
#define WRITE(op) {#op, NULL, ipu__write_##op, NULL, false},
#define REWRITE(op, in_float) {#op, NULL, NULL, ipu__rewrite_##op, in_float},
#define EITHER(op, in_float) {#op, NULL, ipu__write_##op, ipu__rewrite_##op, in_float},
#include "onnx/export/export.inc"
#undef SAME
#undef WRITE
#undef REWRITE
#undef EITHER
};

const ipu__export_row *ipu__export_row_find(const char *op)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].op, op) == 0) return &rows[i];
    return NULL;
}

/* ---- ops that cannot be written ---- */

void ipu__writer_missing(ipu__writer *w, const char *op)
{
    uint32_t known;
    if (ipu__map_find(&w->missing, op, &known)) return;
    if (!ipu__map_set(&w->missing, op, 0)) ipu__writer_fail_memory(w);
    ipu__text_add(&w->missing_text, "%s%s", w->missing.n > 1 ? ", " : "", op);
}

static ipu_status refuse_missing(ipu__writer *w)
{
    if (w->missing.n == 0) return IPU_OK;
    return ipu__fail(IPU_UNSUPPORTED, "ipu_onnx_write: %zu ops cannot be said in opset %lld of ONNX: %s",
                     w->missing.n, (long long)w->opset, w->missing_text.at ? w->missing_text.at : "");
}

/* ---- the message ---- */

static char *text_of(ipu__writer *w, const char *text)
{
    char *own = text && ipu__writer_ok(w) ? ipu__arena_strdup(&w->arena, text) : NULL;
    if (text && !own) ipu__writer_fail_memory(w);
    return own;
}

static void add_opset(ipu__writer *w, Ipu__ModelProto *proto)
{
    Ipu__OperatorSetIdProto *set = ipu__writer_alloc(w, sizeof *set);
    proto->opset_import          = ipu__writer_alloc(w, sizeof *proto->opset_import);
    if (!set || !proto->opset_import) return;
    ipu__operator_set_id_proto__init(set);
    set->domain            = text_of(w, "");
    set->has_version       = true;
    set->version           = w->opset;
    proto->opset_import[0] = set;
    proto->n_opset_import  = 1;
}

static void add_metadata(ipu__writer *w, Ipu__ModelProto *proto)
{
    const ipu_onnx_write_options *o = w->options;
    proto->metadata_props           = ipu__writer_alloc(w, o->n_metadata * sizeof *proto->metadata_props);
    for (size_t i = 0; proto->metadata_props && i < o->n_metadata; i++) {
        Ipu__StringStringEntryProto *e = ipu__writer_alloc(w, sizeof *e);
        if (!e) return;
        ipu__string_string_entry_proto__init(e);
        e->key                                           = text_of(w, o->metadata[2 * i]);
        e->value                                         = text_of(w, o->metadata[2 * i + 1]);
        proto->metadata_props[proto->n_metadata_props++] = e;
    }
}

static bool is_used(const ipu__writer *w, const Ipu__TensorProto *t)
{
    uint32_t used;
    return ipu__map_find(&w->used, t->name, &used);
}

/* Who trains a file takes its floating initializers for parameters: small constants, an epsilon say, are nodes. */
static bool is_node(const Ipu__TensorProto *t)
{
    return ipu__op_is_floating(ipu__onnx_type(t->data_type)) && t->raw_data.len <= MOST_OF_A_NODE;
}

/* Those that nodes take: what random ops draw from, say, has no place in the file. */
static void add_initializers(ipu__writer *w, Ipu__GraphProto *g)
{
    g->initializer = ipu__writer_alloc(w, (w->initializers.n + w->constants.n) * sizeof *g->initializer);
    for (size_t i = 0; g->initializer && i < w->initializers.n; i++)
        if (is_used(w, w->initializers.at[i])) g->initializer[g->n_initializer++] = w->initializers.at[i];
    for (size_t i = 0; g->initializer && i < w->constants.n; i++)
        if (is_used(w, w->constants.at[i]) && !is_node(w->constants.at[i]))
            g->initializer[g->n_initializer++] = w->constants.at[i];
}

/* Constants that are nodes, before all others. */
static void add_constants(ipu__writer *w, Ipu__GraphProto *g)
{
    ipu__sheet sheet = {0}, *around = w->sheet;
    w->sheet = &sheet;
    for (size_t i = 0; i < w->constants.n; i++)
        if (is_used(w, w->constants.at[i]) && is_node(w->constants.at[i])) {
            Ipu__NodeProto *node = ipu__put(w, "Constant", NULL, 0, w->constants.at[i]->name);
            ipu__put_tensor(w, node, "value", w->constants.at[i]);
        }
    w->sheet               = around;
    Ipu__NodeProto **nodes = ipu__writer_alloc(w, (sheet.nodes.n + g->n_node) * sizeof *nodes);
    if (nodes) {
        for (size_t i = 0; i < sheet.nodes.n; i++) nodes[i] = sheet.nodes.at[i];
        for (size_t i = 0; i < g->n_node; i++) nodes[sheet.nodes.n + i] = g->node[i];
        g->node = nodes;
        g->n_node += sheet.nodes.n;
    }
    ipu__array_fini(&sheet.nodes);
}

static void make_proto(ipu__writer *w, Ipu__ModelProto *proto)
{
    const ipu_onnx_write_options *o = w->options;
    ipu__model_proto__init(proto);
    proto->has_ir_version    = true;
    proto->ir_version        = ir_version(w->opset);
    proto->producer_name     = text_of(w, o->producer ? o->producer : "OpenIPU");
    proto->producer_version  = text_of(w, o->producer_version);
    proto->domain            = text_of(w, o->domain);
    proto->doc_string        = text_of(w, o->doc);
    proto->has_model_version = o->model_version != 0;
    proto->model_version     = o->model_version;
    proto->graph             = ipu__writer_graph(w, text_of(w, o->graph_name ? o->graph_name : "model"));
    if (proto->graph) proto->graph->doc_string = text_of(w, o->graph_doc);
    if (proto->graph) add_initializers(w, proto->graph);
    if (proto->graph) add_constants(w, proto->graph);
    add_opset(w, proto);
    add_metadata(w, proto);
    if (ipu__writer_ok(w)) w->status = refuse_missing(w);
}

static void fini(ipu__writer *w)
{
    for (size_t i = 0; i < w->data.n; i++) ipu__free(w->data.at[i]);
    ipu__array_fini(&w->data);
    ipu__array_fini(&w->initializers);
    ipu__array_fini(&w->constants);
    ipu__map_fini(&w->names);
    ipu__map_fini(&w->used);
    ipu__map_fini(&w->missing);
    ipu__text_fini(&w->missing_text);
    ipu_engine_destroy(w->drawn);
    ipu_model_destroy(w->m);
    ipu__arena_fini(&w->arena);
}

/* A copy of which nothing is left but what outputs need. */
static ipu_status copy_forward(ipu_model *m, ipu_model **out)
{
    if (m->base.status != IPU_OK) return ipu__fail(m->base.status, "%s", ipu_builder_message(&m->base));
    *out = ipu__model_copy(m);
    if (!*out) return ipu__fail_memory();
    for (size_t i = 0; i < (*out)->values.n; i++) (*out)->values.at[i].update = 0;
    return ipu_model_optimise(*out, IPU_PASS_FOLD | IPU_PASS_CSE | IPU_PASS_DCE);
}

/* `path` NULL: to memory. */
static ipu_status write_to(ipu_model *m, const ipu_onnx_write_options *options, const char *path, void **data,
                           size_t *bytes)
{
    static const ipu_onnx_write_options defaults;
    ipu__writer                         w = {.options = options ? options : &defaults};
    Ipu__ModelProto                     proto;
    w.opset = w.options->opset ? w.options->opset : MOST_OPSET;
    if (w.opset < LEAST_OPSET || w.opset > MOST_OPSET)
        return ipu__fail(IPU_UNSUPPORTED, "ipu_onnx_write: opset %lld: expected %d to %d", (long long)w.opset,
                         LEAST_OPSET, MOST_OPSET);
    w.status = copy_forward(m, &w.m);
    if (w.status == IPU_OK) make_proto(&w, &proto);
    if (w.status == IPU_OK)
        w.status = path ? ipu__onnx_save(&proto, path, w.options->external)
                        : ipu__onnx_pack(&proto, data, bytes);
    ipu_status status = w.status;
    fini(&w);
    return status;
}

ipu_status ipu_onnx_write(ipu_model *m, const ipu_onnx_write_options *options, const char *path)
{
    return write_to(m, options, path, NULL, NULL);
}

ipu_status ipu_onnx_write_memory(ipu_model *m, const ipu_onnx_write_options *options, void **data,
                                 size_t *bytes)
{
    *data  = NULL;
    *bytes = 0;
    return write_to(m, options, NULL, data, bytes);
}
