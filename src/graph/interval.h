/* Sets of elements: intervals of variables, for when order does not matter. */
#ifndef IPU_GRAPH_INTERVAL_H
#define IPU_GRAPH_INTERVAL_H

#include "base/array.h"
#include "graph/view.h"

typedef struct ipu__interval {
    uint32_t var;
    uint32_t tag; /* for use by the caller */
    int64_t  begin, end;
} ipu__interval;

typedef struct ipu__interval_list {
    IPU__ARRAY(ipu__interval) list;
} ipu__interval_list;

/* Add what a view selects. Intervals of one view overlap only if it repeats elements. Returns false on
 * allocation failure. */
bool ipu__intervals_add(ipu__interval_list *set, const ipu__view_pool *pool, uint32_t view, uint32_t tag);
/* By variable, then begin. */
void ipu__intervals_sort(ipu__interval_list *set);
/* Sorts, and joins intervals that touch or overlap; tags are lost. */
void ipu__intervals_merge(ipu__interval_list *set);
void ipu__intervals_fini(ipu__interval_list *set);

/* Whether the view selects some element twice. Sets *ok to false on allocation failure. */
bool ipu__view_has_aliases(const ipu__view_pool *pool, uint32_t view, bool *ok);

#endif
