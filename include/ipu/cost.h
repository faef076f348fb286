/* Costs: what programs would cost on the chip, without running them.
 *
 * Cycles of every superstep (compute, exchange, sync) and bytes on every tile, derived from the graph, the
 * programs and the target's constants. All of it is an estimate: docs/cost.md says what is modelled, how, and
 * how far each number can be trusted.
 *
 *     ipu_cost *cost;
 *     IPU_TRY(ipu_cost_estimate(g, &p, 1, NULL, &cost));
 *     ipu_cost_summary s;
 *     ipu_cost_get_summary(cost, &s);
 *     printf("%lld cycles, %g s\n", (long long)s.cycles.total, s.seconds);
 *     ipu_cost_destroy(cost);
 *
 * A cost does not need its graph once made. A replicated graph is priced as one of its replicas.
 * ipu/profile.h turns costs into text and JSON.
 */
#ifndef IPU_COST_H
#define IPU_COST_H

#include "ipu/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_cost ipu_cost;

typedef struct ipu_cost_options { /* all zero for the defaults */
    int64_t while_count;          /* assumed iterations of a while loop; 0 means 1 */
    bool    strict;               /* a tile that runs out of memory is an error */
} ipu_cost_options;

/* Price `programs`, each run once. `options` may be NULL for the defaults. Owned: ipu_cost_destroy.
 * Statuses: those of ipu_graph_check; INVALID (a negative while_count, an estimator that returns less than
 * 0); OUT_OF_MEMORY; with `strict`, TILE_OVERFLOW (*out is set even so). */
ipu_status ipu_cost_estimate(ipu_graph *g, const ipu_program *programs, size_t n,
                             const ipu_cost_options *options, ipu_cost **out);
void       ipu_cost_destroy(ipu_cost *cost);

/* ---- steps ---- */

/* X(name, text) */
#define IPU_MEMORY_LIST(X)                           \
    X(ALWAYS_LIVE, "variables, always live")         \
    X(NOT_ALWAYS_LIVE, "variables, not always live") \
    X(MESSAGES, "message buffers")                   \
    X(TEMPORARIES, "temporaries of kernels")         \
    X(VERTEX_STATE, "vertex state")                  \
    X(CODE, "code")                                  \
    X(EXCHANGE_CODE, "exchange code")                \
    X(STACK, "stacks")

typedef enum ipu_memory_category {
#define X(name, text) IPU_MEMORY_##name,
    IPU_MEMORY_LIST(X)
#undef X
        IPU_N_MEMORY_CATEGORIES
} ipu_memory_category;

/* "variables, always live"; "?" if out of range. */
const char *ipu_memory_category_text(ipu_memory_category category);

/* total is the sum of the others. Sums saturate at INT64_MAX. */
typedef struct ipu_cost_cycles {
    int64_t compute, exchange, sync;
    int64_t host; /* waiting for the host or for streaming memory */
    int64_t total;
} ipu_cost_cycles;

/* One step of a program or function, and how often it runs. Strings are borrowed from the cost. */
typedef struct ipu_cost_step {
    const char *kind;  /* "execute" */
    const char *name;  /* of a compute set, kernel, variables or handle; may be "" */
    const char *where; /* "file.c:12" or "place unknown" */
    const char *note;  /* remarks; "" if none */
    const char *part;  /* "program 0", "function \"f\"" */
    int         depth; /* nesting depth: loops and branches around it */
    /* Executions if every program runs once; 0 in a branch that is not counted. All bodies of a parallel step
     * are counted here; totals take the longest. */
    int64_t         count;
    int64_t         n_vertices;
    ipu_cost_cycles cycles;                     /* per execution */
    double          operations;                 /* per execution: floating-point or elementary, of kernels */
    int64_t         bytes_exchanged;            /* received by all tiles together */
    int64_t         bytes_received, bytes_sent; /* on the busiest tile */
    int64_t         messages;                   /* received by all tiles together */
    int64_t         link_bytes;                 /* between IPUs */
    int64_t         active_tiles;               /* tiles with vertices */
    double          balance; /* mean compute cycles over all tiles, divided by the maximum; 0 to 1 */
    int64_t  tile_bytes, fullest_tile; /* memory while it runs; within a function, excludes the caller's */
    int64_t  memory[IPU_N_MEMORY_CATEGORIES]; /* the same by category */
    uint32_t program, step; /* place in the graph's programs: see ipu_step_time in ipu/profile.h */
    int64_t  host_runs;     /* as measured; 0 if not measured */
    double   host_seconds;  /* total over these runs */
} ipu_cost_step;

/* In execution order, programs first, then functions. Returns false past the last. */
bool ipu_cost_step_at(const ipu_cost *cost, int64_t i, ipu_cost_step *out);

/* Cycles of one run of program i. Returns false past the last. */
bool ipu_cost_program_at(const ipu_cost *cost, int64_t i, ipu_cost_cycles *out);

/* ---- memory ---- */

/* A tile at its peak memory use. */
typedef struct ipu_cost_tile {
    int64_t bytes[IPU_N_MEMORY_CATEGORIES];
    int64_t total;
    int64_t peak_step; /* step at which the peak occurs; -1 if use is constant */
} ipu_cost_tile;

bool ipu_cost_tile_at(const ipu_cost *cost, int64_t tile, ipu_cost_tile *out);

/* The same tile while step `step` runs; peak_step is that step. Within a function, excludes the caller's
 * variables; at a call, includes the most the function needs. Returns false if there is no such tile or step. */
bool ipu_cost_tile_during(const ipu_cost *cost, int64_t tile, int64_t step, ipu_cost_tile *out);

/* One IPU of a replica. */
typedef struct ipu_cost_ipu {
    int64_t cycles; /* sum over steps of those of its busiest tile, each program run once */
    double  share;  /* of all cycles; with IPUs working at the same time these can add up to more than 1 */
    int64_t memory_total, memory_most, fullest_tile;
} ipu_cost_ipu;

bool ipu_cost_ipu_at(const ipu_cost *cost, int64_t i, ipu_cost_ipu *out); /* false past the last */

enum { IPU_COST_MAX_OVERFULL = 20, IPU_COST_MAX_TENANTS = 3 };

/* A tile that runs out of memory: the fullest IPU_COST_MAX_OVERFULL of them, worst first. */
typedef struct ipu_cost_overfull {
    int64_t     tile, over; /* bytes */
    int64_t     peak_step;
    int         n_tenants;
    const char *tenant[IPU_COST_MAX_TENANTS]; /* largest first: variables by name, or categories */
    int64_t     tenant_bytes[IPU_COST_MAX_TENANTS];
} ipu_cost_overfull;

bool ipu_cost_overfull_at(const ipu_cost *cost, int64_t i, ipu_cost_overfull *out);

/* ---- everything together ---- */

typedef struct ipu_cost_summary {
    const char     *chip;
    int64_t         n_ipus, replication;
    int64_t         n_tiles, bytes_per_tile; /* per replica */
    double          clock_hz;
    int64_t         n_programs, n_steps, n_vertices, n_edges, n_compute_sets, n_variables;
    int64_t         while_count;
    ipu_cost_cycles cycles; /* each program run once */
    double          seconds;
    double          operations;                      /* of kernels; those of vertices are unknown */
    double          balance;                         /* over all compute cycles */
    int64_t         memory[IPU_N_MEMORY_CATEGORIES]; /* over all tiles */
    int64_t         memory_total, memory_least, memory_most;
    int64_t         fullest_tile, n_overfull;
} ipu_cost_summary;

void ipu_cost_get_summary(const ipu_cost *cost, ipu_cost_summary *out);

/* The constants used: the chip's, then our own defaults. Returns false past the last. */
bool ipu_cost_constant_at(const ipu_cost *cost, int64_t i, ipu_constant *out);

/* Sentences on what is modelled, what is not modelled in general, which numbers are unknown for this chip,
 * and what was priced by defaults here. NULL past the last. Borrowed. */
typedef enum ipu_cost_notes {
    IPU_COST_MODELLED,
    IPU_COST_NOT_MODELLED,
    IPU_COST_UNKNOWN_ON_CHIP,
    IPU_COST_BY_DEFAULT
} ipu_cost_notes;
const char *ipu_cost_note_at(const ipu_cost *cost, ipu_cost_notes kind, int64_t i);

/* ---- what a cycle estimator can query (ipu_graph_set_cycle_estimator) ---- */

/* Total number of elements in a field; -1 if there is no such field. */
int64_t ipu_vertex_info_size(const ipu_vertex_info *v, const char *field);
/* Number of runs in a list field, 1 for other fields; -1 if there is no such field. */
int64_t ipu_vertex_info_n_runs(const ipu_vertex_info *v, const char *field);
/* Elements of run i; -1 if there is no such run. */
int64_t ipu_vertex_info_run_size(const ipu_vertex_info *v, const char *field, int64_t i);
/* Element i of a state field as a number. Returns false if there is no such field or element. */
bool        ipu_vertex_info_state(const ipu_vertex_info *v, const char *field, int64_t i, double *out);
ipu_type    ipu_vertex_info_type(const ipu_vertex_info *v, const char *field); /* or IPU_N_TYPES */
const char *ipu_vertex_info_codelet(const ipu_vertex_info *v);

#ifdef __cplusplus
}
#endif
#endif
