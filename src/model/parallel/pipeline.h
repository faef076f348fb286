/* The program of a network with stages: shared by part.c and pipeline.c.
 *
 * Time is divided into slots. Position q (model/parallel/plan.h) runs batch b in slot period * b + offset(q):
 * the schedule is these numbers. In each slot all IPUs run what is scheduled for them, then values pass from
 * IPU to IPU. Positions of one IPU that share a slot run in reverse order, so that a value is used before it
 * is overwritten.
 */
#ifndef IPU_MODEL_PARALLEL_PIPELINE_H
#define IPU_MODEL_PARALLEL_PIPELINE_H

#include "model/parallel/plan.h"
#include "model/parallel/lower.h"

/* The row of a position's next batch in rings of this depth. */
typedef struct ipu__pipeline_row {
    int64_t    depth;
    ipu_tensor row, next; /* int32; next[i] is the row after i */
} ipu__pipeline_row;

typedef struct ipu__pipeline_part {
    ipu_model   *m;
    ipu_graph   *g;    /* covers the tiles of its IPU */
    ipu_program  body; /* runs one batch */
    ipu_function f;
    int64_t      offset;
    IPU__ARRAY(ipu__pipeline_row) rows;
} ipu__pipeline_part;

/* The two ends of a route. On the producing IPU, values may have to wait for users: in a ring, or in
 * streaming memory. */
typedef struct ipu__pipeline_way {
    ipu_tensor        from, to;
    bool              crosses; /* to another IPU */
    int64_t           depth;   /* most batches that wait on the IPU */
    ipu_tensor        ring;    /* null if not needed, or off chip */
    ipu_remote_buffer off_chip;
} ipu__pipeline_way;

typedef struct ipu__pipeline {
    const ipu__parallel *o;
    ipu__lowering       *l;
    ipu_model           *net; /* borrowed; records the tensors of kept values and outputs */
    ipu__plan            plan;
    int64_t             *stage_ipus, n_ipus;
    int64_t              n_batches, period, warm; /* warm: batches begun before the first is finished */
    ipu_graph          **windows;                 /* by IPU */
    ipu_tensor          *kept;                    /* by IPU and value: null, or that IPU's tensor of it */
    ipu__pipeline_part  *parts;                   /* by position */
    ipu__pipeline_way   *ways;                    /* by route */
    ipu_program          begin;                   /* before the first batch of a step */
    ipu_program          begin_run;               /* before the first of a run */
} ipu__pipeline;

/* Lowers position `q`, except for its place in the schedule; to be called in ascending order. */
ipu_status ipu__pipeline_lower_part(ipu__pipeline *l, uint32_t q);

#endif
