/* Costs: what programs would take on the chip, without running them.
 *
 * Cycles of every superstep (compute, exchange, sync) and bytes on every tile, from the graph, the
 * programs and the constants of the target. All of it is an estimate: docs/cost.md says what is
 * modelled, by which rule, and how far each number can be trusted.
 *
 *     ipu_cost *cost;
 *     IPU_TRY(ipu_cost_estimate(g, &p, 1, NULL, &cost));
 *     ipu_cost_summary s;
 *     ipu_cost_get_summary(cost, &s);
 *     printf("%lld cycles, %g s\n", (long long)s.cycles.total, s.seconds);
 *     ipu_cost_destroy(cost);
 *
 * A cost needs its graph no more. A replicated graph is priced as one of its replicas.
 * ipu/profile.h turns costs into text and JSON.
 */
#ifndef IPU_COST_H
#define IPU_COST_H

#include "ipu/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_cost ipu_cost;

typedef struct ipu_cost_options { /* all zero: the defaults */
    int64_t while_count;          /* how often the body of a while loop is counted; 0: once */
    bool    strict;               /* a tile whose memory is too small is an error */
} ipu_cost_options;

/* Price `programs`, each run once. `options` NULL: the defaults. Owned: ipu_cost_destroy.
 * Statuses: those of ipu_graph_check; INVALID (a negative while_count, an estimator that returns less
 * than 0); OUT_OF_MEMORY; with `strict`, TILE_OVERFLOW: then *out exists all the same. */
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

/* "variables, always live"; "?" for a number that is none. */
const char *ipu_memory_category_text(ipu_memory_category category);

/* total is the sum of the others. Sums too large for 64 bits stay at INT64_MAX. */
typedef struct ipu_cost_cycles {
    int64_t compute, exchange, sync;
    int64_t host; /* waiting for the host or for streaming memory */
    int64_t total;
} ipu_cost_cycles;

/* One step of a program or function, as often as it runs. Text is borrowed from the cost. */
typedef struct ipu_cost_step {
    const char *kind;  /* "execute" */
    const char *name;  /* compute set, kernel, variables, handle; may be "" */
    const char *where; /* "file.c:12" or "place unknown" */
    const char *note;  /* what else is to be known of it; "" if nothing */
    const char *part;  /* "program 0", "function \"f\"" */
    int         depth; /* of loops and branches around it */
    int64_t     count; /* executions while every program runs once; 0: in a branch not counted. Bodies of a
                            * parallel step all count here; in sums the longest does */
    int64_t     n_vertices;
    ipu_cost_cycles cycles;                     /* of one execution */
    double          operations;                 /* the same: floating-point or elementary ones of a kernel */
    int64_t         bytes_exchanged;            /* taken by all tiles */
    int64_t         bytes_received, bytes_sent; /* on the busiest tile */
    int64_t         messages;                   /* taken by all tiles */
    int64_t         link_bytes;                 /* between IPUs */
    int64_t         active_tiles;               /* with vertices */
    double          balance; /* mean over all tiles of the compute cycles, by their maximum; 0 to 1 */
    int64_t  tile_bytes, fullest_tile; /* memory while it runs; within a function, without the caller's */
    int64_t  memory[IPU_N_MEMORY_CATEGORIES]; /* the same by category */
    uint32_t program, step; /* place in the graph's programs: see ipu_step_time in ipu/profile.h */
    int64_t  host_runs;     /* as measured; 0: not measured */
    double   host_seconds;  /* of all these runs together */
} ipu_cost_step;

/* In the order they run, programs first, then functions; false past the last. */
bool ipu_cost_step_at(const ipu_cost *cost, int64_t i, ipu_cost_step *out);

/* Cycles of program i, run once. False past the last. */
bool ipu_cost_program_at(const ipu_cost *cost, int64_t i, ipu_cost_cycles *out);

/* ---- memory ---- */

/* A tile when it is fullest. */
typedef struct ipu_cost_tile {
    int64_t bytes[IPU_N_MEMORY_CATEGORIES];
    int64_t total;
    int64_t peak_step; /* when that is; -1: at all times the same */
} ipu_cost_tile;

bool ipu_cost_tile_at(const ipu_cost *cost, int64_t tile, ipu_cost_tile *out);

/* The same tile while step `step` runs; peak_step is that step. Within a function, without the variables of the
 * caller; at a call, with the most the function needs. False: no such tile or step. */
bool ipu_cost_tile_during(const ipu_cost *cost, int64_t tile, int64_t step, ipu_cost_tile *out);

/* One IPU of a replica. */
typedef struct ipu_cost_ipu {
    int64_t cycles; /* in which it computes: those of its busiest tile in every step, each program once */
    double  share;  /* of all cycles; those of IPUs that work at the same time may come to more than 1 */
    int64_t memory_total, memory_most, fullest_tile;
} ipu_cost_ipu;

bool ipu_cost_ipu_at(const ipu_cost *cost, int64_t i, ipu_cost_ipu *out); /* false past the last */

enum { IPU_COST_MAX_OVERFULL = 20, IPU_COST_MAX_TENANTS = 3 };

/* A tile that is too small: the fullest IPU_COST_MAX_OVERFULL of them, worst first. */
typedef struct ipu_cost_overfull {
    int64_t     tile, over; /* bytes */
    int64_t     peak_step;
    int         n_tenants;
    const char *tenant[IPU_COST_MAX_TENANTS]; /* largest first: variables by name, categories */
    int64_t     tenant_bytes[IPU_COST_MAX_TENANTS];
} ipu_cost_overfull;

bool ipu_cost_overfull_at(const ipu_cost *cost, int64_t i, ipu_cost_overfull *out);

/* ---- everything together ---- */

typedef struct ipu_cost_summary {
    const char     *chip;
    int64_t         n_ipus, replication;
    int64_t         n_tiles, bytes_per_tile; /* of one replica */
    double          clock_hz;
    int64_t         n_programs, n_steps, n_vertices, n_edges, n_compute_sets, n_variables;
    int64_t         while_count;
    ipu_cost_cycles cycles; /* each program once */
    double          seconds;
    double          operations;                      /* of kernels; what vertices compute is not known */
    double          balance;                         /* of all compute cycles */
    int64_t         memory[IPU_N_MEMORY_CATEGORIES]; /* of all tiles */
    int64_t         memory_total, memory_least, memory_most;
    int64_t         fullest_tile, n_overfull;
} ipu_cost_summary;

void ipu_cost_get_summary(const ipu_cost *cost, ipu_cost_summary *out);

/* Constants that went in: the chip's, then defaults of our own. False past the last. */
bool ipu_cost_constant_at(const ipu_cost *cost, int64_t i, ipu_constant *out);

/* Sentences on what is modelled, on what is not in general, on what this chip lacks a number for, and on
 * what was priced by default here. NULL past the last. Borrowed. */
typedef enum ipu_cost_notes {
    IPU_COST_MODELLED,
    IPU_COST_NOT_MODELLED,
    IPU_COST_UNKNOWN_ON_CHIP,
    IPU_COST_BY_DEFAULT
} ipu_cost_notes;
const char *ipu_cost_note_at(const ipu_cost *cost, ipu_cost_notes kind, int64_t i);

/* ---- what an estimator of cycles sees (ipu_graph_set_cycle_estimator) ---- */

/* Elements a field has in all; -1: no such field. */
int64_t ipu_vertex_info_size(const ipu_vertex_info *v, const char *field);
/* Runs of a field that is a list of them; 1 for others; -1: no such field. */
int64_t ipu_vertex_info_n_runs(const ipu_vertex_info *v, const char *field);
/* Elements of run i; -1: no such run. */
int64_t ipu_vertex_info_run_size(const ipu_vertex_info *v, const char *field, int64_t i);
/* Element i of a state field as a number; false: no such field or element. */
bool     ipu_vertex_info_state(const ipu_vertex_info *v, const char *field, int64_t i, double *out);
ipu_type ipu_vertex_info_type(const ipu_vertex_info *v, const char *field); /* IPU_N_TYPES: no such field */
const char *ipu_vertex_info_codelet(const ipu_vertex_info *v);

#ifdef __cplusplus
}
#endif
#endif
