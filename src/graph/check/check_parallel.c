/* Parallel steps: no body may access what another writes, and functions, compute sets, kernel calls and streams
 * may be used by one body only. A first walk over the bodies finds the variables that several of them use, at
 * least one of them writing; if there are any, a second walk compares their elements, in one sweep over the
 * sorted intervals. */
#include <string.h>

#include "graph/check/check.h"

/* Which bodies use an object. */
typedef struct claim {
    bool     is_claimed, is_shared, is_written;
    uint32_t body, location; /* of the first */
} claim;

/* An access to elements. */
typedef struct use {
    uint32_t    body, location;
    const char *what; /* "a copy step" */
    bool        writes;
} use;

typedef struct checker {
    const ipu_graph *g;
    ipu__problems   *problems;
    const ipu__step *parallel;
    uint32_t         body, location; /* being walked */
    const char      *what;
    bool             second; /* of two walks */
    bool             is_suspicious;
    claim           *variables, *sets, *kernels, *functions, *streams, *remotes;
    IPU__ARRAY(use) uses;
    ipu__interval_list elements; /* tag: index in `uses` */
} checker;

/* ---- claims ---- */

static void claim_variable(checker *c, uint32_t var, bool writes)
{
    claim *x = &c->variables[var];
    if (!x->is_claimed) *x = (claim){.is_claimed = true, .body = c->body, .location = c->location};
    x->is_shared |= x->body != c->body;
    x->is_written |= writes;
    c->is_suspicious |= x->is_shared && x->is_written;
}

/* For objects that only one body may use. Returns whether this is the first use; reports use by a second
 * body. */
static bool claim_object(checker *c, claim *x, const char *kind, const char *name)
{
    char where[IPU__WHERE_BYTES];
    if (!x->is_claimed) {
        *x = (claim){.is_claimed = true, .body = c->body, .location = c->location};
        return true;
    }
    if (x->body == c->body || x->is_shared) return false;
    x->is_shared = true; /* once is enough */
    ipu__problem(
        c->problems, c->location,
        "parallel step: body %u uses %s \"%s\", as body %u does (%s): bodies run at the same time, so give "
        "each one of its own",
        c->body, kind, name, x->body, ipu__graph_where(c->g, x->location, where));
    return false;
}

/* Rows are known only at run time. */
static void claim_remote(checker *c, uint32_t remote, bool writes)
{
    char   where[IPU__WHERE_BYTES];
    claim *x = &c->remotes[remote];
    if (!x->is_claimed) *x = (claim){.is_claimed = true, .body = c->body, .location = c->location};
    bool is_conflict = x->body != c->body && (writes || x->is_written) && !x->is_shared;
    x->is_written |= writes;
    if (!is_conflict) return;
    x->is_shared = true;
    ipu__problem(
        c->problems, c->location,
        "parallel step: bodies %u and %u (%s) use remote buffer \"%s\", and at least one writes to it: give "
        "each one of its own",
        c->body, x->body, ipu__graph_where(c->g, x->location, where), c->g->remote_buffers.at[remote].handle);
}

/* ---- walking ---- */

static void add_elements(checker *c, uint32_t view, bool writes)
{
    use    u     = {c->body, c->location, c->what, writes};
    size_t begin = c->elements.list.n, n = begin;
    if (!ipu__push(&c->uses, u)
        || !ipu__intervals_add(&c->elements, &c->g->views, view, (uint32_t)c->uses.n - 1)) {
        c->problems->out_of_memory = true;
        return;
    }
    for (size_t i = begin; i < c->elements.list.n; i++) {
        const claim *x = &c->variables[c->elements.list.at[i].var];
        if (x->is_shared && x->is_written) c->elements.list.at[n++] = c->elements.list.at[i];
    }
    c->elements.list.n = n;
    if (n == begin) c->uses.n--;
}

static void add_view(checker *c, uint32_t view, bool writes)
{
    if (view == 0 || c->problems->out_of_memory) return;
    if (c->second) {
        add_elements(c, view, writes);
        return;
    }
    ipu__view   v      = ipu__view_get(&c->g->views, view);
    ipu__pieces pieces = ipu__view_pieces(&c->g->views, &v);
    for (ipu__piece piece; ipu__pieces_next(&pieces, &piece);) claim_variable(c, piece.var, writes);
}

static void walk_vertex(checker *c, const ipu__vertex *v)
{
    const ipu__codelet *codelet = &c->g->codelets.at[v->codelet];
    for (uint32_t i = 0; i < codelet->n_fields; i++) {
        ipu_field_direction direction = ipu__field_direction(codelet->fields[i].form);
        uint32_t            link      = c->g->links.at[v->links + i];
        bool                writes    = direction != IPU_DIRECTION_IN;
        if (direction == IPU_DIRECTION_STATE) continue;
        if (!(link & IPU__LIST)) {
            add_view(c, link, writes);
            continue;
        }
        const uint32_t *list = &c->g->lists.at[link & ~IPU__LIST];
        for (uint32_t k = 1; k <= list[0]; k++) add_view(c, list[k], writes);
    }
}

static void walk_set(checker *c, uint32_t set)
{
    const ipu__compute_set *cs = &c->g->compute_sets.at[set];
    if (!c->second && !claim_object(c, &c->sets[set], "compute set", cs->name)) return;
    for (uint32_t i = cs->first; i; i = c->g->vertices.at[i].next) walk_vertex(c, &c->g->vertices.at[i]);
}

static void walk_kernel(checker *c, uint32_t kernel)
{
    const ipu__kernel_step *k = &c->g->kernel_steps.at[kernel];
    if (!c->second && !claim_object(c, &c->kernels[kernel], "the same call of kernel", k->call.def->name))
        return;
    for (int i = 0; i < k->call.n_operands; i++)
        add_view(c, k->views[i], k->call.def->operands[i].access != IPU__ACCESS_READ);
}

static void walk_body(checker *c, ipu__body body);

static void walk_function(checker *c, uint32_t function)
{
    const ipu__function *f = &c->g->functions.at[function];
    claim               *x = &c->functions[function];
    if (c->second) { /* is_written: this is the second walk */
        if (x->is_written) return;
        x->is_written = true;
    } else if (!claim_object(c, x, "function", f->name)) {
        return;
    }
    walk_body(c, f->body);
}

static void walk_step(checker *c, const ipu__step *step)
{
    static const char *const names[] = {
#define X(name, text) [IPU__STEP_##name] = "a " text " step",
        IPU__STEP_LIST(X)
#undef X
    };
    c->location = step->location;
    c->what     = names[step->kind];
    add_view(c, step->from, false);
    add_view(c, step->rows, false);
    add_view(c, step->to, true);
    switch (step->kind) {
    case IPU__STEP_EXECUTE: walk_set(c, step->object); break;
    case IPU__STEP_KERNEL: walk_kernel(c, step->object); break;
    case IPU__STEP_CALL: walk_function(c, step->object); break;
    case IPU__STEP_READ:
    case IPU__STEP_WRITE:
        if (!c->second)
            claim_object(c, &c->streams[step->object], "stream", c->g->streams.at[step->object].handle);
        break;
    case IPU__STEP_REMOTE_READ:
    case IPU__STEP_REMOTE_WRITE:
        if (!c->second) claim_remote(c, step->object, step->kind == IPU__STEP_REMOTE_WRITE);
        break;
    default: break;
    }
    walk_body(c, step->body);
    walk_body(c, step->other);
    for (int64_t i = 0; step->cases && i < step->n; i++) walk_body(c, step->cases[i].body);
}

static void walk_body(checker *c, ipu__body body)
{
    for (uint32_t i = 0; i < body.n_steps; i++) walk_step(c, &c->g->programs.at[body.program].steps.at[i]);
}

static void walk_bodies(checker *c)
{
    for (int64_t i = 0; i < c->parallel->n; i++) {
        c->body = (uint32_t)i;
        walk_body(c, c->parallel->cases[i].body);
    }
}

/* ---- elements ---- */

/* The two intervals that extend furthest, from different bodies. */
typedef struct reach {
    const ipu__interval *first, *second;
} reach;

static const use *use_of(const checker *c, const ipu__interval *x) { return &c->uses.at[x->tag]; }

static void extend(const checker *c, reach *r, const ipu__interval *x)
{
    uint32_t body = use_of(c, x)->body;
    if (!r->first || x->end > r->first->end) {
        if (r->first && use_of(c, r->first)->body != body) r->second = r->first;
        r->first = x;
    } else if (use_of(c, r->first)->body != body && (!r->second || x->end > r->second->end)) {
        r->second = x;
    }
}

/* An interval of another body that extends beyond the start of `x`. */
static const ipu__interval *other_body(const checker *c, const reach *r, const ipu__interval *x)
{
    const ipu__interval *y = r->first;
    if (y && use_of(c, y)->body == use_of(c, x)->body) y = r->second;
    return y && y->end > x->begin ? y : NULL;
}

static void report(const checker *c, const ipu__interval *x, const ipu__interval *y)
{
    char where[IPU__WHERE_BYTES];
    if (!use_of(c, x)->writes) { /* report the writer first */
        const ipu__interval *swap = x;
        x                         = y;
        y                         = swap;
    }
    const use *a = use_of(c, x), *b = use_of(c, y);
    int64_t    begin = x->begin > y->begin ? x->begin : y->begin, end = x->end < y->end ? x->end : y->end;
    ipu__problem(
        c->problems, a->location,
        "parallel step: body %u writes elements [%lld, %lld) of variable %s in %s, and body %u %s them in %s "
        "(%s) at the same time: use two variables, and copy before or after the parallel step",
        a->body, (long long)begin, (long long)end, ipu__variable_str(c->g, x->var), a->what, b->body,
        b->writes ? "writes" : "reads", b->what, ipu__graph_where(c->g, b->location, where));
}

static void sweep(checker *c)
{
    reach    writes = {0}, reads = {0};
    uint32_t var = 0, reported = 0;
    ipu__intervals_sort(&c->elements);
    for (size_t i = 0; i < c->elements.list.n; i++) {
        const ipu__interval *x = &c->elements.list.at[i];
        if (x->var != var) writes = reads = (reach){0};
        var                    = x->var;
        bool                 w = use_of(c, x)->writes;
        const ipu__interval *y = other_body(c, &writes, x);
        if (!y && w) y = other_body(c, &reads, x);
        if (y && var != reported) { /* one report per variable is enough */
            report(c, x, y);
            reported = var;
        }
        extend(c, w ? &writes : &reads, x);
    }
}

/* ---- the whole ---- */

static bool init(checker *c)
{
    c->variables = ipu__alloc_zeroed(c->g->variables.n * sizeof *c->variables);
    c->sets      = ipu__alloc_zeroed(c->g->compute_sets.n * sizeof *c->sets);
    c->kernels   = ipu__alloc_zeroed(c->g->kernel_steps.n * sizeof *c->kernels);
    c->functions = ipu__alloc_zeroed(c->g->functions.n * sizeof *c->functions);
    c->streams   = ipu__alloc_zeroed(c->g->streams.n * sizeof *c->streams);
    c->remotes   = ipu__alloc_zeroed(c->g->remote_buffers.n * sizeof *c->remotes);
    return c->variables && c->sets && c->kernels && c->functions && c->streams && c->remotes;
}

void ipu__parallel_check(ipu__problems *problems, const ipu__step *step)
{
    checker c = {.g = problems->g, .problems = problems, .parallel = step};
    if (init(&c)) {
        walk_bodies(&c);
        c.second = true;
        if (c.is_suspicious) walk_bodies(&c);
        if (c.is_suspicious && !problems->out_of_memory) sweep(&c);
    } else {
        problems->out_of_memory = true;
    }
    void *const owned[] = {c.variables, c.sets, c.kernels, c.functions, c.streams, c.remotes};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) ipu__free(owned[i]);
    ipu__array_fini(&c.uses);
    ipu__intervals_fini(&c.elements);
}
