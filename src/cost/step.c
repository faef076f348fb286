/* Steps other than compute sets: copies, streams, remote buffers, kernels, syncs, predicates. */
#include <string.h>

#include "base/alloc.h"
#include "cost/cost.h"
#include "cost/ladder.h"

/* ---- names ---- */

/* The variables of a view: the first, and whether there are others. */
static const char *view_name(ipu__pricer *p, uint32_t view)
{
    ipu__view   v      = ipu__view_get(&p->g->views, view);
    ipu__pieces pieces = ipu__view_pieces(&p->g->views, &v);
    ipu__piece  piece;
    uint32_t    first = 0;
    bool        more  = false;
    while (ipu__pieces_next(&pieces, &piece)) {
        if (first && piece.var != first) more = true;
        if (!first) first = piece.var;
    }
    return ipu__cost_text(p->cost, "%s%s", first ? ipu__variable_str(p->g, first) : "nothing",
                          more ? " ..." : "");
}

static const char *arrow(ipu__pricer *p, const char *from, const char *to)
{
    return from && to ? ipu__cost_text(p->cost, "%s -> %s", from, to) : NULL;
}

static const char *quoted(ipu__pricer *p, const char *text)
{
    return ipu__cost_text(p->cost, "\"%s\"", text);
}

static const char *step_name(ipu__pricer *p, const ipu__step *s)
{
    const ipu_graph *g = p->g;
    switch (s->kind) {
    case IPU__STEP_EXECUTE: return ipu__cost_text(p->cost, "%s", g->compute_sets.at[s->object].name);
    case IPU__STEP_KERNEL: return ipu__cost_text(p->cost, "%s", g->kernel_steps.at[s->object].call.def->name);
    case IPU__STEP_READ: return arrow(p, quoted(p, g->streams.at[s->object].handle), view_name(p, s->to));
    case IPU__STEP_WRITE: return arrow(p, view_name(p, s->from), quoted(p, g->streams.at[s->object].handle));
    case IPU__STEP_REMOTE_READ:
        return arrow(p, quoted(p, g->remote_buffers.at[s->object].handle), view_name(p, s->to));
    case IPU__STEP_REMOTE_WRITE:
        return arrow(p, view_name(p, s->from), quoted(p, g->remote_buffers.at[s->object].handle));
    case IPU__STEP_COPY:
    case IPU__STEP_CROSS_REPLICA_COPY: return arrow(p, view_name(p, s->from), view_name(p, s->to));
    case IPU__STEP_ALL_REDUCE:
    case IPU__STEP_WRITE_UNDEF: return view_name(p, s->to);
    case IPU__STEP_PRINT:
    case IPU__STEP_ABORT_IF:
    case IPU__STEP_ERROR: return ipu__cost_text(p->cost, "%s", s->text);
    case IPU__STEP_REPEAT: return ipu__cost_text(p->cost, "%lld times", (long long)s->n);
    case IPU__STEP_SYNC: {
        static const char *const types[] = {"internal", "external", "global"};
        return types[s->n];
    }
    default: return s->from ? view_name(p, s->from) : "";
    }
}

/* ---- views on tiles ---- */

/* Adds the bytes of a view to p->on_tile. */
static bool add_on_tiles(ipu__pricer *p, uint32_t view)
{
    p->intervals.list.n = 0;
    if (!ipu__intervals_add(&p->intervals, &p->g->views, view, 0)) return false;
    for (size_t i = 0; i < p->intervals.list.n; i++) {
        ipu__interval x    = p->intervals.list.at[i];
        int64_t       size = (int64_t)ipu_type_size(p->g->variables.at[x.var].type);
        while (x.begin < x.end) {
            uint32_t      tile;
            ipu__interval part = ipu__cost_split(p, &x, &tile);
            p->on_tile[tile] += (part.end - part.begin) * size;
        }
    }
    return true;
}

/* The maximum on any tile, and in `by_ipu` (may be NULL) the larger of it and what is on each IPU; resets
 * p->on_tile to 0. */
static void take_on_tiles(ipu__pricer *p, bool has_code, int64_t *most, int64_t *tiles, int64_t *by_ipu)
{
    int64_t ipu = 0, per_ipu = p->model->target.tiles_per_ipu;
    *most = *tiles = 0;
    for (int64_t t = 0; t < p->model->n_tiles; t++) {
        int64_t bytes = p->on_tile[t];
        p->on_tile[t] = 0;
        if (t % per_ipu == 0) ipu = 0;
        ipu += bytes;
        if (by_ipu) by_ipu[t / per_ipu] = ipu__cost_larger(by_ipu[t / per_ipu], ipu);
        if (bytes == 0) continue;
        *most = ipu__cost_larger(*most, bytes);
        (*tiles)++;
        if (has_code) ipu__exchange_charge(p, (uint32_t)t, 1);
    }
}

/* ---- copies ---- */

typedef struct copier {
    ipu__pricer *p;
    bool         once; /* no source element is copied twice */
    int64_t      n_runs;
} copier;

/* Limits per copy: some seconds; and for the flows of each IPU: half a gigabyte, including their order. */
enum { MOST_RUNS = 1 << 25, MOST_FLOWS = 1 << 24 };

static bool is_too_much(const copier *c)
{
    return c->n_runs >= MOST_RUNS || c->p->in.flows.n / MOST_FLOWS >= (size_t)c->p->model->all_ipus;
}

/* `n` elements starting at x to those starting at y, contiguous in both. */
static bool copy_run(copier *c, ipu__interval x, ipu__interval y)
{
    ipu__pricer *p    = c->p;
    int64_t      size = (int64_t)ipu_type_size(p->g->variables.at[x.var].type);
    while (x.begin < x.end) {
        uint32_t      from, to;
        ipu__interval a = ipu__cost_split(p, &x, &from), b = y;
        b.end   = b.begin + (a.end - a.begin);
        y.begin = b.end;
        while (b.begin < b.end) {
            ipu__interval part = ipu__cost_split(p, &b, &to);
            int64_t       n    = part.end - part.begin;
            if (from == to)
                p->on_tile[to] += n * size;
            else if (!(c->once ? ipu__exchange_add_bytes(&p->in, to, from, a.var, n * size)
                               : ipu__exchange_add(&p->in, to, from, a.var, a.begin, a.begin + n)))
                return false;
            a.begin += n;
        }
    }
    return true;
}

/* Number of elements of a run that are on the tile of its first. */
static int64_t count_on_tile(ipu__pricer *p, const ipu__run *run, uint32_t *tile)
{
    ipu__interval first = {run->var, 0, run->start, run->start + 1};
    ipu__cost_split(p, &first, tile);
    const ipu__placement *place = &p->g->variables.at[run->var].mapping.places.at[p->hint[run->var]];
    int64_t               n     = run->stride > 0 ? (place->end - 1 - run->start) / run->stride + 1
                                : run->stride < 0 ? (run->start - place->begin) / -run->stride + 1
                                                  : run->count;
    return n < run->count ? n : run->count;
}

static void advance(ipu__run *run, int64_t n)
{
    run->start += n * run->stride;
    run->count -= n;
}

/* `n` elements starting at x to those starting at y, possibly strided: tile by tile. Advances both. */
static bool copy_strided(copier *c, ipu__run *x, ipu__run *y, int64_t n)
{
    int64_t size = (int64_t)ipu_type_size(c->p->g->variables.at[x->var].type);
    bool    ok   = true;
    for (int64_t k; n > 0 && ok; n -= k) {
        uint32_t from, to;
        int64_t  on_y = count_on_tile(c->p, y, &to);
        k             = count_on_tile(c->p, x, &from);
        if (k > on_y) k = on_y;
        if (k > n) k = n;
        if (from == to)
            c->p->on_tile[to] += k * size;
        else if (c->once)
            ok = ipu__exchange_add_bytes(&c->p->in, to, from, x->var, k * size);
        else if (x->stride == 0 || x->stride == 1)
            ok = ipu__exchange_add(&c->p->in, to, from, x->var, x->start, x->start + (x->stride ? k : 1));
        else
            for (int64_t i = 0, at = x->start; i < k && ok; i++, at += x->stride)
                ok = ipu__exchange_add(&c->p->in, to, from, x->var, at, at + 1);
        advance(x, k);
        advance(y, k);
    }
    return ok;
}

static bool copy_runs(copier *c, const ipu__step *s)
{
    ipu__runs from = ipu__view_runs(&c->p->g->views, s->from), to = ipu__view_runs(&c->p->g->views, s->to);
    ipu__run  x = {0}, y = {0};
    for (; !is_too_much(c); c->n_runs++) {
        if (x.count == 0 && !ipu__runs_next(&from, &x)) return true;
        if (y.count == 0 && !ipu__runs_next(&to, &y)) return true;
        int64_t n = x.count < y.count ? x.count : y.count;
        if ((x.stride != 1 || y.stride != 1) && n > 1) {
            if (!copy_strided(c, &x, &y, n)) return false;
            continue;
        }
        if (!copy_run(c, (ipu__interval){x.var, 0, x.start, x.start + n},
                      (ipu__interval){y.var, 0, y.start, y.start + n}))
            return false;
        advance(&x, n);
        advance(&y, n);
    }
    return true;
}

static int64_t copy_cycles(const ipu__pricer *p, int64_t bytes)
{
    if (bytes == 0) return 0;
    return (int64_t)p->model->copy_start + ipu__cost_ceil((double)bytes, p->model->copy_rate);
}

/* What each IPU copies within its tiles, from p->on_tile. */
static bool note_copying(ipu__pricer *p, ipu__cost_row *row)
{
    int64_t per_ipu = p->model->target.tiles_per_ipu;
    row->busy.first = p->busy.n;
    for (int64_t first = 0; first < p->model->n_tiles; first += per_ipu) {
        int64_t most = 0;
        for (int64_t t = first; t < first + per_ipu && t < p->model->n_tiles; t++)
            if (p->on_tile[t] > most) most = p->on_tile[t];
        if (!ipu__cost_note_busy(p, first / per_ipu, copy_cycles(p, most))) return false;
    }
    row->busy.n = p->busy.n - row->busy.first;
    return true;
}

static ipu_status price_copy(ipu__pricer *p, const ipu__step *s, ipu__cost_row *row)
{
    bool         ok;
    copier       c = {p, !ipu__view_has_aliases(&p->g->views, s->from, &ok), 0};
    ipu__traffic traffic;
    int64_t      most, all = 0;
    if (!ok || !copy_runs(&c, s)) return ipu__fail_memory();
    if (is_too_much(&c))
        return ipu__fail(IPU_UNSUPPORTED, "a copy of over %lld parts, which is too much to estimate",
                         c.n_runs >= MOST_RUNS ? (long long)MOST_RUNS
                                               : (long long)MOST_FLOWS * p->model->all_ipus);
    IPU_TRY(ipu__exchange_price(p, &p->in, &traffic));
    for (int64_t t = 0; t < p->model->n_tiles; t++) all += p->on_tile[t];
    if (!note_copying(p, row)) return ipu__fail_memory();
    take_on_tiles(p, false, &most, &row->s.active_tiles, NULL);
    if (most > 0) {
        row->s.cycles.compute = copy_cycles(p, most);
        row->tile_cycles      = p->model->copy_start * (double)row->s.active_tiles;
        if (p->model->copy_rate > 0) row->tile_cycles += (double)all / p->model->copy_rate;
    }
    ipu__cost_add_traffic(p, row, &traffic);
    row->is_phase = most > 0 || traffic.bytes > 0;
    return IPU_OK;
}

/* ---- off the chip ---- */

static ipu_status price_outside(ipu__pricer *p, uint32_t view, bool to_tiles, double rate,
                                const char *lacking, ipu__cost_row *row)
{
    int64_t most, tiles, size;
    if (!add_on_tiles(p, view)) return ipu__fail_memory();
    take_on_tiles(p, true, &most, &tiles, NULL);
    ipu__view v            = ipu__view_get(&p->g->views, view);
    size                   = v.n_elements * (int64_t)ipu_type_size(v.type);
    int64_t host           = ipu__cost_at_rate(p->model, size, rate);
    row->s.cycles.exchange = ipu__cost_ceil((double)most,
                                            to_tiles ? p->model->receive_rate : p->model->send_rate);
    row->s.cycles.host     = host > row->s.cycles.exchange ? host - row->s.cycles.exchange : 0;
    row->s.bytes_exchanged = size;
    row->s.messages        = tiles;
    *(to_tiles ? &row->s.bytes_received : &row->s.bytes_sent) = most;
    if (rate <= 0) row->s.note = lacking;
    row->is_phase = true;
    return IPU_OK;
}

static ipu_status price_stream(ipu__pricer *p, const ipu__step *s, ipu__cost_row *row)
{
    bool reads = s->kind == IPU__STEP_READ;
    return price_outside(p, reads ? s->to : s->from, reads, p->model->host_rate,
                         "the host's part is not modelled on this chip", row);
}

static ipu_status price_remote(ipu__pricer *p, const ipu__step *s, ipu__cost_row *row)
{
    bool reads = s->kind == IPU__STEP_REMOTE_READ;
    return price_outside(p, reads ? s->to : s->from, reads, p->model->streaming_rate,
                         "streaming memory is not modelled on this chip", row);
}

/* ---- between replicas ---- */

typedef struct between {
    int64_t  in, out, tiles; /* bytes of the busiest tile */
    int64_t  bytes;          /* of one replica */
    int64_t *by_ipu;         /* elements are assumed to go to the same IPU position in the other replica */
    int64_t *partner;        /* by replica: where it sends to */
} between;

static void between_fini(between *b)
{
    ipu__free(b->by_ipu);
    ipu__free(b->partner);
}

/* The caller must end it, even after a failure. */
static ipu_status between_init(ipu__pricer *p, const ipu__step *s, between *b)
{
    ipu__view view = ipu__view_get(&p->g->views, s->to);
    *b             = (between){.bytes   = view.n_elements * (int64_t)ipu_type_size(view.type),
                               .by_ipu  = ipu__alloc_zeroed((size_t)p->model->target.n_ipus * sizeof *b->by_ipu),
                               .partner = ipu__alloc_zeroed((size_t)p->g->replication * sizeof *b->partner)};
    if (!b->by_ipu || !b->partner || !add_on_tiles(p, s->from)) return ipu__fail_memory();
    take_on_tiles(p, true, &b->out, &b->tiles, b->by_ipu);
    if (!add_on_tiles(p, s->to)) return ipu__fail_memory();
    take_on_tiles(p, true, &b->in, &b->tiles, b->by_ipu);
    return IPU_OK;
}

static int64_t part_of(int64_t bytes, int64_t parts) { return (bytes + parts - 1) / parts; }

/* Cycles of an exchange in which every replica sends one of `parts` parts of its data to its partner. */
static ipu_status price_round(const ipu__pricer *p, const between *b, int64_t parts, int64_t *cycles)
{
    ipu__ladder ladder;
    int64_t n = p->model->target.n_ipus, most_in = part_of(b->in, parts), most_out = part_of(b->out, parts);
    if (!ipu__ladder_init(&ladder, p->model->all_ipus)) return ipu__fail_memory();
    for (int64_t r = 0; r < p->g->replication; r++)
        for (int64_t i = 0; i < n; i++)
            ipu__ladder_add(&ladder, r * n + i, b->partner[r] * n + i, part_of(b->by_ipu[i], parts));
    int64_t in  = ipu__cost_ceil((double)most_in, p->model->receive_rate);
    int64_t out = ipu__cost_ceil((double)most_out, p->model->send_rate);
    *cycles     = ipu__cost_larger(ipu__ladder_cycles(&ladder, p->model), ipu__cost_larger(in, out));
    ipu__ladder_fini(&ladder);
    return IPU_OK;
}

static ipu_status price_cross_replica(ipu__pricer *p, const ipu__step *s, ipu__cost_row *row)
{
    between    b;
    ipu_status status = between_init(p, s, &b);
    for (int64_t r = 0; status == IPU_OK && r < s->n; r++) b.partner[r] = s->replicas[r];
    if (status == IPU_OK) status = price_round(p, &b, 1, &row->s.cycles.exchange);
    row->s.cycles.sync     = ipu__cost_hops(p->model, p->model->all_ipus);
    row->s.bytes_received  = b.in;
    row->s.bytes_sent      = b.out;
    row->s.messages        = b.tiles;
    row->s.bytes_exchanged = row->s.link_bytes = b.bytes;
    row->is_phase                              = true;
    between_fini(&b);
    return status;
}

/* An algorithm for summing over replicas. */
typedef struct reduction {
    const char *name;
    int64_t rounds, additions, parts; /* in each round one of `parts` parts of the data goes to a partner */
    int64_t exchange;                 /* over all rounds */
} reduction;

/* Everything in each round, to partners at doubling distances: few rounds, long distances. */
static ipu_status price_doubling(const ipu__pricer *p, between *b, reduction *out)
{
    *out = (reduction){"by doubling", 0, 0, 1, 0};
    for (int64_t far = 1; far < p->g->replication; far *= 2) {
        int64_t cycles;
        for (int64_t r = 0; r < p->g->replication; r++) b->partner[r] = r ^ far;
        IPU_TRY(price_round(p, b, 1, &cycles));
        out->exchange = ipu__cost_add(out->exchange, cycles);
        out->rounds++;
    }
    out->additions = out->rounds;
    return IPU_OK;
}

/* First sums of parts travel around the ring, then the finished parts: many rounds, to the neighbour. */
static ipu_status price_ring(const ipu__pricer *p, between *b, reduction *out)
{
    int64_t n = p->g->replication, cycles;
    *out      = (reduction){"around a ring", 2 * (n - 1), n - 1, n, 0};
    for (int64_t r = 0; r < n; r++) b->partner[r] = (r + 1) % n;
    IPU_TRY(price_round(p, b, n, &cycles));
    out->exchange = ipu__cost_times(cycles, out->rounds);
    return IPU_OK;
}

/* An addition passes its elements like a copy. The step adds one sync on the chip itself. */
static ipu_cost_cycles reduction_cycles(const ipu__pricer *p, const between *b, const reduction *r)
{
    int64_t         part = part_of(b->in, r->parts), sync = (int64_t)p->model->sync;
    ipu_cost_cycles c = {.exchange = r->exchange};
    c.compute         = ipu__cost_times(copy_cycles(p, part), r->additions);
    c.sync  = ipu__cost_times(sync + ipu__cost_hops(p->model, p->model->all_ipus), r->rounds) - sync;
    c.total = ipu__cost_add(c.compute, ipu__cost_add(c.exchange, c.sync));
    return c;
}

static ipu_status note_reduction(ipu__pricer *p, const between *b, const reduction *r, ipu__cost_row *row)
{
    ipu_cost_step *c  = &row->s;
    c->cycles         = reduction_cycles(p, b, r);
    c->bytes_received = ipu__cost_times(part_of(b->in, r->parts), r->rounds);
    c->bytes_sent     = ipu__cost_times(part_of(b->out, r->parts), r->rounds);
    c->messages       = ipu__cost_times(b->tiles, r->rounds);
    c->link_bytes = c->bytes_exchanged = ipu__cost_times(part_of(b->bytes, r->parts), r->rounds);
    c->active_tiles                    = b->tiles;
    c->note          = ipu__cost_text(p->cost, "summed %s: %lld round%s", r->name, (long long)r->rounds,
                             r->rounds == 1 ? "" : "s");
    row->tile_cycles = (double)c->cycles.compute * (double)c->active_tiles;
    row->is_phase    = true;
    return c->note ? IPU_OK : ipu__fail_memory();
}

/* The cheaper algorithm; doubling needs a power of two. Other processes are not part of this graph. */
static ipu_status price_all_reduce(ipu__pricer *p, const ipu__step *s, ipu__cost_row *row)
{
    between   b;
    reduction best, other;
    int64_t   n = p->g->replication;
    if (n < 2) return IPU_OK;
    ipu_status status = between_init(p, s, &b);
    if (status == IPU_OK) status = price_ring(p, &b, &best);
    if (status == IPU_OK && (n & (n - 1)) == 0) {
        status = price_doubling(p, &b, &other);
        if (reduction_cycles(p, &b, &other).total <= reduction_cycles(p, &b, &best).total) best = other;
    }
    if (status == IPU_OK) status = note_reduction(p, &b, &best, row);
    between_fini(&b);
    return status;
}

/* ---- kernels ---- */

static size_t kernel_number(const ipu__kernel_def *def)
{
    size_t i = 0;
    while (ipu__kernels[i] && ipu__kernels[i] != def) i++;
    return i;
}

/* The IPUs that a kernel uses: whole ones, or part of one. */
static ipu_target window_target(const ipu__pricer *p, const ipu__kernel_step *step)
{
    ipu_target target = p->model->target;
    int64_t    n      = (step->n_tiles + target.tiles_per_ipu - 1) / target.tiles_per_ipu;
    target.n_ipus     = n;
    if (step->n_tiles < n * target.tiles_per_ipu) target.tiles_per_ipu = step->n_tiles / n;
    return target;
}

static ipu_status price_kernel(ipu__pricer *p, const ipu__step *s, ipu__cost_row *row)
{
    const ipu__kernel_step *step   = &p->g->kernel_steps.at[s->object];
    const ipu__kernel_call *call   = &step->call;
    ipu_target              target = window_target(p, step);
    ipu__kernel_plan        plan   = {0};
    ipu_status              status = call->def->plan ? call->def->plan(call, &target, &plan) : IPU_NOT_FOUND;
    row->is_phase                  = true;
    row->first_tile                = step->first_tile;
    if (call->def->work) row->s.operations = call->def->work(call);
    if (status == IPU_NOT_FOUND) {
        row->s.note = "not modelled on this chip: it has no constant that the plan of this kernel needs";
        return IPU_OK;
    }
    if (status != IPU_OK) return status;
    int64_t in             = ipu__cost_ceil((double)plan.bytes_received, p->model->receive_rate);
    int64_t out            = ipu__cost_ceil((double)plan.bytes_sent, p->model->send_rate);
    row->plan              = plan;
    row->s.cycles.compute  = plan.cycles;
    row->s.cycles.exchange = in > out ? in : out;
    row->s.active_tiles    = plan.n_tiles;
    row->tile_cycles       = (double)plan.cycles * (double)plan.n_tiles;
    row->s.bytes_received  = plan.bytes_received;
    row->s.bytes_sent      = plan.bytes_sent;
    row->s.bytes_exchanged = ipu__cost_times(plan.bytes_received, plan.n_tiles);
    row->s.note            = plan.basis;
    for (int64_t t = step->first_tile; t < step->first_tile + plan.n_tiles && t < p->model->n_tiles; t++) {
        ipu__code_on_tile(p, p->g->codelets.n + kernel_number(call->def), (uint32_t)t);
        if (plan.bytes_received || plan.bytes_sent) ipu__exchange_charge(p, (uint32_t)t, 1);
    }
    return ipu__cost_note_window(p, row, step->first_tile, plan.n_tiles, plan.cycles) ? IPU_OK
                                                                                      : ipu__fail_memory();
}

/* ---- the rest ---- */

static ipu_status price_set(ipu__pricer *p, const ipu__step *s, ipu__cost_row *row)
{
    return ipu__price_set(p, s->object, row);
}

static ipu_status price_sync(ipu__pricer *p, const ipu__step *s, ipu__cost_row *row)
{
    if (s->n != IPU_SYNC_INTERNAL) row->s.cycles.sync = ipu__cost_hops(p->model, p->model->all_ipus);
    row->is_phase = true;
    return IPU_OK;
}

/* All tiles must know which way to go. */
static ipu_status price_predicate(ipu__pricer *p, const ipu__step *s, ipu__cost_row *row)
{
    (void)s;
    int64_t others = p->model->n_tiles - 1, bytes = IPU__DEFAULT_predicate_bytes;
    if (others == 0) return IPU_OK;
    row->s.cycles.exchange = ipu__cost_ceil((double)bytes, p->model->receive_rate);
    row->s.cycles.sync     = ipu__cost_hops(p->model, p->model->target.n_ipus);
    row->s.bytes_exchanged = others * bytes;
    row->s.bytes_received = row->s.bytes_sent = bytes;
    row->s.messages                           = others;
    row->s.link_bytes                         = (p->model->target.n_ipus - 1) * bytes;
    for (int64_t t = 0; t < p->model->n_tiles; t++) ipu__exchange_charge(p, (uint32_t)t, 1);
    row->is_phase = true;
    return IPU_OK;
}

static ipu_status price_host_only(ipu__pricer *p, const ipu__step *s, ipu__cost_row *row)
{
    (void)p, (void)s;
    row->s.note = "not modelled: what it says goes to the host";
    return IPU_OK;
}

static ipu_status (*const prices[IPU__N_STEP_KINDS])(ipu__pricer *, const ipu__step *, ipu__cost_row *) = {
    [IPU__STEP_EXECUTE]            = price_set,
    [IPU__STEP_KERNEL]             = price_kernel,
    [IPU__STEP_COPY]               = price_copy,
    [IPU__STEP_READ]               = price_stream,
    [IPU__STEP_WRITE]              = price_stream,
    [IPU__STEP_REMOTE_READ]        = price_remote,
    [IPU__STEP_REMOTE_WRITE]       = price_remote,
    [IPU__STEP_WHILE_TRUE]         = price_predicate,
    [IPU__STEP_WHILE_FALSE]        = price_predicate,
    [IPU__STEP_IF]                 = price_predicate,
    [IPU__STEP_SWITCH]             = price_predicate,
    [IPU__STEP_ABORT_IF]           = price_predicate,
    [IPU__STEP_SYNC]               = price_sync,
    [IPU__STEP_CROSS_REPLICA_COPY] = price_cross_replica,
    [IPU__STEP_ALL_REDUCE]         = price_all_reduce,
    [IPU__STEP_PRINT]              = price_host_only,
    [IPU__STEP_ERROR]              = price_host_only,
};

static bool note_accesses(ipu__pricer *p, const ipu__step *s)
{
    if (s->kind == IPU__STEP_KERNEL) {
        const ipu__kernel_step *k = &p->g->kernel_steps.at[s->object];
        for (int i = 0; i < k->call.n_operands; i++) {
            ipu__kernel_access access = k->call.def->operands[i].access;
            if (!ipu__access_view(p, k->views[i], access != IPU__ACCESS_WRITE, access != IPU__ACCESS_READ))
                return false;
        }
        return true;
    }
    return ipu__access_view(p, s->from, true, false) && ipu__access_view(p, s->rows, true, false)
        && ipu__access_view(p, s->to, false, true);
}

/* If part of a variable is dropped, the rest is kept. */
static void drop_values(ipu__pricer *p, ipu__cost_row *row)
{
    size_t n = 0;
    for (size_t i = 0; i < row->accesses.n; i++) {
        ipu__cost_access a = p->accesses.at[row->accesses.first + i];
        if (a.is_killed) p->accesses.at[row->accesses.first + n++] = (ipu__cost_access){.var = a.var};
    }
    row->accesses.n = n;
}

ipu_status ipu__price_step(ipu__pricer *p, const ipu__step *s, ipu__cost_row *row)
{
    static const char *const kinds[] = {
#define X(name, text) [IPU__STEP_##name] = text,
        IPU__STEP_LIST(X)
#undef X
    };
    char where[IPU__WHERE_BYTES];
    *row = (ipu__cost_row){0};
    if (prices[s->kind]) IPU_TRY(prices[s->kind](p, s, row));
    if (s->kind != IPU__STEP_EXECUTE) {
        size_t begin = ipu__access_begin(p);
        if (!note_accesses(p, s)) return ipu__fail_memory();
        row->accesses = ipu__access_end(p, begin);
        if (s->kind == IPU__STEP_WRITE_UNDEF) drop_values(p, row);
    }
    if (row->is_phase) row->s.cycles.sync = ipu__cost_add(row->s.cycles.sync, (int64_t)p->model->sync);
    ipu_cost_cycles *c = &row->s.cycles;
    c->total = ipu__cost_add(ipu__cost_add(c->compute, c->exchange), ipu__cost_add(c->sync, c->host));
    if (c->compute > 0) row->s.balance = row->tile_cycles / ((double)c->compute * (double)p->model->n_tiles);
    row->callee  = IPU__NO_UNIT;
    row->s.kind  = kinds[s->kind];
    row->s.name  = step_name(p, s);
    row->s.where = ipu__cost_text(p->cost, "%s", ipu__graph_where(p->g, s->location, where));
    row->s.note  = row->s.note ? row->s.note : "";
    return row->s.name && row->s.where ? IPU_OK : ipu__fail_memory();
}
