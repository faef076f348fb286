/* What an executor holds. The public functions on it are in ipu/executor.h.
 *
 * What a run does is one program, of the models that it has built for its inputs (model/parallel/parallel.h).
 */
#ifndef IPU_TRAIN_EXECUTOR_H
#define IPU_TRAIN_EXECUTOR_H

#include "engine/engine.h"
#include "model/parallel/parallel.h"
#include "session/session.h"
#include "train/module.h"
#include "train/options.h"

typedef struct ipu__executor_program ipu__executor_program;

typedef struct ipu__executor_input {
    char              *name, *stream; /* names, of the model's input and of the stream */
    ipu__port          port;
    size_t             bytes; /* of one batch, in the type of the port */
    ipu_type           given; /* type of the caller's arrays */
    const char        *data;  /* of the run in progress */
    ipu_executor_time *times; /* by batch; NULL: they are not noted */
} ipu__executor_input;

typedef struct ipu__executor_output {
    char              *name, *stream, *sum;
    ipu_type           type;
    ipu_shape          shape; /* of one batch */
    size_t             bytes;
    ipu_array          array; /* of a run */
    void              *own;   /* memory of it, where the caller has not placed it elsewhere */
    ipu_executor_time *times; /* by batch that is given; NULL: they are not noted */
} ipu__executor_output;

/* A connection of one stream to one replica. */
typedef struct ipu__executor_wire {
    ipu__executor_program *p;
    size_t                 number; /* of the input or output */
    int64_t                replica, n_done;
} ipu__executor_wire;

/* A parameter or state that the host may read and write. */
typedef struct ipu__executor_kept {
    char     *name;
    ipu_type  type;
    ipu_shape shape;
    bool      is_weight;    /* of the network, and so of the module */
    bool      differs;      /* between replicas */
    bool      is_seed;      /* of random ops, or of how weights are rounded */
    bool      is_transient; /* zero between runs: not part of the state */
    bool      is_divided;   /* each replica has a part of n_part elements */
    bool      is_off_chip;  /* in a remote buffer of its name */
    int64_t   n_part;
} ipu__executor_kept;

/* What is compiled for arrays of some types and shapes. */
struct ipu__executor_program {
    ipu__compiled base;
    ipu_executor *x;
    ipu__parallel over; /* what the options ask for, with the streams of inputs and outputs */
    IPU_ARRAY(ipu__executor_input) inputs;
    IPU_ARRAY(ipu__executor_output) outputs;
    IPU_ARRAY(ipu__executor_kept) kept;
    IPU_ARRAY(ipu__executor_wire) in_wires, out_wires;
    ipu__weights_user           weights;  /* of the module */
    const ipu__parallel_models *models;   /* while it is compiled */
    ipu__parallel_program       chip;     /* what is priced; all zero: nobody has asked yet */
    int64_t                     n_folded; /* replicas that run as one: all of them, or 1 */
    char                        fold_reason[IPU__FOLD_REASON];
    ipu__hash128                hashes[2]; /* of network and step; of processes that train together */
    bool updates_weights;                  /* a run does: it trains, or the network has states that change */
};

struct ipu_executor {
    ipu_module            *module;
    ipu_executor_options   options;
    bool                   training;
    ipu_nn_training        how; /* groups and texts are owned */
    double                *rates;
    int64_t                n_batches, n_runs;
    ipu__session           session; /* of programs */
    ipu__executor_program *p; /* the one that runs, and has the newest states; NULL: nothing is compiled */
    ipu__arguments         asked;   /* arrays of the run in progress, as ports */
    ipu_npz                pending; /* state to be set when there is an engine */
    ipu_npz                carried; /* of what was compiled before, until something else has taken it over */
    ipu_options           *own_engine; /* options.engine with what executors add; NULL: nothing is */
    bool                   must_compile, keeps_times;
};

/* ---- models (executor_build.c) ---- */

/* The models of `p` for its inputs. To be undone with ipu__parallel_models_fini also when it fails. */
ipu_status ipu__executor_build(ipu__executor_program *p, const ipu__engine_def *engine,
                               ipu__parallel_models *out);

/* The program as the chip would run it, replica by replica and without what only a host does. To be undone with
 * ipu__parallel_program_fini also when it fails. */
ipu_status ipu__executor_lower_for_chip(ipu__executor_program *p, ipu__parallel_program *out);

/* Copies of the graph that runs. */
int64_t ipu__executor_n_graphs(const ipu__executor_program *p);

/* ---- precision (executor_precision.c) ---- */

/* Of a network just built, and when its gradients are in it too. */
ipu_status ipu__executor_set_precision(const ipu__executor_program *p, const ipu__parallel_models *m);
ipu_status ipu__executor_finish_precision(const ipu__executor_program *p, const ipu__parallel_models *m);
/* Whether values of half are rounded at random by steps of their own. The chip does so at no cost. */
bool ipu__executor_rounds_at_random(const ipu__executor_program *p, const ipu__parallel_models *m);
/* Copies of the module's weights on the device of `p`. */
void ipu__executor_use_weights(ipu__executor_program *p);

/* ---- the processes it is one of (executor_comm.c) ---- */

/* Replicas of all processes; the number among them of this one's first. */
int64_t ipu__executor_n_replicas(const ipu__executor_program *p);
int64_t ipu__executor_first_replica(const ipu__executor_program *p);
/* What its models compute, for all to compare. */
ipu_status ipu__executor_note_program(ipu__executor_program *p, const ipu__parallel_models *models);
/* When the engine was made: what differs between processes is INVALID in all of them; then it joins the others, and all begin with the weights of rank 0. */
ipu_status ipu__executor_join(ipu__executor_program *p);
/* Arrays of one shape, one for each replica of all processes, of which each process has filled its own: fill the rest.
 * All processes call it. */
ipu_status ipu__executor_gather(ipu__executor_program *p, ipu_named_array *arrays, size_t n);

/* ---- inputs and outputs (executor_io.c) ---- */

ipu_output_mode ipu__executor_output_mode(const ipu_executor *x);
int64_t         ipu__executor_outputs_per_run(const ipu_executor *x); /* batches of which outputs are given */
ipu_status      ipu__executor_connect(ipu__executor_program *p);
ipu_status      ipu__executor_make_outputs(ipu__executor_program *p, const ipu__parallel_models *models);
/* Lists what arrays of a run are compiled for in x->asked. INVALID: they do not divide into batches. */
ipu_status ipu__executor_ask(ipu_executor *x, const ipu_array *in, size_t n);
/* Point inputs at the arrays of a run, which are those that were compiled for. INVALID: one has no data. */
ipu_status ipu__executor_take_inputs(ipu__executor_program *p, const ipu_array *in);
/* INVALID: why they are not those that were compiled for. OK: they are. */
ipu_status ipu__executor_fail_other_inputs(const ipu__executor_program *p, const ipu_array *in, size_t n);
/* The ports of arrays of a run: what the network is built for. */
ipu_status ipu__executor_make_inputs(ipu__executor_program *p, const ipu_array *in, size_t n);
/* Before a run: room for times, if they are to be noted, or none. */
ipu_status ipu__executor_begin_times(ipu__executor_program *p);
/* After a run: outputs that are not streamed. */
ipu_status ipu__executor_read_outputs(ipu__executor_program *p);
void       ipu__executor_io_fini(ipu__executor_program *p);

/* ---- weights and states (executor_state.c) ---- */

ipu_status          ipu__executor_list_kept(ipu__executor_program *p, const ipu__parallel_models *models);
ipu__executor_kept *ipu__executor_kept_of(const ipu__executor_program *p,
                                          const char                  *name); /* NULL: there is none */
/* After a run that was stopped: what it had added up is not of the next one. */
ipu_status ipu__executor_clear_sums(ipu__executor_program *p);
ipu_status ipu__executor_write_rates(ipu__executor_program *p);
ipu_status ipu__executor_begin_seed(ipu__executor_program *p);
ipu_status ipu__executor_set_pending(ipu__executor_program *p);
/* After it was compiled anew: what `state` has of the same name, type and shape, but weights and rates. */
ipu_status ipu__executor_carry_state(ipu__executor_program *p, const ipu_npz *state);
/* `to` goes on with the states of `from`, rates apart, and, `with_weights`, with those weights of which each replica has its
 * own. */
ipu_status ipu__executor_hand_over(ipu__executor_program *from, ipu__executor_program *to, bool with_weights);
void       ipu__executor_state_fini(ipu__executor_program *p);

/* ---- whole arrays of parts (executor_shard_state.c) ---- */

/* `bytes` of a whole array, of one replica; of all that have a part of it, if they have. */
ipu_status ipu__executor_read_kept(ipu__executor_program *p, const ipu__executor_kept *kept, int64_t replica,
                                   void *data, size_t bytes);
/* To one replica; to all of them, if that is -1 or they have parts. */
ipu_status ipu__executor_write_kept(ipu__executor_program *p, const ipu__executor_kept *kept, int64_t replica,
                                    const void *data, size_t bytes);

#endif
