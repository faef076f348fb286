/* The engine interface: what all engines share, and the record that defines a particular one.
 *
 * src/engine/run has everything that does not depend on where programs are computed: creation, the instruction loop,
 * streams, remote buffers, host access, sums over processes, prints, timing, devices, forks, interrupts. It defines
 * all ipu_engine_* functions. An engine (src/engine/cpu, src/engine/null) is one const ipu__engine_def: memory for
 * variables, and how to run compute sets, kernels and moves. docs/engines.md shows how to write one.
 */
#ifndef IPU_ENGINE_ENGINE_H
#define IPU_ENGINE_ENGINE_H

#include <stdatomic.h>

#include "comm/comm.h"
#include "device/device.h"
#include "engine/executable.h"
#include "engine/memory.h"
#include "engine/options.h"

typedef struct ipu__runner ipu__runner;

/* Checking mode. Each returns ABORTED or INVALID with its findings. */
typedef struct ipu__engine_checks {
    /* Before a step: is what it reads defined? */
    ipu_status (*step)(ipu_engine *e, const ipu__instruction *i);
    /* Before the host reads or writes a tensor of replicas [first, end). */
    ipu_status (*host)(ipu_engine *e, const char *handle, uint32_t tensor, bool is_write, int64_t first,
                       int64_t end);
    /* Before the host reads or writes a row of a remote buffer. */
    ipu_status (*row)(ipu_engine *e, uint32_t remote, int64_t replica, int64_t row, bool is_write);
} ipu__engine_checks;

/* Depth first: some rows of the batch through a run of kernels, then the next ones. Suits values of which that many
 * rows fit in a cache, and other operands that are cheap to read again for each chunk. */
typedef struct ipu__engine_depth {
    int64_t rows;       /* rows at a time; a batch must be a multiple, at least twice */
    int64_t row_bytes;  /* limit for a row of one operand */
    int64_t same_bytes; /* limit for an operand shared by all rows */
} ipu__engine_depth;

/* For `reduce`. */
enum { IPU__REDUCE_ADD = 1, IPU__REDUCE_SPREAD = 2 };

/* Statuses are IPU_OK, or a failure that ends the run, with a message for the user. All functions but `create`,
 * `destroy`, `begin_run` and `end_run` are called between the latter two, or while no program runs. */
typedef struct ipu__engine_def {
    const char *name;    /* as given by the option "engine" */
    const char *summary; /* a line for `ipu help engine` */

    /* Creates e->own: memory for all replicas, zero unless the executable gives an initial value, and everything that
     * running needs. e->exe, e->settings, e->replication and e->runners are set. Required. */
    ipu_status (*create)(ipu_engine *e);
    /* Also called after a failed `create`; e->own may be NULL. Required. */
    void (*destroy)(ipu_engine *e);

    /* Number of runners on which bodies of a parallel step run concurrently. NULL for none: bodies run one
     * after another. */
    int (*n_runners)(const ipu_engine *e);
    /* Calls fn(data, k, n) for 0 <= k < n concurrently, n being at most that number. Required with
     * `n_runners`. */
    void (*at_once)(ipu_engine *e, int n, void (*fn)(void *data, int k, int n), void *data);

    /* Called before and after a program run. May be NULL. */
    void (*begin_run)(ipu_engine *e, size_t program);
    void (*end_run)(ipu_engine *e, size_t program);

    /* Runs all vertices of compute set i->a, for all replicas. Required. */
    ipu_status (*execute)(ipu__runner *l, const ipu__instruction *i);
    /* Runs kernel i->a for all replicas. Sets *n to 1, or more if it ran following instructions as well
     * (i->n). Required. */
    ipu_status (*kernel)(ipu__runner *l, const ipu__instruction *i, uint32_t *n);
    /* Runs the moves of a batch for all replicas; to_replica: from replica r to to_replica[r]. Required. */
    ipu_status (*move)(ipu__runner *l, uint32_t batch, const int64_t *to_replica);
    /* Sums over replicas: ADD them up into `packed` or, if NULL, the memory of replica 0, and SPREAD the sum to
     * all. Required. */
    ipu_status (*reduce)(ipu__runner *l, uint32_t reduce, unsigned what, void *packed);

    /* Copies a packed tensor to replicas [first, end), or from one. Required. */
    ipu_status (*write)(ipu__runner *l, const ipu__exe_tensor *t, int64_t first, int64_t end,
                        const void *packed);
    ipu_status (*read)(ipu__runner *l, const ipu__exe_tensor *t, int64_t replica, void *packed);
    /* Reads a scalar that controls what is done next. NULL if the engine has no values: loops that depend on one then
     * end at once, branches take their else, switches their default, and nothing aborts. */
    ipu_status (*peek)(const ipu_engine *e, int64_t replica, ipu__place place, void *out, size_t bytes);
    /* The host address of a place, if the engine uses host memory: streams then need no copy. NULL if it does not. */
    char *(*map)(const ipu_engine *e, int64_t replica, ipu__place place);
    /* Lets kernels read what a transfer brings from the host's memory; data NULL reverts to their own. Returns false
     * if it must be copied. NULL: always copied. */
    bool (*lend)(ipu_engine *e, uint32_t transfer, const void *data);

    /* What it chose for a kernel: fills in what it knows better than `out` already says. May be NULL. */
    void (*describe)(const ipu_engine *e, size_t kernel, ipu_engine_kernel *out);
    /* The layout of an operand, in a word. NULL means "plain". */
    const char *(*layout)(const ipu_engine *e, size_t kernel, int operand);

    /* NULL if it has no checking mode, and rejects executables compiled for it. */
    const ipu__engine_checks *checks;

    /* ---- how to compile programs for it; does not affect their cost on the chip ---- */

    /* Whether it can run that call, by `ref` or better. Models compiled for it replace an op that it cannot run by
     * the op's composition. NULL if it can run all. */
    bool (*supports)(const ipu__kernel_call *call);
    /* Whether that call is faster than the ops it replaces, which no chip would run as one. The call has only its
     * inputs and those attributes that are known. NULL: never. */
    bool (*fuses)(const ipu__kernel_call *call);
    /* How far apart to place variables. NULL for alignment only. */
    const ipu__memory_spacing *spacing;
    /* Runs of kernels that it may run depth first: their variables then get separate memory, since different rows are
     * at different kernels. NULL: kernels run one by one. */
    const ipu__engine_depth *depth;
    /* Size in bytes of simultaneous activations above which recomputing some of them pays off, and of weights and
     * states below which updating them together does. 0: never. */
    int64_t remat_bytes, update_bytes;
} ipu__engine_def;

/* All engines, NULL-terminated; the first is the default. */
extern const ipu__engine_def *ipu__engines[];
extern const ipu__engine_def  ipu__cpu_engine, ipu__null_engine;

/* Adds one, for the rest of the process, that the option can name: from a test, or from code linked with the archive.
 * Returns false if there are too many. Not while other threads compile or create engines. */
bool ipu__engine_add(const ipu__engine_def *def);
/* The engine with that name; NULL if there is none. */
const ipu__engine_def *ipu__engine_find(const char *name);

static inline bool ipu__engine_supports(const ipu__engine_def *def, const ipu__kernel_call *call)
{
    return !def->supports || def->supports(call);
}

static inline bool ipu__engine_fuses(const ipu__engine_def *def, const ipu__kernel_call *call)
{
    return def->fuses && ipu__engine_supports(def, call) && def->fuses(call);
}

/* ---- what run holds ---- */

typedef struct ipu__connection {
    ipu_stream_fn       fn; /* or `lend`, or `place`, or memory: */
    ipu_stream_lend_fn  lend;
    ipu_stream_place_fn place;
    void               *user;
    char               *data;
    size_t              bytes, at;
} ipu__connection;

/* Measurements of an instruction. */
typedef struct ipu__time {
    int64_t runs, nanoseconds;
} ipu__time;

/* A sum over processes, possibly in progress. */
typedef struct ipu__sum {
    ipu__comm_job job;
    char         *data; /* what is summed over processes; NULL if in the memory of replica 0 */
    bool          has_begun;
} ipu__sum;

/* Runs instructions one after another: the engine's first runner those of programs, the others bodies of parallel
 * steps, concurrently. */
enum { IPU__RUNNER_MESSAGE_BYTES = 4096 };
struct ipu__runner {
    ipu_engine *e;
    int         index;   /* in e->runners */
    char       *staging; /* pages: a packed tensor, followed by row numbers */
    uint32_t   *calls;   /* return addresses */

    ipu_engine_counters counts;  /* the first: of the engine; others: of the current parallel step */
    uint32_t            last_pc; /* the instruction begun at last_ns; IPU__NONE if none in this run */
    int64_t             last_ns;

    uint64_t   body; /* of the parallel step: being run, or the one that failed */
    ipu_status status;
    char       message[IPU__RUNNER_MESSAGE_BYTES];
};

struct ipu_engine {
    const ipu__engine_def *def;
    void                  *own; /* the engine's */
    ipu_executable        *exe;
    ipu__settings          settings;
    int64_t                replication;

    ipu__runner *runners; /* the first and n_runners others */
    int          n_runners;

    unsigned      fork_generation;
    bool          running;
    atomic_int    interrupted;
    atomic_ullong failed_body; /* of the current parallel step, the smallest; all ones if none */

    char           **remotes;     /* by remote buffer, replicas one after another; pages */
    ipu__connection *connections; /* stream * replication + replica */
    int64_t         *counters;    /* of REPEAT */
    ipu__time       *times;       /* by instruction; NULL if not measuring */

    ipu_device *device; /* NULL if it attaches to none */

    ipu_comm *comm;      /* borrowed; NULL if alone */
    ipu__sum *sums;      /* by reduce of the executable; NULL if alone */
    char     *sums_data; /* pages */
    size_t    sums_bytes;
    double    comm_waited;
    int64_t   comm_bytes;
};

static inline bool ipu__engine_is_checking(const ipu_engine *e) { return e->exe->check != NULL; }

/* ---- run/engine.c ---- */

/* ipu_engine_create_on with an engine that need not be listed; NULL for the one named by the options. */
ipu_status ipu__engine_create(const ipu__engine_def *def, ipu_executable *exe, const ipu_options *options,
                              ipu_device *device, ipu_engine **out);

/* ---- run/times.c, for engines that run several instructions at once ---- */

/* From here on, time is attributed to instruction `pc`, which this run has already counted. */
void ipu__times_go_on(ipu__runner *l, uint32_t pc);

/* ---- run/run.c ---- */

/* ABORTED, with "file.c:12: " in front of the message. */
ipu_status ipu__engine_abort(const ipu_engine *e, const ipu__instruction *i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
