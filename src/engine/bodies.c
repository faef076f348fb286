/* What the bodies of parallel steps reach, in the code of an executable.
 *
 * requires: code checked by validate_code.c: functions, then programs, where calls and bodies refer to earlier
 * functions. Does not change the executable.
 */
#include "engine/file/validate.h"

/* Instructions [begin, end) of a function. */
typedef struct range {
    uint32_t begin, end;
} range;

/* By function; NULL on allocation failure. */
static range *find_functions(const ipu_executable *exe)
{
    range   *functions = ipu__alloc_zeroed(exe->n_functions * sizeof *functions);
    uint32_t n = 0, begin = 0;
    for (uint32_t pc = 0; functions && n < exe->n_functions && pc < exe->code.n; pc++) {
        if (exe->code.at[pc].op != IPU__CODE_RETURN) continue;
        functions[n++] = (range){begin, pc + 1};
        begin          = pc + 1;
    }
    return functions;
}

/* ---- kernels ---- */

ipu_status ipu__exe_kernels_in_bodies(const ipu_executable *exe, bool *in_body)
{
    range *functions = find_functions(exe);
    bool  *reached   = ipu__alloc_zeroed(exe->n_functions);
    for (size_t pc = 0; functions && reached && pc < exe->code.n; pc++) {
        const ipu__instruction *i = &exe->code.at[pc];
        for (uint64_t k = 0; i->op == IPU__CODE_PARALLEL && k < i->n; k++) reached[i->b + k] = true;
    }
    for (uint32_t f = exe->n_functions; functions && reached && f-- > 0;) { /* callers first */
        for (uint32_t pc = functions[f].begin; reached[f] && pc < functions[f].end; pc++) {
            const ipu__instruction *i = &exe->code.at[pc];
            if (i->op == IPU__CODE_CALL) reached[i->a] = true;
            if (i->op == IPU__CODE_KERNEL) in_body[i->a] = true;
        }
    }
    bool ok = functions && reached;
    ipu__free(functions);
    ipu__free(reached);
    return ipu__or_memory(ok);
}

/* ---- that bodies share nothing which a run changes, but for values ---- */

/* The last body that used an object. */
typedef struct claim {
    size_t   step; /* parallel instruction + 1 */
    uint64_t body;
} claim;

enum { MOST_VISITS = 1 << 28 }; /* limit on instructions visited, over all bodies: a second or so */

typedef struct checker {
    const ipu_executable *exe;
    range                *functions;
    bool                 *is_barred; /* by function: bodies must not reach it */
    claim                *claims;    /* functions, kernels, compute sets, counters, streams */
    size_t                first_kernel, first_set, first_counter, first_stream;
    size_t                step;
    uint64_t              body;
    int64_t               n_visits;
} checker;

static bool is_barred(const checker *c, const ipu__instruction *i)
{
    return i->op == IPU__CODE_PARALLEL || i->op == IPU__CODE_CROSS_REPLICA || i->op == IPU__CODE_ALL_REDUCE
        || i->op == IPU__CODE_ALL_REDUCE_WAIT || (i->op == IPU__CODE_CALL && c->is_barred[i->a]);
}

static void find_barred(checker *c)
{
    for (uint32_t f = 0; f < c->exe->n_functions; f++) /* callees first */
        for (uint32_t pc = c->functions[f].begin; pc < c->functions[f].end; pc++)
            c->is_barred[f] |= is_barred(c, &c->exe->code.at[pc]);
}

/* What only one body may use; a value of at least c->exe->n_functions otherwise. */
static size_t claimed_by(const checker *c, const ipu__instruction *i)
{
    switch (i->op) {
    case IPU__CODE_CALL: return i->a;
    case IPU__CODE_KERNEL: return c->first_kernel + i->a;
    case IPU__CODE_EXECUTE: return c->first_set + i->a;
    case IPU__CODE_REPEAT:
    case IPU__CODE_AGAIN: return c->first_counter + i->a;
    case IPU__CODE_READ:
    case IPU__CODE_WRITE: return c->first_stream + c->exe->transfers.at[i->a].object;
    default: return SIZE_MAX;
    }
}

/* Returns false if another body of this step has it. `*is_new`: this one did not have it before. */
static bool take(checker *c, size_t thing, bool *is_new)
{
    claim *x = &c->claims[thing];
    *is_new  = x->step != c->step;
    if (*is_new) *x = (claim){c->step, c->body};
    return x->body == c->body;
}

/* Calls nest as deep as there are functions, so instead of recursion there is a list of pending ones, marked by
 * their claims. Callees come before callers, so one pass down from the body finds all. */
static ipu_status check_body(checker *c, uint32_t body)
{
    bool is_new;
    IPU__REQUIRE(!c->is_barred[body], "function", body, "is a body and holds what bodies may not");
    IPU__REQUIRE(take(c, body, &is_new), "function", body, "is run by two bodies of a parallel step");
    for (uint32_t f = body + 1; f-- > 0;) {
        const claim *x = &c->claims[f];
        if (x->step != c->step || x->body != c->body) continue;
        for (uint32_t pc = c->functions[f].begin; pc < c->functions[f].end; pc++) {
            size_t thing = claimed_by(c, &c->exe->code.at[pc]);
            IPU__REQUIRE(thing == SIZE_MAX || take(c, thing, &is_new), "instruction", pc,
                         "shares what it uses with another body of its parallel step");
        }
        c->n_visits += c->functions[f].end - c->functions[f].begin;
    }
    c->n_visits += body;
    IPU__REQUIRE(c->n_visits < MOST_VISITS, "function", body,
                 "there are too many bodies with too many instructions");
    return IPU_OK;
}

static ipu_status check_steps(checker *c)
{
    find_barred(c);
    for (size_t pc = 0; pc < c->exe->code.n; pc++) {
        const ipu__instruction *i = &c->exe->code.at[pc];
        if (i->op != IPU__CODE_PARALLEL) continue;
        c->step = pc + 1;
        for (c->body = 0; c->body < i->n; c->body++) IPU_TRY(check_body(c, i->b + (uint32_t)c->body));
    }
    return IPU_OK;
}

ipu_status ipu__validate_bodies(const ipu_executable *exe)
{
    if (exe->bodies.n == 0) return IPU_OK;
    checker c         = {.exe = exe};
    c.first_kernel    = exe->n_functions;
    c.first_set       = c.first_kernel + exe->kernels.n;
    c.first_counter   = c.first_set + exe->sets.n;
    c.first_stream    = c.first_counter + exe->n_counters;
    c.functions       = find_functions(exe);
    c.is_barred       = ipu__alloc_zeroed(exe->n_functions);
    c.claims          = ipu__alloc_zeroed((c.first_stream + exe->streams.n) * sizeof *c.claims);
    bool       ok     = c.functions && c.is_barred && c.claims;
    ipu_status status = ok ? check_steps(&c) : ipu__fail_memory();
    ipu__free(c.functions);
    ipu__free(c.is_barred);
    ipu__free(c.claims);
    return status;
}
