/* Nodes, attributes, tensors and names of a file that is being written; what ONNX ops take. */
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "onnx/export/export.h"
#include "onnx/tensor.h"

bool ipu__writer_ok(const ipu__writer *w) { return w->status == IPU_OK; }

void ipu__writer_fail_memory(ipu__writer *w)
{
    if (w->status == IPU_OK) w->status = ipu__fail_memory();
}

void *ipu__writer_alloc(ipu__writer *w, size_t bytes)
{
    if (!ipu__writer_ok(w)) return NULL;
    void *data = ipu__arena_alloc(&w->arena, bytes ? bytes : 1);
    if (data)
        memset(data, 0, bytes);
    else
        ipu__writer_fail_memory(w);
    return data;
}

/* protobuf-c's strings are not const; nothing of the writer's is freed or changed through them. */
static char *keep(ipu__writer *w, const char *text)
{
    char *copy = ipu__writer_ok(w) ? ipu__arena_strdup(&w->arena, text) : NULL;
    if (!copy) ipu__writer_fail_memory(w);
    return copy;
}

/* The map keeps how far each name has been counted. */
const char *ipu__fresh(ipu__writer *w, const char *hint)
{
    uint32_t  n    = 0, other;
    ipu__text name = {0};
    if (!ipu__writer_ok(w)) return "";
    if (!*hint) hint = "value";
    bool is_taken = ipu__map_find(&w->names, hint, &n);
    ipu__text_add(&name, "%s", hint);
    while (is_taken && !name.failed) {
        name.n = 0;
        ipu__text_add(&name, "%s_%u", hint, ++n);
        is_taken = !name.failed && ipu__map_find(&w->names, name.at, &other);
    }
    char *own = name.failed ? NULL : keep(w, name.at), *counted = n > 0 ? keep(w, hint) : own;
    bool  ok = own && counted && ipu__map_set(&w->names, own, 0) && ipu__map_set(&w->names, counted, n);
    ipu__text_fini(&name);
    if (!ok) ipu__writer_fail_memory(w);
    return ok ? own : "";
}

/* ---- nodes ---- */

static void add_name(ipu__writer *w, char ***list, size_t *n, const char *name)
{
    char **longer = ipu__writer_alloc(w, (*n + 1) * sizeof *longer), *own = keep(w, name);
    if (!longer || !own) return;
    if (*n) memcpy(longer, *list, *n * sizeof *longer);
    longer[(*n)++] = own;
    *list          = longer;
}

static Ipu__NodeProto *spare_of(ipu__writer *w)
{
    static char  none[1];
    static char *outputs[] = {none};
    ipu__node_proto__init(&w->spare);
    w->spare.n_output = 1;
    w->spare.output   = outputs;
    return &w->spare;
}

Ipu__NodeProto *ipu__put(ipu__writer *w, const char *type, const char *const *in, size_t n_in,
                         const char *out)
{
    Ipu__NodeProto *node = ipu__writer_alloc(w, sizeof *node);
    if (!node) return spare_of(w);
    ipu__node_proto__init(node);
    while (n_in > 0 && !*in[n_in - 1]) n_in--;
    char hint[40];
    snprintf(hint, sizeof hint, "%s_out", type);
    node->input   = ipu__writer_alloc(w, n_in * sizeof *node->input);
    node->op_type = keep(w, type);
    for (size_t i = 0; i < n_in && node->input; i++) {
        node->input[i] = keep(w, in[i]);
        if (node->input[i] && !ipu__map_set(&w->used, node->input[i], 0)) ipu__writer_fail_memory(w);
    }
    node->n_input = n_in;
    add_name(w, &node->output, &node->n_output, out ? out : ipu__fresh(w, hint));
    node->name = keep(w, node->n_output ? node->output[0] : "");
    if (ipu__writer_ok(w) && !ipu__push(&w->sheet->nodes, node)) ipu__writer_fail_memory(w);
    return ipu__writer_ok(w) ? node : spare_of(w);
}

void ipu__put_output(ipu__writer *w, Ipu__NodeProto *node, const char *out)
{
    if (ipu__writer_ok(w)) add_name(w, &node->output, &node->n_output, out ? out : "");
}

/* ---- attributes ---- */

static Ipu__AttributeProto *add_attribute(ipu__writer *w, Ipu__NodeProto *node, const char *name,
                                          Ipu__AttributeProto__AttributeType type)
{
    Ipu__AttributeProto  *a      = ipu__writer_alloc(w, sizeof *a);
    Ipu__AttributeProto **longer = ipu__writer_alloc(w, (node->n_attribute + 1) * sizeof *longer);
    if (!a || !longer) return NULL;
    ipu__attribute_proto__init(a);
    a->name     = keep(w, name);
    a->has_type = true;
    a->type     = type;
    if (!a->name) return NULL;
    if (node->n_attribute) memcpy(longer, node->attribute, node->n_attribute * sizeof *longer);
    longer[node->n_attribute++] = a;
    node->attribute             = longer;
    return a;
}

#define ADD(kind)                                                                                        \
    Ipu__AttributeProto *a = add_attribute(w, node, name, IPU__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##kind); \
    if (!a) return

void ipu__put_int(ipu__writer *w, Ipu__NodeProto *node, const char *name, int64_t value)
{
    ADD(INT);
    a->has_i = true;
    a->i     = value;
}

void ipu__put_float(ipu__writer *w, Ipu__NodeProto *node, const char *name, double value)
{
    ADD(FLOAT);
    a->has_f = true;
    a->f     = (float)value;
}

void ipu__put_text(ipu__writer *w, Ipu__NodeProto *node, const char *name, const char *value)
{
    ADD(STRING);
    a->has_s  = true;
    a->s.data = (uint8_t *)keep(w, value);
    a->s.len  = a->s.data ? strlen(value) : 0;
}

void ipu__put_texts(ipu__writer *w, Ipu__NodeProto *node, const char *name, const char *value)
{
    ADD(STRINGS);
    a->strings = ipu__writer_alloc(w, sizeof *a->strings);
    if (!a->strings) return;
    a->strings[0] = (ProtobufCBinaryData){strlen(value), (uint8_t *)keep(w, value)};
    a->n_strings  = 1;
}

void ipu__put_floats(ipu__writer *w, Ipu__NodeProto *node, const char *name, const float *values, size_t n)
{
    ADD(FLOATS);
    a->floats = ipu__writer_alloc(w, n * sizeof *values);
    if (!a->floats) return;
    for (size_t i = 0; i < n; i++) a->floats[i] = values[i];
    a->n_floats = n;
}

void ipu__put_ints(ipu__writer *w, Ipu__NodeProto *node, const char *name, const int64_t *values, size_t n)
{
    ADD(INTS);
    a->ints = ipu__writer_alloc(w, n * sizeof *values);
    if (!a->ints) return;
    for (size_t i = 0; i < n; i++) a->ints[i] = values[i];
    a->n_ints = n;
}

void ipu__put_graph(ipu__writer *w, Ipu__NodeProto *node, const char *name, Ipu__GraphProto *graph)
{
    ADD(GRAPH);
    a->g = graph;
}

void ipu__put_tensor(ipu__writer *w, Ipu__NodeProto *node, const char *name, Ipu__TensorProto *tensor)
{
    ADD(TENSOR);
    a->t = tensor;
}

/* ---- tensors ---- */

Ipu__TensorProto *ipu__writer_tensor(ipu__writer *w, ipu_type type, const ipu_shape *shape, const void *data)
{
    Ipu__TensorProto *t = ipu__writer_alloc(w, sizeof *t);
    if (!t) return NULL;
    ipu__tensor_proto__init(t);
    t->dims = ipu__writer_alloc(w, (size_t)shape->rank * sizeof *t->dims);
    if (!t->dims) return NULL;
    for (int d = 0; d < shape->rank; d++) t->dims[t->n_dims++] = shape->dim[d];
    t->has_data_type = t->has_raw_data = true;
    t->data_type                       = ipu__onnx_type_number(type);
    t->raw_data.len                    = (size_t)ipu__op_n_elements(shape) * ipu_type_size(type);
    t->raw_data.data                   = (uint8_t *)data;
    return t;
}

static const char *put_initializer(ipu__writer *w, const char *hint, ipu_type type, const ipu_shape *shape,
                                   const void *data, size_t bytes)
{
    const char       *name = ipu__fresh(w, hint);
    void             *own  = ipu__writer_alloc(w, bytes);
    Ipu__TensorProto *t    = ipu__writer_tensor(w, type, shape, own);
    if (!t || !own) return "";
    if (bytes) memcpy(own, data, bytes);
    t->name = keep(w, name);
    if (!ipu__push(&w->constants, t)) ipu__writer_fail_memory(w);
    return name;
}

const char *ipu__put_list(ipu__writer *w, const int64_t *values, size_t n)
{
    return put_initializer(w, "ints", IPU_INT64, &IPU_SHAPE((int64_t)n), values, n * sizeof *values);
}

/* In the type's own format; an error if it cannot hold one of them. */
static const char *put_values(ipu__writer *w, const char *hint, ipu_type type, const ipu_shape *shape,
                              const double *values, size_t n)
{
    size_t unit = ipu_type_size(type);
    char  *data = ipu__writer_alloc(w, n * unit);
    for (size_t i = 0; data && i < n; i++) {
        uint64_t bits = 0;
        if (!ipu__value_from_double(type, values[i], &bits) && ipu__writer_ok(w))
            w->status = ipu__fail(IPU_INVALID, "the type %s cannot hold the value %.17g", ipu_type_name(type),
                                  values[i]);
        memcpy(data + i * unit, &bits, unit);
    }
    return data ? put_initializer(w, hint, type, shape, data, n * unit) : "";
}

const char *ipu__put_numbers(ipu__writer *w, ipu_type type, const double *values, size_t n)
{
    return put_values(w, "numbers", type, &IPU_SHAPE((int64_t)n), values, n);
}

const char *ipu__put_scalar(ipu__writer *w, ipu_type type, double value)
{
    return put_values(w, "scalar", type, &(ipu_shape){0}, &value, 1);
}

const char *ipu__put_cast(ipu__writer *w, const char *name, ipu_type to, const char *out)
{
    Ipu__NodeProto *node = ipu__put(w, "Cast", IPU__NAMES(name), out);
    ipu__put_int(w, node, "to", ipu__onnx_type_number(to));
    return node->output[0];
}

static Ipu__TensorShapeProto *shape_proto(ipu__writer *w, const ipu_shape *shape)
{
    Ipu__TensorShapeProto *s = ipu__writer_alloc(w, sizeof *s);
    if (!s) return NULL;
    ipu__tensor_shape_proto__init(s);
    s->dim = ipu__writer_alloc(w, (size_t)shape->rank * sizeof *s->dim);
    for (int d = 0; s->dim && d < shape->rank; d++) {
        Ipu__TensorShapeProto__Dimension *dim = ipu__writer_alloc(w, sizeof *dim);
        if (!dim) return NULL;
        ipu__tensor_shape_proto__dimension__init(dim);
        dim->value_case    = IPU__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        dim->dim_value     = shape->dim[d];
        s->dim[s->n_dim++] = dim;
    }
    return s;
}

Ipu__ValueInfoProto *ipu__writer_info(ipu__writer *w, const char *name, ipu_type type, const ipu_shape *shape)
{
    Ipu__ValueInfoProto    *info   = ipu__writer_alloc(w, sizeof *info);
    Ipu__TypeProto         *proto  = ipu__writer_alloc(w, sizeof *proto);
    Ipu__TypeProto__Tensor *tensor = ipu__writer_alloc(w, sizeof *tensor);
    if (!info || !proto || !tensor) return NULL;
    ipu__value_info_proto__init(info);
    ipu__type_proto__init(proto);
    ipu__type_proto__tensor__init(tensor);
    tensor->has_elem_type = true;
    tensor->elem_type     = ipu__onnx_type_number(type);
    tensor->shape         = shape_proto(w, shape);
    proto->value_case     = IPU__TYPE_PROTO__VALUE_TENSOR_TYPE;
    proto->tensor_type    = tensor;
    info->name            = keep(w, name);
    info->type            = proto;
    return info;
}

/* ---- types ---- */

static const struct takes {
    const char *op, *types;
    int64_t     later;
    const char *later_types;
} takes[] = {
#define TAKES(op, types, later, later_types) {#op, types, later, later_types},
#include "onnx/export/types.inc"
#undef TAKES
};

static bool takes_type(const ipu__writer *w, const char *onnx_op, ipu_type type)
{
    static const char letters[IPU_N_TYPES] = {
        [IPU_FLOAT] = 'f',  [IPU_DOUBLE] = 'd', [IPU_HALF] = 'h',  [IPU_BFLOAT16] = 'b', [IPU_INT8] = '1',
        [IPU_INT16] = '2',  [IPU_INT32] = '4',  [IPU_INT64] = '8', [IPU_UINT8] = 'A',    [IPU_UINT16] = 'B',
        [IPU_UINT32] = 'C', [IPU_UINT64] = 'D', [IPU_BOOL] = 'L'};
    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++) {
        const struct takes *t = &takes[i];
        if (strcmp(t->op, onnx_op) != 0) continue;
        return letters[type]
            && strchr(t->later && w->opset >= t->later ? t->later_types : t->types, letters[type]);
    }
    return true;
}

/* Types that hold all values of another, nearest first. */
static const ipu_type holders[IPU_N_TYPES][3] = {
    [IPU_HALF]     = {IPU_FLOAT, IPU_DOUBLE, IPU_N_TYPES},
    [IPU_BFLOAT16] = {IPU_FLOAT, IPU_DOUBLE, IPU_N_TYPES},
    [IPU_FLOAT]    = {IPU_DOUBLE, IPU_N_TYPES},
    [IPU_DOUBLE]   = {IPU_N_TYPES},
    [IPU_INT8]     = {IPU_INT32, IPU_INT64, IPU_N_TYPES},
    [IPU_INT16]    = {IPU_INT32, IPU_INT64, IPU_N_TYPES},
    [IPU_INT32]    = {IPU_INT64, IPU_N_TYPES},
    [IPU_INT64]    = {IPU_N_TYPES},
    [IPU_UINT8]    = {IPU_INT32, IPU_INT64, IPU_N_TYPES},
    [IPU_UINT16]   = {IPU_INT32, IPU_INT64, IPU_N_TYPES},
    [IPU_UINT32]   = {IPU_INT64, IPU_UINT64, IPU_N_TYPES},
    [IPU_UINT64]   = {IPU_N_TYPES},
    [IPU_BOOL]     = {IPU_INT32, IPU_INT64, IPU_N_TYPES},
};

ipu_type ipu__carrier(const ipu__writer *w, const char *onnx_op, ipu_type type)
{
    if (takes_type(w, onnx_op, type)) return type;
    for (const ipu_type *t = holders[type]; *t != IPU_N_TYPES; t++)
        if (takes_type(w, onnx_op, *t)) return *t;
    return IPU_N_TYPES;
}

/* ---- what an op takes and gives ---- */

const char *ipu__take_as(ipu__wop *o, int i, ipu_type type)
{
    const char *name = ipu__take(o, i);
    return *name && o->call.operand[i].type != type ? ipu__put_cast(o->w, name, type, NULL) : name;
}

bool ipu__gives(const ipu__wop *o, int i) { return *o->out[i]; }

const char *ipu__give_as(ipu__wop *o, int i, ipu_type type)
{
    if (!ipu__gives(o, i) || o->call.operand[o->op->n_in + (uint32_t)i].type == type) return o->out[i];
    o->cast[i]      = ipu__fresh(o->w, o->out[i]);
    o->cast_type[i] = type;
    return o->cast[i];
}

Ipu__NodeProto *ipu__put_same(ipu__wop *o, const char *onnx_op, int n_in, int n_out)
{
    ipu_type    own = o->call.operand[0].type, type = ipu__carrier(o->w, onnx_op, own);
    const char *in[IPU__MAX_OPERANDS];
    if (type == IPU_N_TYPES) return NULL;
    for (int i = 0; i < n_in; i++)
        in[i] = o->call.operand[i].type == own ? ipu__take_as(o, i, type) : ipu__take(o, i);
    const char *out[IPU__MAX_OPERANDS] = {""};
    for (int i = 0; i < n_out; i++) {
        ipu_type given = o->call.operand[o->op->n_in + (uint32_t)i].type;
        out[i]         = ipu__give_as(o, i, given == own ? type : given);
    }
    Ipu__NodeProto *node = ipu__put(o->w, onnx_op, in, (size_t)n_in, out[0]);
    for (int i = 1; i < n_out; i++)
        if (*out[i]) ipu__put_output(o->w, node, out[i]);
    return node;
}
