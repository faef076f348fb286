/* What a builder is: a table of values that all kinds share, and a class that says what emitting means. */
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
    /* An op that has been inferred: call->operand holds inputs and outputs, in[] the values (null where
     * absent). Make its outputs with ipu__builder_add. Returns a status with this thread's message. */
    ipu_status (*emit)(ipu_builder *b, const ipu_op_def *op, const ipu_kernel_call *call, const ipu_value *in,
                       ipu_value *out);
    /* `data` holds the values; they are copied. */
    ipu_status (*constant)(ipu_builder *b, ipu_kernel_value value, const void *data, ipu_value *out);
    /* NULL: nothing more than the name in the table. */
    void (*named)(ipu_builder *b, ipu_value v, const char *name);
} ipu__builder_class;

struct ipu_builder {
    const ipu__builder_class *class;
    ipu_status status;
    char      *message;                   /* NULL: "" */
    ipu__arena arena;                     /* names, attributes */
    IPU_ARRAY(ipu__builder_value) values; /* by id; 0 unused */
    ipu__text scope;                      /* "encoder/layer3/", or empty */
    uint32_t  next_key; /* of random ops that are given none: which of them draws which numbers */
};

/* Keys from here on are those of parameters' initial values. */
#define IPU__FIRST_INITIAL_KEY 0x80000000u

ipu_status ipu__builder_init(ipu_builder *b, const ipu__builder_class *class);
void       ipu__builder_fini(ipu_builder *b);

/* A new value; null if memory ran out. `name` NULL: none; it is put in the scope. */
ipu_value ipu__builder_add(ipu_builder *b, ipu_type type, const ipu_shape *shape, const char *name);

/* Keep this as the first error, with the location in force. */
void ipu__builder_fail(ipu_builder *b, ipu_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* False after an error, or (which is then one) if `v` is null or of another builder. */
bool ipu__builder_has(ipu_builder *b, const char *caller, ipu_value v);

/* IPU_OK, or INVALID: a dimension is negative, or there are too many bytes to count. */
ipu_status ipu__builder_check_extent(const char *what, const ipu_kernel_value *v);

/* A copy in the arena that outlives the caller's. */
ipu_status ipu__builder_keep_attributes(ipu_builder *b, ipu_kernel_call *call);

/* "\"encoder/x\" float[3,4]" or "value 12 float[3,4]" for messages; four texts live at once. */
const char *ipu__value_str(ipu_value v);

#endif
