/* Builders: the table of values, names, the first error, and emitting by name. */
#include "op/builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "graph/graph.h"

/* ---- making and ending ---- */

ipu_status ipu__builder_init(ipu_builder *b, const ipu__builder_class *class)
{
    b->class = class;
    if (ipu__push(&b->values, (ipu__builder_value){.type = IPU_FLOAT, .name = ""})) return IPU_OK;
    return ipu__fail_memory();
}

void ipu__builder_fini(ipu_builder *b)
{
    ipu__free(b->message);
    ipu__text_fini(&b->scope);
    ipu__array_fini(&b->values);
    ipu__arena_fini(&b->arena);
}

/* ---- the first error ---- */

ipu_status ipu_builder_status(const ipu_builder *b) { return b->status; }

const char *ipu_builder_message(const ipu_builder *b)
{
    if (b->status == IPU_OK) return "";
    return b->message ? b->message : ipu_status_text(b->status);
}

void ipu__builder_fail(ipu_builder *b, ipu_status status, const char *format, ...)
{
    if (b->status != IPU_OK) return;
    ipu__text     text = {0};
    ipu__location here = ipu__here();
    va_list       args;
    va_start(args, format);
    ipu__vfail(status, format, args);
    va_end(args);
    if (here.file) ipu__text_add(&text, "%s:%d: ", here.file, here.line);
    ipu__text_add(&text, "%s", ipu_message());
    b->status  = status;
    b->message = ipu__text_take(&text);
    ipu__fail(status, "%s", ipu_builder_message(b));
}

static void fail_memory(ipu_builder *b)
{
    if (b->status == IPU_OK) b->status = IPU_OUT_OF_MEMORY;
    ipu__fail_memory();
}

bool ipu__builder_has(ipu_builder *b, const char *caller, ipu_value v)
{
    if (b->status != IPU_OK) return false;
    if (v.id == 0)
        ipu__builder_fail(b, IPU_INVALID, "%s: the value is null", caller);
    else if (v.builder != b)
        ipu__builder_fail(b, IPU_INVALID, "%s: the value belongs to another builder", caller);
    else if (v.id >= b->values.n)
        ipu__builder_fail(b, IPU_INVALID, "%s: there is no value %u", caller, v.id);
    return b->status == IPU_OK;
}

/* ---- values ---- */

static const char *scoped(ipu_builder *b, const char *name)
{
    if (!name || !*name) return "";
    if (!b->scope.n) return ipu__arena_strdup(&b->arena, name);
    size_t n    = strlen(name);
    char  *full = ipu__arena_alloc(&b->arena, b->scope.n + n + 1);
    if (!full) return NULL;
    memcpy(full, b->scope.at, b->scope.n);
    memcpy(full + b->scope.n, name, n + 1);
    return full;
}

ipu_value ipu__builder_add(ipu_builder *b, ipu_type type, const ipu_shape *shape, const char *name)
{
    const char *own = scoped(b, name);
    if (own && ipu__push(&b->values, (ipu__builder_value){type, *shape, own}))
        return (ipu_value){b, (uint32_t)b->values.n - 1};
    fail_memory(b);
    return (ipu_value){b, 0};
}

static const ipu__builder_value *get(ipu_value v)
{
    static const ipu__builder_value null = {.type = IPU_FLOAT, .name = ""};
    return v.builder && v.id < v.builder->values.n ? &v.builder->values.at[v.id] : &null;
}

ipu_type    ipu_value_type(ipu_value v) { return get(v)->type; }
ipu_shape   ipu_value_shape(ipu_value v) { return get(v)->shape; }
int         ipu_value_rank(ipu_value v) { return get(v)->shape.rank; }
int64_t     ipu_value_n_elements(ipu_value v) { return ipu__op_n_elements(&get(v)->shape); }
const char *ipu_value_name(ipu_value v) { return get(v)->name; }

int64_t ipu_value_dim(ipu_value v, int dim)
{
    const ipu_shape *shape = &get(v)->shape;
    if (dim < 0) dim += shape->rank;
    return dim >= 0 && dim < shape->rank ? shape->dim[dim] : 1;
}

const char *ipu__value_str(ipu_value v)
{
    static _Thread_local char     buffers[4][256];
    static _Thread_local unsigned next;
    char                         *buffer = buffers[next++ % 4];
    const ipu__builder_value     *value  = get(v);
    if (*value->name)
        snprintf(buffer, sizeof *buffers, "\"%s\" %s%s", value->name, ipu_type_name(value->type),
                 ipu__shape_str(&value->shape));
    else
        snprintf(buffer, sizeof *buffers, "value %u %s%s", v.id, ipu_type_name(value->type),
                 ipu__shape_str(&value->shape));
    return buffer;
}

/* ---- names ---- */

void ipu_builder_push_scope(ipu_builder *b, const char *name)
{
    if (b->status != IPU_OK) return;
    ipu__text_add(&b->scope, "%s/", name ? name : "");
    if (b->scope.failed) fail_memory(b);
}

void ipu_builder_pop_scope(ipu_builder *b)
{
    if (b->status != IPU_OK) return;
    if (b->scope.n == 0) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_builder_pop_scope: there is no scope to leave");
        return;
    }
    size_t n = b->scope.n - 1;
    while (n > 0 && b->scope.at[n - 1] != '/') n--;
    b->scope.n     = n;
    b->scope.at[n] = 0;
}

ipu_value ipu_named(ipu_builder *b, ipu_value v, const char *name)
{
    if (!ipu__builder_has(b, __func__, v)) return (ipu_value){b, 0};
    const char *own = scoped(b, name);
    if (!own) {
        fail_memory(b);
        return (ipu_value){b, 0};
    }
    b->values.at[v.id].name = own;
    if (b->class->named) b->class->named(b, v, own);
    return v;
}

/* ---- constants ---- */

/* The graph's own rule, so that whatever is built can be lowered: a dimension of 0 does not make up for the others. */
ipu_status ipu__builder_check_extent(const char *what, const ipu__kernel_value *v)
{
    int64_t n;
    if (v->shape.rank < 0 || v->shape.rank > IPU_MAX_RANK)
        return ipu__fail(IPU_INVALID, "%s: rank %d: expected 0 to %d", what, v->shape.rank, IPU_MAX_RANK);
    for (int d = 0; d < v->shape.rank; d++)
        if (v->shape.dim[d] < 0)
            return ipu__fail(IPU_INVALID, "%s: dimension %d of %s is negative", what, d,
                             ipu__shape_str(&v->shape));
    if (ipu__shape_count(&v->shape, &n)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: %s%s has more than 2^47 elements", what, ipu_type_name(v->type),
                     ipu__shape_str(&v->shape));
}

static ipu_value constant(ipu_builder *b, ipu__kernel_value value, const void *data)
{
    ipu_value  out    = {b, 0};
    ipu_status status = b->class->constant(b, value, data, &out);
    if (status != IPU_OK) ipu__builder_fail(b, status, "%s", ipu_message());
    return out;
}

static bool check_constant(ipu_builder *b, const char *caller, const ipu__kernel_value *value)
{
    if (b->status != IPU_OK) return false;
    if ((unsigned)value->type >= IPU_N_TYPES)
        ipu__builder_fail(b, IPU_INVALID, "%s: there is no type %d", caller, (int)value->type);
    else if (ipu__builder_check_extent(caller, value) != IPU_OK)
        ipu__builder_fail(b, IPU_INVALID, "%s", ipu_message());
    return b->status == IPU_OK;
}

ipu_value ipu_constant_data(ipu_builder *b, ipu_type type, ipu_shape shape, const void *data)
{
    ipu__kernel_value value = {type, shape};
    if (!check_constant(b, __func__, &value)) return (ipu_value){b, 0};
    if (!data && ipu__op_n_elements(&shape) > 0) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_constant_data: no data for %s%s", ipu_type_name(type),
                          ipu__shape_str(&shape));
        return (ipu_value){b, 0};
    }
    return constant(b, value, data);
}

ipu_value ipu_constant_value(ipu_builder *b, ipu_type type, ipu_shape shape, double number)
{
    ipu__kernel_value value = {type, shape};
    uint64_t          bits  = 0;
    if (!check_constant(b, __func__, &value)) return (ipu_value){b, 0};
    if (!ipu__value_from_double(type, number, &bits)) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_constant_value: %s cannot hold the value %.17g",
                          ipu_type_name(type), number);
        return (ipu_value){b, 0};
    }
    size_t n = (size_t)ipu__op_n_elements(&shape), bytes = ipu_type_size(type);
    if (n == 1) return constant(b, value, &bits);
    char *data = ipu__alloc(n * bytes + 1);
    if (!data) {
        fail_memory(b);
        return (ipu_value){b, 0};
    }
    for (size_t i = 0; i < n; i++) memcpy(data + i * bytes, &bits, bytes);
    ipu_value out = constant(b, value, data);
    ipu__free(data);
    return out;
}

ipu_value ipu_scalar_like(ipu_builder *b, ipu_value like, double value)
{
    if (!ipu__builder_has(b, __func__, like)) return (ipu_value){b, 0};
    return ipu_constant_value(b, ipu_value_type(like), IPU_SCALAR, value);
}

/* ---- emitting ---- */

ipu_status ipu__builder_keep_attributes(ipu_builder *b, ipu__kernel_call *call)
{
    if (call->n_attributes == 0) {
        call->attributes = NULL;
        return IPU_OK;
    }
    ipu_attribute *own = ipu__arena_copy(&b->arena, call->attributes, call->n_attributes * sizeof *own);
    for (size_t i = 0; own && i < call->n_attributes; i++) {
        ipu_attribute *a  = &own[i];
        bool           ok = (a->name = ipu__arena_strdup(&b->arena, a->name)) != NULL;
        if (a->kind == IPU_ATTRIBUTE_TEXT) ok = ok && (a->text = ipu__arena_strdup(&b->arena, a->text));
        if (a->kind == IPU_ATTRIBUTE_INTS)
            ok = ok && (a->ints = ipu__arena_copy(&b->arena, a->ints, a->n_ints * sizeof *a->ints));
        if (!ok) own = NULL;
    }
    if (!own) return ipu__fail_memory();
    call->attributes = own;
    return IPU_OK;
}

/* The sentence of `infer`, with the values that were given. */
static void fail_emit(ipu_builder *b, const ipu__op_def *op, const ipu_value *in, ipu_status status)
{
    ipu__text text = {0};
    ipu__text_add(&text, "%s", ipu_message());
    for (int i = 0; i < op->n_in; i++)
        if (in[i].id != 0)
            ipu__text_add(&text, "%s%s = %s", i ? ", " : " (given: ", op->kernel.operands[i].name,
                          ipu__value_str(in[i]));
    if (op->n_in > 0) ipu__text_add(&text, ")");
    ipu__builder_fail(b, status, "%s", text.at && !text.failed ? text.at : "out of memory");
    ipu__text_fini(&text);
}

static bool take_inputs(ipu_builder *b, const ipu__op_def *op, const ipu_value *in, size_t n_in,
                        ipu_value *all, ipu__kernel_call *call)
{
    if (n_in > (size_t)op->n_in) {
        ipu__builder_fail(b, IPU_INVALID, "%s: %zu inputs: expected at most %d", op->kernel.name, n_in,
                          op->n_in);
        return false;
    }
    for (int i = 0; i < op->n_in; i++) {
        const ipu__kernel_operand *operand = &op->kernel.operands[i];
        all[i]                             = (size_t)i < n_in ? in[i] : IPU_NO_VALUE;
        if (all[i].id == 0 && operand->optional) {
            call->operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
            continue;
        }
        if (all[i].id == 0) {
            ipu__builder_fail(b, IPU_INVALID, "%s: input \"%s\" is missing", op->kernel.name, operand->name);
            return false;
        }
        if (!ipu__builder_has(b, op->kernel.name, all[i])) return false;
        const ipu__builder_value *value = &b->values.at[all[i].id];
        call->operand[i]                = (ipu__kernel_value){value->type, value->shape};
    }
    return true;
}

static ipu_status infer(const ipu__op_def *op, ipu__kernel_call *call)
{
    IPU_TRY(ipu__op_check_attributes(call));
    ipu__kernel_value *out = call->operand + op->n_in;
    for (int i = 0; i < ipu__op_n_out(op); i++) out[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    IPU_TRY(op->infer(call, out));
    for (int i = 0; i < ipu__op_n_out(op); i++) IPU_TRY(ipu__builder_check_extent(op->kernel.name, &out[i]));
    call->n_operands = op->kernel.n_operands;
    return IPU_OK;
}

static bool takes_key(const ipu__op_def *op)
{
    for (size_t i = 0; i < op->n_attributes; i++)
        if (strcmp(op->attributes[i].name, "key") == 0) return true;
    return false;
}

/* Gives a random op a key if the call has none. A key that is given is not given again: an op that is emitted once more, as
 * gradients and parsers do, draws what it drew. False if memory ran out. */
static bool settle_key(ipu_builder *b, const ipu__op_def *op, ipu__kernel_call *call)
{
    if (!takes_key(op)) return true;
    for (size_t i = 0; i < call->n_attributes; i++) {
        const ipu_attribute *a = &call->attributes[i];
        if (strcmp(a->name, "key") != 0) continue;
        if (a->kind == IPU_ATTRIBUTE_INT && a->i >= b->next_key && a->i < IPU__FIRST_INITIAL_KEY)
            b->next_key = (uint32_t)a->i + 1;
        return true;
    }
    ipu_attribute *with = ipu__arena_alloc(&b->arena, (call->n_attributes + 1) * sizeof *with);
    if (!with) {
        fail_memory(b);
        return false;
    }
    if (call->n_attributes > 0) memcpy(with, call->attributes, call->n_attributes * sizeof *with);
    with[call->n_attributes++] = IPU_INT_ATTRIBUTE("key", (int64_t)b->next_key++);
    call->attributes           = with;
    return true;
}

static const ipu__op_def *find(ipu_builder *b, const char *name)
{
    const ipu__op_def *op = ipu__op_find(name);
    if (op) return op;
    ipu__nearest nearest = ipu__nearest_to(name ? name : "");
    for (size_t i = 0; ipu__ops[i]; i++) ipu__nearest_try(&nearest, ipu__ops[i]->kernel.name);
    ipu__builder_fail(b, IPU_NOT_FOUND, "ipu_emit: there is no op \"%s\"%s", name ? name : "",
                      ipu__nearest_hint(&nearest));
    return NULL;
}

static void emit(ipu_builder *b, const ipu__op_def *op, ipu__kernel_call *call, const ipu_value *in,
                 ipu_value *out)
{
    if (!op->kernel.ref && !op->view) {
        op->compose(b, call, in, out);
        return;
    }
    ipu_status status = b->class->emit(b, op, call, in, out);
    if (status != IPU_OK) ipu__builder_fail(b, status, "%s", ipu_message());
}

void ipu_emit(ipu_builder *b, const char *name, const ipu_attribute *attributes, size_t n_attributes,
              const ipu_value *in, size_t n_in, ipu_value *out, size_t n_out)
{
    ipu_value all_in[IPU__MAX_OPERANDS] = {{NULL, 0}}, all_out[IPU__MAX_OPERANDS];
    for (size_t i = 0; i < n_out; i++) out[i] = (ipu_value){b, 0};
    if (b->status != IPU_OK) return;
    const ipu__op_def *op = find(b, name);
    if (!op) return;
    if (n_out > (size_t)ipu__op_n_out(op)) {
        ipu__builder_fail(b, IPU_INVALID, "%s: it has %d outputs, %zu were asked for", op->kernel.name,
                          ipu__op_n_out(op), n_out);
        return;
    }
    if (n_in > (size_t)op->n_in && op->join && n_out == 1) {
        out[0] = op->join(b, attributes, n_attributes, in, n_in);
        return;
    }
    ipu__kernel_call call = {
        .def = &op->kernel, .attributes = attributes, .n_attributes = n_attributes, .n_operands = op->n_in};
    if (!take_inputs(b, op, in, n_in, all_in, &call) || !settle_key(b, op, &call)) return;
    ipu_status status = infer(op, &call);
    if (status != IPU_OK) {
        fail_emit(b, op, all_in, status);
        return;
    }
    for (int i = 0; i < ipu__op_n_out(op); i++) all_out[i] = (ipu_value){b, 0};
    emit(b, op, &call, all_in, all_out);
    for (size_t i = 0; i < n_out && b->status == IPU_OK; i++) out[i] = all_out[i];
}

ipu_value ipu__emit1(ipu_builder *b, const char *op, const ipu_attribute *attributes, size_t n_attributes,
                     const ipu_value *in, size_t n_in)
{
    ipu_value out;
    ipu_emit(b, op, attributes, n_attributes, in, n_in, &out, 1);
    return out;
}
