/* Automatic stages: cuts a network into runs of ops of about equal modelled time.
 *
 * Before gradients are taken, each op becomes a stage of its own, so that gradients know which one they
 * belong to. Then consecutive ones are joined so that the slowest stage takes as little as possible and,
 * among cuts that are nearly as good, so that stages are even and little passes between them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cost/ladder.h"
#include "model/parallel/plan.h"

/* The slowest stage may be slower than the optimum by one part in SLACK, if the stages become more even. */
enum { SLACK = 32 };

/* ---- a stage per op ---- */

typedef struct numbering {
    ipu_model *m;
    uint8_t   *is_constant; /* by value: computed from constants alone */
    uint32_t  *first;       /* by value: stage of the first op that uses it; 0 if it has unknown users */
} numbering;

static ipu__model_op *op_in(const numbering *n, size_t i)
{
    return &n->m->ops.at[n->m->blocks.at[0].order.at[i]];
}

static bool is_of_constants(const numbering *n, const ipu__model_op *op)
{
    bool is = op->kind == IPU__MODEL_OP && op->n_in > 0;
    for (uint32_t k = 0; k < op->n_in; k++)
        is = is
          && (!op->in[k] || n->is_constant[op->in[k]]
              || n->m->values.at[op->in[k]].kind == IPU__VALUE_CONSTANT);
    return is;
}

/* Uses by anything other than a numbered op. */
static void note_other_uses(const numbering *n)
{
    const ipu_model *m = n->m;
    for (size_t i = 0; i < m->ops.n; i++) {
        const ipu__model_op *op = &m->ops.at[i];
        for (uint32_t k = 0; k < op->n_in && (op->block != 0 || op->stage.number == IPU__STAGE_ANY); k++)
            n->first[op->in[k]] = 0;
    }
    for (size_t i = 0; i < m->blocks.n; i++)
        for (size_t k = 0; k < m->blocks.at[i].yields.n; k++) n->first[m->blocks.at[i].yields.at[k]] = 0;
    for (size_t i = 0; i < m->outputs.n; i++) n->first[m->outputs.at[i].value] = 0;
    for (size_t i = 0; i < m->values.n; i++) n->first[m->values.at[i].update] = 0;
}

/* Values computed from constants alone, and not folded, belong to the first stage that uses them; otherwise
 * weights made at the beginning of a network would cross all links. */
static void move_constants(const numbering *n)
{
    size_t n_ops = n->m->blocks.at[0].order.n;
    for (size_t i = 0; i < n_ops; i++) {
        const ipu__model_op *op = op_in(n, i);
        if (is_of_constants(n, op)) memset(n->is_constant + op->first_out, 1, op->n_out);
    }
    note_other_uses(n);
    for (size_t i = n_ops; i-- > 0;) {
        ipu__model_op *op    = op_in(n, i);
        uint32_t       first = UINT32_MAX;
        for (uint32_t k = 0; k < op->n_out; k++)
            if (n->first[op->first_out + k] < first) first = n->first[op->first_out + k];
        bool moves = op->n_out > 0 && n->is_constant[op->first_out] && first != UINT32_MAX;
        if (moves && first > op->stage.number && op->stage.number != IPU__STAGE_ANY) op->stage.number = first;
        for (uint32_t k = 0; k < op->n_in; k++)
            if (op->stage.number < n->first[op->in[k]]) n->first[op->in[k]] = op->stage.number;
    }
}

ipu_status ipu__model_number_stages(ipu_model *m)
{
    for (size_t i = 0; i < m->blocks.at[0].order.n; i++) {
        ipu__stage *s = &m->ops.at[m->blocks.at[0].order.at[i]].stage;
        if (s->number != IPU__STAGE_ANY) *s = (ipu__stage){(uint32_t)i, false};
    }
    numbering n = {m, ipu__alloc_zeroed(m->values.n), ipu__alloc(m->values.n * sizeof *n.first)};
    if (n.is_constant && n.first) {
        memset(n.first, 0xff, m->values.n * sizeof *n.first);
        move_constants(&n);
    }
    ipu_status status = n.is_constant && n.first ? IPU_OK : ipu__fail_memory();
    ipu__free(n.is_constant);
    ipu__free(n.first);
    return status;
}

/* ---- costs of ops ---- */

typedef struct cutting {
    const ipu_model *m;     /* without dead ops */
    const ipu_model *fused; /* as it will run, except for fusions across cuts: for its cycles */
    ipu__cost_model  cost;
    uint32_t         n_ops;    /* initial number of stages */
    uint32_t         n;        /* places where a stage may begin */
    uint32_t        *number;   /* their numbers, ascending */
    double          *sum;      /* cycles of all before it */
    double          *crossing; /* cycles on one link for values passed from those before it to later ones */
} cutting;

static double cycles_of_block(const cutting *c, uint32_t block);

static double cycles_of(const cutting *c, const ipu__model_op *op)
{
    if (op->kind == IPU__MODEL_LOOP) return (double)op->most * cycles_of_block(c, op->body);
    if (op->kind == IPU__MODEL_IF) return cycles_of_block(c, op->body) + cycles_of_block(c, op->otherwise);
    if (op->def->view) return 0;
    ipu__kernel_call call = ipu__model_call(c->fused, op);
    ipu__kernel_plan plan = {0};
    if (!call.def->plan || call.def->plan(&call, &c->cost.target, &plan) != IPU_OK)
        return call.def->work ? call.def->work(&call) / (double)c->cost.n_tiles : 0;
    int64_t in  = ipu__cost_ceil((double)plan.bytes_received, c->cost.receive_rate);
    int64_t out = ipu__cost_ceil((double)plan.bytes_sent, c->cost.send_rate);
    return (double)plan.cycles + (double)(in > out ? in : out) + c->cost.sync;
}

static double cycles_of_block(const cutting *c, uint32_t block)
{
    const ipu__block *b   = &c->fused->blocks.at[block];
    double            sum = 0;
    for (size_t i = 0; i < b->order.n; i++)
        if (!c->fused->ops.at[b->order.at[i]].dead) sum += cycles_of(c, &c->fused->ops.at[b->order.at[i]]);
    return sum;
}

/* Op `i` of `m` if it is needed and has a stage; else NULL. */
static const ipu__model_op *op_at(const ipu_model *m, size_t i)
{
    const ipu__model_op *op = &m->ops.at[m->blocks.at[0].order.at[i]];
    return op->dead || op->stage.number == IPU__STAGE_ANY ? NULL : op;
}

/* No cut between a state's reader and its update: the next batch would read it too early. */
static void join_states(cutting *c, const ipu__model_op *op)
{
    for (uint32_t k = 0; k < op->n_in; k++) {
        uint32_t                update = c->m->values.at[op->in[k]].update;
        const ipu__model_value *next   = &c->m->values.at[update];
        if (!update || next->kind != IPU__VALUE_OP) continue;
        ipu__stage last = c->m->ops.at[next->of].stage;
        if (last.number == IPU__STAGE_ANY || last.is_backward) continue;
        for (uint32_t i = op->stage.number + 1; i <= last.number; i++) c->number[i] = 0;
    }
}

/* Cycles by stage, forward and backward, in c->sum; then the possible beginnings, and sums over those. */
static void add_up(cutting *c)
{
    double before = 0;
    for (size_t i = 0; i < c->fused->blocks.at[0].order.n; i++) {
        const ipu__model_op *op = op_at(c->fused, i);
        if (!op) continue;
        c->sum[op->stage.number] += cycles_of(c, op);
        if (!op->stage.is_backward) c->number[op->stage.number] = 1;
    }
    for (size_t i = 0; i < c->m->blocks.at[0].order.n; i++) {
        const ipu__model_op *op = op_at(c->m, i);
        if (op && !op->stage.is_backward) join_states(c, op);
    }
    for (uint32_t i = 0; i < c->n_ops; i++) {
        double own = c->sum[i];
        if (c->number[i]) {
            c->number[c->n] = i;
            c->sum[c->n++]  = before;
        }
        before += own;
    }
    c->sum[0]    = 0;
    c->sum[c->n] = before;
}

/* A value passed from one stage to a later one crosses all cuts between. */
static void add_crossing(cutting *c, uint32_t id, uint32_t first, uint32_t last)
{
    const ipu__builder_value *v     = &c->m->base.values.at[id];
    double                    rate  = c->cost.link_rate * c->cost.link_efficiency;
    double                    bytes = (double)ipu__op_n_elements(&v->shape) * (double)ipu_type_size(v->type);
    /* without a rate, a byte counts as a cycle, so that crossings still matter */
    double cycles = rate > 0 ? bytes * c->cost.clock / rate : bytes;
    for (uint32_t k = 0; k < c->n && first < last; k++)
        if (c->number[k] > first && c->number[k] <= last) c->crossing[k] += cycles;
}

static ipu_status find_crossings(cutting *c)
{
    const ipu__block *b     = &c->m->blocks.at[0];
    size_t            n     = c->m->values.n;
    uint32_t         *first = ipu__alloc(2 * n * sizeof *first);
    if (!first) return ipu__fail_memory();
    uint32_t *last = first + n;
    for (size_t i = 0; i < n; i++) first[i] = UINT32_MAX, last[i] = 0;
    for (size_t i = 0; i < b->order.n; i++) {
        const ipu__model_op *op = op_at(c->m, i);
        if (!op || op->stage.is_backward) continue;
        for (uint32_t k = 0; k < op->n_out; k++) first[op->first_out + k] = op->stage.number;
        for (uint32_t k = 0; k < op->n_in; k++) {
            if (first[op->in[k]] > op->stage.number) first[op->in[k]] = op->stage.number;
            if (last[op->in[k]] < op->stage.number) last[op->in[k]] = op->stage.number;
        }
    }
    for (uint32_t id = 1; id < n; id++) {
        ipu__value_kind kind = c->m->values.at[id].kind;
        if (kind == IPU__VALUE_OP || kind == IPU__VALUE_INPUT) add_crossing(c, id, first[id], last[id]);
    }
    ipu__free(first);
    return IPU_OK;
}

/* ---- choosing the cuts ---- */

static double run_of(const cutting *c, uint32_t begin, uint32_t end) { return c->sum[end] - c->sum[begin]; }

/* The smallest possible time of the slowest of `n` runs: best[k * (c->n + 1) + i] is that of k + 1 runs of
 * the first i. */
static double slowest(const cutting *c, uint32_t n, double *best)
{
    uint32_t w = c->n + 1;
    for (uint32_t i = 0; i < w; i++) best[i] = run_of(c, 0, i);
    for (uint32_t k = 1; k < n; k++)
        for (uint32_t i = k + 1; i < w; i++) {
            /* best of j grows with j and the rest shrinks: the optimum is where they meet */
            uint32_t low = k, high = i - 1;
            while (low < high) {
                uint32_t mid = (low + high) / 2;
                if (best[(k - 1) * w + mid] >= run_of(c, mid, i))
                    high = mid;
                else
                    low = mid + 1;
            }
            double here = best[(k - 1) * w + low], rest = run_of(c, low, i);
            double most = here > rest ? here : rest;
            if (low > k && run_of(c, low - 1, i) < most) most = run_of(c, low - 1, i);
            best[k * w + i] = most;
        }
    return best[(n - 1) * w + c->n];
}

/* Runs that take no more than `most` and are as even as possible: with the least sum of squares of their
 * times plus incoming link transfers. from[k * (c->n + 1) + i] is where the last of k + 1 runs of the first i
 * begins. */
static void cut_evenly(const cutting *c, uint32_t n, double most, double *sums, uint32_t *from)
{
    uint32_t w = c->n + 1;
    for (size_t i = 0; i < (size_t)n * w; i++) sums[i] = -1;
    for (uint32_t i = 1; i < w; i++)
        if (run_of(c, 0, i) <= most) sums[i] = run_of(c, 0, i) * run_of(c, 0, i), from[i] = 0;
    for (uint32_t k = 1; k < n; k++) {
        double links = ipu__ladder_links(&c->cost, k - 1, k);
        if (links <= 0) links = 1;
        for (uint32_t i = k + 1; i < w; i++)
            for (uint32_t j = i; j-- > k && run_of(c, j, i) <= most;) {
                double before = sums[(k - 1) * w + j], *to = &sums[k * w + i];
                double own = run_of(c, j, i) + c->crossing[j] / links, sum = before + own * own;
                if (before < 0 || (*to >= 0 && sum >= *to)) continue;
                *to             = sum;
                from[k * w + i] = j;
            }
    }
}

/* The stage of each number. */
static void assign(const cutting *c, uint32_t n, const uint32_t *from, uint32_t *stage)
{
    uint32_t end = c->n, last = c->n_ops;
    for (uint32_t k = n; k-- > 0;) {
        uint32_t begin = from[(size_t)k * (c->n + 1) + end], first = k == 0 ? 0 : c->number[begin];
        for (uint32_t i = first; i < last; i++) stage[i] = k;
        end  = begin;
        last = first;
    }
}

static ipu_status cut(cutting *c, uint32_t n, uint32_t *stage)
{
    add_up(c);
    if (c->n < n)
        return ipu__fail(IPU_INVALID,
                         "option stages: %" PRIu32 " stages of a network of %" PRIu32
                         " ops (after fusing): expected no more stages than ops",
                         n, c->n);
    IPU_TRY(find_crossings(c));
    size_t    size = (size_t)n * (c->n + 1);
    double   *best = ipu__alloc(size * sizeof *best);
    uint32_t *from = ipu__alloc_zeroed(size * sizeof *from);
    if (best && from) {
        double least = slowest(c, n, best);
        cut_evenly(c, n, least * (1 + 1.0 / SLACK), best, from);
        assign(c, n, from, stage);
    }
    ipu_status status = best && from ? IPU_OK : ipu__fail_memory();
    ipu__free(best);
    ipu__free(from);
    return status;
}

/* ---- the whole ---- */

static ipu_status name_stages(ipu_model *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "stage %" PRIu32, i);
        ipu_model_stage(m, name);
    }
    ipu__model_any_stage(m);
    return m->base.status == IPU_OK ? IPU_OK : ipu__fail_memory();
}

static uint32_t n_numbers(const ipu_model *m)
{
    uint32_t n = 0;
    for (size_t i = 0; i < m->ops.n; i++)
        if (m->ops.at[i].stage.number != IPU__STAGE_ANY && m->ops.at[i].stage.number >= n)
            n = m->ops.at[i].stage.number + 1;
    return n;
}

static ipu_status make_copies(cutting *c, const ipu_model *m, ipu_model **plain, ipu_model **fused)
{
    c->m = *plain = ipu__model_copy(m);
    c->fused = *fused = ipu__model_copy(m);
    c->number         = ipu__alloc_zeroed((c->n_ops + 1) * sizeof *c->number);
    c->sum            = ipu__alloc_zeroed((c->n_ops + 2) * sizeof *c->sum);
    c->crossing       = ipu__alloc_zeroed((c->n_ops + 1) * sizeof *c->crossing);
    if (!*plain || !*fused || !c->number || !c->sum || !c->crossing) return ipu__fail_memory();
    IPU_TRY(ipu_model_optimise(*plain, IPU_PASS_DCE | IPU_PASS_FOLD));
    return ipu_model_optimise(*fused, IPU_PASS_CHIP);
}

ipu_status ipu__model_cut(ipu_model *m, uint32_t n, const ipu_target *target)
{
    cutting    c     = {.n_ops = n_numbers(m)};
    ipu_model *plain = NULL, *fused = NULL;
    uint32_t  *stage = ipu__alloc_zeroed((c.n_ops + 1) * sizeof *stage);
    if (!stage) return ipu__fail_memory();
    ipu_status status = make_copies(&c, m, &plain, &fused);
    ipu__cost_model_init(&c.cost, target, target->n_ipus);
    if (status == IPU_OK) status = cut(&c, n, stage);
    for (size_t i = 0; status == IPU_OK && i < m->ops.n; i++) {
        ipu__stage *s = &m->ops.at[i].stage;
        if (s->number != IPU__STAGE_ANY) s->number = stage[s->number];
    }
    if (status == IPU_OK) status = name_stages(m, n);
    ipu_model_destroy(plain);
    ipu_model_destroy(fused);
    ipu__free(stage);
    ipu__free(c.number);
    ipu__free(c.sum);
    ipu__free(c.crossing);
    return status;
}
