/* What the functions of ops read and give: inputs, attributes, outputs. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "onnx/import/import.h"
#include "onnx/tensor.h"

/* Of lists while importing: a small file can ask for very long sequences. */
#define MOST_BYTES ((size_t)1 << 28)

/* ---- errors ---- */

bool ipu__import_ok(ipu__import *im) { return im->status == IPU_OK && ipu_builder_status(im->b) == IPU_OK; }

void ipu__node_fail(ipu__node *n, ipu_status status, const char *format, ...)
{
    ipu__import *im = n->im;
    if (!ipu__import_ok(im)) return;
    char    text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    im->status  = status;
    im->message = ipu__strdup(text);
}

void *ipu__import_alloc(ipu__import *im, size_t bytes)
{
    bool is_too_much = bytes > MOST_BYTES || im->n_bytes + bytes > MOST_BYTES;
    im->n_bytes += is_too_much ? 0 : bytes;
    void *data = is_too_much ? NULL : ipu__arena_alloc(&im->arena, bytes ? bytes : 1);
    if (data || im->status != IPU_OK) return data;
    im->status = is_too_much ? IPU_INVALID : IPU_OUT_OF_MEMORY;
    if (is_too_much)
        im->message = ipu__strdup("sequences and lists of over 256 MiB: the file is not a real model");
    return NULL;
}

/* ---- inputs ---- */

bool ipu__has_in(const ipu__node *n, size_t i) { return i < n->n_in && n->in[i].kind != IPU_ONNX_NONE; }

ipu_value ipu__in(ipu__node *n, size_t i)
{
    if (!ipu__has_in(n, i) || !ipu__import_ok(n->im)) return IPU_NO_VALUE;
    if (n->in[i].kind != IPU_ONNX_ARRAY) {
        ipu__node_fail(n, IPU_INVALID, "input %zu, \"%s\", must be a tensor; it is a sequence", i,
                       n->proto->input[i]);
        return IPU_NO_VALUE;
    }
    return n->in[i].v;
}

ipu_value ipu__in_needed(ipu__node *n, size_t i)
{
    if (!ipu__has_in(n, i)) ipu__node_fail(n, IPU_INVALID, "input %zu is missing", i);
    return ipu__in(n, i);
}

const ipu__item *ipu__in_sequence(ipu__node *n, size_t i)
{
    static const ipu__item empty = {.kind = IPU_ONNX_SEQUENCE};
    if (i < n->n_in && n->in[i].kind == IPU_ONNX_SEQUENCE) return &n->in[i];
    ipu__node_fail(n, IPU_INVALID, "input %zu must be a sequence", i);
    return &empty;
}

/* ---- attributes ---- */

static const Ipu__AttributeProto *find(Ipu__AttributeProto *const *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(ipu__or_empty(list[i]->name), name) == 0) return list[i];
    return NULL;
}

const Ipu__AttributeProto *ipu__attr(ipu__node *n, const char *name)
{
    const Ipu__AttributeProto *a    = find(n->proto->attribute, n->proto->n_attribute, name);
    const ipu__call           *call = n->im->call;
    while (a && a->ref_attr_name && *a->ref_attr_name) {
        if (!call) {
            ipu__node_fail(n, IPU_INVALID, "attribute \"%s\" refers to one of a function, but it is in none",
                           name);
            return NULL;
        }
        const Ipu__AttributeProto *given = find(call->node->attribute, call->node->n_attribute,
                                                a->ref_attr_name);
        if (!given) return ipu__onnx_default(n->im->file, call->function, a->ref_attr_name);
        a    = given;
        call = call->parent;
    }
    return a;
}

/* Files of old producers leave the type out. */
static const Ipu__AttributeProto *attr_of(ipu__node *n, const char *name,
                                          Ipu__AttributeProto__AttributeType type, const char *expected)
{
    const Ipu__AttributeProto *a = ipu__attr(n, name);
    if (!a || a->type == type || a->type == IPU__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED) return a;
    ipu__node_fail(n, IPU_INVALID, "attribute \"%s\" must be %s", name, expected);
    return NULL;
}
#define ATTR(kind, expected) attr_of(n, name, IPU__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##kind, expected)

int64_t ipu__attr_int(ipu__node *n, const char *name, int64_t otherwise)
{
    const Ipu__AttributeProto *a = ATTR(INT, "an integer");
    return a ? a->i : otherwise;
}

double ipu__attr_float(ipu__node *n, const char *name, double otherwise)
{
    const Ipu__AttributeProto *a = ATTR(FLOAT, "a float");
    return a ? (double)a->f : otherwise;
}

static const char *text_of(ipu__node *n, const ProtobufCBinaryData *data)
{
    char *text = ipu__import_alloc(n->im, data->len + 1);
    if (!text) return "";
    if (data->len) memcpy(text, data->data, data->len);
    text[data->len] = 0;
    return text;
}

const char *ipu__attr_text(ipu__node *n, const char *name, const char *otherwise)
{
    const Ipu__AttributeProto *a = ATTR(STRING, "a string");
    return a ? text_of(n, &a->s) : otherwise;
}

const char *ipu__attr_texts(ipu__node *n, const char *name, size_t *count, size_t i)
{
    const Ipu__AttributeProto *a = ATTR(STRINGS, "a list of strings");
    *count                       = a ? a->n_strings : 0;
    return a && i < a->n_strings ? text_of(n, &a->strings[i]) : "";
}

const int64_t *ipu__attr_ints(ipu__node *n, const char *name, size_t *count)
{
    const Ipu__AttributeProto *a = ATTR(INTS, "a list of integers");
    *count                       = a ? a->n_ints : 0;
    return a ? a->ints : NULL;
}

const float *ipu__attr_floats(ipu__node *n, const char *name, size_t *count)
{
    const Ipu__AttributeProto *a = ATTR(FLOATS, "a list of floats");
    *count                       = a ? a->n_floats : 0;
    return a ? a->floats : NULL;
}

const Ipu__GraphProto *ipu__attr_graph(ipu__node *n, const char *name)
{
    const Ipu__AttributeProto *a = ATTR(GRAPH, "a graph");
    if (a && a->g) return a->g;
    ipu__node_fail(n, IPU_INVALID, "attribute \"%s\", a graph, is missing", name);
    return NULL;
}

ipu_type ipu__attr_type(ipu__node *n, const char *name, ipu_type otherwise)
{
    if (!ipu__attr(n, name)) return otherwise;
    int64_t  number = ipu__attr_int(n, name, 0);
    ipu_type type   = number > 0 && number < 100 ? ipu__onnx_type((int32_t)number) : IPU_N_TYPES;
    if (type == IPU_FLOAT) return ipu__float(n->im);
    if (type != IPU_N_TYPES) return type;
    ipu__node_fail(n, IPU_UNSUPPORTED, "type %s (%lld) is not supported",
                   number >= 0 && number < 100 ? ipu__onnx_type_name((int32_t)number) : "?",
                   (long long)number);
    return otherwise;
}

/* ---- axes ---- */

static int positive_axis(ipu__node *n, int64_t axis, int rank)
{
    int64_t positive = axis < 0 ? axis + rank : axis;
    if (positive >= 0 && (positive < rank || (rank == 0 && positive == 0))) return (int)positive;
    ipu__node_fail(n, IPU_INVALID, "axis %lld is none of a tensor of %d dimensions", (long long)axis, rank);
    return 0;
}

bool ipu__axes(ipu__node *n, const char *name, size_t i, int rank, const int **axes, int *n_axes)
{
    size_t         count;
    const int64_t *values = ipu__attr_ints(n, name, &count);
    *axes                 = NULL;
    *n_axes               = 0;
    if (!values && !ipu__in_ints(n, i, &values, &count)) return false;
    if (count > IPU_MAX_RANK) {
        ipu__node_fail(n, IPU_INVALID, "%zu axes for a tensor of %d dimensions", count, rank);
        return false;
    }
    int *out = ipu__import_alloc(n->im, IPU_MAX_RANK * sizeof *out);
    if (!out) return false;
    for (size_t k = 0; k < count; k++) {
        out[k] = positive_axis(n, values[k], rank);
        for (size_t j = 0; j < k; j++)
            if (out[j] == out[k]) ipu__node_fail(n, IPU_INVALID, "axis %d is given twice", out[k]);
    }
    *axes   = out;
    *n_axes = (int)count;
    return ipu__import_ok(n->im);
}

int ipu__axis(ipu__node *n, const char *name, int64_t otherwise, int rank)
{
    return positive_axis(n, ipu__attr_int(n, name, otherwise), rank);
}

/* ---- outputs ---- */

bool ipu__wants(const ipu__node *n, size_t i) { return i < n->n_out && *n->proto->output[i]; }

void ipu__give_item(ipu__node *n, size_t i, ipu__item item)
{
    if (i < n->n_out && ipu__import_ok(n->im)) n->out[i] = item;
}

void ipu__give(ipu__node *n, size_t i, ipu_value v)
{
    ipu__give_item(n, i, (ipu__item){.kind = IPU_ONNX_ARRAY, .v = v});
}

void ipu__give_counted(ipu__node *n, size_t i, ipu_value v, ipu_value count, int dim)
{
    const int64_t *known = ipu__known(n, count);
    if (known)
        ipu__give(n, i, ipu_slice(n->b, v, 0, *known, dim));
    else
        ipu__give_item(n, i, (ipu__item){.kind = IPU_ONNX_ARRAY, .v = v, .count = count, .count_dim = dim});
}
