/* Races in a compute set: an element written through one field and also written through another, or read by
 * another vertex. A vertex may read what it writes itself. One sweep over the sorted intervals. */
#include <string.h>

#include "graph/check/check.h"

bool ipu__race_add(ipu__race_scratch *r, const ipu_graph *g, uint32_t vertex, uint32_t field, uint32_t view)
{
    const ipu_codelet_field *f   = &g->codelets.at[g->vertices.at[vertex].codelet].fields[field];
    ipu__race_use            use = {vertex, field, ipu__field_direction(f->form) != IPU_DIRECTION_IN};
    return ipu__push(&r->uses, use)
        && ipu__intervals_add(&r->elements, &g->views, view, (uint32_t)r->uses.n - 1);
}

/* The two intervals that extend furthest, from different vertices. */
typedef struct reach {
    const ipu__interval *first, *second;
} reach;

typedef struct sweep {
    const ipu_graph         *g;
    const ipu__race_scratch *r;
    const ipu__compute_set  *cs;
    ipu__problems           *problems;
    reach                    writes, reads;
} sweep;

static const ipu__race_use *use_of(const sweep *s, const ipu__interval *x) { return &s->r->uses.at[x->tag]; }

static void extend(const sweep *s, reach *r, const ipu__interval *x)
{
    uint32_t vertex = use_of(s, x)->vertex;
    if (!r->first || x->end > r->first->end) {
        if (r->first && use_of(s, r->first)->vertex != vertex) r->second = r->first;
        r->first = x;
    } else if (use_of(s, r->first)->vertex != vertex && (!r->second || x->end > r->second->end)) {
        r->second = x;
    }
}

/* An interval of another vertex that extends beyond the start of `x`. */
static const ipu__interval *other_vertex(const sweep *s, const reach *r, const ipu__interval *x)
{
    const ipu__interval *y = r->first;
    if (y && use_of(s, y)->vertex == use_of(s, x)->vertex) y = r->second;
    return y && y->end > x->begin ? y : NULL;
}

static void describe(const sweep *s, const ipu__interval *x, char text[256])
{
    const ipu__race_use *use      = use_of(s, x);
    const ipu__vertex   *v        = &s->g->vertices.at[use->vertex];
    const ipu__codelet  *codelet  = &s->g->codelets.at[v->codelet];
    char                 tile[32] = "no tile";
    if (v->tile != IPU__NO_TILE) snprintf(tile, sizeof tile, "tile %u", v->tile);
    snprintf(text, 256, "field \"%s\" of vertex \"%s\" on %s", codelet->fields[use->field].name,
             codelet->name, tile);
}

static void report(const sweep *s, const ipu__interval *x, const ipu__interval *y, bool both_write)
{
    char a[256], b[256], where[IPU__WHERE_BYTES];
    if (!use_of(s, x)->writes) { /* report the writer first */
        const ipu__interval *swap = x;
        x                         = y;
        y                         = swap;
    }
    int64_t begin = x->begin > y->begin ? x->begin : y->begin, end = x->end < y->end ? x->end : y->end;
    describe(s, x, a);
    describe(s, y, b);
    const ipu__vertex *vx = &s->g->vertices.at[use_of(s, x)->vertex],
                      *vy = &s->g->vertices.at[use_of(s, y)->vertex];
    ipu__problem(
        s->problems, vx->location,
        "race in compute set \"%s\": %s writes elements [%lld, %lld) of variable %s, which %s %s in the same compute "
        "set (added at %s): use two compute sets or separate elements",
        s->cs->name, a, (long long)begin, (long long)end, ipu__variable_str(s->g, x->var), b,
        both_write ? "writes too" : "reads", ipu__graph_where(s->g, vy->location, where));
}

/* Returns true if a race, or a write to a constant, was reported. */
static bool check_one(sweep *s, const ipu__interval *x)
{
    if (!use_of(s, x)->writes) {
        const ipu__interval *y = other_vertex(s, &s->writes, x);
        if (y) report(s, x, y, false);
        extend(s, &s->reads, x);
        return y != NULL;
    }
    if (ipu__graph_variable(s->g, x->var)->kind != IPU__VARIABLE) {
        char text[256];
        describe(s, x, text);
        ipu__problem(s->problems, s->g->vertices.at[use_of(s, x)->vertex].location,
                     "compute set \"%s\": %s writes elements [%lld, %lld) of %s, which is a constant",
                     s->cs->name, text, (long long)x->begin, (long long)x->end,
                     ipu__variable_str(s->g, x->var));
        return true;
    }
    const ipu__interval *y = s->writes.first && s->writes.first->end > x->begin ? s->writes.first : NULL;
    const ipu__interval *z = y ? NULL : other_vertex(s, &s->reads, x);
    if (y) report(s, x, y, true);
    if (z) report(s, x, z, false);
    extend(s, &s->writes, x);
    return y || z;
}

void ipu__race_check(ipu__race_scratch *r, ipu__problems *problems, const ipu__compute_set *cs)
{
    ipu__intervals_sort(&r->elements);
    sweep    s   = {.g = problems->g, .r = r, .cs = cs, .problems = problems};
    uint32_t var = 0, reported = 0;
    for (size_t i = 0; i < r->elements.list.n; i++) {
        const ipu__interval *x = &r->elements.list.at[i];
        if (x->var != var) s.writes = s.reads = (reach){0};
        var = x->var;
        if (var != reported && check_one(&s, x)) reported = var; /* one report per variable is enough */
    }
    r->uses.n = r->elements.list.n = 0;
}

void ipu__race_fini(ipu__race_scratch *r)
{
    ipu__array_fini(&r->uses);
    ipu__intervals_fini(&r->elements);
}
