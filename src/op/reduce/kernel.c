/* Reductions run: the reference, and a tree of leaves, split over outputs or, if these are few, over leaves.
 *
 * Where leaves are split, each part leaves partial results in the state; whoever comes last combines them.
 */
#include "op/reduce/reduce.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "op/vector/floats.h"
#include "op/number.h"

enum { X, OUT };

/* ---- the meaning: sums in double, or in 64 bits ---- */

static double fold_number(ipu__reduce_kind kind, double sum, double v)
{
    switch (kind) {
    case IPU__REDUCE_SUM:
    case IPU__REDUCE_MEAN: return sum + v;
    case IPU__REDUCE_SUM_SQUARE: return sum + v * v;
    case IPU__REDUCE_PROD: return sum * v;
    case IPU__REDUCE_MAX: return v > sum || isnan(v) ? v : sum;
    default: return v < sum || isnan(v) ? v : sum;
    }
}

static int64_t fold_whole(ipu__reduce_kind kind, int64_t sum, int64_t v)
{
    switch (kind) {
    case IPU__REDUCE_SUM: return (int64_t)((uint64_t)sum + (uint64_t)v);
    case IPU__REDUCE_SUM_SQUARE: return (int64_t)((uint64_t)sum + (uint64_t)v * (uint64_t)v);
    case IPU__REDUCE_PROD: return (int64_t)((uint64_t)sum * (uint64_t)v);
    case IPU__REDUCE_MAX:
    case IPU__REDUCE_ANY: return v > sum ? v : sum;
    default: return v < sum ? v : sum;
    }
}

/* Where element `j` of output `i` lies. */
static int64_t element(const ipu__reduction *r, int64_t i, int64_t j)
{
    int64_t run = r->run, in_run = r->is_run_reduced ? j % run : i % run;
    if (r->is_run_reduced)
        j /= run;
    else
        i /= run;
    return ipu__reduce_offset(&r->kept, i) + ipu__reduce_offset(&r->reduced, j) + in_run;
}

static void ref_floating(const ipu__reduction *r, ipu__reduce_kind kind, ipu_type type, void *const *operand)
{
    double start = kind == IPU__REDUCE_PROD ? 1
                 : kind == IPU__REDUCE_MAX  ? -HUGE_VAL
                 : kind == IPU__REDUCE_MIN  ? HUGE_VAL
                                            : 0;
    for (int64_t i = 0; i < r->n_out; i++) {
        double sum = start;
        for (int64_t j = 0; j < r->n_each; j++)
            sum = fold_number(kind, sum, ipu__number_load(type, operand[X], element(r, i, j)));
        if (kind == IPU__REDUCE_MEAN) sum /= (double)r->n_each;
        ipu__number_store(type, operand[OUT], i, sum);
    }
}

static void ref_whole(const ipu__reduction *r, ipu__reduce_kind kind, ipu_type type, void *const *operand)
{
    size_t  bytes = ipu_type_size(type);
    int64_t start = kind == IPU__REDUCE_PROD || kind == IPU__REDUCE_ALL ? 1
                  : kind == IPU__REDUCE_MAX                             ? INT64_MIN
                  : kind == IPU__REDUCE_MIN                             ? INT64_MAX
                                                                        : 0;
    /* uint64 in the order of int64 */
    bool    is_extreme = kind == IPU__REDUCE_MAX || kind == IPU__REDUCE_MIN;
    int64_t turn       = is_extreme && type == IPU_UINT64 ? INT64_MIN : 0;
    for (int64_t i = 0; i < r->n_out; i++) {
        int64_t sum = start;
        for (int64_t j = 0; j < r->n_each; j++)
            sum = fold_whole(kind, sum, ipu__whole_load(type, operand[X], element(r, i, j)) ^ turn);
        sum ^= turn;
        memcpy((char *)operand[OUT] + (size_t)i * bytes, &sum, bytes); /* low bytes first: it wraps */
    }
}

void ipu__reduce_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__reduction   r    = ipu__reduction_of(call);
    ipu__reduce_kind kind = ipu__reduce_kind_of(call);
    ipu_type         type = call->operand[X].type;
    (ipu__op_is_floating(type) ? ref_floating : ref_whole)(&r, kind, type, operand);
}

/* ---- how a call is cut ---- */

static const struct {
    ipu__reduce_fold leaf, merge;
} folds[IPU__N_REDUCE_KINDS] = {
    [IPU__REDUCE_SUM]        = {IPU__FOLD_SUM, IPU__FOLD_SUM},
    [IPU__REDUCE_MEAN]       = {IPU__FOLD_SUM, IPU__FOLD_SUM},
    [IPU__REDUCE_SUM_SQUARE] = {IPU__FOLD_SUM_SQUARE, IPU__FOLD_SUM},
    [IPU__REDUCE_PROD]       = {IPU__FOLD_PROD, IPU__FOLD_PROD},
    [IPU__REDUCE_MAX]        = {IPU__FOLD_MAX, IPU__FOLD_MAX},
    [IPU__REDUCE_MIN]        = {IPU__FOLD_MIN, IPU__FOLD_MIN},
    [IPU__REDUCE_ANY]        = {IPU__FOLD_MAX, IPU__FOLD_MAX},
    [IPU__REDUCE_ALL]        = {IPU__FOLD_MIN, IPU__FOLD_MIN},
};

static const struct {
    ipu__reduce_sum sum;
    size_t          bytes;
} sums[IPU_N_TYPES] = {
    [IPU_FLOAT] = {IPU__SUM_FLOAT, 4},    [IPU_HALF] = {IPU__SUM_FLOAT, 4},
    [IPU_BFLOAT16] = {IPU__SUM_FLOAT, 4}, [IPU_DOUBLE] = {IPU__SUM_DOUBLE, 8},
    [IPU_INT8] = {IPU__SUM_INT8, 1},      [IPU_UINT8] = {IPU__SUM_UINT8, 1},
    [IPU_INT16] = {IPU__SUM_INT16, 2},    [IPU_UINT16] = {IPU__SUM_UINT16, 2},
    [IPU_INT32] = {IPU__SUM_INT32, 4},    [IPU_UINT32] = {IPU__SUM_UINT32, 4},
    [IPU_INT64] = {IPU__SUM_INT64, 8},    [IPU_UINT64] = {IPU__SUM_UINT64, 8},
    [IPU_BOOL] = {IPU__SUM_BOOL, 1},
};

/* A job is some outputs that lie next to each other. If there are few, leaves are dealt out in blocks. */
typedef struct state {
    ipu__reduction           r;
    ipu__reduce_kind         kind;
    ipu_type                 type;
    const ipu__reduce_loops *leaf, *merge;
    size_t                   bytes;     /* of a partial result */
    int64_t                  n_columns; /* of a job, but the last of a run */
    int64_t                  jobs_each; /* per combination of kept dimensions, where the run is kept */
    int64_t                  n_jobs, leaves_per_run, n_leaves;
    int64_t                  block, n_blocks; /* leaves; a power of 2, so that the tree is the same */
    int                      n_levels;
    char                    *partials; /* n_blocks x n_out, if there is more than one block */
    atomic_int               n_left;   /* parts that have not yet finished */
} state;

static int64_t clamp(int64_t n, int64_t least, int64_t most)
{
    return n < least ? least : n > most ? most : n;
}

static void cut_columns(state *s, int n_parts)
{
    const ipu__reduction *r = &s->r;
    if (r->is_run_reduced) {
        s->n_columns = clamp(r->kept.n / (4 * n_parts), 1, IPU__REDUCE_COLUMNS);
        s->n_jobs    = ipu__op_ceil_div(r->kept.n, s->n_columns);
        return;
    }
    s->n_columns = clamp(r->run, 1, IPU__REDUCE_COLUMNS);
    if (r->kept.n < 4 * n_parts) {
        int64_t share = ipu__op_ceil_div(r->run, n_parts);
        s->n_columns  = clamp((share + 15) / 16 * 16, 64, s->n_columns > 64 ? s->n_columns : 64);
    }
    s->jobs_each = ipu__op_ceil_div(r->run, s->n_columns);
    s->n_jobs    = r->kept.n * s->jobs_each;
}

static void cut_leaves(state *s, int n_parts)
{
    const ipu__reduction *r = &s->r;
    s->leaves_per_run       = r->is_run_reduced ? ipu__op_ceil_div(r->run, IPU__REDUCE_LEAF) : 0;
    s->n_leaves             = r->is_run_reduced ? r->reduced.n * s->leaves_per_run
                                                : ipu__op_ceil_div(r->reduced.n, IPU__REDUCE_ROWS);
    s->n_blocks             = 1;
    for (int64_t n = s->n_leaves; n > 0; n /= 2) s->n_levels++;
    s->n_levels += 1;
    if (n_parts == 1 || s->n_jobs == 0 || s->n_jobs >= 4 * n_parts) return;
    s->block = 1;
    while (ipu__op_ceil_div(s->n_leaves, s->block) * s->n_jobs > 8 * n_parts) s->block *= 2;
    int64_t n_blocks = ipu__op_ceil_div(s->n_leaves, s->block);
    if (n_blocks > 1) s->n_blocks = n_blocks;
}

static state cut(const ipu__kernel_call *call, int n_parts)
{
    state s = {
        .r = ipu__reduction_of(call), .kind = ipu__reduce_kind_of(call), .type = call->operand[X].type};
    const ipu__reduce_loops *loops = IPU__SIMD_PICK(ipu__reduce_loops_at).at[sums[s.type].sum];
    s.leaf                         = &loops[folds[s.kind].leaf];
    s.merge                        = &loops[folds[s.kind].merge];
    s.bytes                        = sums[s.type].bytes;
    cut_columns(&s, n_parts);
    cut_leaves(&s, n_parts);
    return s;
}

static bool needs_floats(ipu_type type) { return type == IPU_HALF || type == IPU_BFLOAT16; }

static size_t results_bytes(const state *s) { return ((size_t)s->n_columns * s->bytes + 63) / 64 * 64; }

/* The results of a job, a level of the tree each, and elements as floats. */
static size_t tree_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    state  s      = cut(call, n_parts);
    size_t floats = needs_floats(s.type) ? IPU__REDUCE_LEAF * sizeof(float) : 0;
    return floats + results_bytes(&s) * (size_t)(1 + s.n_levels);
}

/* ---- leaves and the tree ---- */

static const void *as_floats(ipu_type type, const char *x, int64_t n, float *floats)
{
    return needs_floats(type) ? ipu__floats_get(type, x, 0, n, floats) : (const void *)x;
}

static void fold_rows(const state *s, const char *x, ipu_interval rows, int64_t n_columns, void *acc,
                      float *floats)
{
    const ipu__reduce_dims *reduced = &s->r.reduced;
    size_t                  size    = ipu_type_size(s->type);
    if (!needs_floats(s->type) && reduced->rank == 1) {
        s->leaf->rows(acc, x + (size_t)(rows.begin * reduced->step[0]) * size, rows.end - rows.begin,
                      reduced->step[0], n_columns);
        return;
    }
    for (int64_t row = rows.begin; row < rows.end; row++) {
        const char *at = x + (size_t)ipu__reduce_offset(reduced, row) * size;
        s->leaf->rows(acc, as_floats(s->type, at, n_columns, floats), 1, 0, n_columns);
    }
}

static void fill_identity(const state *s, void *acc, int64_t n_columns)
{
    s->leaf->run(NULL, 0, acc); /* of nothing */
    size_t all = (size_t)n_columns * s->bytes;
    for (size_t done = s->bytes; done < all; done *= 2)
        memcpy((char *)acc + done, acc, done < all - done ? done : all - done);
}

static void do_leaf(const state *s, const char *x, int64_t leaf, int64_t n_columns, void *acc, float *floats)
{
    if (!s->r.is_run_reduced) {
        int64_t begin = leaf * IPU__REDUCE_ROWS, end = begin + IPU__REDUCE_ROWS;
        fill_identity(s, acc, n_columns);
        fold_rows(s, x, (ipu_interval){begin, end < s->r.reduced.n ? end : s->r.reduced.n}, n_columns, acc,
                  floats);
        return;
    }
    int64_t run = leaf / s->leaves_per_run, begin = leaf % s->leaves_per_run * IPU__REDUCE_LEAF;
    int64_t n  = s->r.run - begin < IPU__REDUCE_LEAF ? s->r.run - begin : IPU__REDUCE_LEAF;
    int64_t at = ipu__reduce_offset(&s->r.reduced, run) + begin;
    s->leaf->run(as_floats(s->type, x + (size_t)at * ipu_type_size(s->type), n, floats), n, acc);
}

/* Results that wait to be combined: of 2^k leaves each, the larger ones below. */
typedef struct tree {
    const state *s;
    char        *scratch;
    int64_t      n_columns, n; /* n: results that came so far */
    int          top;          /* how many wait */
} tree;

static char *tree_level(const tree *t, int level) { return t->scratch + results_bytes(t->s) * (size_t)level; }

static void tree_join(tree *t)
{
    t->top--;
    t->s->merge->rows(tree_level(t, t->top - 1), tree_level(t, t->top), 1, 0, t->n_columns);
}

/* A result has been put at level `top`: two of the same size become one. */
static void tree_push(tree *t)
{
    t->top++;
    t->n++;
    for (int64_t n = t->n; n % 2 == 0; n /= 2) tree_join(t);
}

static void tree_end(tree *t, void *acc)
{
    while (t->top > 1) tree_join(t);
    if (t->top == 0)
        fill_identity(t->s, acc, t->n_columns);
    else
        memcpy(acc, t->scratch, (size_t)t->n_columns * t->s->bytes);
}

/* Leaves of the elements at `x`. */
static void do_leaves(const state *s, const char *x, ipu_interval leaves, int64_t n_columns, void *acc,
                      char *scratch)
{
    tree   t      = {.s = s, .scratch = scratch, .n_columns = n_columns};
    float *floats = (void *)(scratch + results_bytes(s) * (size_t)s->n_levels);
    for (int64_t i = leaves.begin; i < leaves.end; i++) {
        do_leaf(s, x, i, n_columns, tree_level(&t, t.top), floats);
        tree_push(&t);
    }
    tree_end(&t, acc);
}

/* Blocks that have been done, of outputs from `first` on. */
static void do_blocks(const state *s, int64_t first, int64_t n_columns, void *acc, char *scratch)
{
    tree t    = {.s = s, .n_columns = n_columns};
    t.scratch = scratch;
    for (int64_t i = 0; i < s->n_blocks; i++) {
        memcpy(tree_level(&t, t.top), s->partials + (size_t)(i * s->r.n_out + first) * s->bytes,
               (size_t)n_columns * s->bytes);
        tree_push(&t);
    }
    tree_end(&t, acc);
}

/* ---- jobs ---- */

/* The outputs of a job. */
static ipu_interval job_outputs(const state *s, int64_t job)
{
    int64_t begin = job * s->n_columns, limit = s->r.n_out;
    if (!s->r.is_run_reduced) {
        int64_t kept = job / s->jobs_each;
        begin        = kept * s->r.run + job % s->jobs_each * s->n_columns;
        limit        = (kept + 1) * s->r.run;
    }
    return (ipu_interval){begin, begin + s->n_columns < limit ? begin + s->n_columns : limit};
}

static void do_job(const state *s, const char *x, ipu_interval outputs, ipu_interval leaves, char *acc,
                   char *scratch)
{
    const ipu__reduction *r    = &s->r;
    size_t                size = ipu_type_size(s->type);
    if (!r->is_run_reduced) {
        int64_t at = ipu__reduce_offset(&r->kept, outputs.begin / r->run) + outputs.begin % r->run;
        do_leaves(s, x + (size_t)at * size, leaves, outputs.end - outputs.begin, acc, scratch);
        return;
    }
    float *floats = (void *)(scratch + results_bytes(s) * (size_t)s->n_levels);
    if (s->n_leaves == 1) { /* short runs: there is no tree */
        for (int64_t i = outputs.begin; i < outputs.end; i++, acc += s->bytes)
            do_leaf(s, x + (size_t)ipu__reduce_offset(&r->kept, i) * size, 0, 1, acc, floats);
        return;
    }
    for (int64_t i = outputs.begin; i < outputs.end; i++, acc += s->bytes)
        do_leaves(s, x + (size_t)ipu__reduce_offset(&r->kept, i) * size, leaves, 1, acc, scratch);
}

static void store(const state *s, void *acc, void *to, ipu_interval outputs)
{
    int64_t n   = outputs.end - outputs.begin;
    char   *out = (char *)to + (size_t)outputs.begin * ipu_type_size(s->type);
    float  *f   = acc;
    double *d   = acc;
    if (s->kind == IPU__REDUCE_MEAN && s->type == IPU_DOUBLE)
        for (int64_t i = 0; i < n; i++) d[i] /= (double)s->r.n_each;
    else if (s->kind == IPU__REDUCE_MEAN)
        for (int64_t i = 0; i < n; i++) f[i] /= (float)s->r.n_each;
    if (needs_floats(s->type))
        ipu__floats_store(s->type, f, out, 0, n);
    else
        memcpy(out, acc, (size_t)n * s->bytes);
}

static void run_blocks(state *s, void *const *operand, char *acc, char *scratch, int part, int n_parts)
{
    ipu_interval mine = ipu__op_part(s->n_blocks * s->n_jobs, 1, part, n_parts);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int64_t      block = i / s->n_jobs, end = (block + 1) * s->block;
        ipu_interval outputs = job_outputs(s, i % s->n_jobs);
        ipu_interval leaves  = {block * s->block, end < s->n_leaves ? end : s->n_leaves};
        do_job(s, operand[X], outputs, leaves,
               s->partials + (size_t)(block * s->r.n_out + outputs.begin) * s->bytes, scratch);
    }
    if (atomic_fetch_sub_explicit(&s->n_left, 1, memory_order_acq_rel) != 1) return;
    atomic_store_explicit(&s->n_left, n_parts, memory_order_relaxed);
    for (int64_t job = 0; job < s->n_jobs; job++) {
        ipu_interval outputs = job_outputs(s, job);
        do_blocks(s, outputs.begin, outputs.end - outputs.begin, acc, scratch);
        store(s, acc, operand[OUT], outputs);
    }
}

static ipu_status tree_run(const ipu__kernel_call *call, void *data, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    if (ipu__reduce_planes_run(call, operand, part, n_parts)) return IPU_OK;
    state *s   = data;
    char  *acc = scratch, *rest = acc + results_bytes(s);
    if (s->partials) {
        run_blocks(s, operand, acc, rest, part, n_parts);
        return IPU_OK;
    }
    ipu_interval jobs = ipu__op_part(s->n_jobs, 1, part, n_parts);
    for (int64_t job = jobs.begin; job < jobs.end; job++) {
        ipu_interval outputs = job_outputs(s, job);
        do_job(s, operand[X], outputs, (ipu_interval){0, s->n_leaves}, acc, rest);
        store(s, acc, operand[OUT], outputs);
    }
    return IPU_OK;
}

static void tree_release(void *data)
{
    state *s = data;
    if (s) ipu__free(s->partials);
    ipu__free(s);
}

static ipu_status tree_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    state *s = ipu__alloc_zeroed(sizeof *s);
    if (!s) return ipu__fail_memory();
    *s = cut(call, n_parts);
    atomic_init(&s->n_left, n_parts);
    if (s->n_blocks > 1 && !(s->partials = ipu__alloc((size_t)(s->n_blocks * s->r.n_out) * s->bytes))) {
        tree_release(s);
        return ipu__fail_memory();
    }
    *out = s;
    return IPU_OK;
}

const ipu__cpu_impl ipu__reduce_implementations[1] = {
    {
        .head          = {"tree", ipu__op_fits_always},
        .layouts       = ipu__reduce_layouts,
        .scratch_bytes = tree_scratch_bytes,
        .prepare       = tree_prepare,
        .release       = tree_release,
        .run           = tree_run,
    },
};

/* ---- pricing ---- */

double ipu__reduce_work(const ipu__kernel_call *call)
{
    return (double)ipu__op_n_elements(&call->operand[X].shape)
         + (double)ipu__op_n_elements(&call->operand[OUT].shape);
}

/* popops' strided reduction of `each` elements to one, for `outputs` of them: cycles of all workers. */
static double strided_cycles(double outputs, double each, double width, double n_workers)
{
    double per_worker = ceil(ceil(outputs / n_workers) / width);
    return n_workers * (16 + per_worker * (3 + 5 + 3 + (each > 1 ? each - 1 : 0)));
}

/* As many tiles as there are outputs, each receiving what it reduces; or, if outputs are fewer, all tiles
 * reduce what they hold, and a tile for each output collects the partial results. */
ipu_status ipu__reduce_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__reduction r     = ipu__reduction_of(call);
    double         bytes = (double)ipu_type_size(call->operand[X].type), launch;
    double         n_out = (double)r.n_out, n_each = (double)r.n_each;
    double         tiles = (double)ipu_target_n_tiles(target), workers = (double)ipu_target_n_workers(target);
    double         width = bytes < 8 ? 8 / bytes : 1;
    double         n     = n_out * n_each;
    *out                 = (ipu__kernel_plan){
                        .basis = "PopLibs' estimate of a strided reduction, exchange at 4 bytes a cycle"};
    if (r.n_out == 0) return IPU_OK;
    IPU_TRY(ipu__op_constant(target, "compute_set_launch_cycles", &launch));
    if (n_out >= tiles || n_each < 2) {
        double per_tile     = ceil(n_out / tiles);
        out->n_tiles        = ipu__op_count(ceil(n_out / per_tile));
        out->cycles         = ipu__op_count(launch + strided_cycles(per_tile, n_each, width, workers));
        out->bytes_received = ipu__op_count(n_each > 1 ? per_tile * n_each * bytes : 0);
    } else {
        double used  = n < tiles ? (n > n_out ? n : n_out) : tiles;
        double parts = ceil(used / n_out), share = ceil(n_each / parts);
        /* the share of a tile as rows of one element for each worker, then theirs, then those of tiles */
        out->n_tiles = ipu__op_count(used);
        out->cycles  = ipu__op_count(
             2 * launch + strided_cycles(workers, ceil(share / workers), width, workers)
             + strided_cycles(1, workers, width, workers) + strided_cycles(1, parts, width, workers));
        out->bytes_received = ipu__op_count(parts * 4);
        out->tile_bytes     = ipu__op_count((parts + workers) * 4);
    }
    out->bytes_sent = out->bytes_received;
    return IPU_OK;
}

ipu_status ipu__reduce_plan_rows(const ipu__op_loop *loop, int64_t n_rows, int64_t n, int n_sums,
                                 const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__kernel_plan shared;
    IPU_TRY(ipu__op_plan_loop(loop, n_rows * n, n > 0 ? n : 1, target, out));
    IPU_TRY(ipu__op_plan_loop(loop, n_rows * n, (int64_t)loop->step, target, &shared));
    if (n_rows == 0 || shared.n_tiles <= n_rows) return IPU_OK;
    double workers        = (double)ipu_target_n_workers(target);
    double parts          = ceil((double)shared.n_tiles / (double)n_rows);
    shared.bytes_received = shared.bytes_sent = ipu__op_count(n_sums * parts * 4);
    shared.tile_bytes                         = shared.bytes_received;
    shared.cycles += ipu__op_count(n_sums * strided_cycles(1, parts, 2, workers));
    if (shared.cycles < out->cycles) *out = shared;
    return IPU_OK;
}
