/* Programs: what an engine runs, as a tree of steps.
 *
 * A program is a sequence of steps that run in order; each compute set is one superstep. A program used
 * inside another (a body, a branch) is captured at that moment: steps added to it later have no effect on the
 * outer one.
 *
 *     ipu_program p = ipu_program_sequence(g);
 *     ipu_program_add_copy(p, x, y);
 *     ipu_program_add_execute(p, cs);
 *     ipu_program_add_repeat(main, 10, p);
 *
 * All of these are builder functions: errors are kept in the graph (ipu_graph_status). Programs belong to the
 * graph.
 */
#ifndef IPU_PROGRAM_H
#define IPU_PROGRAM_H

#include "ipu/graph.h"
#include "ipu/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_program {
    ipu_graph *graph;
    uint32_t   id;
} ipu_program;

typedef struct ipu_function {
    ipu_graph *graph;
    uint32_t   id;
} ipu_function;

ipu_program ipu_program_sequence(ipu_graph *g);

/* Append all current steps of `body`. */
void ipu_program_add(ipu_program p, ipu_program body);
/* Run the vertices of a compute set: one superstep. */
void ipu_program_add_execute(ipu_program p, ipu_compute_set cs);
/* Copy elements in tensor order. Same type and number of elements; the two must not overlap. */
void ipu_program_add_copy(ipu_program p, ipu_tensor from, ipu_tensor to);
/* One transfer from or to the host. */
void ipu_program_add_read(ipu_program p, ipu_stream from, ipu_tensor to);
void ipu_program_add_write(ipu_program p, ipu_tensor from, ipu_stream to);
/* Rows of a remote buffer. `rows` holds row numbers (int32 or uint32), one per n_elements of the tensor; null
 * means rows 0, 1, 2 ... */
void ipu_program_add_remote_read(ipu_program p, ipu_remote_buffer from, ipu_tensor rows, ipu_tensor to);
void ipu_program_add_remote_write(ipu_program p, ipu_tensor from, ipu_remote_buffer to, ipu_tensor rows);

/* Run `body` `n` >= 0 times. */
void ipu_program_add_repeat(ipu_program p, int64_t n, ipu_program body);
/* Run `condition`; while the scalar `predicate` is then true (for _false: false), run `body` and repeat. A
 * predicate has one element of type bool or an integer; nonzero is true. */
void ipu_program_add_while_true(ipu_program p, ipu_program condition, ipu_tensor predicate, ipu_program body);
void ipu_program_add_while_false(ipu_program p, ipu_program condition, ipu_tensor predicate,
                                 ipu_program body);
/* Either branch may be a null program (id 0), which does nothing. */
void ipu_program_add_if(ipu_program p, ipu_tensor predicate, ipu_program then, ipu_program otherwise);

typedef struct ipu_switch_case {
    int64_t     value;
    ipu_program body;
} ipu_switch_case;
/* Run the case equal to the integer scalar `control`, or else `otherwise` (may be null). */
void ipu_program_add_switch(ipu_program p, ipu_tensor control, const ipu_switch_case *cases, size_t n,
                            ipu_program otherwise);

/* A body compiled once and called any number of times; it works on the tensors it names, so
 * arguments are passed by copying into them. */
ipu_function ipu_graph_add_function(ipu_graph *g, ipu_program body, const char *name);
void         ipu_program_add_call(ipu_program p, ipu_function f);

/* Append steps that run once, when an engine is created, after initial values are set. They cannot use
 * streams. */
void ipu_graph_add_start(ipu_graph *g, ipu_program steps);

typedef enum ipu_sync_type { IPU_SYNC_INTERNAL, IPU_SYNC_EXTERNAL, IPU_SYNC_GLOBAL } ipu_sync_type;
/* A barrier on its own; costs cycles on a chip, nothing on a host. */
void ipu_program_add_sync(ipu_program p, ipu_sync_type type);
/* Log "title: [1.0000000 1.5000000]" at level PRINT: floats with 7 decimals, scalars without brackets, one
 * line per outermost row from rank 2 on. With several replicas, one message each, with " (replica r)" after
 * the title. `title` NULL means the variable's name. */
void ipu_program_add_print(ipu_program p, const char *title, ipu_tensor t);
/* Stop the run with IPU_ABORTED and this message if the predicate is true. */
void ipu_program_add_abort_if(ipu_program p, ipu_tensor predicate, const char *message);
/* Stop the run with IPU_ABORTED, the message and the value of `t` (may be null). */
void ipu_program_add_error(ipu_program p, const char *message, ipu_tensor t);
/* Mark `t` as undefined: its value is not needed any more, so its memory may be reused. */
void ipu_program_add_write_undef(ipu_program p, ipu_tensor t);
/* `from` of replica r goes to `to` of replica to_replica[r]; a permutation without fixed points. */
void ipu_program_add_cross_replica_copy(ipu_program p, ipu_tensor from, ipu_tensor to,
                                        const int64_t *to_replica, size_t n);

/* Run bodies concurrently, each on its own IPUs; the step ends when all have ended. No body may touch what another
 * writes (compiling reports it, with the users of both variables). Bodies may use streams, remote buffers, loops, and
 * functions that no other body calls, but no steps that involve all replicas and no nested parallel step. On a host
 * with several threads, bodies are spread over them. If several fail, the error is that of the first in this order.
 * Null programs (id 0) do nothing. */
void ipu_program_add_parallel(ipu_program p, const ipu_program *bodies, size_t n);

/* ---- sums over replicas, including those of other processes that run the same program (ipu/comm.h) ---- */

/* Start replacing `t`, float or double, by its sum over all replicas of all processes. No step may touch it
 * until the next ipu_program_add_all_reduce_wait. All processes must start the same sums in the same order;
 * results are bit-identical on all replicas. */
void ipu_program_add_all_reduce(ipu_program p, ipu_tensor t);
/* Wait until all sums that were started are complete. */
void ipu_program_add_all_reduce_wait(ipu_program p);

/* ---- kernels: library operations on whole tensors, one superstep each. They run on the tiles of their
 * program's graph, which may be a virtual graph ---- */

typedef enum ipu_attribute_kind {
    IPU_ATTRIBUTE_INT,
    IPU_ATTRIBUTE_FLOAT,
    IPU_ATTRIBUTE_TEXT,
    IPU_ATTRIBUTE_INTS
} ipu_attribute_kind;

typedef struct ipu_attribute {
    const char        *name;
    ipu_attribute_kind kind;
    int64_t            i;
    double             f;
    const char        *text;
    const int64_t     *ints;
    size_t             n_ints;
} ipu_attribute;

#define IPU_INT_ATTRIBUTE(n, v) ((ipu_attribute){.name = (n), .kind = IPU_ATTRIBUTE_INT, .i = (v)})
#define IPU_FLOAT_ATTRIBUTE(n, v) ((ipu_attribute){.name = (n), .kind = IPU_ATTRIBUTE_FLOAT, .f = (v)})
#define IPU_TEXT_ATTRIBUTE(n, v) ((ipu_attribute){.name = (n), .kind = IPU_ATTRIBUTE_TEXT, .text = (v)})

/* Run the named kernel (`ipu ops`). Operands are in the kernel's order, outputs included; optional ones may be
 * null, or all left out. Attributes and names are copied. */
void ipu_program_add_kernel(ipu_program p, const char *kernel, const ipu_attribute *attributes,
                            size_t n_attributes, const ipu_tensor *operands, size_t n_operands);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
IPU_LEFT(ipu_program, ipu_program)
IPU_LEFT(ipu_function, ipu_function)
#define ipu_program_sequence(...) ipu_program_left((IPU_ENTER, ipu_program_sequence(__VA_ARGS__)))
#define ipu_program_add(...) (IPU_ENTER, ipu_program_add(__VA_ARGS__), ipu_leave())
#define ipu_program_add_execute(...) (IPU_ENTER, ipu_program_add_execute(__VA_ARGS__), ipu_leave())
#define ipu_program_add_copy(...) (IPU_ENTER, ipu_program_add_copy(__VA_ARGS__), ipu_leave())
#define ipu_program_add_read(...) (IPU_ENTER, ipu_program_add_read(__VA_ARGS__), ipu_leave())
#define ipu_program_add_write(...) (IPU_ENTER, ipu_program_add_write(__VA_ARGS__), ipu_leave())
#define ipu_program_add_remote_read(...) (IPU_ENTER, ipu_program_add_remote_read(__VA_ARGS__), ipu_leave())
#define ipu_program_add_remote_write(...) (IPU_ENTER, ipu_program_add_remote_write(__VA_ARGS__), ipu_leave())
#define ipu_program_add_repeat(...) (IPU_ENTER, ipu_program_add_repeat(__VA_ARGS__), ipu_leave())
#define ipu_program_add_while_true(...) (IPU_ENTER, ipu_program_add_while_true(__VA_ARGS__), ipu_leave())
#define ipu_program_add_while_false(...) (IPU_ENTER, ipu_program_add_while_false(__VA_ARGS__), ipu_leave())
#define ipu_program_add_if(...) (IPU_ENTER, ipu_program_add_if(__VA_ARGS__), ipu_leave())
#define ipu_program_add_switch(...) (IPU_ENTER, ipu_program_add_switch(__VA_ARGS__), ipu_leave())
#define ipu_graph_add_function(...) ipu_function_left((IPU_ENTER, ipu_graph_add_function(__VA_ARGS__)))
#define ipu_graph_add_start(...) (IPU_ENTER, ipu_graph_add_start(__VA_ARGS__), ipu_leave())
#define ipu_program_add_call(...) (IPU_ENTER, ipu_program_add_call(__VA_ARGS__), ipu_leave())
#define ipu_program_add_sync(...) (IPU_ENTER, ipu_program_add_sync(__VA_ARGS__), ipu_leave())
#define ipu_program_add_print(...) (IPU_ENTER, ipu_program_add_print(__VA_ARGS__), ipu_leave())
#define ipu_program_add_abort_if(...) (IPU_ENTER, ipu_program_add_abort_if(__VA_ARGS__), ipu_leave())
#define ipu_program_add_error(...) (IPU_ENTER, ipu_program_add_error(__VA_ARGS__), ipu_leave())
#define ipu_program_add_write_undef(...) (IPU_ENTER, ipu_program_add_write_undef(__VA_ARGS__), ipu_leave())
#define ipu_program_add_cross_replica_copy(...) \
    (IPU_ENTER, ipu_program_add_cross_replica_copy(__VA_ARGS__), ipu_leave())
#define ipu_program_add_parallel(...) (IPU_ENTER, ipu_program_add_parallel(__VA_ARGS__), ipu_leave())
#define ipu_program_add_all_reduce(...) (IPU_ENTER, ipu_program_add_all_reduce(__VA_ARGS__), ipu_leave())
#define ipu_program_add_all_reduce_wait(...) \
    (IPU_ENTER, ipu_program_add_all_reduce_wait(__VA_ARGS__), ipu_leave())
#define ipu_program_add_kernel(...) (IPU_ENTER, ipu_program_add_kernel(__VA_ARGS__), ipu_leave())
#endif
#endif
