/* The CPU engine: what one holds.
 *
 * Everything is allocated when it is created: running allocates nothing (but for the text of prints). Places
 * of the executable have become pointers here, or do so by one addition.
 */
#ifndef IPU_ENGINE_CPU_ENGINE_H
#define IPU_ENGINE_CPU_ENGINE_H

#include <stdalign.h>
#include <stdatomic.h>

#include "base/pool.h"
#include "comm/comm.h"
#include "device/device.h"
#include "engine/executable.h"

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
    const ipu_kernel_impl *impl;          /* NULL: the reference */
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

typedef struct ipu__connection {
    ipu_stream_fn       fn; /* or `lend`, or `place`, or memory: */
    ipu_stream_lend_fn  lend;
    ipu_stream_place_fn place;
    void               *user;
    char               *data;
    size_t              bytes, at;
} ipu__connection;

static inline bool ipu__is_connected(const ipu__connection *c)
{
    return c->fn || c->lend || c->place || c->data;
}

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

/* What was measured of an instruction. */
typedef struct ipu__time {
    int64_t runs, nanoseconds;
} ipu__time;

/* How a program is run (pace.c). */
typedef struct ipu__pace {
    int64_t best[2]; /* nanoseconds of late, shared and alone */
    int64_t runs;    /* until the next trial if negative */
    int     trial;   /* runs that are left of one */
    bool    alone;
} ipu__pace;

/* A sum over replicas that may be going on. */
typedef struct ipu__sum {
    ipu__comm_job job;
    char         *data; /* what is added up over processes; NULL: in the memory of replica 0 */
    bool          has_begun;
} ipu__sum;

typedef char *ipu__bases[IPU__N_SPACES];

/* What runs instructions one after another: the engine's first lane those of programs, the others bodies of parallel
 * steps, at the same time. */
enum { IPU__LANE_MESSAGE_BYTES = 4096 };
typedef struct ipu__lane {
    ipu_engine   *e;
    ipu__pool    *pool; /* NULL: one thread */
    int           n_threads;
    atomic_ullong failed;            /* number of the vertex << 32 | replica, the smallest; all ones: none */
    ipu__bases   *bases;             /* by replica; the same in all lanes but for the host's */
    char         *staging, *scratch; /* pages; scratch of kernels, a slice per part */
    size_t        scratch_bytes;
    ipu__part    *parts;  /* by thread */
    ipu__share   *shares; /* by thread */
    void         *shares_memory;
    uint32_t     *calls; /* return addresses */

    ipu_engine_counters counts;  /* the first: of the engine; others: of the parallel step at hand */
    uint32_t            last_pc; /* the instruction that began at last_ns; IPU__NONE: none in this run */
    int64_t             last_ns;

    uint64_t   body; /* of the parallel step: being run, or the one that failed */
    ipu_status status;
    char       message[IPU__LANE_MESSAGE_BYTES];
} ipu__lane;

struct ipu_engine {
    ipu_executable *exe;
    int             n_threads;
    bool            layouts; /* of buffers may be chosen */
    bool            check_floats;
    unsigned        fork_generation;
    bool            running;
    atomic_int      interrupted;
    atomic_ullong   failed_body; /* of the parallel step being run, the smallest; all ones: none */
    int64_t         replication;

    ipu__lane *lanes; /* the first and n_lanes others */
    int        n_lanes;
    bool      *in_body; /* by kernel: whether bodies of parallel steps run it */

    char     *variables, *gather, *records; /* pages; all replicas one after another */
    size_t    variables_stride, gather_stride, records_stride;
    ipu_span *spans;
    char    **remotes; /* by remote buffer, all replicas */

    ipu__group      *groups;
    ipu__set        *sets;
    ipu__kernel     *kernels;
    ipu__connection *connections; /* stream * replication + replica */
    int64_t         *counters;
    ipu__pace       *paces; /* by program */

    ipu__time *times; /* by instruction; NULL: nothing is measured */

    ipu_device *device;       /* NULL: it attaches to none */
    double      wait_seconds; /* for the device, if it is to be attached by a run */

    ipu_comm *comm;      /* borrowed; NULL: alone */
    ipu__sum *sums;      /* by reduce of the executable; NULL: alone */
    char     *sums_data; /* pages */
    size_t    sums_bytes;
    double    comm_waited;
    int64_t   comm_bytes;

    struct ipu__checking *check; /* checking.h; NULL: no checking */
};

/* ---- engine.c ---- */

/* FORKED, or INVALID from within a run. */
ipu_status ipu__engine_check(const ipu_engine *e);

static inline char *ipu__engine_pointer(const ipu_engine *e, int64_t replica, ipu__place place)
{
    return ipu__place_pointer(place, e->lanes->bases[replica]);
}

/* ---- parallel.c ---- */

typedef struct ipu__work ipu__work;
struct ipu__work {
    ipu__lane *lane;
    /* Items begin <= i < end, on any thread of the lane. */
    void (*run)(const ipu__work *work, int64_t begin, int64_t end);
    const void    *object;
    int64_t        first_replica;
    const int64_t *to_replica; /* NULL: the same */
    int64_t        chunk;
};

/* All `n` items over all threads of the lane. */
void ipu__parallel_run(ipu__work *work, int64_t n);

/* Moves of a batch for replicas [first, end); to_replica: to those of other replicas. */
void ipu__engine_move(ipu__lane *l, uint32_t batch, int64_t first, int64_t end, const int64_t *to_replica);
/* The same with `host` as the packed buffer. */
void ipu__engine_move_host(ipu__lane *l, uint32_t batch, int64_t first, int64_t end, void *host);

/* ---- floats.c ---- */

/* Before a kernel runs, for all replicas: ABORTED if an input holds a NaN; *has_inf: one holds an infinity. */
ipu_status ipu__floats_check_inputs(const ipu_engine *e, const ipu__instruction *i, bool *has_inf);
/* After it: ABORTED if an output holds a NaN, or an infinity that does not come from an input or an attribute. */
ipu_status ipu__floats_check_outputs(const ipu_engine *e, const ipu__instruction *i, bool has_inf);

/* ---- pace.c ---- */
void ipu__pace_init(ipu__pace *p);
/* Around a run. 0: there is nothing to choose. */
int64_t ipu__pace_begin(const ipu_engine *e, const ipu__pace *p);
void    ipu__pace_end(ipu__pace *p, int64_t begin);
/* What it decides by: a run, as p->alone says, took so many nanoseconds. */
void ipu__pace_note(ipu__pace *p, int64_t took);

/* ---- execute.c ---- */
void       ipu__engine_prepare_sets(ipu_engine *e);
ipu_status ipu__engine_execute(ipu__lane *l, const ipu__instruction *i);

/* ---- layout.c ---- */
/* For kernels whose implementations are chosen. */
ipu_status ipu__engine_choose_layouts(ipu_engine *e);

/* ---- rows.c ---- */
/* Which kernels run depth first, and by which implementations then. */
ipu_status ipu__engine_choose_rows(ipu_engine *e);
/* From a kernel that has chunks on; *n: how many instructions that was. */
ipu_status ipu__engine_run_rows(ipu__lane *l, const ipu__instruction *i, uint32_t *n);

/* ---- kernel.c ---- */
/* The first that takes the call in so many parts; NULL: none. */
const ipu_kernel_impl *ipu__kernel_find_impl(const ipu_kernel_call *call, int n_parts);
ipu_status             ipu__engine_prepare_kernels(ipu_engine *e);
/* Run the program that engines begin with, if there is one. Counts nothing. */
ipu_status ipu__engine_start(ipu_engine *e);
void       ipu__engine_release_kernels(ipu_engine *e);
/* *n: instructions that this was. */
ipu_status ipu__engine_run_kernel(ipu__lane *l, const ipu__instruction *i, uint32_t *n);
/* One OpenMP thread per engine thread while kernels run; what to give back to the caller's. */
int  ipu__openmp_enter(ipu_engine *e);
void ipu__openmp_leave(ipu_engine *e, int before);

/* ---- transfer.c ---- */
ipu_status ipu__engine_read_stream(ipu__lane *l, const ipu__instruction *i);
ipu_status ipu__engine_write_stream(ipu__lane *l, const ipu__instruction *i);
ipu_status ipu__engine_remote(ipu__lane *l, const ipu__instruction *i);

/* ---- reduce.c: sums over replicas and processes ---- */
ipu_status ipu__engine_all_reduce(ipu_engine *e, const ipu__instruction *i);
/* For all that was begun. */
ipu_status ipu__engine_all_reduce_wait(ipu_engine *e);
void       ipu__engine_leave(ipu_engine *e);

/* ---- times.c: one look at the clock when an instruction begins, which is when the last one ends ---- */
ipu_status ipu__times_init(ipu_engine *e, bool profile);
void       ipu__times_begin(ipu__lane *l, uint32_t pc);
/* The same, for an instruction that this run has counted already. */
void ipu__times_go_on(ipu__lane *l, uint32_t pc);
void ipu__times_end(ipu__lane *l); /* of a run, however it ended */

/* ---- print.c ---- */
ipu_status ipu__engine_print(ipu__lane *l, const ipu__instruction *i);
ipu_status ipu__engine_error(ipu__lane *l, const ipu__instruction *i);

/* ---- lane.c ---- */

#define IPU__NO_FAILURE UINT64_MAX

/* The lanes and their threads; before anything is moved. */
ipu_status ipu__lanes_create(ipu_engine *e);
/* Memory for kernels, of which lanes of bodies have a part; after kernels are prepared. */
ipu_status ipu__lanes_prepare(ipu_engine *e, size_t scratch_bytes, size_t scratch_bytes_in_bodies);
void       ipu__lanes_destroy(ipu_engine *e);
/* The bodies of a parallel step, run by `l`: over the lanes, or one after another. */
ipu_status ipu__lane_run_bodies(ipu__lane *l, const ipu__instruction *i, uint32_t depth);

/* ---- run.c ---- */

/* Instructions from `pc` on, until the program ends or the function that was entered at this depth of calls. */
ipu_status ipu__lane_run(ipu__lane *l, uint32_t pc, uint32_t depth);

/* ABORTED with "file.c:12: " before the sentence. */
ipu_status ipu__engine_abort(const ipu_engine *e, const ipu__instruction *i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
