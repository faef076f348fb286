/* The CPU engine: its state.
 *
 * Everything is allocated on creation; running allocates nothing. Places of the executable have been turned
 * into pointers here, or become pointers by one addition.
 */
#ifndef IPU_ENGINE_CPU_CPU_H
#define IPU_ENGINE_CPU_CPU_H

#include <stdalign.h>
#include <stdatomic.h>

#include "base/host/pool.h"
#include "engine/cpu/impl.h"
#include "engine/engine.h"

typedef struct ipu__cpu ipu__cpu;

/* Vertices of one codelet, ready to be called. */
typedef struct ipu__group {
    ipu_compute_fn compute;
    char          *records; /* of replica 0 */
    size_t         stride;
    int64_t        begin, end; /* within the set */
    uint32_t       first_vertex, first_moves;
    bool           multi;
} ipu__group;

typedef struct ipu__set {
    const ipu__group *groups;
    uint32_t          n_groups;
    bool              parallel;
    bool              may_be_parallel; /* there are several threads and enough work */
    int64_t           n_vertices;
    uint64_t          runs;
    int64_t           alone_ns; /* duration of a run on one thread; 0 if none was timed */
} ipu__set;

/* Replicas run one after another, each in n_parts; or n_states at a time, each in one part with its own state. */
typedef struct ipu__kernel {
    const ipu__cpu_impl    *impl;          /* NULL for the reference */
    const ipu__kernel_call *call;          /* the executable's, or own_call */
    ipu__kernel_call       *own_call;      /* with layouts that are not all plain; NULL if they are */
    double                  turned_bytes;  /* of operands not in the layout preferred by the implementation */
    void                  **states;        /* n_states; NULL if the implementation needs none */
    void                  **operands;      /* n_operands per replica */
    size_t                  scratch_bytes; /* per part */
    int                     n_parts, n_states;
    int64_t                 n_chunks;    /* number of row chunks it runs in (rows.c); 0 for a single piece */
    size_t                 *chunk_bytes; /* by operand: distance between chunks */
    bool                    is_idle;     /* it writes nothing: inputs are only examined */
} ipu__kernel;

/* Items of one thread, which others may take when they have finished theirs. */
typedef struct ipu__share {
    alignas(64) atomic_llong next;
    long long end;
} ipu__share;

enum { IPU__PART_MESSAGE_BYTES = 512 };

/* The error of a part of a kernel, or of the replicas that one thread ran. */
typedef struct ipu__part {
    ipu_status status;
    int64_t    replica;
    char       message[IPU__PART_MESSAGE_BYTES];
} ipu__part;

/* How a program is run (pace.c). */
typedef struct ipu__pace {
    int64_t best[2]; /* recent best in nanoseconds, shared and alone */
    int64_t runs;    /* negative: runs until the next trial */
    int     trial;   /* runs left of a trial */
    bool    alone;
} ipu__pace;

typedef char *ipu__bases[IPU__N_SPACES];

/* The threads of a runner, and their memory. */
typedef struct ipu__cpu_runner {
    ipu__cpu     *e;
    ipu__runner  *run;  /* the runner whose CPU part it is */
    ipu__pool    *pool; /* NULL for one thread */
    int           n_threads;
    atomic_ullong failed;  /* vertex number << 32 | replica, the smallest; all ones if none */
    ipu__bases   *bases;   /* by replica; the same in all runners except for the host's */
    char         *scratch; /* pages; for kernels, a slice per part */
    size_t        scratch_bytes;
    ipu__part    *parts;  /* by thread */
    ipu__share   *shares; /* by thread */
    void         *shares_memory;
} ipu__cpu_runner;

struct ipu__cpu {
    ipu_engine           *engine; /* of which it is `own` */
    const ipu_executable *exe;    /* the engine's */
    int64_t               replication;
    int                   n_threads;
    bool                  layouts; /* buffer layouts may be chosen */
    bool                  check_floats;

    ipu__cpu_runner *runners; /* the first and n_runners others */
    int              n_runners;
    bool            *in_body; /* by kernel: whether bodies of parallel steps run it */

    char     *variables, *gather, *records; /* pages; replicas one after another */
    size_t    variables_stride, gather_stride, records_stride;
    ipu_span *spans;
    int64_t  *batch_ns; /* by batch: estimated time of its moves per replica */

    ipu__group  *groups;
    ipu__set    *sets;
    ipu__kernel *kernels;
    ipu__pace   *paces;         /* by program */
    int64_t      pace_began;    /* start of the run; 0 if there is nothing to choose */
    int          openmp_before; /* during a run: setting of the caller to restore */

    struct ipu__checking *check; /* checking.h; NULL if not checking */
};

static inline ipu__cpu *ipu__cpu_of(const ipu_engine *e) { return e->own; }

static inline ipu__cpu_runner *ipu__cpu_runner_of(const ipu__runner *l)
{
    return &ipu__cpu_of(l->e)->runners[l->index];
}

static inline char *ipu__cpu_pointer(const ipu__cpu *e, int64_t replica, ipu__place place)
{
    return ipu__place_pointer(place, e->runners->bases[replica]);
}

/* ---- cpu.c ---- */
extern const ipu__memory_spacing ipu__cpu_spacing;

/* ---- parallel.c ---- */

typedef struct ipu__work ipu__work;
struct ipu__work {
    ipu__cpu_runner *runner;
    /* Items begin <= i < end, on any thread of the runner. */
    void (*run)(const ipu__work *work, int64_t begin, int64_t end);
    const void    *object;
    int64_t        first_replica;
    const int64_t *to_replica; /* NULL if the same */
    int64_t        chunk;
};

/* Runs all `n` items on all threads of the runner. */
void ipu__parallel_run(ipu__work *work, int64_t n);

/* Moves of a batch for replicas [first, end); to_replica: to other replicas. */
void ipu__cpu_move(ipu__cpu_runner *l, uint32_t batch, int64_t first, int64_t end, const int64_t *to_replica);
/* The same with `host` as the packed buffer. */
void ipu__cpu_move_packed(ipu__cpu_runner *l, uint32_t batch, int64_t first, int64_t end, void *host);

/* ---- floats.c ---- */

/* Before a kernel runs, for all replicas: ABORTED if an input contains a NaN; *has_inf: one contains an
 * infinity. */
ipu_status ipu__floats_check_inputs(const ipu__cpu *e, const ipu__instruction *i, bool *has_inf);
/* Afterwards: ABORTED if an output contains a NaN, or an infinity that does not stem from an input or an
 * attribute. */
ipu_status ipu__floats_check_outputs(const ipu__cpu *e, const ipu__instruction *i, bool has_inf);

/* ---- pace.c ---- */
void ipu__pace_init(ipu__pace *p);
/* At the beginning and end of a run. 0 if there is nothing to choose. */
int64_t ipu__pace_begin(const ipu__cpu *e, const ipu__pace *p);
void    ipu__pace_end(ipu__pace *p, int64_t begin);
/* The basis for its decisions: a run in mode p->alone took this many nanoseconds. */
void ipu__pace_note(ipu__pace *p, int64_t took);

/* ---- execute.c ---- */
void       ipu__cpu_prepare_sets(ipu__cpu *e);
ipu_status ipu__cpu_execute(ipu__cpu_runner *l, const ipu__instruction *i);

/* ---- layout.c ---- */
/* For kernels with several implementations. */
ipu_status ipu__cpu_choose_layouts(ipu__cpu *e);

/* ---- rows.c ---- */
/* Which kernels run depth first, and with which implementations. */
ipu_status ipu__cpu_choose_rows(ipu__cpu *e);
/* Starts at a kernel that has chunks; *n: number of instructions done. */
ipu_status ipu__cpu_run_rows(ipu__cpu_runner *l, const ipu__instruction *i, uint32_t *n);

/* ---- kernel.c ---- */
ipu_status ipu__cpu_prepare_kernels(ipu__cpu *e);
void       ipu__cpu_release_kernels(ipu__cpu *e);
/* *n: number of instructions done. */
ipu_status ipu__cpu_run_kernel(ipu__cpu_runner *l, const ipu__instruction *i, uint32_t *n);
/* One OpenMP thread per engine thread while kernels run; returns the caller's setting, to be restored. */
int  ipu__openmp_enter(ipu__cpu *e);
void ipu__openmp_leave(ipu__cpu *e, int before);

/* ---- fuses.c ---- */
bool ipu__cpu_fuses(const ipu__kernel_call *call);

/* ---- lend.c ---- */
bool ipu__cpu_lend(ipu_engine *e, uint32_t transfer, const void *data);

/* ---- reduce.c ---- */
ipu_status ipu__cpu_reduce(ipu__runner *l, uint32_t reduce, unsigned what, void *packed);

/* ---- runner.c ---- */

#define IPU__NO_FAILURE UINT64_MAX

/* Creates the runners and their threads, before anything is moved. */
ipu_status ipu__cpu_runners_create(ipu__cpu *e);
/* Memory for kernels, of which runners for bodies get a share; after kernels are prepared. */
ipu_status ipu__cpu_runners_prepare(ipu__cpu *e, size_t scratch_bytes, size_t scratch_bytes_in_bodies);
void       ipu__cpu_runners_destroy(ipu__cpu *e);
/* Runners for bodies of parallel steps. */
int  ipu__cpu_n_runners(const ipu_engine *e);
void ipu__cpu_at_once(ipu_engine *e, int n, void (*fn)(void *data, int k, int n), void *data);

#endif
