/* Shared by implementations using oneDNN: converting its statuses, and limiting it to one thread while
 * primitives are created. */
#ifndef IPU_OP_PRODUCT_DNNL_H
#define IPU_OP_PRODUCT_DNNL_H

#include <omp.h>
#include <stdbool.h>
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

/* Limits oneDNN to the CPU features we were told of, and never AMX: oneDNN 2.6's code for it stops with an
 * illegal instruction in 8-bit products. Effective only before its first use. */
static inline void ipu__dnnl_limit(void)
{
    dnnl_set_max_cpu_isa(ipu__simd_has(IPU__SIMD_AVX512) ? dnnl_cpu_isa_avx512_core_bf16
                         : ipu__simd_has(IPU__SIMD_AVX2) ? dnnl_cpu_isa_avx2
                                                         : dnnl_cpu_isa_sse41);
}

/* Whether its AMX code would be used, because something else in this process (PyTorch) used it first. */
static inline bool ipu__dnnl_uses_amx(void)
{
    ipu__dnnl_limit();
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx;
}

/* Returns the caller's setting, for ipu__dnnl_leave. */
static inline int ipu__dnnl_enter(void)
{
    ipu__dnnl_limit();
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    return threads;
}

static inline void ipu__dnnl_leave(int threads) { omp_set_num_threads(threads); }

#endif
