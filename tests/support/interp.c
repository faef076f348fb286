/* The interpreter: walks the parsed graph, element by element, on plain arrays.
 *
 * requires: a text that ipu_graph_check accepts. Memory that runs out ends the test.
 */
#include "interp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

/* The values of one variable, or of one row store, on one replica. */
typedef struct cells {
    uint8_t *data;
    bool    *defined;
} cells;

/* Values taken out of a view, in view order. */
typedef struct packed {
    cells   cells;
    int64_t n;
    size_t  size; /* of an element */
} packed;

struct interp {
    ipu_parsed       parsed;
    ipu_graph       *g;
    cells           *variables; /* replica * g->variables.n + id */
    cells           *remotes;   /* replica * g->remote_buffers.n + id */
    interp_stream_fn stream;
    void            *user;
    char           **printed;
    size_t           n_printed;
    bool             lost, undefined;
    char             message[500];
};

static void *must(void *p)
{
    if (p) return p;
    fputs("interp: out of memory\n", stderr);
    abort();
}

static void *zeroed(size_t n, size_t size) { return must(calloc(n ? n : 1, size ? size : 1)); }

static cells new_cells(int64_t n, size_t size)
{
    return (cells){zeroed((size_t)n, size), zeroed((size_t)n, sizeof(bool))};
}

static void free_cells(cells c)
{
    free(c.data);
    free(c.defined);
}

static ipu_status stop(interp *it, ipu_status status, const char *text)
{
    snprintf(it->message, sizeof it->message, "%s", text);
    return status;
}

/* ---- views ---- */

static cells *variable(interp *it, int64_t replica, uint32_t id)
{
    return &it->variables[(size_t)replica * it->g->variables.n + id];
}

/* Calls for each element of a view, in order. */
typedef void (*element_fn)(cells *variable, int64_t element, packed *p, int64_t i);

static void each_element(interp *it, int64_t replica, uint32_t view, element_fn fn, packed *p)
{
    ipu__runs runs = ipu__view_runs(&it->g->views, view);
    int64_t   i    = 0;
    for (ipu__run run; ipu__runs_next(&runs, &run);)
        for (int64_t k = 0; k < run.count; k++)
            fn(variable(it, replica, run.var), run.start + k * run.stride, p, i++);
}

static void take(cells *v, int64_t element, packed *p, int64_t i)
{
    memcpy(p->cells.data + (size_t)i * p->size, v->data + (size_t)element * p->size, p->size);
    p->cells.defined[i] = v->defined[element];
}

static void put(cells *v, int64_t element, packed *p, int64_t i)
{
    memcpy(v->data + (size_t)element * p->size, p->cells.data + (size_t)i * p->size, p->size);
    v->defined[element] = p->cells.defined[i];
}

static packed new_packed(interp *it, uint32_t view)
{
    ipu__view v = ipu__view_get(&it->g->views, view);
    packed    p = {.n = v.n_elements, .size = ipu_type_size(v.type)};
    p.cells     = new_cells(p.n, p.size);
    return p;
}

static packed gather(interp *it, int64_t replica, uint32_t view)
{
    packed p = new_packed(it, view);
    each_element(it, replica, view, take, &p);
    return p;
}

static void scatter(interp *it, int64_t replica, uint32_t view, packed *p)
{
    each_element(it, replica, view, put, p);
}

static void scatter_all(interp *it, uint32_t view, packed *p)
{
    for (int64_t r = 0; r < it->g->replication; r++) scatter(it, r, view, p);
}

static bool all_defined(const packed *p)
{
    for (int64_t i = 0; i < p->n; i++)
        if (!p->cells.defined[i]) return false;
    return true;
}

static bool use(interp *it, const packed *p)
{
    bool defined  = all_defined(p);
    it->undefined = it->undefined || !defined;
    return defined;
}

static void define(packed *p, bool defined) { memset(p->cells.defined, defined, (size_t)p->n); }

static int64_t integer(const void *data, ipu_type type)
{
    switch (type) {
    case IPU_BOOL: return *(const bool *)data;
    case IPU_INT8: return *(const int8_t *)data;
    case IPU_UINT8: return *(const uint8_t *)data;
    case IPU_INT16: return *(const int16_t *)data;
    case IPU_UINT16: return *(const uint16_t *)data;
    case IPU_INT32: return *(const int32_t *)data;
    case IPU_UINT32: return *(const uint32_t *)data;
    default: return *(const int64_t *)data;
    }
}

/* ---- a compute set ---- */

/* One view connected to a field, gathered; scattered again if the field writes. */
typedef struct bound {
    uint32_t            view;
    ipu_field_direction direction;
    packed              values;
} bound;

typedef struct binding {
    IPU__ARRAY(bound) list;
    void *lists[16]; /* arrays of spans, to be freed */
    int   n_lists;
} binding;

static ipu_field_direction field_direction(ipu_field_form form)
{
    static const ipu_field_direction directions[] = {
#define X(name, text, direction, shape) IPU_DIRECTION_##direction,
        IPU_FIELD_FORM_LIST(X)
#undef X
    };
    return directions[form];
}

static ipu_field_shape field_shape(ipu_field_form form)
{
    static const ipu_field_shape shapes[] = {
#define X(name, text, direction, shape) IPU_FIELD_SHAPE_##shape,
        IPU_FIELD_FORM_LIST(X)
#undef X
    };
    return shapes[form];
}

static ipu_span bind_view(interp *it, int64_t replica, const ipu_codelet_field *field, uint32_t view,
                          binding *b)
{
    bound x = {view, field_direction(field->form), gather(it, replica, view)};
    must(ipu__push(&b->list, x) ? it : NULL);
    return (ipu_span){x.values.cells.data, (size_t)x.values.n};
}

static void bind_field(interp *it, int64_t replica, const ipu_codelet_field *field, uint32_t link, binding *b,
                       char *image)
{
    ipu_field_shape shape = field_shape(field->form);
    if (shape != IPU_FIELD_SHAPE_VECTORS) {
        ipu_span span  = bind_view(it, replica, field, link, b);
        size_t   bytes = shape == IPU_FIELD_SHAPE_VECTOR ? sizeof span : sizeof span.data;
        memcpy(image + field->offset, &span, bytes);
        return;
    }
    const uint32_t *list  = &it->g->lists.at[link & ~IPU__LIST];
    ipu_span       *spans = zeroed(list[0], sizeof *spans), all = {spans, list[0]};
    for (uint32_t i = 0; i < list[0]; i++) spans[i] = bind_view(it, replica, field, list[1 + i], b);
    memcpy(image + field->offset, &all, sizeof all);
    b->lists[b->n_lists++] = spans;
}

static bool call_codelet(interp *it, const ipu__codelet *codelet, void *image)
{
    unsigned n_workers = (unsigned)ipu_target_n_workers(&it->g->target);
    if (!codelet->multi) return codelet->compute(image, 0, n_workers);
    bool ok = true;
    for (unsigned w = 0; w < n_workers; w++) ok = codelet->compute(image, w, n_workers) && ok;
    return ok;
}

/* Outputs are defined if all that the vertex read was. */
static void unbind(interp *it, int64_t replica, binding *b, bool ok)
{
    bool inputs = ok;
    for (size_t i = 0; i < b->list.n; i++)
        if (b->list.at[i].direction != IPU_DIRECTION_OUT) inputs = use(it, &b->list.at[i].values) && inputs;
    for (size_t i = 0; i < b->list.n; i++) {
        bound *x = &b->list.at[i];
        if (x->direction != IPU_DIRECTION_IN) {
            define(&x->values, inputs);
            scatter(it, replica, x->view, &x->values);
        }
        free_cells(x->values.cells);
    }
    for (int i = 0; i < b->n_lists; i++) free(b->lists[i]);
    ipu__array_fini(&b->list);
}

static bool run_vertex(interp *it, int64_t replica, const ipu__vertex *v)
{
    const ipu__codelet *codelet = &it->g->codelets.at[v->codelet];
    char               *image   = zeroed(1, codelet->bytes);
    binding             b       = {.n_lists = 0};
    if (v->state) memcpy(image, it->g->states.at[v->state], codelet->bytes);
    for (uint32_t f = 0; f < codelet->n_fields; f++)
        if (field_direction(codelet->fields[f].form) != IPU_DIRECTION_STATE)
            bind_field(it, replica, &codelet->fields[f], it->g->links.at[v->links + f], &b, image);
    bool ok = call_codelet(it, codelet, image);
    unbind(it, replica, &b, ok);
    free(image);
    return ok;
}

/* What a vertex writes has no known value once one of its compute set has failed. */
static void forget_outputs(interp *it, const ipu__vertex *v)
{
    const ipu__codelet *codelet = &it->g->codelets.at[v->codelet];
    for (uint32_t f = 0; f < codelet->n_fields; f++) {
        uint32_t            link      = it->g->links.at[v->links + f];
        ipu_field_direction direction = field_direction(codelet->fields[f].form);
        if (direction == IPU_DIRECTION_STATE || direction == IPU_DIRECTION_IN) continue;
        bool            is_list = field_shape(codelet->fields[f].form) == IPU_FIELD_SHAPE_VECTORS;
        const uint32_t *views   = is_list ? &it->g->lists.at[(link & ~IPU__LIST) + 1] : &link;
        uint32_t        n       = is_list ? views[-1] : 1;
        for (uint32_t i = 0; i < n; i++) {
            packed p = new_packed(it, views[i]);
            scatter_all(it, views[i], &p);
            free_cells(p.cells);
        }
    }
}

static ipu_status execute(interp *it, uint32_t id)
{
    const ipu__compute_set *cs = &it->g->compute_sets.at[id];
    bool                    ok = true;
    for (int64_t r = 0; r < it->g->replication; r++)
        for (uint32_t v = cs->first; v; v = it->g->vertices.at[v].next)
            ok = run_vertex(it, r, &it->g->vertices.at[v]) && ok;
    if (ok) return IPU_OK;
    for (uint32_t v = cs->first; v; v = it->g->vertices.at[v].next)
        forget_outputs(it, &it->g->vertices.at[v]);
    return stop(it, IPU_ABORTED, "a vertex returned false");
}

/* ---- other steps that move or compute ---- */

static void run_kernel(interp *it, int64_t replica, const ipu__kernel_step *k)
{
    const ipu__kernel_def *def = k->call.def;
    packed                 values[IPU__MAX_OPERANDS];
    void                  *operands[IPU__MAX_OPERANDS];
    bool                   inputs = true;
    for (int i = 0; i < k->call.n_operands; i++) {
        values[i]   = gather(it, replica, k->views[i]);
        operands[i] = values[i].cells.data;
        if (def->operands[i].access != IPU__ACCESS_WRITE) inputs = use(it, &values[i]) && inputs;
    }
    def->ref(&k->call, operands);
    for (int i = 0; i < k->call.n_operands; i++) {
        if (def->operands[i].access != IPU__ACCESS_READ) {
            define(&values[i], inputs);
            scatter(it, replica, k->views[i], &values[i]);
        }
        free_cells(values[i].cells);
    }
}

static void copy_across(interp *it, const ipu__step *s)
{
    int64_t n      = it->g->replication;
    packed *values = zeroed((size_t)n, sizeof *values);
    for (int64_t r = 0; r < n; r++) values[r] = gather(it, r, s->from);
    for (int64_t r = 0; r < n; r++) {
        scatter(it, s->replicas[r], s->to, &values[r]);
        free_cells(values[r].cells);
    }
    free(values);
}

static ipu_status transfer(interp *it, const ipu__step *s)
{
    const ipu__stream *stream    = &it->g->streams.at[s->object];
    bool               broadcast = stream->to_device && stream->mode == IPU_STREAM_BROADCAST;
    for (int64_t r = 0; r < (broadcast ? 1 : it->g->replication); r++) {
        packed p = stream->to_device ? new_packed(it, s->to) : gather(it, r, s->from);
        if (stream->to_device) define(&p, true);
        use(it, &p);
        ipu_status status = it->stream(it->user, stream->handle, r, p.cells.data, (size_t)p.n * p.size,
                                       p.cells.defined);
        if (status == IPU_OK && broadcast) scatter_all(it, s->to, &p);
        if (status == IPU_OK && stream->to_device && !broadcast) scatter(it, r, s->to, &p);
        free_cells(p.cells);
        if (status != IPU_OK) return stop(it, status, "a stream callback failed");
    }
    return IPU_OK;
}

static cells *remote(interp *it, int64_t replica, uint32_t id)
{
    return &it->remotes[(size_t)replica * it->g->remote_buffers.n + id];
}

/* Row number of row `i` moved, -1: out of range. */
static int64_t remote_row(interp *it, int64_t replica, const ipu__step *s, int64_t i)
{
    if (!s->rows) return i;
    packed   p    = gather(it, replica, s->rows);
    ipu_type type = ipu__view_get(&it->g->views, s->rows).type;
    int64_t  row  = integer(p.cells.data + (size_t)i * p.size, type);
    it->lost      = it->lost || !p.cells.defined[i];
    free_cells(p.cells);
    return row >= 0 && row < it->g->remote_buffers.at[s->object].n_rows ? row : -1;
}

static void forget(interp *it, uint32_t view)
{
    packed p = new_packed(it, view);
    scatter_all(it, view, &p);
    free_cells(p.cells);
}

/* What an aborted remote copy leaves behind is not defined. */
static ipu_status abort_remote(interp *it, const ipu__step *s)
{
    const ipu__remote_buffer *buffer = &it->g->remote_buffers.at[s->object];
    if (s->to) forget(it, s->to);
    for (int64_t r = 0; !s->to && r < it->g->replication; r++)
        memset(remote(it, r, s->object)->defined, false, (size_t)(buffer->n_elements * buffer->n_rows));
    return stop(it, IPU_ABORTED, "a row of a remote buffer is out of range");
}

static ipu_status copy_remote(interp *it, const ipu__step *s)
{
    int64_t row = it->g->remote_buffers.at[s->object].n_elements;
    for (int64_t r = 0; r < it->g->replication; r++) {
        packed p  = gather(it, r, s->to ? s->to : s->from);
        bool   ok = true;
        for (int64_t i = 0; ok && i < p.n; i++) {
            int64_t number = remote_row(it, r, s, i / row), element = number * row + i % row;
            ok = number >= 0;
            if (ok && s->to) take(remote(it, r, s->object), element, &p, i);
            if (ok && !s->to) put(remote(it, r, s->object), element, &p, i);
        }
        if (ok && s->to) scatter(it, r, s->to, &p);
        free_cells(p.cells);
        if (!ok) return abort_remote(it, s);
    }
    return IPU_OK;
}

static ipu_status copy(interp *it, const ipu__step *s)
{
    for (int64_t r = 0; r < it->g->replication; r++) {
        packed p = gather(it, r, s->from);
        scatter(it, r, s->to, &p);
        free_cells(p.cells);
    }
    return IPU_OK;
}

/* ---- printing ---- */

static int value_text(char *out, size_t size, const void *data, ipu_type type)
{
    switch (type) {
    case IPU_HALF: return snprintf(out, size, "%.7f", (double)ipu_half_to_float(*(const ipu_half *)data));
    case IPU_BFLOAT16:
        return snprintf(out, size, "%.7f", (double)ipu_bfloat16_to_float(*(const ipu_bfloat16 *)data));
    case IPU_FLOAT: return snprintf(out, size, "%.7f", (double)*(const float *)data);
    case IPU_DOUBLE: return snprintf(out, size, "%.7f", *(const double *)data);
    case IPU_UINT64: return snprintf(out, size, "%llu", (unsigned long long)*(const uint64_t *)data);
    default: return snprintf(out, size, "%lld", (long long)integer(data, type));
    }
}

/* A message is kept even if it cannot be compared, so that their number can. */
static void keep_printed(interp *it, char *text)
{
    it->printed                  = must(realloc(it->printed, (it->n_printed + 1) * sizeof *it->printed));
    it->printed[it->n_printed++] = text;
}

/* The elements from `i` on that make dimension `dim`, in brackets; a line for each row of the first. */
static int64_t print_dim(ipu__text *out, const packed *p, const ipu__view *v, int dim, int64_t i)
{
    char value[400];
    bool lines = dim == 0 && v->shape.rank > 1 && v->shape.dim[0] > 0;
    if (dim == v->shape.rank) {
        value_text(value, sizeof value, p->cells.data + (size_t)i * p->size, v->type);
        ipu__text_add(out, "%s", value);
        return i + 1;
    }
    ipu__text_add(out, "[");
    for (int64_t k = 0; k < v->shape.dim[dim]; k++) {
        if (lines || k > 0) ipu__text_add(out, lines ? "\n " : " ");
        i = print_dim(out, p, v, dim + 1, i);
    }
    ipu__text_add(out, lines ? "\n]" : "]");
    return i;
}

static void print(interp *it, const ipu__step *s)
{
    ipu__view v = ipu__view_get(&it->g->views, s->from);
    for (int64_t r = 0; r < it->g->replication; r++) {
        packed    p    = gather(it, r, s->from);
        ipu__text text = {0};
        ipu__text_add(&text, "%s", s->text);
        if (it->g->replication > 1) ipu__text_add(&text, " (replica %lld)", (long long)r);
        ipu__text_add(&text, ": ");
        print_dim(&text, &p, &v, 0, 0);
        keep_printed(it, use(it, &p) ? strdup(text.at) : NULL);
        ipu__text_fini(&text);
        free_cells(p.cells);
    }
}

/* ---- control flow ---- */

static ipu_status run_body(interp *it, ipu__body body);

/* The value that decides: the same on all replicas, or the run ends. */
static ipu_status decide(interp *it, uint32_t view, int64_t *out)
{
    ipu_type type = ipu__view_get(&it->g->views, view).type;
    for (int64_t r = 0; r < it->g->replication; r++) {
        packed  p     = gather(it, r, view);
        int64_t value = integer(p.cells.data, type);
        it->lost      = !use(it, &p) || it->lost;
        free_cells(p.cells);
        if (r > 0 && value != *out) return stop(it, IPU_ABORTED, "control flow diverges between replicas");
        *out = value;
    }
    return IPU_OK;
}

static ipu_status run_while(interp *it, const ipu__step *s)
{
    for (int64_t value;;) {
        IPU_TRY(run_body(it, s->other));
        IPU_TRY(decide(it, s->from, &value));
        if ((value != 0) != (s->kind == IPU__STEP_WHILE_TRUE)) return IPU_OK;
        IPU_TRY(run_body(it, s->body));
    }
}

static ipu_status run_switch(interp *it, const ipu__step *s)
{
    int64_t value;
    IPU_TRY(decide(it, s->from, &value));
    for (int64_t i = 0; i < s->n; i++)
        if (s->cases[i].value == value) return run_body(it, s->cases[i].body);
    return run_body(it, s->other);
}

static ipu_status run_if(interp *it, const ipu__step *s)
{
    int64_t value;
    IPU_TRY(decide(it, s->from, &value));
    return run_body(it, value ? s->body : s->other);
}

static ipu_status run_repeat(interp *it, const ipu__step *s)
{
    for (int64_t i = 0; i < s->n; i++) IPU_TRY(run_body(it, s->body));
    return IPU_OK;
}

/* Any replica may abort: no decision that all must share. */
static ipu_status run_abort(interp *it, const ipu__step *s)
{
    ipu_type type  = ipu__view_get(&it->g->views, s->from).type;
    bool     abort = false;
    for (int64_t r = 0; r < it->g->replication; r++) {
        packed p = gather(it, r, s->from);
        it->lost = !use(it, &p) || it->lost;
        abort    = abort || integer(p.cells.data, type) != 0;
        free_cells(p.cells);
    }
    return abort ? stop(it, IPU_ABORTED, s->text) : IPU_OK;
}

static ipu_status run_step(interp *it, const ipu__step *s)
{
    switch (s->kind) {
    case IPU__STEP_SEQUENCE: return run_body(it, s->body);
    case IPU__STEP_EXECUTE: return execute(it, s->object);
    case IPU__STEP_KERNEL:
        for (int64_t r = 0; r < it->g->replication; r++)
            run_kernel(it, r, &it->g->kernel_steps.at[s->object]);
        return IPU_OK;
    case IPU__STEP_COPY: return copy(it, s);
    case IPU__STEP_READ:
    case IPU__STEP_WRITE: return transfer(it, s);
    case IPU__STEP_REMOTE_READ:
    case IPU__STEP_REMOTE_WRITE: return copy_remote(it, s);
    case IPU__STEP_REPEAT: return run_repeat(it, s);
    case IPU__STEP_WHILE_TRUE:
    case IPU__STEP_WHILE_FALSE: return run_while(it, s);
    case IPU__STEP_IF: return run_if(it, s);
    case IPU__STEP_SWITCH: return run_switch(it, s);
    case IPU__STEP_PARALLEL:
        for (int64_t i = 0; i < s->n; i++) IPU_TRY(run_body(it, s->cases[i].body));
        return IPU_OK;
    case IPU__STEP_CALL: return run_body(it, it->g->functions.at[s->object].body);
    case IPU__STEP_PRINT: print(it, s); return IPU_OK;
    case IPU__STEP_ABORT_IF: return run_abort(it, s);
    case IPU__STEP_ERROR: return stop(it, IPU_ABORTED, s->text);
    case IPU__STEP_WRITE_UNDEF: forget(it, s->to); return IPU_OK;
    case IPU__STEP_CROSS_REPLICA_COPY: copy_across(it, s); return IPU_OK;
    default: return IPU_OK; /* sync */
    }
}

static ipu_status run_body(interp *it, ipu__body body)
{
    for (uint32_t i = 0; i < body.n_steps; i++)
        IPU_TRY(run_step(it, &it->g->programs.at[body.program].steps.at[i]));
    return IPU_OK;
}

/* ---- the outside ---- */

static void fill_variable(interp *it, int64_t replica, uint32_t id)
{
    const ipu__variable *v    = &it->g->variables.at[id];
    size_t               size = ipu_type_size(v->type);
    cells               *c    = variable(it, replica, id);
    uint32_t             r    = (uint32_t)replica;
    *c                        = new_cells(v->n_elements, size);
    if (v->kind == IPU__VARIABLE) return;
    if (v->n_elements) memcpy(c->data, v->kind == IPU__CONSTANT ? v->data : &r, (size_t)v->n_elements * size);
    memset(c->defined, true, (size_t)v->n_elements);
}

static void set_view(interp *it, int64_t replica, uint32_t view, const void *data)
{
    packed p = new_packed(it, view);
    if (p.n) memcpy(p.cells.data, data, (size_t)p.n * p.size);
    define(&p, true);
    scatter(it, replica, view, &p);
    free_cells(p.cells);
}

static void fill_replica(interp *it, int64_t replica)
{
    const ipu_graph *g = it->g;
    for (uint32_t id = 1; id < g->variables.n; id++) fill_variable(it, replica, id);
    for (size_t i = 0; i < g->initial_values.n; i++)
        set_view(it, replica, g->initial_values.at[i].view, g->initial_values.at[i].data);
    for (uint32_t id = 1; id < g->remote_buffers.n; id++) {
        const ipu__remote_buffer *b = &g->remote_buffers.at[id];
        cells                    *c = remote(it, replica, id);
        *c                          = new_cells(b->n_elements * b->n_rows, ipu_type_size(b->type));
        memset(c->defined, true, (size_t)(b->n_elements * b->n_rows));
    }
}

interp *interp_create(const char *text, size_t bytes, const ipu_codelet *const *codelets, size_t n_codelets)
{
    interp *it = zeroed(1, sizeof *it);
    if (ipu_graph_parse(text, bytes, "text", codelets, n_codelets, NULL, &it->parsed) != IPU_OK) {
        free(it);
        return NULL;
    }
    it->g         = it->parsed.graph;
    size_t n      = (size_t)it->g->replication;
    it->variables = zeroed(n * it->g->variables.n, sizeof *it->variables);
    it->remotes   = zeroed(n * it->g->remote_buffers.n, sizeof *it->remotes);
    for (int64_t r = 0; r < it->g->replication; r++) fill_replica(it, r);
    return it;
}

void interp_destroy(interp *it)
{
    if (!it) return;
    size_t n = (size_t)it->g->replication;
    for (size_t i = 0; i < n * it->g->variables.n; i++) free_cells(it->variables[i]);
    for (size_t i = 0; i < n * it->g->remote_buffers.n; i++) free_cells(it->remotes[i]);
    for (size_t i = 0; i < it->n_printed; i++) free(it->printed[i]);
    free(it->variables);
    free(it->remotes);
    free(it->printed);
    ipu_graph_destroy(it->g);
    free(it);
}

void interp_connect(interp *it, interp_stream_fn fn, void *user)
{
    it->stream = fn;
    it->user   = user;
}

ipu_status interp_run(interp *it, size_t program)
{
    uint32_t id = it->parsed.programs[program].id;
    it->lost = it->undefined = false;
    return run_body(it, (ipu__body){id, (uint32_t)it->g->programs.at[id].steps.n});
}

static uint32_t handle_view(interp *it, const char *handle, bool is_write)
{
    for (size_t i = 0; i < it->g->host_handles.n; i++) {
        const ipu__host_handle *h = &it->g->host_handles.at[i];
        if (h->is_write == is_write && strcmp(h->handle, handle) == 0) return h->view;
    }
    fprintf(stderr, "interp: no handle %s\n", handle);
    abort();
}

void interp_write(interp *it, const char *handle, int64_t replica, const void *data)
{
    uint32_t view = handle_view(it, handle, true);
    for (int64_t r = 0; r < it->g->replication; r++)
        if (replica < 0 || replica == r) set_view(it, r, view, data);
}

static void give(const cells *c, int64_t n, size_t size, void *data, bool *defined)
{
    memcpy(data, c->data, (size_t)n * size);
    memcpy(defined, c->defined, (size_t)n * sizeof *defined);
}

void interp_read(interp *it, const char *handle, int64_t replica, void *data, bool *defined)
{
    packed p = gather(it, replica, handle_view(it, handle, false));
    give(&p.cells, p.n, p.size, data, defined);
    free_cells(p.cells);
}

/* Row `row` of the buffer of that name, as cells. */
static cells remote_cells(interp *it, const char *handle, int64_t replica, int64_t row, int64_t *n,
                          size_t *size)
{
    uint32_t id = 1;
    while (strcmp(it->g->remote_buffers.at[id].handle, handle) != 0) id++;
    const ipu__remote_buffer *b = &it->g->remote_buffers.at[id];
    cells                    *c = remote(it, replica, id);
    *n                          = b->n_elements;
    *size                       = ipu_type_size(b->type);
    return (cells){c->data + (size_t)(row * *n) * *size, c->defined + row * *n};
}

void interp_write_remote(interp *it, const char *handle, int64_t replica, int64_t row, const void *data)
{
    int64_t n;
    size_t  size;
    cells   c = remote_cells(it, handle, replica, row, &n, &size);
    memcpy(c.data, data, (size_t)n * size);
    memset(c.defined, true, (size_t)n);
}

void interp_read_remote(interp *it, const char *handle, int64_t replica, int64_t row, void *data,
                        bool *defined)
{
    int64_t n;
    size_t  size;
    cells   c = remote_cells(it, handle, replica, row, &n, &size);
    give(&c, n, size, data, defined);
}

size_t      interp_n_printed(const interp *it) { return it->n_printed; }
const char *interp_printed(const interp *it, size_t i) { return it->printed[i]; }
bool        interp_lost(const interp *it) { return it->lost; }
bool        interp_undefined(const interp *it) { return it->undefined; }
const char *interp_message(const interp *it) { return it->message; }
