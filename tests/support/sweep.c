/* Samples changed at random.
 *
 * A change is kept if `infer` takes what came out and it is small enough to be tried; several are made one after the
 * other.
 */
#include "sweep.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "eager.h"
#include "engine/cpu/impl.h"

/* ---- as text ---- */

typedef struct writer {
    char  *at;
    size_t left;
    bool   ok;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(w->at, w->left, format, args);
    va_end(args);
    w->ok &= n >= 0 && (size_t)n < w->left;
    if (!w->ok) return;
    w->at += n;
    w->left -= (size_t)n;
}

static void put_ints(writer *w, const int64_t *ints, size_t n)
{
    put(w, "[");
    for (size_t i = 0; i < n; i++) put(w, "%s%lld", i ? "," : "", (long long)ints[i]);
    put(w, "]");
}

static void put_input(writer *w, const ipu__kernel_call *call, int i)
{
    const ipu__kernel_value *v = &call->operand[i];
    if (call->def->operands[i].optional && !ipu__kernel_has(call, i)) {
        put(w, "none");
        return;
    }
    put(w, "%s", ipu_type_name(v->type));
    put_ints(w, v->shape.dim, (size_t)v->shape.rank);
}

static void put_attribute(writer *w, const ipu_attribute *a)
{
    put(w, " %s=", a->name);
    switch (a->kind) {
    case IPU_ATTRIBUTE_INT: put(w, "%lld", (long long)a->i); break;
    case IPU_ATTRIBUTE_FLOAT: put(w, "%.17g", a->f); break;
    case IPU_ATTRIBUTE_INTS: put_ints(w, a->ints, a->n_ints); break;
    case IPU_ATTRIBUTE_TEXT: {
        char quote = strchr(a->text, '"') ? '\'' : '"';
        put(w, "%c%s%c", quote, a->text, quote);
        break;
    }
    }
}

/* `s` NULL: without bounds. */
static bool write_call(const ipu__kernel_call *call, const sample *s, char text[SWEEP_TEXT])
{
    writer w = {.left = SWEEP_TEXT, .ok = true};
    w.at     = text;
    put(&w, "%s", "");
    for (int i = 0; i < ipu__op_of(call->def)->n_in; i++) {
        if (i > 0) put(&w, ", ");
        put_input(&w, call, i);
        if (s && s->present[i]) put(&w, "{%.17g,%.17g}", s->low[i], s->high[i]);
    }
    if (call->n_attributes > 0) put(&w, ";");
    for (size_t k = 0; k < call->n_attributes; k++) put_attribute(&w, &call->attributes[k]);
    return w.ok;
}

bool sweep_write(const sample *s, char text[SWEEP_TEXT]) { return write_call(&s->call, s, text); }

/* ---- sizes ---- */

/* One below, at and above what kernels cut their work by. */
static const int sizes[] = {0,   1,   2,   3,   4,   5,   6,   7,   8,   9,    11,   13,   15,  16,
                            17,  19,  23,  24,  25,  31,  32,  33,  37,  47,   48,   49,   63,  64,
                            65,  79,  80,  95,  96,  97,  127, 128, 129, 131,  132,  133,  160, 192,
                            255, 256, 257, 263, 384, 511, 512, 513, 767, 1023, 1024, 1025, 1100};
enum { N_SIZES = sizeof sizes / sizeof *sizes, N_SMALL = 16, N_MEDIUM = 32 };

static int64_t draw_size(test_random *r)
{
    if (random_chance(r, 6)) return 0;
    int64_t most = random_chance(r, 50) ? N_SMALL : random_chance(r, 70) ? N_MEDIUM : N_SIZES;
    return sizes[random_in(r, 0, most - 1)];
}

static int draw_input(test_random *r, const sample *s)
{
    int i = s->op->n_in > 0 ? (int)random_in(r, 0, s->op->n_in - 1) : 0;
    for (int k = 0; k < s->op->n_in; k++, i = (i + 1) % s->op->n_in)
        if (s->present[i]) return i;
    return -1;
}

/* A dimension of an input; NULL: there is none. */
static int64_t *draw_dimension(test_random *r, sample *s)
{
    int i = draw_input(r, s);
    if (i < 0 || s->call.operand[i].shape.rank == 0) return NULL;
    ipu_shape *shape = &s->call.operand[i].shape;
    return &shape->dim[random_in(r, 0, shape->rank - 1)];
}

static int64_t *draw_int(test_random *r, sample *s)
{
    if (s->call.n_attributes == 0) return NULL;
    size_t k = (size_t)random_in(r, 0, (int64_t)s->call.n_attributes - 1);
    if (s->attributes[k].kind == IPU_ATTRIBUTE_INT) return &s->attributes[k].i;
    if (s->attributes[k].kind != IPU_ATTRIBUTE_INTS || s->attributes[k].n_ints == 0) return NULL;
    return &s->ints[k][random_in(r, 0, (int64_t)s->attributes[k].n_ints - 1)];
}

static int64_t moved(int64_t value, int64_t from, int64_t to, bool by_difference)
{
    if (value != from) return value;
    return by_difference ? value + (to - from) : to;
}

/* ---- changes ---- */

/* A size is another one, in all inputs and, at times, in attributes. */
static void change_size(test_random *r, sample *s)
{
    const int64_t *drawn      = s->op->n_in > 0 ? draw_dimension(r, s) : draw_int(r, s);
    bool           attributes = s->op->n_in == 0 || random_chance(r, 60);
    if (!drawn) return;
    int64_t from = *drawn, to = draw_size(r);
    for (int i = 0; i < s->op->n_in; i++)
        for (int d = 0; d < s->call.operand[i].shape.rank && s->present[i]; d++)
            s->call.operand[i].shape.dim[d] = moved(s->call.operand[i].shape.dim[d], from, to, false);
    for (size_t k = 0; k < s->call.n_attributes && attributes; k++) {
        s->attributes[k].i = moved(s->attributes[k].i, from, to, false);
        for (size_t j = 0; j < s->attributes[k].n_ints; j++)
            s->ints[k][j] = moved(s->ints[k][j], from, to, false);
    }
}

static void change_dimension(test_random *r, sample *s)
{
    int64_t *dimension = draw_dimension(r, s);
    if (dimension) *dimension = random_chance(r, 30) ? 1 : draw_size(r);
}

/* One dimension of all inputs that have it grows or shrinks by the same number: sizes that depend on each other, as
 * those of an image before and after a window. */
static void change_together(test_random *r, sample *s)
{
    static const int by[]   = {-3, -2, -1, 1, 2, 3, 7, 8, 15, 16, 17, 32};
    int64_t          change = by[random_in(r, 0, sizeof by / sizeof *by - 1)];
    int              at = (int)random_in(r, 0, IPU_MAX_RANK - 1) % 5, rank = -1;
    for (int i = 0; i < s->op->n_in; i++) {
        ipu_shape *shape = &s->call.operand[i].shape;
        if (!s->present[i] || shape->rank <= at || (rank >= 0 && shape->rank != rank)) continue;
        rank = shape->rank;
        shape->dim[at] += change;
        if (shape->dim[at] < 0) shape->dim[at] = 0;
    }
}

static void change_int(test_random *r, sample *s)
{
    static const int values[] = {-2, -1, 0, 1, 2, 3, 4, 5, 7, 8, 16, 17};
    int64_t         *value    = draw_int(r, s);
    if (!value) return;
    if (random_chance(r, 30))
        *value += random_chance(r, 50) ? 1 : -1;
    else
        *value = values[random_in(r, 0, sizeof values / sizeof *values - 1)];
}

/* All numbers of a list at once: strides, windows. */
static void change_list(test_random *r, sample *s)
{
    if (s->call.n_attributes == 0) return;
    size_t  k  = (size_t)random_in(r, 0, (int64_t)s->call.n_attributes - 1);
    int64_t to = random_in(r, 0, 5);
    if (s->attributes[k].kind != IPU_ATTRIBUTE_INTS) return;
    for (size_t j = 0; j < s->attributes[k].n_ints; j++) s->ints[k][j] = to;
}

static void drop_attribute(test_random *r, sample *s)
{
    if (s->call.n_attributes == 0) return;
    size_t k = (size_t)random_in(r, 0, (int64_t)s->call.n_attributes - 1), last = --s->call.n_attributes;
    s->attributes[k] = s->attributes[last];
    memcpy(s->ints[k], s->ints[last], sizeof s->ints[k]);
    if (s->attributes[k].kind == IPU_ATTRIBUTE_INTS) s->attributes[k].ints = s->ints[k];
}

/* An attribute that another sample of the op has. */
static void borrow_attribute(test_random *r, sample *s)
{
    static sample other;
    char          error[SAMPLE_ERROR];
    size_t        n = 0, k = 0;
    while (s->op->samples[n]) n++;
    if (!sample_parse(&other, s->op, s->op->samples[random_in(r, 0, (int64_t)n - 1)], error)) return;
    if (other.call.n_attributes == 0) return;
    size_t               from = (size_t)random_in(r, 0, (int64_t)other.call.n_attributes - 1);
    const ipu_attribute *a    = &other.attributes[from];
    while (k < s->call.n_attributes && strcmp(s->attributes[k].name, a->name) != 0) k++;
    if (k == SAMPLE_MAX_ATTRIBUTES) return;
    if (k == s->call.n_attributes) s->call.n_attributes++;
    s->attributes[k] = *a;
    memcpy(s->ints[k], other.ints[from], sizeof s->ints[k]);
    if (a->kind == IPU_ATTRIBUTE_INTS) s->attributes[k].ints = s->ints[k];
}

static void drop_input(test_random *r, sample *s)
{
    int i = draw_input(r, s);
    if (i < 0 || !s->op->kernel.operands[i].optional) return;
    s->present[i]      = false;
    s->call.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
}

static void change_type(test_random *r, sample *s)
{
    static const ipu_type floating[] = {IPU_FLOAT, IPU_HALF, IPU_BFLOAT16, IPU_DOUBLE};
    int                   i          = draw_input(r, s);
    if (i < 0) return;
    ipu_type from = s->call.operand[i].type;
    ipu_type to   = ipu__op_is_floating(from) ? floating[random_in(r, 0, 3)]
                                              : (ipu_type)random_in(r, 0, IPU_N_TYPES - 1);
    if (ipu__op_is_floating(from) != ipu__op_is_floating(to) || (to == IPU_BOOL) != (from == IPU_BOOL))
        return;
    if (random_chance(r, 80))
        sample_retype(s, from, to);
    else
        s->call.operand[i].type = to;
    for (int k = 0; k < s->op->n_in; k++)
        if (to == IPU_INT8 && s->high[k] > 127) s->high[k] = 127;
}

/* All inputs of the rank of one have a dimension more, or less. */
static void change_rank(test_random *r, sample *s)
{
    int i = draw_input(r, s);
    if (i < 0) return;
    int     rank = s->call.operand[i].shape.rank, at = (int)random_in(r, 0, rank);
    bool    more = random_chance(r, 60);
    int64_t size = random_chance(r, 30) ? 1 : draw_size(r);
    for (i = 0; i < s->op->n_in; i++) {
        ipu_shape *shape = &s->call.operand[i].shape;
        if (!s->present[i] || shape->rank != rank || (more ? rank == IPU_MAX_RANK : at == rank)) continue;
        int64_t *dim = shape->dim + at;
        if (more)
            memmove(dim + 1, dim, (size_t)(rank - at) * sizeof *dim);
        else
            memmove(dim, dim + 1, (size_t)(rank - at - 1) * sizeof *dim);
        if (more) *dim = size;
        shape->rank += more ? 1 : -1;
    }
}

/* Indices up to a size of the sample. */
static void change_bound(test_random *r, sample *s)
{
    int            i    = draw_input(r, s);
    const int64_t *size = draw_dimension(r, s);
    if (i < 0 || !size || ipu__op_is_floating(s->call.operand[i].type) || s->call.operand[i].type == IPU_BOOL)
        return;
    if (*size > 0 && *size < 128 && s->low[i] >= 0) s->high[i] = (double)(*size - 1);
    if (s->low[i] > s->high[i]) s->low[i] = 0;
}

static const struct {
    int weight; /* in all: 100 */
    void (*change)(test_random *r, sample *s);
} changes[] = {{38, change_size}, {12, change_dimension}, {10, change_together}, {10, change_int},
               {4, change_list},  {2, drop_attribute},    {6, borrow_attribute}, {3, drop_input},
               {7, change_type},  {5, change_rank},       {3, change_bound}};

static void change(test_random *r, sample *s)
{
    int64_t at = random_in(r, 0, 99);
    size_t  k  = 0;
    while (at >= changes[k].weight) at -= changes[k++].weight;
    changes[k].change(r, s);
}

/* ---- what can be tried ---- */

static double n_elements(const ipu_shape *shape)
{
    double n = 1;
    for (int d = 0; d < shape->rank; d++) n *= (double)shape->dim[d];
    return n;
}

static bool is_affordable(const sample *s, double most_elements, double most_work)
{
    double n = 0;
    for (int i = 0; i < s->call.n_operands; i++) {
        for (int d = 0; d < s->call.operand[i].shape.rank; d++)
            if (s->call.operand[i].shape.dim[d] < 0) return false;
        n += n_elements(&s->call.operand[i].shape);
    }
    return n <= most_elements && (!s->op->kernel.work || s->op->kernel.work(&s->call) <= most_work);
}

bool sweep_is_small(const sample *s) { return is_affordable(s, 5000, 1e6); }

bool sweep_make(test_random *r, const ipu__op_def *op, size_t i, char text[SWEEP_TEXT])
{
    static sample s;
    static char   next[SWEEP_TEXT];
    char          error[SAMPLE_ERROR];
    int           kept = 0, most = (int)random_in(r, 1, 6);
    bool          rarely   = random_chance(r, 2); /* what only large operands reach */
    double        elements = rarely ? 400000 : 40000, work = rarely ? 4e7 : 2e6;
    snprintf(text, SWEEP_TEXT, "%s", op->samples[i]);
    for (int tries = 0; tries < 30 && kept < most; tries++) {
        if (!sample_parse(&s, op, text, error)) return false;
        change(r, &s);
        if (sample_infer(&s) != IPU_OK || !is_affordable(&s, elements, work) || !sweep_write(&s, next))
            continue;
        if (strcmp(next, text) == 0) continue;
        strcpy(text, next);
        kept++;
    }
    return kept > 0;
}

int sweep_parts(test_random *r)
{
    static const int many[] = {12, 16, 24, 64, 100, 256};
    if (random_chance(r, 85)) return (int)random_in(r, 1, 9);
    return many[random_in(r, 0, sizeof many / sizeof *many - 1)];
}

static bool runs(const sample *s, const ipu__cpu_impl *impl, const operands *o)
{
    void   *state   = NULL;
    guarded scratch = guarded_make(impl->scratch_bytes ? impl->scratch_bytes(&s->call, 1) : 0);
    bool    ok      = !impl->prepare || impl->prepare(&s->call, 1, &state) == IPU_OK;
    ok              = ok && impl->run(&s->call, state, o->pointer, guarded_data(&scratch), 0, 1) == IPU_OK;
    if (impl->release) impl->release(state);
    guarded_free(&scratch);
    return ok;
}

/* Implementations see for themselves what `examine` does not. */
static bool is_taken(const sample *s)
{
    const ipu__kernel_def *def = &s->op->kernel;
    operands               o   = operands_make(s, 1);
    bool                   ok  = !def->examine || def->examine(&s->call, o.pointer) == IPU_OK;
    ipu__cpu_impls         all = ipu__cpu_impls_of(def);
    for (int i = 0; i < all.n; i++) /* all of them: what they refuse is no reason to crash */
        if (all.at[i].head.fits(&s->call, ipu__cpu_machine_here(), 1)) ok &= runs(s, &all.at[i], &o);
    operands_free(&o);
    return ok;
}

bool sweep_bound(sample *s)
{
    static const double most[] = {9, 7, 4, 3, 2, 1, 0};
    bool                any    = false;
    for (int i = 0; i < s->op->n_in; i++) any |= s->present[i] && ipu__op_is_integer(s->call.operand[i].type);
    if (!any) return true;
    for (size_t k = 0; k < sizeof most / sizeof *most; k++) {
        if (is_taken(s)) return true;
        for (int i = 0; i < s->op->n_in; i++) {
            if (!s->present[i] || !ipu__op_is_integer(s->call.operand[i].type)) continue;
            if (s->low[i] < 0) s->low[i] = 0;
            if (s->high[i] > most[k]) s->high[i] = most[k];
        }
    }
    return is_taken(s);
}

/* ---- related ---- */

typedef struct collector {
    sweep_list *list;
    const char *own; /* name of the op itself */
} collector;

static void collect(const ipu__kernel_call *call, void *user)
{
    collector  *c    = user;
    sweep_list *list = c->list;
    if (list->n == SWEEP_RELATED || ipu__cpu_impls_of(call->def).n == 0) return;
    list->op[list->n] = ipu__op_of(call->def);
    if (!write_call(call, NULL, list->text[list->n])) return;
    if (list->op[list->n]->kernel.name == c->own) return;
    for (int i = 0; i < list->n; i++)
        if (list->op[i] == list->op[list->n] && strcmp(list->text[i], list->text[list->n]) == 0) return;
    list->n++;
}

/* If all inputs are optional, none is known to be absent: it has no elements. */
static bool is_never_absent(const ipu__op_def *op)
{
    bool never = true;
    for (int i = 0; i < op->n_in; i++) never &= op->kernel.operands[i].optional;
    return never;
}

/* Gradients of the sum of all outputs. */
static void emit_all(const sample *s, ipu_builder *b, const operands *o)
{
    ipu_value at[IPU__MAX_OPERANDS] = {{0}}, x[IPU__MAX_OPERANDS], y[IPU__MAX_OPERANDS],
              d_y[IPU__MAX_OPERANDS], d_x[IPU__MAX_OPERANDS];
    size_t n_x = 0, n_y = 0;
    for (int i = 0; i < s->op->n_in; i++) {
        if (!s->present[i] && !is_never_absent(s->op)) continue;
        at[i] = ipu_constant_data(b, s->call.operand[i].type, s->call.operand[i].shape, o->pointer[i]);
        if (ipu__op_is_floating(s->call.operand[i].type)) x[n_x++] = at[i];
    }
    ipu_emit(b, s->op->kernel.name, s->call.attributes, s->call.n_attributes, at, (size_t)s->op->n_in,
             at + s->op->n_in, (size_t)ipu__op_n_out(s->op));
    for (int i = s->op->n_in; i < s->call.n_operands && b->status == IPU_OK; i++) {
        if (!at[i].id || !ipu__op_is_floating(s->call.operand[i].type)) continue;
        y[n_y]     = at[i];
        d_y[n_y++] = ipu_constant_value(b, s->call.operand[i].type, s->call.operand[i].shape, 1);
    }
    if (b->status == IPU_OK && n_x > 0 && n_y > 0 && (s->op->grad || s->op->compose))
        eager_gradients(b, y, d_y, n_y, x, n_x, d_x);
}

ipu_status sweep_relate(const sample *s, sweep_list *out)
{
    operands   o      = operands_make(s, 1);
    collector  c      = {out, s->op->kernel.name};
    ipu_status status = IPU_OK;
    out->n            = 0;
    for (int apart = 0; apart < 2 && status == IPU_OK; apart++) {
        ipu_builder *b = eager_create(apart);
        if (!b) abort();
        eager_watch(b, collect, &c);
        emit_all(s, b, &o);
        status = b->status;
        if (status != IPU_OK) ipu__fail(status, "%s", ipu_builder_message(b));
        eager_destroy(b);
    }
    operands_free(&o);
    return status;
}
