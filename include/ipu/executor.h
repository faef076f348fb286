/* Executors: a module compiled for a device, for training or inference.
 *
 * The equivalent of what poptorch.trainingModel and poptorch.inferenceModel return, with the same rules:
 *
 *     ipu_executor_options options = {.device_iterations = 10};
 *     ipu_nn_optimizer     sgd     = {.rate = 0.001, .momentum = 0.9};
 *     ipu_executor        *model;
 *     IPU_TRY(ipu_training_model(module, &options, &(ipu_nn_training){.optimizer = sgd}, &model));
 *     IPU_TRY(ipu_executor_run(model, batch.arrays, batch.n_arrays));     the first one compiles
 *     double loss;
 *     IPU_TRY(ipu_executor_scalar(model, "loss", &loss));
 *
 * The arrays of a run hold N = device iterations x (replicas / input group size) x gradient accumulation batches
 * along dimension 0: iterations outermost, then accumulation, replicas innermost. The network is built for one
 * batch, with dimension 0 divided by N. A training run takes `device_iterations` optimizer steps on the device.
 *
 * By default an executor attaches when it compiles; several on one device take turns. Weights move automatically:
 * trained weights are fetched when the host asks the module for them, and reach the module's other executors
 * before their next run.
 */
#ifndef IPU_EXECUTOR_H
#define IPU_EXECUTOR_H

#include "ipu/module.h"
#include "ipu/options.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_executor ipu_executor;

typedef enum ipu_output_mode {
    IPU_OUTPUT_DEFAULT, /* FINAL for training, ALL for inference */
    IPU_OUTPUT_ALL,     /* all batches, in order: dimension 0 is n x N x group size */
    IPU_OUTPUT_EVERY_N, /* batches P, 2P, ... where P is output_period, which must divide their number */
    IPU_OUTPUT_FINAL,   /* the last batch of each replica */
    IPU_OUTPUT_SUM,     /* sum over all batches, one per replica */
    IPU_OUTPUT_MEAN /* that sum divided by their number; half and bfloat16 are summed in float, integers round
                         * towards 0 */
} ipu_output_mode;

/* Which replicas form a group, as in PopTorch's CommGroupType. */
typedef enum ipu_grouping {
    IPU_GROUPING_ALL,         /* a single group */
    IPU_GROUPING_CONSECUTIVE, /* replicas 0 to size - 1 are the first, and so on */
    IPU_GROUPING_ORTHOGONAL,  /* replicas whose numbers differ by multiples of the number of groups */
    IPU_GROUPING_NONE         /* a group each */
} ipu_grouping;

typedef enum ipu_reduction { IPU_REDUCTION_MEAN, IPU_REDUCTION_SUM } ipu_reduction;

typedef enum ipu_attach_when {
    IPU_ATTACH_ALWAYS,    /* attach when compiling */
    IPU_ATTACH_ON_DEMAND, /* attach at the first run */
    IPU_ATTACH_NEVER      /* compile only: runs are INVALID */
} ipu_attach_when;

/* How the stages of a network (ipu_model_stage) take turns. All schedules give the same numbers. */
typedef enum ipu_pipeline_schedule {
    IPU_PIPELINE_GROUPED, /* all IPUs go forward, then all backward: no IPU waits, most activations kept */
    IPU_PIPELINE_INTERLEAVED, /* each IPU alternates forward and backward: half as many activations kept */
    IPU_PIPELINE_SEQUENTIAL   /* one stage after another, one batch at a time (poptorch.ShardedExecution) */
} ipu_pipeline_schedule;

typedef enum ipu_precision {
    IPU_PRECISION_FLOAT, /* as the network is defined */
    /* Activations, and the weights used with them, are half; weights are kept and updated in float. */
    IPU_PRECISION_MIXED,
    /* Weights are half as well: updates below half a unit in the last place need stochastic_rounding. */
    IPU_PRECISION_HALF
} ipu_precision;

/* poptorch.Options; all zero gives its defaults. Copied by the functions that take it; strings, `stage_ipus`
 * and `engine` are borrowed. */
typedef struct ipu_executor_options {
    int64_t device_iterations; /* 0: 1 */
    int64_t replicas;          /* data parallel, each on IPUs of its own; 0: 1 */
    int64_t input_group_size;  /* replicas that get the same input; 0: 1 */
    bool    orthogonal_inputs; /* groups are ORTHOGONAL rather than CONSECUTIVE */
    int64_t
        n_own_inputs; /* number of arrays, the last of a run, that hold a batch for each replica regardless */
    int64_t         gradient_accumulation; /* batches per optimizer step; 0: 1. Training only */
    ipu_reduction   reduction;             /* of gradients, over accumulation and replicas */
    bool            running_mean; /* maintain the mean step by step rather than dividing a sum at the end */
    ipu_output_mode output_mode;
    int64_t         output_period; /* of EVERY_N */
    uint32_t        seed;          /* for random ops on the device */
    /* "gc200", "bow", "pod16": the chip or system to price for; NULL means ipu_device_chip(). */
    const char *target;
    int         device_id; /* id + 1 of a device of the active partition; 0 for any */
    /* With a device_id: attaching is BUSY while another executor of this process is attached there, as in PopTorch;
     * otherwise they share the device. */
    bool               device_alone;
    ipu_attach_when    attach;
    const char        *cache_folder; /* of executables; NULL: IPU_CACHE_DIR, POPTORCH_CACHE_DIR; "": none */
    const ipu_options *engine;       /* threads, ...; borrowed. NULL for the defaults */

    /* ---- multiple IPUs: IPUs per replica x replicas must be 1 or a power of two (but see round_ipus) ---- */
    int64_t        stages;     /* number of stages of about equal time to cut it into; 0: as it names them */
    const int64_t *stage_ipus; /* IPU of each stage within a replica, from 0; NULL for one each, in order */
    size_t         n_stage_ipus;
    ipu_pipeline_schedule schedule;
    bool recompute;            /* a stage keeps only its inputs, and recomputes the rest for its gradients */
    bool activations_off_chip; /* keep what stages store for gradients in streaming memory */

    /* ---- replicas and optimizer ---- */
    bool no_fold; /* run replicas one by one even if they could be one larger batch */
    /* Each replica keeps and updates its part of large parameters and of the optimizer's states. */
    bool shard_optimizer;
    bool optimizer_off_chip; /* keep optimizer state in streaming memory between steps */
    /* Processes that train together (ipu/comm.h), each with `replicas`; borrowed. NULL: this process alone. */
    struct ipu_comm *comm;

    /* ---- numbers ---- */
    ipu_precision precision; /* docs/precision.md: the effect on numbers, memory and modelled time */
    /* Rounding to half goes up or down at random, so that the mean is right: for results of ops, with random
     * numbers that differ between replicas; for updates of half weights, with the same ones in all of them. Priced
     * at zero. */
    bool stochastic_rounding;
    /* Price matmuls and convolutions of half with partial sums in half, which doubles the rate of a Mk2 chip. Results
     * do not change: the host accumulates in float either way. */
    bool half_partials;

    /* Round the IPUs of a replica up to a power of two, leaving some unused. Otherwise a number that is not one is an
     * error. */
    bool round_ipus;
    /* Floating-point exceptions: an op that turns other numbers into an infinity or NaN, or is given a NaN, ends the
     * run with ABORTED and a message that names it. Ops are not fused, so that each one is checked. Training done
     * earlier in that run stays. Slow. */
    bool check_floats;
    /* Executables kept for different types and shapes of inputs. The least recently used is dropped, also when the
     * idle ones would take over half of the machine's memory. Each continues with the newest weights and states of
     * the optimizer and of random ops. 0 means a single one: inputs of other types and shapes are INVALID, as in
     * PopTorch. */
    int64_t most_executables;
} ipu_executor_options;

/* The group of each of `n` replicas. `size`: replicas per group, ignored by ALL and NONE. Statuses: INVALID (it does not
 * divide them). */
ipu_status ipu_replica_groups(ipu_grouping kind, int64_t size, int64_t n, int64_t *groups);

/* Number of batches that the arrays of a run hold. 0 if the options are invalid (see ipu_message). */
int64_t ipu_executor_options_n_batches(const ipu_executor_options *options);

/* `options` may be NULL for the defaults, `how` for SGD with a rate of 0.01. Both are copied. The module must
 * outlive the executor. Owned: ipu_executor_destroy. Statuses: INVALID (inconsistent options). */
ipu_status ipu_training_model(ipu_module *module, const ipu_executor_options *options,
                              const ipu_nn_training *how, ipu_executor **out);
ipu_status ipu_inference_model(ipu_module *module, const ipu_executor_options *options, ipu_executor **out);
void       ipu_executor_destroy(ipu_executor *x);

/* Compile for arrays of these types and shapes (their data are ignored), unless that has been done. With
 * most_executables, this selects what the next run uses and what all functions below report on: executable,
 * outputs, cost. */
ipu_status ipu_executor_compile(ipu_executor *x, const ipu_array *in, size_t n);
bool       ipu_executor_is_compiled(const ipu_executor *x);
/* Number of executables it holds. */
size_t ipu_executor_n_compiled(const ipu_executor *x);

/* Compiles and attaches if necessary. Types and shapes must be those it was compiled for, except with most_executables;
 * int64 is accepted for int32, double for float. Statuses: INVALID (the message says which array and what was
 * expected), those of ipu_engine_run. After INTERRUPTED (ipu_executor_interrupt) weights hold what was computed so far,
 * and outputs are those of the previous run. */
ipu_status ipu_executor_run(ipu_executor *x, const ipu_array *in, size_t n);
/* Stops the run in progress, or the next one. May be called from any thread or signal handler. */
void ipu_executor_interrupt(ipu_executor *x);

/* ---- results of the last run: the network's outputs by name, in order of creation. Borrowed until the next run.
 * A scalar of several batches becomes a one-dimensional array ---- */

size_t           ipu_executor_n_outputs(const ipu_executor *x);
const ipu_array *ipu_executor_output_at(const ipu_executor *x, size_t i, const char **name);
const ipu_array *ipu_executor_output(const ipu_executor *x, const char *name); /* NULL if there is none */
/* From now on runs write output `i` to `data`, which is borrowed and as large as the output's array. NULL reverts to
 * the executor's own memory. The contents are undefined after an unfinished run. Recompiling cancels this. Statuses:
 * INVALID (no such output). */
ipu_status ipu_executor_place_output(ipu_executor *x, size_t i, void *data);
/* The mean of an output's elements, such as the loss. Statuses: INVALID (no such output, with a list of those there
 * are; or no elements), with NaN in *out. */
ipu_status ipu_executor_scalar(const ipu_executor *x, const char *name, double *out);

/* ---- when batches entered and left: poptorch's getPerfCounters ---- */

typedef struct ipu_executor_time {
    double begin, end; /* seconds on a monotonic clock: requested, and available */
} ipu_executor_time;

/* Whether to record times, from the next run on. Off by default. */
void ipu_executor_keep_times(ipu_executor *x, bool keep);
/* Of the last run: for input `i`, one time per batch of its array, in that order; for output `i`, one per batch
 * returned. NULL if none were recorded, or if there is no such input or output. Borrowed until the next run. */
const ipu_executor_time *ipu_executor_input_times(const ipu_executor *x, size_t i, size_t *n);
const ipu_executor_time *ipu_executor_output_times(const ipu_executor *x, size_t i, size_t *n);

/* ---- optimizer ---- */

/* Change the rate of group `group` (0 is the first), from the next run on, without recompiling. */
ipu_status ipu_executor_set_rate(ipu_executor *x, size_t group, double rate);
double     ipu_executor_rate(const ipu_executor *x, size_t group);
/* Change any of its settings. If only rates differ they are set; otherwise the next run recompiles, and optimizer
 * states continue where names and shapes match. */
ipu_status ipu_executor_set_optimizer(ipu_executor *x, const ipu_nn_training *how);
/* Optimizer steps this executor has taken in completed runs, not counting those of a restored state. */
int64_t ipu_executor_n_steps(const ipu_executor *x);

/* ---- weights and states ---- */

/* poptorch's copyWeightsToHost and copyWeightsToDevice. Both happen automatically where needed. Statuses:
 * INVALID (not compiled). */
ipu_status ipu_executor_copy_weights_to_host(ipu_executor *x);
ipu_status ipu_executor_copy_weights_to_device(ipu_executor *x);

/* Everything a run changes: weights, and states of the optimizer, of the network and of random ops. Names are unique;
 * arrays are copies. If several processes train together, all must call it, and each receives the states of all
 * replicas. Owned: ipu_npz_free. */
ipu_status ipu_executor_get_state(ipu_executor *x, ipu_npz *out);
/* Restore all of it, before or after compiling. If compiled, names, types and shapes must match (INVALID: the message
 * lists differences; nothing is changed). Copied. If one that was set before compiling does not fit, every run is
 * INVALID until another is set; a state of no arrays counts as none. */
ipu_status ipu_executor_set_state(ipu_executor *x, const ipu_npz *state);
/* Some arrays of a state; the others stay as they are. Copied. Statuses: INVALID (never attached, or there is no such
 * array, which the message names; nothing is changed). */
ipu_status ipu_executor_update_state(ipu_executor *x, const ipu_npz *some);
/* Continue from where `from` is, whose module may be another one: takes over what both have by name, type and shape of
 * the states of the optimizer (except rates), of the network and of random ops, and weights that runs of `from` have
 * changed and its module has not fetched yet. Other weights are those of its own module. Does nothing if `from` has never
 * been attached. Statuses: INVALID (`x` has never been attached, or their numbers of replicas differ). */
ipu_status ipu_executor_take_over(ipu_executor *x, ipu_executor *from);
/* Restart random ops and rounding as if `seed` of the options had been this one. */
ipu_status ipu_executor_set_seed(ipu_executor *x, uint32_t seed);

/* ---- pools: executors of one model whose front end captures a network for each kind of call. The front end owns them
 *      and chooses the one for a call; the pool makes each continue where the previous one stopped, and says which to
 *      drop: the least recently used, as with most_executables ---- */

typedef struct ipu_executor_pool ipu_executor_pool;

/* For up to `most` executors. Owned: ipu_executor_pool_destroy, which leaves the executors alone. */
ipu_status ipu_executor_pool_create(int64_t most, ipu_executor_pool **out);
void       ipu_executor_pool_destroy(ipu_executor_pool *pool);
/* `x` runs next; new to the pool or not. Borrowed until it is in excess. Statuses: INVALID (not compiled), those of
 * ipu_executor_take_over. */
ipu_status ipu_executor_pool_use(ipu_executor_pool *pool, ipu_executor *x);
size_t     ipu_executor_pool_n(const ipu_executor_pool *pool);
/* One that the pool has dropped, for the caller to destroy; NULL if there is none left. */
ipu_executor *ipu_executor_pool_take_excess(ipu_executor_pool *pool);

/* ---- device ---- */

ipu_status ipu_executor_attach(ipu_executor *x);
/* Weights are fetched first; a run reattaches. Other executors and sessions of the process on the same device keep it:
 * the last to detach releases it. Statuses: INVALID (not attached). */
ipu_status ipu_executor_detach(ipu_executor *x);
bool       ipu_executor_is_attached(const ipu_executor *x);

/* "" if replicas run as one larger batch; otherwise why not, e.g. because the network draws random numbers.
 * Results agree up to rounding, and prices are the same. NULL if not compiled. Borrowed. */
const char *ipu_executor_fold_reason(const ipu_executor *x);

/* Borrowed; NULL until compiled. Program 0 is one run. */
ipu_executable *ipu_executor_executable(ipu_executor *x);
ipu_engine     *ipu_executor_engine(ipu_executor *x);
/* What one run would cost on the target: the program as the chip would run it, replica by replica, without what is
 * specific to the host (fusion for its CPU, folded replicas, stochastic rounding). Threads do not affect prices. That
 * program is built on first use, and kept. Owned: ipu_cost_destroy. Statuses: INVALID (not compiled). */
ipu_status ipu_executor_cost(ipu_executor *x, const ipu_cost_options *options, ipu_cost **out);
/* Seconds spent compiling, and whether it came from the cache. */
double ipu_executor_compile_seconds(const ipu_executor *x, bool *was_cached);

#ifdef __cplusplus
}
#endif
#endif
