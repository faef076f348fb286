/* A builder whose ops are computed at once by `ref`, and reverse-mode gradients over its tape. */
#include "eager.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"

typedef struct step {
    const ipu__op_def *op;
    ipu__kernel_call   call;
    ipu_value          in[IPU__MAX_OPERANDS], out[IPU__MAX_OPERANDS];
} step;

typedef struct eager {
    ipu_builder base;
    bool        take_apart;
    ipu_graph  *g;           /* for views; NULL until the first */
    IPU__ARRAY(void *) data; /* by id */
    IPU__ARRAY(step *) tape;
    void (*watch)(const ipu__kernel_call *call, void *user); /* NULL: nobody */
    void *watcher;
} eager;

static eager *self(ipu_builder *b) { return (eager *)b; }

void *eager_data(ipu_value v) { return v.id ? self(v.builder)->data.at[v.id] : NULL; }

static size_t bytes_of(const ipu__kernel_value *v)
{
    return (size_t)ipu__op_n_elements(&v->shape) * ipu_type_size(v->type);
}

static ipu_status add(eager *e, const ipu__kernel_value *v, ipu_value *out)
{
    size_t bytes = bytes_of(v);
    void  *data  = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!data || !ipu__push(&e->data, data)) return ipu__fail_memory();
    memset(data, 0xff, bytes);
    *out = ipu__builder_add(&e->base, v->type, &v->shape, NULL);
    return e->base.status;
}

static ipu_status constant(ipu_builder *b, ipu__kernel_value value, const void *data, ipu_value *out)
{
    IPU_TRY(add(self(b), &value, out));
    if (bytes_of(&value) > 0) memcpy(eager_data(*out), data, bytes_of(&value));
    return IPU_OK;
}

/* ---- views ---- */

static ipu_status make_graph(eager *e)
{
    if (e->g) return IPU_OK;
    ipu_target target;
    IPU_TRY(ipu_target_find("gc200", 1, &target));
    return ipu_graph_create(&target, 1, &e->g);
}

/* Inputs become new variables of the graph, from number `first` on. */
typedef struct sources {
    ipu_value value[IPU__MAX_OPERANDS];
    uint32_t  first, n;
} sources;

static ipu_status view_of(eager *e, const ipu__op_def *op, const ipu__kernel_call *call, const ipu_value *in,
                          sources *from, ipu_tensor *out)
{
    ipu_tensor tensors[IPU__MAX_OPERANDS];
    IPU_TRY(make_graph(e));
    *from = (sources){.first = (uint32_t)e->g->variables.n};
    for (int i = 0; i < op->n_in; i++) {
        tensors[i] = (ipu_tensor){e->g, 0};
        if (!in[i].id) continue;
        tensors[i] = ipu_graph_add_variable(e->g, call->operand[i].type, call->operand[i].shape, NULL);
        from->value[from->n++] = in[i];
    }
    *out              = op->view(e->g, call, tensors);
    ipu_status status = ipu_graph_status(e->g);
    return status == IPU_OK ? IPU_OK : ipu__fail(status, "%s", ipu_graph_message(e->g));
}

/* What a variable holds: an input, or a constant that the view brought in. */
static const char *data_of(const eager *e, const sources *from, uint32_t var)
{
    if (var >= from->first && var < from->first + from->n) return eager_data(from->value[var - from->first]);
    return ipu__graph_variable(e->g, var)->data;
}

static ipu_status emit_view(eager *e, const ipu__op_def *op, const ipu__kernel_call *call,
                            const ipu_value *in, ipu_value *out)
{
    sources    from;
    ipu_tensor t;
    IPU_TRY(view_of(e, op, call, in, &from, &t));
    const ipu__kernel_value *v     = &call->operand[op->n_in];
    ipu_shape                shape = ipu_tensor_shape(t);
    if (!ipu__shape_equal(&shape, &v->shape) || ipu_tensor_type(t) != v->type)
        return ipu__fail(IPU_INVALID, "%s: its view is %s%s, infer said %s%s", op->kernel.name,
                         ipu_type_name(ipu_tensor_type(t)), ipu__shape_str(&shape), ipu_type_name(v->type),
                         ipu__shape_str(&v->shape));
    IPU_TRY(add(e, v, out));
    size_t    bytes = ipu_type_size(v->type);
    char     *to    = eager_data(*out);
    ipu__runs runs  = ipu__view_runs(&e->g->views, t.id);
    for (ipu__run run; ipu__runs_next(&runs, &run);)
        for (int64_t i = 0; i < run.count; i++, to += bytes)
            memcpy(to, data_of(e, &from, run.var) + (run.start + i * run.stride) * (int64_t)bytes, bytes);
    return IPU_OK;
}

/* ---- kernels ---- */

static ipu_status emit_kernel(eager *e, const ipu__op_def *op, const ipu__kernel_call *call,
                              const ipu_value *in, ipu_value *out)
{
    static max_align_t nothing[4];
    void              *operand[IPU__MAX_OPERANDS];
    for (int i = 0; i < op->n_in; i++) operand[i] = in[i].id ? eager_data(in[i]) : nothing;
    for (int i = op->n_in; i < call->n_operands; i++) {
        IPU_TRY(add(e, &call->operand[i], &out[i - op->n_in]));
        operand[i] = eager_data(out[i - op->n_in]);
    }
    if (e->watch) e->watch(call, e->watcher);
    op->kernel.ref(call, operand);
    return IPU_OK;
}

static ipu_status emit(ipu_builder *b, const ipu__op_def *op, const ipu__kernel_call *call,
                       const ipu_value *in, ipu_value *out)
{
    eager *e           = self(b);
    bool   no_gradient = !op->grad && !(op->flags & IPU__OP_NO_GRADIENT);
    if (op->compose && !op->view && (e->take_apart || no_gradient)) {
        op->compose(b, call, in, out);
        return b->status == IPU_OK ? IPU_OK : ipu__fail(b->status, "%s", ipu_builder_message(b));
    }
    step *s = calloc(1, sizeof *s);
    if (!s || !ipu__push(&e->tape, s)) return ipu__fail_memory();
    s->op   = op;
    s->call = *call;
    IPU_TRY(ipu__builder_keep_attributes(b, &s->call));
    IPU_TRY(op->view ? emit_view(e, op, &s->call, in, out) : emit_kernel(e, op, &s->call, in, out));
    memcpy(s->in, in, (size_t)op->n_in * sizeof *in);
    memcpy(s->out, out, (size_t)ipu__op_n_out(op) * sizeof *out);
    return IPU_OK;
}

static const ipu__builder_class eager_class = {.emit = emit, .constant = constant};

ipu_builder *eager_create(bool take_apart)
{
    eager *e = ipu__alloc_zeroed(sizeof *e);
    if (!e) return NULL;
    e->take_apart = take_apart;
    if (ipu__builder_init(&e->base, &eager_class) != IPU_OK || !ipu__push(&e->data, NULL)) {
        eager_destroy(&e->base);
        return NULL;
    }
    return &e->base;
}

void eager_watch(ipu_builder *b, void (*fn)(const ipu__kernel_call *call, void *user), void *user)
{
    self(b)->watch   = fn;
    self(b)->watcher = user;
}

void eager_destroy(ipu_builder *b)
{
    if (!b) return;
    eager *e = self(b);
    for (size_t i = 0; i < e->data.n; i++) free(e->data.at[i]);
    for (size_t i = 0; i < e->tape.n; i++) free(e->tape.at[i]);
    ipu__array_fini(&e->data);
    ipu__array_fini(&e->tape);
    ipu_graph_destroy(e->g);
    ipu__builder_fini(b);
    ipu__free(e);
}

/* ---- gradients ---- */

typedef struct reverse {
    ipu_builder *b;
    ipu_value   *d;       /* by id, of the values there were at the beginning */
    bool        *depends; /* on an x */
} reverse;

static void note(reverse *r, ipu_value v, ipu_value d)
{
    if (!d.id) return;
    ipu_shape a = ipu_value_shape(v), b = ipu_value_shape(d);
    if (ipu_value_type(v) != ipu_value_type(d) || !ipu__shape_equal(&a, &b)) {
        ipu__builder_fail(r->b, IPU_INVALID, "the gradient of %s is %s", ipu__value_str(v),
                          ipu__value_str(d));
        return;
    }
    ipu_value *sum = &r->d[v.id];
    *sum           = sum->id ? ipu__emit1(r->b, "add", NULL, 0, (ipu_value[]){*sum, d}, 2) : d;
}

static void mark(reverse *r, const step *s)
{
    bool any = false;
    for (int i = 0; i < s->op->n_in; i++) any |= s->in[i].id && r->depends[s->in[i].id];
    for (int i = 0; i < ipu__op_n_out(s->op); i++)
        if (any && ipu__op_is_floating(ipu_value_type(s->out[i]))) r->depends[s->out[i].id] = true;
}

static void step_back(reverse *r, const step *s)
{
    ipu_value d_out[IPU__MAX_OPERANDS], d_in[IPU__MAX_OPERANDS] = {{0}};
    bool      wanted[IPU__MAX_OPERANDS] = {false}, any_in = false, any_out = false;
    for (int i = 0; i < ipu__op_n_out(s->op); i++) {
        d_out[i] = r->d[s->out[i].id];
        any_out |= d_out[i].id != 0;
    }
    for (int i = 0; i < s->op->n_in; i++) {
        wanted[i] = s->in[i].id && r->depends[s->in[i].id];
        any_in |= wanted[i];
    }
    if (!any_in || !any_out || s->op->flags & IPU__OP_NO_GRADIENT) return;
    if (!s->op->grad) {
        ipu__builder_fail(r->b, IPU_UNSUPPORTED, "%s has no gradient", s->op->kernel.name);
        return;
    }
    ipu__gradient g = {r->b, &s->call, s->in, s->out, d_out, wanted, d_in};
    s->op->grad(&g);
    for (int i = 0; i < s->op->n_in; i++)
        if (wanted[i]) note(r, s->in[i], d_in[i]);
}

void eager_gradients(ipu_builder *b, const ipu_value *y, const ipu_value *d_y, size_t n_y, const ipu_value *x,
                     size_t n_x, ipu_value *d_x)
{
    eager  *e       = self(b);
    size_t  n_steps = e->tape.n, n_values = b->values.n;
    reverse r = {b, calloc(n_values, sizeof *r.d), calloc(n_values, sizeof *r.depends)};
    if (!r.d || !r.depends) abort();
    for (size_t i = 0; i < n_x; i++) r.depends[x[i].id] = true;
    for (size_t i = 0; i < n_steps; i++) mark(&r, e->tape.at[i]);
    for (size_t i = 0; i < n_y; i++) note(&r, y[i], d_y[i]);
    for (size_t i = n_steps; i-- > 0 && b->status == IPU_OK;) step_back(&r, e->tape.at[i]);
    for (size_t i = 0; i < n_x; i++) d_x[i] = r.d[x[i].id];
    free(r.d);
    free(r.depends);
}
