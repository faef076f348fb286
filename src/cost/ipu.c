/* The part of each IPU: the cycles in which it computes, and its memory.
 *
 * Steps record the cycles of each IPU's busiest tile as they are priced; these are added up once all counts
 * are known.
 * requires: walk, memory.
 */
#include "cost/cost.h"

bool ipu__cost_note_busy(ipu__pricer *p, int64_t ipu, int64_t cycles)
{
    return cycles == 0 || ipu__push(&p->busy, (ipu__busy){ipu, cycles});
}

bool ipu__cost_note_window(ipu__pricer *p, ipu__cost_row *row, int64_t first_tile, int64_t n_tiles,
                           int64_t cycles)
{
    int64_t per_ipu = p->model->target.tiles_per_ipu, last = first_tile + n_tiles - 1;
    row->busy.first = p->busy.n;
    for (int64_t ipu = first_tile / per_ipu; n_tiles > 0 && ipu <= last / per_ipu; ipu++)
        if (!ipu__cost_note_busy(p, ipu, cycles)) return false;
    row->busy.n = p->busy.n - row->busy.first;
    return true;
}

static void add_memory(ipu_cost *cost, int64_t ipu, int64_t per_ipu)
{
    ipu_cost_ipu *out = &cost->ipus[ipu];
    out->fullest_tile = ipu * per_ipu;
    for (int64_t t = ipu * per_ipu; t < (ipu + 1) * per_ipu; t++) {
        out->memory_total += cost->tiles[t].total;
        if (cost->tiles[t].total <= out->memory_most) continue;
        out->memory_most  = cost->tiles[t].total;
        out->fullest_tile = t;
    }
}

ipu_status ipu__cost_ipus(ipu__pricer *p)
{
    ipu_cost *cost = p->cost;
    int64_t   n = p->model->target.n_ipus, total = cost->summary.cycles.total;
    cost->ipus = ipu__alloc_zeroed((size_t)n * sizeof *cost->ipus);
    if (!cost->ipus) return ipu__fail_memory();
    for (size_t i = 0; i < cost->rows.n; i++) {
        const ipu__cost_row *row = &cost->rows.at[i];
        for (size_t k = row->busy.first; k < row->busy.first + row->busy.n; k++) {
            ipu_cost_ipu *ipu = &cost->ipus[p->busy.at[k].ipu];
            ipu->cycles = ipu__cost_add(ipu->cycles, ipu__cost_times(p->busy.at[k].cycles, row->s.count));
        }
    }
    for (int64_t i = 0; i < n; i++) {
        add_memory(cost, i, p->model->target.tiles_per_ipu);
        cost->ipus[i].share = total > 0 ? (double)cost->ipus[i].cycles / (double)total : 0;
    }
    return IPU_OK;
}

bool ipu_cost_ipu_at(const ipu_cost *cost, int64_t i, ipu_cost_ipu *out)
{
    if (i < 0 || i >= cost->model.target.n_ipus) return false;
    *out = cost->ipus[i];
    return true;
}
