/* The CPU engine: what one holds.
 *
 * Everything is allocated when it is created: running allocates nothing. Places of the executable have become
 * pointers here, or do so by one addition.
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
    int64_t        begin, end; /* in the set */
    uint32_t       first_vertex, first_moves;
    bool           multi;
} ipu__group;

typedef struct ipu__set {
    const ipu__group *groups;
    uint32_t          n_groups;
    bool              parallel;
    bool              may_be_parallel; /* there are threads, and work to share */
    int64_t           n_vertices;
    uint64_t          runs;
    int64_t           alone_ns; /* what a run on one thread took; 0: none was timed */
} ipu__set;

/* Replicas one after another, each in n_parts; or n_states of them at a time, each in one part with a state of its
 * own. */
typedef struct ipu__kernel {
    const ipu__cpu_impl   *impl;          /* NULL: the reference */
    const ipu_kernel_call *call;          /* the executable's, or own_call */
    ipu_kernel_call       *own_call;      /* with layouts that are not all plain; NULL: they are */
    double                 turned_bytes;  /* of operands that do not lie as the implementation likes them */
    void                 **states;        /* n_states, NULL where the implementation needs none */
    void                 **operands;      /* n_operands per replica */
    size_t                 scratch_bytes; /* of a part */
    int                    n_parts, n_states;
    int64_t                n_chunks;    /* it runs chunk by chunk of its rows (rows.c); 0: as a whole */
    size_t                *chunk_bytes; /* by operand: from one chunk to the next */
    bool                   is_idle;     /* it writes nothing: its inputs are examined, no more */
} ipu__kernel;

/* Items of one thread, which others take from when theirs are done. */
typedef struct ipu__share {
    alignas(64) atomic_llong next;
    long long end;
} ipu__share;

enum { IPU__PART_MESSAGE_BYTES = 512 };

/* What a part of a kernel said, or those of its replicas that a thread ran. */
typedef struct ipu__part {
    ipu_status status;
    int64_t    replica;
    char       message[IPU__PART_MESSAGE_BYTES];
} ipu__part;

/* How a program is run (pace.c). */
typedef struct ipu__pace {
    int64_t best[2]; /* nanoseconds of late, shared and alone */
    int64_t runs;    /* until the next trial if negative */
    int     trial;   /* runs that are left of one */
    bool    alone;
} ipu__pace;

typedef char *ipu__bases[IPU__N_SPACES];

/* The threads of a runner, and their memory. */
typedef struct ipu__cpu_runner {
    ipu__cpu     *e;
    ipu__runner  *run;  /* what it is the CPU's part of */
    ipu__pool    *pool; /* NULL: one thread */
    int           n_threads;
    atomic_ullong failed;  /* number of the vertex << 32 | replica, the smallest; all ones: none */
    ipu__bases   *bases;   /* by replica; the same in all runners but for the host's */
    char         *scratch; /* pages; of kernels, a slice per part */
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
    bool                  layouts; /* of buffers may be chosen */
    bool                  check_floats;

    ipu__cpu_runner *runners; /* the first and n_runners others */
    int              n_runners;
    bool            *in_body; /* by kernel: whether bodies of parallel steps run it */

    char     *variables, *gather, *records; /* pages; all replicas one after another */
    size_t    variables_stride, gather_stride, records_stride;
    ipu_span *spans;
    int64_t  *batch_ns; /* by batch: estimated time of its moves, for one replica */

    ipu__group  *groups;
    ipu__set    *sets;
    ipu__kernel *kernels;
    ipu__pace   *paces;         /* by program */
    int64_t      pace_began;    /* of the run; 0: there is nothing to choose */
    int          openmp_before; /* the run: what to give back to the caller's */

    struct ipu__checking *check; /* checking.h; NULL: no checking */
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
    const int64_t *to_replica; /* NULL: the same */
    int64_t        chunk;
};

/* All `n` items over all threads of the runner. */
void ipu__parallel_run(ipu__work *work, int64_t n);

/* Moves of a batch for replicas [first, end); to_replica: to those of other replicas. */
void ipu__cpu_move(ipu__cpu_runner *l, uint32_t batch, int64_t first, int64_t end, const int64_t *to_replica);
/* The same with `host` as the packed buffer. */
void ipu__cpu_move_packed(ipu__cpu_runner *l, uint32_t batch, int64_t first, int64_t end, void *host);

/* ---- floats.c ---- */

/* Before a kernel runs, for all replicas: ABORTED if an input holds a NaN; *has_inf: one holds an infinity. */
ipu_status ipu__floats_check_inputs(const ipu__cpu *e, const ipu__instruction *i, bool *has_inf);
/* After it: ABORTED if an output holds a NaN, or an infinity that does not come from an input or an attribute. */
ipu_status ipu__floats_check_outputs(const ipu__cpu *e, const ipu__instruction *i, bool has_inf);

/* ---- pace.c ---- */
void ipu__pace_init(ipu__pace *p);
/* Around a run. 0: there is nothing to choose. */
int64_t ipu__pace_begin(const ipu__cpu *e, const ipu__pace *p);
void    ipu__pace_end(ipu__pace *p, int64_t begin);
/* What it decides by: a run, as p->alone says, took so many nanoseconds. */
void ipu__pace_note(ipu__pace *p, int64_t took);

/* ---- execute.c ---- */
void       ipu__cpu_prepare_sets(ipu__cpu *e);
ipu_status ipu__cpu_execute(ipu__cpu_runner *l, const ipu__instruction *i);

/* ---- layout.c ---- */
/* For kernels whose implementations are chosen. */
ipu_status ipu__cpu_choose_layouts(ipu__cpu *e);

/* ---- rows.c ---- */
/* Which kernels run depth first, and by which implementations then. */
ipu_status ipu__cpu_choose_rows(ipu__cpu *e);
/* From a kernel that has chunks on; *n: how many instructions that was. */
ipu_status ipu__cpu_run_rows(ipu__cpu_runner *l, const ipu__instruction *i, uint32_t *n);

/* ---- kernel.c ---- */
ipu_status ipu__cpu_prepare_kernels(ipu__cpu *e);
void       ipu__cpu_release_kernels(ipu__cpu *e);
/* *n: instructions that this was. */
ipu_status ipu__cpu_run_kernel(ipu__cpu_runner *l, const ipu__instruction *i, uint32_t *n);
/* One OpenMP thread per engine thread while kernels run; what to give back to the caller's. */
int  ipu__openmp_enter(ipu__cpu *e);
void ipu__openmp_leave(ipu__cpu *e, int before);

/* ---- fuses.c ---- */
bool ipu__cpu_fuses(const ipu_kernel_call *call);

/* ---- lend.c ---- */
bool ipu__cpu_lend(ipu_engine *e, uint32_t transfer, const void *data);

/* ---- reduce.c ---- */
ipu_status ipu__cpu_reduce(ipu__runner *l, uint32_t reduce, unsigned what, void *packed);

/* ---- runner.c ---- */

#define IPU__NO_FAILURE UINT64_MAX

/* The runners and their threads; before anything is moved. */
ipu_status ipu__cpu_runners_create(ipu__cpu *e);
/* Memory for kernels, of which runners of bodies have a part; after kernels are prepared. */
ipu_status ipu__cpu_runners_prepare(ipu__cpu *e, size_t scratch_bytes, size_t scratch_bytes_in_bodies);
void       ipu__cpu_runners_destroy(ipu__cpu *e);
/* Runners for bodies of parallel steps. */
int  ipu__cpu_n_runners(const ipu_engine *e);
void ipu__cpu_at_once(ipu_engine *e, int n, void (*fn)(void *data, int k, int n), void *data);

#endif
