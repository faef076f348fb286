/* What the files of this folder share while a program is lowered. */
#ifndef IPU_MODEL_PARALLEL_LOWER_H
#define IPU_MODEL_PARALLEL_LOWER_H

#include "model/parallel/parallel.h"

typedef struct ipu__lowering {
    const ipu__parallel        *o;
    const ipu__parallel_models *models;
    ipu_graph                  *g;
    ipu_model                  *net, *step; /* optimised copies; step NULL: there is none */
    IPU_ARRAY(ipu_tensor) begun; /* sums of gradients that the network's program begins to add up itself */
} ipu__lowering;

/* Optimise `m`, a copy of one of the models or a part of it. */
ipu_status ipu__parallel_optimise(const ipu__lowering *l, ipu_model *m);

/* Steps in `p` by which input `i` of a batch gets to `t`, or output `i` of it from `t` to where it is given; `begin`
 * runs before all batches of a run. */
void       ipu__parallel_read_input(ipu__lowering *l, size_t i, ipu_tensor t, ipu_program p);
ipu_status ipu__parallel_give_output(ipu__lowering *l, size_t i, ipu_tensor t, ipu_program begin,
                                     ipu_program p);

/* The batches of one step of the optimizer, or of a run that does not train, of a network with stages: what
 * lower_batches in lower.c is for others (pipeline.c). */
ipu_status ipu__parallel_pipeline(ipu__lowering *l, ipu_program begin, ipu_program *out);

/* Lower l->net. `last`: the same for the last batch of a step, in which sums of gradients are begun
 * to be added up over processes as soon as they are final; the null program where that is no use (reduce.c). */
ipu_status ipu__parallel_lower_net(ipu__lowering *l, ipu_program *net, ipu_program *last);
/* Add steps to `p` after which the sums of gradients are those of all replicas (reduce.c). */
ipu_status ipu__parallel_reduce(ipu__lowering *l, ipu_program p);
/* The graph's first error, as this thread's message. */
ipu_status ipu__parallel_graph_status(ipu_graph *g);

/* Into how many parts a parameter of that shape is divided, one for each replica; 1: it stays whole (shard.c). */
int64_t ipu__parallel_n_shards(const ipu__parallel *o, const ipu_shape *shape);
/* The shape of one part: a vector; the same if it stays whole. */
ipu_shape ipu__parallel_shard_shape(const ipu__parallel *o, ipu_shape shape);
/* Add the step of l->step, what it shares with the network bound, to `p`. */
ipu_status ipu__parallel_lower_step(ipu__lowering *l, ipu_program p);

#endif
