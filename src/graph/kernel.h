/* The kernel contract: the definition of a library operation on whole tensors.
 *
 * graph declares the record, op fills it in, and engine calls it; that is all they know of one another. A
 * kernel step is a record, attributes and operands (inputs and outputs in the record's order). A kernel is
 * a compute set in closed form: it defines what it accesses (`operands`), what it means (`ref`), and what
 * it would cost on tiles (`plan`).
 *
 * How to run it fast is up to each engine, which declares what an implementation is (engine/cpu/impl.h); a
 * record lists the implementations for each engine. At this level they have only a name and a test for what
 * they fit.
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

typedef enum ipu__kernel_access {
    IPU__ACCESS_READ,
    IPU__ACCESS_WRITE, /* writes every element without reading old values */
    IPU__ACCESS_UPDATE
} ipu__kernel_access;

/* For `shares`: with any operand of the same shape and type. */
enum { IPU__SHARES_NONE = -1, IPU__SHARES_ANY = -2 };

/* An output that shares the memory of an input has the same layout. Parts run concurrently in any order, so none may
 * write an element that another part still has to read. tests/support/op_check.c runs every implementation like this. */
typedef struct ipu__kernel_operand {
    const char        *name;
    ipu__kernel_access access;
    int  shares;   /* index of the operand whose memory it may share, element by element; or SHARES_* */
    bool optional; /* may be absent, as an operand of shape [0] */
} ipu__kernel_operand;

typedef struct ipu__kernel_value {
    ipu_type  type;
    ipu_shape shape;
} ipu__kernel_value;

/* One use of a kernel. The memory layout of operands is the engine's choice: plain, except in what it
 * passes to an implementation. */
typedef struct ipu__kernel_call {
    const struct ipu__kernel_def *def;
    const ipu_attribute          *attributes;
    size_t                        n_attributes;
    int                           n_operands;
    ipu__kernel_value             operand[IPU__MAX_OPERANDS];
    uint8_t layout[IPU__MAX_OPERANDS]; /* engine-specific numbers; 0 is plain, row-major */
} ipu__kernel_call;

/* Whether an optional operand is present. */
static inline bool ipu__kernel_has(const ipu__kernel_call *call, int i)
{
    const ipu_shape *shape = &call->operand[i].shape;
    return !(shape->rank == 1 && shape->dim[0] == 0);
}

/* Whether input `in` and output `out` may be the same memory, element for element. */
bool ipu__kernel_may_share(const ipu__kernel_call *call, int in, int out);

/* Whether it writes any element. If not, there is nothing to do, however large its other dimensions. */
bool ipu__kernel_has_output(const ipu__kernel_call *call);

/* What the call would be on the chip: split over tiles, in one superstep. */
typedef struct ipu__kernel_plan {
    int64_t     n_tiles;        /* tiles with work */
    int64_t     cycles;         /* of the busiest tile, over all its workers */
    int64_t     bytes_received; /* in the exchange, on the busiest tile */
    int64_t     bytes_sent;
    int64_t     tile_bytes; /* temporary memory on the fullest tile */
    const char *basis;      /* source of the formula */
} ipu__kernel_plan;

/* The common beginning of every implementation. */
typedef struct ipu__kernel_impl {
    const char *name; /* "onednn" */
    /* Whether it can run this call, with all operands plain, in that many parts on that machine, which the engine
     * describes in its own struct. A pure function. */
    bool (*fits)(const ipu__kernel_call *call, const void *machine, int n_parts);
} ipu__kernel_impl;

/* The implementations of a kernel on one engine, best first: an array of the engine's own struct, which begins with
 * an ipu__kernel_impl. */
typedef struct ipu__kernel_impls {
    const char             *engine; /* its name; NULL ends a list of these */
    const ipu__kernel_impl *first;
    size_t                  bytes; /* array stride */
    int                     n;
} ipu__kernel_impls;

typedef struct ipu__kernel_def {
    const char                *name; /* stable: used in text, profiles and tests */
    const ipu__kernel_operand *operands;
    int                        n_operands;
    /* Whether attributes, types and shapes are consistent: IPU_OK, or ipu__fail with what was expected and
     * what was found (the caller adds where). */
    ipu_status (*check)(const ipu__kernel_call *call);
    /* Whether inputs hold values that `ref` can handle (indices in range), or ipu__fail with what was
     * found; implementations check for themselves. NULL if any values will do. */
    ipu_status (*examine)(const ipu__kernel_call *call, void *const *operand);
    /* The meaning, in plain C on one thread with plain operands. */
    void (*ref)(const ipu__kernel_call *call, void *const *operand);
    /* Bit mask of operands whose dimension 0 is the same number of independent rows; the others are shared by all
     * rows. 0, or NULL, if there are none. */
    uint32_t (*rows)(const ipu__kernel_call *call);
    /* Work in floating-point or elementary operations, to decide how to split it. */
    double (*work)(const ipu__kernel_call *call);
    /* The same for `ref`, if that is a slower algorithm. NULL means `work`. */
    double (*ref_work)(const ipu__kernel_call *call);
    ipu_status (*plan)(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out);
    /* One entry per engine that has any, then the end. May be NULL. An engine uses the first of its own that
     * fits, or else `ref` on one thread. */
    const ipu__kernel_impls *implementations;
} ipu__kernel_def;

/* All kernels, NULL-terminated. Defined above all layers (src/kernels.c), or by a program with its own
 * kernels. */
extern const ipu__kernel_def *const ipu__kernels[];

const ipu__kernel_def *ipu__kernel_find(const char *name); /* NULL if there is none */

static inline const ipu__kernel_impl *ipu__kernel_impl_at(const ipu__kernel_impls *impls, int i)
{
    return (const ipu__kernel_impl *)((const char *)impls->first + (size_t)i * impls->bytes);
}

/* The implementations for the named engine; n is 0 if there are none. */
ipu__kernel_impls ipu__kernel_impls_of(const ipu__kernel_def *def, const char *engine);
/* The first that fits; NULL if none does. */
const ipu__kernel_impl *ipu__kernel_find_impl(const ipu__kernel_call *call, const char *engine,
                                              const void *machine, int n_parts);

/* The record's `rows`. */
static inline uint32_t ipu__kernel_rows(const ipu__kernel_call *call)
{
    return call->def->rows ? call->def->rows(call) : 0;
}

/* Elementary operations in `ref`, to decide whether to compute a value at compile time. */
double ipu__kernel_ref_work(const ipu__kernel_call *call);

/* The attribute with that name; NULL if the call has none. */
const ipu_attribute *ipu__attribute_find(const ipu__kernel_call *call, const char *name);
/* "an int", "a list of ints"; for messages. */
const char *ipu__attribute_kind_text(ipu_attribute_kind kind);

#endif
