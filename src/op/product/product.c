/* Products inside other kernels: blocks of columns that stay in a core's cache, by libxsmm's kernels. */
#include "op/product/product.h"

#include "base/host/cpu.h"

/* Of b's block: what a core's own cache holds beside rows of a and c (facts: L2 of 1.25 MB, L1 of 48 KB). */
enum { BLOCK_FLOATS = 64 * 1024, MAX_DEPTH = 512, LEAST_COLUMNS = 64 };

void ipu__product_make(ipu__product *p)
{
    p->has_kernels = false;
    if (p->m == 0 || p->n == 0 || p->k == 0 || !ipu__xsmm_works(ipu__cpu_features())) return;
    ipu__xsmm_blocks *blocks = &p->blocks;
    *blocks                  = (ipu__xsmm_blocks){.m = p->m, .n = p->n, .k = p->k, .mb = p->m};
    blocks->kb               = ipu__xsmm_block(p->k, MAX_DEPTH, 8);
    int64_t columns          = BLOCK_FLOATS / blocks->kb;
    blocks->nb               = ipu__xsmm_block(p->n, columns > LEAST_COLUMNS ? columns : LEAST_COLUMNS, 16);
    p->has_kernels = ipu__xsmm_blocks_make(blocks, p->lda, p->ldb, p->ldc, p->transpose_a, p->add) == IPU_OK;
}

void ipu__product_run(const ipu__product *p, const float *a, const float *b, float *c)
{
    if (!p->has_kernels) {
        IPU__SIMD_PICK(ipu__product_loops).run(p, a, b, c);
        return;
    }
    const ipu__xsmm_blocks *blocks = &p->blocks;
    for (int64_t j = 0; j < p->n; j += blocks->nb)
        for (int64_t q = 0; q < p->k; q += blocks->kb) {
            int64_t columns = p->n - j < blocks->nb ? p->n - j : blocks->nb;
            int64_t depth   = p->k - q < blocks->kb ? p->k - q : blocks->kb;
            ipu__xsmm_run(blocks, a + q * (p->transpose_a ? p->lda : 1), b + q * p->ldb + j, c + j, p->m,
                          columns, depth, p->add || q > 0);
        }
}
