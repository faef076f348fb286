/* What implementations by oneDNN share: its statuses as ours, and one thread while primitives are made. */
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

/* oneDNN writes code for no more than we were told the CPU has, and none for AMX: that of oneDNN 2.6 stops with an
 * illegal instruction in products of 8 bits. It heeds this if it has not been asked for anything before. */
static inline void ipu__dnnl_limit(void)
{
    dnnl_set_max_cpu_isa(ipu__simd_has(IPU__SIMD_AVX512) ? dnnl_cpu_isa_avx512_core_bf16
                         : ipu__simd_has(IPU__SIMD_AVX2) ? dnnl_cpu_isa_avx2
                                                         : dnnl_cpu_isa_sse41);
}

/* Whether its code for AMX would be used, as somebody in this process (PyTorch) asked it for something first. */
static inline bool ipu__dnnl_uses_amx(void)
{
    ipu__dnnl_limit();
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx;
}

/* The caller's setting, for ipu__dnnl_leave. */
static inline int ipu__dnnl_enter(void)
{
    ipu__dnnl_limit();
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    return threads;
}

static inline void ipu__dnnl_leave(int threads) { omp_set_num_threads(threads); }

#endif
