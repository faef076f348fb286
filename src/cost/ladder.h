/* The links between IPUs: a ladder.
 *
 * IPUs 2k and 2k + 1 form a rung, connected by links of their own; rungs are connected on both sides. Traffic to
 * another rung on the other side first crosses, over links other than those for traffic within the rung, and then
 * goes up or down from IPU to IPU: poplibs' model of several IPUs. Bytes are added by source and destination; the
 * ladder takes as long as its busiest links.
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
    int64_t pair, across, up, down; /* up and down: difference from the rung before (up) or after (down) */
    int64_t in, out;
} ipu__ladder_load;

typedef struct ipu__ladder {
    int64_t           n_ipus;
    ipu__ladder_load *ipus;
} ipu__ladder;

/* Returns false on allocation failure. With an odd number of IPUs (no system has one), the last rung is
 * complete nevertheless. */
bool ipu__ladder_init(ipu__ladder *l, int64_t n_ipus);
void ipu__ladder_fini(ipu__ladder *l);

/* IPUs are below n_ipus. Adds nothing from an IPU to itself. */
void ipu__ladder_add(ipu__ladder *l, int64_t from, int64_t to, int64_t bytes);

/* Number of links for traffic from one IPU to another, at the narrowest point of the route. */
double ipu__ladder_links(const ipu__cost_model *model, int64_t from, int64_t to);

/* If it is unknown where a chip's links lead, the links of an IPU are treated as one. */
int64_t ipu__ladder_cycles(const ipu__ladder *l, const ipu__cost_model *model);

#endif
