/* The definition of an op: one const record, in the file of its family, and a line in ops.inc.
 *
 * The record contains the op's kernel (graph/kernel.h: its meaning and cost on tiles; engine/cpu/impl.h: fast
 * implementations) and what a builder and a model need: inference of types and shapes, its gradient, the
 * views and compositions that need no kernel. A NULL member means the documented default, so that a small op
 * has a small record. docs/adding-an-op.md walks through one.
 */
#ifndef IPU_OP_OP_H
#define IPU_OP_OP_H

#include "graph/kernel.h"
#include "ipu/builder.h"

/* The gradient of one op, emitted as ops. */
typedef struct ipu__gradient {
    ipu_builder            *b;
    const ipu__kernel_call *call; /* attributes, types and shapes, outputs included */
    const ipu_value        *in;   /* null where absent */
    const ipu_value        *out;
    const ipu_value        *d_out;  /* of each output; null if nothing depends on it */
    const bool             *wanted; /* which of d_in are requested */
    ipu_value              *d_in;   /* initially null; stays null without dependence */
} ipu__gradient;

struct ipu__replicas;
struct ipu__simplify;
struct ipu__regions;

enum {
    IPU__OP_ELEMENTWISE = 1, /* out[i] is a function of in[i], broadcast; may be part of a chain (chain.h) */
    IPU__OP_IMPURE      = 2, /* neither folded nor merged with equal ops */
    IPU__OP_NO_GRADIENT =
        8, /* constant almost everywhere (floor, sign, argmax): no gradient, but no error either */
    IPU__OP_EPILOGUE  = 16, /* takes attribute "epilogue" and operands e0.. (chain.h) */
    IPU__OP_GRAD_ONCE = 32, /* what `grad` emits has no gradient: second derivatives are those of `compose` */

    /* For networks of halves (model/precision/precision.h). Without one of these, an op follows its inputs;
     * norms do, since their kernels keep statistics in float. */
    IPU__OP_GAINS_IN_HALF = 64, /* products: what a chip does fastest in half; inputs are converted to half */
    IPU__OP_SHORT_IN_HALF =
        128, /* results exceed the range of half (6e-8 to 65504) or need more than its 11 bits: exponentials
              * and logarithms, probabilities, sums; inputs are converted back */
    IPU__OP_EXACT_IN_HALF =
        256, /* nothing is rounded: results are inputs, or exact in half; includes views */

    /* Properties used by model/pass/constant_fold.h and common subexpression elimination. */
    IPU__OP_COMMUTES      = 512,   /* f(x, y) = f(y, x) */
    IPU__OP_NEUTRAL_0     = 1024,  /* f(x, 0) = x */
    IPU__OP_NEUTRAL_1     = 2048,  /* f(x, 1) = x */
    IPU__OP_UNDOES_ITSELF = 4096,  /* f(f(x)) = x */
    IPU__OP_ZERO_IF_ANY   = 16384, /* elementwise: 0 where any input is (zeros count as neutral: 0 inf = 0) */
    IPU__OP_ZERO_IF_ALL   = 32768, /* elementwise: 0 where all inputs are */
    IPU__OP_RESHAPES      = 8192,  /* changes only type or shape: equals x if neither changes */
    IPU__OP_LAWS          = IPU__OP_NEUTRAL_0 | IPU__OP_NEUTRAL_1 | IPU__OP_UNDOES_ITSELF | IPU__OP_RESHAPES
};

/* Where the batch is in an operand when the values of several replicas are combined. */
typedef enum ipu__op_along {
    IPU__SHARED,    /* an input: must be the same for all replicas, like weights */
    IPU__AXIS_0,    /* the batch lies along this dimension, and its entries are independent */
    IPU__AXIS_1,    /* likewise */
    IPU__LEADING,   /* any dimensions may be prepended */
    IPU__BROADCAST, /* an input: likewise, and it is broadcast to the dimensions of the others */
    IPU__SUMMED     /* an output: summed over the batch, like gradients of weights */
} ipu__op_along;

enum { IPU__BATCH_IN = 9, IPU__BATCH_OUT = 5 };
typedef struct ipu__op_batch {
    uint8_t in[IPU__BATCH_IN], out[IPU__BATCH_OUT]; /* ipu__op_along; operands of an epilogue are omitted */
} ipu__op_batch;
/* conv: IPU__BATCH({IPU__AXIS_0, IPU__SHARED, IPU__SHARED}, {IPU__AXIS_0}) */
#define IPU__BATCH(...) (&(const ipu__op_batch){__VA_ARGS__})

typedef struct ipu__op_def {
    /* Name, operands (inputs first), ref, work, plan, implementations. `check` is ipu__op_check, which calls
     * `infer`. If `ref` is NULL there is no kernel: it is a view or a composition. */
    ipu__kernel_def kernel;
    int             n_in;
    const char     *family, *summary;
    unsigned        flags;

    const ipu_op_attribute *attributes;
    size_t                  n_attributes;

    /* Types and shapes of the outputs, from call->operand[0..n_in) and the attributes (whose names and kinds
     * have been checked); or ipu__fail with what was expected and found. Required. The caller checks for
     * overflowing element counts. */
    ipu_status (*infer)(const ipu__kernel_call *call, ipu__kernel_value *out);

    /* NULL: derived from `compose` if there is one, otherwise requesting it is an error. */
    void (*grad)(ipu__gradient *g);

    /* The same computation as other ops: required if there is no kernel, otherwise used for second
     * derivatives and tests. Fills out[0..n_out). */
    void (*compose)(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out);

    /* Emits it for more inputs than it has operands, as several ops; NULL: too many are an error. For ops
     * with one output. */
    ipu_value (*join)(ipu_builder *b, const ipu_attribute *attributes, size_t n_attributes,
                      const ipu_value *in, size_t n_in);

    /* The output as a view of the inputs (null where absent): no kernel, nothing moves. For ops with one
     * output. */
    ipu_tensor (*view)(ipu_graph *g, const ipu__kernel_call *call, const ipu_tensor *in);

    /* Simplifications beyond flags (op/simplify.h): the output is one of the inputs, or the op becomes a
     * simpler one. */
    ipu_status (*simplify)(struct ipu__simplify *s);

    /* How regions of its output and zeros of its inputs pass through it (op/region.h); NULL: they do not. */
    bool (*region)(const ipu__kernel_call *call, int axis, struct ipu__regions *out);
    bool (*zeros)(const ipu__kernel_call *call, int input, int axis, struct ipu__regions *out);

    /* How it handles the values of several replicas together (op/replicas.h), so that they can be folded into
     * one larger batch; `fold` is for what a list cannot express. With neither, elementwise ops can be
     * folded; others run once per replica. */
    const ipu__op_batch *batch; /* IPU__BATCH */
    bool (*fold)(struct ipu__replicas *r);

    /* Examples as text, for tests, `ipu ops` and bindings; NULL-terminated. Inputs, then attributes:
     *     "float[3,4], float[4]; axis=1"        values in [-2, 2], or 0..9 for integers
     *     "float[8]{0.1,4}, none; pads=[1,1]"   values in [0.1, 4]; an input left out
     * They must reach every branch of every implementation. The generic test repeats float ones in half and
     * double, if `infer` accepts them. */
    const char *const *samples;
} ipu__op_def;

#define OP(name) extern const ipu__op_def ipu__op_##name;
#include "op/ops.inc"
#undef OP

#define IPU__KERNEL(op) \
    ipu__op_##op.kernel.name /* use instead of a string: a misspelt name does not compile */

extern const ipu__op_def *const ipu__ops[]; /* in the order of ops.inc; NULL-terminated */

const ipu__op_def *ipu__op_find(const char *name); /* NULL if there is none */

/* The op that contains a kernel record: every kernel belongs to one. */
static inline const ipu__op_def *ipu__op_of(const ipu__kernel_def *kernel)
{
    return (const ipu__op_def *)kernel;
}

static inline int ipu__op_n_out(const ipu__op_def *op) { return op->kernel.n_operands - op->n_in; }

/* Where the batch is in operand i, for ops that declare it. */
static inline ipu__op_along ipu__op_along_of(const ipu__op_def *op, int i)
{
    if (i < op->n_in) return i < IPU__BATCH_IN ? (ipu__op_along)op->batch->in[i] : IPU__SHARED;
    return i - op->n_in < IPU__BATCH_OUT ? (ipu__op_along)op->batch->out[i - op->n_in] : IPU__SHARED;
}

/* `check` of all ops: operands, attributes, and that the outputs are as inferred. */
ipu_status ipu__op_check(const ipu__kernel_call *call);

/* `rows` of ops with a kernel, derived from `batch` and the like. */
uint32_t ipu__op_rows(const ipu__kernel_call *call);

/* Checks names and kinds of attributes, and that required ones are present. */
ipu_status ipu__op_check_attributes(const ipu__kernel_call *call);

/* The attribute of that name, checked by ipu__op_check_attributes, or the record's default. Lists: *n
 * receives the length, NULL and 0 if omitted. */
int64_t        ipu__op_int(const ipu__kernel_call *call, const char *name);
double         ipu__op_float(const ipu__kernel_call *call, const char *name);
const char    *ipu__op_text(const ipu__kernel_call *call, const char *name);
const int64_t *ipu__op_ints(const ipu__kernel_call *call, const char *name, size_t *n);

/* ---- for `infer`: errors name op, operand, expected and found ---- */

bool       ipu__op_is_floating(ipu_type type); /* half, bfloat16, float, double */
bool       ipu__op_is_integer(ipu_type type);  /* bool excluded */
ipu_status ipu__op_want_floating(const ipu__kernel_call *call, int operand);
ipu_status ipu__op_want_integer(const ipu__kernel_call *call, int operand); /* int32, int64 or uint32 */
ipu_status ipu__op_want_type(const ipu__kernel_call *call, int operand, ipu_type type);
ipu_status ipu__op_want_same_type(const ipu__kernel_call *call, int a, int b);
ipu_status ipu__op_want_rank(const ipu__kernel_call *call, int operand, int least, int most);
ipu_status ipu__op_want_shape(const ipu__kernel_call *call, int operand, const ipu_shape *shape);
/* Negative axes count from the end; *axis receives 0 <= axis < rank. */
ipu_status ipu__op_axis(const ipu__kernel_call *call, const char *name, int rank, int *axis);
/* The list `name` as a mask over dimensions; all of them if it is omitted or empty. */
ipu_status ipu__op_axes(const ipu__kernel_call *call, const char *name, int rank, bool mask[IPU_MAX_RANK]);
/* numpy's rule over those of operands [0, n) that are present. */
ipu_status ipu__op_broadcast(const ipu__kernel_call *call, int n, ipu_shape *out);

/* For ops whose output has no source: attributes "shape" and "type" (default float). In a kernel step, which
 * already has its output, they may be omitted: *out then says what was found. */
#define IPU__MADE_ATTRIBUTES                                                                              \
    {.name = "shape", .kind = IPU_ATTRIBUTE_INTS, .meaning = "dimensions of the output; none: a scalar"}, \
    {                                                                                                     \
        .name = "type", .kind = IPU_ATTRIBUTE_TEXT, .text_otherwise = "float",                            \
        .meaning = "type of the output"                                                                   \
    }
ipu_status ipu__op_made(const ipu__kernel_call *call, ipu__kernel_value *out);

bool ipu__shape_equal(const ipu_shape *a, const ipu_shape *b);

/* ---- for records: operands, and members common to most ---- */

#define IPU__INPUT(n)                                                       \
    {                                                                       \
        .name = (n), .access = IPU__ACCESS_READ, .shares = IPU__SHARES_NONE \
    }
#define IPU__OPTIONAL(n)                                                                      \
    {                                                                                         \
        .name = (n), .access = IPU__ACCESS_READ, .shares = IPU__SHARES_NONE, .optional = true \
    }
#define IPU__OUTPUT(n)                                                       \
    {                                                                        \
        .name = (n), .access = IPU__ACCESS_WRITE, .shares = IPU__SHARES_NONE \
    }
/* May share the memory of operand `with`, element by element. */
#define IPU__OUTPUT_OVER(n, with)                                  \
    {                                                              \
        .name = (n), .access = IPU__ACCESS_WRITE, .shares = (with) \
    }
#define IPU__COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- for emitting ---- */

/* The only output of an op. */
ipu_value ipu__emit1(ipu_builder *b, const char *op, const ipu_attribute *attributes, size_t n_attributes,
                     const ipu_value *in, size_t n_in);
#define IPU__IN(...) (const ipu_value[]){__VA_ARGS__}, sizeof((ipu_value[]){__VA_ARGS__}) / sizeof(ipu_value)
#define IPU__WITH(...) \
    (const ipu_attribute[]){__VA_ARGS__}, sizeof((ipu_attribute[]){__VA_ARGS__}) / sizeof(ipu_attribute)
#define IPU__INTS(n, v, count) \
    ((ipu_attribute){.name = (n), .kind = IPU_ATTRIBUTE_INTS, .ints = (v), .n_ints = (size_t)(count)})
/* The gradient of a value that was broadcast to `from`: summed back to the shape of `like`. */
ipu_value          ipu__sum_like(ipu_builder *b, ipu_value from, ipu_value like);
static inline bool ipu__has(ipu_value v) { return v.id != 0; }

/* ---- for kernels ---- */

/* Number of elements of a shape that was checked when its tensor was created: cannot overflow. */
int64_t ipu__op_n_elements(const ipu_shape *shape);

/* For implementations that handle every call that passes `check`. */
bool ipu__op_fits_always(const ipu__kernel_call *call, const void *machine, int n_parts);

/* The elements of `n` that belong to part `part` of `n_parts`: whole grains except at the end, as even as
 * possible. */
ipu_interval ipu__op_part(int64_t n, int64_t grain, int part, int n_parts);

/* Elements of a type in a cache line: the grain at which parts do not share lines. */
int64_t ipu__op_line(ipu_type type);

static inline int64_t ipu__op_ceil_div(int64_t n, int64_t by) { return n / by + (n % by != 0); }

/* ---- pricing ---- */

/* The value of a constant of the chip. Statuses: those of ipu_target_constant. */
ipu_status ipu__op_constant(const ipu_target *target, const char *name, double *out);

/* A vertex that loops over its elements with all workers of its tile: each worker's cycles before its loop,
 * then `loop_cycles` for every `step` elements. */
typedef struct ipu__op_loop {
    double start, step, loop_cycles;
} ipu__op_loop;

/* Cycles of the tile for `n` elements; `launch_cycles` is the supervisor's share. */
double ipu__op_loop_cycles(const ipu__op_loop *loop, double n, double launch_cycles, double n_workers);

/* `n` elements dealt evenly to all tiles in grains, with one such vertex on each; nothing is exchanged. */
ipu_status ipu__op_plan_loop(const ipu__op_loop *loop, int64_t n, int64_t grain, const ipu_target *target,
                             ipu__kernel_plan *out);

/* Appends `more` to `out`, for ops that consist of several steps. */
void ipu__op_add_plan(const ipu__kernel_plan *more, ipu__kernel_plan *out);

/* For counts computed in double because products may exceed 2^63, where they saturate. */
int64_t ipu__op_count(double value);

#endif
