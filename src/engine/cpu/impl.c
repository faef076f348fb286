/* Implementations for the CPU engine: layouts, the machine's features, and those that a kernel has. */
#include "engine/cpu/impl.h"

#include <pthread.h>

#include "base/host/cpu.h"

bool ipu__layout_fits(ipu__memory_layout layout, const ipu_shape *shape)
{
    if (layout == IPU__LAYOUT_PLAIN) return true;
    int dim = layout == IPU__LAYOUT_LANES ? 0 : 1;
    return shape->rank > dim + 1 && shape->dim[dim] > 0 && shape->dim[dim] % IPU__LAYOUT_WIDTH == 0;
}

const char *ipu__layout_name(ipu__memory_layout layout)
{
    static const char *const names[] = {
        [IPU__LAYOUT_PLAIN] = "plain", [IPU__LAYOUT_LANES] = "lanes", [IPU__LAYOUT_BLOCKED] = "blocked"};
    return names[layout];
}

static ipu__cpu_machine here;

static void find_out(void) { here.features = ipu__cpu_features(); }

const ipu__cpu_machine *ipu__cpu_machine_here(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_out);
    return &here;
}

ipu__cpu_impls ipu__cpu_impls_of(const ipu__kernel_def *def)
{
    ipu__kernel_impls impls = ipu__kernel_impls_of(def, IPU__CPU_ENGINE);
    return (ipu__cpu_impls){(const ipu__cpu_impl *)impls.first, impls.n};
}

const ipu__cpu_impl *ipu__cpu_find_impl(const ipu__kernel_call *call, const ipu__cpu_machine *machine,
                                        int n_parts)
{
    return (const ipu__cpu_impl *)ipu__kernel_find_impl(call, IPU__CPU_ENGINE, machine, n_parts);
}
