/* Builders: how ops are emitted, whatever they are emitted into.
 *
 * A builder takes ops one by one and gives back values. There are two: over a graph and a program
 * (each op becomes a kernel step on new variables), and that of a model (each op becomes SSA; see
 * ipu/model.h). Every function of the op library (ipu/op.h) works on either.
 *
 *     ipu_builder *b;
 *     IPU_TRY(ipu_builder_create(g, program, &b));
 *     ipu_value x = ipu_builder_value(b, tensor);
 *     ipu_value y = ipu_relu(b, ipu_add(b, ipu_matmul(b, x, w), bias));
 *     ipu_program_add_copy(program, ipu_value_tensor(y), result);
 *     ipu_builder_destroy(b);
 *
 * Like all builders it keeps its first error (op, value names, shapes, the user's file and line) and
 * does nothing afterwards: values it returns then are null (id 0), which every call accepts.
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
    uint32_t     id; /* 0: null */
} ipu_value;

/* For an input that an op may do without. */
#ifdef __cplusplus
#define IPU_NO_VALUE (ipu_value{nullptr, 0})
#else
#define IPU_NO_VALUE ((ipu_value){NULL, 0})
#endif

/* The first error, and its sentence ("" while there is none). */
ipu_status  ipu_builder_status(const ipu_builder *b);
const char *ipu_builder_message(const ipu_builder *b);

/* ---- over a graph ---- */

/* Ops append kernel steps to `p`; results are new variables of `g`, spread linearly over its tiles.
 * Borrowed: `g`, which keeps the first error too. Owned: ipu_builder_destroy, which the graph outlives. */
ipu_status ipu_builder_create(ipu_graph *g, ipu_program p, ipu_builder **out);
void       ipu_builder_destroy(ipu_builder *b);
/* A tensor as a value of the builder, and back. A tensor may be any view. */
ipu_value  ipu_builder_value(ipu_builder *b, ipu_tensor t);
ipu_tensor ipu_value_tensor(ipu_value v);

/* ---- names: "encoder/layer3/weight", for people, text form, profiles and messages ---- */

/* Values made until the matching pop have names that begin with `name` and a slash. */
void ipu_builder_push_scope(ipu_builder *b, const char *name);
void ipu_builder_pop_scope(ipu_builder *b);
/* The same value, from now on called so (within the scope). */
ipu_value ipu_named(ipu_builder *b, ipu_value v, const char *name);

/* ---- asking ---- (a null value is a float scalar) */

ipu_type    ipu_value_type(ipu_value v);
ipu_shape   ipu_value_shape(ipu_value v);
int         ipu_value_rank(ipu_value v);
int64_t     ipu_value_dim(ipu_value v, int dim); /* negative: from the end */
int64_t     ipu_value_n_elements(ipu_value v);
const char *ipu_value_name(ipu_value v); /* "" if none. Borrowed from the builder. */

/* ---- constants ---- */

/* Values at `data` (copied), in `type`'s own format. */
ipu_value ipu_constant_data(ipu_builder *b, ipu_type type, ipu_shape shape, const void *data);
/* All elements `value`, converted to `type`. */
ipu_value ipu_constant_value(ipu_builder *b, ipu_type type, ipu_shape shape, double value);
/* A scalar of the type of `like`. */
ipu_value ipu_scalar_like(ipu_builder *b, ipu_value like, double value);

/* ---- any op by its name ---- */

/* `in` in the op's order, null where an optional one is left out (trailing ones may be missing);
 * out[0..n_out) receives its first outputs. "concat" takes any number of inputs. `ipu ops NAME` tells inputs,
 * outputs and attributes. An op that draws random numbers gets a "key" of its own if it is given none. */
void ipu_emit(ipu_builder *b, const char *op, const ipu_attribute *attributes, size_t n_attributes,
              const ipu_value *in, size_t n_in, ipu_value *out, size_t n_out);

/* What an op is, for tools and bindings. All borrowed and constant. */
typedef struct ipu_op_attribute {
    const char        *name;
    ipu_attribute_kind kind;
    bool               required;
    double             otherwise;      /* INT and FLOAT that are not required */
    const char        *text_otherwise; /* TEXT that is not required; NULL: none */
    const char        *meaning;
} ipu_op_attribute;

typedef struct ipu_op_info {
    const char        *name, *family, *summary;
    const char *const *inputs, *const *outputs; /* NULL-terminated; optional inputs end in '?' */
    const ipu_op_attribute *attributes;
    size_t                  n_attributes;
    bool                    has_gradient, is_composite, is_view;
    const char *const      *samples; /* uses of it as text, NULL-terminated: "float[3,4], float[4]; axis=1" */
    const char *const      *implementations; /* names, NULL-terminated */
} ipu_op_info;

size_t     ipu_n_ops(void);
ipu_status ipu_op_info_at(size_t i, ipu_op_info *out);
/* Statuses: NOT_FOUND, with the nearest name there is. */
ipu_status ipu_op_info_find(const char *name, ipu_op_info *out);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
IPU_LEFT(ipu_value, ipu_value)
/* How a function of the op library notes where it was called. */
#define IPU_AT(...) ipu_value_left((IPU_ENTER, __VA_ARGS__))
#define ipu_builder_value(...) IPU_AT(ipu_builder_value(__VA_ARGS__))
#define ipu_named(...) IPU_AT(ipu_named(__VA_ARGS__))
#define ipu_constant_data(...) IPU_AT(ipu_constant_data(__VA_ARGS__))
#define ipu_constant_value(...) IPU_AT(ipu_constant_value(__VA_ARGS__))
#define ipu_scalar_like(...) IPU_AT(ipu_scalar_like(__VA_ARGS__))
#define ipu_emit(...) (IPU_ENTER, ipu_emit(__VA_ARGS__), ipu_leave())
#endif
#endif
