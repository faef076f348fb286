/* What implementations by oneDNN share: its statuses as ours, and one thread while primitives are made. */
#ifndef IPU_OP_DNNL_H
#define IPU_OP_DNNL_H

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "base/simd.h"
#include "base/status.h"

static inline ipu_status ipu__fail_dnnl(dnnl_status_t status, const char *op, const char *what)
{
    if (status == dnnl_out_of_memory) return ipu__fail_memory();
    return ipu__fail(IPU_UNSUPPORTED, "%s: oneDNN could not %s: its status is %d", op, what, (int)status);
}

#define IPU__TRY_DNNL(call, op, what)                                              \
    do {                                                                           \
        dnnl_status_t status_ = (call);                                            \
        if (status_ != dnnl_success) return ipu__fail_dnnl(status_, (op), (what)); \
    } while (0)

/* The caller's setting, for ipu__dnnl_leave. oneDNN writes code for no more than we were told the CPU has; it heeds that
 * if it has not been asked for anything before. */
static inline int ipu__dnnl_enter(void)
{
    if (!ipu__simd_has(IPU__SIMD_AVX512))
        dnnl_set_max_cpu_isa(ipu__simd_has(IPU__SIMD_AVX2) ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41);
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    return threads;
}

static inline void ipu__dnnl_leave(int threads) { omp_set_num_threads(threads); }

#endif
