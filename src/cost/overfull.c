/* Tiles that are too small for what is on them: which, by how much, and what takes the space. */
#include <stdlib.h>

#include "base/log.h"
#include "cost/cost.h"

static int worst_first(const void *a, const void *b)
{
    const ipu_cost_overfull *x = a, *y = b;
    if (x->over != y->over) return x->over > y->over ? -1 : 1;
    return (x->tile > y->tile) - (x->tile < y->tile);
}

/* Keeps the three largest; names are made later. */
typedef struct tenant {
    uint32_t    var;  /* 0 for a category */
    const char *text; /* of the category */
    int64_t     bytes;
} tenant;

typedef struct tenants {
    tenant at[IPU_COST_MAX_TENANTS];
    int    n;
} tenants;

static void consider(tenants *t, tenant next)
{
    if (next.bytes <= 0) return;
    int at = t->n < IPU_COST_MAX_TENANTS ? t->n++ : IPU_COST_MAX_TENANTS;
    for (; at > 0 && t->at[at - 1].bytes < next.bytes; at--)
        if (at < IPU_COST_MAX_TENANTS) t->at[at] = t->at[at - 1];
    if (at < IPU_COST_MAX_TENANTS) t->at[at] = next;
}

static void consider_variable(const ipu__pricer *p, tenants *t, uint32_t var, int64_t tile)
{
    const ipu__variable *v     = &p->g->variables.at[var];
    int64_t              bytes = 0;
    for (size_t i = 0; i < v->mapping.places.n; i++)
        if (v->mapping.places.at[i].tile == tile)
            bytes += v->mapping.places.at[i].end - v->mapping.places.at[i].begin;
    consider(t, (tenant){var, NULL, bytes * (int64_t)ipu_type_size(v->type)});
}

/* Variables of a unit, and of its callees, that are on the tile when it is fullest. */
static void consider_unit(const ipu__pricer *p, tenants *t, const ipu__unit *u, uint32_t tile)
{
    const ipu__peak_frame *f = u ? ipu__cost_frame(u, tile) : NULL;
    if (!f) return;
    for (size_t i = 0; i < u->entries.n; i++) {
        const ipu__entry *e = &u->entries.at[i];
        if (ipu__cost_counts(p, u, e) && e->first <= f->row && e->last >= f->row)
            consider_variable(p, t, e->access.var, tile);
    }
    uint32_t callee = u->rows.at[f->row].callee;
    consider_unit(p, t, callee == IPU__NO_UNIT ? NULL : &p->units.at[callee], tile);
}

/* The program in which the tile is fullest. */
static const ipu__unit *fullest_program(const ipu__pricer *p, uint32_t tile)
{
    const ipu__unit *best = NULL;
    int64_t          most = 0;
    for (size_t i = 0; i < p->roots.n; i++) {
        const ipu__unit       *u = &p->units.at[p->roots.at[i]];
        const ipu__peak_frame *f = ipu__cost_frame(u, tile);
        if (!f || f->total <= most) continue;
        best = u;
        most = f->total;
    }
    return best;
}

static bool find_tenants(ipu__pricer *p, ipu_cost_overfull *o)
{
    static const ipu_memory_category others[] = {IPU_MEMORY_MESSAGES,      IPU_MEMORY_TEMPORARIES,
                                                 IPU_MEMORY_VERTEX_STATE,  IPU_MEMORY_CODE,
                                                 IPU_MEMORY_EXCHANGE_CODE, IPU_MEMORY_STACK};
    tenants                          t        = {0};
    for (uint32_t i = 1; i < p->g->variables.n; i++)
        if (p->is_always_live[i]) consider_variable(p, &t, i, o->tile);
    consider_unit(p, &t, fullest_program(p, (uint32_t)o->tile), (uint32_t)o->tile);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        consider(&t,
                 (tenant){0, ipu_memory_category_text(others[i]), p->cost->tiles[o->tile].bytes[others[i]]});
    o->n_tenants = t.n;
    for (int i = 0; i < t.n; i++) {
        o->tenant_bytes[i] = t.at[i].bytes;
        o->tenant[i]       = t.at[i].var ? ipu__cost_text(p->cost, "%s", ipu__variable_str(p->g, t.at[i].var))
                                         : t.at[i].text;
        if (!o->tenant[i]) return false;
    }
    return true;
}

ipu_status ipu__cost_overfull(ipu__pricer *p)
{
    ipu_cost *cost = p->cost;
    for (int64_t t = 0; t < p->model->n_tiles; t++) {
        int64_t over = cost->tiles[t].total - p->model->bytes_per_tile;
        if (over <= 0) continue;
        ipu_cost_overfull o = {.tile = t, .over = over, .peak_step = cost->tiles[t].peak_step};
        if (!ipu__push(&cost->overfull, o)) return ipu__fail_memory();
    }
    size_t n                 = cost->overfull.n;
    cost->summary.n_overfull = (int64_t)n;
    if (n > 1) qsort(cost->overfull.at, n, sizeof *cost->overfull.at, worst_first);
    if (n > IPU_COST_MAX_OVERFULL) cost->overfull.n = IPU_COST_MAX_OVERFULL;
    for (size_t i = 0; i < cost->overfull.n; i++)
        if (!find_tenants(p, &cost->overfull.at[i])) return ipu__fail_memory();
    return IPU_OK;
}

ipu_status ipu__cost_report_overfull(const ipu_cost *cost, bool strict)
{
    if (cost->overfull.n == 0) return IPU_OK;
    const ipu_cost_overfull *o     = &cost->overfull.at[0];
    const char              *where = o->peak_step >= 0 ? cost->rows.at[o->peak_step].s.where : NULL;
    ipu__text                text  = {0};
    ipu__text_add(&text, "tile %lld of %lld is over-full by %lld bytes (%lld of %lld)", (long long)o->tile,
                  (long long)cost->model.n_tiles, (long long)o->over, (long long)cost->tiles[o->tile].total,
                  (long long)cost->model.bytes_per_tile);
    if (where) ipu__text_add(&text, ", most at step %lld (%s)", (long long)o->peak_step, where);
    for (int i = 0; i < o->n_tenants; i++)
        ipu__text_add(&text, "%s%s: %lld bytes", i ? ", " : "; largest are ", o->tenant[i],
                      (long long)o->tenant_bytes[i]);
    if (cost->summary.n_overfull > 1)
        ipu__text_add(&text, "; %lld other tiles are over-full too", (long long)cost->summary.n_overfull - 1);
    ipu__text_add(&text, ". Spread the variables over more tiles, or use a larger target");
    ipu_status status = IPU_OK;
    if (text.failed)
        status = ipu__fail_memory();
    else if (strict)
        status = ipu__fail(IPU_TILE_OVERFLOW, "%s", text.at);
    else
        ipu__log_text(IPU_LOG_INFO, "graph", text.at);
    ipu__text_fini(&text);
    return status;
}
