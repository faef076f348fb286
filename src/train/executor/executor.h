/* What an executor holds. The public functions on it are in ipu/executor.h.
 *
 * What a run does is one program, of the models that it has built for its inputs (model/parallel/parallel.h).
 */
#ifndef IPU_TRAIN_EXECUTOR_EXECUTOR_H
#define IPU_TRAIN_EXECUTOR_EXECUTOR_H

#include "engine/engine.h"
#include "model/parallel/parallel.h"
#include "session/session.h"
#include "session/streams.h"
#include "train/module.h"
#include "train/options.h"

typedef struct ipu__executor_program ipu__executor_program;

/* Weights that go from one program to another beside the states. */
typedef enum ipu__handed_weights {
    IPU__HANDED_NONE,
    IPU__HANDED_OF_REPLICAS, /* of which each replica has its own: all others go by their version */
    IPU__HANDED_CHANGED      /* by runs */
} ipu__handed_weights;

/* A parameter or state that the host may read and write. */
typedef struct ipu__executor_kept {
    char     *name;
    ipu_type  type;
    ipu_shape shape;
    bool      is_weight;    /* of the network, and so of the module */
    bool      is_changed;   /* runs may change it */
    bool      differs;      /* between replicas */
    bool      is_seed;      /* of random ops, or of how weights are rounded */
    bool      is_transient; /* zero between runs: not part of the state */
    bool      is_divided;   /* each replica has a part of n_part elements */
    bool      is_off_chip;  /* in a remote buffer of its name */
    int64_t   n_part;
    uint32_t  rate; /* the learning rate of this group, from 1 on as group + 1; 0: it is none */
} ipu__executor_kept;

/* What is compiled for arrays of some types and shapes. */
struct ipu__executor_program {
    ipu__compiled base;
    ipu_executor *x;
    ipu__parallel over; /* what the options ask for, with the streams of inputs and outputs */
    IPU__ARRAY(ipu__executor_kept) kept;
    ipu__streams                streams;
    ipu__weights_user           weights; /* of the module */
    const ipu__parallel_models *models;  /* while it is compiled */
    ipu__parallel_program       chip;    /* what is priced; all zero: nobody has asked yet */
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
    ipu__batches           batches; /* of a run */
    int64_t                n_runs;
    ipu__session           session; /* of programs */
    ipu__executor_program *p; /* the one that runs, and has the newest states; NULL: nothing is compiled */
    ipu__arguments         asked;   /* arrays of the run in progress, as ports */
    ipu_npz                pending; /* state to be set when there is an engine */
    ipu_npz                carried; /* of what was compiled before, until something else has taken it over */
    ipu_options           *own_engine; /* options.engine with what executors add; NULL: nothing is */
    bool                   must_compile, keeps_times;
};

/* ---- models (build.c) ---- */

/* The models of `p` for its inputs. To be undone with ipu__parallel_models_fini also when it fails. */
ipu_status ipu__executor_build(ipu__executor_program *p, const ipu__engine_def *engine,
                               ipu__parallel_models *out);

/* The program as the chip would run it, replica by replica and without what only a host does. To be undone with
 * ipu__parallel_program_fini also when it fails. */
ipu_status ipu__executor_lower_for_chip(ipu__executor_program *p, ipu__parallel_program *out);

/* Copies of the graph that runs. */
int64_t ipu__executor_n_graphs(const ipu__executor_program *p);

/* ---- precision (precision.c) ---- */

/* Of a network just built, and when its gradients are in it too. */
ipu_status ipu__executor_set_precision(const ipu__executor_program *p, const ipu__parallel_models *m);
ipu_status ipu__executor_finish_precision(const ipu__executor_program *p, const ipu__parallel_models *m);
/* Whether values of half are rounded at random by steps of their own. The chip does so at no cost. */
bool ipu__executor_rounds_at_random(const ipu__executor_program *p, const ipu__parallel_models *m);
/* Copies of the module's weights on the device of `p`. */
void ipu__executor_use_weights(ipu__executor_program *p);

/* ---- the processes it is one of (comm.c) ---- */

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

/* ---- inputs and outputs (io.c) ---- */

ipu_output_mode ipu__executor_output_mode(const ipu_executor *x);
ipu_status      ipu__executor_make_outputs(ipu__executor_program *p, const ipu__parallel_models *models);
/* Lists what arrays of a run are compiled for in x->asked. INVALID: they do not divide into batches. */
ipu_status ipu__executor_ask(ipu_executor *x, const ipu_array *in, size_t n);
/* INVALID: why they are not those that were compiled for. OK: they are. */
ipu_status ipu__executor_fail_other_inputs(const ipu__executor_program *p, const ipu_array *in, size_t n);
/* The ports of arrays of a run: what the network is built for. */
ipu_status ipu__executor_make_inputs(ipu__executor_program *p, const ipu_array *in, size_t n);

/* ---- weights and states (state.c) ---- */

ipu_status          ipu__executor_list_kept(ipu__executor_program *p, const ipu__parallel_models *models);
ipu__executor_kept *ipu__executor_kept_of(const ipu__executor_program *p,
                                          const char                  *name); /* NULL: there is none */
/* After a run that was stopped: what it had added up is not of the next one. */
ipu_status ipu__executor_clear_sums(ipu__executor_program *p);
ipu_status ipu__executor_write_rates(ipu__executor_program *p);
ipu_status ipu__executor_begin_seed(ipu__executor_program *p);
/* What does not fit stays: the next engine is refused for it, too. */
ipu_status ipu__executor_set_pending(ipu__executor_program *p);
/* After it was compiled anew: what `state` has of the same name, type and shape, but weights and rates. */
ipu_status ipu__executor_carry_state(ipu__executor_program *p, const ipu_npz *state);
/* `to` goes on with the states of `from`, rates apart, and with those weights that `which` says. */
ipu_status ipu__executor_hand_over(ipu__executor_program *from, ipu__executor_program *to,
                                   ipu__handed_weights which);
void       ipu__executor_state_fini(ipu__executor_program *p);

/* ---- whole arrays of parts (shard_state.c) ---- */

/* `bytes` of a whole array, of one replica; of all that have a part of it, if they have. */
ipu_status ipu__executor_read_kept(ipu__executor_program *p, const ipu__executor_kept *kept, int64_t replica,
                                   void *data, size_t bytes);
/* To one replica; to all of them, if that is -1 or they have parts. */
ipu_status ipu__executor_write_kept(ipu__executor_program *p, const ipu__executor_kept *kept, int64_t replica,
                                    const void *data, size_t bytes);

#endif
