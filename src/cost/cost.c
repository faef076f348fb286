/* Costs: computing and querying them. */
#include "cost/cost.h"

#include <stdio.h>
#include <string.h>

/* ---- helpers ---- */

const char *ipu__cost_text(ipu_cost *cost, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int   n    = vsnprintf(NULL, 0, format, args);
    char *text = n < 0 ? NULL : ipu__arena_alloc(&cost->arena, (size_t)n + 1);
    if (text) vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

void ipu__cost_sum(ipu_cost_cycles *sum, const ipu_cost_cycles *more, int64_t count)
{
    sum->compute  = ipu__cost_add(sum->compute, ipu__cost_times(more->compute, count));
    sum->exchange = ipu__cost_add(sum->exchange, ipu__cost_times(more->exchange, count));
    sum->sync     = ipu__cost_add(sum->sync, ipu__cost_times(more->sync, count));
    sum->host     = ipu__cost_add(sum->host, ipu__cost_times(more->host, count));
    sum->total    = ipu__cost_add(sum->total, ipu__cost_times(more->total, count));
}

/* ---- the pricer ---- */

static bool pricer_init(ipu__pricer *p)
{
    size_t n_tiles = (size_t)p->model->n_tiles, n_vars = p->g->variables.n, n_codes = p->g->codelets.n;
    for (size_t i = 0; ipu__kernels[i]; i++) n_codes++;
    p->fixed          = ipu__alloc_zeroed(n_tiles * sizeof *p->fixed);
    p->deal           = ipu__alloc_zeroed((n_tiles + 1) * sizeof *p->deal);
    p->on_tile        = ipu__alloc_zeroed(n_tiles * sizeof *p->on_tile);
    p->hint           = ipu__alloc_zeroed(n_vars * sizeof *p->hint);
    p->access_of      = ipu__alloc_zeroed(n_vars * sizeof *p->access_of);
    p->accessed_in    = ipu__alloc_zeroed(n_vars * sizeof *p->accessed_in);
    p->written        = ipu__alloc_zeroed(n_vars * sizeof *p->written);
    p->is_always_live = ipu__alloc_zeroed(n_vars * sizeof *p->is_always_live);
    p->code_on        = ipu__alloc_zeroed(n_codes * n_tiles / 8 + 1);
    p->is_defaulted   = ipu__alloc_zeroed(p->g->codelets.n);
    p->sets           = ipu__alloc_zeroed(p->g->compute_sets.n * sizeof *p->sets);
    p->snapshot_of    = ipu__alloc_zeroed(p->g->programs.n * sizeof *p->snapshot_of);
    p->function_unit  = ipu__alloc(p->g->functions.n * sizeof *p->function_unit);
    for (size_t i = 0; p->function_unit && i < p->g->functions.n; i++) p->function_unit[i] = IPU__NO_UNIT;
    return p->fixed && p->deal && p->on_tile && p->hint && p->access_of && p->accessed_in && p->written
        && p->is_always_live && p->code_on && p->is_defaulted && p->sets && p->snapshot_of
        && p->function_unit;
}

static void pricer_fini(ipu__pricer *p)
{
    for (size_t i = 0; i < p->units.n; i++) {
        ipu__array_fini(&p->units.at[i].rows);
        ipu__array_fini(&p->units.at[i].shape);
        ipu__array_fini(&p->units.at[i].entries);
        ipu__array_fini(&p->units.at[i].frames);
    }
    void *const arrays[] = {p->fixed,       p->deal,        p->on_tile,        p->hint,    p->access_of,
                            p->accessed_in, p->written,     p->is_always_live, p->code_on, p->is_defaulted,
                            p->sets,        p->snapshot_of, p->function_unit};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) ipu__free(arrays[i]);
    ipu__array_fini(&p->snapshots);
    ipu__array_fini(&p->units);
    ipu__array_fini(&p->roots);
    ipu__array_fini(&p->accesses);
    ipu__array_fini(&p->buffers);
    ipu__array_fini(&p->busy);
    ipu__array_fini(&p->jobs);
    ipu__array_fini(&p->dealt_jobs);
    ipu__intervals_fini(&p->intervals);
    ipu__exchange_fini(&p->in);
    ipu__exchange_fini(&p->out);
    ipu__exchange_fini(&p->both);
}

/* ---- summing up ---- */

static void sum_cycles(ipu_cost *cost)
{
    ipu_cost_summary *s    = &cost->summary;
    double            used = 0;
    for (size_t i = 0; i < cost->programs.n; i++) ipu__cost_sum(&s->cycles, &cost->programs.at[i], 1);
    for (size_t i = 0; i < cost->rows.n; i++) {
        const ipu__cost_row *row = &cost->rows.at[i];
        used += row->tile_cycles * (double)row->s.count;
        s->operations += row->s.operations * (double)row->s.count;
    }
    double possible = (double)s->cycles.compute * (double)s->n_tiles;
    s->seconds      = s->clock_hz > 0 ? (double)s->cycles.total / s->clock_hz : 0;
    s->balance      = possible > 0 ? used / possible : 0;
    if (s->balance > 1) s->balance = 1; /* a body other than the longest may compute for longer */
}

static void sum_memory(ipu_cost *cost)
{
    ipu_cost_summary *s = &cost->summary;
    s->memory_least     = INT64_MAX;
    for (int64_t t = 0; t < s->n_tiles; t++) {
        const ipu_cost_tile *tile = &cost->tiles[t];
        for (int c = 0; c < IPU_N_MEMORY_CATEGORIES; c++) s->memory[c] += tile->bytes[c];
        s->memory_total += tile->total;
        if (tile->total < s->memory_least) s->memory_least = tile->total;
        if (tile->total <= s->memory_most) continue;
        s->memory_most  = tile->total;
        s->fullest_tile = t;
    }
}

static ipu_status add_notes(ipu__pricer *p)
{
    ipu_cost   *cost = p->cost;
    const char *constant, *what, *note;
    for (int64_t i = 0; ipu__cost_unknown_at(&cost->target, i, &constant, &what); i++) {
        note = ipu__cost_text(cost, "%s (the chip has no constant %s)", what, constant);
        if (!note || !ipu__push(&cost->unknown, note)) return ipu__fail_memory();
    }
    for (size_t i = 1; i < p->g->codelets.n; i++) {
        if (!p->is_defaulted[i]) continue;
        note = ipu__cost_text(cost, "cycles of codelet \"%s\"", p->g->codelets.at[i].name);
        if (!note || !ipu__push(&cost->by_default, note)) return ipu__fail_memory();
    }
    return IPU_OK;
}

static ipu_status price_all(ipu__pricer *p, const ipu_program *programs, size_t n)
{
    ipu_graph *g    = p->g;
    ipu_cost  *cost = p->cost;
    if (!pricer_init(p)) return ipu__fail_memory();
    IPU_TRY(ipu__cost_walk(p, programs, n));
    IPU_TRY(ipu__cost_live(p));
    IPU_TRY(ipu__cost_memory(p));
    cost->summary = (ipu_cost_summary){
        .chip           = ipu_target_chip_name(&cost->target),
        .n_ipus         = cost->target.n_ipus,
        .replication    = g->replication,
        .n_tiles        = p->model->n_tiles,
        .bytes_per_tile = p->model->bytes_per_tile,
        .clock_hz       = p->model->clock,
        .n_programs     = (int64_t)n,
        .n_steps        = (int64_t)cost->rows.n,
        .n_vertices     = ipu_graph_n_vertices(g),
        .n_edges        = p->n_edges,
        .n_compute_sets = ipu_graph_n_compute_sets(g),
        .n_variables    = ipu_graph_n_variables(g),
        .while_count    = p->while_count,
    };
    sum_cycles(cost);
    sum_memory(cost);
    IPU_TRY(ipu__cost_ipus(p));
    IPU_TRY(ipu__cost_overfull(p));
    return add_notes(p);
}

ipu_status ipu_cost_estimate(ipu_graph *graph, const ipu_program *programs, size_t n,
                             const ipu_cost_options *options, ipu_cost **out)
{
    static const ipu_cost_options none = {0};
    *out                               = NULL;
    if (!options) options = &none;
    if (options->while_count < 0)
        return ipu__fail(IPU_INVALID, "ipu_cost_estimate: while_count is %lld: expected 0 (once) or more",
                         (long long)options->while_count);
    IPU_TRY(ipu__graph_check(graph, programs, n, false));
    ipu_cost *cost = ipu__alloc_zeroed(sizeof *cost);
    if (!cost) return ipu__fail_memory();
    ipu_graph *g = graph->root;
    cost->target = g->target;
    ipu__cost_model_init(&cost->model, &g->target, g->replication);
    ipu__pricer p      = {.g           = g,
                          .cost        = cost,
                          .model       = &cost->model,
                          .while_count = options->while_count ? options->while_count : 1};
    ipu_status  status = price_all(&p, programs, n);
    pricer_fini(&p);
    if (status == IPU_OK) status = ipu__cost_report_overfull(cost, options->strict);
    if (status != IPU_OK && status != IPU_TILE_OVERFLOW) {
        ipu_cost_destroy(cost);
        return status;
    }
    *out = cost;
    return status;
}

void ipu_cost_destroy(ipu_cost *cost)
{
    if (!cost) return;
    ipu__array_fini(&cost->rows);
    ipu__array_fini(&cost->programs);
    ipu__array_fini(&cost->unknown);
    ipu__array_fini(&cost->by_default);
    ipu__array_fini(&cost->overfull);
    ipu__array_fini(&cost->host);
    ipu__array_fini(&cost->levels);
    ipu__array_fini(&cost->ranges);
    ipu__free(cost->tiles);
    ipu__free(cost->ipus);
    ipu__arena_fini(&cost->arena);
    ipu__free(cost);
}

/* ---- asking ---- */

bool ipu_cost_step_at(const ipu_cost *cost, int64_t i, ipu_cost_step *out)
{
    if (i < 0 || (size_t)i >= cost->rows.n) return false;
    *out = cost->rows.at[i].s;
    return true;
}

bool ipu_cost_program_at(const ipu_cost *cost, int64_t i, ipu_cost_cycles *out)
{
    if (i < 0 || (size_t)i >= cost->programs.n) return false;
    *out = cost->programs.at[i];
    return true;
}

bool ipu_cost_tile_at(const ipu_cost *cost, int64_t tile, ipu_cost_tile *out)
{
    if (tile < 0 || tile >= cost->summary.n_tiles) return false;
    *out = cost->tiles[tile];
    return true;
}

bool ipu_cost_overfull_at(const ipu_cost *cost, int64_t i, ipu_cost_overfull *out)
{
    if (i < 0 || (size_t)i >= cost->overfull.n) return false;
    *out = cost->overfull.at[i];
    return true;
}

void ipu_cost_get_summary(const ipu_cost *cost, ipu_cost_summary *out) { *out = cost->summary; }

bool ipu_cost_constant_at(const ipu_cost *cost, int64_t i, ipu_constant *out)
{
    return i >= 0 && ipu__cost_constant_at(&cost->target, i, out);
}

const char *ipu_memory_category_text(ipu_memory_category category)
{
    static const char *const texts[] = {
#define X(name, text) [IPU_MEMORY_##name] = text,
        IPU_MEMORY_LIST(X)
#undef X
    };
    return (unsigned)category < IPU_N_MEMORY_CATEGORIES ? texts[category] : "?";
}

static const char *const modelled[] = {
    "compute: the busiest tile of each compute set; six workers in turn, vertices dealt out longest first",
    "exchange: bytes of the busiest tile; an element is received once, a word sent serves all who take it",
    "sync: once a step, with the fixed cost of its exchange",
    "links between IPUs: the busiest of a ladder's; streams from the host and remote buffers: bytes by rate",
    "kernels: by their plan, with their operands where the plan wants them",
    "memory: variables while they are live, vertex state, code, exchange code, stacks, message buffers",
};

static const char *const not_modelled[] = {
    "the instructions of a codelet: its cycles are what its estimate says, or the default by field sizes",
    "time and routes within an exchange: column distance, pairs of tiles that receive together",
    "gathering scattered fields within a tile, alignment, memory banks and interleaving",
    "the latency of a host sync; what the host computes; replicas that share a link to it",
    "gateways between domains of IPUs: all are on one ladder",
};

const char *ipu_cost_note_at(const ipu_cost *cost, ipu_cost_notes kind, int64_t i)
{
    const struct {
        const char *const *at;
        size_t             n;
    } lists[] = {[IPU_COST_MODELLED]        = {modelled, sizeof modelled / sizeof *modelled},
                 [IPU_COST_NOT_MODELLED]    = {not_modelled, sizeof not_modelled / sizeof *not_modelled},
                 [IPU_COST_UNKNOWN_ON_CHIP] = {cost->unknown.at, cost->unknown.n},
                 [IPU_COST_BY_DEFAULT]      = {cost->by_default.at, cost->by_default.n}};
    if ((unsigned)kind > IPU_COST_BY_DEFAULT || i < 0 || (size_t)i >= lists[kind].n) return NULL;
    return lists[kind].at[i];
}
