/* Runs of kernels that may run depth first: some rows of the batch through all of them, then the next rows.
 *
 * Rows then stay in the cache of the thread that computed them from one kernel to the next, and threads need not
 * wait for one another. Variables of a run cannot share memory (liveness.c), so runs are limited to where the engine
 * gains.
 */
#include <string.h>

#include "engine/compile.h"

enum { MOST_VARIABLES = 256 };

typedef struct touched {
    uint32_t var;
    bool     is_written, is_same; /* for all rows */
} touched;

typedef struct run {
    const ipu__compiler     *c;
    const ipu__engine_depth *depth;
    int64_t                  n_rows;
    touched                  at[MOST_VARIABLES];
    int                      n;
} run;

/* The variable that contains the view in one run; 0 if there are several, or it is not contiguous. */
static uint32_t variable_of(const run *r, uint32_t view, bool *is_whole)
{
    ipu__run at;
    if (!ipu__view_contiguous(&r->c->g->views, view, &at) || at.count == 0) return 0;
    *is_whole = at.start == 0 && at.count == r->c->g->variables.at[at.var].n_elements;
    return at.var;
}

/* Whether a further use is compatible with earlier ones: rows with rows, and operands shared by all rows with
 * variables that nothing in the run writes. */
static bool add(run *r, uint32_t var, bool is_written, bool is_same)
{
    for (int i = 0; i < r->n; i++) {
        touched *t = &r->at[i];
        if (t->var != var) continue;
        if (t->is_same != is_same && (t->is_written || is_written)) return false;
        t->is_written |= is_written;
        t->is_same &= is_same;
        return true;
    }
    if (r->n == MOST_VARIABLES) return false;
    r->at[r->n++] = (touched){var, is_written, is_same};
    return true;
}

static bool add_operand(run *r, const ipu__kernel_step *k, int i, bool is_rows)
{
    bool                     is_whole, is_written = k->call.def->operands[i].access != IPU__ACCESS_READ;
    const ipu__kernel_value *value = &k->call.operand[i];
    uint32_t                 var   = variable_of(r, k->views[i], &is_whole);
    double                   bytes = (double)ipu_type_size(value->type);
    if (!ipu__kernel_has(&k->call, i)) return true;
    if (var == 0) return false;
    for (int d = 0; d < value->shape.rank; d++) bytes *= (double)value->shape.dim[d];
    if (!is_rows) return !is_written && bytes <= (double)r->depth->same_bytes && add(r, var, false, true);
    return is_whole && value->shape.dim[0] == r->n_rows
        && bytes <= (double)r->n_rows * (double)r->depth->row_bytes && add(r, var, is_written, false);
}

static bool add_kernel(run *r, const ipu__kernel_step *k)
{
    uint32_t rows = ipu__kernel_rows(&k->call);
    for (int i = 0; rows && r->n_rows == 0 && i < k->call.n_operands; i++)
        if (rows & (uint32_t)1 << i) r->n_rows = k->call.operand[i].shape.dim[0];
    if (!rows || r->n_rows < 2 * r->depth->rows || r->n_rows % r->depth->rows != 0) return false;
    for (int i = 0; i < k->call.n_operands; i++)
        if (!add_operand(r, k, i, (rows & (uint32_t)1 << i) != 0)) return false;
    return true;
}

uint32_t ipu__rows_run(const ipu__compiler *c, const ipu__step *steps, uint32_t n)
{
    run      r = {.c = c, .depth = c->engine->depth};
    uint32_t i = 0;
    while (r.depth && i < n && steps[i].kind == IPU__STEP_KERNEL
           && add_kernel(&r, &c->g->kernel_steps.at[steps[i].object]))
        i++;
    return i > 1 ? i : 0;
}
