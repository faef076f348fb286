/* The kernel contract: what a library operation over whole tensors is.
 *
 * graph declares the record, op fills it in, engine calls it; none knows more of the other. A
 * kernel step is a record, attributes and operands (inputs and outputs in the record's order). A
 * kernel is a compute set in closed form: it says what it touches (`operands`), what it means
 * (`ref`), and what it would cost on tiles (`plan`).
 *
 * How an engine does it fast is a matter of that engine: it declares what an implementation is there
 * (engine/cpu/impl.h), and a record lists those of each engine. Here they have a name and say what they fit.
 */
#ifndef IPU_GRAPH_KERNEL_H
#define IPU_GRAPH_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "ipu/program.h"
#include "ipu/target.h"

enum { IPU__MAX_OPERANDS = 24 };

typedef enum ipu_access {
    IPU_ACCESS_READ,
    IPU_ACCESS_WRITE, /* every element, old values not read */
    IPU_ACCESS_UPDATE
} ipu_access;

/* For `shares`: with any operand of the same shape and type. */
enum { IPU_SHARES_NONE = -1, IPU_SHARES_ANY = -2 };

/* An output that shares the memory of an input lies as that does. Parts run at once and in any order: none may write an
 * element that another part still has to read. tests/support/op_check.c runs every implementation so. */
typedef struct ipu_kernel_operand {
    const char *name;
    ipu_access  access;
    int         shares;   /* index of the operand it may share memory with, element by element; or SHARES_* */
    bool        optional; /* may be absent: an operand of shape [0] */
} ipu_kernel_operand;

typedef struct ipu_kernel_value {
    ipu_type  type;
    ipu_shape shape;
} ipu_kernel_value;

/* One use of a kernel. How operands lie is the engine's choice: plain everywhere but in what it hands to an
 * implementation. */
typedef struct ipu_kernel_call {
    const struct ipu_kernel_def *def;
    const ipu_attribute         *attributes;
    size_t                       n_attributes;
    int                          n_operands;
    ipu_kernel_value             operand[IPU__MAX_OPERANDS];
    uint8_t layout[IPU__MAX_OPERANDS]; /* numbers of the engine's own; 0: plain, row-major */
} ipu_kernel_call;

/* Whether an optional operand is there. */
static inline bool ipu__kernel_has(const ipu_kernel_call *call, int i)
{
    const ipu_shape *shape = &call->operand[i].shape;
    return !(shape->rank == 1 && shape->dim[0] == 0);
}

/* Whether input `in` and output `out` may be the same memory, element on element. */
bool ipu__kernel_may_share(const ipu_kernel_call *call, int in, int out);

/* Whether it writes any element. If not there is nothing to do, however large its other dimensions are. */
bool ipu__kernel_has_output(const ipu_kernel_call *call);

/* What the call would be on the chip: a split over tiles, as one superstep. */
typedef struct ipu_kernel_plan {
    int64_t     n_tiles;        /* tiles that have work */
    int64_t     cycles;         /* of the busiest tile, all its workers together */
    int64_t     bytes_received; /* exchange, busiest tile */
    int64_t     bytes_sent;
    int64_t     tile_bytes; /* temporary memory, fullest tile */
    const char *basis;      /* where the formula comes from */
} ipu_kernel_plan;

/* What every implementation begins with. */
typedef struct ipu_kernel_impl {
    const char *name; /* "onednn" */
    /* Whether it can do this call, all plain, in so many parts on that machine: what the engine says of itself, in a
     * struct of its own. A pure function. */
    bool (*fits)(const ipu_kernel_call *call, const void *machine, int n_parts);
} ipu_kernel_impl;

/* The implementations of a kernel on one engine, the best first: an array of the engine's own struct, which begins with an
 * ipu_kernel_impl. */
typedef struct ipu_kernel_impls {
    const char            *engine; /* its name; NULL: the end of a list of these */
    const ipu_kernel_impl *first;
    size_t                 bytes; /* from one to the next */
    int                    n;
} ipu_kernel_impls;

typedef struct ipu_kernel_def {
    const char               *name; /* stable: used in text, profiles and tests */
    const ipu_kernel_operand *operands;
    int                       n_operands;
    /* Attributes, types and shapes make sense together: IPU_OK, or ipu__fail with what was
     * expected and what was found (the caller adds where). */
    ipu_status (*check)(const ipu_kernel_call *call);
    /* Whether inputs hold values that `ref` can work on (indices in range), or ipu__fail with what was found;
     * implementations see for themselves. NULL: any will do. */
    ipu_status (*examine)(const ipu_kernel_call *call, void *const *operand);
    /* The meaning: plain C, one thread, plain operands. */
    void (*ref)(const ipu_kernel_call *call, void *const *operand);
    /* Operands, by bits, whose dimension 0 is one and the same number of rows that do not depend on each other; others
     * are the same for all rows. 0, as NULL: there are none such. */
    uint32_t (*rows)(const ipu_kernel_call *call);
    /* Work in floating-point or elementary operations, for deciding how to split. */
    double (*work)(const ipu_kernel_call *call);
    /* The same of `ref`, where it is a slower algorithm. NULL: as `work`. */
    double (*ref_work)(const ipu_kernel_call *call);
    ipu_status (*plan)(const ipu_kernel_call *call, const ipu_target *target, ipu_kernel_plan *out);
    /* One for each engine that has any, and the end. NULL: there are none. An engine uses the first of its own that
     * fits; `ref` on one thread if none does. */
    const ipu_kernel_impls *implementations;
} ipu_kernel_def;

/* All kernels there are, NULL at the end. Defined above all layers (src/kernels.c), or by a program with kernels of its own. */
extern const ipu_kernel_def *const ipu__kernels[];

const ipu_kernel_def *ipu__kernel_find(const char *name); /* NULL: none */

static inline const ipu_kernel_impl *ipu__kernel_impl_at(const ipu_kernel_impls *impls, int i)
{
    return (const ipu_kernel_impl *)((const char *)impls->first + (size_t)i * impls->bytes);
}

/* Those of the engine of that name; n is 0 if there are none. */
ipu_kernel_impls ipu__kernel_impls_of(const ipu_kernel_def *def, const char *engine);
/* The first of them that fits; NULL: none. */
const ipu_kernel_impl *ipu__kernel_find_impl(const ipu_kernel_call *call, const char *engine,
                                             const void *machine, int n_parts);

/* `rows` of its record. */
static inline uint32_t ipu__kernel_rows(const ipu_kernel_call *call)
{
    return call->def->rows ? call->def->rows(call) : 0;
}

/* Elementary operations that `ref` takes: for deciding whether to compute a value now. */
double ipu__kernel_ref_work(const ipu_kernel_call *call);

/* The attribute of that name; NULL: the call has none. */
const ipu_attribute *ipu__attribute_find(const ipu_kernel_call *call, const char *name);
/* "an int", "a list of ints"; for messages. */
const char *ipu__attribute_kind_text(ipu_attribute_kind kind);

#endif
