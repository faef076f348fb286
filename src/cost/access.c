/* Where the elements of a view are placed, and how a step accesses variables. */
#include "cost/cost.h"

ipu__interval ipu__cost_split(ipu__pricer *p, ipu__interval *x, uint32_t *tile)
{
    const ipu__mapping   *m     = &p->g->variables.at[x->var].mapping;
    const ipu__placement *place = p->hint[x->var] < m->places.n ? &m->places.at[p->hint[x->var]] : NULL;
    if (place && place->end <= x->begin && place + 1 < m->places.at + m->places.n)
        place++; /* neighbours usually follow */
    if (!place || place->begin > x->begin || place->end <= x->begin) place = ipu__mapping_find(m, x->begin);
    IPU__ASSERT(place && place->begin <= x->begin); /* guaranteed by the check of the graph */
    p->hint[x->var]    = (uint32_t)(place - m->places.at);
    ipu__interval part = *x;
    if (part.end > place->end) part.end = place->end;
    x->begin = part.end;
    *tile    = place->tile;
    return part;
}

size_t ipu__access_begin(ipu__pricer *p)
{
    p->step_number++;
    return p->accesses.n;
}

bool ipu__access_note(ipu__pricer *p, uint32_t var, int64_t n, bool reads, bool writes)
{
    if (p->accessed_in[var] != p->step_number) {
        if (!ipu__push(&p->accesses, (ipu__cost_access){.var = var})) return false;
        p->accessed_in[var] = p->step_number;
        p->access_of[var]   = (uint32_t)p->accesses.n - 1;
        p->written[var]     = 0;
    }
    if (reads) p->accesses.at[p->access_of[var]].is_exposed = true;
    if (writes) p->written[var] += n;
    return true;
}

ipu__cost_slice ipu__access_end(ipu__pricer *p, size_t begin)
{
    for (size_t i = begin; i < p->accesses.n; i++) {
        ipu__cost_access *a = &p->accesses.at[i];
        a->is_killed        = !a->is_exposed && p->written[a->var] >= p->g->variables.at[a->var].n_elements;
        a->is_exposed       = !a->is_killed;
    }
    return (ipu__cost_slice){begin, p->accesses.n - begin};
}

bool ipu__access_view(ipu__pricer *p, uint32_t view, bool reads, bool writes)
{
    if (view == 0) return true;
    ipu__view   v      = ipu__view_get(&p->g->views, view);
    ipu__pieces pieces = ipu__view_pieces(&p->g->views, &v);
    for (ipu__piece piece; ipu__pieces_next(&pieces, &piece);)
        if (!ipu__access_note(p, piece.var, ipu__piece_count(&piece), reads, writes)) return false;
    return true;
}

void ipu__code_on_tile(ipu__pricer *p, size_t code, uint32_t tile)
{
    size_t         bit  = code * (size_t)p->model->n_tiles + tile;
    unsigned char *byte = &p->code_on[bit / 8], mask = (unsigned char)(1u << bit % 8);
    if (*byte & mask) return;
    *byte |= mask;
    p->fixed[tile].code += IPU__DEFAULT_codelet_code_bytes;
}
