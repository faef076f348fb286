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
#include "model/fold_batch.h"
#include "model/nn.h"

enum { IPU__MOST_REPLICAS = 64 }; /* and IPUs of one */

typedef struct ipu__parallel_input {
    const char *stream; /* borrowed: its name */
} ipu__parallel_input;

/* How outputs are given. */
typedef enum ipu__parallel_give {
    IPU__GIVE_BATCHES, /* each batch to the stream */
    IPU__GIVE_SUM,     /* the sum over all batches, which the host reads by its name */
    IPU__GIVE_LAST     /* that of the last batch, which the host reads by the name of the output */
} ipu__parallel_give;

typedef struct ipu__parallel_output {
    const char *name, *stream, *sum; /* borrowed */
} ipu__parallel_output;

/* What a network is run over and how. Counts are 1 or more; inputs and outputs are in the model's order. */
typedef struct ipu__parallel {
    const char           *target; /* borrowed */
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

typedef struct ipu__parallel_models {
    ipu_model *net, *step;                    /* step NULL: the optimizer is in `net`, or there is none */
    int64_t    n_folded;                      /* replicas that `net` is for; 0: 1 */
    char       fold_reason[IPU__FOLD_REASON]; /* why it is not for all; "": it is */
    const ipu__engine_def
        *engine; /* what they are to run on; NULL: the chip, of which only the price is asked */
} ipu__parallel_models;

void ipu__parallel_models_fini(ipu__parallel_models *m);

typedef struct ipu__parallel_program {
    ipu__parallel_models models; /* optimised copies */
    ipu_graph           *g;
    ipu_program          run;
    IPU_ARRAY(ipu_tensor) begun; /* sums of gradients that the network's program begins to add up itself */
} ipu__parallel_program;

void ipu__parallel_program_fini(ipu__parallel_program *l);

/* ---- IPUs (ipus.c) ---- */

/* Of one replica of a network of so many stages. */
int64_t ipu__parallel_ipus_per_replica(const ipu__parallel *o, int64_t n_stages);
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

/* States in which gradients of a step are added up, NAME.gradient, and counted: zero between steps. */
#define IPU__GRADIENT_SUFFIX ".gradient"
#define IPU__GRADIENT_COUNT "gradient_count"
enum { IPU__GRADIENT_NAME = 300 };
bool ipu__parallel_is_gradient_sum(const char *name);
void ipu__parallel_gradient_name(const char *parameter, char out[IPU__GRADIENT_NAME]);

/* ---- the program (lower.c) ---- */

/* The network has as many stages as it shall have. To be undone with ipu__parallel_program_fini also when it fails. */
ipu_status ipu__parallel_lower(const ipu__parallel *o, const ipu__parallel_models *models,
                               ipu__parallel_program *out);

/* ---- the optimizer's step, over replicas (shard.c) ---- */

/* The parameter of `step` whose state value `id` is, of its shape; 0: it is none of an optimizer's. */
uint32_t ipu__parallel_parameter_of_state(const ipu_model *step, uint32_t id);
/* The parameter or state of that name, and where it was lowered to; 0 and null: there is none. */
uint32_t   ipu__parallel_find_kept(const ipu_model *m, const char *name);
ipu_tensor ipu__parallel_find_tensor(const ipu_model *m, const char *name);

/* ---- of these files ---- */

/* Optimise `m`, which is one of these models or a part of it. */
ipu_status ipu__parallel_optimise(const ipu__parallel *o, const ipu__parallel_models *models, ipu_model *m);

/* Steps in `p` by which input `i` of a batch gets to `t`, or output `i` of it from `t` to where it is given; `begin`
 * runs before all batches of a run. */
void       ipu__parallel_read_input(const ipu__parallel *o, ipu__parallel_program *l, size_t i, ipu_tensor t,
                                    ipu_program p);
ipu_status ipu__parallel_give_output(const ipu__parallel *o, ipu__parallel_program *l, size_t i, ipu_tensor t,
                                     ipu_program begin, ipu_program p);

/* The batches of one step of the optimizer, or of a run that does not train, of a network with stages: what
 * lower_batches in lower.c is for others (pipeline.c). */
ipu_status ipu__parallel_pipeline(const ipu__parallel *o, const ipu_model *net, ipu__parallel_program *l,
                                  ipu_program begin, ipu_program *out);

/* Lower the network of l->models. `last`: the same for the last batch of a step, in which sums of gradients are begun
 * to be added up over processes as soon as they are final; the null program where that is no use (reduce.c). */
ipu_status ipu__parallel_lower_net(const ipu__parallel *o, ipu__parallel_program *l, ipu_program *net,
                                   ipu_program *last);
/* Add steps to `p` after which the sums of gradients are those of all replicas (reduce.c). */
ipu_status ipu__parallel_reduce(const ipu__parallel *o, ipu__parallel_program *l, ipu_program p);
/* The graph's first error, as this thread's message. */
ipu_status ipu__parallel_graph_status(ipu_graph *g);

/* Into how many parts a parameter of that shape is divided, one for each replica; 1: it stays whole (shard.c). */
int64_t ipu__parallel_n_shards(const ipu__parallel *o, const ipu_shape *shape);
/* The shape of one part: a vector; the same if it stays whole. */
ipu_shape ipu__parallel_shard_shape(const ipu__parallel *o, ipu_shape shape);
/* Add the step of models.step, what it shares with the network bound, to `p`. */
ipu_status ipu__parallel_lower_step(const ipu__parallel *o, ipu__parallel_program *l, ipu_program p);

#endif
