/* Shared by the files of this folder while a program is lowered. */
#ifndef IPU_MODEL_PARALLEL_LOWER_H
#define IPU_MODEL_PARALLEL_LOWER_H

#include "model/parallel/parallel.h"

typedef struct ipu__lowering {
    const ipu__parallel        *o;
    const ipu__parallel_models *models;
    ipu_graph                  *g;
    ipu_model                  *net, *step; /* optimised copies; step may be NULL */
    IPU__ARRAY(ipu_tensor) begun; /* sums of gradients whose summation the network's program itself starts */
} ipu__lowering;

/* Optimises `m`, a copy of one of the models or of a part of one. */
ipu_status ipu__parallel_optimise(const ipu__lowering *l, ipu_model *m);

/* Adds steps to `p` that bring input `i` of a batch to `t`, or output `i` from `t` to its destination;
 * `begin` runs before all batches of a run. */
void       ipu__parallel_read_input(ipu__lowering *l, size_t i, ipu_tensor t, ipu_program p);
ipu_status ipu__parallel_give_output(ipu__lowering *l, size_t i, ipu_tensor t, ipu_program begin,
                                     ipu_program p);

/* The batches of one step of the optimizer, or of a run without training, for a network with stages: the
 * counterpart of lower_batches in lower.c (pipeline.c). */
ipu_status ipu__parallel_pipeline(ipu__lowering *l, ipu_program begin, ipu_program *out);

/* Lowers l->net. `last`: the same for the last batch of a step, in which summation over processes starts as
 * soon as each sum of gradients is final; the null program if there is nothing to gain (reduce.c). */
ipu_status ipu__parallel_lower_net(ipu__lowering *l, ipu_program *net, ipu_program *last);
/* Adds steps to `p` that turn the sums of gradients into those of all replicas (reduce.c). */
ipu_status ipu__parallel_reduce(ipu__lowering *l, ipu_program p);
/* The graph's first error, as this thread's message. */
ipu_status ipu__parallel_graph_status(ipu_graph *g);

/* The number of parts, one per replica, that a parameter of that shape is divided into; 1 if it stays whole
 * (shard.c). */
int64_t ipu__parallel_n_shards(const ipu__parallel *o, const ipu_shape *shape);
/* The shape of one part: a vector; unchanged if it stays whole. */
ipu_shape ipu__parallel_shard_shape(const ipu__parallel *o, ipu_shape shape);
/* Adds l->step to `p`, bound to what it shares with the network. */
ipu_status ipu__parallel_lower_step(ipu__lowering *l, ipu_program p);

#endif
