/* Products inside other kernels, without libxsmm or with nothing to sum. */
#include "op/product/product.h"

enum { COLUMNS = 64 };

/* A piece of a row of c: k products for each of `width` columns. */
static void piece(const ipu__product *p, const float *a, int64_t a_step, const float *b, float *c, int width)
{
    float sum[COLUMNS] = {0};
    for (int64_t q = 0; q < p->k; q++) {
        const float *row = b + q * p->ldb;
        float        x   = a[q * a_step];
        if (width == COLUMNS)
            for (int l = 0; l < COLUMNS; l++) sum[l] += x * row[l];
        else
            for (int l = 0; l < width; l++) sum[l] += x * row[l];
    }
    for (int l = 0; l < width; l++) c[l] = p->add ? c[l] + sum[l] : sum[l];
}

static void run(const ipu__product *p, const float *a, const float *b, float *c)
{
    int64_t a_row = p->transpose_a ? 1 : p->lda, a_step = p->transpose_a ? p->lda : 1;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j += COLUMNS)
            piece(p, a + i * a_row, a_step, b + j, c + i * p->ldc + j,
                  (int)(p->n - j < COLUMNS ? p->n - j : COLUMNS));
}

const ipu__product_loops IPU__SIMD(ipu__product_loops) = {.run = run};
