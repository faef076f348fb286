/* The seam: what every engine shares, and the record by which one is an engine of its own.
 *
 * src/engine/run has all that does not depend on where programs are computed: creation, the loop over instructions, streams,
 * remote buffers, host access, sums over processes, prints, measured times, devices, forks, interrupts. It defines every
 * ipu_engine_*. An engine (src/engine/cpu, src/engine/null) is one const ipu__engine_def: memory for variables, and how
 * compute sets, kernels and moves are done there. docs/engines.md shows how one is written.
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
    /* Before it reads or writes a row of a remote buffer. */
    ipu_status (*row)(ipu_engine *e, uint32_t remote, int64_t replica, int64_t row, bool is_write);
} ipu__engine_checks;

/* Depth first: some rows of the batch through a run of kernels, then the next ones. For values of which that many rows fit a
 * cache, and operands that are worth reading again for each. */
typedef struct ipu__engine_depth {
    int64_t rows;       /* taken at a time; a batch has twice as many, or more, and a whole number of times */
    int64_t row_bytes;  /* most of a row of one operand */
    int64_t same_bytes; /* most of an operand that is the same for all rows */
} ipu__engine_depth;

/* For `reduce`. */
enum { IPU__REDUCE_ADD = 1, IPU__REDUCE_SPREAD = 2 };

/* Statuses are IPU_OK, or a failure that ends the run and whose message is the user's. All but `create`, `destroy`,
 * `begin_run` and `end_run` are called between these two or while no program runs. */
typedef struct ipu__engine_def {
    const char *name;    /* what the option "engine" takes */
    const char *summary; /* a line for `ipu help engine` */

    /* Make e->own: memory of all replicas, zero where the executable gives no initial value, and all that running needs.
     * e->exe, e->settings, e->replication and e->runners are there. Required. */
    ipu_status (*create)(ipu_engine *e);
    /* Also of what a failed `create` left; e->own may be NULL. Required. */
    void (*destroy)(ipu_engine *e);

    /* Runners on which bodies of a parallel step run at the same time. NULL: none, one after another. */
    int (*n_runners)(const ipu_engine *e);
    /* fn(data, k, n) for 0 <= k < n at the same time, n at most those runners. Required with `n_runners`. */
    void (*at_once)(ipu_engine *e, int n, void (*fn)(void *data, int k, int n), void *data);

    /* Around a run of a program. NULL: nothing to do. */
    void (*begin_run)(ipu_engine *e, size_t program);
    void (*end_run)(ipu_engine *e, size_t program);

    /* All vertices of compute set i->a, of all replicas. Required. */
    ipu_status (*execute)(ipu__runner *l, const ipu__instruction *i);
    /* Kernel i->a, for all replicas. *n is 1; larger if it did the instructions that follow as well (i->n). Required. */
    ipu_status (*kernel)(ipu__runner *l, const ipu__instruction *i, uint32_t *n);
    /* The moves of a batch, of all replicas; to_replica: from replica r to to_replica[r]. Required. */
    ipu_status (*move)(ipu__runner *l, uint32_t batch, const int64_t *to_replica);
    /* Sums over replicas: ADD them up, to `packed` or (NULL) to the memory of replica 0, and SPREAD the sum to all.
     * Required. */
    ipu_status (*reduce)(ipu__runner *l, uint32_t reduce, unsigned what, void *packed);

    /* A packed tensor to replicas [first, end), or from one. Required. */
    ipu_status (*write)(ipu__runner *l, const ipu__exe_tensor *t, int64_t first, int64_t end,
                        const void *packed);
    ipu_status (*read)(ipu__runner *l, const ipu__exe_tensor *t, int64_t replica, void *packed);
    /* A scalar that decides what is done next. NULL: the engine knows no values. Loops that depend on one then end before
     * their first turn, branches go to their else, switches to their default, and nothing aborts. */
    ipu_status (*peek)(const ipu_engine *e, int64_t replica, ipu__place place, void *out, size_t bytes);
    /* Where the host sees a place, if the engine's memory is its own: streams then go there without a copy. NULL: it
     * does not. */
    char *(*map)(const ipu_engine *e, int64_t replica, ipu__place place);
    /* Let kernels read what a transfer brings where the host has it; data NULL: in their own memory again. False: it must
     * be copied. NULL: it always is. */
    bool (*lend)(ipu_engine *e, uint32_t transfer, const void *data);

    /* What it chose for a kernel: fills in what it knows better than `out` says already. NULL: nothing. */
    void (*describe)(const ipu_engine *e, size_t kernel, ipu_engine_kernel *out);
    /* How an operand lies, in a word. NULL: "plain". */
    const char *(*layout)(const ipu_engine *e, size_t kernel, int operand);

    /* NULL: it has no checking mode, and takes no executable compiled for it. */
    const ipu__engine_checks *checks;

    /* ---- what programs for it are compiled by; what they cost on the chip does not depend on it ---- */

    /* Whether it runs that call, by `ref` or better. Models are compiled for it with the op's composition in place of what
     * it does not run. NULL: it runs all. */
    bool (*supports)(const ipu_kernel_call *call);
    /* Whether it gains by that call in place of the several ops it stands for, which no chip would run as one. The call has
     * its inputs only, and what attributes are known. NULL: it never does. */
    bool (*fuses)(const ipu_kernel_call *call);
    /* How far apart variables lie. NULL: no more than aligned. */
    const ipu__memory_spacing *spacing;
    /* Runs of kernels that it may do depth first: what they touch then has memory of its own, since different rows are at
     * different kernels. NULL: kernels are run one by one. */
    const ipu__engine_depth *depth;
    /* Bytes of activations, held at once, from which on it pays to compute some of them again; and bytes of weights and
     * states below which it pays to update them together. 0: it never does. */
    int64_t remat_bytes, update_bytes;
} ipu__engine_def;

/* All there are, NULL at the end; the first is the default. */
extern const ipu__engine_def *ipu__engines[];
extern const ipu__engine_def  ipu__cpu_engine, ipu__null_engine;

/* One more, for the rest of the process, that the option can name: of a test, or of what is linked to the archive. False:
 * there are too many. Not while other threads compile or create engines. */
bool ipu__engine_add(const ipu__engine_def *def);
/* The engine of that name; NULL: there is none. */
const ipu__engine_def *ipu__engine_find(const char *name);

static inline bool ipu__engine_supports(const ipu__engine_def *def, const ipu_kernel_call *call)
{
    return !def->supports || def->supports(call);
}

static inline bool ipu__engine_fuses(const ipu__engine_def *def, const ipu_kernel_call *call)
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

/* What was measured of an instruction. */
typedef struct ipu__time {
    int64_t runs, nanoseconds;
} ipu__time;

/* A sum over processes that may be going on. */
typedef struct ipu__sum {
    ipu__comm_job job;
    char         *data; /* what is added up over processes; NULL: in the memory of replica 0 */
    bool          has_begun;
} ipu__sum;

/* What runs instructions one after another: the engine's first runner those of programs, the others bodies of parallel
 * steps, at the same time. */
enum { IPU__RUNNER_MESSAGE_BYTES = 4096 };
struct ipu__runner {
    ipu_engine *e;
    int         index;   /* in e->runners */
    char       *staging; /* pages: a packed tensor, row numbers behind it */
    uint32_t   *calls;   /* return addresses */

    ipu_engine_counters counts;  /* the first: of the engine; others: of the parallel step at hand */
    uint32_t            last_pc; /* the instruction that began at last_ns; IPU__NONE: none in this run */
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
    atomic_ullong failed_body; /* of the parallel step being run, the smallest; all ones: none */

    char           **remotes;     /* by remote buffer, all replicas one after another; pages */
    ipu__connection *connections; /* stream * replication + replica */
    int64_t         *counters;    /* of REPEAT */
    ipu__time       *times;       /* by instruction; NULL: nothing is measured */

    ipu_device *device; /* NULL: it attaches to none */

    ipu_comm *comm;      /* borrowed; NULL: alone */
    ipu__sum *sums;      /* by reduce of the executable; NULL: alone */
    char     *sums_data; /* pages */
    size_t    sums_bytes;
    double    comm_waited;
    int64_t   comm_bytes;
};

static inline bool ipu__engine_is_checking(const ipu_engine *e) { return e->exe->check != NULL; }

/* ---- run/engine.c ---- */

/* ipu_engine_create_on with an engine that need not be listed; NULL: the one that the options name. */
ipu_status ipu__engine_create(const ipu__engine_def *def, ipu_executable *exe, const ipu_options *options,
                              ipu_device *device, ipu_engine **out);

/* ---- run/times.c, for engines that do several instructions at once ---- */

/* From here on time belongs to instruction `pc`, which this run has counted already. */
void ipu__times_go_on(ipu__runner *l, uint32_t pc);

/* ---- run/run.c ---- */

/* ABORTED with "file.c:12: " before the sentence. */
ipu_status ipu__engine_abort(const ipu_engine *e, const ipu__instruction *i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
