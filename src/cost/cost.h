/* The contents of a cost, and the state for computing one. Public half: ipu/cost.h.
 *
 * Steps (cost.c): check the graph; walk the programs, turning them into units of rows and pricing each step
 * (walk.c, step.c, set.c, exchange.c); find when variables are live (live.c); add up memory (memory.c).
 */
#ifndef IPU_COST_COST_H
#define IPU_COST_COST_H

#include "cost/model.h"
#include "graph/check/check.h"
#include "graph/graph.h"
#include "ipu/cost.h"
#include "ipu/profile.h"

#define IPU__NO_UNIT UINT32_MAX

/* Entries first <= i < first + n of an array of the pricer. */
typedef struct ipu__cost_slice {
    size_t first, n;
} ipu__cost_slice;

/* How a step accesses a variable. */
typedef struct ipu__cost_access {
    uint32_t var;
    bool     is_exposed; /* its previous value matters: it is read, or written in part */
    bool     is_killed;  /* written completely without being read. If neither, its value is dropped */
} ipu__cost_access;

/* Memory that a tile needs during one step. */
typedef struct ipu__buffer {
    uint32_t tile;
    int64_t  bytes;
} ipu__buffer;

typedef struct ipu__cost_row {
    ipu_cost_step    s;
    double           tile_cycles; /* compute, over all tiles */
    uint32_t         callee;      /* unit; IPU__NO_UNIT if none */
    ipu__cost_slice  accesses, buffers, busy;
    ipu__kernel_plan plan; /* kernels: tile_bytes on n_tiles starting at first_tile */
    int64_t          first_tile;
    bool             is_phase; /* a superstep: includes a sync */
} ipu__cost_row;

/* Cycles that an IPU computes in one step. */
typedef struct ipu__busy {
    int64_t ipu, cycles;
} ipu__busy;

/* What changes on a tile, from this row of its unit until the tile's next change. */
enum { IPU__N_CHANGING = 3 }; /* categories NOT_ALWAYS_LIVE, MESSAGES, TEMPORARIES */
typedef struct ipu__level {
    uint32_t tile, row;
    int64_t  bytes[IPU__N_CHANGING];
} ipu__level;

/* Rows base <= i < base + n_rows of the cost, with their levels by tile and row. */
typedef struct ipu__level_range {
    size_t base, n_rows, first, n;
} ipu__level_range;

struct ipu_cost {
    ipu__arena       arena; /* all strings */
    ipu__cost_model  model;
    ipu_target       target; /* over all replicas */
    ipu_cost_summary summary;
    IPU__ARRAY(ipu__cost_row) rows;
    IPU__ARRAY(ipu_cost_cycles) programs;
    IPU__ARRAY(const char *) unknown;
    IPU__ARRAY(const char *) by_default;
    IPU__ARRAY(ipu_cost_overfull) overfull;
    IPU__ARRAY(ipu_step_time) host; /* times of a different program; strings in the arena */
    ipu_cost_tile *tiles;
    ipu_cost_ipu  *ipus;
    IPU__ARRAY(ipu__level) levels;
    IPU__ARRAY(ipu__level_range) ranges;
};

/* ---- units: programs, functions, and bodies that are used more than once ---- */

/* The structure of a unit, for liveness: rows in order, with the constructs around them. */
typedef enum ipu__shape_kind {
    IPU__SHAPE_ROW,
    IPU__SHAPE_LOOP, /* its body runs at least once */
    IPU__SHAPE_END_LOOP,
    IPU__SHAPE_BRANCHES,
    IPU__SHAPE_NEXT_BRANCH, /* between two branches, each possibly empty */
    IPU__SHAPE_END_BRANCHES
} ipu__shape_kind;

typedef struct ipu__shape_mark {
    ipu__shape_kind kind;
    uint32_t        row;
} ipu__shape_mark;

typedef struct ipu__entry { /* what a unit as a whole does to a variable */
    ipu__cost_access access;
    bool             is_outside;  /* not local to this unit: visible to its callers */
    int64_t          first, last; /* rows */
} ipu__entry;

/* The memory of a unit on one tile, beyond what is always live, at its peak. */
typedef struct ipu__peak_frame {
    uint32_t tile;
    uint32_t row;
    int64_t  bytes[IPU__N_CHANGING], total;
} ipu__peak_frame;

typedef struct ipu__unit {
    const char     *name;
    bool            is_program;
    int64_t         count;
    size_t          base;   /* of its rows in cost->rows */
    ipu_cost_cycles cycles; /* of one execution, including callees */
    IPU__ARRAY(ipu__cost_row) rows;
    IPU__ARRAY(ipu__shape_mark) shape;
    IPU__ARRAY(ipu__entry) entries;
    IPU__ARRAY(ipu__peak_frame) frames; /* by tile */
} ipu__unit;

/* ---- exchange ---- */

/* Elements begin <= i < end of `var`, from tile to tile. */
typedef struct ipu__flow {
    uint32_t to, from, var;
    int64_t  begin, end;
} ipu__flow;

/* Everything of one variable that goes from one tile to another. */
typedef struct ipu__message {
    uint32_t to, from, var;
    int64_t  bytes;
} ipu__message;

typedef struct ipu__traffic {
    int64_t cycles;          /* on the chip and over links, excluding fixed costs */
    int64_t bytes, messages; /* received by all tiles */
    int64_t received, sent;  /* busiest tile */
    int64_t link_bytes;
} ipu__traffic;

enum { IPU__CACHED_MESSAGES = 4096 };

typedef struct ipu__exchange { /* all zero: empty */
    IPU__ARRAY(ipu__flow) flows, dealt;
    IPU__ARRAY(ipu__message) messages, sends;
    ipu__message *cache; /* IPU__CACHED_MESSAGES entries not in `messages` yet; NULL until made */
} ipu__exchange;

/* ---- the pricer ---- */

typedef struct ipu__set_cost { /* a compute set, priced once */
    bool          is_done;
    ipu__cost_row row;
} ipu__set_cost;

typedef struct ipu__job { /* a vertex on its tile */
    uint32_t tile, cycles;
    bool     is_multi;
} ipu__job;

typedef struct ipu__snapshot { /* a body, and its unit if it is used more than once */
    ipu__body body;
    uint32_t  uses, unit, next; /* next of the same program, from 1 */
} ipu__snapshot;

/* Bytes on a tile that never change. */
typedef struct ipu__fixed {
    int64_t state, code, exchange_code, always;
} ipu__fixed;

typedef struct ipu__pricer {
    ipu_graph             *g;
    ipu_cost              *cost;
    const ipu__cost_model *model;
    int64_t                while_count;
    /* by tile, by variable, by codelet, by compute set, by program, by function */
    ipu__fixed    *fixed;
    size_t        *deal;                    /* n_tiles + 1 */
    int64_t       *on_tile;                 /* bytes, 0 between uses */
    uint32_t      *hint;                    /* last placement used */
    uint32_t      *access_of, *accessed_in; /* index in `accesses`, and the step for which it is valid */
    int64_t       *written;
    uint32_t       step_number;
    unsigned char *code_on;      /* bits: codelets and kernels by tile */
    unsigned char *is_defaulted; /* codelets priced by default */
    ipu__set_cost *sets;
    uint32_t      *snapshot_of, *function_unit;
    bool          *is_always_live;
    IPU__ARRAY(ipu__snapshot) snapshots;
    IPU__ARRAY(ipu__unit) units; /* callees before their callers */
    IPU__ARRAY(uint32_t) roots;  /* unit of each program */
    IPU__ARRAY(ipu__cost_access) accesses;
    IPU__ARRAY(ipu__buffer) buffers;
    IPU__ARRAY(ipu__busy) busy;
    IPU__ARRAY(ipu__job) jobs, dealt_jobs;
    ipu__interval_list intervals;
    ipu__exchange      in, out, both;
    int64_t            n_edges;
} ipu__pricer;

/* A string in the cost's arena; NULL on allocation failure. */
const char *ipu__cost_text(ipu_cost *cost, const char *format, ...) __attribute__((format(printf, 2, 3)));
void        ipu__cost_sum(ipu_cost_cycles *cycles, const ipu_cost_cycles *more, int64_t count);

/* ---- exchange.c ---- */
bool ipu__exchange_add(ipu__exchange *x, uint32_t to, uint32_t from, uint32_t var, int64_t begin,
                       int64_t end);
/* For flows in which no element is sent twice: only bytes are kept. */
bool ipu__exchange_add_bytes(ipu__exchange *x, uint32_t to, uint32_t from, uint32_t var, int64_t bytes);
/* Price what was added, charge the tiles for its code, and clear it. */
ipu_status ipu__exchange_price(ipu__pricer *p, ipu__exchange *x, ipu__traffic *out);
/* Record in p->buffers what each tile receives, every element once; then clear. */
ipu_status ipu__exchange_buffers(ipu__pricer *p, ipu__exchange *x);
void       ipu__exchange_fini(ipu__exchange *x);
/* Add the cost of an exchange to the row of its step. */
void ipu__cost_add_traffic(const ipu__pricer *p, ipu__cost_row *row, const ipu__traffic *t);
/* Charge a tile for the code of an exchange in which it sends or receives `n_messages`. */
void ipu__exchange_charge(ipu__pricer *p, uint32_t tile, int64_t n_messages);

/* ---- vertex.c ---- */
ipu_status ipu__vertex_cycles(ipu__pricer *p, uint32_t vertex, uint32_t *out);
int64_t    ipu__vertex_state_bytes(const ipu_graph *g, uint32_t vertex);

/* ---- access.c, set.c, step.c ---- */
/* The part of an interval on the tile of its first element; the rest stays in *x. */
ipu__interval ipu__cost_split(ipu__pricer *p, ipu__interval *x, uint32_t *tile);
/* Begin a list of accesses; add one; end it. */
size_t          ipu__access_begin(ipu__pricer *p);
bool            ipu__access_note(ipu__pricer *p, uint32_t var, int64_t n, bool reads, bool writes);
ipu__cost_slice ipu__access_end(ipu__pricer *p, size_t begin);
bool            ipu__access_view(ipu__pricer *p, uint32_t view, bool reads, bool writes);
/* Charge a tile for code number `code` unless it has it already. */
void       ipu__code_on_tile(ipu__pricer *p, size_t code, uint32_t tile);
ipu_status ipu__price_set(ipu__pricer *p, uint32_t set, ipu__cost_row *row);
ipu_status ipu__price_step(ipu__pricer *p, const ipu__step *step, ipu__cost_row *row);

/* ---- walk.c, live.c, memory.c ---- */
ipu_status ipu__cost_walk(ipu__pricer *p, const ipu_program *programs, size_t n);
ipu_status ipu__cost_live(ipu__pricer *p);
ipu_status ipu__cost_memory(ipu__pricer *p);
/* Whether the memory of a variable is part of the unit's frame. */
bool ipu__cost_counts(const ipu__pricer *p, const ipu__unit *u, const ipu__entry *e);
/* The frame of a tile; NULL if the unit has nothing there. */
const ipu__peak_frame *ipu__cost_frame(const ipu__unit *u, uint32_t tile);

/* ---- ipu.c ---- */
/* Add an entry to the slice `busy` of the row being priced. Returns false on allocation failure. */
bool ipu__cost_note_busy(ipu__pricer *p, int64_t ipu, int64_t cycles);
/* The slice of a row that computes on these tiles for that long. */
bool       ipu__cost_note_window(ipu__pricer *p, ipu__cost_row *row, int64_t first_tile, int64_t n_tiles,
                                 int64_t cycles);
ipu_status ipu__cost_ipus(ipu__pricer *p); /* requires the summary */

/* ---- overfull.c ---- */
ipu_status ipu__cost_overfull(ipu__pricer *p);
/* Does nothing if all tiles fit; otherwise logs a warning or, with `strict`, returns TILE_OVERFLOW. */
ipu_status ipu__cost_report_overfull(const ipu_cost *cost, bool strict);

#endif
