/* Executors: a module compiled for a device, to train it or to run it.
 *
 * What poptorch.trainingModel and poptorch.inferenceModel return, with their rules:
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
 * batch, dimension 0 divided by N. A training run makes `device_iterations` steps of the optimizer on the device.
 *
 * An executor attaches when it compiles, and several on one device take turns. Weights move by themselves:
 * those that were trained reach the host when the module is asked for them, and other executors of the module
 * before they run next.
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
    IPU_OUTPUT_ALL,     /* of every batch, in order: dimension 0 is n x N x group size */
    IPU_OUTPUT_EVERY_N, /* of batches P, 2P, ... where P is output_period, which divides their number */
    IPU_OUTPUT_FINAL,   /* of the last batch of each replica */
    IPU_OUTPUT_SUM,     /* sum over all batches, one for each replica */
    IPU_OUTPUT_MEAN /* the same, divided by their number: of half and bfloat16 it is added up in float, whole numbers are rounded
                           towards 0 */
} ipu_output_mode;

/* Which replicas are a group, as PopTorch's CommGroupType has them. */
typedef enum ipu_grouping {
    IPU_GROUPING_ALL,         /* all of them are one */
    IPU_GROUPING_CONSECUTIVE, /* replicas 0 to size - 1 are the first, and so on */
    IPU_GROUPING_ORTHOGONAL,  /* replicas whose numbers differ by multiples of the number of groups */
    IPU_GROUPING_NONE         /* each is one of its own */
} ipu_grouping;

typedef enum ipu_reduction { IPU_REDUCTION_MEAN, IPU_REDUCTION_SUM } ipu_reduction;

typedef enum ipu_attach_when {
    IPU_ATTACH_ALWAYS,    /* attach when compiling */
    IPU_ATTACH_ON_DEMAND, /* attach at the first run */
    IPU_ATTACH_NEVER      /* compile only: a run is INVALID */
} ipu_attach_when;

/* How the stages of a network (ipu_model_stage) take turns. All of them give the same numbers. */
typedef enum ipu_pipeline_schedule {
    IPU_PIPELINE_GROUPED, /* all IPUs forward, then all backward: no IPU waits, most activations are kept */
    IPU_PIPELINE_INTERLEAVED, /* an IPU goes forward and backward in turn: half as many are kept */
    IPU_PIPELINE_SEQUENTIAL   /* one stage after another, one batch at a time (poptorch.ShardedExecution) */
} ipu_pipeline_schedule;

typedef enum ipu_precision {
    IPU_PRECISION_FLOAT, /* as the network is built */
    IPU_PRECISION_MIXED, /* activations and the weights they meet are half; weights are kept and updated in float */
    IPU_PRECISION_HALF /* weights are half too: updates below half a unit in the last place need stochastic_rounding
                          */
} ipu_precision;

/* poptorch.Options: all zero is its default. Copied by who is given it; texts, `stage_ipus` and `engine` in it
 * are borrowed. */
typedef struct ipu_executor_options {
    int64_t device_iterations; /* 0: 1 */
    int64_t replicas;          /* data parallel, each on IPUs of its own; 0: 1 */
    int64_t input_group_size;  /* replicas that get the same input; 0: 1 */
    bool    orthogonal_inputs; /* the groups are ORTHOGONAL, rather than CONSECUTIVE */
    int64_t
        n_own_inputs; /* the last arrays of a run, so many of them, hold a batch for each replica all the same */
    int64_t         gradient_accumulation; /* batches to one step of the optimizer; 0: 1. Training only */
    ipu_reduction   reduction;             /* of gradients, over accumulation and replicas */
    bool            running_mean; /* the mean is kept as it goes, rather than a sum divided at the end */
    ipu_output_mode output_mode;
    int64_t         output_period; /* of EVERY_N */
    uint32_t        seed;          /* of random ops on the device */
    const char     *target;        /* "gc200", "bow", "pod16": priced for it; NULL: ipu_device_chip() */
    int             device_id;     /* of the active partition, from 1 on as id + 1; 0: any */
    /* With a device_id: BUSY while another executor of this process is attached there, as PopTorch has it; else they
     * share it. */
    bool            device_alone;
    ipu_attach_when attach;
    const char *cache_folder;  /* compiled executables; NULL: IPU_CACHE_DIR, POPTORCH_CACHE_DIR; "": none */
    const ipu_options *engine; /* threads, ...; borrowed. NULL: the defaults */

    /* ---- a network over several IPUs: IPUs of the stages x replicas are 1 or a power of two
     *      (round_ipus) ---- */
    int64_t        stages;     /* cut it into so many, of about equal modelled time; 0: as it names them */
    const int64_t *stage_ipus; /* IPU of each stage within a replica, from 0; NULL: one for each, in order */
    size_t         n_stage_ipus;
    ipu_pipeline_schedule schedule;
    bool recompute; /* a stage keeps what it was given, and computes the rest again for its gradients */
    bool activations_off_chip; /* what stages keep for gradients is in streaming memory */

    /* ---- replicas and optimizer ---- */
    bool no_fold; /* replicas run one by one, also where they could be one larger batch */
    bool
         shard_optimizer; /* each replica has, and updates, its part of large parameters and of the optimizer's states */
    bool optimizer_off_chip; /* the optimizer's states are in streaming memory between steps */
    struct ipu_comm
        *comm; /* processes that train together (ipu/comm.h), each with `replicas`; borrowed. NULL: alone */

    /* ---- numbers ---- */
    ipu_precision precision; /* docs/precision.md: what each does to numbers, memory and modelled time */
    /* What is rounded to half goes up or down at random, so that its mean is right: results of ops, by numbers that
     * differ between replicas, and updates of half weights, by the same in all of them. Priced as nothing. */
    bool stochastic_rounding;
    /* Products and convolutions of half are priced with sums in half, which double the rate of a Mk2 chip. Results do
     * not change: the host adds up in float either way. */
    bool half_partials;

    /* IPUs of a replica that are no power of two are rounded up to one: some are asked for and not used. Otherwise that
     * is an error. */
    bool round_ipus;
    /* Floating-point exceptions: an op that makes an infinity or a NaN of other numbers, or is given a NaN, ends the run
     * with ABORTED and a message that names it. Ops are not fused, so that each is seen. What had been trained in that
     * run stays. Slow. */
    bool check_floats;
    /* Executables that are kept for arrays of several types and shapes; the one used longest ago goes, and so it does
     * while those beside the one that runs would take over half of the machine's memory. Whichever runs goes on with the
     * newest weights, and with the states of the optimizer and of random ops. 0: there is one, and arrays of other types
     * and shapes are INVALID, as in PopTorch. */
    int64_t most_executables;
} ipu_executor_options;

/* The number of the group of each of `n` replicas. `size`: replicas of a group, which ALL and NONE do not look at. INVALID: it
 * does not divide them. */
ipu_status ipu_replica_groups(ipu_grouping kind, int64_t size, int64_t n, int64_t *groups);

/* Number of batches that the arrays of a run hold. 0: the options are no good (ipu_message). */
int64_t ipu_executor_options_n_batches(const ipu_executor_options *options);

/* `options` NULL: the defaults. `how` NULL: SGD with a rate of 0.01. Both are copied; the module outlives it. Owned:
 * ipu_executor_destroy. Statuses: INVALID (options that do not go together). */
ipu_status ipu_training_model(ipu_module *module, const ipu_executor_options *options,
                              const ipu_nn_training *how, ipu_executor **out);
ipu_status ipu_inference_model(ipu_module *module, const ipu_executor_options *options, ipu_executor **out);
void       ipu_executor_destroy(ipu_executor *x);

/* Compile for arrays of these types and shapes (their data are not looked at), if it is not compiled yet. With
 * most_executables it is what the next run uses, and what all below tells of: executable, outputs, cost. */
ipu_status ipu_executor_compile(ipu_executor *x, const ipu_array *in, size_t n);
bool       ipu_executor_is_compiled(const ipu_executor *x);
/* Executables that it holds. */
size_t ipu_executor_n_compiled(const ipu_executor *x);

/* Compiles and attaches if need be. Types and shapes must be those it is compiled for, but with most_executables; int64 is
 * taken for int32, double for float. Statuses: INVALID (the message says which array, what was expected), those of ipu_engine_run. After
 * INTERRUPTED (ipu_executor_interrupt) weights hold what had been computed, and outputs are those of the run before. */
ipu_status ipu_executor_run(ipu_executor *x, const ipu_array *in, size_t n);
/* From any thread or signal handler: stops the run in progress, or the next. */
void ipu_executor_interrupt(ipu_executor *x);

/* ---- what the last run gave: outputs of the network by their names, in the order of their making. Borrowed until
 *      the next run. A scalar of several batches is an array of one dimension ---- */

size_t           ipu_executor_n_outputs(const ipu_executor *x);
const ipu_array *ipu_executor_output_at(const ipu_executor *x, size_t i, const char **name);
const ipu_array *ipu_executor_output(const ipu_executor *x, const char *name); /* NULL: there is none */
/* Runs put output `i` at `data` from now on, borrowed and as large as its array, which is there then; NULL: in memory of
 * the executor's own. A run that is not finished leaves anything there. Compiling again forgets it. INVALID: there is no
 * such output. */
ipu_status ipu_executor_place_output(ipu_executor *x, size_t i, void *data);
/* The mean of an output's elements, such as the loss. INVALID: there is no such output (the message lists those there
 * are), or it has no elements; `out` is NaN then. */
ipu_status ipu_executor_scalar(const ipu_executor *x, const char *name, double *out);

/* ---- when batches went in and came out: poptorch's getPerfCounters ---- */

typedef struct ipu_executor_time {
    double begin, end; /* seconds of a clock that does not go back: it was asked for, and was there */
} ipu_executor_time;

/* Whether times are noted, from the next run on. They are not, at first. */
void ipu_executor_keep_times(ipu_executor *x, bool keep);
/* Of the last run: of input `i`, one for each batch of its array, in that order; of output `i`, one for each batch that is
 * given. NULL: none were noted, or there is no such. Borrowed until the next run. */
const ipu_executor_time *ipu_executor_input_times(const ipu_executor *x, size_t i, size_t *n);
const ipu_executor_time *ipu_executor_output_times(const ipu_executor *x, size_t i, size_t *n);

/* ---- optimizer ---- */

/* Another rate for group `group` (0: the first), from the next run on: nothing is compiled. */
ipu_status ipu_executor_set_rate(ipu_executor *x, size_t group, double rate);
double     ipu_executor_rate(const ipu_executor *x, size_t group);
/* Everything else about it: rates are set; if more has changed it is compiled again at the next run, and states of the
 * optimizer go on where names and shapes are equal. */
ipu_status ipu_executor_set_optimizer(ipu_executor *x, const ipu_nn_training *how);
/* Steps of the optimizer that this executor has made so far, by runs that were finished; not those of a state it was set to. */
int64_t ipu_executor_n_steps(const ipu_executor *x);

/* ---- weights and states ---- */

/* poptorch's copyWeightsToHost and copyWeightsToDevice; both happen by themselves where needed. INVALID: not compiled. */
ipu_status ipu_executor_copy_weights_to_host(ipu_executor *x);
ipu_status ipu_executor_copy_weights_to_device(ipu_executor *x);

/* All that a run changes: weights, states of the optimizer, of the network and of random ops. Names are unique; arrays
 * are copies. Of processes that train together all call it, and each is given the states of all their replicas.
 * Owned: ipu_npz_free. */
ipu_status ipu_executor_get_state(ipu_executor *x, ipu_npz *out);
/* All of it, before or after compiling; what is compiled must have the same names, types and shapes (INVALID: the
 * message lists what differs; nothing is changed). Copied. One that was set before and does not fit makes every run
 * INVALID until another one is set; one of no arrays is none. */
ipu_status ipu_executor_set_state(ipu_executor *x, const ipu_npz *state);
/* Some arrays of a state: what is not among them stays as it is. INVALID: it has never been attached, or the state has no
 * such array (the message says which); nothing is changed. Copied. */
ipu_status ipu_executor_update_state(ipu_executor *x, const ipu_npz *some);
/* Goes on where `from` is, whose module may be another one, with what both have by name, type and shape: states of the
 * optimizer, rates apart, of the network and of random ops; and those weights that runs of `from` have changed and its module
 * has not been given. Other weights are those of its own module. Nothing, if `from` has never been attached. INVALID: `x` has
 * never been, or they have not as many replicas. */
ipu_status ipu_executor_take_over(ipu_executor *x, ipu_executor *from);
/* Random ops and rounding begin anew, with this seed, as they would if `seed` of the options had been it. */
ipu_status ipu_executor_set_seed(ipu_executor *x, uint32_t seed);

/* ---- pools: executors of one model, whose front end captures another network for each kind of call. It finds the one for a
 *      call and has all of them; the pool lets whichever runs go on where the one before was, and says which to part with: as
 *      with most_executables, those used longest ago ---- */

typedef struct ipu_executor_pool ipu_executor_pool;

/* For up to `most` executors. Owned: ipu_executor_pool_destroy, which leaves the executors alone. */
ipu_status ipu_executor_pool_create(int64_t most, ipu_executor_pool **out);
void       ipu_executor_pool_destroy(ipu_executor_pool *pool);
/* `x` runs next, whether it has been used before or is new. Borrowed until it is in excess. Statuses: INVALID (it is not
 * compiled), those of ipu_executor_take_over. */
ipu_status ipu_executor_pool_use(ipu_executor_pool *pool, ipu_executor *x);
size_t     ipu_executor_pool_n(const ipu_executor_pool *pool);
/* One that is in the pool no more, to be destroyed; NULL: there is none, or no other. */
ipu_executor *ipu_executor_pool_take_excess(ipu_executor_pool *pool);

/* ---- device ---- */

ipu_status ipu_executor_attach(ipu_executor *x);
/* Weights are fetched; a run attaches again. Other executors and sessions of the process that are on the device keep it: the
 * last of them to detach lets go. INVALID: it is not attached. */
ipu_status ipu_executor_detach(ipu_executor *x);
bool       ipu_executor_is_attached(const ipu_executor *x);

/* Whether replicas run as one larger batch: "": they do; else why they do not, such as that the network draws
 * random numbers. Results are the same to rounding, and prices are the same. NULL: not compiled.
 * Borrowed. */
const char *ipu_executor_fold_reason(const ipu_executor *x);

/* Borrowed; NULL before it is compiled. Program 0 is one run. */
ipu_executable *ipu_executor_executable(ipu_executor *x);
ipu_engine     *ipu_executor_engine(ipu_executor *x);
/* What one run would take on the target: the chip's program, replica by replica, without what only pays on a host or
 * takes steps only there (fusion for its CPU, folded replicas, rounding at random). Threads change no price. That program
 * is made when it is first asked for, and kept.
 * Owned: ipu_cost_destroy. INVALID: not compiled. */
ipu_status ipu_executor_cost(ipu_executor *x, const ipu_cost_options *options, ipu_cost **out);
/* Seconds that compiling took; whether the cache had it. */
double ipu_executor_compile_seconds(const ipu_executor *x, bool *was_cached);

#ifdef __cplusplus
}
#endif
#endif
