/* The compiler: shared state of the passes from graph to executable.
 *
 * access -> liveness -> memory -> lower (vertices, kernels, transfers). Each pass requires a graph that has
 * passed ipu_graph_check. Arrays indexed by graph ids are as long as the graph's own.
 */
#ifndef IPU_ENGINE_COMPILE_H
#define IPU_ENGINE_COMPILE_H

#include "engine/engine.h"
#include "engine/executable.h"
#include "engine/memory.h"
#include "graph/graph.h"

enum {
    IPU__READ  = 1, /* or changed in part: the previous value matters */
    IPU__WRITE = 2,
    IPU__KILL  = 4, /* every element is written, none read */
};

/* What a step does to a variable. */
typedef struct ipu__access {
    uint32_t var, flags;
    int64_t  written; /* elements */
} ipu__access;

typedef struct ipu__access_range {
    size_t begin, n;
    bool   known;
} ipu__access_range;

/* Elements low <= i < high of a variable that are read and written by the open group of copies. */
typedef struct ipu__touched {
    uint32_t group;
    int64_t  read_low, read_high, write_low, write_high;
} ipu__touched;

typedef struct ipu__copy_group {
    ipu__touched *touched; /* by variable */
    uint32_t      number;
    bool          open;
} ipu__copy_group;

/* What accesses a variable besides kernels, ascending: only the host, by writing between runs; also one
 * READ that brings all of it; anything more. */
enum { IPU__PLAIN_HOST = 1, IPU__PLAIN_READ, IPU__PLAIN_OTHER };

typedef struct ipu__compiler {
    ipu_graph             *g;
    ipu_executable        *exe;
    const ipu_program     *programs;
    const ipu__engine_def *engine; /* the engine it is compiled for */
    size_t                 n_programs;
    bool                   share;        /* share memory among variables that are not live at the same time */
    bool                   profile;      /* record the step of every instruction */
    bool                   check;        /* record what checking mode needs */
    bool                   has_parallel; /* some program reaches a parallel step */

    /* access.c */
    IPU__ARRAY(ipu__access) accesses;
    ipu__access_range *set_access; /* by compute set */
    uint32_t          *var_stamp, *var_slot;
    uint32_t           stamp;
    uint8_t           *is_gathered;  /* by vertex: whether a field may be non-contiguous */
    uint8_t           *is_used;      /* by variable; constants only */
    uint8_t           *is_plain;     /* by variable: what accesses it besides whole kernels, IPU__PLAIN_* */
    uint8_t           *is_kept;      /* by variable: programs need a value from before the run (liveness.c) */
    uint32_t          *read_by;      /* by variable: the transfer that brings all of it, or IPU__NONE */
    IPU__ARRAY(ipu__body) functions; /* functions called, and bodies of parallel steps: callees first */
    uint32_t *parallel_of; /* by parallel step: its first body in `functions`; IPU__NONE if not reached */

    ipu__copy_group group;

    /* memory: the location of element 0 of each variable */
    ipu__place *places;
    ipu__layout layout;
    IPU__ARRAY(char) constants;

    /* lower: graph id -> executable index, IPU__NONE until needed */
    uint32_t *set_of, *codelet_of, *kernel_of, *location_of, *function_of;
    uint32_t *group_of;      /* by 2 * codelet + gathered: the group being filled */
    ipu__map  files;         /* source file names -> offsets in the executable's strings */
    bool      out_of_memory; /* set by functions that cannot return it */

    ipu_progress_fn progress;
    void           *progress_user;
    int64_t         work_done, work_total;
    int             percent;
} ipu__compiler;

/* ---- executable.c ---- */

/* Record `work` units of work_total as done; calls the progress callback at every percent. */
ipu_status ipu__compiler_advance(ipu__compiler *c, int64_t work);
/* IPU__NONE on allocation failure. */
uint32_t ipu__compiler_text(ipu__compiler *c, const char *text);
uint32_t ipu__compiler_location(ipu__compiler *c, uint32_t graph_location);
/* Allocates space in the constants block, aligned to `align`. Returns false on allocation failure. */
bool ipu__compiler_constant(ipu__compiler *c, const void *data, size_t bytes, size_t align, ipu__place *out);
/* A valid place that holds nothing. */
#define IPU__EMPTY_PLACE ipu__place_make(IPU__SPACE_CONSTANT, 0)

/* ---- access.c ---- */

/* All compute sets and functions that the programs reach. */
ipu_status ipu__access_find(ipu__compiler *c);
/* What a simple step accesses: accesses [begin, begin + n), to be released with ipu__access_drop before the
 * next. */
ipu_status ipu__access_step(ipu__compiler *c, const ipu__step *step, ipu__access_range *out);
void       ipu__access_drop(ipu__compiler *c, const ipu__step *step, const ipu__access_range *range);

/* Where the gather memory of a kernel or compute set begins. If there are parallel steps, each has its own,
 * because others may run at the same time. */
static inline int64_t ipu__gather_begin(const ipu__compiler *c)
{
    return c->has_parallel ? ipu__memory_room(c->engine->spacing, c->exe->gather_bytes) : 0;
}

/* Steps of a body, in order. */
static inline const ipu__step *ipu__body_steps(const ipu_graph *g, const ipu__body *body)
{
    return body->program ? g->programs.at[body->program].steps.at : NULL;
}

/* ---- group.c: copies that may run concurrently ---- */

void ipu__group_close(ipu__copy_group *group);
/* Adds a copy to the open group; if it depends on the group's contents, opens a new group for it and
 * returns false. */
bool ipu__group_join(ipu__copy_group *group, const ipu__view_pool *pool, uint32_t from, uint32_t to);

/* ---- liveness.c: sets `places`, `is_kept` and the sizes in the executable ---- */
ipu_status ipu__liveness_plan(ipu__compiler *c);

/* ---- buffers.c: what may have a layout other than plain ---- */

/* Marks what is accessed by steps other than kernels and the host. */
void ipu__buffers_find(ipu__compiler *c);
/* For an operand of a kernel, sets *variable to the variable that it covers completely; if there is none, or the
 * operand is not used `in_place`, to IPU__NONE, and marks it. */
void ipu__buffers_note(ipu__compiler *c, uint32_t view, bool in_place, bool is_read, uint32_t *variable);
/* A READ, by that transfer, brings the view. */
void ipu__buffers_read(ipu__compiler *c, uint32_t view, uint32_t transfer);
/* Assigns buffer numbers, and finds which kernels may read what the host lends. */
ipu_status ipu__buffers_number(ipu__compiler *c);

/* ---- rows.c: kernels that may run depth first, a few rows of the batch at a time ---- */

/* How many of the steps, from the first on, form such a run; 0 if none. */
uint32_t ipu__rows_run(const ipu__compiler *c, const ipu__step *steps, uint32_t n);

/* ---- vertices.c ---- */
ipu_status ipu__lower_set(ipu__compiler *c, uint32_t compute_set, uint32_t *out);

/* ---- kernels.c ---- */
ipu_status ipu__lower_kernel(ipu__compiler *c, uint32_t kernel_step, uint32_t *out);

/* ---- transfers.c ---- */

/* Moves [first, ...) as a batch. */
ipu_status ipu__lower_batch(ipu__compiler *c, size_t first, uint32_t *out);
/* A view moved to (`unpack`) or from a packed buffer. */
ipu_status ipu__lower_tensor(ipu__compiler *c, uint32_t view, bool unpack, uint32_t *out);
/* Streams, remote buffers, host handles and initial values: everything independent of programs. */
ipu_status ipu__lower_host(ipu__compiler *c);
ipu_status ipu__lower_transfer(ipu__compiler *c, const ipu__step *step, uint32_t *out);
ipu_status ipu__lower_print(ipu__compiler *c, const ipu__step *step, uint32_t *out);
ipu_status ipu__lower_cross(ipu__compiler *c, const ipu__step *step, uint32_t *out);
ipu_status ipu__lower_reduce(ipu__compiler *c, const ipu__step *step, uint32_t *out);
/* The place of the first element of a contiguous view; the empty place for other views. */
ipu__place ipu__lower_first(const ipu__compiler *c, uint32_t view);

/* ---- lower.c ---- */
ipu_status ipu__lower_programs(ipu__compiler *c);

#endif
