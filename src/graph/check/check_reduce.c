/* Sums over replicas are asynchronous: a tensor being summed must not be accessed until the wait.
 *
 * Programs are walked in execution order, tracking the sums in flight. Loops whose body leaves sums in flight are
 * walked twice; branches start from the same state. Only the first problem is reported.
 */
#include <string.h>

#include "graph/check/check.h"

typedef struct walker {
    const ipu_graph   *g;
    ipu__problems     *problems;
    ipu__interval_list begun; /* tag: location of the step */
    ipu__interval_list touched;
    unsigned char     *has_begun; /* by variable: whether part of it may be in `begun` */
    unsigned char     *adds_up; /* by function: whether it contains such a step, directly or through calls */
    const ipu__step   *step;
    bool               is_over; /* a problem was reported */
} walker;

static void walk(walker *w, ipu__body body);

static void give_up(walker *w)
{
    w->problems->out_of_memory = true;
    w->is_over                 = true;
}

/* ---- what a step touches ---- */

static bool may_touch(const walker *w, uint32_t view)
{
    ipu__view   v      = ipu__view_get(&w->g->views, view);
    ipu__pieces pieces = ipu__view_pieces(&w->g->views, &v);
    for (ipu__piece piece; ipu__pieces_next(&pieces, &piece);)
        if (w->has_begun[piece.var]) return true;
    return false;
}

static void report(walker *w, uint32_t location, const ipu__interval *begun)
{
    static const char *const names[] = {
#define X(name, text) [IPU__STEP_##name] = text,
        IPU__STEP_LIST(X)
#undef X
    };
    char where[IPU__WHERE_BYTES];
    ipu__problem(w->problems, location,
                 "this %s step touches %s while it is being added up (all_reduce, %s): add "
                 "ipu_program_add_all_reduce_wait before it",
                 names[w->step->kind], ipu__variable_str(w->g, begun->var),
                 ipu__graph_where(w->g, begun->tag, where));
    w->is_over = true;
}

static void touch(walker *w, uint32_t view)
{
    if (view == 0 || w->is_over || w->begun.list.n == 0 || !may_touch(w, view)) return;
    w->touched.list.n = 0;
    if (!ipu__intervals_add(&w->touched, &w->g->views, view, 0)) {
        give_up(w);
        return;
    }
    for (size_t i = 0; i < w->begun.list.n && !w->is_over; i++) {
        const ipu__interval *a = &w->begun.list.at[i];
        for (size_t k = 0; k < w->touched.list.n && !w->is_over; k++) {
            const ipu__interval *b = &w->touched.list.at[k];
            if (a->var == b->var && a->begin < b->end && b->begin < a->end) report(w, w->step->location, a);
        }
    }
}

static void touch_set(walker *w, uint32_t set)
{
    const ipu_graph *g = w->g;
    for (uint32_t id = g->compute_sets.at[set].first; id && !w->is_over; id = g->vertices.at[id].next) {
        const ipu__vertex  *v       = &g->vertices.at[id];
        const ipu__codelet *codelet = &g->codelets.at[v->codelet];
        for (uint32_t f = 0; f < codelet->n_fields; f++) {
            uint32_t link = g->links.at[v->links + f];
            if (ipu__field_direction(codelet->fields[f].form) == IPU_DIRECTION_STATE) continue;
            if (!(link & IPU__LIST)) {
                touch(w, link);
                continue;
            }
            const uint32_t *list = &g->lists.at[link & ~IPU__LIST];
            for (uint32_t k = 1; k <= list[0]; k++) touch(w, list[k]);
        }
    }
}

static void touch_all(walker *w, const ipu__step *step)
{
    w->step = step;
    touch(w, step->from);
    touch(w, step->to);
    touch(w, step->rows);
    if (step->kind == IPU__STEP_EXECUTE && w->begun.list.n > 0) touch_set(w, step->object);
    if (step->kind != IPU__STEP_KERNEL || w->begun.list.n == 0) return;
    const ipu__kernel_step *k = &w->g->kernel_steps.at[step->object];
    for (int i = 0; i < k->call.n_operands; i++) touch(w, k->views[i]);
}

/* ---- what is begun ---- */

static void begin(walker *w, const ipu__step *step)
{
    size_t first = w->begun.list.n;
    if (!ipu__intervals_add(&w->begun, &w->g->views, step->to, step->location)) {
        give_up(w);
        return;
    }
    for (size_t i = first; i < w->begun.list.n; i++) w->has_begun[w->begun.list.at[i].var] = 1;
}

static void end(walker *w)
{
    for (size_t i = 0; i < w->begun.list.n; i++) w->has_begun[w->begun.list.at[i].var] = 0;
    w->begun.list.n = 0;
}

static bool add_again(walker *w, const ipu__interval_list *list)
{
    for (size_t i = 0; i < list->list.n; i++) {
        if (!ipu__push(&w->begun.list, list->list.at[i])) return false;
        w->has_begun[list->list.at[i].var] = 1;
    }
    return true;
}

/* ---- loops and branches ---- */

static void walk_loop(walker *w, const ipu__step *step)
{
    for (int turn = 0; turn < 2 && !w->is_over; turn++) {
        walk(w, step->other);
        w->step = step;
        touch(w, step->from);
        walk(w, step->body);
        if (w->begun.list.n == 0) return;
    }
}

/* Afterwards, a sum is in flight if it is at the end of any branch. */
static void walk_branches(walker *w, const ipu__step *step)
{
    ipu__interval_list before = {0}, after = {0};
    int64_t            n  = step->kind == IPU__STEP_SWITCH ? step->n : 1;
    bool               ok = true;
    for (size_t i = 0; ok && i < w->begun.list.n; i++) ok = ipu__push(&before.list, w->begun.list.at[i]);
    for (int64_t i = 0; ok && i <= n && !w->is_over; i++) {
        end(w);
        ok = add_again(w, &before);
        if (!ok) break;
        if (i == n)
            walk(w, step->other);
        else
            walk(w, step->kind == IPU__STEP_SWITCH ? step->cases[i].body : step->body);
        for (size_t k = 0; ok && k < w->begun.list.n; k++) ok = ipu__push(&after.list, w->begun.list.at[k]);
    }
    end(w);
    if (!ok || !add_again(w, &after)) give_up(w);
    ipu__intervals_fini(&before);
    ipu__intervals_fini(&after);
}

static void walk_step(walker *w, const ipu__step *step)
{
    switch (step->kind) {
    case IPU__STEP_SEQUENCE: walk(w, step->body); return;
    case IPU__STEP_REPEAT:
    case IPU__STEP_WHILE_TRUE:
    case IPU__STEP_WHILE_FALSE:
        if (step->kind != IPU__STEP_REPEAT || step->n > 0) walk_loop(w, step);
        return;
    case IPU__STEP_IF:
    case IPU__STEP_SWITCH:
        touch_all(w, step);
        walk_branches(w, step);
        return;
    case IPU__STEP_PARALLEL: /* its bodies cannot start sums */
        for (int64_t i = 0; i < step->n; i++) walk(w, step->cases[i].body);
        return;
    case IPU__STEP_CALL:
        if (w->begun.list.n > 0 || w->adds_up[step->object]) walk(w, w->g->functions.at[step->object].body);
        return;
    case IPU__STEP_ALL_REDUCE_WAIT: end(w); return;
    default: break;
    }
    touch_all(w, step);
    if (step->kind == IPU__STEP_ALL_REDUCE && !w->is_over) begin(w, step);
}

static void walk(walker *w, ipu__body body)
{
    for (uint32_t i = 0; i < body.n_steps && !w->is_over; i++)
        walk_step(w, &w->g->programs.at[body.program].steps.at[i]);
}

/* ---- where there is anything to do ---- */

static bool adds_up(const walker *w, ipu__body body)
{
    for (uint32_t i = 0; i < body.n_steps; i++) {
        const ipu__step *step = &w->g->programs.at[body.program].steps.at[i];
        if (step->kind == IPU__STEP_ALL_REDUCE) return true;
        if (step->kind == IPU__STEP_CALL && w->adds_up[step->object]) return true;
        if (adds_up(w, step->body) || adds_up(w, step->other)) return true;
        for (int64_t k = 0; step->cases && k < step->n; k++)
            if (adds_up(w, step->cases[k].body)) return true;
    }
    return false;
}

static bool has_any(const ipu_graph *g)
{
    for (size_t i = 0; i < g->programs.n; i++)
        for (size_t k = 0; k < g->programs.at[i].steps.n; k++)
            if (g->programs.at[i].steps.at[k].kind == IPU__STEP_ALL_REDUCE) return true;
    return false;
}

static void check_program(walker *w, uint32_t program)
{
    walk(w, (ipu__body){program, (uint32_t)w->g->programs.at[program].steps.n});
    if (!w->is_over && w->begun.list.n > 0)
        ipu__problem(w->problems, w->begun.list.at[0].tag,
                     "the program ends while %s is being added up: add ipu_program_add_all_reduce_wait",
                     ipu__variable_str(w->g, w->begun.list.at[0].var));
    end(w);
}

void ipu__reduce_check(ipu__problems *problems, const ipu_program *programs, size_t n)
{
    const ipu_graph *g = problems->g;
    walker           w = {.g = g, .problems = problems};
    if (!has_any(g)) return;
    w.has_begun = ipu__alloc_zeroed(g->variables.n);
    w.adds_up   = ipu__alloc_zeroed(g->functions.n + 1);
    if (w.has_begun && w.adds_up) {
        for (size_t i = 0; i < g->functions.n; i++) /* functions it calls come before it */
            w.adds_up[i] = adds_up(&w, g->functions.at[i].body);
        for (size_t i = 0; i < n && !w.is_over; i++) check_program(&w, programs[i].id);
    } else {
        problems->out_of_memory = true;
    }
    ipu__free(w.has_begun);
    ipu__free(w.adds_up);
    ipu__intervals_fini(&w.begun);
    ipu__intervals_fini(&w.touched);
}
