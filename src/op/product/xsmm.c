/* Products in blocks: their sizes, and the kernels they need. */
#include "op/product/xsmm.h"

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
