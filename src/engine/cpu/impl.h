/* Kernel implementations for the CPU engine: the struct that records of ops fill in and the engine uses.
 *
 * Operands are host pointers. Their layouts need not be plain, and a call is divided into parts that run concurrently
 * on the engine's threads.
 */
#ifndef IPU_ENGINE_CPU_IMPL_H
#define IPU_ENGINE_CPU_IMPL_H

#include "graph/kernel.h"

#define IPU__CPU_ENGINE "cpu" /* its name */

/* ---- layouts ---- */

/* The memory layout of an operand in a host buffer: call->layout. Each layout is a permutation of the elements: a
 * buffer has the same size in all of them, and a view that keeps the dimensions named here keeps the layout. */
enum { IPU__LAYOUT_WIDTH = 16 };

typedef enum ipu__memory_layout {
    IPU__LAYOUT_PLAIN,   /* row-major */
    IPU__LAYOUT_LANES,   /* [n / 16][rest][16]: 16 indices of dimension 0, a multiple of 16, innermost */
    IPU__LAYOUT_BLOCKED, /* [n][c / 16][rest][16]: the same for dimension 1; `rest` is at least one dimension */
    IPU__N_LAYOUTS
} ipu__memory_layout;

#define IPU__LAYOUT_BIT(layout) (1u << (layout))

/* Whether values of that shape can have that layout. */
bool ipu__layout_fits(ipu__memory_layout layout, const ipu_shape *shape);
/* "plain", "lanes", "blocked" */
const char *ipu__layout_name(ipu__memory_layout layout);

/* What an implementation can do with one operand. It always accepts plain ones. */
typedef struct ipu__kernel_layouts {
    unsigned takes;  /* layouts (bits) that it accepts, converting them itself if need be */
    unsigned native; /* layouts (bits) without conversion; the engine adds up bytes of others */
    bool     tied;   /* has the same layout as all other tied operands of the call */
} ipu__kernel_layouts;

/* ---- implementations ---- */

/* What `fits` is given. */
typedef struct ipu__cpu_machine {
    unsigned features; /* base/host/cpu.h */
} ipu__cpu_machine;

/* The machine this process runs on. */
const ipu__cpu_machine *ipu__cpu_machine_here(void);

/* For use in `fits`: the features of its `machine`. */
static inline unsigned ipu__cpu_features_of(const void *machine)
{
    return ((const ipu__cpu_machine *)machine)->features;
}

typedef struct ipu__cpu_impl {
    ipu__kernel_impl head; /* `machine` is an ipu__cpu_machine */
    /* Which layouts operand `operand` may have. NULL if all operands must be plain. Here and in `fits`, `call` is
     * all plain; the functions that follow see the chosen layouts in call->layout. */
    ipu__kernel_layouts (*layouts)(const ipu__kernel_call *call, int n_parts, int operand);
    /* Scratch bytes per part. NULL for none. SIZE_MAX on allocation failure. */
    size_t (*scratch_bytes)(const ipu__kernel_call *call, int n_parts);
    /* On load: creates what `run` needs. If NULL, *state stays NULL. Undone by `release`. */
    ipu_status (*prepare)(const ipu__kernel_call *call, int n_parts, void **state);
    void (*release)(void *state);
    /* Runs part `part` of `n_parts`, which together do everything without overlapping in what they write.
     * Must not allocate or start threads. `operand[i]` and `scratch` are aligned to 64 bytes, inputs lent by
     * the host to 16. The same part of the same state never runs twice concurrently, so it may keep things
     * in `state`. */
    ipu_status (*run)(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                      int part, int n_parts);
    /* The stretch of an output with rows that a part writes completely, as elements in memory order. For
     * implementations that wrap this one; only asked when images are in lanes. NULL if unspecified. */
    ipu_interval (*writes)(const ipu__kernel_call *call, int operand, int part, int n_parts);
} ipu__cpu_impl;

/* For `implementations` of a record, made from an array of these: an element of the list; or, in a record at file
 * scope, the whole list if no other engine has any. */
#define IPU__CPU_IMPLS(array)                                                         \
    {                                                                                 \
        .engine = IPU__CPU_ENGINE, .first = &(array)->head, .bytes = sizeof *(array), \
        .n = sizeof(array) / sizeof *(array)                                          \
    }
#define IPU__ON_CPU(array) ((const ipu__kernel_impls[]){IPU__CPU_IMPLS(array), {.engine = NULL}})

/* The implementations of a kernel; `at` is NULL if there are none. */
typedef struct ipu__cpu_impls {
    const ipu__cpu_impl *at;
    int                  n;
} ipu__cpu_impls;
ipu__cpu_impls ipu__cpu_impls_of(const ipu__kernel_def *def);

/* The first that fits; NULL if none does. */
const ipu__cpu_impl *ipu__cpu_find_impl(const ipu__kernel_call *call, const ipu__cpu_machine *machine,
                                        int n_parts);

#endif
