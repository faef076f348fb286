/* Builders: the interface through which ops are emitted, whatever the destination.
 *
 * A builder takes ops one by one and returns values. There are two kinds: one over a graph and a program
 * (each op becomes a kernel step on new variables), and a model's (each op becomes SSA; see ipu/model.h).
 * Every function of the op library (ipu/op.h) works on either.
 *
 *     ipu_builder *b;
 *     IPU_TRY(ipu_builder_create(g, program, &b));
 *     ipu_value x = ipu_builder_value(b, tensor);
 *     ipu_value y = ipu_relu(b, ipu_add(b, ipu_matmul(b, x, w), bias));
 *     ipu_program_add_copy(program, ipu_value_tensor(y), result);
 *     ipu_builder_destroy(b);
 *
 * Like all builders it keeps its first error (op, value names, shapes, the user's file and line) and does
 * nothing afterwards: values it returns then are null (id 0), which every call accepts.
 */
#ifndef IPU_BUILDER_H
#define IPU_BUILDER_H

#include "ipu/graph.h"
#include "ipu/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_builder ipu_builder;

typedef struct ipu_value {
    ipu_builder *builder;
    uint32_t     id; /* 0 means null */
} ipu_value;

/* For an optional input that is left out. */
#ifdef __cplusplus
#define IPU_NO_VALUE (ipu_value{nullptr, 0})
#else
#define IPU_NO_VALUE ((ipu_value){NULL, 0})
#endif

/* The first error and its message ("" if none). */
ipu_status  ipu_builder_status(const ipu_builder *b);
const char *ipu_builder_message(const ipu_builder *b);

/* ---- over a graph ---- */

/* Ops append kernel steps to `p`; results are new variables of `g`, spread linearly over its tiles. Borrows
 * `g`, which also keeps the first error. Owned: ipu_builder_destroy, before the graph is destroyed. */
ipu_status ipu_builder_create(ipu_graph *g, ipu_program p, ipu_builder **out);
void       ipu_builder_destroy(ipu_builder *b);
/* Converts between tensors, any view included, and values of the builder. */
ipu_value  ipu_builder_value(ipu_builder *b, ipu_tensor t);
ipu_tensor ipu_value_tensor(ipu_value v);

/* ---- names: "encoder/layer3/weight", for people, text form, profiles and messages ---- */

/* Names of values made until the matching pop are prefixed with `name` and a slash. */
void ipu_builder_push_scope(ipu_builder *b, const char *name);
void ipu_builder_pop_scope(ipu_builder *b);
/* Renames a value (within the current scope) and returns it. */
ipu_value ipu_named(ipu_builder *b, ipu_value v, const char *name);

/* ---- queries ---- (a null value counts as a float scalar) */

ipu_type    ipu_value_type(ipu_value v);
ipu_shape   ipu_value_shape(ipu_value v);
int         ipu_value_rank(ipu_value v);
int64_t     ipu_value_dim(ipu_value v, int dim); /* negative counts from the end */
int64_t     ipu_value_n_elements(ipu_value v);
const char *ipu_value_name(ipu_value v); /* "" if none. Borrowed from the builder. */

/* ---- constants ---- */

/* From the values at `data` (copied), in the representation of `type`. */
ipu_value ipu_constant_data(ipu_builder *b, ipu_type type, ipu_shape shape, const void *data);
/* All elements are `value`, converted to `type`. */
ipu_value ipu_constant_value(ipu_builder *b, ipu_type type, ipu_shape shape, double value);
/* A scalar of the same type as `like`. */
ipu_value ipu_scalar_like(ipu_builder *b, ipu_value like, double value);

/* ---- any op by its name ---- */

/* `in` in the op's order, null for optional inputs left out (trailing ones may be omitted); out[0..n_out)
 * receives its first outputs. "concat" takes any number of inputs. `ipu ops NAME` shows inputs, outputs and
 * attributes. An op that draws random numbers gets its own "key" unless one is given. */
void ipu_emit(ipu_builder *b, const char *op, const ipu_attribute *attributes, size_t n_attributes,
              const ipu_value *in, size_t n_in, ipu_value *out, size_t n_out);

/* Describes an op, for tools and bindings. Everything in it is borrowed and constant. */
typedef struct ipu_op_attribute {
    const char        *name;
    ipu_attribute_kind kind;
    bool               required;
    double             otherwise;      /* default of an optional INT or FLOAT */
    const char        *text_otherwise; /* default of an optional TEXT; NULL if none */
    const char        *meaning;
} ipu_op_attribute;

typedef struct ipu_op_info {
    const char        *name, *family, *summary;
    const char *const *inputs, *const *outputs; /* NULL-terminated; optional inputs end in '?' */
    const ipu_op_attribute *attributes;
    size_t                  n_attributes;
    bool                    has_gradient, is_composite, is_view;
    const char *const      *samples; /* example uses, NULL-terminated: "float[3,4], float[4]; axis=1" */
    const char *const      *implementations; /* names, NULL-terminated */
} ipu_op_info;

size_t     ipu_n_ops(void);
ipu_status ipu_op_info_at(size_t i, ipu_op_info *out);
/* Statuses: NOT_FOUND (the message suggests the nearest name). */
ipu_status ipu_op_info_find(const char *name, ipu_op_info *out);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
IPU_LEFT(ipu_value, ipu_value)
/* How op library functions record where they were called. */
#define IPU_AT(...) ipu_value_left((IPU_ENTER, __VA_ARGS__))
#define ipu_builder_value(...) IPU_AT(ipu_builder_value(__VA_ARGS__))
#define ipu_named(...) IPU_AT(ipu_named(__VA_ARGS__))
#define ipu_constant_data(...) IPU_AT(ipu_constant_data(__VA_ARGS__))
#define ipu_constant_value(...) IPU_AT(ipu_constant_value(__VA_ARGS__))
#define ipu_scalar_like(...) IPU_AT(ipu_scalar_like(__VA_ARGS__))
#define ipu_emit(...) (IPU_ENTER, ipu_emit(__VA_ARGS__), ipu_leave())
#endif
#endif
