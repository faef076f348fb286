/* Networks over replicas, stages and processes: one program of a network's model, and of an optimizer's step where that
 * is a model of its own, over all IPUs.
 *
 * A run is one program: iterations around accumulated batches, each of which reads its inputs from streams, runs the
 * network and, where they are wanted of every batch, writes its outputs to streams. Without accumulation and replicas
 * the optimizer is part of the network's model; else it is a model of its own, lowered to the same graph, which shares
 * parameters and the sums of gradients with the first. Who runs it, and what with, is of no concern here.
 */
#ifndef IPU_MODEL_PARALLEL_PARALLEL_H
#define IPU_MODEL_PARALLEL_PARALLEL_H

#include "engine/engine.h"
#include "ipu/executor.h"
#include "model/parallel/fold_batch.h"
#include "model/nn/nn.h"

enum { IPU__MOST_REPLICAS = 64 }; /* and IPUs of one */

typedef struct ipu__parallel_input {
    const char *stream; /* borrowed: its name */
} ipu__parallel_input;

/* How outputs are given. */
typedef enum ipu__parallel_give {
    IPU__GIVE_BATCHES,  /* each batch to the stream */
    IPU__GIVE_SUM,      /* the sum over all batches, which the host reads by its name */
    IPU__GIVE_WIDE_SUM, /* the same; of half and bfloat16 it is a float */
    IPU__GIVE_LAST      /* that of the last batch, which the host reads by the name of the output */
} ipu__parallel_give;

/* What `mode`, which is not DEFAULT, takes. */
ipu__parallel_give ipu__parallel_give_of(ipu_output_mode mode);

typedef struct ipu__parallel_output {
    const char *name, *stream, *sum; /* borrowed */
} ipu__parallel_output;

/* What a network is run over and how. Counts are 1 or more; inputs and outputs are in the model's order. */
typedef struct ipu__parallel {
    const char           *target;        /* borrowed */
    int64_t               tiles_per_ipu; /* 0: all there are */
    bool                  trains;
    int64_t               replicas;     /* of this process */
    int64_t               processes;    /* each of which has so many */
    int64_t               iterations;   /* steps of the optimizer, or batches, of a run */
    int64_t               accumulation; /* batches of a step */
    int64_t               stages;       /* 0: as the network names them */
    const int64_t        *stage_ipus;   /* borrowed; by stage */
    size_t                n_stage_ipus; /* 0: each has its own */
    bool                  round_ipus;   /* to a power of two */
    ipu_pipeline_schedule schedule;
    bool                  recompute, activations_off_chip;
    bool                  shard_optimizer, optimizer_off_chip;
    ipu_reduction         reduction;
    bool                  running_mean;
    bool                  no_fold;
    bool                  check_floats;
    ipu__parallel_give    give;
    IPU_ARRAY(ipu__parallel_input) inputs;
    IPU_ARRAY(ipu__parallel_output) outputs;
} ipu__parallel;

void ipu__parallel_fini(ipu__parallel *o);

/* Replicas of all processes. */
static inline int64_t ipu__parallel_n_replicas(const ipu__parallel *o) { return o->replicas * o->processes; }

/* A parameter or state that both models have, by its ids. Names are for people and files: nothing is found by them. */
typedef struct ipu__tie {
    uint32_t net, step; /* 0: neither has it */
} ipu__tie;

typedef struct ipu__trained {
    ipu__tie parameter, sum; /* and the state in which its gradients are added up */
} ipu__trained;

/* What the network's model and the step's have in common. Copies that are optimised have the same ids. Sums and the count
 * are zero between steps. */
typedef struct ipu__ties {
    IPU_ARRAY(ipu__trained) trained; /* in the order of the network's parameters */
    ipu__tie count;                  /* of gradients in the sums, where they are running means */
    ipu__tie scale;                  /* of the loss, where it is a state */
} ipu__ties;

typedef struct ipu__parallel_models {
    ipu_model *net, *step; /* step NULL: the optimizer is in `net`, or there is none */
    ipu__ties  ties;
    int64_t    n_folded;                      /* replicas that `net` is for; 0: 1 */
    char       fold_reason[IPU__FOLD_REASON]; /* why it is not for all; "": it is */
    const ipu__engine_def
        *engine; /* what they are to run on; NULL: the chip, of which only the price is asked */
} ipu__parallel_models;

void ipu__parallel_models_fini(ipu__parallel_models *m);

/* The two together, and as many "_" behind them as make it a name that nothing in the models has. Owned: ipu__free. NULL:
 * memory. */
char *ipu__parallel_free_name(const ipu__parallel_models *m, const char *first, const char *second);

/* What of both models is the same, by the id in one of them; NULL: nothing, or it is neither parameter nor sum. */
const ipu__trained *ipu__trained_by_net(const ipu__ties *t, uint32_t id);
const ipu__trained *ipu__trained_by_step(const ipu__ties *t, uint32_t id);
/* Whether the network has what is parameter or state `id` of the step. */
bool ipu__ties_has_step(const ipu__ties *t, uint32_t id);
/* Whether state `id` of the network is a sum of gradients, and whether it is zero between steps. */
bool ipu__ties_is_sum(const ipu__ties *t, uint32_t id);
bool ipu__ties_is_transient(const ipu__ties *t, uint32_t id);

typedef struct ipu__parallel_program {
    ipu_graph  *g;
    ipu_program run;
} ipu__parallel_program;

void ipu__parallel_program_fini(ipu__parallel_program *p);

/* ---- IPUs (ipus.c) ---- */

/* Of one replica of a network of so many stages. */
int64_t ipu__parallel_ipus_per_replica(const ipu__parallel *o, int64_t n_stages);
/* So many of them. Statuses: those of ipu_target_find. */
ipu_status ipu__parallel_target(const ipu__parallel *o, int64_t n_ipus, ipu_target *out);
/* Whether there can be so many for all replicas. Statuses: INVALID. */
ipu_status ipu__parallel_check_ipus(const ipu__parallel *o, int64_t n_stages);

/* ---- models ---- */

/* Stages that are asked for and the network does not name: before and after its gradients are taken (pipeline.c).
 * Statuses: INVALID (it names others). */
ipu_status ipu__parallel_begin_stages(const ipu__parallel *o, ipu_model *net);
ipu_status ipu__parallel_end_stages(const ipu__parallel *o, ipu_model *net);

/* Train m->net: by an optimizer in it, or by one in m->step (step.c). */
ipu_status ipu__parallel_train(const ipu__parallel *o, const ipu_nn_training *how, ipu__parallel_models *m);

/* Make `net` one for all replicas, if that can be (fold.c). */
ipu_status ipu__parallel_fold(const ipu__parallel *o, ipu__parallel_models *m);

/* ---- the program (lower.c) ---- */

/* The network has as many stages as it shall have. To be undone with ipu__parallel_program_fini also when it fails. */
ipu_status ipu__parallel_lower(const ipu__parallel *o, const ipu__parallel_models *models,
                               ipu__parallel_program *out);

/* Where a state of the optimizer is (shard.c). */
typedef struct ipu__parallel_place {
    ipu_shape whole;       /* of it in all replicas that have a part */
    int64_t   n_part;      /* elements of one part: the first replica has the first ones */
    bool      is_divided;  /* replica by replica; else each has all */
    bool      is_off_chip; /* in row 0 of a remote buffer of its name */
} ipu__parallel_place;

/* Of state `id` of models->step; false: it is no optimizer's state of a parameter, and so whole in each replica. */
bool ipu__parallel_find_place(const ipu__parallel *o, const ipu__parallel_models *models, uint32_t id,
                              ipu__parallel_place *out);

#endif
