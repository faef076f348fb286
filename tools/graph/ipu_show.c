/* `ipu show`: the contents of an ONNX file: inputs, outputs, ops, parameters, work and memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harmless.h"
#include "ipu/cost.h"
#include "run/onnx_file.h"
#include "output.h"

enum { COLUMN = 14 };

/* Figures that exist only if all shapes are known. */
typedef struct work {
    bool    is_known;
    char    why[1024]; /* why it is unknown */
    double  operations;
    int64_t planned, unshared; /* bytes of variables on this host */
} work;

typedef struct shown {
    onnx_file     file;
    ipu_onnx_info info;
    work          work;
} shown;

/* ---- measuring ---- */

static ipu_status measure(ipu_model *m, work *w)
{
    ipu_target       target;
    ipu_cost        *cost;
    ipu_executable  *exe;
    ipu_cost_summary s;
    IPU_TRY(ipu_target_find("gc200", 1, &target));
    IPU_TRY(ipu_model_cost(m, &target, NULL, &cost));
    ipu_cost_get_summary(cost, &s);
    w->operations = s.operations;
    ipu_cost_destroy(cost);
    IPU_TRY(ipu_model_compile(m, &target, NULL, &exe));
    ipu_executable_memory(exe, &w->planned, &w->unshared);
    ipu_executable_release(exe);
    return IPU_OK;
}

static void find_work(const onnx_file *f, int64_t most_bytes, work *w)
{
    const ipu_onnx_options options = {.dims = f->dims, .n_dims = f->n_dims, .most_bytes = most_bytes};
    ipu_model             *m       = NULL;
    ipu_status             status  = ipu_onnx_import(f->onnx, &options, &m);
    if (status == IPU_OK) status = measure(m, w);
    w->is_known = status == IPU_OK;
    if (!w->is_known) snprintf(w->why, sizeof w->why, "%s", ipu_message());
    ipu_model_destroy(m);
}

/* ---- text ---- */

/* Prints nothing if the text is empty. */
static void print_text(const char *title, const char *text, const char *more)
{
    if (*text) printf("%-*s%s%s%s\n", COLUMN, title, harmless(text), *more ? " " : "", harmless(more));
}

static void print_ports(const char *title, const ipu_onnx_port *ports, size_t n)
{
    char text[512];
    for (size_t i = 0; i < n; i++) {
        onnx_port_text(&ports[i], text, sizeof text);
        printf("%-*s%s  %s\n", COLUMN, i ? "" : title, harmless(ports[i].name), harmless(text));
    }
}

static void print_ops(const onnx_file *f)
{
    ipu_onnx_op_count op;
    for (size_t i = 0; ipu_onnx_op_count_at(f->onnx, i, &op); i++) {
        char name[256];
        snprintf(name, sizeof name, "%s%s%s", op.domain, *op.domain ? "." : "", op.name);
        printf("%-*s%-28s %6zu%s\n", COLUMN, i ? "" : "ops", harmless(name), op.n,
               op.is_known ? "" : "  not supported");
    }
}

static void print_metadata(const shown *s)
{
    const char *key, *value;
    for (size_t i = 0; i < s->info.n_metadata; i++) {
        ipu_onnx_metadata_at(s->file.onnx, i, &key, &value);
        printf("%-*s%s: %s\n", COLUMN, i ? "" : "metadata", harmless(key), harmless(value));
    }
}

static void print_work(const shown *s)
{
    char operations[32], weights[32], planned[32], unshared[32];
    tool_format((double)s->info.parameter_bytes, "B", weights, sizeof weights);
    printf("%-*s%lld in %zu initializers: %s\n", COLUMN, "parameters", (long long)s->info.n_parameters,
           s->info.n_initializers, weights);
    if (!s->work.is_known) {
        printf("%-*snot known: ", COLUMN, "operations");
        tool_print_wrapped(stdout, s->work.why, COLUMN + 11, COLUMN, 110);
        return;
    }
    tool_format(s->work.operations, "FLOP", operations, sizeof operations);
    tool_format((double)s->work.planned, "B", planned, sizeof planned);
    tool_format((double)s->work.unshared, "B", unshared, sizeof unshared);
    printf("%-*s%s per run\n", COLUMN, "operations", operations);
    printf("%-*s%s of parameters; inputs, outputs and activations planned in %s (%s if none shared memory)\n",
           COLUMN, "memory", weights, planned, unshared);
}

static void print_file(const shown *s)
{
    const ipu_onnx_info *i = &s->info;
    char                 version[64];
    snprintf(version, sizeof version, "IR version %lld, opset %lld", (long long)i->ir_version,
             (long long)i->opset);
    print_text("file", s->file.path, "");
    print_text("format", version, "");
    print_text("producer", i->producer, i->producer_version);
    print_text("domain", i->domain, "");
    print_text("graph", i->graph_name, "");
    if (i->model_version) printf("%-*s%lld\n", COLUMN, "version", (long long)i->model_version);
    print_text("doc", i->doc, "");
    print_metadata(s);
    print_ports("inputs", s->file.inputs, s->file.n_inputs);
    print_ports("outputs", s->file.outputs, s->file.n_outputs);
    printf("%-*s%zu\n", COLUMN, "nodes", i->n_nodes);
    print_ops(&s->file);
    print_work(s);
}

/* ---- JSON ---- */

static json_t *json_dims(const ipu_onnx_port *port)
{
    json_t *list   = json_array();
    bool    failed = !list;
    for (int d = 0; d < port->rank; d++) {
        const char *symbol = port->symbol[d] && *port->symbol[d] ? port->symbol[d] : NULL;
        json_t     *dim    = port->shape.dim[d] >= 0 ? json_integer((json_int_t)port->shape.dim[d])
                           : symbol                  ? tool_json_text(symbol)
                                                     : json_null();
        failed |= json_array_append_new(list, dim) != 0;
    }
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

static json_t *json_ports(const ipu_onnx_port *ports, size_t n)
{
    json_t *list   = json_array();
    bool    failed = !list;
    for (size_t i = 0; i < n; i++) {
        const ipu_onnx_port *p = &ports[i];
        failed |= json_array_append_new(
                      list, json_pack("{s:o, s:s?, s:o, s:b, s:b}", "name", tool_json_text(p->name), "type",
                                      p->has_type ? ipu_type_name(p->type) : NULL, "shape",
                                      p->rank >= 0 ? json_dims(p) : json_null(), "sequence",
                                      (int)(p->kind == IPU_ONNX_SEQUENCE), "optional", (int)p->is_optional))
               != 0;
    }
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

static json_t *json_ops(const onnx_file *f)
{
    json_t           *list   = json_array();
    bool              failed = !list;
    ipu_onnx_op_count op;
    for (size_t i = 0; ipu_onnx_op_count_at(f->onnx, i, &op); i++)
        failed |= json_array_append_new(list,
                                        json_pack("{s:o, s:o, s:I, s:b}", "domain", tool_json_text(op.domain),
                                                  "name", tool_json_text(op.name), "count", (json_int_t)op.n,
                                                  "supported", (int)op.is_known))
               != 0;
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

static json_t *json_metadata(const shown *s)
{
    json_t     *object = json_object();
    bool        failed = !object;
    const char *key, *value;
    for (size_t i = 0; i < s->info.n_metadata; i++) {
        ipu_onnx_metadata_at(s->file.onnx, i, &key, &value);
        json_t *text = tool_json_text(key);
        failed |= !text || json_object_set_new(object, json_string_value(text), tool_json_text(value)) != 0;
        json_decref(text);
    }
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *json_work(const work *w)
{
    if (!w->is_known) return json_pack("{s:n, s:o}", "operations", "why", tool_json_text(w->why));
    return json_pack("{s:o, s:I, s:I}", "operations", tool_json_number(w->operations), "planned_bytes",
                     (json_int_t)w->planned, "unshared_bytes", (json_int_t)w->unshared);
}

static json_t *json_file(const shown *s)
{
    const ipu_onnx_info *i   = &s->info;
    json_t              *all = json_pack("{s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:o}", "file",
                                         tool_json_text(s->file.path), "ir_version", (json_int_t)i->ir_version, "opset",
                                         (json_int_t)i->opset, "producer", tool_json_text(i->producer), "producer_version",
                                         tool_json_text(i->producer_version), "domain", tool_json_text(i->domain), "graph",
                                         tool_json_text(i->graph_name), "model_version", (json_int_t)i->model_version,
                                         "doc", tool_json_text(i->doc));
    json_t *more = json_pack("{s:o, s:o, s:o, s:I, s:o, s:I, s:I, s:I, s:o}", "metadata", json_metadata(s),
                             "inputs", json_ports(s->file.inputs, s->file.n_inputs), "outputs",
                             json_ports(s->file.outputs, s->file.n_outputs), "nodes", (json_int_t)i->n_nodes,
                             "ops", json_ops(&s->file), "initializers", (json_int_t)i->n_initializers,
                             "parameters", (json_int_t)i->n_parameters, "parameter_bytes",
                             (json_int_t)i->parameter_bytes, "work", json_work(&s->work));
    if (all && more && json_object_update_new(all, more) == 0) return all;
    json_decref(all);
    return NULL;
}

tool_exit run_show(const tool_arguments *args)
{
    shown       s          = {0};
    int64_t     most_bytes = 0;
    const char *memory     = args->values[SHOW_MEMORY];
    if (memory && !tool_integer("max-memory", memory, 1, INT64_MAX, &most_bytes)) return TOOL_USAGE;
    tool_exit code = onnx_file_open(&s.file, "show", args, SHOW_SHAPE);
    if (code == TOOL_OK) {
        ipu_onnx_get_info(s.file.onnx, &s.info);
        find_work(&s.file, most_bytes, &s.work);
        if (args->values[SHOW_JSON])
            code = tool_print_json(stdout, json_file(&s));
        else
            print_file(&s);
    }
    onnx_file_free(&s.file);
    return code;
}
