/* Finds everything that can be wrong with a graph and its programs before compilation: what programs use
 * must be mapped, placed, connected and free of races. Reports up to 20 problems at once. */
#include <string.h>

#include "graph/check/check.h"
#include "graph/graph.h"
#include "ipu/engine.h"

/* ---- problems ---- */

void ipu__problem(ipu__problems *p, uint32_t location, const char *format, ...)
{
    char    where[IPU__WHERE_BYTES], text[1024];
    va_list args;
    if (p->n++ >= IPU__MAX_PROBLEMS) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ipu__text_add(&p->text, "%s%s: %s", p->n > 1 ? "\n" : "", ipu__graph_where(p->g, location, where), text);
}

static ipu_status conclude(ipu__problems *p)
{
    ipu_status status = IPU_OK;
    if (p->out_of_memory || p->text.failed)
        status = ipu__fail_memory();
    else if (p->n > IPU__MAX_PROBLEMS)
        status = ipu__fail(IPU_INVALID, "%s\nand %d more problems", p->text.at, p->n - IPU__MAX_PROBLEMS);
    else if (p->n > 0)
        status = ipu__fail(IPU_INVALID, "%s", p->text.at);
    ipu__text_fini(&p->text);
    return status;
}

/* ---- tile mapping ---- */

typedef enum mapped { UNKNOWN, COMPLETE, PARTIAL, REPORTED } mapped;

typedef struct checker {
    ipu_graph        *g;
    ipu__problems     problems;
    unsigned char    *mapped;     /* by variable */
    uint32_t         *steps_done; /* by program: number of steps checked */
    unsigned char    *set_done;   /* by compute set */
    unsigned char    *function_done;
    ipu__race_scratch races;
    bool              need_bodies;
} checker;

/* Who uses a tensor, for the message. */
typedef struct user {
    const char *text;
    uint32_t    location;
} user;

static mapped mapping_state(checker *c, uint32_t var)
{
    if (c->mapped[var] != UNKNOWN) return c->mapped[var];
    ipu__variable *v = &c->g->variables.at[var];
    if (!ipu__mapping_sort(&v->mapping)) {
        c->problems.out_of_memory = true;
        return COMPLETE;
    }
    int64_t end = 0;
    for (size_t i = 0; i < v->mapping.places.n && v->mapping.places.at[i].begin == end; i++)
        end = v->mapping.places.at[i].end;
    c->mapped[var] = end == v->n_elements ? COMPLETE : PARTIAL;
    return c->mapped[var];
}

static void check_interval(checker *c, ipu__interval x, user by)
{
    if (mapping_state(c, x.var) != PARTIAL) return;
    ipu__variable        *v    = &c->g->variables.at[x.var];
    const ipu__placement *p    = ipu__mapping_find(&v->mapping, x.begin),
                         *past = v->mapping.places.at + v->mapping.places.n;
    int64_t at                 = x.begin;
    for (; p && p < past && at < x.end && p->begin <= at; p++) at = p->end;
    if (at >= x.end) return;
    int64_t gap_end = p && p < past && p->begin < x.end ? p->begin : x.end;
    char    where[IPU__WHERE_BYTES];
    ipu__problem(
        &c->problems, v->location,
        "variable %s %s%s: elements [%lld, %lld) are not mapped to a tile, but used by %s (%s): map them with "
        "ipu_graph_set_tile_mapping or ipu_graph_map_linearly",
        ipu__variable_str(c->g, x.var), ipu_type_name(v->type), ipu__shape_str(&v->shape), (long long)at,
        (long long)gap_end, by.text, ipu__graph_where(c->g, by.location, where));
    c->mapped[x.var] = REPORTED;
}

/* Whether the whole view is known to be mapped, without looking at elements. */
static bool surely_mapped(checker *c, uint32_t view)
{
    ipu__run run;
    if (ipu__view_contiguous(&c->g->views, view, &run))
        return run.count == 0 || mapping_state(c, run.var) != PARTIAL;
    ipu__view   v      = ipu__view_get(&c->g->views, view);
    ipu__pieces pieces = ipu__view_pieces(&c->g->views, &v);
    for (ipu__piece piece; ipu__pieces_next(&pieces, &piece);)
        if (mapping_state(c, piece.var) == PARTIAL) return false;
    return true;
}

static void check_mapped(checker *c, uint32_t view, user by)
{
    if (view == 0 || surely_mapped(c, view)) return;
    ipu__interval_list set = {0};
    if (ipu__intervals_add(&set, &c->g->views, view, 0)) {
        ipu__intervals_merge(&set);
        for (size_t i = 0; i < set.list.n; i++) check_interval(c, set.list.at[i], by);
    } else {
        c->problems.out_of_memory = true;
    }
    ipu__intervals_fini(&set);
}

/* ---- vertices ---- */

/* An output field must not contain an element twice: which value remains would be arbitrary. */
static void check_repeats(checker *c, const ipu__compute_set *cs, const ipu__vertex *v,
                          const ipu_codelet_field *f, uint32_t view)
{
    ipu__run run;
    bool     ok = true;
    if (ipu__field_direction(f->form) == IPU_DIRECTION_IN || ipu__view_contiguous(&c->g->views, view, &run))
        return;
    if (ipu__view_has_aliases(&c->g->views, view, &ok))
        ipu__problem(
            &c->problems, v->location,
            "vertex \"%s\" of compute set \"%s\": field \"%s\" writes a tensor that selects some elements twice",
            c->g->codelets.at[v->codelet].name, cs->name, f->name);
    if (!ok) c->problems.out_of_memory = true;
}

static void check_field(checker *c, const ipu__compute_set *cs, uint32_t id, uint32_t field)
{
    const ipu__vertex       *v       = &c->g->vertices.at[id];
    const ipu__codelet      *codelet = &c->g->codelets.at[v->codelet];
    const ipu_codelet_field *f       = &codelet->fields[field];
    uint32_t                 link    = c->g->links.at[v->links + field];
    if (link == 0) {
        bool is_state = ipu__field_direction(f->form) == IPU_DIRECTION_STATE;
        ipu__problem(&c->problems, v->location, "vertex \"%s\" of compute set \"%s\": field \"%s\" %s",
                     codelet->name, cs->name, f->name,
                     is_state ? "has no value: set it with ipu_vertex_set"
                              : "is not connected: use ipu_vertex_connect");
        return;
    }
    if (ipu__field_direction(f->form) == IPU_DIRECTION_STATE) return;
    const uint32_t *views = &link;
    uint32_t        n     = 1;
    if (link & IPU__LIST) {
        n     = c->g->lists.at[link & ~IPU__LIST];
        views = &c->g->lists.at[(link & ~IPU__LIST) + 1];
    }
    for (uint32_t i = 0; i < n; i++) {
        char text[256] = "";
        if (!surely_mapped(c, views[i])) {
            snprintf(text, sizeof text, "field \"%s\" of vertex \"%s\" of compute set \"%s\"", f->name,
                     codelet->name, cs->name);
            check_mapped(c, views[i], (user){text, v->location});
        }
        check_repeats(c, cs, v, f, views[i]);
        if (!ipu__race_add(&c->races, c->g, id, field, views[i])) c->problems.out_of_memory = true;
    }
}

static void check_compute_set(checker *c, uint32_t id)
{
    const ipu__compute_set *cs = &c->g->compute_sets.at[id];
    if (c->set_done[id]) return;
    c->set_done[id] = 1;
    for (uint32_t i = cs->first; i; i = c->g->vertices.at[i].next) {
        const ipu__vertex  *v       = &c->g->vertices.at[i];
        const ipu__codelet *codelet = &c->g->codelets.at[v->codelet];
        if (v->tile == IPU__NO_TILE)
            ipu__problem(&c->problems, v->location,
                         "vertex \"%s\" of compute set \"%s\" is on no tile: use ipu_graph_set_vertex_tile",
                         codelet->name, cs->name);
        if (c->need_bodies && !codelet->compute)
            ipu__problem(
                &c->problems, v->location,
                "codelet \"%s\" is known by its signature only: add its body with ipu_graph_add_codelet",
                codelet->name);
        for (uint32_t f = 0; f < codelet->n_fields; f++) check_field(c, cs, i, f);
    }
    ipu__race_check(&c->races, &c->problems, cs);
}

/* ---- programs ---- */

static void check_body(checker *c, ipu__body body);

static void check_kernel(checker *c, const ipu__step *step)
{
    const ipu__kernel_step *k = &c->g->kernel_steps.at[step->object];
    for (int i = 0; i < k->call.n_operands; i++) {
        char text[256];
        snprintf(text, sizeof text, "operand \"%s\" of kernel \"%s\"", k->call.def->operands[i].name,
                 k->call.def->name);
        check_mapped(c, k->views[i], (user){text, step->location});
    }
}

static void check_step(checker *c, const ipu__step *step)
{
    static const char *const names[] = {
#define X(name, text) [IPU__STEP_##name] = "a " text " step",
        IPU__STEP_LIST(X)
#undef X
    };
    user by = {names[step->kind], step->location};
    check_mapped(c, step->from, by);
    check_mapped(c, step->to, by);
    check_mapped(c, step->rows, by);
    check_body(c, step->body);
    check_body(c, step->other);
    for (int64_t i = 0; step->cases && i < step->n; i++) check_body(c, step->cases[i].body);
    if (step->kind == IPU__STEP_EXECUTE) check_compute_set(c, step->object);
    if (step->kind == IPU__STEP_KERNEL) check_kernel(c, step);
    if (step->kind == IPU__STEP_PARALLEL) ipu__parallel_check(&c->problems, step);
    if (step->kind == IPU__STEP_CALL && !c->function_done[step->object]) {
        c->function_done[step->object] = 1;
        check_body(c, c->g->functions.at[step->object].body);
    }
}

static void check_body(checker *c, ipu__body body)
{
    for (uint32_t *done = &c->steps_done[body.program]; *done < body.n_steps;) {
        const ipu__step *step = &c->g->programs.at[body.program].steps.at[*done];
        (*done)++;
        check_step(c, step);
    }
}

static void check_all(checker *c, const ipu_program *programs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ipu__body all = {programs[i].id, (uint32_t)c->g->programs.at[programs[i].id].steps.n};
        check_body(c, all);
    }
    for (size_t i = 0; i < c->g->host_handles.n; i++) {
        const ipu__host_handle *h = &c->g->host_handles.at[i];
        check_mapped(c, h->view, (user){h->is_write ? "a host write" : "a host read", h->location});
    }
}

static ipu_status check_handles(const ipu_graph *g, const ipu_program *programs, size_t n)
{
    if (g->root->status != IPU_OK) return ipu__fail(g->root->status, "%s", ipu_graph_message(g));
    if (n == 0) return ipu__fail(IPU_INVALID, "no program to compile");
    for (size_t i = 0; i < n; i++)
        if (programs[i].id == 0 || !programs[i].graph || programs[i].graph->root != g->root)
            return ipu__fail(IPU_INVALID, "program %zu is null or belongs to another graph", i);
    return IPU_OK;
}

ipu_status ipu__graph_check(ipu_graph *graph, const ipu_program *programs, size_t n, bool need_bodies)
{
    IPU_TRY(check_handles(graph, programs, n));
    ipu_graph *g    = graph->root;
    checker    c    = {.g = g, .problems = {.g = g}, .need_bodies = need_bodies};
    c.mapped        = ipu__alloc_zeroed(g->variables.n);
    c.steps_done    = ipu__alloc_zeroed(g->programs.n * sizeof *c.steps_done);
    c.set_done      = ipu__alloc_zeroed(g->compute_sets.n);
    c.function_done = ipu__alloc_zeroed(g->functions.n);
    if (c.mapped && c.steps_done && c.set_done && c.function_done) {
        check_all(&c, programs, n);
        ipu__reduce_check(&c.problems, programs, n);
    } else {
        c.problems.out_of_memory = true;
    }
    ipu__free(c.mapped);
    ipu__free(c.steps_done);
    ipu__free(c.set_done);
    ipu__free(c.function_done);
    ipu__race_fini(&c.races);
    return conclude(&c.problems);
}

ipu_status ipu_graph_check(ipu_graph *g, const ipu_program *programs, size_t n)
{
    return ipu__graph_check(g, programs, n, false);
}
