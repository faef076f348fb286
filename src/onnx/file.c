/* Opening files, and what can be asked of them before anything is imported. */
#include "onnx/file.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "onnx/borrow.h"
#include "onnx/import/import.h"
#include "onnx/tensor.h"
#include "onnx/wire.h"

enum {
    LEAST_IR  = 1,
    MOST_IR   = 13,
    KEY_BYTES = 1000,
    MOST_SETS = 1000 /* operator sets and attributes of a node: they are searched one by one */
};

static void *pb_alloc(void *user, size_t bytes)
{
    (void)user;
    return ipu__alloc(bytes);
}
static void pb_free(void *user, void *data)
{
    (void)user;
    ipu__free(data);
}
ProtobufCAllocator ipu__onnx_allocator = {pb_alloc, pb_free, NULL};

const char *ipu__onnx_domain(const char *domain)
{
    return !domain || strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

int64_t ipu__onnx_opset(const ipu_onnx *file, const char *domain)
{
    domain = ipu__onnx_domain(domain);
    for (size_t i = 0; i < file->proto->n_opset_import; i++) {
        const Ipu__OperatorSetIdProto *set = file->proto->opset_import[i];
        if (strcmp(ipu__onnx_domain(set->domain), domain) == 0) return set->version;
    }
    /* IR versions 1 and 2 had no operator sets. */
    return *domain == 0 && file->proto->ir_version < 3 ? 1 : 0;
}

/* The key of a domain's op or function; false: too long, so that there is none. */
static bool make_key(const char *domain, const char *name, char key[KEY_BYTES])
{
    return snprintf(key, KEY_BYTES, "%s\n%s", ipu__onnx_domain(domain), name) < KEY_BYTES;
}

const Ipu__FunctionProto *ipu__onnx_function(const ipu_onnx *file, const char *domain, const char *name)
{
    char     key[KEY_BYTES];
    uint32_t at;
    if (file->proto->n_functions == 0 || !make_key(domain, name, key)) return NULL;
    return ipu__map_find(&file->function_index, key, &at) ? file->proto->functions[at] : NULL;
}

/* ---- reading ---- */

static ipu_status index_pair(ipu_onnx *file, ipu__map *map, const char *key, size_t number)
{
    const char *own = ipu__arena_strdup(&file->arena, key);
    return own && ipu__map_set(map, own, (uint32_t)number) ? IPU_OK : ipu__fail_memory();
}

static ipu_status count_op(ipu_onnx *file, const Ipu__NodeProto *node)
{
    const char *domain = ipu__onnx_domain(node->domain), *name = ipu__or_empty(node->op_type);
    char        key[KEY_BYTES];
    uint32_t    at;
    if (!make_key(domain, name, key))
        return ipu__fail(IPU_INVALID, "the name of an op has over %d bytes", KEY_BYTES);
    if (ipu__map_find(&file->op_index, key, &at)) {
        file->ops.at[at].n++;
        return IPU_OK;
    }
    bool is_known = ipu__onnx_op_find(domain, name) || ipu__onnx_function(file, domain, name);
    if (!ipu__push(&file->ops, ((ipu_onnx_op_count){domain, name, 1, is_known}))) return ipu__fail_memory();
    return index_pair(file, &file->op_index, key, file->ops.n - 1);
}

static ipu_status too_many(const char *what, size_t n)
{
    return ipu__fail(IPU_INVALID, "%zu %s; expected at most %d", n, what, MOST_SETS);
}

static ipu_status index_functions(ipu_onnx *file)
{
    for (size_t i = 0; i < file->proto->n_functions; i++) {
        const Ipu__FunctionProto *f    = file->proto->functions[i];
        const char               *name = ipu__or_empty(f->name);
        char                      key[KEY_BYTES];
        uint32_t                  taken;
        if (f->n_opset_import > MOST_SETS) return too_many("operator sets of a function", f->n_opset_import);
        if (!make_key(f->domain, name, key))
            return ipu__fail(IPU_INVALID, "the name of a function has over %d bytes", KEY_BYTES);
        if (ipu__map_find(&file->function_index, key, &taken))
            return ipu__fail(IPU_UNSUPPORTED, "function \"%s\" is defined twice", name);
        IPU_TRY(index_pair(file, &file->function_index, key, i));
    }
    return IPU_OK;
}

/* ---- fields that newer files have ---- */

enum { FUNCTION_ATTRIBUTE_PROTO = 11 }; /* their numbers in onnx.proto */

static bool make_default_key(const Ipu__FunctionProto *f, const char *name, char key[KEY_BYTES])
{
    return snprintf(key, KEY_BYTES, "%s\n%s\n%s", ipu__onnx_domain(f->domain), ipu__or_empty(f->name), name)
         < KEY_BYTES;
}

const Ipu__AttributeProto *ipu__onnx_default(const ipu_onnx *file, const Ipu__FunctionProto *f,
                                             const char *name)
{
    char     key[KEY_BYTES];
    uint32_t at;
    if (file->defaults.n == 0 || !make_default_key(f, name, key)) return NULL;
    return ipu__map_find(&file->default_index, key, &at) ? file->defaults.at[at] : NULL;
}

static ipu_status index_default(ipu_onnx *file, const Ipu__FunctionProto *f, const Ipu__AttributeProto *a)
{
    char     key[KEY_BYTES];
    uint32_t taken;
    if (!make_default_key(f, ipu__or_empty(a->name), key))
        return ipu__fail(IPU_INVALID, "the name of an attribute has over %d bytes", KEY_BYTES);
    if (ipu__map_find(&file->default_index, key, &taken)) return IPU_OK; /* the first counts */
    return index_pair(file, &file->default_index, key, file->defaults.n - 1);
}

static ipu_status read_default(ipu_onnx *file, const Ipu__FunctionProto *f,
                               const ProtobufCMessageUnknownField *u)
{
    size_t skip = 0; /* the length comes first */
    while (skip < u->len && u->data[skip] & 0x80) skip++;
    if (u->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED || skip >= u->len)
        return ipu__fail(IPU_INVALID, "function \"%s\" has an attribute that is none",
                         ipu__or_empty(f->name));
    const uint8_t *data  = u->data + skip + 1;
    size_t         bytes = u->len - skip - 1;
    IPU_TRY(ipu__wire_check(&ipu__attribute_proto__descriptor, data, bytes));
    Ipu__AttributeProto *a = ipu__attribute_proto__unpack(&ipu__onnx_allocator, bytes, data);
    if (a && !a->g && a->n_graphs == 0) {
        if (ipu__push(&file->defaults, a)) return index_default(file, f, a);
        ipu__attribute_proto__free_unpacked(a, &ipu__onnx_allocator);
        return ipu__fail_memory();
    }
    if (a) ipu__attribute_proto__free_unpacked(a, &ipu__onnx_allocator);
    return ipu__fail(IPU_UNSUPPORTED, "function \"%s\" has an attribute of a kind that is not supported",
                     ipu__or_empty(f->name));
}

static ipu_status read_defaults(ipu_onnx *file)
{
    for (size_t i = 0; i < file->proto->n_functions; i++) {
        const Ipu__FunctionProto *f = file->proto->functions[i];
        for (unsigned k = 0; k < f->base.n_unknown_fields; k++)
            if (f->base.unknown_fields[k].tag == FUNCTION_ATTRIBUTE_PROTO)
                IPU_TRY(read_default(file, f, &f->base.unknown_fields[k]));
    }
    return IPU_OK;
}

/* ---- what it holds ---- */

static ipu_status count_nodes(ipu_onnx *file, Ipu__NodeProto *const *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        IPU_TRY(count_op(file, nodes[i]));
        if (nodes[i]->n_attribute > MOST_SETS) return too_many("attributes of a node", nodes[i]->n_attribute);
        file->n_ports += nodes[i]->n_input + nodes[i]->n_output;
        for (size_t a = 0; a < nodes[i]->n_attribute; a++) {
            const Ipu__AttributeProto *attribute = nodes[i]->attribute[a];
            if (attribute->g) IPU_TRY(count_nodes(file, attribute->g->node, attribute->g->n_node));
            for (size_t g = 0; g < attribute->n_graphs; g++)
                IPU_TRY(count_nodes(file, attribute->graphs[g]->node, attribute->graphs[g]->n_node));
        }
    }
    return IPU_OK;
}

static ipu_status list_inputs(ipu_onnx *file)
{
    const Ipu__GraphProto *g      = file->proto->graph;
    ipu__map               map    = {0};
    ipu_status             status = IPU_OK;
    for (size_t i = 0; i < g->n_initializer && status == IPU_OK; i++)
        if (!ipu__map_set(&map, ipu__or_empty(g->initializer[i]->name), 0)) status = ipu__fail_memory();
    for (size_t i = 0; i < g->n_input && status == IPU_OK; i++) {
        uint32_t found;
        if (ipu__map_find(&map, ipu__or_empty(g->input[i]->name), &found)) continue;
        if (!ipu__push(&file->inputs, g->input[i])) status = ipu__fail_memory();
    }
    ipu__map_fini(&map);
    return status;
}

static ipu_status examine(ipu_onnx *file)
{
    const Ipu__ModelProto *m = file->proto;
    if (!m->has_ir_version || !m->graph)
        return ipu__fail(IPU_INVALID, "it has no %s: not an ONNX model", m->graph ? "IR version" : "graph");
    if (m->ir_version < LEAST_IR || m->ir_version > MOST_IR)
        return ipu__fail(IPU_UNSUPPORTED, "it is of IR version %lld; %d to %d are known",
                         (long long)m->ir_version, LEAST_IR, MOST_IR);
    if (ipu__onnx_opset(file, "") == 0 && m->graph->n_node > 0 && m->n_opset_import == 0)
        return ipu__fail(IPU_INVALID, "it does not say which operator sets it uses");
    if (m->n_opset_import > MOST_SETS) return too_many("operator sets", m->n_opset_import);
    IPU_TRY(index_functions(file));
    IPU_TRY(read_defaults(file));
    IPU_TRY(list_inputs(file));
    IPU_TRY(count_nodes(file, m->graph->node, m->graph->n_node));
    for (size_t i = 0; i < m->n_functions; i++)
        IPU_TRY(count_nodes(file, m->functions[i]->node, m->functions[i]->n_node));
    return IPU_OK;
}

/* The message becomes the file's if it `keeps` it. */
static ipu_status parse(void *data, size_t bytes, bool keeps, ipu_onnx *file)
{
    if (keeps) {
        file->data   = data;
        file->n_data = bytes;
    }
    IPU_TRY(ipu__wire_check(&ipu__model_proto__descriptor, data, bytes));
    if (keeps)
        IPU_TRY(ipu__onnx_unpack(file));
    else
        file->proto = ipu__model_proto__unpack(&ipu__onnx_allocator, bytes, data);
    if (!file->proto) return ipu__fail(IPU_INVALID, "its fields are not those of an ONNX model");
    return examine(file);
}

static ipu_status read_as(void *data, size_t bytes, bool keeps, const char *name, const char *folder,
                          ipu_onnx **out)
{
    *out           = NULL;
    ipu_onnx *file = ipu__alloc_zeroed(sizeof *file);
    if (!file) {
        if (keeps) ipu__free(data);
        return ipu__fail_memory();
    }
    file->name        = ipu__strdup(name);
    file->folder      = folder ? ipu__strdup(folder) : NULL;
    ipu_status status = parse(data, bytes, keeps, file);
    if (!file->name || (folder && !file->folder)) status = ipu__fail_memory();
    if (status == IPU_OK) {
        *out = file;
        return IPU_OK;
    }
    ipu_onnx_close(file);
    return ipu__fail(status, "%s: %s", name, ipu_message());
}

ipu_status ipu_onnx_read(const void *data, size_t bytes, const char *folder, ipu_onnx **out)
{
    return read_as((void *)(uintptr_t)data, bytes, false, "the ONNX model", folder, out);
}

ipu_status ipu_onnx_open(const char *path, ipu_onnx **out)
{
    char  *data, *folder = ipu__strdup(path);
    size_t bytes;
    *out = NULL;
    if (!folder) return ipu__fail_memory();
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    else
        folder[0] = 0;
    const char *name   = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    ipu_status  status = ipu__file_read(path, (size_t)2 << 30, &data, &bytes);
    if (status == IPU_OK) status = read_as(data, bytes, true, name, folder, out);
    ipu__free(folder);
    return status;
}

void ipu_onnx_close(ipu_onnx *file)
{
    if (!file) return;
    ipu__onnx_free_proto(file);
    ipu__free(file->data);
    for (size_t i = 0; i < file->defaults.n; i++)
        ipu__attribute_proto__free_unpacked(file->defaults.at[i], &ipu__onnx_allocator);
    ipu__array_fini(&file->defaults);
    ipu__map_fini(&file->op_index);
    ipu__map_fini(&file->function_index);
    ipu__map_fini(&file->default_index);
    ipu__arena_fini(&file->arena);
    ipu__array_fini(&file->inputs);
    ipu__array_fini(&file->ops);
    ipu__free(file->name);
    ipu__free(file->folder);
    ipu__free(file);
}

/* ---- asking ---- */

static void port_of_tensor(const Ipu__TypeProto__Tensor *t, ipu_onnx_port *out)
{
    out->kind     = IPU_ONNX_ARRAY;
    out->type     = ipu__onnx_type(t->elem_type);
    out->has_type = out->type != IPU_N_TYPES;
    if (!out->has_type) out->type = IPU_FLOAT;
    if (!t->shape || t->shape->n_dim > IPU_MAX_RANK) return;
    out->rank = out->shape.rank = (int)t->shape->n_dim;
    for (int i = 0; i < out->rank; i++) {
        const Ipu__TensorShapeProto__Dimension *d = t->shape->dim[i];
        bool is_number    = d->value_case == IPU__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        bool is_named     = d->value_case == IPU__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        out->shape.dim[i] = is_number && d->dim_value >= 0 ? d->dim_value : -1;
        out->symbol[i]    = is_named ? ipu__or_empty(d->dim_param) : "";
    }
}

static void port_of_type(const Ipu__TypeProto *type, ipu_onnx_port *out)
{
    switch (type->value_case) {
    case IPU__TYPE_PROTO__VALUE_TENSOR_TYPE: port_of_tensor(type->tensor_type, out); break;
    case IPU__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        if (type->sequence_type->elem_type) port_of_type(type->sequence_type->elem_type, out);
        out->kind = IPU_ONNX_SEQUENCE;
        out->rank = -1;
        break;
    case IPU__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        if (type->optional_type->elem_type) port_of_type(type->optional_type->elem_type, out);
        out->is_optional = true;
        break;
    default: break;
    }
}

const char *ipu__onnx_shape_text(const ipu_shape *shape, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < shape->rank && at < size; i++) {
        const char *comma = i ? "," : "";
        at += shape->dim[i] < 0
                ? (size_t)snprintf(text + at, size - at, "%s?", comma)
                : (size_t)snprintf(text + at, size - at, "%s%lld", comma, (long long)shape->dim[i]);
    }
    if (at < size) snprintf(text + at, size - at, "]");
    return text;
}

void ipu__onnx_port(const Ipu__ValueInfoProto *info, ipu_onnx_port *out)
{
    *out = (ipu_onnx_port){.name = ipu__or_empty(info->name), .rank = -1};
    for (int i = 0; i < IPU_MAX_RANK; i++) out->symbol[i] = "";
    if (info->type) port_of_type(info->type, out);
}

size_t ipu_onnx_n_inputs(const ipu_onnx *file) { return file->inputs.n; }
size_t ipu_onnx_n_outputs(const ipu_onnx *file) { return file->proto->graph->n_output; }

void ipu_onnx_input_at(const ipu_onnx *file, size_t i, ipu_onnx_port *out)
{
    ipu__onnx_port(file->inputs.at[i], out);
}

void ipu_onnx_output_at(const ipu_onnx *file, size_t i, ipu_onnx_port *out)
{
    ipu__onnx_port(file->proto->graph->output[i], out);
}

/* A file may claim more than can be counted. */
static void add_up(int64_t *sum, int64_t n)
{
    if (__builtin_add_overflow(*sum, n, sum)) *sum = INT64_MAX;
}

void ipu_onnx_get_info(const ipu_onnx *file, ipu_onnx_info *out)
{
    const Ipu__ModelProto *m = file->proto;
    *out                     = (ipu_onnx_info){.ir_version       = m->ir_version,
                                               .opset            = ipu__onnx_opset(file, ""),
                                               .producer         = ipu__or_empty(m->producer_name),
                                               .producer_version = ipu__or_empty(m->producer_version),
                                               .domain           = ipu__or_empty(m->domain),
                                               .graph_name       = ipu__or_empty(m->graph->name),
                                               .doc              = ipu__or_empty(m->doc_string),
                                               .model_version    = m->model_version,
                                               .n_initializers   = m->graph->n_initializer,
                                               .n_metadata       = m->n_metadata_props};
    for (size_t i = 0; i < file->ops.n; i++) out->n_nodes += file->ops.at[i].n;
    for (size_t i = 0; i < m->graph->n_initializer; i++) {
        const Ipu__TensorProto *t = m->graph->initializer[i];
        ipu_shape               shape;
        ipu_type                type = ipu__onnx_type(t->data_type);
        int64_t                 n    = 1;
        if (type == IPU_N_TYPES || ipu__tensor_shape(t, &shape) != IPU_OK) continue;
        for (int d = 0; d < shape.rank; d++) n *= shape.dim[d];
        add_up(&out->n_parameters, n);
        add_up(&out->parameter_bytes, n * (int64_t)ipu_type_size(type));
    }
}

void ipu_onnx_metadata_at(const ipu_onnx *file, size_t i, const char **key, const char **value)
{
    *key   = ipu__or_empty(file->proto->metadata_props[i]->key);
    *value = ipu__or_empty(file->proto->metadata_props[i]->value);
}

bool ipu_onnx_op_count_at(const ipu_onnx *file, size_t i, ipu_onnx_op_count *out)
{
    if (i >= file->ops.n) return false;
    *out = file->ops.at[i];
    return true;
}
