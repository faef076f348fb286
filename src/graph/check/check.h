/* The checks of a graph: what they share. The entry is ipu_graph_check (ipu/engine.h). */
#ifndef IPU_GRAPH_CHECK_CHECK_H
#define IPU_GRAPH_CHECK_CHECK_H

#include <stdarg.h>
#include <stdio.h>

#include "graph/graph.h"
#include "graph/interval.h"

/* ipu_graph_check; with `need_bodies`, a codelet without a body is a problem too. */
ipu_status ipu__graph_check(ipu_graph *g, const ipu_program *programs, size_t n, bool need_bodies);

enum { IPU__MAX_PROBLEMS = 20 };

typedef struct ipu__problems {
    const ipu_graph *g;
    ipu__text        text; /* one line each */
    int              n;    /* those beyond IPU__MAX_PROBLEMS are only counted */
    bool             out_of_memory;
} ipu__problems;

void ipu__problem(ipu__problems *p, uint32_t location, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- race.c: who accesses what within a compute set ---- */

typedef struct ipu__race_use {
    uint32_t vertex, field;
    bool     writes;
} ipu__race_use;

typedef struct ipu__race_scratch { /* all zero: empty */
    IPU__ARRAY(ipu__race_use) uses;
    ipu__interval_list elements; /* tag: index in `uses` */
} ipu__race_scratch;

/* Record that a field is connected to a view. Returns false on allocation failure. */
bool ipu__race_add(ipu__race_scratch *r, const ipu_graph *g, uint32_t vertex, uint32_t field, uint32_t view);
/* Report races among the recorded fields, and writes to constants; then clear them. */
void ipu__race_check(ipu__race_scratch *r, ipu__problems *problems, const ipu__compute_set *cs);
void ipu__race_fini(ipu__race_scratch *r);

/* ---- check_parallel.c: who accesses what in the bodies of a parallel step ---- */

/* Report what one body writes and another accesses, and what is used by two bodies but allowed only in one. */
void ipu__parallel_check(ipu__problems *problems, const ipu__step *step);

/* ---- check_reduce.c ---- */

/* Report accesses to a tensor between the start of its sum and the wait, and sums that are never waited for. */
void ipu__reduce_check(ipu__problems *problems, const ipu_program *programs, size_t n);

#endif
