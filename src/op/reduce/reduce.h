/* Reductions inside: which elements go to which output, and how partial results are combined.
 *
 * Neighbouring dimensions that are all reduced or all kept count as one. The innermost of what remains is
 * the run: elements next to each other in memory, either reduced to one output or each its own output.
 *
 * Leaves are up to 1024 elements of a run that is reduced, or 32 rows where it is kept. The results of
 * leaves are combined as a binary tree whose shape depends on their number only: neither threads nor the
 * blocks that threads share change a bit of the result, and the error of a sum grows with the logarithm of
 * its length.
 */
#ifndef IPU_OP_REDUCE_REDUCE_H
#define IPU_OP_REDUCE_REDUCE_H

#include "base/simd.h"
#include "engine/cpu/impl.h"
#include "op/op.h"

enum { IPU__REDUCE_LEAF = 1024, IPU__REDUCE_ROWS = 32, IPU__REDUCE_COLUMNS = 512 };

typedef struct ipu__reduce_dims {
    int     rank;
    int64_t n; /* product of dim */
    int64_t dim[IPU_MAX_RANK], step[IPU_MAX_RANK];
} ipu__reduce_dims;

typedef struct ipu__reduction {
    bool             is_run_reduced;
    int64_t          run;           /* elements */
    ipu__reduce_dims kept, reduced; /* without the run */
    int64_t          n_out, n_each; /* outputs; elements reduced to each */
} ipu__reduction;

ipu__reduction ipu__reduction_get(const ipu_shape *shape, const bool is_reduced[IPU_MAX_RANK]);

/* Where combination `i` of these dimensions begins. */
int64_t ipu__reduce_offset(const ipu__reduce_dims *dims, int64_t i);

typedef enum ipu__reduce_kind {
    IPU__REDUCE_SUM,
    IPU__REDUCE_MEAN,
    IPU__REDUCE_SUM_SQUARE,
    IPU__REDUCE_PROD,
    IPU__REDUCE_MAX,
    IPU__REDUCE_MIN,
    IPU__REDUCE_ANY,
    IPU__REDUCE_ALL,
    IPU__N_REDUCE_KINDS
} ipu__reduce_kind;

ipu__reduce_kind ipu__reduce_kind_of(const ipu__kernel_call *call);
/* Attributes "axes" and "keep_dims", which `infer` has seen. */
ipu__reduction ipu__reduction_of(const ipu__kernel_call *call);

/* Something that was broadcast from `shape`, summed back to it. */
ipu_value ipu__sum_to(ipu_builder *b, ipu_value from, const ipu_shape *shape);

/* ---- loops (reduce_simd.c) ---- */

typedef enum ipu__reduce_fold {
    IPU__FOLD_SUM,
    IPU__FOLD_SUM_SQUARE,
    IPU__FOLD_PROD,
    IPU__FOLD_MAX,
    IPU__FOLD_MIN,
    IPU__N_FOLDS
} ipu__reduce_fold;

/* What partial results are kept in; half and bfloat16 in float, others in their own type. */
typedef enum ipu__reduce_sum {
    IPU__SUM_FLOAT,
    IPU__SUM_DOUBLE,
    IPU__SUM_INT8,
    IPU__SUM_UINT8,
    IPU__SUM_INT16,
    IPU__SUM_UINT16,
    IPU__SUM_INT32,
    IPU__SUM_UINT32,
    IPU__SUM_INT64,
    IPU__SUM_UINT64,
    IPU__SUM_BOOL,
    IPU__N_SUMS
} ipu__reduce_sum;

typedef struct ipu__reduce_loops {
    void (*run)(const void *x, int64_t n, void *out); /* n elements to one */
    /* n_columns partial results, each folded with its column of rows that are `step` elements apart */
    void (*rows)(void *acc, const void *x, int64_t n_rows, int64_t step, int64_t n_columns);
} ipu__reduce_loops;

typedef struct ipu__reduce_table {
    ipu__reduce_loops at[IPU__N_SUMS][IPU__N_FOLDS];
} ipu__reduce_table;
IPU__SIMD_DECLARE(extern const ipu__reduce_table, ipu__reduce_loops_at)

/* ---- kernels (kernel.c) ---- */

void       ipu__reduce_ref(const ipu__kernel_call *call, void *const *operand);
double     ipu__reduce_work(const ipu__kernel_call *call);
ipu_status ipu__reduce_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out);

/* Work on `n_rows` rows of `n`, each as a whole, that takes `n_sums` sums over the row on the way. Tiles hold
 * whole rows, or share rows and exchange sums, whichever is less. */
ipu_status ipu__reduce_plan_rows(const ipu__op_loop *loop, int64_t n_rows, int64_t n, int n_sums,
                                 const ipu_target *target, ipu__kernel_plan *out);

extern const ipu__cpu_impl ipu__reduce_implementations[1];

/* ---- planes (planes.c) ---- */

ipu__kernel_layouts ipu__reduce_layouts(const ipu__kernel_call *call, int n_parts, int operand);
/* False: it is no sum or mean of planes, and plain. */
bool ipu__reduce_planes_run(const ipu__kernel_call *call, void *const *operand, int part, int n_parts);

#endif
