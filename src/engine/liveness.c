/* When variables are live, and hence where they are placed.
 *
 * A unit is a program or a function. Each is walked once, front to back; moments count its steps. A variable
 * is needed from its first access to its last, and throughout a loop in which a value from an earlier
 * iteration (or from before the loop) may be read, i.e. in which it is accessed without first being written
 * completely in the same iteration. If that holds for a whole program, the variable keeps its value between
 * runs.
 *
 * If a kernel may write an output over an input that is no longer needed, the two share memory.
 *
 * A variable accessed by only one unit belongs to it; a function's variables form its frame, which its
 * caller treats as one more variable. The same goes for bodies of a parallel step, whose frames are all
 * needed at the moment of the step. What several units access is placed according to its accesses through
 * calls.
 * requires: access. Produces `places`, `is_kept` and the sizes of variable memory.
 */
#include "engine/compile.h"
#include "engine/memory.h"

enum { NEVER = -1 };
#define SEVERAL UINT32_MAX

/* What a unit does to a variable or frame. */
typedef struct entry {
    uint32_t id;
    bool     is_exposed, is_killed, has_moment;
    int64_t  first, last;
} entry;

/* At `moment` a kernel could write all of variable `to` over variable `from`. */
typedef struct reuse {
    uint32_t from, to;
    int64_t  moment;
} reuse;

typedef struct unit {
    size_t  first, n;              /* in `entries` */
    size_t  first_reuse, n_reuses; /* in `reuses` */
    size_t  first_span, n_spans;   /* in `spans` */
    int64_t bytes, base;
} unit;

/* State of a variable or frame within the unit being walked. */
typedef struct state {
    bool     seen, is_exposed;
    uint32_t extended; /* number of the loop that its interval must cover */
    int64_t  first, last, killed;
} state;

/* Moments of kernels that may run depth first: what they access is needed from the first to the last. */
typedef struct span {
    int64_t first, last;
} span;

typedef struct loop {
    uint32_t number;
    size_t   pending; /* list in `pending`, from 1; 0 if empty */
    int64_t  start;
} loop;

typedef struct pending {
    uint32_t id;
    size_t   next;
} pending;

typedef struct kill {
    uint32_t id;
    int64_t  before;
} kill;

typedef struct liveness {
    ipu__compiler *c;
    uint32_t       n_ids; /* variables, then a frame for each function */
    state         *states;
    uint32_t      *mark, n_marks;
    uint32_t      *direct; /* unit + 1 if only one accesses it directly; SEVERAL */
    int64_t       *bytes;
    uint32_t       unit_number;
    int64_t        moment;
    uint32_t       n_loops;
    int            branches; /* number of open ones, in which kills can be undone */
    IPU__ARRAY(uint32_t) seen;
    IPU__ARRAY(loop) loops;
    IPU__ARRAY(pending) pending;
    IPU__ARRAY(kill) kills;
    IPU__ARRAY(uint32_t) in_all; /* a stack: killed in all branches so far */
    IPU__ARRAY(entry) entries;
    IPU__ARRAY(unit) units;
    IPU__ARRAY(reuse) reuses;
    IPU__ARRAY(span) spans;
    IPU__ARRAY(ipu__tenant) tenants;
    uint32_t *tenant_of;          /* by id, in the unit being placed: index + 1; 0 if none */
    IPU__ARRAY(uint32_t) leaders; /* by tenant: the one whose memory it uses */
} liveness;

/* ---- noting accesses ---- */

static bool see(liveness *l, uint32_t id)
{
    state *s = &l->states[id];
    if (s->seen) return true;
    *s = (state){.seen = true, .first = INT64_MAX, .last = NEVER, .killed = NEVER};
    return ipu__push(&l->seen, id);
}

static bool touch(liveness *l, uint32_t id)
{
    if (!see(l, id)) return false;
    state *s = &l->states[id];
    if (l->moment < s->first) s->first = l->moment;
    if (l->moment > s->last) s->last = l->moment;
    return true;
}

/* An access for which the previous value matters. */
static bool expose(liveness *l, uint32_t id)
{
    if (!touch(l, id)) return false;
    state *s = &l->states[id];
    if (s->killed == NEVER) s->is_exposed = true;
    for (size_t i = 0; i < l->loops.n; i++) { /* the outermost loop it enters covers all inner ones */
        loop *around = &l->loops.at[i];
        if (s->killed > around->start) continue;
        if (s->extended == around->number) return true;
        s->extended = around->number;
        if (around->start < s->first) s->first = around->start;
        if (!ipu__push(&l->pending, (pending){id, around->pending})) return false;
        around->pending = l->pending.n;
        return true;
    }
    return true;
}

static bool note_kill(liveness *l, uint32_t id)
{
    if (!see(l, id)) return false;
    if (l->branches > 0 && !ipu__push(&l->kills, (kill){id, l->states[id].killed})) return false;
    l->states[id].killed = l->moment;
    return true;
}

static void note_direct(liveness *l, uint32_t id)
{
    uint32_t *direct = &l->direct[id];
    *direct          = *direct == 0 || *direct == l->unit_number + 1 ? l->unit_number + 1 : SEVERAL;
}

/* The variable that a view covers completely and in order; 0 if none. */
static uint32_t whole_variable(const liveness *l, uint32_t view)
{
    const ipu_graph *g = l->c->g;
    ipu__run         run;
    if (!ipu__view_contiguous(&g->views, view, &run) || run.count == 0 || run.start != 0) return 0;
    return run.count == g->variables.at[run.var].n_elements ? run.var : 0;
}

static bool is_only_operand(const ipu__kernel_step *k, int i)
{
    for (int other = 0; other < k->call.n_operands; other++)
        if (other != i && k->views[other] == k->views[i]) return false;
    return true;
}

static bool note_reuses(liveness *l, const ipu__kernel_step *k)
{
    for (int out = 0; out < k->call.n_operands; out++) {
        if (k->call.def->operands[out].access != IPU__ACCESS_WRITE) continue;
        uint32_t to = whole_variable(l, k->views[out]);
        for (int in = 0; to && in < k->call.n_operands; in++) {
            if (k->call.def->operands[in].access != IPU__ACCESS_READ || !is_only_operand(k, in)) continue;
            if (!ipu__kernel_may_share(&k->call, in, out)) continue;
            uint32_t from = whole_variable(l, k->views[in]);
            if (from && from != to && !ipu__push(&l->reuses, (reuse){from, to, l->moment})) return false;
        }
    }
    return true;
}

static ipu_status note_step(liveness *l, const ipu__step *step)
{
    ipu__access_range range;
    IPU_TRY(ipu__access_step(l->c, step, &range));
    for (size_t i = range.begin; i < range.begin + range.n; i++) {
        const ipu__access *a  = &l->c->accesses.at[i];
        bool               ok = true;
        note_direct(l, a->var);
        if (step->kind == IPU__STEP_WRITE_UNDEF) {
            if (a->flags & IPU__KILL) ok = note_kill(l, a->var);
        } else if (a->flags & IPU__KILL) {
            ok = touch(l, a->var) && note_kill(l, a->var);
        } else {
            ok = expose(l, a->var);
        }
        if (!ok) return ipu__fail_memory();
    }
    ipu__access_drop(l->c, step, &range);
    if (step->kind != IPU__STEP_KERNEL) return IPU_OK;
    return ipu__or_memory(note_reuses(l, &l->c->g->kernel_steps.at[step->object]));
}

/* ---- walking ---- */

static ipu_status walk(liveness *l, const ipu__body *body);

/* Copies inside a body and around it are never in one group. */
static ipu_status walk_body(liveness *l, const ipu__body *body)
{
    ipu__group_close(&l->c->group);
    ipu_status status = walk(l, body);
    ipu__group_close(&l->c->group);
    return status;
}

static bool open_loop(liveness *l)
{
    loop opened = {++l->n_loops, 0, ++l->moment};
    l->moment++; /* everything inside comes after the start, even an undefined write */
    return ipu__push(&l->loops, opened);
}

static void close_loop(liveness *l)
{
    const loop *done = &l->loops.at[--l->loops.n];
    l->moment++;
    for (size_t i = done->pending; i; i = l->pending.at[i - 1].next) {
        state *s = &l->states[l->pending.at[i - 1].id];
        if (l->moment > s->last) s->last = l->moment;
    }
    if (l->loops.n == 0) l->pending.n = 0;
}

/* Undoes the kills since `begin`, marking their ids. */
static void undo_kills(liveness *l, size_t begin)
{
    l->n_marks++;
    while (l->kills.n > begin) {
        kill undone                 = l->kills.at[--l->kills.n];
        l->states[undone.id].killed = undone.before;
        l->mark[undone.id]          = l->n_marks;
    }
}

/* Afterwards, in_all[first..) is what all branches so far have killed. */
static ipu_status walk_branch(liveness *l, const ipu__body *body, size_t first, bool is_first)
{
    size_t begin = l->kills.n;
    l->branches++;
    IPU_TRY(walk_body(l, body));
    l->branches--;
    for (size_t i = begin; is_first && i < l->kills.n; i++)
        if (!ipu__push(&l->in_all, l->kills.at[i].id)) return ipu__fail_memory();
    undo_kills(l, begin);
    size_t kept = first;
    for (size_t i = first; i < l->in_all.n; i++)
        if (l->mark[l->in_all.at[i]] == l->n_marks) l->in_all.at[kept++] = l->in_all.at[i];
    l->in_all.n = kept;
    l->moment++;
    return IPU_OK;
}

static ipu_status walk_branches(liveness *l, const ipu__step *step)
{
    size_t first = l->in_all.n;
    IPU_TRY(walk_branch(l, &step->other, first, true));
    if (step->kind == IPU__STEP_IF) IPU_TRY(walk_branch(l, &step->body, first, false));
    for (int64_t i = 0; step->kind == IPU__STEP_SWITCH && i < step->n; i++)
        IPU_TRY(walk_branch(l, &step->cases[i].body, first, false));
    for (size_t i = first; i < l->in_all.n; i++)
        if (!note_kill(l, l->in_all.at[i])) return ipu__fail_memory();
    l->in_all.n = first;
    return IPU_OK;
}

static ipu_status walk_while(liveness *l, const ipu__step *step)
{
    if (!open_loop(l)) return ipu__fail_memory();
    IPU_TRY(walk_body(l, &step->other));
    l->moment++;
    IPU_TRY(note_step(l, step));
    size_t begin = l->kills.n;
    l->branches++;
    IPU_TRY(walk_body(l, &step->body));
    l->branches--;
    undo_kills(l, begin); /* the body may not run at all */
    close_loop(l);
    return IPU_OK;
}

static ipu_status walk_repeat(liveness *l, const ipu__step *step)
{
    if (step->n == 0) return IPU_OK;
    if (!open_loop(l)) return ipu__fail_memory();
    IPU_TRY(walk_body(l, &step->body));
    close_loop(l);
    return IPU_OK;
}

static ipu_status walk_call(liveness *l, uint32_t called)
{
    uint32_t    frame = (uint32_t)l->c->g->variables.n + called;
    const unit *u     = &l->units.at[called];
    note_direct(l, frame);
    bool ok = touch(l, frame);
    for (size_t i = u->first; ok && i < u->first + u->n; i++) {
        entry e = l->entries.at[i];
        if (e.is_exposed)
            ok = expose(l, e.id);
        else if (e.has_moment)
            ok = touch(l, e.id);
        if (ok && e.is_killed) ok = note_kill(l, e.id);
    }
    return ipu__or_memory(ok);
}

static ipu_status walk_parallel(liveness *l, const ipu__step *step)
{
    uint32_t first = l->c->parallel_of[step->object];
    for (uint32_t i = 0; i < step->n; i++) IPU_TRY(walk_call(l, first + i));
    return IPU_OK;
}

static ipu_status walk_copy(liveness *l, const ipu__step *step)
{
    if (!ipu__group_join(&l->c->group, &l->c->g->views, step->from, step->to)) l->moment++;
    return note_step(l, step);
}

static ipu_status walk_step(liveness *l, const ipu__step *step)
{
    switch (step->kind) {
    case IPU__STEP_SEQUENCE: return walk(l, &step->body);
    case IPU__STEP_SYNC: return IPU_OK;
    case IPU__STEP_WRITE_UNDEF: return note_step(l, step);
    case IPU__STEP_COPY: return walk_copy(l, step);
    default: break;
    }
    ipu__group_close(&l->c->group);
    l->moment++;
    ipu_status status;
    switch (step->kind) {
    case IPU__STEP_REPEAT: status = walk_repeat(l, step); break;
    case IPU__STEP_WHILE_TRUE:
    case IPU__STEP_WHILE_FALSE: status = walk_while(l, step); break;
    case IPU__STEP_CALL: status = walk_call(l, l->c->function_of[step->object]); break;
    case IPU__STEP_PARALLEL: status = walk_parallel(l, step); break;
    case IPU__STEP_IF:
    case IPU__STEP_SWITCH:
        status = note_step(l, step);
        if (status == IPU_OK) status = walk_branches(l, step);
        break;
    default: status = note_step(l, step); break;
    }
    ipu__group_close(&l->c->group);
    return status;
}

static ipu_status walk(liveness *l, const ipu__body *body)
{
    const ipu__step *steps = ipu__body_steps(l->c->g, body);
    for (uint32_t i = 0; steps && i < body->n_steps;) {
        uint32_t n = ipu__rows_run(l->c, &steps[i], body->n_steps - i), end = i + (n > 1 ? n : 1);
        span     over = {l->moment + 1, 0};
        for (; i < end; i++) IPU_TRY(walk_step(l, &steps[i]));
        over.last = l->moment;
        if (n > 1 && !ipu__push(&l->spans, over)) return ipu__fail_memory();
    }
    return IPU_OK;
}

static ipu_status walk_unit(liveness *l, const ipu__body *body)
{
    l->unit_number     = (uint32_t)l->units.n;
    l->moment          = 0;
    size_t first_reuse = l->reuses.n, first_span = l->spans.n;
    IPU_TRY(walk_body(l, body));
    unit u = {.first       = l->entries.n,
              .n           = l->seen.n,
              .first_reuse = first_reuse,
              .n_reuses    = l->reuses.n - first_reuse,
              .first_span  = first_span,
              .n_spans     = l->spans.n - first_span};
    for (size_t i = 0; i < l->seen.n; i++) {
        uint32_t     id = l->seen.at[i];
        const state *s  = &l->states[id];
        entry        e  = {id, s->is_exposed, s->killed != NEVER, s->last != NEVER, s->first, s->last};
        if (!ipu__push(&l->entries, e)) return ipu__fail_memory();
        l->states[id].seen = false;
    }
    l->seen.n = 0;
    return ipu__or_memory(ipu__push(&l->units, u));
}

static ipu_status walk_all(liveness *l)
{
    ipu__compiler *c = l->c;
    for (size_t i = 0; i < c->functions.n; i++) IPU_TRY(walk_unit(l, &c->functions.at[i]));
    for (size_t i = 0; i < c->n_programs; i++) {
        uint32_t  program = c->programs[i].id;
        ipu__body body    = {program, (uint32_t)c->g->programs.at[program].steps.n};
        IPU_TRY(walk_unit(l, &body));
    }
    return IPU_OK;
}

/* ---- homes: the unit + 1 that a variable is placed in; 0: no memory; SEVERAL: its own, kept ---- */

static void keep_view(const liveness *l, uint32_t *home, uint32_t view)
{
    ipu__view   v      = ipu__view_get(&l->c->g->views, view);
    ipu__pieces pieces = ipu__view_pieces(&l->c->g->views, &v);
    ipu__piece  piece;
    while (ipu__pieces_next(&pieces, &piece)) {
        home[piece.var]          = SEVERAL;
        l->c->is_used[piece.var] = 1;
    }
}

/* A sum over replicas is written until it is waited for, by whichever program does so. */
static void keep_reduced(const liveness *l, uint32_t *home)
{
    const ipu_graph *g = l->c->g;
    for (size_t i = 0; i < g->programs.n; i++)
        for (size_t k = 0; k < g->programs.at[i].steps.n; k++) {
            const ipu__step *step = &g->programs.at[i].steps.at[k];
            if (step->kind == IPU__STEP_ALL_REDUCE) keep_view(l, home, step->to);
        }
}

static void find_homes(const liveness *l, uint32_t *home)
{
    const ipu_graph *g           = l->c->g;
    size_t           n_functions = l->c->functions.n;
    for (size_t u = 0; u < l->units.n; u++) {
        for (size_t i = l->units.at[u].first; i < l->units.at[u].first + l->units.at[u].n; i++) {
            const entry *e = &l->entries.at[i];
            if (!e->has_moment || home[e->id] == SEVERAL) continue;
            bool is_local = l->direct[e->id] == u + 1 && !e->is_exposed;
            if (is_local)
                home[e->id] = (uint32_t)u + 1;
            else if (u >= n_functions && (home[e->id] == 0 || home[e->id] > n_functions))
                home[e->id] = home[e->id] || e->is_exposed ? SEVERAL : (uint32_t)u + 1;
        }
    }
    for (uint32_t id = 1; id < g->variables.n; id++) l->c->is_kept[id] = home[id] == SEVERAL;
    for (uint32_t id = 0; id < l->n_ids; id++)
        if ((home[id] || l->c->check) && !l->c->share && id < g->variables.n) home[id] = SEVERAL;
    for (size_t i = 0; i < g->host_handles.n; i++) keep_view(l, home, g->host_handles.at[i].view);
    for (size_t i = 0; i < g->initial_values.n; i++) keep_view(l, home, g->initial_values.at[i].view);
    keep_reduced(l, home);
    for (uint32_t id = 1; id < g->variables.n; id++)
        if (g->variables.at[id].kind == IPU__CONSTANT)
            home[id] = 0;
        else if (g->variables.at[id].kind == IPU__REPLICATION_INDEX)
            home[id] = l->c->is_used[id] ? SEVERAL : 0;
}

/* ---- placing ---- */

/* Places have 56 bits; a size far beyond any memory must not overflow before an engine asks for it. */
static ipu_status check_total(const liveness *l, const uint32_t *home)
{
    const int64_t most  = (int64_t)1 << 54;
    int64_t       total = 0;
    for (uint32_t id = 1; id < l->c->g->variables.n && total <= most; id++)
        if (home[id]) total += ipu__memory_room(l->c->engine->spacing, l->bytes[id]);
    if (total <= most) return IPU_OK;
    return ipu__fail(IPU_OUT_OF_MEMORY, "out of memory: the variables have more than 2^54 bytes");
}

static bool collect_tenants(liveness *l, const unit *u, uint32_t home_of_unit, const uint32_t *home)
{
    l->tenants.n = l->leaders.n = 0;
    for (size_t i = u->first; i < u->first + u->n; i++) {
        const entry *e = &l->entries.at[i];
        if (home[e->id] != home_of_unit) continue;
        l->tenant_of[e->id] = (uint32_t)l->tenants.n + 1;
        if (!ipu__push(&l->leaders, (uint32_t)l->tenants.n)
            || !ipu__push(&l->tenants, (ipu__tenant){e->id, e->first, e->last, l->bytes[e->id], 0}))
            return false;
    }
    return true;
}

static uint32_t leader_of(const liveness *l, uint32_t tenant)
{
    while (l->leaders.at[tenant] != tenant) tenant = l->leaders.at[tenant];
    return tenant;
}

/* Moves a kernel's output into the memory of an input that ends there. In step order, so that chains share
 * one memory. */
static void reuse_memory(liveness *l, const unit *u)
{
    for (size_t i = u->first_reuse; i < u->first_reuse + u->n_reuses; i++) {
        const reuse *r = &l->reuses.at[i];
        if (!l->tenant_of[r->from] || !l->tenant_of[r->to]) continue;
        uint32_t     a = leader_of(l, l->tenant_of[r->from] - 1), b = l->tenant_of[r->to] - 1;
        ipu__tenant *from = &l->tenants.at[a], *to = &l->tenants.at[b];
        if (l->leaders.at[b] != b || a == b || from->last != r->moment || to->first != r->moment
            || from->bytes != to->bytes)
            continue;
        /* Keep it beyond this moment even if nothing reads it: no other output of the kernel may be put
         * here. */
        from->last       = to->last > r->moment ? to->last : r->moment + 1;
        l->leaders.at[b] = a;
    }
}

static void cover_spans(liveness *l, const unit *u)
{
    for (size_t i = 0; i < l->tenants.n; i++)
        for (size_t k = u->first_span; k < u->first_span + u->n_spans; k++) {
            const span  *s = &l->spans.at[k];
            ipu__tenant *t = &l->tenants.at[i];
            if (t->first > s->first && t->first <= s->last) t->first = s->first;
            if (t->last >= s->first && t->last < s->last) t->last = s->last;
        }
}

/* Moves leaders to the front and plans them; the others take their offsets. */
static bool plan_tenants(liveness *l, int64_t *offsets, int64_t *bytes)
{
    IPU__ARRAY(ipu__tenant) planned = {0};
    bool ok                         = true;
    for (uint32_t i = 0; ok && i < l->tenants.n; i++)
        if (l->leaders.at[i] == i) ok = ipu__push(&planned, l->tenants.at[i]);
    ok = ok && ipu__memory_plan(planned.at, planned.n, l->c->engine->spacing, bytes);
    for (size_t i = 0; ok && i < planned.n; i++) offsets[planned.at[i].id] = planned.at[i].offset;
    for (uint32_t i = 0; ok && i < l->tenants.n; i++)
        offsets[l->tenants.at[i].id] = offsets[l->tenants.at[leader_of(l, i)].id];
    for (size_t i = 0; i < l->tenants.n; i++) l->tenant_of[l->tenants.at[i].id] = 0;
    ipu__array_fini(&planned);
    return ok;
}

/* Units are ordered callees first, so that a callee's frame has its size. */
static ipu_status plan_units(liveness *l, const uint32_t *home, int64_t *offsets, int64_t *scratch)
{
    *scratch = 0;
    for (size_t u = 0; u < l->units.n; u++) {
        unit *planned = &l->units.at[u];
        if (!collect_tenants(l, planned, (uint32_t)u + 1, home)) return ipu__fail_memory();
        reuse_memory(l, planned);
        cover_spans(l, planned);
        if (!plan_tenants(l, offsets, &planned->bytes)) return ipu__fail_memory();
        if (u < l->c->functions.n)
            l->bytes[l->c->g->variables.n + u] = planned->bytes;
        else if (planned->bytes > *scratch)
            *scratch = planned->bytes;
    }
    return IPU_OK;
}

static int64_t base_of(const liveness *l, uint32_t home)
{
    return home == 0 || home > l->units.n ? 0 : l->units.at[home - 1].base; /* SEVERAL is beyond */
}

static void place_all(liveness *l, const uint32_t *home, int64_t *offsets, int64_t scratch)
{
    size_t          n_variables = l->c->g->variables.n, n_functions = l->c->functions.n;
    ipu_executable *exe = l->c->exe;
    int64_t         end = scratch; /* programs share the beginning; kept variables follow */
    for (uint32_t id = 1; id < l->n_ids; id++) {
        if (home[id] && id < n_variables)
            exe->unshared_bytes += ipu__memory_room(l->c->engine->spacing, l->bytes[id]);
        if (home[id] != SEVERAL) continue;
        offsets[id] = end;
        end += ipu__memory_room(l->c->engine->spacing, l->bytes[id]);
    }
    for (size_t u = l->units.n; u-- > 0;) { /* callers first; programs begin at 0 */
        uint32_t frame      = (uint32_t)(n_variables + u);
        l->units.at[u].base = u < n_functions ? offsets[frame] + base_of(l, home[frame]) : 0;
    }
    for (uint32_t id = 1; id < n_variables; id++)
        l->c->places[id] = ipu__place_make(IPU__SPACE_VARIABLE, offsets[id] + base_of(l, home[id]));
    exe->variable_bytes = end;
}

static ipu_status plan(liveness *l)
{
    const ipu_graph *g       = l->c->g;
    uint32_t        *home    = ipu__alloc_zeroed(l->n_ids * sizeof *home);
    int64_t         *offsets = ipu__alloc_zeroed(l->n_ids * sizeof *offsets);
    int64_t          scratch;
    ipu_status       status = ipu__or_memory(home && offsets);
    if (status == IPU_OK) {
        for (uint32_t id = 1; id < g->variables.n; id++)
            l->bytes[id] = g->variables.at[id].n_elements * (int64_t)ipu_type_size(g->variables.at[id].type);
        find_homes(l, home);
        status = check_total(l, home);
    }
    if (status == IPU_OK) status = plan_units(l, home, offsets, &scratch);
    if (status == IPU_OK) place_all(l, home, offsets, scratch);
    ipu__free(home);
    ipu__free(offsets);
    return status;
}

ipu_status ipu__liveness_plan(ipu__compiler *c)
{
    liveness   l      = {.c = c, .n_ids = (uint32_t)(c->g->variables.n + c->functions.n)};
    ipu_status status = IPU_OUT_OF_MEMORY;
    l.states          = ipu__alloc_zeroed(l.n_ids * sizeof *l.states);
    l.mark            = ipu__alloc_zeroed(l.n_ids * sizeof *l.mark);
    l.direct          = ipu__alloc_zeroed(l.n_ids * sizeof *l.direct);
    l.bytes           = ipu__alloc_zeroed(l.n_ids * sizeof *l.bytes);
    l.tenant_of       = ipu__alloc_zeroed(l.n_ids * sizeof *l.tenant_of);
    if (l.states && l.mark && l.direct && l.bytes && l.tenant_of)
        status = walk_all(&l);
    else
        ipu__fail_memory();
    if (status == IPU_OK) status = plan(&l);
    ipu__free(l.states);
    ipu__free(l.mark);
    ipu__free(l.direct);
    ipu__free(l.bytes);
    ipu__free(l.tenant_of);
    ipu__array_fini(&l.reuses);
    ipu__array_fini(&l.spans);
    ipu__array_fini(&l.leaders);
    ipu__array_fini(&l.seen);
    ipu__array_fini(&l.loops);
    ipu__array_fini(&l.pending);
    ipu__array_fini(&l.kills);
    ipu__array_fini(&l.in_all);
    ipu__array_fini(&l.entries);
    ipu__array_fini(&l.units);
    ipu__array_fini(&l.tenants);
    return status;
}
