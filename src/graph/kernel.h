/* The kernel contract: what a library operation over whole tensors is.
 *
 * graph declares the record, op fills it in, engine calls it; none knows more of the other. A
 * kernel step is a record, attributes and operands (inputs and outputs in the record's order). A
 * kernel is a compute set in closed form: it says what it touches (`operands`), what it means
 * (`ref`), how to do it fast (`implementations`), and what it would cost on tiles (`plan`).
 *
 * Nothing here assumes that operands are host pointers but `ref` and `run` of a host
 * implementation: another engine brings implementations of its own.
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

/* An output that shares the memory of an input lies as that does, plain or in another layout. Parts run at once and in
 * any order: none may write an element that another part still has to read. tests/support/op_check.c runs every
 * implementation so. */
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

/* How an operand lies in a host buffer. Each is a permutation of the elements: a buffer has one size in all of them, and
 * a view that keeps the dimensions named here keeps the layout. */
enum { IPU__LAYOUT_WIDTH = 16 };

typedef enum ipu_layout {
    IPU_LAYOUT_PLAIN,   /* row-major */
    IPU_LAYOUT_LANES,   /* [n / 16][rest][16]: sixteen of dimension 0, which is a multiple of 16, innermost */
    IPU_LAYOUT_BLOCKED, /* [n][c / 16][rest][16]: so dimension 1; `rest` is at least one dimension */
    IPU__N_LAYOUTS
} ipu_layout;

#define IPU_LAYOUT_BIT(layout) (1u << (layout))

/* One use of a kernel. Layouts are the engine's choice: plain everywhere but in what it hands to an implementation. */
typedef struct ipu_kernel_call {
    const struct ipu_kernel_def *def;
    const ipu_attribute         *attributes;
    size_t                       n_attributes;
    int                          n_operands;
    ipu_kernel_value             operand[IPU__MAX_OPERANDS];
    uint8_t                      layout[IPU__MAX_OPERANDS]; /* ipu_layout */
} ipu_kernel_call;

/* Whether values of that shape can lie so. */
bool ipu__layout_fits(ipu_layout layout, const ipu_shape *shape);
/* "plain", "lanes", "blocked" */
const char *ipu__layout_name(ipu_layout layout);

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

/* What an implementation can do with one operand. It takes plain ones in any case. */
typedef struct ipu_kernel_layouts {
    unsigned takes; /* bits of layouts: what it can work on, turning it itself if need be */
    unsigned
         native; /* bits: those in which it need not be turned; the engine adds up the bytes of the others */
    bool tied;   /* it has one layout with all other tied operands of the call */
} ipu_kernel_layouts;

typedef struct ipu_kernel_impl {
    const char *name; /* "onednn" */
    /* Whether it can do this call on a CPU with these features (base/cpu.h). A pure function. */
    bool (*fits)(const ipu_kernel_call *call, unsigned cpu_features, int n_parts);
    /* Which layouts operand `operand` may have. NULL: plain for all operands. `call` is all plain here and in `fits`;
     * those that follow have the layouts chosen in call->layout. */
    ipu_kernel_layouts (*layouts)(const ipu_kernel_call *call, int n_parts, int operand);
    /* Bytes of scratch for one part. NULL: none. SIZE_MAX: memory ran out while finding out. */
    size_t (*scratch_bytes)(const ipu_kernel_call *call, int n_parts);
    /* At load: make what `run` needs. NULL: *state stays NULL. Undone by `release`. */
    ipu_status (*prepare)(const ipu_kernel_call *call, int n_parts, void **state);
    void (*release)(void *state);
    /* Part `part` of `n_parts`, which together do all and do not overlap in what they write. No
     * allocation, no threads of its own. `operand[i]` and `scratch` are aligned to 64 bytes, an input that the
     * host lends to 16. The same part of the same state never runs twice at once: it may keep things in
     * `state`. */
    ipu_status (*run)(const ipu_kernel_call *call, void *state, void *const *operand, void *scratch, int part,
                      int n_parts);
    /* The stretch of an output with rows that the part writes, all of it: elements as they lie in memory. For others
     * that wrap this one; asked where images are in lanes only. NULL: it does not say. */
    ipu_interval (*writes)(const ipu_kernel_call *call, int operand, int part, int n_parts);
} ipu_kernel_impl;

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
    /* First that fits is used; `ref` on one thread if none does. */
    const ipu_kernel_impl *implementations;
    int                    n_implementations;
} ipu_kernel_def;

/* All kernels there are, NULL at the end. Defined above all layers (src/kernels.c), or by a program with kernels of its own. */
extern const ipu_kernel_def *const ipu__kernels[];

const ipu_kernel_def *ipu__kernel_find(const char *name); /* NULL: none */

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
