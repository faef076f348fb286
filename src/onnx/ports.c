/* Inputs and outputs of an executable, written to its note and read from it. */
#include "onnx/ports.h"

#include <string.h>

#include "engine/executable.h"

enum { MOST_DEPTH = 64 /* of sequences in sequences */ };

/* ---- writing ---- */

typedef struct writer {
    ipu_model         *m;
    ipu_executable    *exe;
    const char *const *sums; /* NULL: there are none */
    size_t             next; /* output of the model */
    ipu_status         status;
} writer;

static void put(writer *w, int64_t number)
{
    if (w->status == IPU_OK && !ipu__push(&w->exe->note, (int32_t)number)) w->status = ipu__fail_memory();
}

/* The handle of a value, which must have its shape and, but for a sum, its type. */
static void put_handle(writer *w, const ipu__map *names, const char *name, ipu_value v, bool is_sum)
{
    uint32_t id;
    if (w->status != IPU_OK) return;
    bool is_there = name && ipu__map_find(names, name, &id);
    if (is_there) {
        const ipu__exe_tensor *t     = &w->exe->tensors.at[w->exe->handles.at[id].tensor];
        ipu_shape              shape = ipu_value_shape(v);
        is_there = (is_sum || t->type == ipu_value_type(v)) && ipu__shape_equal(&t->shape, &shape);
    }
    if (is_there)
        put(w, id);
    else
        w->status = ipu__fail(IPU_INVALID, "\"%s\" of the model is not what was compiled", name ? name : "");
}

static void put_next(writer *w)
{
    const char *name = NULL;
    ipu_value   v    = ipu_model_output_at(w->m, w->next++, &name);
    put_handle(w, &w->exe->read_names, name, v, false);
}

/* Of the output before. */
static void put_sum(writer *w, size_t output)
{
    const char *name = NULL;
    ipu_value   v    = ipu_model_output_at(w->m, output, &name);
    put_handle(w, &w->exe->read_names, w->sums[output], v, true);
}

static void put_output(writer *w, const ipu__output *o)
{
    put(w, o->kind);
    if (o->kind == IPU_ONNX_ARRAY) {
        size_t output = w->next;
        put_next(w);
        if (o->has_count)
            put_next(w);
        else
            put(w, -1);
        put(w, o->has_count ? o->count_dim : 0);
        if (w->sums) put_sum(w, output);
    }
    if (o->kind != IPU_ONNX_SEQUENCE) return;
    put(w, (int64_t)o->n_items);
    for (size_t i = 0; i < o->n_items; i++) put_output(w, &o->items[i]);
}

ipu_status ipu__ports_note(const ipu__imported *from, size_t n_outputs, const char *const *sums,
                           ipu_executable *exe)
{
    writer w    = {.m = from->m, .exe = exe, .sums = sums};
    size_t n    = ipu_model_n_inputs(from->m);
    exe->note.n = 0;
    put(&w, (int64_t)n);
    for (size_t i = 0; i < n; i++) {
        ipu_value v = ipu_model_input_at(from->m, i);
        put_handle(&w, &exe->write_names, ipu_value_name(v), v, false);
    }
    for (size_t i = 0; i < n_outputs; i++) put_output(&w, &from->outputs[i]);
    return w.status;
}

/* ---- reading ---- */

typedef struct reader {
    const ipu_executable *exe;
    size_t                at; /* in the note */
    bool                  has_sums, failed;
    ipu__arena           *arena;
} reader;

/* A number from `least` to `most`. */
static int32_t take(reader *r, int64_t least, int64_t most)
{
    int32_t number = 0;
    r->failed |= r->at >= r->exe->note.n;
    if (!r->failed) number = r->exe->note.at[r->at++];
    r->failed |= number < least || number > most;
    return r->failed ? 0 : number;
}

static size_t left(const reader *r) { return r->exe->note.n - r->at; }

static ipu__handle take_handle(reader *r, bool is_write)
{
    const ipu_executable *exe  = r->exe;
    int32_t               id   = take(r, 0, (int64_t)exe->handles.n - 1);
    ipu__handle           port = {.name = ""};
    if (r->failed) return port;
    const ipu__exe_handle *h = &exe->handles.at[id];
    const ipu__exe_tensor *t = &exe->tensors.at[h->tensor];
    r->failed |= h->is_write != is_write;
    return (ipu__handle){ipu__exe_text(exe, h->handle), t->type, t->shape};
}

static void take_array(reader *r, ipu__result *out)
{
    out->array = take_handle(r, false);
    if (r->failed || left(r) == 0) return;
    bool is_whole = r->exe->note.at[r->at] == -1;
    if (is_whole) {
        take(r, -1, -1);
    } else {
        ipu__handle count = take_handle(r, false);
        r->failed |= count.type != IPU_INT64 || count.shape.rank != 0;
        out->count = count.name;
    }
    out->dim = take(r, 0, is_whole ? 0 : out->array.shape.rank - 1);
    if (!r->has_sums) return;
    ipu__handle sum = take_handle(r, false);
    r->failed |= !ipu__shape_equal(&sum.shape, &out->array.shape);
    out->sum = sum.name;
}

/* NULL: out of memory. */
static ipu__result *take_values(reader *r, size_t n, int depth)
{
    ipu__result *values = ipu__arena_alloc(r->arena, (n + 1) * sizeof *values);
    for (size_t i = 0; values && i < n; i++) {
        ipu__result *v = &values[i];
        *v             = (ipu__result){.kind = (ipu_onnx_kind)take(r, 0, IPU_ONNX_SEQUENCE)};
        if (v->kind == IPU_ONNX_ARRAY) take_array(r, v);
        if (v->kind == IPU_ONNX_SEQUENCE) v->n_items = (size_t)take(r, 0, (int64_t)left(r));
        r->failed |= depth == MOST_DEPTH;
        if (r->failed) v->n_items = 0;
        if (v->n_items > 0 && !(v->items = take_values(r, v->n_items, depth + 1))) return NULL;
    }
    return values;
}

ipu_status ipu__ports_read(const ipu_executable *exe, size_t n_outputs, bool has_sums, ipu__ports *out)
{
    *out          = (ipu__ports){0};
    reader r      = {.exe = exe, .has_sums = has_sums, .arena = &out->arena};
    out->n_inputs = (size_t)take(&r, 0, (int64_t)exe->note.n - 1);
    out->inputs   = ipu__arena_alloc(&out->arena, (out->n_inputs + 1) * sizeof *out->inputs);
    for (size_t i = 0; out->inputs && i < out->n_inputs; i++) out->inputs[i] = take_handle(&r, true);
    out->outputs      = out->inputs ? take_values(&r, n_outputs, 0) : NULL;
    ipu_status status = out->outputs ? IPU_OK : ipu__fail_memory();
    if (status == IPU_OK && (r.failed || left(&r) > 0))
        status = ipu__fail(IPU_INVALID, "the note of the executable is not that of an ONNX session");
    if (status != IPU_OK) ipu__ports_fini(out);
    return status;
}

void ipu__ports_fini(ipu__ports *ports)
{
    ipu__arena_fini(&ports->arena);
    *ports = (ipu__ports){0};
}

void ipu__ports_cut(ipu_array *a, int dim, int64_t count)
{
    int64_t before = 1, after = (int64_t)ipu_type_size(a->type), all = a->shape.dim[dim];
    for (int i = 0; i < dim; i++) before *= a->shape.dim[i];
    for (int i = dim + 1; i < a->shape.rank; i++) after *= a->shape.dim[i];
    if (count < 0 || count >= all) return;
    for (int64_t i = 0; i < before; i++)
        memmove((char *)a->data + i * count * after, (char *)a->data + i * all * after,
                (size_t)(count * after));
    a->shape.dim[dim] = count;
}
