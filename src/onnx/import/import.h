/* Importing: an ONNX graph emitted op by op into a model.
 *
 * Each ONNX op has one function `ipu__onnx_<Name>(ipu__node *n)` in the file of its family (op_*.c) and a line in
 * ops.inc. It reads inputs and attributes through the functions below, emits with the op library, and gives its
 * outputs. All of these may fail; the first error stays, later calls do nothing and return something harmless, so
 * that a function reads straight on:
 *
 *     void ipu__onnx_Trilu(ipu__node *n)
 *     {
 *         int64_t k = ipu__in_int(n, 1, 0);
 *         ipu__give(n, 0, ipu__attr_int(n, "upper", 1) ? ipu_triu(n->b, ipu__in(n, 0), k) : ...);
 *     }
 *
 * Shapes are static: what decides one must be known now. ipu__in_ints and its like compute a value, when they are
 * asked for it and not before, from constants, shapes included. An input of the file that it depends on becomes a
 * compile-time input there and then: a constant, if its value is given, else an error that names it. A loop that it
 * depends on is unrolled: the import goes back to the loop's node and on from there (known.c).
 */
#ifndef IPU_ONNX_IMPORT_IMPORT_H
#define IPU_ONNX_IMPORT_IMPORT_H

#include "base/arena.h"
#include "base/array.h"
#include "ipu/op.h"
#include "model/evaluate.h"
#include "model/rewind.h"
#include "onnx/file.h"

/* A value of the ONNX graph. */
typedef struct ipu__item {
    ipu_onnx_kind     kind;      /* NONE: an empty optional, or an input left out */
    ipu_value         v;         /* ARRAY */
    ipu_value         count;     /* ARRAY whose extent depends on data: int64 scalar; null: it does not */
    int               count_dim; /* only `count` slices of this dimension are there, the others are padding */
    struct ipu__item *items;     /* SEQUENCE; in the arena, never changed once made */
    size_t            n_items;
    const Ipu__TensorProto *pending; /* an initializer, made when it is asked for */
} ipu__item;

typedef struct ipu__scope ipu__scope; /* names of one graph, seen by graphs within */

/* A function of the file while it is inlined: where attributes that refer to its own are found. */
typedef struct ipu__call {
    const Ipu__NodeProto     *node;
    const Ipu__FunctionProto *function;
    const struct ipu__call   *parent;
} ipu__call;

/* An input of the model: what the file's input `owner` is, or an array of the sequence that it is. */
typedef struct ipu__import_input {
    uint32_t         owner, id;
    const ipu_array *given; /* NULL: nothing is */
    const ipu_array *whole; /* the same where it is known, which may be of another shape */
    size_t           use;   /* among the guesses, if that is what is there: the first node that has it */
} ipu__import_input;

/* What was decided in the turn `tick` of the import: that a Loop or Scan became a loop of the model, with this body. */
typedef struct ipu__import_loop {
    const Ipu__NodeProto *node;
    uint32_t              block;
    int64_t               tick;
} ipu__import_loop;

/* ... and that something did without a value, as it was not known. */
typedef struct ipu__import_guess {
    uint32_t id;
    int64_t  tick;
    bool     is_use; /* of an input that has another shape once it is known */
} ipu__import_guess;

/* A tensor of the file as a constant or parameter. */
typedef struct ipu__import_made {
    uint32_t          id;   /* 0: the import went back behind it */
    ipu__kernel_value type; /* of a constant that has `data` */
    const void       *data;
} ipu__import_made;

typedef struct ipu__import {
    ipu_onnx               *file;
    const ipu_onnx_options *options;
    const ipu_onnx_value   *whole; /* what inputs are that become known; NULL: those of the options */
    ipu_model              *m;
    ipu_builder            *b;
    ipu__evaluation         evaluation;
    ipu__arena              arena; /* of the import: items, lists */
    ipu__scope             *scope;
    const ipu__call        *call; /* NULL: not in a function */
    ipu_status              status;
    char                   *message; /* of the first error */
    bool                   *fixed;   /* by input of the file: a compile-time input */
    bool                    may_fix; /* others may become such */
    IPU__ARRAY(ipu__import_input) inputs;
    int      depth; /* of graphs within graphs and functions within functions */
    int64_t  most_emitted;
    int64_t  n_emitted; /* nodes so far: unrolled loops and functions are bounded */
    double   n_claimed; /* bytes of sparse tensors that the file does not hold */
    double   n_made;    /* bytes of constants that a few numbers ask for */
    ipu__map tensors;   /* of the file, by address, to indices in `made` */
    IPU__ARRAY(ipu__import_made) made;
    int64_t n_renamed; /* outputs that got a number, as their names were taken */
    int64_t turns;     /* of the loops around that are being unrolled, multiplied */
    size_t  n_bytes;   /* of the arena */

    /* Decisions, in the order they were made, and going back to one (known.c): the error ABORTED takes the import out of
     * nested graphs to a list of nodes that has the node of that tick, and goes on from it. */
    int64_t tick; /* nodes begun so far */
    IPU__ARRAY(ipu__import_loop) loops;
    IPU__ARRAY(ipu__import_guess) guesses;
    IPU__ARRAY(const Ipu__NodeProto *) unrolled; /* whose turns decide shapes */
    bool    goes_back;
    int64_t back_to; /* tick */
    bool    is_free; /* what is done again does not count towards `most_emitted` */
    int     n_freed;
    int64_t n_tried;           /* guesses looked at again */
    IPU__ARRAY(uint32_t) seen; /* by value: the search that came across it last */
    uint32_t n_searches;
} ipu__import;

typedef struct ipu__node {
    ipu__import          *im;
    ipu_builder          *b;
    ipu_model            *m;
    const Ipu__NodeProto *proto;
    int64_t               version; /* of the op's domain in this file */
    ipu__item            *in;      /* n_in of them */
    ipu__item            *out;     /* n_out of them, NONE at first */
    size_t                n_in, n_out;
} ipu__node;

/* ---- errors ---- */

/* Keeps the first, with the node's number, name and op. */
void ipu__node_fail(ipu__node *n, ipu_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* False after any error, the builder's too. */
bool ipu__import_ok(ipu__import *im);

/* ---- inputs ---- */

/* Whether input `i` is there. */
bool ipu__has_in(const ipu__node *n, size_t i);
/* The array at input `i`; null if it was left out. An error if it is no array. */
ipu_value ipu__in(ipu__node *n, size_t i);
/* The same; it is an error if it was left out. Inputs that no op can do without may be asked for by ipu__in, too: the
 * op's own check then names it. */
ipu_value ipu__in_needed(ipu__node *n, size_t i);
/* The sequence at input `i`; an error if it is none. */
const ipu__item *ipu__in_sequence(ipu__node *n, size_t i);

/* ---- values that must be known ---- */

/* Elements of input `i` as int64 (in the arena); *count 0 if it was left out or after an error. `bool`: an error or
 * left out gives false. */
bool ipu__in_ints(ipu__node *n, size_t i, const int64_t **values, size_t *count);
/* The only element; `otherwise` if it was left out, or after an error. */
int64_t ipu__in_int(ipu__node *n, size_t i, int64_t otherwise);
double  ipu__in_double(ipu__node *n, size_t i, double otherwise);
bool    ipu__in_doubles(ipu__node *n, size_t i, const double **values, size_t *count);
/* Elements of any value, NULL if they depend on data: asking does no harm. Should they come to be known later, the
 * import goes back to this node. */
const void *ipu__known(ipu__node *n, ipu_value v);
/* The same; inputs that it depends on become compile-time inputs, loops are unrolled; depending on more is an error.
 * `what`: for the message. */
const void *ipu__must_know(ipu__node *n, ipu_value v, const char *what);
/* That the node of this turn has value `id`: should it be an input that is of another shape once it is known, the import goes back
 * to this node. */
void ipu__import_note_use(ipu__import *im, uint32_t id);

/* ---- attributes; of another kind than asked for: an error ---- */

const Ipu__AttributeProto *ipu__attr(ipu__node *n, const char *name); /* NULL: not given */
int64_t                    ipu__attr_int(ipu__node *n, const char *name, int64_t otherwise);
double                     ipu__attr_float(ipu__node *n, const char *name, double otherwise);
const char                *ipu__attr_text(ipu__node *n, const char *name, const char *otherwise);
/* *count 0 and NULL if it was not given. */
const int64_t         *ipu__attr_ints(ipu__node *n, const char *name, size_t *count);
const float           *ipu__attr_floats(ipu__node *n, const char *name, size_t *count);
const Ipu__GraphProto *ipu__attr_graph(ipu__node *n, const char *name);
/* The ONNX number of a type, as ours; strings and the like are an error. */
ipu_type ipu__attr_type(ipu__node *n, const char *name, ipu_type otherwise);
/* The i-th text of a list, "" if there is none. */
const char *ipu__attr_texts(ipu__node *n, const char *name, size_t *count, size_t i);

/* Axes as attribute `name` or, in newer opsets, as input `i`; *axes in the arena, negative ones made positive for
 * `rank` (an error if out of range). False: not given. */
bool ipu__axes(ipu__node *n, const char *name, size_t i, int rank, const int **axes, int *n_axes);
/* Attribute axis, made positive. */
int ipu__axis(ipu__node *n, const char *name, int64_t otherwise, int rank);

/* ---- outputs ---- */

/* Whether the file uses output `i`. */
bool ipu__wants(const ipu__node *n, size_t i);
void ipu__give(ipu__node *n, size_t i, ipu_value v);
/* Of which only `count` (int64 scalar) slices of dimension `dim` are there. A count that is known is cut now. */
void ipu__give_counted(ipu__node *n, size_t i, ipu_value v, ipu_value count, int dim);
void ipu__give_item(ipu__node *n, size_t i, ipu__item item);

/* ---- graphs within nodes ---- */

/* Emits graph `g` with its inputs bound to in[0..n_in) (as many as it has), out[0..n_out) its outputs. */
void ipu__import_graph(ipu__import *im, const Ipu__GraphProto *g, const ipu__item *in, size_t n_in,
                       ipu__item *out, size_t n_out);

/* Before graph `g` is emitted in a branch or loop: parameters it uses are made now, where all can see them. */
void ipu__import_captured(ipu__import *im, const Ipu__GraphProto *g);
/* The loop of the model that was just opened is `n`'s. If something in it decides a shape, the import goes back to
 * unroll it. False: memory. */
bool ipu__import_note_loop(ipu__node *n);
bool ipu__import_unrolls(const ipu__node *n);
/* Counts `n` nodes or ops towards what one import may emit. */
void ipu__import_charge(ipu__import *im, int64_t n);

/* Counts a constant that the file does not hold towards what those may take. False: too large, or an error came before. */
bool ipu__import_claim(ipu__node *n, double n_elements, ipu_type type);

/* A tensor of the file, in double if the import is wide. After an error *out is empty. Owned: ipu_array_free. */
void ipu__import_tensor(ipu__import *im, const Ipu__TensorProto *t, ipu_array *out);
/* The same as a constant; or, in training and outside of graphs within, as a parameter of that name. NULL: a constant
 * in any case. */
ipu_value ipu__import_constant(ipu__import *im, const Ipu__TensorProto *t, const char *name);
/* float, or double if the import is wide. */
ipu_type ipu__float(const ipu__import *im);
/* A sparse tensor made dense. */
ipu_value ipu__import_sparse(ipu__import *im, const Ipu__SparseTensorProto *t, const char *name);

/* Memory of the import; NULL after the error has been noted. */
void *ipu__import_alloc(ipu__import *im, size_t bytes);

/* ---- the table ---- */

typedef struct ipu__onnx_op {
    const char *domain, *name;
    void (*emit)(ipu__node *n);
    unsigned flags;
} ipu__onnx_op;

enum {
    IPU__ONNX_ELEMENTWISE = 1, /* a count of an input passes to output 0, by the rule of broadcasting */
    IPU__ONNX_COUNTS      = 2  /* the function itself sees to counts; without either they are an error */
};

const ipu__onnx_op *ipu__onnx_op_find(const char *domain, const char *name);

/* The functions of all lines of ops.inc. */
#define UNARY(name, f)
#define BINARY(name, f)
#define REDUCE(name, f)
#define ONNX(name, flags) void ipu__onnx_##name(ipu__node *n);
#define TRAINING(name) void ipu__onnx_##name(ipu__node *n);
#include "onnx/import/ops.inc"
#undef UNARY
#undef BINARY
#undef REDUCE
#undef ONNX
#undef TRAINING

/* ---- a whole file ---- */

/* How outputs of the model make up those of the file: output i of the file is `kind`; an ARRAY is the next output of
 * the model, followed by its count if it has one; a SEQUENCE is its items. */
typedef struct ipu__output {
    ipu_onnx_kind       kind;
    bool                has_count;
    int                 count_dim;
    struct ipu__output *items;
    size_t              n_items;
} ipu__output;

typedef struct ipu__imported {
    ipu_model   *m;
    ipu__arena   arena;   /* of outputs */
    ipu__output *outputs; /* as many as the file has, then those of the options */
    int64_t      n_begun; /* nodes; those that were done again count again */
} ipu__imported;

/* `fixed`, in place of that of the options, tells for each input whether it is a compile-time input, and is told which
 * others turned out to be, from what is given for them. NULL: those of the options and no others. `whole`: what such
 * inputs are, where those of the options are parts, as of one batch of many; NULL: the same as those. */
ipu_status ipu__onnx_import(ipu_onnx *file, const ipu_onnx_options *options, const ipu_onnx_value *whole,
                            bool *fixed, ipu__imported *out);
/* The model too, if it is still there. */
void ipu__imported_fini(ipu__imported *i);

#endif
