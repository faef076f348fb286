/* Compute sets: the exchange before, the vertices of each tile on its workers, the exchange after.
 *
 * Workers issue in turn, so a tile takes n_workers cycles for each cycle of its busiest worker. Vertices
 * are assigned longest first, in graph order among equals, each to the first of the least loaded workers. A
 * multi-vertex has all workers to itself.
 */
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"

enum { MAX_WORKERS = 64 };

/* ---- what moves ---- */

static bool add_interval(ipu__pricer *p, uint32_t tile, ipu__interval x, bool reads, bool writes)
{
    if (!ipu__access_note(p, x.var, x.end - x.begin, reads, writes)) return false;
    while (x.begin < x.end) {
        uint32_t      home;
        ipu__interval part = ipu__cost_split(p, &x, &home);
        if (home == tile) continue;
        if (reads && !ipu__exchange_add(&p->in, tile, home, part.var, part.begin, part.end)) return false;
        if (writes && !ipu__exchange_add(&p->out, home, tile, part.var, part.begin, part.end)) return false;
        if (!ipu__exchange_add(&p->both, tile, 0, part.var, part.begin, part.end)) return false;
    }
    return true;
}

static bool add_view(ipu__pricer *p, uint32_t tile, uint32_t view, bool reads, bool writes)
{
    p->n_edges++;
    p->intervals.list.n = 0;
    if (!ipu__intervals_add(&p->intervals, &p->g->views, view, 0)) return false;
    for (size_t i = 0; i < p->intervals.list.n; i++)
        if (!add_interval(p, tile, p->intervals.list.at[i], reads, writes)) return false;
    return true;
}

static bool add_field(ipu__pricer *p, const ipu__vertex *v, const ipu_codelet_field *f, uint32_t link)
{
    ipu_field_direction direction = ipu__field_direction(f->form);
    if (direction == IPU_DIRECTION_STATE) return true;
    bool            reads = direction != IPU_DIRECTION_OUT, writes = direction != IPU_DIRECTION_IN;
    const uint32_t *views = &link;
    uint32_t        n     = 1;
    if (link & IPU__LIST) {
        n     = p->g->lists.at[link & ~IPU__LIST];
        views = &p->g->lists.at[(link & ~IPU__LIST) + 1];
    }
    for (uint32_t i = 0; i < n; i++)
        if (!add_view(p, v->tile, views[i], reads, writes)) return false;
    return true;
}

static ipu_status add_vertex(ipu__pricer *p, uint32_t id)
{
    const ipu__vertex  *v       = &p->g->vertices.at[id];
    const ipu__codelet *codelet = &p->g->codelets.at[v->codelet];
    ipu__job            job     = {.tile = v->tile, .is_multi = codelet->multi};
    IPU_TRY(ipu__vertex_cycles(p, id, &job.cycles));
    if (!ipu__push(&p->jobs, job)) return ipu__fail_memory();
    p->fixed[v->tile].state += ipu__vertex_state_bytes(p->g, id);
    ipu__code_on_tile(p, v->codelet, v->tile);
    for (uint32_t i = 0; i < codelet->n_fields; i++)
        if (!add_field(p, v, &codelet->fields[i], p->g->links.at[v->links + i])) return ipu__fail_memory();
    return IPU_OK;
}

/* ---- workers ---- */

static int longest_first(const void *a, const void *b)
{
    const ipu__job *x = a, *y = b;
    if (x->is_multi != y->is_multi) return x->is_multi ? 1 : -1;
    return (x->cycles < y->cycles) - (x->cycles > y->cycles); /* order among equals makes no difference */
}

static bool are_equal(const ipu__job *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (jobs[i].is_multi || jobs[i].cycles != jobs[0].cycles) return false;
    return true;
}

/* Worker cycles of the busiest worker, for the jobs of one tile. */
static int64_t busiest_worker(const ipu__pricer *p, ipu__job *jobs, size_t n)
{
    int64_t load[MAX_WORKERS] = {0}, most = 0, multi = 0;
    int     workers = (int)(p->model->n_workers < MAX_WORKERS ? p->model->n_workers : MAX_WORKERS);
    if (are_equal(jobs, n)) return (int64_t)((n + (size_t)workers - 1) / (size_t)workers) * jobs[0].cycles;
    qsort(jobs, n, sizeof *jobs, longest_first);
    for (size_t i = 0; i < n; i++) {
        int least = 0;
        for (int w = 1; w < workers; w++)
            if (load[w] < load[least]) least = w;
        if (jobs[i].is_multi)
            multi += jobs[i].cycles;
        else
            load[least] += jobs[i].cycles;
    }
    for (int w = 0; w < workers; w++)
        if (load[w] > most) most = load[w];
    return most + multi;
}

static bool deal_jobs(ipu__pricer *p)
{
    size_t n = p->jobs.n, n_tiles = (size_t)p->model->n_tiles, *next = p->deal;
    if (!ipu__reserve(&p->dealt_jobs, n)) return false;
    memset(next, 0, (n_tiles + 1) * sizeof *next);
    for (size_t i = 0; i < n; i++) next[p->jobs.at[i].tile + 1]++;
    for (size_t t = 1; t <= n_tiles; t++) next[t] += next[t - 1];
    for (size_t i = 0; i < n; i++) p->dealt_jobs.at[next[p->jobs.at[i].tile]++] = p->jobs.at[i];
    return true; /* next[t] is now where tile t ends */
}

static bool price_compute(ipu__pricer *p, ipu__cost_row *row)
{
    int64_t most = 0, per_ipu = p->model->target.tiles_per_ipu; /* of the IPU */
    if (!deal_jobs(p)) return false;
    row->busy.first = p->busy.n;
    for (int64_t t = 0; t < p->model->n_tiles; t++) {
        if (t % per_ipu == 0) {
            if (t > 0 && !ipu__cost_note_busy(p, t / per_ipu - 1, most)) return false;
            most = 0;
        }
        size_t begin = t ? p->deal[t - 1] : 0, n = p->deal[t] - begin;
        if (n == 0) continue;
        int64_t worker = busiest_worker(p, p->dealt_jobs.at + begin, n);
        int64_t cycles = ipu__cost_add((int64_t)p->model->launch,
                                       ipu__cost_times(p->model->n_workers, worker));
        row->s.active_tiles++;
        row->tile_cycles += (double)cycles;
        if (cycles > row->s.cycles.compute) row->s.cycles.compute = cycles;
        if (cycles > most) most = cycles;
    }
    if (!ipu__cost_note_busy(p, (p->model->n_tiles - 1) / per_ipu, most)) return false;
    row->busy.n = p->busy.n - row->busy.first;
    return true;
}

/* ---- the set ---- */

static ipu_status price(ipu__pricer *p, const ipu__compute_set *cs, ipu__cost_row *row)
{
    ipu__traffic in, out;
    size_t       begin = ipu__access_begin(p), buffers = p->buffers.n;
    p->jobs.n = 0;
    for (uint32_t i = cs->first; i; i = p->g->vertices.at[i].next) IPU_TRY(add_vertex(p, i));
    row->accesses = ipu__access_end(p, begin);
    IPU_TRY(ipu__exchange_price(p, &p->in, &in));
    IPU_TRY(ipu__exchange_price(p, &p->out, &out));
    IPU_TRY(ipu__exchange_buffers(p, &p->both));
    row->buffers = (ipu__cost_slice){buffers, p->buffers.n - buffers};
    if (!price_compute(p, row)) return ipu__fail_memory();
    ipu__cost_add_traffic(p, row, &in);
    ipu__cost_add_traffic(p, row, &out);
    row->s.n_vertices = cs->n_vertices;
    row->is_phase     = cs->n_vertices > 0;
    return IPU_OK;
}

ipu_status ipu__price_set(ipu__pricer *p, uint32_t id, ipu__cost_row *row)
{
    ipu__set_cost *set = &p->sets[id];
    if (!set->is_done) {
        IPU_TRY(price(p, &p->g->compute_sets.at[id], &set->row));
        set->is_done = true;
    }
    *row = set->row;
    return IPU_OK;
}
