/* libxsmm's kernels. Where the library is not at hand (IPU__HAVE_XSMM), none works and nothing else changes. */
#include "op/xsmm.h"

#include "base/cpu.h"

#ifdef IPU__HAVE_XSMM
#include <libxsmm.h>

bool ipu__xsmm_works(unsigned cpu_features)
{
    return (cpu_features & IPU__CPU_AVX2) != 0 && (cpu_features & IPU__CPU_FMA) != 0;
}

ipu__xsmm_fn ipu__xsmm_get(int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                           bool transpose_a, bool add)
{
    const int64_t most = 1 << 30;
    if (m < 1 || n < 1 || k < 1 || m > most || n > most || k > most || lda > most || ldb > most || ldc > most)
        return NULL;
    libxsmm_blasint a = (libxsmm_blasint)lda, b = (libxsmm_blasint)ldb, c = (libxsmm_blasint)ldc;
    const float     alpha = 1, beta = add ? 1 : 0;
    const int       flags = transpose_a ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
    libxsmm_init();
    return (ipu__xsmm_fn)libxsmm_smmdispatch((libxsmm_blasint)n, (libxsmm_blasint)m, (libxsmm_blasint)k, &b,
                                             &a, &c, &alpha, &beta, &flags, NULL);
}
#else
bool ipu__xsmm_works(unsigned cpu_features)
{
    (void)cpu_features;
    return false;
}

ipu__xsmm_fn ipu__xsmm_get(int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                           bool transpose_a, bool add)
{
    (void)m, (void)n, (void)k, (void)lda, (void)ldb, (void)ldc, (void)transpose_a, (void)add;
    return NULL;
}
#endif

int64_t ipu__xsmm_block(int64_t n, int64_t size, int64_t grain)
{
    if (n <= size) return n;
    int64_t parts = (n + size - 1) / size, even = (n + parts - 1) / parts;
    return (even + grain - 1) / grain * grain;
}

ipu_status ipu__xsmm_blocks_make(ipu__xsmm_blocks *b, int64_t lda, int64_t ldb, int64_t ldc, bool transpose_a,
                                 bool always_add)
{
    const int64_t m[] = {b->mb, b->m % b->mb}, n[] = {b->nb, b->n % b->nb}, k[] = {b->kb, b->k % b->kb};
    for (int bits = 0; bits < 16; bits++) {
        int  i = bits & 1, j = bits >> 1 & 1, p = bits >> 2 & 1, add = bits >> 3;
        bool is_first = p == 0 && !always_add; /* the first block of k is a whole one */
        bool is_later = always_add || b->k > b->kb;
        if (m[i] == 0 || n[j] == 0 || k[p] == 0 || !(add ? is_later : is_first)) continue;
        b->kernel[i][j][p][add] = ipu__xsmm_get(m[i], n[j], k[p], lda, ldb, ldc, transpose_a, add);
        if (!b->kernel[i][j][p][add])
            return ipu__fail(IPU_UNSUPPORTED, "libxsmm has no kernel for %lld x %lld x %lld", (long long)m[i],
                             (long long)n[j], (long long)k[p]);
    }
    return IPU_OK;
}
