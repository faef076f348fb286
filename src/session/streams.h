/* What goes into a run and comes out of it: arrays of the caller's cut into batches, streams put together again.
 *
 * Batch i of an array goes to the replicas of group i modulo their number; outputs come in the order of replicas, which
 * are innermost.
 */
#ifndef IPU_SESSION_STREAMS_H
#define IPU_SESSION_STREAMS_H

#include "base/array.h"
#include "base/status.h"
#include "ipu/engine.h"
#include "ipu/executor.h"

/* One batch. */
typedef struct ipu__port {
    ipu_type  type;
    ipu_shape shape;
} ipu__port;

/* How many there are in a run. */
typedef struct ipu__batches {
    int64_t         each;       /* of a replica, one after another */
    int64_t         replicas;   /* that run them side by side */
    int64_t         group_size; /* replicas that get the same input */
    ipu_output_mode mode;       /* not DEFAULT */
    int64_t         period;     /* of EVERY_N */
    bool            orthogonal; /* groups are of replicas that are apart */
} ipu__batches;

/* Batches of an input's array, and those of which outputs are given. */
static inline int64_t ipu__batches_in(const ipu__batches *b)
{
    return b->each * (b->replicas / b->group_size);
}
int64_t ipu__batches_out(const ipu__batches *b);

/* The port of array `a`. INVALID: it does not divide into batches; `name` is for the message. */
ipu_status ipu__batches_port(const ipu__batches *b, const ipu_array *a, const char *name, ipu__port *out);

typedef struct ipu__stream_in {
    char              *name, *stream; /* names, of the model's input and of the stream */
    ipu__port          port;
    size_t             bytes; /* of one batch, in the type of the port */
    ipu_type           given; /* type of the caller's arrays */
    int64_t            group_size;
    const char        *data;  /* of the run in progress */
    ipu_executor_time *times; /* by batch; NULL: they are not noted */
} ipu__stream_in;

typedef struct ipu__stream_out {
    char              *name, *stream, *sum;
    ipu_type           type;
    ipu_shape          shape; /* of one batch */
    size_t             bytes;
    ipu_array          array; /* of a run */
    void              *own;   /* memory of it, if the caller has not placed it elsewhere; NULL: given away */
    ipu_executor_time *times; /* by batch that is given; NULL: they are not noted */
} ipu__stream_out;

typedef struct ipu__streams ipu__streams;

/* A connection of one stream to one replica. */
typedef struct ipu__wire {
    ipu__streams *s;
    size_t        number; /* of the input or output */
    int64_t       replica, n_done;
} ipu__wire;

/* It must stay where it is once it is connected. */
struct ipu__streams {
    ipu__batches batches;
    int64_t      n_folded; /* replicas that run as one: all of them, or 1 */
    bool         keeps_times;
    ipu_engine  *engine; /* that it is connected to; NULL: none. Borrowed */
    IPU__ARRAY(ipu__stream_in) inputs;
    IPU__ARRAY(ipu__stream_out) outputs;
    IPU__ARRAY(ipu__wire) in_wires, out_wires;
};

void ipu__streams_fini(ipu__streams *s);

/* ---- what there is, in the model's order ---- */

/* The stream is called "in:" and the name. `given`: type of the caller's arrays. `is_own`: it has a batch for each replica,
 * whatever the groups. */
ipu_status ipu__streams_add_input(ipu__streams *s, const char *name, const ipu__port *port, ipu_type given,
                                  bool is_own);
/* Batches of an array of input `i`. */
int64_t ipu__streams_n_in(const ipu__streams *s, size_t i);
/* The stream is called "out:" and the name. Takes `sum`, under which the host reads sums. */
ipu_status ipu__streams_add_output(ipu__streams *s, const char *name, const ipu__port *port, char *sum);

/* ---- runs ---- */

/* With s->n_folded settled. */
ipu_status ipu__streams_connect(ipu__streams *s, ipu_engine *engine);
/* Points inputs at the arrays of a run, of the types and shapes of their ports, and makes ready. INVALID: one has no data. */
ipu_status ipu__streams_begin(ipu__streams *s, const ipu_array *in);
/* After a run: outputs that are not streamed. */
ipu_status ipu__streams_read(ipu__streams *s);
/* Then the array of output `i`, in memory of its own, may be given away: `out` is the caller's, and the next run makes another. */
void ipu__streams_give(ipu__streams *s, size_t i, ipu_array *out);

#endif
