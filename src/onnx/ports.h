/* What a session must know of a compiled model to run it: where its inputs go, and how its outputs make up those of the
 * file.
 *
 * It is kept in the note of the executable, as numbers: of each input its handle; of each output of the file its kind,
 * followed by an ARRAY's handle, its count's or -1, the dimension that is counted and, where sums over batches are given,
 * its sum's, or by a SEQUENCE's number of items and these, one after another. Types, shapes and names are those of the
 * handles, so that an executable from the cache needs no model.
 */
#ifndef IPU_ONNX_PORTS_H
#define IPU_ONNX_PORTS_H

#include "base/arena.h"
#include "ipu/engine.h"
#include "onnx/import/import.h"

/* A handle of the engine. The name is the executable's. */
typedef struct ipu__handle {
    const char *name;
    ipu_type    type;
    ipu_shape   shape;
} ipu__handle;

typedef struct ipu__result {
    ipu_onnx_kind kind;
    ipu__handle   array;
    const char   *count; /* of an ARRAY, the handle that says how many slices of `dim` there are; NULL: all */
    int           dim;
    const char   *sum;         /* of an ARRAY, the handle of its sum over batches; NULL: none is made */
    struct ipu__result *items; /* of a SEQUENCE */
    size_t              n_items;
} ipu__result;

typedef struct ipu__ports { /* all zero: none */
    ipu__handle *inputs;    /* the arrays of inputs that are not compile-time ones, in order */
    size_t       n_inputs;
    ipu__result *outputs; /* as many as the file has */
    ipu__arena   arena;
} ipu__ports;

/* Puts down what the imported model has. `sums`: handles of the sums of its outputs, one for each; NULL: there are none. */
ipu_status ipu__ports_note(const ipu__imported *from, size_t n_outputs, const char *const *sums,
                           ipu_executable *exe);
/* From an executable that may be anyone's. Statuses: INVALID (not what the function above puts down), OUT_OF_MEMORY. */
ipu_status ipu__ports_read(const ipu_executable *exe, size_t n_outputs, bool has_sums, ipu__ports *out);
void       ipu__ports_fini(ipu__ports *ports);

/* Leaves the first `count` slices of dimension `dim`. */
void ipu__ports_cut(ipu_array *a, int dim, int64_t count);

#endif
