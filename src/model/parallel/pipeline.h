/* The program of a network with stages: what part.c and pipeline.c share.
 *
 * Time goes in slots. Position q (model/parallel/plan.h) runs batch b in slot period * b + offset(q): the schedule is these
 * numbers. In a slot all IPUs run what they have in it, then values go from IPU to IPU. Positions of one IPU that
 * share a slot run last first, so that what one of them gives is taken before it is given anew.
 */
#ifndef IPU_MODEL_PARALLEL_PIPELINE_H
#define IPU_MODEL_PARALLEL_PIPELINE_H

#include "model/parallel/plan.h"
#include "model/parallel/lower.h"

/* Which row of rings of this depth is the one of a position's next batch. */
typedef struct ipu__pipeline_row {
    int64_t    depth;
    ipu_tensor row, next; /* int32; next[i] is the row after i */
} ipu__pipeline_row;

typedef struct ipu__pipeline_part {
    ipu_model   *m;
    ipu_graph   *g;    /* the tiles of its IPU */
    ipu_program  body; /* of one batch */
    ipu_function f;
    int64_t      offset;
    IPU_ARRAY(ipu__pipeline_row) rows;
} ipu__pipeline_part;

/* The two ends of a route. On one IPU what is given may have to wait for others: in a ring, or in streaming memory. */
typedef struct ipu__pipeline_way {
    ipu_tensor        from, to;
    bool              crosses; /* to another IPU */
    int64_t           depth;   /* batches that wait on the IPU at most */
    ipu_tensor        ring;    /* null: none is needed, or off chip */
    ipu_remote_buffer off_chip;
} ipu__pipeline_way;

typedef struct ipu__pipeline {
    const ipu__parallel *o;
    ipu__lowering       *l;
    ipu_model           *net; /* borrowed; tensors of kept values and outputs are noted in it */
    ipu__plan            plan;
    int64_t             *stage_ipus, n_ipus;
    int64_t              n_batches, period, warm; /* batches that are begun before the first is finished */
    ipu_graph          **windows;                 /* by IPU */
    ipu_tensor          *kept;                    /* by IPU and value: null, or where that IPU has it */
    ipu__pipeline_part  *parts;                   /* by position */
    ipu__pipeline_way   *ways;                    /* by route */
    ipu_program          begin;                   /* before the first batch of a step */
    ipu_program          begin_run;               /* before the first of a run */
} ipu__pipeline;

/* Everything of position `q` but its place in the schedule: to be called in ascending order. */
ipu_status ipu__pipeline_lower_part(ipu__pipeline *l, uint32_t q);

#endif
