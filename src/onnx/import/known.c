/* Values that must be known while the model is made.
 *
 * A value is computed when something asks for its elements, from constants (model/evaluate.h, which remembers what it
 * computed). Where it depends on inputs of the file whose values are given, these become constants, in place: what was
 * emitted from them stays as it is. Where it depends on a loop of the model, the loop should have been unrolled. Where
 * something did without a value that is known by now, it might have done better. And where an input was given as a part,
 * of one batch, it is of another shape when it is known. In these three cases the import goes back to the node where that
 * was decided, or that has the input first, and does it and what follows again.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "onnx/import/import.h"

enum {
    MOST_UNROLLED = 256,    /* loops, each found out on its own */
    MOST_FREED    = 64,     /* times that what was done without a value is done again */
    MOST_TRIED    = 1 << 24 /* such values looked at again */
};

static const void *evaluate(ipu__node *n, ipu_value v)
{
    const void *data = NULL;
    if (!ipu__import_ok(n->im) || v.id == 0) return NULL;
    ipu_status status = ipu__evaluate(&n->im->evaluation, v.id, &data);
    if (status != IPU_OK) ipu__node_fail(n, status, "%s", ipu_message());
    return data;
}

const void *ipu__known(ipu__node *n, ipu_value v)
{
    ipu__import *im   = n->im;
    const void  *data = evaluate(n, v);
    if (data || v.id == 0 || !ipu__import_ok(im) || !im->may_fix) return data;
    if (!ipu__push(&im->guesses, ((ipu__import_guess){.id = v.id, .tick = im->tick})))
        ipu__node_fail(n, IPU_OUT_OF_MEMORY, "out of memory");
    return NULL;
}

/* ---- what a value depends on ---- */

typedef struct search {
    ipu__import *im;
    IPU__ARRAY(uint32_t) open;
    IPU__ARRAY(uint32_t) inputs, loops; /* found: indices in those of `im` */
    bool is_hopeless;                   /* something else was found */
    bool failed;                        /* memory */
} search;

static void look_at(search *s, uint32_t id)
{
    ipu__import *im = s->im;
    if (id == 0 || im->seen.at[id] == im->n_searches) return;
    im->seen.at[id] = im->n_searches;
    if (!ipu__push(&s->open, id)) s->failed = true;
}

/* Where input `id` is in the list, if it is one: ids of inputs grow, as they are made one after another. */
static size_t place_of_input(const ipu__import *im, uint32_t id)
{
    size_t low = 0, high = im->inputs.n;
    while (high - low > 1) {
        size_t middle                                    = low + (high - low) / 2;
        *(im->inputs.at[middle].id <= id ? &low : &high) = middle;
    }
    return low;
}

static void found_input(search *s, uint32_t id)
{
    if (!ipu__push(&s->inputs, (uint32_t)place_of_input(s->im, id))) s->failed = true;
}

/* Ids of their blocks grow, too. */
static void found_loop(search *s, uint32_t block)
{
    const ipu__import_loop *loops = s->im->loops.at;
    size_t                  low = 0, high = s->im->loops.n;
    while (high - low > 1) {
        size_t middle                                  = low + (high - low) / 2;
        *(loops[middle].block <= block ? &low : &high) = middle;
    }
    bool is_it = low < high && loops[low].block == block;
    if (!is_it) s->is_hopeless = true; /* one that an op of ours is made of */
    if (is_it && !ipu__push(&s->loops, (uint32_t)low)) s->failed = true;
}

static void look_at_yields(search *s, uint32_t block)
{
    const ipu__block *b = &s->im->m->blocks.at[block];
    for (size_t i = 0; i < b->yields.n; i++) look_at(s, b->yields.at[i]);
}

static void look_at_op(search *s, const ipu__model_op *op)
{
    if (op->kind == IPU__MODEL_LOOP) { /* what it depends on shows when it is unrolled */
        found_loop(s, op->body);
        return;
    }
    for (uint32_t i = 0; i < op->n_in; i++) look_at(s, op->in[i]);
    if (op->kind == IPU__MODEL_OP) {
        if (op->def->flags & IPU__OP_IMPURE) s->is_hopeless = true;
        return;
    }
    look_at_yields(s, op->body);
    look_at_yields(s, op->otherwise);
}

static void look_at_value(search *s, uint32_t id)
{
    const ipu__model_value *v = &s->im->m->values.at[id];
    switch (v->kind) {
    case IPU__VALUE_CONSTANT: break;
    case IPU__VALUE_INPUT: found_input(s, id); break;
    case IPU__VALUE_OP: look_at_op(s, &s->im->m->ops.at[v->of]); break;
    case IPU__VALUE_CARRIED:
    case IPU__VALUE_INDEX: found_loop(s, v->of); break;
    default: s->is_hopeless = true;
    }
}

/* Why value `id` is not known. */
static void find_needs(search *s, uint32_t id)
{
    ipu__import *im = s->im;
    while (im->seen.n < im->m->values.n && !s->failed)
        if (!ipu__push(&im->seen, 0)) s->failed = true;
    im->n_searches++;
    if (!s->failed) look_at(s, id);
    while (s->open.n > 0) {
        uint32_t next = s->open.at[--s->open.n];
        if (!ipu__evaluation_has(&im->evaluation, next)) look_at_value(s, next);
    }
}

static void search_fini(search *s)
{
    ipu__array_fini(&s->open);
    ipu__array_fini(&s->inputs);
    ipu__array_fini(&s->loops);
}

/* ---- going back ---- */

/* To the node of `tick`, or an earlier one if that has been said before; ABORTED takes it there, as an error would. */
static void go_back(ipu__import *im, int64_t tick, bool is_free)
{
    im->status    = IPU_ABORTED;
    im->back_to   = im->goes_back && im->back_to < tick ? im->back_to : tick;
    im->goes_back = true;
    im->is_free |= is_free;
}

bool ipu__import_note_loop(ipu__node *n)
{
    ipu__import *im = n->im;
    if (ipu__push(&im->loops, ((ipu__import_loop){n->proto, n->m->block, im->tick}))) return true;
    ipu__node_fail(n, IPU_OUT_OF_MEMORY, "out of memory");
    return false;
}

bool ipu__import_unrolls(const ipu__node *n)
{
    for (size_t i = 0; i < n->im->unrolled.n; i++)
        if (n->im->unrolled.at[i] == n->proto) return true;
    return false;
}

/* Back to the first of the loops that were found, all of which will be unrolled. False: there are none, or too many. */
static bool unroll(search *s)
{
    ipu__import *im    = s->im;
    int64_t      first = INT64_MAX;
    for (size_t i = 0; i < s->loops.n; i++) {
        const ipu__import_loop *loop = &im->loops.at[s->loops.at[i]];
        if (im->unrolled.n >= MOST_UNROLLED || !ipu__push(&im->unrolled, loop->node)) return false;
        if (loop->tick < first) first = loop->tick;
    }
    if (s->loops.n > 0) go_back(im, first, false);
    return s->loops.n > 0;
}

void ipu__import_note_use(ipu__import *im, uint32_t id)
{
    size_t             at = place_of_input(im, id);
    ipu__import_input *in = at < im->inputs.n ? &im->inputs.at[at] : NULL;
    if (!in || in->id != id || !in->given || im->fixed[in->owner]
        || ipu__shape_equal(&in->given->shape, &in->whole->shape))
        return;
    const ipu__import_guess *noted = in->use < im->guesses.n ? &im->guesses.at[in->use] : NULL;
    if (noted && noted->is_use && noted->id == id) return;
    in->use = im->guesses.n;
    if (!ipu__push(&im->guesses, ((ipu__import_guess){.id = id, .tick = im->tick, .is_use = true})))
        im->status = IPU_OUT_OF_MEMORY;
}

/* Inputs have become known: back to the first node that did without a value that is known now. */
static void guess_again(ipu__node *n)
{
    ipu__import *im = n->im;
    const void  *data;
    ipu__evaluation_retry(&im->evaluation);
    for (size_t i = 0; i < im->guesses.n; i++) {
        bool is_use = im->guesses.at[i].is_use; /* of which there is one for each input */
        if ((im->n_freed == MOST_FREED && !is_use) || im->n_tried++ == MOST_TRIED) {
            ipu__node_fail(n, IPU_UNSUPPORTED, "too many inputs decide shapes, one after another");
            return;
        }
        ipu_status status = ipu__evaluate(&im->evaluation, im->guesses.at[i].id, &data);
        if (status != IPU_OK) ipu__node_fail(n, status, "%s", ipu_message());
        if (status != IPU_OK) return;
        if (!data) continue;
        im->n_freed += !is_use;
        go_back(im, im->guesses.at[i].tick, true);
        return;
    }
}

/* ---- inputs that become known ---- */

/* The arrays of all inputs of the file that were found. Those inputs are marked as fixed. False: memory. */
typedef IPU__ARRAY(const ipu__import_input *) input_list;

static bool list_arrays(const search *s, input_list *out)
{
    ipu__import *im = s->im;
    for (size_t i = 0; i < s->inputs.n; i++) {
        size_t   at    = s->inputs.at[i];
        uint32_t owner = im->inputs.at[at].owner;
        if (im->fixed[owner]) continue; /* of a sequence that is in the list */
        im->fixed[owner] = true;
        while (at > 0 && im->inputs.at[at - 1].owner == owner) at--; /* they stand together */
        for (; at < im->inputs.n && im->inputs.at[at].owner == owner; at++)
            if (!ipu__push(out, &im->inputs.at[at])) return false;
    }
    return true;
}

static void fail_missing(ipu__node *n, const search *s, const char *what)
{
    ipu__import *im    = n->im;
    ipu__text    names = {0};
    bool        *is    = ipu__alloc_zeroed(im->file->inputs.n + 1);
    for (size_t i = 0; is && i < s->inputs.n; i++) {
        uint32_t owner   = im->inputs.at[s->inputs.at[i]].owner;
        is[owner]        = true;
        im->fixed[owner] = false; /* not, in the end */
    }
    for (size_t i = 0; is && i < im->file->inputs.n; i++)
        if (is[i])
            ipu__text_add(&names, "%s\"%s\"", names.n ? ", " : "",
                          ipu__or_empty(im->file->inputs.at[i]->name));
    ipu__node_fail(
        n, IPU_INVALID,
        "%s decides a shape, so that its value must be known when the model is compiled; it depends "
        "on input %s: give its value",
        what, names.at ? names.at : "?");
    ipu__text_fini(&names);
    ipu__free(is);
}

static bool is_given(const ipu__import_input *input)
{
    return input->given && (input->given->data || ipu__op_n_elements(&input->given->shape) == 0);
}

/* The inputs that were found become constants, if their values are given. */
static void fix_inputs(ipu__node *n, const search *s, const char *what)
{
    ipu__import *im     = n->im;
    input_list   arrays = {0};
    bool         ok = list_arrays(s, &arrays), is_known = im->may_fix;
    ipu_status   status = IPU_OK;
    for (size_t i = 0; i < arrays.n; i++) is_known &= is_given(arrays.at[i]);
    if (!ok)
        ipu__node_fail(n, IPU_OUT_OF_MEMORY, "out of memory");
    else if (!is_known)
        fail_missing(n, s, what);
    for (size_t i = 0; ok && is_known && status == IPU_OK && i < arrays.n; i++)
        status = ipu__model_fix_input(im->m, arrays.at[i]->id, arrays.at[i]->whole);
    if (status != IPU_OK) ipu__node_fail(n, status, "%s", ipu_message());
    ipu__array_fini(&arrays);
    if (ipu__import_ok(im)) guess_again(n);
}

static void fail_unknown(ipu__node *n, const char *what)
{
    ipu__node_fail(n, IPU_UNSUPPORTED,
                   n->im->evaluation.gave_up
                       ? "%s decides a shape and takes too much to compute before the model runs"
                       : "%s decides a shape and depends on data that are known only when the model runs",
                   what);
}

const void *ipu__must_know(ipu__node *n, ipu_value v, const char *what)
{
    const void *data = evaluate(n, v);
    if (data || v.id == 0 || !ipu__import_ok(n->im)) return data;
    search s = {.im = n->im};
    find_needs(&s, v.id);
    if (s.failed) ipu__node_fail(n, IPU_OUT_OF_MEMORY, "out of memory");
    if (ipu__import_ok(n->im) && !s.is_hopeless && s.inputs.n > 0) fix_inputs(n, &s, what);
    if (ipu__import_ok(n->im)) data = evaluate(n, v);
    bool is_open = !data && (ipu__import_ok(n->im) || n->im->goes_back);
    if (is_open && !unroll(&s) && !n->im->goes_back) fail_unknown(n, what);
    search_fini(&s);
    return data;
}

/* ---- of inputs ---- */

static const void *must_know_input(ipu__node *n, size_t i, size_t *count, ipu_type *type)
{
    *count      = 0;
    ipu_value v = ipu__in(n, i);
    if (v.id == 0) return NULL;
    char what[160];
    snprintf(what, sizeof what, "input %zu, \"%.100s\",", i, n->proto->input[i]);
    const void *data = ipu__must_know(n, v, what);
    if (!data) return NULL;
    *count = (size_t)ipu_value_n_elements(v);
    *type  = ipu_value_type(v);
    return data;
}

static double load_double(ipu_type type, const void *data, size_t i)
{
    ipu_array a = {.type = type, .shape = IPU_SHAPE(INT64_MAX), .data = (void *)(uintptr_t)data};
    return ipu_array_value(&a, (int64_t)i);
}

static int64_t load_int(ipu_type type, const void *data, size_t i)
{
    if (type == IPU_INT64) return ((const int64_t *)data)[i];
    if (type == IPU_UINT64) return (int64_t)((const uint64_t *)data)[i];
    const double value = load_double(type, data, i), most = (double)(INT64_MAX / 2);
    return fabs(value) <= most ? (int64_t)value : 0;
}

bool ipu__in_ints(ipu__node *n, size_t i, const int64_t **values, size_t *count)
{
    ipu_type    type;
    const void *data = must_know_input(n, i, count, &type);
    *values          = NULL;
    if (!data) return false;
    int64_t *out = ipu__import_alloc(n->im, *count * sizeof *out);
    if (!out) return false;
    for (size_t k = 0; k < *count; k++) out[k] = load_int(type, data, k);
    *values = out;
    return true;
}

bool ipu__in_doubles(ipu__node *n, size_t i, const double **values, size_t *count)
{
    ipu_type    type;
    const void *data = must_know_input(n, i, count, &type);
    *values          = NULL;
    if (!data) return false;
    double *out = ipu__import_alloc(n->im, *count * sizeof *out);
    if (!out) return false;
    for (size_t k = 0; k < *count; k++) out[k] = load_double(type, data, k);
    *values = out;
    return true;
}

static bool want_one(ipu__node *n, size_t i, size_t count)
{
    if (count != 1)
        ipu__node_fail(n, IPU_INVALID, "input %zu, \"%s\", must have one element; it has %zu", i,
                       n->proto->input[i], count);
    return count == 1;
}

int64_t ipu__in_int(ipu__node *n, size_t i, int64_t otherwise)
{
    const int64_t *values;
    size_t         count;
    return ipu__in_ints(n, i, &values, &count) && want_one(n, i, count) ? values[0] : otherwise;
}

double ipu__in_double(ipu__node *n, size_t i, double otherwise)
{
    const double *values;
    size_t        count;
    return ipu__in_doubles(n, i, &values, &count) && want_one(n, i, count) ? values[0] : otherwise;
}
