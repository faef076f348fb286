/* What an implementation of a kernel is for the CPU engine: for records of ops, which fill it in, and for the engine.
 *
 * Operands are host pointers. They may lie in other layouts than the plain one, and a call is done in parts, which run at
 * once on threads of the engine.
 */
#ifndef IPU_ENGINE_CPU_IMPL_H
#define IPU_ENGINE_CPU_IMPL_H

#include "graph/kernel.h"

#define IPU__CPU_ENGINE "cpu" /* its name */

/* ---- layouts ---- */

/* How an operand lies in a host buffer: call->layout. Each is a permutation of the elements: a buffer has one size in all
 * of them, and a view that keeps the dimensions named here keeps the layout. */
enum { IPU__LAYOUT_WIDTH = 16 };

typedef enum ipu_layout {
    IPU_LAYOUT_PLAIN,   /* row-major */
    IPU_LAYOUT_LANES,   /* [n / 16][rest][16]: sixteen of dimension 0, which is a multiple of 16, innermost */
    IPU_LAYOUT_BLOCKED, /* [n][c / 16][rest][16]: so dimension 1; `rest` is at least one dimension */
    IPU__N_LAYOUTS
} ipu_layout;

#define IPU_LAYOUT_BIT(layout) (1u << (layout))

/* Whether values of that shape can lie so. */
bool ipu__layout_fits(ipu_layout layout, const ipu_shape *shape);
/* "plain", "lanes", "blocked" */
const char *ipu__layout_name(ipu_layout layout);

/* What an implementation can do with one operand. It takes plain ones in any case. */
typedef struct ipu_kernel_layouts {
    unsigned takes; /* bits of layouts: what it can work on, turning it itself if need be */
    unsigned
         native; /* bits: those in which it need not be turned; the engine adds up the bytes of the others */
    bool tied;   /* it has one layout with all other tied operands of the call */
} ipu_kernel_layouts;

/* ---- implementations ---- */

/* What `fits` is told. */
typedef struct ipu__cpu_machine {
    unsigned features; /* base/host/cpu.h */
} ipu__cpu_machine;

/* The one this process is on. */
const ipu__cpu_machine *ipu__cpu_machine_here(void);

/* For `fits`: the features of its `machine`. */
static inline unsigned ipu__cpu_features_of(const void *machine)
{
    return ((const ipu__cpu_machine *)machine)->features;
}

typedef struct ipu__cpu_impl {
    ipu_kernel_impl head; /* `machine` is an ipu__cpu_machine */
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
} ipu__cpu_impl;

/* For `implementations` of a record, from an array of these: an element of the list; and, in a record at file scope, all of
 * the list where no other engine has any. */
#define IPU__CPU_IMPLS(array)                                                         \
    {                                                                                 \
        .engine = IPU__CPU_ENGINE, .first = &(array)->head, .bytes = sizeof *(array), \
        .n = sizeof(array) / sizeof *(array)                                          \
    }
#define IPU__ON_CPU(array) ((const ipu_kernel_impls[]){IPU__CPU_IMPLS(array), {.engine = NULL}})

/* Those of a kernel; `at` is NULL if there are none. */
typedef struct ipu__cpu_impls {
    const ipu__cpu_impl *at;
    int                  n;
} ipu__cpu_impls;
ipu__cpu_impls ipu__cpu_impls_of(const ipu_kernel_def *def);

/* The first that fits; NULL: none. */
const ipu__cpu_impl *ipu__cpu_find_impl(const ipu_kernel_call *call, const ipu__cpu_machine *machine,
                                        int n_parts);

#endif
