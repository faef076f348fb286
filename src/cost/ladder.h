/* The links between IPUs: a ladder.
 *
 * IPUs 2k and 2k + 1 are a rung, joined by links of their own; rungs are joined on both sides. What goes to
 * another rung on the other side goes across first, by other links than the traffic of the rung itself, and then up or
 * down from IPU to IPU: poplibs' model of several IPUs. Bytes are added by where they come from and go to; the ladder
 * takes as long as its busiest links.
 *
 *     ipu__ladder l;
 *     if (!ipu__ladder_init(&l, n_ipus)) return ipu__fail_memory();
 *     ipu__ladder_add(&l, 0, 3, 4096);
 *     cycles = ipu__ladder_cycles(&l, model);
 *     ipu__ladder_fini(&l);
 */
#ifndef IPU_COST_LADDER_H
#define IPU_COST_LADDER_H

#include "cost/model.h"

typedef struct ipu__ladder_load {
    int64_t pair, across, up,
        down; /* up and down: how much more than at the rung before (up), after (down) */
    int64_t in, out;
} ipu__ladder_load;

typedef struct ipu__ladder {
    int64_t           n_ipus;
    ipu__ladder_load *ipus;
} ipu__ladder;

/* False: no memory. An odd number of IPUs (no system has one) has its last rung whole. */
bool ipu__ladder_init(ipu__ladder *l, int64_t n_ipus);
void ipu__ladder_fini(ipu__ladder *l);

/* IPUs are below n_ipus. From an IPU to itself: nothing. */
void ipu__ladder_add(ipu__ladder *l, int64_t from, int64_t to, int64_t bytes);

/* Links that there are for what goes from one IPU to another, at the narrowest part of the way. */
double ipu__ladder_links(const ipu__cost_model *model, int64_t from, int64_t to);

/* Of a chip whose links are not known by where they lead, the links of an IPU are taken as one. */
int64_t ipu__ladder_cycles(const ipu__ladder *l, const ipu__cost_model *model);

#endif
