/* A builder: a table of values shared by all kinds, and a class that defines what emitting does. */
#ifndef IPU_OP_BUILDER_H
#define IPU_OP_BUILDER_H

#include "base/arena.h"
#include "base/array.h"
#include "base/text.h"
#include "op/op.h"

typedef struct ipu__builder_value {
    ipu_type    type;
    ipu_shape   shape;
    const char *name; /* "" if none */
} ipu__builder_value;

typedef struct ipu__builder_class {
    /* Emits an op after inference: call->operand describes inputs and outputs, in[] has the values (null
     * where absent). Create its outputs with ipu__builder_add. Returns a status with this thread's
     * message. */
    ipu_status (*emit)(ipu_builder *b, const ipu__op_def *op, const ipu__kernel_call *call,
                       const ipu_value *in, ipu_value *out);
    /* `data` holds the values, which are copied. */
    ipu_status (*constant)(ipu_builder *b, ipu__kernel_value value, const void *data, ipu_value *out);
    /* NULL if the name in the table suffices */
    void (*named)(ipu_builder *b, ipu_value v, const char *name);
} ipu__builder_class;

struct ipu_builder {
    const ipu__builder_class *class;
    ipu_status status;
    char      *message;                    /* NULL means "" */
    ipu__arena arena;                      /* names, attributes */
    IPU__ARRAY(ipu__builder_value) values; /* by id; 0 unused */
    ipu__text scope;                       /* "encoder/layer3/", or empty */
    uint32_t  next_key; /* for random ops without a key of their own; determines which numbers they draw */
};

/* From here on, keys are those of parameters' initial values. */
#define IPU__FIRST_INITIAL_KEY 0x80000000u

ipu_status ipu__builder_init(ipu_builder *b, const ipu__builder_class *class);
void       ipu__builder_fini(ipu_builder *b);

/* A new value; null if out of memory. `name` may be NULL; it is prefixed with the scope. */
ipu_value ipu__builder_add(ipu_builder *b, ipu_type type, const ipu_shape *shape, const char *name);

/* Records the first error, with the current location. */
void ipu__builder_fail(ipu_builder *b, ipu_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns false after an error; it is an error if `v` is null or belongs to another builder. */
bool ipu__builder_has(ipu_builder *b, const char *caller, ipu_value v);

/* INVALID if a dimension is negative, or the size in bytes overflows. */
ipu_status ipu__builder_check_extent(const char *what, const ipu__kernel_value *v);

/* Copies them to the arena, so that they outlive the caller's. */
ipu_status ipu__builder_keep_attributes(ipu_builder *b, ipu__kernel_call *call);

/* "\"encoder/x\" float[3,4]" or "value 12 float[3,4]" for messages; four texts live at once. */
const char *ipu__value_str(ipu_value v);

#endif
