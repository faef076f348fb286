/* What the kernels of the op library share: operand checks, splitting, pricing.
 *
 * A kernel is a record `ipu__kernel_<name>` in the file of its family and a line in kernels.inc.
 */
#ifndef IPU_OP_OP_H
#define IPU_OP_OP_H

#include "graph/kernel.h"

#define KERNEL(name) extern const ipu_kernel_def ipu__kernel_##name;
#include "op/kernels.inc"
#undef KERNEL

/* As many operands as the record has, or INVALID with their names. */
ipu_status ipu__op_check_operands(const ipu_kernel_call *call);

/* Elements of a shape that was checked when its tensor was made: cannot overflow. */
int64_t ipu__op_n_elements(const ipu_shape *shape);

/* For implementations that do every call that passes `check`. */
bool ipu__op_fits_always(const ipu_kernel_call *call, unsigned cpu_features, int n_parts);

/* Which of `n` elements part `part` of `n_parts` does: whole grains but at the end, as even as can be. */
ipu_interval ipu__op_part(int64_t n, int64_t grain, int part, int n_parts);

/* Elements of a type that fill a cache line: the grain at which parts do not share lines. */
int64_t ipu__op_line(ipu_type type);

static inline int64_t ipu__op_ceil_div(int64_t n, int64_t by) { return n / by + (n % by != 0); }

/* ---- pricing ---- */

/* The value of a constant of the chip. Statuses: those of ipu_target_constant. */
ipu_status ipu__op_constant(const ipu_target *target, const char *name, double *out);

/* A vertex that loops over its elements with all workers of its tile: what each worker spends
 * before its loop, then `loop_cycles` for every `step` elements. */
typedef struct ipu__op_loop {
    double start, step, loop_cycles;
} ipu__op_loop;

/* Cycles of the tile for `n` elements; `launch_cycles` is the supervisor's share. */
double ipu__op_loop_cycles(const ipu__op_loop *loop, double n, double launch_cycles, double n_workers);

/* `n` elements dealt evenly to all tiles in grains, one such vertex on each; nothing is exchanged. */
ipu_status ipu__op_plan_loop(const ipu__op_loop *loop, int64_t n, int64_t grain, const ipu_target *target,
                             ipu_kernel_plan *out);

/* Counts that were computed in double because products may pass 2^63; those end there. */
int64_t ipu__op_count(double value);

#endif
