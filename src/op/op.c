/* The list of kernels, and what they share.
 *
 * requires: shapes checked by the graph.
 */
#include "op/op.h"

#include <math.h>

#include "base/text.h"

const ipu_kernel_def *const ipu__kernels[] = {
#define KERNEL(name) &ipu__kernel_##name,
#include "op/kernels.inc"
#undef KERNEL
    NULL};

ipu_status ipu__op_check_operands(const ipu_kernel_call *call)
{
    const ipu_kernel_def *def = call->def;
    if (call->n_operands == def->n_operands) return IPU_OK;
    ipu__text names = {0};
    for (int i = 0; i < def->n_operands; i++)
        ipu__text_add(&names, "%s%s", i ? ", " : "", def->operands[i].name);
    ipu_status status = names.failed ? ipu__fail_memory()
                                     : ipu__fail(IPU_INVALID, "%s: expected %d operand%s (%s), found %d",
                                                 def->name, def->n_operands, def->n_operands == 1 ? "" : "s",
                                                 names.at, call->n_operands);
    ipu__text_fini(&names);
    return status;
}

int64_t ipu__op_n_elements(const ipu_shape *shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape->rank; i++) n *= shape->dim[i];
    return n;
}

bool ipu__op_fits_always(const ipu_kernel_call *call, unsigned cpu_features, int n_parts)
{
    (void)call, (void)cpu_features, (void)n_parts;
    return true;
}

ipu_interval ipu__op_part(int64_t n, int64_t grain, int part, int n_parts)
{
    int64_t grains = ipu__op_ceil_div(n, grain);
    int64_t begin = grains * part / n_parts * grain, end = grains * (part + 1) / n_parts * grain;
    return (ipu_interval){begin < n ? begin : n, end < n ? end : n};
}

int64_t ipu__op_line(ipu_type type) { return 64 / (int64_t)ipu_type_size(type); }

ipu_status ipu__op_constant(const ipu_target *target, const char *name, double *out)
{
    ipu_constant constant;
    IPU_TRY(ipu_target_constant(target, name, &constant));
    *out = constant.value;
    return IPU_OK;
}

double ipu__op_loop_cycles(const ipu__op_loop *loop, double n, double launch_cycles, double n_workers)
{
    double loops = ceil(ceil(n / n_workers) / loop->step);
    /* Workers take turns: a cycle of each is n_workers cycles of the tile. */
    return launch_cycles + n_workers * (loop->start + loops * loop->loop_cycles);
}

ipu_status ipu__op_plan_loop(const ipu__op_loop *loop, int64_t n, int64_t grain, const ipu_target *target,
                             ipu_kernel_plan *out)
{
    *out = (ipu_kernel_plan){0};
    if (n == 0) return IPU_OK;
    double launch_cycles;
    IPU_TRY(ipu__op_constant(target, "compute_set_launch_cycles", &launch_cycles));
    int64_t per_tile = ipu__op_ceil_div(ipu__op_ceil_div(n, grain), ipu_target_n_tiles(target)) * grain;
    if (per_tile > n) per_tile = n;
    double cycles = ipu__op_loop_cycles(loop, (double)per_tile, launch_cycles,
                                        (double)ipu_target_n_workers(target));
    out->n_tiles  = ipu__op_ceil_div(n, per_tile);
    out->cycles   = ipu__op_count(cycles);
    return IPU_OK;
}

int64_t ipu__op_count(double value) { return value < 0x1p63 ? (int64_t)value : INT64_MAX; }
