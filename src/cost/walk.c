/* Turns programs into units of rows: each step once, with the number of its executions.
 *
 * A unit is a program, a function, or a body used in several places; other bodies are expanded where they
 * are used. Until all units are known, rows count executions per execution of their unit. Produces the
 * units with rows, shape and cycles, and the rows of the cost.
 */
#include "cost/cost.h"

/* ---- bodies that are used more than once ---- */

static void count_body(ipu__pricer *p, ipu__body body, bool *ok);

static void count_steps(ipu__pricer *p, ipu__body body, bool *ok)
{
    for (uint32_t i = 0; *ok && i < body.n_steps; i++) {
        const ipu__step *s = &p->g->programs.at[body.program].steps.at[i];
        count_body(p, s->body, ok);
        count_body(p, s->other, ok);
        for (int64_t c = 0; s->cases && c < s->n; c++) count_body(p, s->cases[c].body, ok);
        if (s->kind != IPU__STEP_CALL || p->function_unit[s->object] != IPU__NO_UNIT) continue;
        p->function_unit[s->object] = IPU__NO_UNIT - 1; /* seen but not built */
        count_steps(p, p->g->functions.at[s->object].body, ok);
    }
}

static ipu__snapshot *find_snapshot(ipu__pricer *p, ipu__body body)
{
    for (uint32_t i = p->snapshot_of[body.program]; i; i = p->snapshots.at[i - 1].next)
        if (p->snapshots.at[i - 1].body.n_steps == body.n_steps) return &p->snapshots.at[i - 1];
    return NULL;
}

static void count_body(ipu__pricer *p, ipu__body body, bool *ok)
{
    if (body.program == 0 || body.n_steps == 0) return;
    ipu__snapshot *known = find_snapshot(p, body);
    if (known) {
        known->uses++;
        return;
    }
    ipu__snapshot s = {body, 1, IPU__NO_UNIT, p->snapshot_of[body.program]};
    *ok             = ipu__push(&p->snapshots, s);
    if (!*ok) return;
    p->snapshot_of[body.program] = (uint32_t)p->snapshots.n;
    count_steps(p, body, ok);
}

/* ---- rows ---- */

typedef struct walker {
    ipu__pricer *p;
    ipu__unit    u;
} walker;

static ipu_status walk_steps(walker *w, ipu__body body, int depth, ipu_cost_cycles *sum);
static ipu_status build_unit(ipu__pricer *p, ipu__body body, const char *name, bool is_program,
                             uint32_t *out);

static ipu_status mark(walker *w, ipu__shape_kind kind)
{
    ipu__shape_mark m = {kind, (uint32_t)w->u.rows.n};
    return ipu__push(&w->u.shape, m) ? IPU_OK : ipu__fail_memory();
}

/* The location of a step: body.program and index. */
typedef struct place {
    uint32_t program, step;
} place;

static ipu_status add_row(walker *w, const ipu__step *s, place at, int depth, ipu_cost_cycles *sum)
{
    ipu__cost_row row;
    IPU_TRY(ipu__price_step(w->p, s, &row));
    row.s.depth   = depth;
    row.s.count   = 1;
    row.s.program = at.program;
    row.s.step    = at.step;
    row.s.part    = w->u.name;
    IPU_TRY(mark(w, IPU__SHAPE_ROW));
    if (!ipu__push(&w->u.rows, row)) return ipu__fail_memory();
    ipu__cost_sum(sum, &row.s.cycles, 1);
    return IPU_OK;
}

static ipu_status add_call(walker *w, const ipu__step *s, place at, int depth, uint32_t unit,
                           ipu_cost_cycles *sum)
{
    IPU_TRY(add_row(w, s, at, depth, sum));
    ipu__cost_row *row = &w->u.rows.at[w->u.rows.n - 1];
    row->s.kind        = "call";
    row->callee        = unit;
    row->s.name        = w->p->units.at[unit].name;
    ipu__cost_sum(sum, &w->p->units.at[unit].cycles, 1);
    return IPU_OK;
}

static void multiply(walker *w, size_t from, int64_t n)
{
    for (size_t i = from; i < w->u.rows.n; i++)
        w->u.rows.at[i].s.count = ipu__cost_times(w->u.rows.at[i].s.count, n);
}

/* A body: expanded, or called if it is used in several places. */
static ipu_status walk_body(walker *w, const ipu__step *s, place at, ipu__body body, int depth,
                            ipu_cost_cycles *sum)
{
    ipu__pricer *p = w->p;
    if (body.program == 0 || body.n_steps == 0) return IPU_OK;
    size_t known = (size_t)(find_snapshot(p, body) - p->snapshots.at);
    if (p->snapshots.at[known].uses == 1) return walk_steps(w, body, depth, sum);
    if (p->snapshots.at[known].unit == IPU__NO_UNIT) {
        char        where[IPU__WHERE_BYTES];
        const char *name = ipu__cost_text(p->cost, "sequence (%s)",
                                          ipu__graph_where(p->g, p->g->programs.at[body.program].location,
                                                           where));
        uint32_t    unit;
        if (!name) return ipu__fail_memory();
        IPU_TRY(build_unit(p, body, name, false, &unit));
        p->snapshots.at[known].unit = unit;
    }
    return add_call(w, s, at, depth, p->snapshots.at[known].unit, sum);
}

static ipu_status walk_call(walker *w, const ipu__step *s, place at, int depth, ipu_cost_cycles *sum)
{
    ipu__pricer         *p    = w->p;
    const ipu__function *f    = &p->g->functions.at[s->object];
    uint32_t            *unit = &p->function_unit[s->object];
    if (*unit >= IPU__NO_UNIT - 1) {
        const char *name = *f->name ? ipu__cost_text(p->cost, "function \"%s\"", f->name)
                                    : ipu__cost_text(p->cost, "function #%u", s->object);
        if (!name) return ipu__fail_memory();
        IPU_TRY(build_unit(p, f->body, name, false, unit));
    }
    return add_call(w, s, at, depth, *unit, sum);
}

/* ---- loops and branches ---- */

static ipu_status walk_repeat(walker *w, const ipu__step *s, place at, int depth, ipu_cost_cycles *sum)
{
    ipu_cost_cycles body = {0};
    IPU_TRY(add_row(w, s, at, depth, sum));
    size_t first = w->u.rows.n;
    IPU_TRY(mark(w, s->n > 0 ? IPU__SHAPE_LOOP : IPU__SHAPE_BRANCHES));
    IPU_TRY(walk_body(w, s, at, s->body, depth + 1, &body));
    if (s->n == 0) IPU_TRY(mark(w, IPU__SHAPE_NEXT_BRANCH));
    IPU_TRY(mark(w, s->n > 0 ? IPU__SHAPE_END_LOOP : IPU__SHAPE_END_BRANCHES));
    multiply(w, first, s->n);
    ipu__cost_sum(sum, &body, s->n);
    return IPU_OK;
}

static ipu_status walk_while(walker *w, const ipu__step *s, place at, int depth, ipu_cost_cycles *sum)
{
    ipu_cost_cycles condition = {0}, body = {0};
    int64_t         n = w->p->while_count, more = ipu__cost_add(n, 1);
    size_t          first = w->u.rows.n;
    IPU_TRY(mark(w, IPU__SHAPE_LOOP));
    IPU_TRY(walk_body(w, s, at, s->other, depth + 1, &condition));
    IPU_TRY(add_row(w, s, at, depth, &condition));
    const char *note = ipu__cost_text(w->p->cost, "data-dependent: counted %lld time%s", (long long)n,
                                      n == 1 ? "" : "s");
    if (!note) return ipu__fail_memory();
    w->u.rows.at[w->u.rows.n - 1].s.note = note;
    multiply(w, first, more);
    first = w->u.rows.n;
    IPU_TRY(mark(w, IPU__SHAPE_BRANCHES));
    IPU_TRY(walk_body(w, s, at, s->body, depth + 1, &body));
    IPU_TRY(mark(w, IPU__SHAPE_NEXT_BRANCH));
    IPU_TRY(mark(w, IPU__SHAPE_END_BRANCHES));
    IPU_TRY(mark(w, IPU__SHAPE_END_LOOP));
    multiply(w, first, n);
    ipu__cost_sum(sum, &condition, more);
    ipu__cost_sum(sum, &body, n);
    return IPU_OK;
}

/* The rows and cycles of the most expensive branch so far. */
typedef struct dearest {
    size_t          begin, end;
    ipu_cost_cycles cycles;
} dearest;

static void do_not_count(walker *w, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        ipu_cost_step *s = &w->u.rows.at[i].s;
        s->count         = 0;
        if (!*s->note) s->note = "not counted: another branch is dearer";
    }
}

static ipu_status walk_branch(walker *w, const ipu__step *s, place at, ipu__body body, int depth,
                              dearest *best)
{
    dearest this = {.begin = w->u.rows.n};
    IPU_TRY(walk_body(w, s, at, body, depth + 1, &this.cycles));
    this.end = w->u.rows.n;
    if (this.cycles.total > best->cycles.total) {
        do_not_count(w, best->begin, best->end);
        *best = this;
    } else if (best->end > best->begin) {
        do_not_count(w, this.begin, this.end);
    } else {
        *best = this;
    }
    return IPU_OK;
}

static ipu_status walk_branches(walker *w, const ipu__step *s, place at, int depth, ipu_cost_cycles *sum)
{
    dearest best = {0};
    IPU_TRY(add_row(w, s, at, depth, sum));
    w->u.rows.at[w->u.rows.n - 1].s.note = "data-dependent: the dearest branch is counted";
    IPU_TRY(mark(w, IPU__SHAPE_BRANCHES));
    for (int64_t i = 0; s->cases && i < s->n; i++) {
        IPU_TRY(walk_branch(w, s, at, s->cases[i].body, depth, &best));
        IPU_TRY(mark(w, IPU__SHAPE_NEXT_BRANCH));
    }
    if (s->kind == IPU__STEP_IF) {
        IPU_TRY(walk_branch(w, s, at, s->body, depth, &best));
        IPU_TRY(mark(w, IPU__SHAPE_NEXT_BRANCH));
    }
    IPU_TRY(walk_branch(w, s, at, s->other, depth, &best));
    ipu__cost_sum(sum, &best.cycles, 1);
    return mark(w, IPU__SHAPE_END_BRANCHES);
}

enum { TOLD_BODIES = 16 };

/* Bodies run on IPUs of their own: the step takes as long as the longest. */
static ipu_status walk_parallel(walker *w, const ipu__step *s, place at, int depth, ipu_cost_cycles *sum)
{
    ipu_cost_cycles longest = {0};
    const char     *note    = "at the same time, in cycles:";
    IPU_TRY(add_row(w, s, at, depth, sum));
    size_t row = w->u.rows.n - 1;
    for (int64_t i = 0; i < s->n && note; i++) {
        ipu_cost_cycles body = {0};
        IPU_TRY(walk_body(w, s, at, s->cases[i].body, depth + 1, &body));
        if (body.total > longest.total) longest = body;
        if (i < TOLD_BODIES)
            note = ipu__cost_text(w->p->cost, "%s%s %lld", note, i ? "," : "", (long long)body.total);
    }
    if (note)
        note = ipu__cost_text(w->p->cost, "%s%s; the longest is counted", note,
                              s->n > TOLD_BODIES ? " ..." : "");
    if (!note) return ipu__fail_memory();
    w->u.rows.at[row].s.note = note;
    ipu__cost_sum(sum, &longest, 1);
    return IPU_OK;
}

static ipu_status walk_step(walker *w, const ipu__step *s, place at, int depth, ipu_cost_cycles *sum)
{
    switch (s->kind) {
    case IPU__STEP_SEQUENCE: return walk_body(w, s, at, s->body, depth, sum);
    case IPU__STEP_CALL: return walk_call(w, s, at, depth, sum);
    case IPU__STEP_REPEAT: return walk_repeat(w, s, at, depth, sum);
    case IPU__STEP_WHILE_TRUE:
    case IPU__STEP_WHILE_FALSE: return walk_while(w, s, at, depth, sum);
    case IPU__STEP_IF:
    case IPU__STEP_SWITCH: return walk_branches(w, s, at, depth, sum);
    case IPU__STEP_PARALLEL: return walk_parallel(w, s, at, depth, sum);
    default: return add_row(w, s, at, depth, sum);
    }
}

static ipu_status walk_steps(walker *w, ipu__body body, int depth, ipu_cost_cycles *sum)
{
    for (uint32_t i = 0; i < body.n_steps; i++)
        IPU_TRY(walk_step(w, &w->p->g->programs.at[body.program].steps.at[i], (place){body.program, i}, depth,
                          sum));
    return IPU_OK;
}

/* ---- units ---- */

static ipu_status build_unit(ipu__pricer *p, ipu__body body, const char *name, bool is_program, uint32_t *out)
{
    walker     w      = {p, {.name = name, .is_program = is_program}};
    ipu_status status = walk_steps(&w, body, 0, &w.u.cycles);
    if (status == IPU_OK && !ipu__push(&p->units, w.u)) status = ipu__fail_memory();
    if (status != IPU_OK) {
        ipu__array_fini(&w.u.rows);
        ipu__array_fini(&w.u.shape);
        return status;
    }
    *out = (uint32_t)p->units.n - 1;
    return IPU_OK;
}

/* Counts how often every row runs, callers first. */
static void count_rows(ipu__pricer *p)
{
    for (size_t i = p->units.n; i-- > 0;) {
        ipu__unit *u = &p->units.at[i];
        if (u->is_program) u->count = 1;
        for (size_t r = 0; r < u->rows.n; r++) {
            ipu__cost_row *row = &u->rows.at[r];
            row->s.count       = ipu__cost_times(row->s.count, u->count);
            if (row->callee == IPU__NO_UNIT) continue;
            ipu__unit *callee = &p->units.at[row->callee];
            callee->count     = ipu__cost_add(callee->count, row->s.count);
        }
    }
}

/* Programs first, then the rest. */
static ipu_status list_rows(ipu__pricer *p)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < p->units.n; i++) {
            ipu__unit *u = &p->units.at[i];
            if (u->is_program != (pass == 0)) continue;
            u->base = p->cost->rows.n;
            for (size_t r = 0; r < u->rows.n; r++)
                if (!ipu__push(&p->cost->rows, u->rows.at[r])) return ipu__fail_memory();
        }
    return IPU_OK;
}

ipu_status ipu__cost_walk(ipu__pricer *p, const ipu_program *programs, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        ipu__body all = {programs[i].id, (uint32_t)p->g->programs.at[programs[i].id].steps.n};
        count_steps(p, all, &ok);
    }
    if (!ok) return ipu__fail_memory();
    for (size_t i = 0; i < n; i++) {
        ipu__body   all  = {programs[i].id, (uint32_t)p->g->programs.at[programs[i].id].steps.n};
        const char *name = ipu__cost_text(p->cost, "program %zu", i);
        uint32_t    unit;
        if (!name) return ipu__fail_memory();
        IPU_TRY(build_unit(p, all, name, true, &unit));
        if (!ipu__push(&p->roots, unit) || !ipu__push(&p->cost->programs, p->units.at[unit].cycles))
            return ipu__fail_memory();
    }
    count_rows(p);
    return list_rows(p);
}
