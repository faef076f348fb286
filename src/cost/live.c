/* When variables are live, at the granularity of variables and rows.
 *
 * Each unit is walked once, callees first. A variable is live from its first access to its last, and
 * throughout a loop in which a value from before the iteration may be read. One that a program may read
 * before writing it completely keeps its value between runs: it is always live, as are constants and
 * anything the host can access. A variable that only one unit accesses, and always writes first, belongs to
 * that unit; callers see others as accesses of the call.
 * requires: walk. Produces entries and is_always_live.
 */
#include <string.h>

#include "cost/cost.h"

enum { NEVER = -1 };
#define SEVERAL UINT32_MAX

typedef struct state {
    bool     seen, is_exposed;
    uint32_t extended;            /* number of the loop it must cover */
    int64_t  first, last, killed; /* killed: row at which, on the current path */
} state;

typedef struct loop {
    uint32_t number;
    int64_t  start;
    size_t   pending; /* list, from 1 */
} loop;

typedef struct pending {
    uint32_t var;
    size_t   next;
} pending;

typedef struct kill {
    uint32_t var;
    int64_t  before;
} kill;

typedef struct branches {
    size_t kills, in_all; /* where its parts of the two stacks start */
    bool   is_first;
} branches;

typedef struct liveness {
    ipu__pricer *p;
    uint32_t    *direct; /* by variable: unit + 1 if only one accesses it directly; SEVERAL */
    uint32_t    *mark, n_marks;
    state       *states;
    int64_t      row;
    uint32_t     n_loops;
    IPU__ARRAY(uint32_t) seen;
    IPU__ARRAY(uint32_t) in_all; /* killed in all branches so far */
    IPU__ARRAY(loop) loops;
    IPU__ARRAY(pending) pending;
    IPU__ARRAY(kill) kills;
    IPU__ARRAY(branches) branches;
} liveness;

/* ---- accesses ---- */

static bool touch(liveness *l, uint32_t var)
{
    state *s = &l->states[var];
    if (!s->seen) {
        *s = (state){.seen = true, .first = l->row, .last = l->row, .killed = NEVER};
        if (!ipu__push(&l->seen, var)) return false;
    }
    if (l->row < s->first) s->first = l->row;
    if (l->row > s->last) s->last = l->row;
    return true;
}

/* The previous value matters: cover the outermost loop that it may have passed through. */
static bool expose(liveness *l, uint32_t var)
{
    state *s = &l->states[var];
    if (s->killed == NEVER) s->is_exposed = true;
    for (size_t i = 0; i < l->loops.n; i++) {
        loop *around = &l->loops.at[i];
        if (s->killed >= around->start) continue;
        if (s->extended == around->number) return true;
        s->extended = around->number;
        if (around->start < s->first) s->first = around->start;
        if (!ipu__push(&l->pending, (pending){var, around->pending})) return false;
        around->pending = l->pending.n;
        return true;
    }
    return true;
}

static bool note_kill(liveness *l, uint32_t var)
{
    if (l->branches.n > 0 && !ipu__push(&l->kills, (kill){var, l->states[var].killed})) return false;
    l->states[var].killed = l->row;
    return true;
}

static bool apply_access(liveness *l, const ipu__cost_access *a)
{
    if (l->p->g->variables.at[a->var].kind != IPU__VARIABLE) {
        l->p->is_always_live[a->var] = true;
        return true;
    }
    /* If dropped before use, it begins there, even if it is then written piecemeal. */
    bool is_dropped = !a->is_exposed && !a->is_killed;
    if ((!is_dropped || !l->states[a->var].seen) && !touch(l, a->var)) return false;
    if (a->is_exposed && !expose(l, a->var)) return false;
    return (!a->is_killed && !is_dropped) || note_kill(l, a->var);
}

/* How a call affects what is not the callee's own. */
static bool access_callee(liveness *l, const ipu__unit *callee)
{
    for (size_t i = 0; i < callee->entries.n; i++) {
        const ipu__entry *e = &callee->entries.at[i];
        if (!e->is_outside) continue;
        if (!touch(l, e->access.var)) return false;
        if (e->access.is_exposed && !expose(l, e->access.var)) return false;
        if (e->access.is_killed && !note_kill(l, e->access.var)) return false;
    }
    return true;
}

static bool access_row(liveness *l, const ipu__cost_row *row)
{
    for (size_t i = 0; i < row->accesses.n; i++)
        if (!apply_access(l, &l->p->accesses.at[row->accesses.first + i])) return false;
    return row->callee == IPU__NO_UNIT || access_callee(l, &l->p->units.at[row->callee]);
}

/* ---- loops and branches ---- */

static bool end_loop(liveness *l)
{
    if (l->loops.n == 0) return false; /* the walk opens before it closes */
    loop ended = l->loops.at[--l->loops.n];
    for (size_t i = ended.pending; i; i = l->pending.at[i - 1].next) {
        state *s = &l->states[l->pending.at[i - 1].var];
        if (l->row > s->last) s->last = l->row;
    }
    return true;
}

/* Undoes the kills of a branch; keeps in `in_all` those shared by all branches so far. */
static bool end_branch(liveness *l)
{
    if (l->branches.n == 0) return false; /* the walk opens before it closes */
    branches *b = &l->branches.at[l->branches.n - 1];
    size_t    n = b->in_all;
    l->n_marks++;
    for (size_t i = l->kills.n; i-- > b->kills;) {
        kill k                  = l->kills.at[i];
        l->states[k.var].killed = k.before;
        bool is_new             = l->mark[k.var] != l->n_marks;
        l->mark[k.var]          = l->n_marks;
        if (b->is_first && is_new && !ipu__push(&l->in_all, k.var)) return false;
    }
    for (size_t i = n; !b->is_first && i < l->in_all.n; i++)
        if (l->mark[l->in_all.at[i]] == l->n_marks) l->in_all.at[n++] = l->in_all.at[i];
    if (!b->is_first) l->in_all.n = n;
    l->kills.n  = b->kills;
    b->is_first = false;
    return true;
}

static bool end_branches(liveness *l)
{
    if (!end_branch(l)) return false;
    branches b = l->branches.at[--l->branches.n];
    for (size_t i = b.in_all; i < l->in_all.n; i++)
        if (!note_kill(l, l->in_all.at[i])) return false;
    l->in_all.n = b.in_all;
    return true;
}

static bool apply(liveness *l, const ipu__unit *u, ipu__shape_mark m)
{
    switch (m.kind) {
    case IPU__SHAPE_ROW: l->row = m.row; return access_row(l, &u->rows.at[m.row]);
    case IPU__SHAPE_LOOP: return ipu__push(&l->loops, (loop){++l->n_loops, m.row, 0});
    case IPU__SHAPE_END_LOOP: return end_loop(l);
    case IPU__SHAPE_BRANCHES: return ipu__push(&l->branches, (branches){l->kills.n, l->in_all.n, true});
    case IPU__SHAPE_NEXT_BRANCH: return end_branch(l);
    case IPU__SHAPE_END_BRANCHES: return end_branches(l);
    }
    return true;
}

/* ---- units ---- */

static bool close_unit(liveness *l, size_t number)
{
    ipu__unit *u = &l->p->units.at[number];
    for (size_t i = 0; i < l->seen.n; i++) {
        uint32_t   var = l->seen.at[i];
        state     *s   = &l->states[var];
        ipu__entry e   = {
              .access = {var, s->is_exposed, s->killed != NEVER}, .first = s->first, .last = s->last};
        e.is_outside = s->is_exposed || l->direct[var] != number + 1;
        if (u->is_program && s->is_exposed) l->p->is_always_live[var] = true;
        if (!ipu__push(&u->entries, e)) return false;
        *s = (state){0};
    }
    l->seen.n = l->pending.n = 0;
    return true;
}

static bool walk_unit(liveness *l, size_t number)
{
    const ipu__unit *u = &l->p->units.at[number];
    for (size_t i = 0; i < u->shape.n; i++)
        if (!apply(l, u, u->shape.at[i])) return false;
    return close_unit(l, number);
}

static void find_owners(liveness *l)
{
    const ipu__pricer *p = l->p;
    for (size_t u = 0; u < p->units.n; u++)
        for (size_t r = 0; r < p->units.at[u].rows.n; r++) {
            ipu__cost_slice a = p->units.at[u].rows.at[r].accesses;
            for (size_t i = a.first; i < a.first + a.n; i++) {
                uint32_t *direct = &l->direct[p->accesses.at[i].var];
                *direct          = *direct == 0 || *direct == u + 1 ? (uint32_t)u + 1 : SEVERAL;
            }
        }
}

static void keep_for_host(ipu__pricer *p)
{
    for (size_t i = 0; i < p->g->host_handles.n; i++) {
        ipu__view   v      = ipu__view_get(&p->g->views, p->g->host_handles.at[i].view);
        ipu__pieces pieces = ipu__view_pieces(&p->g->views, &v);
        for (ipu__piece piece; ipu__pieces_next(&pieces, &piece);) p->is_always_live[piece.var] = true;
    }
}

ipu_status ipu__cost_live(ipu__pricer *p)
{
    size_t   n  = p->g->variables.n;
    liveness l  = {.p      = p,
                   .direct = ipu__alloc_zeroed(n * sizeof *l.direct),
                   .mark   = ipu__alloc_zeroed(n * sizeof *l.mark),
                   .states = ipu__alloc_zeroed(n * sizeof *l.states)};
    bool     ok = l.direct && l.mark && l.states;
    if (ok) {
        keep_for_host(p);
        find_owners(&l);
    }
    for (size_t i = 0; ok && i < p->units.n; i++) ok = walk_unit(&l, i);
    ipu__free(l.direct);
    ipu__free(l.mark);
    ipu__free(l.states);
    ipu__array_fini(&l.seen);
    ipu__array_fini(&l.in_all);
    ipu__array_fini(&l.loops);
    ipu__array_fini(&l.pending);
    ipu__array_fini(&l.kills);
    ipu__array_fini(&l.branches);
    return ok ? IPU_OK : ipu__fail_memory();
}
