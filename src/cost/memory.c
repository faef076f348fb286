/* Memory of every tile: what is always there, and the maximum added to it at any row.
 *
 * For each unit, callees first, changes are listed as events (tile, row, bytes), distributed by tile and
 * swept. A call adds the maximum its callee needs.
 * requires: walk, live. Produces the tiles, and tile_bytes of rows.
 */
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"

typedef struct event {
    uint32_t tile, row;
    int      category;
    int64_t  bytes;
} event;

/* Rows begin <= i < end have at least `bytes` on `tile`. */
typedef struct stretch {
    uint32_t begin, end, tile;
    int64_t  bytes, changing[IPU__N_CHANGING];
} stretch;

typedef struct memory {
    ipu__pricer *p;
    int64_t     *fixed;                  /* by tile: everything constant */
    int64_t      fullest, fullest_bytes; /* tile, and its constant bytes */
    uint32_t    *next;                   /* by row: the first row from it on without a peak yet */
    IPU__ARRAY(event) events, dealt;
    IPU__ARRAY(stretch) stretches;
} memory;

/* ---- what is always there ---- */

static void add_always_live(ipu__pricer *p)
{
    for (size_t i = 1; i < p->g->variables.n; i++) {
        const ipu__variable *v    = &p->g->variables.at[i];
        int64_t              size = (int64_t)ipu_type_size(v->type);
        for (size_t k = 0; p->is_always_live[i] && k < v->mapping.places.n; k++) {
            const ipu__placement *place = &v->mapping.places.at[k];
            p->fixed[place->tile].always += (place->end - place->begin) * size;
        }
    }
}

static void sum_fixed(memory *m)
{
    ipu__pricer *p       = m->p;
    int64_t      control = (int64_t)p->cost->rows.n * IPU__DEFAULT_step_code_bytes;
    int64_t      stacks  = p->model->n_workers * IPU__DEFAULT_worker_stack_bytes
                   + IPU__DEFAULT_supervisor_stack_bytes;
    for (int64_t t = 0; t < p->model->n_tiles; t++) {
        const ipu__fixed *f         = &p->fixed[t];
        int64_t          *b         = p->cost->tiles[t].bytes;
        b[IPU_MEMORY_ALWAYS_LIVE]   = f->always;
        b[IPU_MEMORY_VERTEX_STATE]  = f->state;
        b[IPU_MEMORY_CODE]          = f->code + control;
        b[IPU_MEMORY_EXCHANGE_CODE] = f->exchange_code;
        b[IPU_MEMORY_STACK]         = stacks;
        m->fixed[t]                 = f->always + f->state + f->code + control + f->exchange_code + stacks;
        p->cost->tiles[t].total     = m->fixed[t];
        p->cost->tiles[t].peak_step = -1;
        if (m->fixed[t] > m->fullest_bytes) {
            m->fullest       = t;
            m->fullest_bytes = m->fixed[t];
        }
    }
}

/* ---- events ---- */

static const ipu_memory_category changing[IPU__N_CHANGING] = {IPU_MEMORY_NOT_ALWAYS_LIVE, IPU_MEMORY_MESSAGES,
                                                              IPU_MEMORY_TEMPORARIES};
enum { LIVE, MESSAGES, TEMPORARIES };

static bool add_event(memory *m, uint32_t tile, int64_t first, int64_t last, int category, int64_t bytes)
{
    if (bytes == 0) return true;
    return ipu__push(&m->events, (event){tile, (uint32_t)first, category, bytes})
        && ipu__push(&m->events, (event){tile, (uint32_t)last + 1, category, -bytes});
}

bool ipu__cost_counts(const ipu__pricer *p, const ipu__unit *u, const ipu__entry *e)
{
    return !p->is_always_live[e->access.var] && (u->is_program || !e->is_outside);
}

static bool add_variables(memory *m, const ipu__unit *u)
{
    for (size_t i = 0; i < u->entries.n; i++) {
        const ipu__entry    *e    = &u->entries.at[i];
        const ipu__variable *v    = &m->p->g->variables.at[e->access.var];
        int64_t              size = (int64_t)ipu_type_size(v->type);
        if (!ipu__cost_counts(m->p, u, e)) continue;
        for (size_t k = 0; k < v->mapping.places.n; k++) {
            const ipu__placement *place = &v->mapping.places.at[k];
            if (!add_event(m, place->tile, e->first, e->last, LIVE, (place->end - place->begin) * size))
                return false;
        }
    }
    return true;
}

static bool add_row(memory *m, const ipu__unit *u, int64_t r)
{
    const ipu__cost_row *row = &u->rows.at[r];
    for (size_t i = 0; i < row->buffers.n; i++) {
        const ipu__buffer *b = &m->p->buffers.at[row->buffers.first + i];
        if (!add_event(m, b->tile, r, r, MESSAGES, b->bytes)) return false;
    }
    int64_t first = row->first_tile, end = first + row->plan.n_tiles, all = m->p->model->n_tiles;
    for (int64_t t = first; row->plan.tile_bytes > 0 && t < end && t < all; t++)
        if (!add_event(m, (uint32_t)t, r, r, TEMPORARIES, row->plan.tile_bytes)) return false;
    if (row->callee == IPU__NO_UNIT) return true;
    const ipu__unit *callee = &m->p->units.at[row->callee];
    for (size_t i = 0; i < callee->frames.n; i++)
        for (int c = 0; c < IPU__N_CHANGING; c++)
            if (!add_event(m, callee->frames.at[i].tile, r, r, c, callee->frames.at[i].bytes[c]))
                return false;
    return true;
}

static int by_row(const void *a, const void *b)
{
    const event *x = a, *y = b;
    return (x->row > y->row) - (x->row < y->row);
}

/* Afterwards p->deal[t] is where the events of tile t end. */
static bool deal_events(memory *m)
{
    size_t n = m->events.n, n_tiles = (size_t)m->p->model->n_tiles, *next = m->p->deal;
    if (!ipu__reserve(&m->dealt, n)) return false;
    memset(next, 0, (n_tiles + 1) * sizeof *next);
    for (size_t i = 0; i < n; i++) next[m->events.at[i].tile + 1]++;
    for (size_t t = 1; t <= n_tiles; t++) next[t] += next[t - 1];
    for (size_t i = 0; i < n; i++) m->dealt.at[next[m->events.at[i].tile]++] = m->events.at[i];
    return true;
}

/* ---- sweeping one tile ---- */

static void raise_rows(ipu__unit *u, const stretch *s)
{
    for (uint32_t r = s->begin; r < s->end; r++) {
        ipu_cost_step *step = &u->rows.at[r].s;
        if (s->bytes <= step->tile_bytes) continue;
        step->tile_bytes   = s->bytes;
        step->fullest_tile = s->tile;
        for (int c = 0; c < IPU__N_CHANGING; c++) step->memory[changing[c]] = s->changing[c];
    }
}

static bool sweep_tile(memory *m, ipu__unit *u, uint32_t tile, event *events, size_t n)
{
    enum { SHORT = 8 };
    ipu__peak_frame now = {.tile = tile}, most = {.tile = tile};
    qsort(events, n, sizeof *events, by_row);
    for (size_t i = 0; i < n;) {
        uint32_t row = events[i].row;
        for (; i < n && events[i].row == row; i++) {
            now.bytes[events[i].category] += events[i].bytes;
            now.total += events[i].bytes;
        }
        now.row          = row;
        ipu__level level = {tile, row, {0}};
        memcpy(level.bytes, now.bytes, sizeof level.bytes);
        if (!ipu__push(&m->p->cost->levels, level)) return false;
        if (now.total > most.total) most = now;
        uint32_t end = i < n ? events[i].row : (uint32_t)u->rows.n;
        stretch  s   = {row, end, tile, m->fixed[tile] + now.total, {0}};
        memcpy(s.changing, now.bytes, sizeof s.changing);
        if (end - row <= SHORT || row >= end)
            raise_rows(u, &s);
        else if (!ipu__push(&m->stretches, s))
            return false;
    }
    return most.total == 0 || ipu__push(&u->frames, most);
}

/* ---- the fullest tile of each row ---- */

static int largest_first(const void *a, const void *b)
{
    const stretch *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x->tile > y->tile) - (x->tile < y->tile);
}

static uint32_t next_open(memory *m, uint32_t row)
{
    uint32_t end = row;
    while (m->next[end] != end) end = m->next[end];
    while (m->next[row] != end) {
        uint32_t after = m->next[row];
        m->next[row]   = end;
        row            = after;
    }
    return end;
}

/* Long stretches, largest first, so that each row is visited once. */
static void paint(memory *m, ipu__unit *u)
{
    if (m->stretches.n == 0) return;
    qsort(m->stretches.at, m->stretches.n, sizeof *m->stretches.at, largest_first);
    for (uint32_t r = 0; r <= u->rows.n; r++) m->next[r] = r;
    for (size_t i = 0; i < m->stretches.n; i++) {
        const stretch *s = &m->stretches.at[i];
        for (uint32_t r = next_open(m, s->begin); r < s->end; r = next_open(m, r)) {
            stretch one = *s;
            one.begin   = r;
            one.end     = r + 1;
            raise_rows(u, &one);
            m->next[r] = r + 1;
        }
    }
    m->stretches.n = 0;
}

static bool sweep_unit(memory *m, ipu__unit *u)
{
    ipu__level_range range = {u->base, u->rows.n, m->p->cost->levels.n, 0};
    bool             ok    = add_variables(m, u);
    m->next                = ipu__alloc((u->rows.n + 1) * sizeof *m->next);
    for (size_t r = 0; ok && r < u->rows.n; r++) {
        u->rows.at[r].s.tile_bytes   = m->fullest_bytes;
        u->rows.at[r].s.fullest_tile = m->fullest;
        ok                           = add_row(m, u, (int64_t)r);
    }
    ok = ok && m->next && deal_events(m);
    for (int64_t t = 0; ok && t < m->p->model->n_tiles; t++) {
        size_t begin = t ? m->p->deal[t - 1] : 0, n = m->p->deal[t] - begin;
        if (n > 0) ok = sweep_tile(m, u, (uint32_t)t, m->dealt.at + begin, n);
    }
    if (ok) paint(m, u);
    ipu__free(m->next);
    m->events.n = 0;
    range.n     = m->p->cost->levels.n - range.first;
    return ok && ipu__push(&m->p->cost->ranges, range);
}

/* ---- everything together ---- */

const ipu__peak_frame *ipu__cost_frame(const ipu__unit *u, uint32_t tile)
{
    size_t low = 0, high = u->frames.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (u->frames.at[middle].tile < tile)
            low = middle + 1;
        else
            high = middle;
    }
    return low < u->frames.n && u->frames.at[low].tile == tile ? &u->frames.at[low] : NULL;
}

/* The row at which a frame is fullest; inside the callee for a call. */
static int64_t peak_step(const ipu__pricer *p, const ipu__unit *u, const ipu__peak_frame *f)
{
    for (;;) {
        const ipu__cost_row   *row    = &u->rows.at[f->row];
        const ipu__unit       *callee = row->callee == IPU__NO_UNIT ? NULL : &p->units.at[row->callee];
        const ipu__peak_frame *inner  = callee ? ipu__cost_frame(callee, f->tile) : NULL;
        if (!inner) return (int64_t)u->base + f->row;
        u = callee;
        f = inner;
    }
}

static void add_peaks(ipu__pricer *p)
{
    for (size_t i = 0; i < p->roots.n; i++) {
        const ipu__unit *u = &p->units.at[p->roots.at[i]];
        for (size_t k = 0; k < u->frames.n; k++) {
            const ipu__peak_frame *f    = &u->frames.at[k];
            ipu_cost_tile         *tile = &p->cost->tiles[f->tile];
            int64_t                now  = 0;
            for (int c = 0; c < IPU__N_CHANGING; c++) now += tile->bytes[changing[c]];
            if (f->total <= now) continue;
            for (int c = 0; c < IPU__N_CHANGING; c++) tile->bytes[changing[c]] = f->bytes[c];
            tile->total += f->total - now;
            tile->peak_step = peak_step(p, u, f);
        }
    }
}

/* Rows were priced in their units; the cost has copies. */
static void copy_peaks(ipu__pricer *p)
{
    for (size_t i = 0; i < p->units.n; i++) {
        ipu__unit *u = &p->units.at[i];
        for (size_t r = 0; r < u->rows.n; r++) {
            const ipu_cost_step *from = &u->rows.at[r].s;
            ipu_cost_step       *to   = &p->cost->rows.at[u->base + r].s;
            to->tile_bytes            = from->tile_bytes;
            to->fullest_tile          = from->fullest_tile;
            memcpy(to->memory, p->cost->tiles[to->fullest_tile].bytes, sizeof to->memory);
            for (int c = 0; c < IPU__N_CHANGING; c++) to->memory[changing[c]] = from->memory[changing[c]];
        }
    }
}

ipu_status ipu__cost_memory(ipu__pricer *p)
{
    memory m       = {.p = p, .fixed = ipu__alloc_zeroed((size_t)p->model->n_tiles * sizeof *m.fixed)};
    p->cost->tiles = ipu__alloc_zeroed((size_t)p->model->n_tiles * sizeof *p->cost->tiles);
    bool ok        = m.fixed && p->cost->tiles;
    if (ok) {
        add_always_live(p);
        sum_fixed(&m);
    }
    for (size_t i = 0; ok && i < p->units.n; i++) ok = sweep_unit(&m, &p->units.at[i]);
    if (ok) {
        add_peaks(p);
        copy_peaks(p);
    }
    ipu__free(m.fixed);
    ipu__array_fini(&m.events);
    ipu__array_fini(&m.dealt);
    ipu__array_fini(&m.stretches);
    return ok ? IPU_OK : ipu__fail_memory();
}

/* ---- asking ---- */

/* The tile's last level that starts at or before the row; NULL if nothing has changed yet. */
static const ipu__level *level_at(const ipu_cost *cost, const ipu__level_range *range, uint32_t tile,
                                  uint32_t row)
{
    size_t low = range->first, high = range->first + range->n;
    while (low < high) {
        size_t            middle = (low + high) / 2;
        const ipu__level *l      = &cost->levels.at[middle];
        if (l->tile < tile || (l->tile == tile && l->row <= row))
            low = middle + 1;
        else
            high = middle;
    }
    const ipu__level *found = low > range->first ? &cost->levels.at[low - 1] : NULL;
    return found && found->tile == tile ? found : NULL;
}

bool ipu_cost_tile_during(const ipu_cost *cost, int64_t tile, int64_t step, ipu_cost_tile *out)
{
    if (step < 0 || !ipu_cost_tile_at(cost, tile, out)) return false;
    size_t i = 0;
    while (i < cost->ranges.n
           && ((size_t)step < cost->ranges.at[i].base
               || (size_t)step >= cost->ranges.at[i].base + cost->ranges.at[i].n_rows))
        i++;
    if (i == cost->ranges.n) return false;
    const ipu__level_range *range = &cost->ranges.at[i];
    const ipu__level *level = level_at(cost, range, (uint32_t)tile, (uint32_t)((size_t)step - range->base));
    for (int c = 0; c < IPU__N_CHANGING; c++) {
        int64_t now = level ? level->bytes[c] : 0;
        out->total += now - out->bytes[changing[c]];
        out->bytes[changing[c]] = now;
    }
    out->peak_step = step;
    return true;
}
