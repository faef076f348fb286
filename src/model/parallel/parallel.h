/* Networks over replicas, stages and processes: a network's model, and that of the optimizer's step if it is
 * separate, become one program over all IPUs.
 *
 * A run is one program: iterations around accumulated batches, each of which reads its inputs from streams,
 * runs the network and, if outputs are wanted for every batch, writes them to streams. Without accumulation
 * and replicas the optimizer is part of the network's model; otherwise it is a separate model, lowered to the
 * same graph, that shares parameters and the sums of gradients with the first. Running the program is not
 * part of this module.
 */
#ifndef IPU_MODEL_PARALLEL_PARALLEL_H
#define IPU_MODEL_PARALLEL_PARALLEL_H

#include "engine/engine.h"
#include "ipu/executor.h"
#include "model/parallel/fold_batch.h"
#include "model/nn/nn.h"

enum { IPU__MOST_REPLICAS = 64 }; /* also the most IPUs of one */

typedef struct ipu__parallel_input {
    const char *stream; /* borrowed: its name */
} ipu__parallel_input;

/* How outputs are returned. */
typedef enum ipu__parallel_give {
    IPU__GIVE_BATCHES,  /* each batch to the stream */
    IPU__GIVE_SUM,      /* the sum over all batches, which the host reads by its name */
    IPU__GIVE_WIDE_SUM, /* the same; of half and bfloat16 it is a float */
    IPU__GIVE_LAST      /* that of the last batch, which the host reads by the name of the output */
} ipu__parallel_give;

/* What `mode`, which must not be DEFAULT, requires. */
ipu__parallel_give ipu__parallel_give_of(ipu_output_mode mode);

typedef struct ipu__parallel_output {
    const char *name, *stream, *sum; /* borrowed */
} ipu__parallel_output;

/* How a network is spread and run. Counts are at least 1; inputs and outputs are in the model's order. */
typedef struct ipu__parallel {
    const char           *target;        /* borrowed */
    int64_t               tiles_per_ipu; /* 0: all */
    bool                  trains;
    int64_t               replicas;     /* in this process */
    int64_t               processes;    /* each with that many replicas */
    int64_t               iterations;   /* steps of the optimizer, or batches, per run */
    int64_t               accumulation; /* batches per step */
    int64_t               stages;       /* 0: those named by the network */
    const int64_t        *stage_ipus;   /* borrowed; by stage */
    size_t                n_stage_ipus; /* 0: one IPU for each stage */
    bool                  round_ipus;   /* up to a power of two */
    ipu_pipeline_schedule schedule;
    bool                  recompute, activations_off_chip;
    bool                  shard_optimizer, optimizer_off_chip;
    ipu_reduction         reduction;
    bool                  running_mean;
    bool                  no_fold;
    bool                  check_floats;
    ipu__parallel_give    give;
    IPU__ARRAY(ipu__parallel_input) inputs;
    IPU__ARRAY(ipu__parallel_output) outputs;
} ipu__parallel;

void ipu__parallel_fini(ipu__parallel *o);

/* Replicas of all processes. */
static inline int64_t ipu__parallel_n_replicas(const ipu__parallel *o) { return o->replicas * o->processes; }

/* A parameter or state that both models have, with its id in each. Names are labels for people and files,
 * never used for lookup. */
typedef struct ipu__tie {
    uint32_t net, step; /* 0 if that model does not have it */
} ipu__tie;

typedef struct ipu__trained {
    ipu__tie parameter, sum; /* and the state that accumulates its gradients */
} ipu__trained;

/* What the models of the network and of the step have in common. Optimised copies have the same ids. Sums and
 * the count are zero between steps. */
typedef struct ipu__ties {
    IPU__ARRAY(ipu__trained) trained; /* in the order of the network's parameters */
    ipu__tie count;                   /* of the gradients in the sums, if these are running means */
    ipu__tie scale;                   /* the loss scale, if it is a state */
} ipu__ties;

typedef struct ipu__parallel_models {
    ipu_model             *net, *step; /* step is NULL if the optimizer is in `net`, or there is none */
    ipu__ties              ties;
    int64_t                n_folded;                      /* replicas that `net` covers; 0 means 1 */
    char                   fold_reason[IPU__FOLD_REASON]; /* why it does not cover all; "" if it does */
    const ipu__engine_def *engine; /* the engine to run on; NULL: the chip, for pricing only */
} ipu__parallel_models;

void ipu__parallel_models_fini(ipu__parallel_models *m);

/* Concatenates the two, plus as many "_" as make a name unused in the models. Owned: ipu__free. NULL if out
 * of memory. */
char *ipu__parallel_free_name(const ipu__parallel_models *m, const char *first, const char *second);

/* The shared parameter or sum with this id in the network (or step); NULL if there is none. */
const ipu__trained *ipu__trained_by_net(const ipu__ties *t, uint32_t id);
const ipu__trained *ipu__trained_by_step(const ipu__ties *t, uint32_t id);
/* Whether parameter or state `id` of the step is shared with the network. */
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

/* IPUs of one replica of a network with that many stages. */
int64_t ipu__parallel_ipus_per_replica(const ipu__parallel *o, int64_t n_stages);
/* A target of `n_ipus` IPUs. Statuses: those of ipu_target_find. */
ipu_status ipu__parallel_target(const ipu__parallel *o, int64_t n_ipus, ipu_target *out);
/* Checks that all replicas can have that many. Statuses: INVALID. */
ipu_status ipu__parallel_check_ipus(const ipu__parallel *o, int64_t n_stages);

/* ---- models ---- */

/* For stages that are requested but not named by the network: before and after its gradients are taken
 * (pipeline.c). Statuses: INVALID (it names others). */
ipu_status ipu__parallel_begin_stages(const ipu__parallel *o, ipu_model *net);
ipu_status ipu__parallel_end_stages(const ipu__parallel *o, ipu_model *net);

/* Trains m->net: with an optimizer in it, or with one in m->step (step.c). */
ipu_status ipu__parallel_train(const ipu__parallel *o, const ipu_nn_training *how, ipu__parallel_models *m);

/* Makes `net` cover all replicas if possible (fold.c). */
ipu_status ipu__parallel_fold(const ipu__parallel *o, ipu__parallel_models *m);

/* ---- the program (lower.c) ---- */

/* The network must have its final stages. To be undone with ipu__parallel_program_fini even on failure. */
ipu_status ipu__parallel_lower(const ipu__parallel *o, const ipu__parallel_models *models,
                               ipu__parallel_program *out);

/* Where an optimizer state is stored (shard.c). */
typedef struct ipu__parallel_place {
    ipu_shape whole;       /* over all replicas that have a part */
    int64_t   n_part;      /* elements of one part; the first replica has the first ones */
    bool      is_divided;  /* split over replicas; else each has all of it */
    bool      is_off_chip; /* in row 0 of a remote buffer named after it */
} ipu__parallel_place;

/* The place of state `id` of models->step; returns false if it is not an optimizer's state of a parameter,
 * and so whole in each replica. */
bool ipu__parallel_find_place(const ipu__parallel *o, const ipu__parallel_models *models, uint32_t id,
                              ipu__parallel_place *out);

#endif
