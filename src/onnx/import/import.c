/* The importer: inputs, initializers, nodes in their order, functions inlined, outputs. */
#include "onnx/import/import.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/text.h"
#include "onnx/import/scope.h"
#include "onnx/tensor.h"

enum {
    MOST_DEPTH = 64,     /* graphs within graphs, functions within functions */
    MOST_NODES = 100000, /* emitted beyond those of the file: a small one can ask for very many */
    KEY        = 32,     /* of a tensor, in characters */
    PORTS      = 16,     /* inputs and outputs that count as one node more */
    /* What sparse tensors may take: so much, and a multiple of what the file holds of them. */
    FREE_BYTES  = 64 << 20,
    MOST_GROWTH = 128,
    MADE_BYTES  = 128 << 20 /* of constants that a few numbers ask for */
};

static ipu_status fail(ipu__import *im, ipu_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static ipu_status fail(ipu__import *im, ipu_status status, const char *format, ...)
{
    char    text[700];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (im->status == IPU_OK) {
        im->status  = status;
        im->message = ipu__strdup(text);
    }
    return status;
}

/* ---- names ---- */

static void bind(ipu__import *im, const char *name, ipu__item item)
{
    bool out_of_memory;
    if (!*name || ipu__scope_add(im->scope, name, item, &out_of_memory)) return;
    if (out_of_memory)
        fail(im, IPU_OUT_OF_MEMORY, "out of memory");
    else
        fail(im, IPU_INVALID, "value \"%s\" is defined twice", name);
}

/* A constant, or with a name a parameter in training. */
static ipu_value initial_value(ipu__import *im, const char *name, const ipu_array *a)
{
    static const char nothing[16];
    const void       *data = a->data ? a->data : nothing;
    bool is_parameter      = name && im->options->training && ipu__op_is_floating(a->type) && im->depth == 0;
    return is_parameter ? ipu_model_parameter(im->m, a->type, a->shape, data, name)
                        : ipu_constant_data(im->b, a->type, a->shape, data);
}

ipu_type ipu__float(const ipu__import *im) { return im->options->wide ? IPU_DOUBLE : IPU_FLOAT; }

static ipu_status widen(ipu_array *a)
{
    ipu_array wide;
    IPU_TRY(ipu_array_create(IPU_DOUBLE, a->shape, &wide));
    int64_t n = ipu_array_n_elements(a);
    for (int64_t i = 0; i < n; i++) ((double *)wide.data)[i] = ((const float *)a->data)[i];
    ipu_array_free(a);
    *a = wide;
    return IPU_OK;
}

void ipu__import_tensor(ipu__import *im, const Ipu__TensorProto *t, ipu_array *out)
{
    ipu_status status = ipu__tensor_array(t, im->file->folder, out);
    if (status == IPU_OK && out->type != ipu__float(im) && out->type == IPU_FLOAT) status = widen(out);
    if (status == IPU_OK) return;
    fail(im, status, "%s", ipu_message());
    ipu_array_free(out);
}

/* Constants whose data the model has already. */
static ipu_value made_again(ipu__import *im, const ipu__import_made *made)
{
    return ipu__model_add_value(im->m, made->type, NULL,
                                (ipu__model_value){.kind = IPU__VALUE_CONSTANT, .data = made->data});
}

static ipu_value make_tensor(ipu__import *im, const Ipu__TensorProto *t, const char *name,
                             ipu__import_made *made)
{
    ipu_array a;
    if (made->data) return made_again(im, made);
    bool is_view = ipu__tensor_view(t, &a) && (a.type != IPU_FLOAT || ipu__float(im) == IPU_FLOAT);
    if (!is_view) ipu__import_tensor(im, t, &a);
    ipu_value v = im->status == IPU_OK ? initial_value(im, name, &a) : IPU_NO_VALUE;
    if (!is_view) ipu_array_free(&a);
    if (v.id == 0 || im->m->values.at[v.id].kind != IPU__VALUE_CONSTANT) return v;
    made->type = (ipu__kernel_value){ipu_value_type(v), ipu_value_shape(v)};
    made->data = im->m->values.at[v.id].data;
    return v;
}

static const char *key_of(const Ipu__TensorProto *t, char key[KEY])
{
    snprintf(key, KEY, "%p", (const void *)t);
    return key;
}

/* The tensor's place in `made`; NULL: memory. */
static ipu__import_made *place_of(ipu__import *im, const Ipu__TensorProto *t)
{
    uint32_t at;
    char     key[KEY];
    if (ipu__map_find(&im->tensors, key_of(t, key), &at)) return &im->made.at[at];
    const char *own = ipu__arena_strdup(&im->arena, key);
    if (own && ipu__push(&im->made, (ipu__import_made){0})
        && ipu__map_set(&im->tensors, own, (uint32_t)im->made.n - 1))
        return &im->made.at[im->made.n - 1];
    fail(im, IPU_OUT_OF_MEMORY, "out of memory");
    return NULL;
}

/* A graph may be emitted many times, as the body of a loop that is unrolled is, but its tensors only once. */
ipu_value ipu__import_constant(ipu__import *im, const Ipu__TensorProto *t, const char *name)
{
    ipu__import_made *made = im->status == IPU_OK ? place_of(im, t) : NULL;
    if (!made) return IPU_NO_VALUE;
    if (made->id == 0)
        made->id = make_tensor(im, t, name, made).id;
    else
        im->m->values.at[made->id].block = 0; /* used from everywhere */
    return made->id ? ipu__model_handle(im->m, made->id) : IPU_NO_VALUE;
}

static ipu__item look_up(ipu__import *im, const char *name)
{
    if (!*name) return (ipu__item){0};
    const ipu__item *item = ipu__scope_find(im->scope, name);
    if (!item) {
        fail(im, IPU_INVALID,
             "value \"%s\" is used before any node gives it: nodes must be in an order in which they can run",
             name);
        return (ipu__item){0};
    }
    ipu__item out = *item;
    if (out.pending) out.v = ipu__import_constant(im, out.pending, name);
    out.pending = NULL;
    if (im->whole && out.kind == IPU_ONNX_ARRAY) ipu__import_note_use(im, out.v.id);
    return out;
}

/* ---- initializers ---- */

/* `indices` are places in the flat tensor, or rows of one index for each dimension. */
static ipu_status scatter_sparse(const ipu_array *values, const ipu_array *indices, ipu_array *out)
{
    int64_t n = ipu_array_n_elements(values), all = ipu_array_n_elements(out);
    size_t  bytes   = ipu_type_size(values->type);
    bool    is_rows = indices->shape.rank == 2;
    if (indices->type != IPU_INT64 || ipu_array_n_elements(indices) != n * (is_rows ? out->shape.rank : 1))
        return ipu__fail(IPU_INVALID, "a sparse tensor of %lld values needs as many int64 indices",
                         (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t *index = (const int64_t *)indices->data + (is_rows ? i * out->shape.rank : i);
        int64_t        at    = is_rows ? 0 : index[0];
        for (int d = 0; is_rows && d < out->shape.rank; d++) {
            if (index[d] < 0 || index[d] >= out->shape.dim[d]) at = all;
            at = at >= all ? all : at * out->shape.dim[d] + index[d];
        }
        if (at < 0 || at >= all) return ipu__fail(IPU_INVALID, "an index of a sparse tensor is out of range");
        memcpy((char *)out->data + (size_t)at * bytes, (const char *)values->data + (size_t)i * bytes, bytes);
    }
    return IPU_OK;
}

bool ipu__import_claim(ipu__node *n, double n_elements, ipu_type type)
{
    double most  = n->im->options->most_bytes ? (double)n->im->options->most_bytes : MADE_BYTES;
    double bytes = n_elements > 0 ? n_elements * (double)ipu_type_size(type) : 0;
    n->im->n_made += bytes;
    if (n->im->n_made > most)
        ipu__node_fail(
            n, IPU_INVALID,
            "a constant of %.0f bytes of which the file holds none: with those before it more than "
            "the %.0f that are allowed (ipu_onnx_options.most_bytes, --max-memory)",
            bytes, most);
    return ipu__import_ok(n->im);
}

/* What a dense tensor takes beyond a multiple of what the file holds of it is bounded for all of them together. */
static ipu_status claim(ipu__import *im, const ipu_array *values, const ipu_array *indices,
                        const ipu_shape *shape)
{
    char   text[200];
    double held = (double)ipu_array_bytes(values) + (double)ipu_array_bytes(indices);
    double most = im->options->most_bytes ? (double)im->options->most_bytes : FREE_BYTES;
    double all  = (double)ipu_type_size(values->type);
    for (int d = 0; d < shape->rank; d++) all *= (double)shape->dim[d];
    if (all > MOST_GROWTH * held) im->n_claimed += all - MOST_GROWTH * held;
    if (im->n_claimed <= most) return IPU_OK;
    return ipu__fail(IPU_INVALID,
                     "a sparse tensor of shape %s would take %.0f bytes, of which the file holds %.0f: more "
                     "than the %.0f that are allowed (ipu_onnx_options.most_bytes, --max-memory)",
                     ipu__onnx_shape_text(shape, text, sizeof text), all, held, most);
}

static ipu_status sparse_array(ipu__import *im, const Ipu__SparseTensorProto *t, ipu_array *out)
{
    ipu_array values = {0}, indices = {0};
    ipu_shape shape;
    if (!t->values || !t->indices)
        return ipu__fail(IPU_INVALID, "a sparse tensor lacks its values or indices");
    Ipu__TensorProto dense = *t->values;
    dense.n_dims           = t->n_dims;
    dense.dims             = t->dims;
    ipu_status status      = ipu__tensor_shape(&dense, &shape);
    if (status == IPU_OK) status = ipu__tensor_array(t->values, im->file->folder, &values);
    if (status == IPU_OK) status = ipu__tensor_array(t->indices, im->file->folder, &indices);
    if (status == IPU_OK) status = claim(im, &values, &indices, &shape);
    if (status == IPU_OK) status = ipu_array_create(values.type, shape, out);
    if (status == IPU_OK) status = scatter_sparse(&values, &indices, out);
    ipu_array_free(&values);
    ipu_array_free(&indices);
    return status;
}

ipu_value ipu__import_sparse(ipu__import *im, const Ipu__SparseTensorProto *t, const char *name)
{
    ipu_array a = {0};
    ipu_value v = IPU_NO_VALUE;
    if (sparse_array(im, t, &a) == IPU_OK)
        v = initial_value(im, name, &a);
    else
        fail(im, IPU_INVALID, "%s", ipu_message());
    ipu_array_free(&a);
    return v;
}

static void bind_initializers(ipu__import *im, const Ipu__GraphProto *g)
{
    for (size_t i = 0; i < g->n_initializer && ipu__import_ok(im); i++)
        bind(im, ipu__or_empty(g->initializer[i]->name),
             (ipu__item){.kind = IPU_ONNX_ARRAY, .pending = g->initializer[i]});
    for (size_t i = 0; i < g->n_sparse_initializer && ipu__import_ok(im); i++) {
        const Ipu__SparseTensorProto *t    = g->sparse_initializer[i];
        const char                   *name = t->values ? ipu__or_empty(t->values->name) : "";
        bind(im, name, (ipu__item){.kind = IPU_ONNX_ARRAY, .v = ipu__import_sparse(im, t, name)});
    }
}

/* ---- inputs of the file ---- */

static bool dim_option(ipu__import *im, const char *name, int64_t *out)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < im->options->n_dims; i++) {
        const char *text = im->options->dims[i];
        if (strncmp(text, name, n) != 0 || text[n] != '=') continue;
        char *end;
        *out = strtoll(text + n + 1, &end, 10);
        if (end != text + n + 1 && !*end && *out >= 0) return true;
        fail(im, IPU_INVALID, "dimension \"%s\": expected a number of 0 or more after '='", text);
    }
    return false;
}

static ipu_status shape_of_input(ipu__import *im, const ipu_onnx_port *port, ipu_shape *out)
{
    if (!port->has_type)
        return fail(im, IPU_UNSUPPORTED, "input \"%s\" is of a type that is not supported (strings, maps)",
                    port->name);
    if (port->rank < 0)
        return fail(im, IPU_INVALID, "input \"%s\": the file does not tell its shape; give a value for it",
                    port->name);
    *out = port->shape;
    for (int i = 0; i < port->rank; i++) {
        char place[300];
        snprintf(place, sizeof place, "%.250s.%d", port->name, i);
        if (out->dim[i] >= 0 || dim_option(im, place, &out->dim[i])) continue;
        if (*port->symbol[i] && dim_option(im, port->symbol[i], &out->dim[i])) continue;
        return fail(
            im, IPU_INVALID,
            "input \"%s\": dimension %d%s%s%s is not told by the file; give it (--shape %s=8) or a value",
            port->name, i, *port->symbol[i] ? " (\"" : "", port->symbol[i], *port->symbol[i] ? "\")" : "",
            *port->symbol[i] ? port->symbol[i] : place);
    }
    return IPU_OK;
}

static ipu__item array_input(ipu__import *im, size_t owner, const char *name, const ipu_array *a,
                             bool is_given)
{
    static const char nothing[16];
    bool              is_fixed = im->fixed[owner];
    ipu_value         v = is_fixed ? ipu_constant_data(im->b, a->type, a->shape, a->data ? a->data : nothing)
                                   : ipu_model_input(im->m, a->type, a->shape, name);
    ipu__import_input own       = {.owner = (uint32_t)owner, .id = v.id, .given = is_given ? a : NULL};
    const ipu_onnx_value *whole = is_given && im->whole ? &im->whole[owner]
                                                        : NULL; /* no part of a sequence */
    own.whole                   = whole && whole->kind == IPU_ONNX_ARRAY ? &whole->array : own.given;
    if (!is_fixed && !ipu__push(&im->inputs, own)) fail(im, IPU_OUT_OF_MEMORY, "out of memory");
    return (ipu__item){.kind = IPU_ONNX_ARRAY, .v = v};
}

static ipu__item given_input(ipu__import *im, size_t owner, const char *name, const ipu_onnx_value *value)
{
    if (value->kind == IPU_ONNX_ARRAY) return array_input(im, owner, name, &value->array, true);
    ipu__item out = {.kind = value->kind, .n_items = value->n_items};
    out.items     = ipu__import_alloc(im, value->n_items * sizeof *out.items);
    for (size_t i = 0; out.items && i < value->n_items; i++) {
        ipu__text item = {0};
        ipu__text_add(&item, "%s[%zu]", name, i);
        char *text   = ipu__text_take(&item);
        out.items[i] = text ? given_input(im, owner, text, &value->items[i]) : (ipu__item){0};
        ipu__free(text);
    }
    return out;
}

static void bind_inputs(ipu__import *im)
{
    for (size_t i = 0; i < im->file->inputs.n && ipu__import_ok(im); i++) {
        ipu_onnx_port         port;
        const ipu_onnx_value *given = i < im->options->n_inputs ? &im->options->inputs[i] : NULL;
        ipu__onnx_port(im->file->inputs.at[i], &port);
        if (given && (given->kind != IPU_ONNX_NONE || port.is_optional)) {
            bind(im, port.name, given_input(im, i, port.name, given));
            continue;
        }
        if (port.kind != IPU_ONNX_ARRAY || port.is_optional) {
            fail(im, IPU_INVALID,
                 "input \"%s\" is no tensor: give a value for it, so that its structure is known", port.name);
            return;
        }
        ipu_array a = {.type = port.type == IPU_FLOAT ? ipu__float(im) : port.type};
        if (shape_of_input(im, &port, &a.shape) == IPU_OK)
            bind(im, port.name, array_input(im, i, port.name, &a, false));
    }
}

/* ---- counts: extents that depend on data ---- */

static void pass_count(ipu__node *n)
{
    for (size_t i = 0; i < n->n_in && ipu__import_ok(n->im); i++) {
        const ipu__item *in = &n->in[i];
        if (in->kind != IPU_ONNX_ARRAY || in->count.id == 0 || n->out[0].kind != IPU_ONNX_ARRAY) continue;
        int from_end = ipu_value_rank(in->v) - in->count_dim, dim = ipu_value_rank(n->out[0].v) - from_end;
        if (n->out[0].count.id && n->out[0].count.id != in->count.id) {
            ipu__node_fail(n, IPU_UNSUPPORTED, "two of its inputs have extents that depend on data");
            return;
        }
        n->out[0].count     = in->count;
        n->out[0].count_dim = dim;
    }
}

static void see_to_counts(ipu__node *n, unsigned flags)
{
    if (flags & IPU__ONNX_COUNTS) return;
    if (flags & IPU__ONNX_ELEMENTWISE) {
        pass_count(n);
        return;
    }
    for (size_t i = 0; i < n->n_in; i++)
        if (n->in[i].kind == IPU_ONNX_ARRAY && n->in[i].count.id)
            ipu__node_fail(n, IPU_UNSUPPORTED,
                           "the extent of input \"%s\" depends on data, which this op cannot take",
                           n->proto->input[i]);
}

/* ---- nodes ---- */

static void import_nodes(ipu__import *im, Ipu__NodeProto *const *nodes, size_t n);

static void explain(ipu__import *im, size_t number, const Ipu__NodeProto *proto)
{
    const char *inner  = im->status != IPU_OK ? (im->message ? im->message : "out of memory")
                                              : ipu_builder_message(im->b);
    ipu_status  status = im->status != IPU_OK ? im->status : ipu_builder_status(im->b);
    if (strncmp(inner, "node ", 5) == 0) return; /* of a graph within: says where it is */
    ipu__text text = {0};
    ipu__text_add(&text, "node %zu", number);
    if (proto->name && *proto->name) ipu__text_add(&text, " \"%s\"", proto->name);
    ipu__text_add(&text, " (%s): %s", ipu__or_empty(proto->op_type), inner);
    char *message = ipu__text_take(&text);
    ipu__free(im->message);
    im->message = message;
    im->status  = status;
}

static void bind_outputs(ipu__import *im, const Ipu__NodeProto *proto, ipu__item *out)
{
    for (size_t i = 0; i < proto->n_output && ipu__import_ok(im); i++) {
        if (!*proto->output[i]) continue;
        if (out[i].kind == IPU_ONNX_ARRAY && out[i].v.id && !*ipu_value_name(out[i].v))
            out[i].v = ipu_named(im->b, out[i].v, proto->output[i]);
        bind(im, proto->output[i], out[i]);
    }
}

static void inline_function(ipu__import *im, const ipu__node *node, const Ipu__FunctionProto *f)
{
    ipu__scope       scope = {0}, *outer = im->scope;
    const ipu__call *caller = im->call;
    ipu__call        call   = {node->proto, f, caller};
    im->scope               = &scope;
    im->call                = &call;
    im->depth++;
    for (size_t i = 0; i < f->n_input && ipu__import_ok(im); i++)
        bind(im, f->input[i], i < node->n_in ? node->in[i] : (ipu__item){0});
    if (im->depth > MOST_DEPTH)
        fail(im, IPU_INVALID, "functions call each other without end");
    else
        import_nodes(im, f->node, f->n_node);
    for (size_t i = 0; i < f->n_output && i < node->n_out && ipu__import_ok(im); i++)
        node->out[i] = look_up(im, f->output[i]);
    im->depth--;
    im->scope = outer;
    im->call  = caller;
    ipu__scope_fini(&scope);
}

static int64_t version_of(const ipu__import *im, const char *domain)
{
    const Ipu__FunctionProto *f = im->call ? im->call->function : NULL;
    for (size_t i = 0; f && i < f->n_opset_import; i++)
        if (strcmp(ipu__onnx_domain(f->opset_import[i]->domain), domain) == 0)
            return f->opset_import[i]->version;
    return ipu__onnx_opset(im->file, domain);
}

void ipu__import_charge(ipu__import *im, int64_t n)
{
    im->n_emitted += n;
    if (im->n_emitted > im->most_emitted)
        fail(im, IPU_INVALID, "over %lld nodes once loops and functions are written out",
             (long long)im->most_emitted);
}

static void import_node(ipu__import *im, const Ipu__NodeProto *proto)
{
    const char *domain = ipu__onnx_domain(proto->domain);
    ipu__node   n      = {.im      = im,
                          .b       = im->b,
                          .m       = im->m,
                          .proto   = proto,
                          .version = version_of(im, domain),
                          .n_in    = proto->n_input,
                          .n_out   = proto->n_output};
    n.in               = ipu__import_alloc(im, n.n_in * sizeof *n.in);
    n.out              = ipu__import_alloc(im, n.n_out * sizeof *n.out);
    if (!n.in || !n.out) return;
    memset(n.out, 0, n.n_out * sizeof *n.out);
    for (size_t i = 0; i < n.n_in; i++) n.in[i] = look_up(im, proto->input[i]);
    ipu__import_charge(im, 1 + (int64_t)((n.n_in + n.n_out) / PORTS));
    if (!ipu__import_ok(im)) return;
    const Ipu__FunctionProto *f = ipu__onnx_function(im->file, domain, ipu__or_empty(proto->op_type));
    if (f) {
        inline_function(im, &n, f);
    } else {
        const ipu__onnx_op *op = ipu__onnx_op_find(domain, ipu__or_empty(proto->op_type));
        if (op)
            op->emit(&n);
        else
            fail(im, IPU_UNSUPPORTED, "it cannot be imported");
        if (op) see_to_counts(&n, op->flags);
    }
    if (!ipu__import_ok(im)) return;
    for (size_t i = 0; i < n.n_out; i++)
        if (*proto->output[i] && n.out[i].kind == IPU_ONNX_ARRAY && n.out[i].v.id == 0)
            fail(im, IPU_UNSUPPORTED, "output %zu, \"%s\", is not supported", i, proto->output[i]);
    bind_outputs(im, proto, n.out);
}

/* ---- going back (known.c) ---- */

/* What the import was before it came to a node of a list. */
typedef struct place {
    size_t          node;
    int64_t         tick, n_emitted;
    ipu__model_mark model;
    size_t          n_items, n_loops, n_guesses;
    double          n_claimed, n_made;
} place;
typedef IPU__ARRAY(place) place_list;

static place here(const ipu__import *im, size_t node)
{
    return (place){.node      = node,
                   .tick      = im->tick,
                   .n_emitted = im->n_emitted,
                   .model     = ipu__model_take_mark(im->m),
                   .n_items   = im->scope->items.n,
                   .n_loops   = im->loops.n,
                   .n_guesses = im->guesses.n,
                   .n_claimed = im->n_claimed,
                   .n_made    = im->n_made};
}

static bool has_decided(const ipu__import *im, const place *p)
{
    return im->loops.n > p->n_loops || im->guesses.n > p->n_guesses;
}

static void restore(ipu__import *im, const place *p)
{
    ipu__evaluation_rewind(&im->evaluation, p->model.n_values);
    ipu__model_rewind(im->m, &p->model);
    ipu__scope_cut(im->scope, p->n_items);
    for (size_t i = 0; i < im->made.n; i++)
        if (im->made.at[i].id >= p->model.n_values) im->made.at[i].id = 0;
    if (im->is_free) im->n_emitted = p->n_emitted;
    im->loops.n   = p->n_loops;
    im->guesses.n = p->n_guesses;
    im->n_claimed = p->n_claimed;
    im->n_made    = p->n_made;
    im->status    = IPU_OK;
    im->goes_back = im->is_free = false;
    ipu__free(im->message);
    im->message = NULL;
}

/* To the node of this list that the import goes back to, whose number is returned; `places` has those that decided
 * something, `last` the one that failed. False: it is in a graph around, or the import does not go back. */
static bool find_back(ipu__import *im, place_list *places, const place *last, size_t *node)
{
    if (!im->goes_back) return false;
    const place *p = im->back_to >= last->tick ? last : NULL;
    while (!p && places->n > 0) {
        const place *earlier = &places->at[--places->n];
        if (earlier->tick <= im->back_to) p = earlier;
    }
    if (!p) return false;
    *node = p->node;
    restore(im, p);
    return true;
}

static void import_nodes(ipu__import *im, Ipu__NodeProto *const *nodes, size_t n)
{
    place_list places = {0};
    for (size_t i = 0; i < n && ipu__import_ok(im);) {
        if (im->depth == 0) ipu_here(im->file->name, (int)i + 1);
        im->tick++;
        place at = here(im, i);
        import_node(im, nodes[i]);
        if (find_back(im, &places, &at, &i)) continue;
        if (has_decided(im, &at) && !ipu__push(&places, at)) fail(im, IPU_OUT_OF_MEMORY, "out of memory");
        if (!ipu__import_ok(im) && !im->goes_back) explain(im, i + 1, nodes[i]);
        i++;
    }
    ipu__array_fini(&places);
}

void ipu__import_graph(ipu__import *im, const Ipu__GraphProto *g, const ipu__item *in, size_t n_in,
                       ipu__item *out, size_t n_out)
{
    ipu__scope scope = {.parent = im->scope};
    im->scope        = &scope;
    im->depth++;
    memset(out, 0, n_out * sizeof *out);
    if (im->depth > MOST_DEPTH) fail(im, IPU_INVALID, "graphs are nested more than %d deep", MOST_DEPTH);
    if (g->n_input != n_in || g->n_output != n_out)
        fail(im, IPU_INVALID, "graph \"%s\" has %zu inputs and %zu outputs; expected %zu and %zu",
             ipu__or_empty(g->name), g->n_input, g->n_output, n_in, n_out);
    if (ipu__import_ok(im)) bind_initializers(im, g);
    for (size_t i = 0; i < n_in && ipu__import_ok(im); i++) bind(im, ipu__or_empty(g->input[i]->name), in[i]);
    import_nodes(im, g->node, g->n_node);
    for (size_t i = 0; i < n_out && ipu__import_ok(im); i++)
        out[i] = look_up(im, ipu__or_empty(g->output[i]->name));
    im->depth--;
    im->scope = scope.parent;
    ipu__scope_fini(&scope);
}

/* ---- branches and loops ---- */

static void load_captured(ipu__import *im, const Ipu__GraphProto *g)
{
    for (size_t i = 0; i < g->n_node; i++) {
        const Ipu__NodeProto *node = g->node[i];
        for (size_t k = 0; k < node->n_input && ipu__import_ok(im); k++) {
            const ipu__item *item = ipu__scope_find(im->scope, node->input[k]);
            if (item && item->pending) ipu__import_constant(im, item->pending, node->input[k]);
        }
        for (size_t k = 0; k < node->n_attribute; k++)
            if (node->attribute[k]->g) load_captured(im, node->attribute[k]->g);
    }
}

void ipu__import_captured(ipu__import *im, const Ipu__GraphProto *g)
{
    if (im->options->training && im->depth == 0) load_captured(im, g);
}

/* ---- everything that is not known, at once ---- */

static ipu_status refuse_unknown(const ipu_onnx *file)
{
    ipu__text text = {0};
    size_t    n    = 0;
    for (size_t i = 0; i < file->ops.n; i++) {
        const ipu_onnx_op_count *op = &file->ops.at[i];
        if (op->is_known) continue;
        if (n++ < 40)
            ipu__text_add(&text, "%s%s%s%s (%zu)", n > 1 ? ", " : "", op->domain, *op->domain ? "." : "",
                          op->name, op->n);
    }
    ipu_status status = IPU_OK;
    if (n > 0)
        status = ipu__fail(IPU_UNSUPPORTED, "%s: %zu of its ops cannot be imported (number of nodes): %s",
                           file->name, n, text.at ? text.at : "");
    ipu__text_fini(&text);
    return status;
}

/* ---- outputs of the file ---- */

static ipu__output output_of(ipu__import *im, ipu__imported *result, const char *name, const ipu__item *item)
{
    ipu__output out = {.kind = item->kind, .count_dim = item->count_dim, .has_count = item->count.id != 0};
    uint32_t    taken;
    ipu__text   text = {0};
    ipu__text_add(&text, "%s", name);
    if (text.at && ipu__map_find(&im->m->names, text.at, &taken)) ipu__text_add(&text, " (output)");
    size_t plain = text.n;
    while (text.at && ipu__map_find(&im->m->names, text.at, &taken)) { /* a number that no other one got */
        text.n = plain;
        ipu__text_add(&text, " %lld", (long long)++im->n_renamed);
    }
    if (item->kind == IPU_ONNX_ARRAY && text.at) ipu_model_output(im->m, item->v, text.at);
    if (out.has_count) {
        ipu__text_add(&text, " (count)");
        if (text.at) ipu_model_output(im->m, item->count, text.at);
    }
    if (text.failed) im->status = IPU_OUT_OF_MEMORY;
    ipu__text_fini(&text);
    if (item->kind != IPU_ONNX_SEQUENCE) return out;
    out.n_items = item->n_items;
    out.items   = ipu__arena_alloc(&result->arena, (item->n_items + 1) * sizeof *out.items);
    if (!out.items) im->status = IPU_OUT_OF_MEMORY;
    for (size_t i = 0; out.items && i < item->n_items; i++) {
        char inner[300];
        snprintf(inner, sizeof inner, "%.250s[%zu]", name, i);
        out.items[i] = output_of(im, result, inner, &item->items[i]);
    }
    return out;
}

static void fail_unknown_output(ipu__import *im, const char *name)
{
    ipu__nearest nearest = ipu__nearest_to(name);
    for (size_t i = 0; i < im->scope->names.n; i++) ipu__nearest_try(&nearest, im->scope->names.at[i]);
    fail(im, IPU_NOT_FOUND, "its main graph has no tensor \"%s\"%s", name, ipu__nearest_hint(&nearest));
}

/* Those of the file, then those of the options. */
static void import_outputs(ipu__import *im, ipu__imported *result)
{
    const Ipu__GraphProto  *g = im->file->proto->graph;
    const ipu_onnx_options *o = im->options;
    size_t                  n = g->n_output + o->n_outputs;
    result->outputs           = ipu__arena_alloc(&result->arena, (n + 1) * sizeof *result->outputs);
    if (!result->outputs) im->status = IPU_OUT_OF_MEMORY;
    for (size_t i = 0; i < n && ipu__import_ok(im); i++) {
        bool        is_own = i < g->n_output;
        const char *name   = ipu__or_empty(is_own ? g->output[i]->name : o->outputs[i - g->n_output]);
        if (!is_own && !ipu__scope_find(im->scope, name)) {
            fail_unknown_output(im, name);
            return;
        }
        ipu__item item = look_up(im, name);
        if (ipu__import_ok(im)) result->outputs[i] = output_of(im, result, name, &item);
    }
}

/* Names of the main graph; the model outlives the file. */
static void add_aliases(ipu__import *im)
{
    for (size_t i = 0; i < im->scope->items.n && ipu__import_ok(im); i++) {
        const ipu__item *item = &im->scope->items.at[i];
        const char      *name = im->scope->names.at[i];
        uint32_t         id   = item->v.id, at;
        char             key[KEY];
        if (item->pending && ipu__map_find(&im->tensors, key_of(item->pending, key), &at))
            id = im->made.at[at].id;
        if (item->kind != IPU_ONNX_ARRAY || id == 0
            || strcmp(ipu_value_name(ipu__model_handle(im->m, id)), name) == 0)
            continue;
        const char *own = ipu__arena_strdup(&im->m->base.arena, name);
        if (!own || !ipu__model_add_alias(im->m, id, own)) fail(im, IPU_OUT_OF_MEMORY, "out of memory");
    }
}

/* ---- the whole ---- */

static void import_file(ipu__import *im, ipu__imported *result)
{
    const Ipu__GraphProto *g = im->file->proto->graph;
    bind_inputs(im);
    if (ipu__import_ok(im)) bind_initializers(im, g);
    import_nodes(im, g->node, g->n_node);
    if (ipu__import_ok(im)) import_outputs(im, result);
    if (ipu__import_ok(im)) add_aliases(im);
}

/* Which inputs are fixed from the first: those that are given, of `fixed` or else of the options. */
static ipu_status begin(ipu__import *im, const bool *fixed)
{
    const ipu_onnx_options *o = im->options;
    IPU_TRY(ipu_model_create(&im->m));
    im->b               = ipu_model_builder(im->m);
    im->evaluation.m    = im->m;
    im->m->is_inference = !o->training;
    im->may_fix         = fixed != NULL;
    if (!fixed) fixed = o->fixed;
    im->fixed = ipu__alloc_zeroed(im->file->inputs.n + 1);
    if (!im->fixed) return ipu__fail_memory();
    for (size_t i = 0; fixed && i < im->file->inputs.n && i < o->n_inputs; i++) im->fixed[i] = fixed[i];
    im->turns        = 1;
    im->most_emitted = MOST_NODES + (int64_t)(im->file->n_ports / PORTS);
    for (size_t i = 0; i < im->file->ops.n; i++) im->most_emitted += (int64_t)im->file->ops.at[i].n;
    return IPU_OK;
}

static void end(ipu__import *im)
{
    ipu__evaluation_fini(&im->evaluation);
    ipu__scope_fini(im->scope);
    ipu__arena_fini(&im->arena);
    ipu__map_fini(&im->tensors);
    ipu__array_fini(&im->made);
    ipu__array_fini(&im->inputs);
    ipu__array_fini(&im->loops);
    ipu__array_fini(&im->guesses);
    ipu__array_fini(&im->unrolled);
    ipu__array_fini(&im->seen);
    ipu__free(im->fixed);
    ipu__free(im->message);
}

ipu_status ipu__onnx_import(ipu_onnx *file, const ipu_onnx_options *options, const ipu_onnx_value *whole,
                            bool *fixed, ipu__imported *out)
{
    ipu__scope  scope = {0};
    ipu__import im    = {.file = file, .options = options, .whole = whole, .scope = &scope};
    *out              = (ipu__imported){0};
    IPU_TRY(refuse_unknown(file));
    ipu_status status = begin(&im, fixed);
    if (status == IPU_OK) {
        ipu_enter(file->name, 0);
        import_file(&im, out);
        ipu_leave();
        status              = im.status != IPU_OK ? im.status : ipu_builder_status(im.b);
        const char *message = im.message ? im.message : ipu_builder_message(im.b);
        if (status != IPU_OK)
            ipu__fail(status, "%s: %s", file->name, *message ? message : ipu_status_text(status));
        ipu__model_drop_fixed_inputs(im.m);
        for (size_t i = 0; fixed && i < file->inputs.n; i++) fixed[i] |= im.fixed[i];
    }
    end(&im);
    out->m       = im.m;
    out->n_begun = im.tick;
    if (status != IPU_OK) ipu__imported_fini(out);
    return status;
}

void ipu__imported_fini(ipu__imported *i)
{
    ipu_model_destroy(i->m);
    ipu__arena_fini(&i->arena);
    *i = (ipu__imported){0};
}

ipu_status ipu_onnx_import(ipu_onnx *file, const ipu_onnx_options *options, ipu_model **out)
{
    static const ipu_onnx_options defaults;
    ipu__imported                 imported;
    *out              = NULL;
    ipu_status status = ipu__onnx_import(file, options ? options : &defaults, NULL, NULL, &imported);
    if (status == IPU_OK) {
        *out       = imported.m;
        imported.m = NULL;
    }
    ipu__imported_fini(&imported);
    return status;
}
