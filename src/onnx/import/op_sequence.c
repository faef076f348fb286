/* Sequences and optionals of ONNX: lists of items, and items that may be missing. Both exist only while a
 * file is imported. */
#include <string.h>

#include "ipu/op.h"
#include "onnx/import/import.h"

static ipu__item sequence_of(ipu__item *items, size_t count)
{
    return (ipu__item){.kind = IPU_ONNX_SEQUENCE, .items = items, .n_items = count};
}

/* The position at input `i` among `count`, made positive; `otherwise` if it is not given. -1 after an
 * error. */
static int64_t position_at(ipu__node *n, size_t i, int64_t count, int64_t otherwise)
{
    int64_t at = ipu__in_int(n, i, otherwise), positive = at < 0 ? at + count : at;
    if (!ipu__import_ok(n->im)) return -1;
    if (positive >= 0 && positive < count) return positive;
    ipu__node_fail(n, IPU_INVALID, "position %lld is none of a sequence of %lld", (long long)at,
                   (long long)count);
    return -1;
}

/* ---- optionals: an item, or one of kind NONE ---- */

void ipu__onnx_Optional(ipu__node *n) { ipu__give_item(n, 0, n->n_in > 0 ? n->in[0] : (ipu__item){0}); }

void ipu__onnx_OptionalHasElement(ipu__node *n)
{
    bool has = ipu__has_in(n, 0);
    ipu__give(n, 0, ipu_constant_data(n->b, IPU_BOOL, IPU_SCALAR, &has));
}

void ipu__onnx_OptionalGetElement(ipu__node *n)
{
    if (ipu__has_in(n, 0))
        ipu__give_item(n, 0, n->in[0]);
    else
        ipu__node_fail(n, IPU_INVALID, "its optional is empty: there is no element to get");
}

/* ---- making sequences ---- */

void ipu__onnx_SequenceEmpty(ipu__node *n) { ipu__give_item(n, 0, sequence_of(NULL, 0)); }

void ipu__onnx_SequenceConstruct(ipu__node *n)
{
    for (size_t i = 0; i < n->n_in; i++) ipu__in_needed(n, i);
    ipu__give_item(n, 0, sequence_of(n->in, n->n_in));
}

void ipu__onnx_SequenceInsert(ipu__node *n)
{
    const ipu__item *s     = ipu__in_sequence(n, 0);
    size_t           count = s->n_items;
    ipu__in_needed(n, 1);
    int64_t    at  = ipu__in_int(n, 2, (int64_t)count);
    ipu__item *all = ipu__import_alloc(n->im, (count + 1) * sizeof *all);
    if (!all || !ipu__import_ok(n->im)) return;
    if (at < -(int64_t)count || at > (int64_t)count) {
        ipu__node_fail(n, IPU_INVALID, "position %lld is none of a sequence of %zu", (long long)at, count);
        return;
    }
    size_t before = (size_t)(at < 0 ? at + (int64_t)count : at);
    if (before > 0) memcpy(all, s->items, before * sizeof *all);
    all[before] = n->in[1];
    if (count > before) memcpy(all + before + 1, s->items + before, (count - before) * sizeof *all);
    ipu__give_item(n, 0, sequence_of(all, count + 1));
}

void ipu__onnx_SequenceErase(ipu__node *n)
{
    const ipu__item *s  = ipu__in_sequence(n, 0);
    int64_t          at = position_at(n, 1, (int64_t)s->n_items, -1);
    if (at < 0) return;
    ipu__item *all = ipu__import_alloc(n->im, s->n_items * sizeof *all);
    if (!all) return;
    memcpy(all, s->items, (size_t)at * sizeof *all);
    memcpy(all + at, s->items + at + 1, (s->n_items - (size_t)at - 1) * sizeof *all);
    ipu__give_item(n, 0, sequence_of(all, s->n_items - 1));
}

/* ---- asking ---- */

void ipu__onnx_SequenceAt(ipu__node *n)
{
    const ipu__item *s = ipu__in_sequence(n, 0);
    if (!ipu__has_in(n, 1)) ipu__node_fail(n, IPU_INVALID, "input 1, the position, is missing");
    int64_t at = position_at(n, 1, (int64_t)s->n_items, 0);
    if (at >= 0) ipu__give_item(n, 0, s->items[at]);
}

void ipu__onnx_SequenceLength(ipu__node *n)
{
    int64_t count = (int64_t)ipu__in_sequence(n, 0)->n_items;
    ipu__give(n, 0, ipu_constant_data(n->b, IPU_INT64, IPU_SCALAR, &count));
}

/* ---- cutting and joining ---- */

/* The sizes of the parts: one for all, the last smaller, or each its own. NULL after an error. */
static const int64_t *part_sizes(ipu__node *n, int64_t dim, bool is_given, size_t *parts)
{
    const int64_t *given = (const int64_t[]){1};
    size_t         count = 1;
    if (is_given && !ipu__in_ints(n, 1, &given, &count)) return NULL;
    if (is_given && ipu_value_rank(ipu__in(n, 1)) > 0) {
        *parts = count;
        return given;
    }
    int64_t each = given[0];
    if (each < 1) {
        ipu__node_fail(n, IPU_INVALID, "parts of %lld; expected 1 or more", (long long)each);
        return NULL;
    }
    *parts = (size_t)(dim / each + (dim % each != 0));
    ipu__import_charge(n->im, (int64_t)*parts);
    if (!ipu__import_ok(n->im)) return NULL;
    int64_t *own = ipu__import_alloc(n->im, *parts * sizeof *own);
    for (size_t i = 0; own && i < *parts; i++)
        own[i] = i + 1 < *parts ? each : dim - each * (int64_t)(*parts - 1);
    return own;
}

/* keepdims counts only without `split`: then all parts are of one. */
void ipu__onnx_SplitToSequence(ipu__node *n)
{
    ipu_value x        = ipu__in_needed(n, 0);
    int       axis     = ipu__axis(n, "axis", 0, ipu_value_rank(x));
    bool      is_given = ipu__has_in(n, 1), keep = is_given || ipu__attr_int(n, "keepdims", 1) != 0;
    size_t    parts = 0;
    if (ipu__import_ok(n->im) && ipu_value_rank(x) == 0)
        ipu__node_fail(n, IPU_INVALID, "a scalar cannot be split");
    const int64_t *sizes = ipu__import_ok(n->im) ? part_sizes(n, ipu_value_dim(x, axis), is_given, &parts)
                                                 : NULL;
    if (!sizes) return;
    ipu_value *out   = ipu__import_alloc(n->im, parts * sizeof *out);
    ipu__item *items = ipu__import_alloc(n->im, parts * sizeof *items);
    if (!out || !items) return;
    if (parts > 0) ipu_split(n->b, x, sizes, parts, axis, out);
    for (size_t i = 0; i < parts && ipu__import_ok(n->im); i++)
        items[i] = (ipu__item){.kind = IPU_ONNX_ARRAY, .v = keep ? out[i] : ipu_squeeze(n->b, out[i], axis)};
    ipu__give_item(n, 0, sequence_of(items, parts));
}

void ipu__onnx_ConcatFromSequence(ipu__node *n)
{
    const ipu__item *s      = ipu__in_sequence(n, 0);
    bool             is_new = ipu__attr_int(n, "new_axis", 0) != 0;
    ipu_value       *values = ipu__import_alloc(n->im, s->n_items * sizeof *values);
    if (s->n_items == 0)
        ipu__node_fail(n, IPU_INVALID, "its sequence is empty: the result would have no shape");
    for (size_t i = 0; values && i < s->n_items; i++) {
        if (s->items[i].kind != IPU_ONNX_ARRAY || s->items[i].count.id)
            ipu__node_fail(n, IPU_UNSUPPORTED,
                           "item %zu of its sequence is no tensor, or its extent depends on data", i);
        values[i] = s->items[i].v;
    }
    if (!values || !ipu__import_ok(n->im)) return;
    int axis = ipu__axis(n, "axis", 0, ipu_value_rank(values[0]) + is_new);
    ipu__give(n, 0,
              is_new ? ipu_stack(n->b, values, s->n_items, axis)
                     : ipu_concat(n->b, values, s->n_items, axis));
}

/* ---- mapping ---- */

/* The graph on the i-th item of each sequence, and on tensors as they are. */
static bool map_item(ipu__node *n, const Ipu__GraphProto *body, size_t i, ipu__item *in, ipu__item *out)
{
    for (size_t k = 0; k < n->n_in; k++) {
        bool is_sequence = n->in[k].kind == IPU_ONNX_SEQUENCE;
        if (is_sequence && i >= n->in[k].n_items)
            ipu__node_fail(n, IPU_INVALID, "input %zu is a sequence of %zu; the first has %zu", k,
                           n->in[k].n_items, n->in[0].n_items);
        if (!ipu__import_ok(n->im)) return false;
        in[k] = is_sequence ? n->in[k].items[i] : n->in[k];
    }
    ipu__import_charge(n->im, 1);
    ipu__import_graph(n->im, body, in, n->n_in, out, body->n_output);
    for (size_t k = 0; k < body->n_output; k++)
        if (ipu__import_ok(n->im) && out[k].kind != IPU_ONNX_ARRAY)
            ipu__node_fail(n, IPU_INVALID, "output %zu of its body must be a tensor", k);
    return ipu__import_ok(n->im);
}

void ipu__onnx_SequenceMap(ipu__node *n)
{
    const Ipu__GraphProto *body = ipu__attr_graph(n, "body");
    const ipu__item       *s    = ipu__in_sequence(n, 0);
    if (!body || !ipu__import_ok(n->im)) return;
    size_t      n_out = body->n_output, count = s->n_items;
    ipu__item  *in  = ipu__import_alloc(n->im, n->n_in * sizeof *in);
    ipu__item  *out = ipu__import_alloc(n->im, n_out * sizeof *out);
    ipu__item **all = ipu__import_alloc(n->im, n_out * sizeof *all);
    if (!in || !out || !all) return;
    for (size_t k = 0; k < n_out; k++)
        if (!(all[k] = ipu__import_alloc(n->im, count * sizeof **all))) return;
    for (size_t i = 0; i < count && map_item(n, body, i, in, out); i++)
        for (size_t k = 0; k < n_out; k++) all[k][i] = out[k];
    for (size_t k = 0; k < n_out; k++) ipu__give_item(n, k, sequence_of(all[k], count));
}
