/* A rail is stored as differences from rung to rung, so that long routes cost no more than short ones. */
#include "cost/ladder.h"

#include "base/alloc.h"

bool ipu__ladder_init(ipu__ladder *l, int64_t n_ipus)
{
    l->n_ipus = n_ipus + n_ipus % 2;
    l->ipus   = ipu__alloc_zeroed((size_t)l->n_ipus * sizeof *l->ipus);
    return l->ipus;
}

void ipu__ladder_fini(ipu__ladder *l)
{
    ipu__free(l->ipus);
    l->ipus = NULL;
}

/* `from` and `to` are on the same side. */
static void add_on_rail(ipu__ladder *l, int64_t from, int64_t to, int64_t bytes)
{
    if (from < to) { /* the links up of from ... to - 2 */
        l->ipus[from].up += bytes;
        l->ipus[to].up -= bytes;
    } else if (from > to) { /* the links down of from ... to + 2 */
        l->ipus[from].down += bytes;
        l->ipus[to].down -= bytes;
    }
}

void ipu__ladder_add(ipu__ladder *l, int64_t from, int64_t to, int64_t bytes)
{
    if (from == to) return;
    l->ipus[from].out += bytes;
    l->ipus[to].in += bytes;
    if (from / 2 == to / 2) {
        l->ipus[from].pair += bytes;
    } else if (from % 2 == to % 2) {
        add_on_rail(l, from, to, bytes);
    } else {
        l->ipus[from].across += bytes;
        add_on_rail(l, from ^ 1, to, bytes);
    }
}

static ipu__ladder_load busiest(const ipu__ladder *l)
{
    ipu__ladder_load most = {0};
    for (int64_t i = 0; i < l->n_ipus; i++) {
        const ipu__ladder_load *ipu = &l->ipus[i];
        most.pair                   = ipu__cost_larger(most.pair, ipu->pair);
        most.across                 = ipu__cost_larger(most.across, ipu->across);
        most.in                     = ipu__cost_larger(most.in, ipu->in);
        most.out                    = ipu__cost_larger(most.out, ipu->out);
    }
    for (int side = 0; side < 2; side++) {
        int64_t up = 0, down = 0;
        for (int64_t i = side; i < l->n_ipus; i += 2)
            most.up = ipu__cost_larger(most.up, up += l->ipus[i].up);
        for (int64_t i = l->n_ipus - 2 + side; i >= 0; i -= 2)
            most.down = ipu__cost_larger(most.down, down += l->ipus[i].down);
    }
    return most;
}

static bool is_one(const ipu__cost_model *m)
{
    return m->links_in_pair <= 0 || m->links_across <= 0 || m->links_on_rail <= 0;
}

double ipu__ladder_links(const ipu__cost_model *m, int64_t from, int64_t to)
{
    if (is_one(m)) return m->links;
    if (from / 2 == to / 2) return m->links_in_pair;
    return from % 2 == to % 2 || m->links_on_rail < m->links_across ? m->links_on_rail : m->links_across;
}

int64_t ipu__ladder_cycles(const ipu__ladder *l, const ipu__cost_model *m)
{
    ipu__ladder_load most = busiest(l);
    double           link = m->link_rate * m->link_efficiency;
    if (is_one(m)) return ipu__cost_at_rate(m, ipu__cost_larger(most.in, most.out), m->links * link);
    int64_t pair   = ipu__cost_at_rate(m, most.pair, m->links_in_pair * link);
    int64_t across = ipu__cost_at_rate(m, most.across, m->links_across * link);
    int64_t rail   = ipu__cost_at_rate(m, ipu__cost_larger(most.up, most.down), m->links_on_rail * link);
    return ipu__cost_larger(pair, ipu__cost_larger(across, rail));
}
