/* Exporting: a model written op by op as an ONNX graph.
 *
 * What an op becomes is a row of export.inc: one ONNX node of the same inputs and outputs; a function that
 * puts nodes (export_*.c); or a function that says the same in simpler ops of ours, which are then written
 * themselves, as are the compositions of the op records. The first error stays in the writer, and later calls
 * do nothing, so that a function reads straight on.
 *
 * Names are unique in the whole file, so that graphs within see all values around them. Where an ONNX op does
 * not take a type, values are cast to one that it does and that holds them (types.inc).
 */
#ifndef IPU_ONNX_EXPORT_EXPORT_H
#define IPU_ONNX_EXPORT_EXPORT_H

#include "base/arena.h"
#include "base/array.h"
#include "base/text.h"
#include "model/model.h"
#include "onnx/file.h"

/* A model that is being written, the whole or a composition, and the names its values have in the file. */
typedef struct ipu__export_frame {
    ipu_model   *m;
    const char **name; /* by id; NULL: none yet */
    uint32_t    *uses; /* by id */
    bool        *done; /* by op: part of another that has been found again (match.c) */
    const char  *hint; /* what new names begin with; NULL: the name of the op */
} ipu__export_frame;

/* A graph that is being written. */
typedef struct ipu__sheet {
    IPU__ARRAY(Ipu__NodeProto *) nodes;
} ipu__sheet;

typedef struct ipu__writer {
    const ipu_onnx_write_options *options;
    ipu_model                    *m;
    int64_t                       opset;
    ipu_status                    status;  /* of the first error, whose message is this thread's */
    ipu__arena                    arena;   /* everything that is written, names too */
    ipu__map                      names;   /* taken; how far each has been counted */
    ipu__map                      used;    /* names that nodes take */
    ipu__map                      missing; /* ops that cannot be written */
    ipu__text                     missing_text;
    IPU__ARRAY(Ipu__TensorProto *) initializers; /* of parameters and states */
    IPU__ARRAY(Ipu__TensorProto *) constants;
    IPU__ARRAY(void *) data; /* of initializers, read from an engine */
    ipu__sheet    *sheet;
    ipu_engine    *drawn; /* for random initial values; NULL: none was needed yet */
    int            depth;
    Ipu__NodeProto spare; /* what is put after an error */
} ipu__writer;

/* An op that is being written. */
typedef struct ipu__wop {
    ipu__writer         *w;
    ipu__export_frame   *frame;
    const ipu__model_op *op;
    ipu__kernel_call     call;
    const char          *out[IPU__MAX_OPERANDS];  /* "" where nothing uses it */
    const char          *cast[IPU__MAX_OPERANDS]; /* what output i is cast from at the end; NULL: nothing */
    ipu_type             cast_type[IPU__MAX_OPERANDS];
} ipu__wop;

/* ---- names and nodes ---- */

bool ipu__writer_ok(const ipu__writer *w);
void ipu__writer_fail_memory(ipu__writer *w);
/* Zeroed memory of the writer; NULL after an error has been noted. */
void *ipu__writer_alloc(ipu__writer *w, size_t bytes);
/* `hint`, or that with a number if it is taken. */
const char *ipu__fresh(ipu__writer *w, const char *hint);

/* A node with one output; `out` NULL: a new name. Never NULL; its output[0] is what it gives. Trailing inputs
 * that are "" are left out. */
Ipu__NodeProto *ipu__put(ipu__writer *w, const char *type, const char *const *in, size_t n_in,
                         const char *out);
#define IPU__NAMES(...) \
    (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)
/* A further output of the node; "" or NULL if nothing uses it. */
void ipu__put_output(ipu__writer *w, Ipu__NodeProto *node, const char *out);
void ipu__put_int(ipu__writer *w, Ipu__NodeProto *node, const char *name, int64_t value);
void ipu__put_float(ipu__writer *w, Ipu__NodeProto *node, const char *name, double value);
void ipu__put_text(ipu__writer *w, Ipu__NodeProto *node, const char *name, const char *value);
/* A list of one text. */
void ipu__put_texts(ipu__writer *w, Ipu__NodeProto *node, const char *name, const char *value);
void ipu__put_ints(ipu__writer *w, Ipu__NodeProto *node, const char *name, const int64_t *values, size_t n);
void ipu__put_floats(ipu__writer *w, Ipu__NodeProto *node, const char *name, const float *values, size_t n);
void ipu__put_graph(ipu__writer *w, Ipu__NodeProto *node, const char *name, Ipu__GraphProto *graph);
void ipu__put_tensor(ipu__writer *w, Ipu__NodeProto *node, const char *name, Ipu__TensorProto *tensor);

/* A tensor whose data are borrowed, or copied. */
Ipu__TensorProto *ipu__writer_tensor(ipu__writer *w, ipu_type type, const ipu_shape *shape, const void *data);
/* New initializers: a list of int64, of numbers, a scalar. Their names. */
const char *ipu__put_list(ipu__writer *w, const int64_t *values, size_t n);
const char *ipu__put_numbers(ipu__writer *w, ipu_type type, const double *values, size_t n);
const char *ipu__put_scalar(ipu__writer *w, ipu_type type, double value);
const char *ipu__put_cast(ipu__writer *w, const char *name, ipu_type to, const char *out);
/* A value info: name, type, shape. */
Ipu__ValueInfoProto *ipu__writer_info(ipu__writer *w, const char *name, ipu_type type,
                                      const ipu_shape *shape);

/* ---- what an op takes and gives ---- */

/* The name of input `i`, "" if it is absent. */
const char *ipu__take(ipu__wop *o, int i);
/* The same, cast if it is of another type. */
const char *ipu__take_as(ipu__wop *o, int i, ipu_type type);
/* Whether anything uses output `i`. */
bool ipu__gives(const ipu__wop *o, int i);
/* The name for output `i` if what computes it gives `type`: a cast follows if that is not its own. */
const char *ipu__give_as(ipu__wop *o, int i, ipu_type type);
/* In which type an ONNX op takes values of `type` in this opset; IPU_N_TYPES: in none that holds them all. */
ipu_type ipu__carrier(const ipu__writer *w, const char *onnx_op, ipu_type type);

/* One ONNX node with the op's first inputs and outputs; values of the type of input 0 are cast as it needs.
 * NULL: it does not take the type. */
Ipu__NodeProto *ipu__put_same(ipu__wop *o, const char *onnx_op, int n_in, int n_out);

/* ---- what was composed ---- */

/* (x - mean) / sqrt(var + epsilon) * weight + bias, values by their ids; `part`: the ops it consists of but the last. */
typedef struct ipu__batch_norm {
    uint32_t             x, mean, var, weight, bias;
    double               epsilon;
    const ipu__model_op *part[8];
    int                  n_parts;
} ipu__batch_norm;

/* Whether `op` is the last of such ops, which nothing else uses. */
bool ipu__match_batch_norm(const ipu__export_frame *frame, const ipu__model_op *op, ipu__batch_norm *n);

/* ---- the table ---- */

typedef struct ipu__export_row {
    const char *op;
    const char *onnx;           /* one node of the same inputs and outputs; NULL: not so */
    bool (*write)(ipu__wop *o); /* false: not in this form, nothing was put */
    void (*compose)(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out);
    bool in_float; /* `compose`: half types are cast, so that results are rounded once */
} ipu__export_row;

const ipu__export_row *ipu__export_row_find(const char *op); /* NULL: none */

#define SAME(op, onnx)
#define WRITE(op) bool ipu__write_##op(ipu__wop *o);
#define REWRITE(op, in_float) \
    void ipu__rewrite_##op(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out);
#define EITHER(op, in_float) WRITE(op) REWRITE(op, in_float)
#include "onnx/export/export.inc"
#undef SAME
#undef WRITE
#undef REWRITE
#undef EITHER

/* ---- a whole file ---- */

/* Notes an op that cannot be written: all of them go into one message. */
void ipu__writer_missing(ipu__writer *w, const char *op);
/* The model as a graph; NULL after an error. Initializers are the writer's. */
Ipu__GraphProto *ipu__writer_graph(ipu__writer *w, const char *name);

#endif
