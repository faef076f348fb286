/* Small products of float matrices by code that libxsmm generates at load, and blocks of large ones.
 *
 * All matrices are row-major: c[m][n] (+)= a[m][k] b[k][n]. libxsmm's own functions, which would call a BLAS
 * for large products, are not used, only its kernels of fixed size, which make no choices at run time.
 */
#ifndef IPU_OP_PRODUCT_XSMM_H
#define IPU_OP_PRODUCT_XSMM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/simd.h"
#include "base/status.h"
#include "ipu/type.h"

/* Note the order: libxsmm's matrices are column-major, which swaps the operands. */
typedef void (*ipu__xsmm_fn)(const float *b, const float *a, float *c);

/* Whether libxsmm is available and can generate code for a CPU with these features. */
bool ipu__xsmm_works(unsigned cpu_features);

/* `transpose_a`: a is stored as [k][m]. `add`: to the contents of c. NULL if not available. Kept until
 * exit. */
ipu__xsmm_fn ipu__xsmm_get(int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                           bool transpose_a, bool add);

/* A product in blocks of at most mb x nb x kb, with kernels for whole blocks and remainders. */
typedef struct ipu__xsmm_blocks {
    int64_t      m, n, k, mb, nb, kb;
    ipu__xsmm_fn kernel[2][2][2][2]; /* [rest of m][rest of n][rest of k][add] */
} ipu__xsmm_blocks;

/* Splits `n` into even blocks of about `size`, each a multiple of `grain` except the last. */
int64_t ipu__xsmm_block(int64_t n, int64_t size, int64_t grain);

/* Sizes must be set; gets the kernels they need. Statuses: UNSUPPORTED. */
ipu_status ipu__xsmm_blocks_make(ipu__xsmm_blocks *blocks, int64_t lda, int64_t ldb, int64_t ldc,
                                 bool transpose_a, bool always_add);

/* The block of `rows` x `columns` x `depth`, each the block size or a remainder. */
static inline void ipu__xsmm_run(const ipu__xsmm_blocks *blocks, const float *a, const float *b, float *c,
                                 int64_t rows, int64_t columns, int64_t depth, bool add)
{
    blocks->kernel[rows != blocks->mb][columns != blocks->nb][depth != blocks->kb][add](b, a, c);
}

/* ---- loops: xsmm_simd.c ---- */

enum { IPU__DOT_ROWS = 4 };

typedef struct ipu__xsmm_loops {
    /* out[r] = x . w[r], rows of w `w_step` apart. */
    void (*dots)(const float *x, const float *w, int64_t w_step, int64_t n, float out[IPU__DOT_ROWS]);
    void (*from_bfloat16)(const ipu_bfloat16 *from, float *to, int64_t n);
    void (*to_bfloat16)(const float *from, ipu_bfloat16 *to, int64_t n);
    /* Adds to rows of `out`, `step` apart, and clamps negative results to 0 if `relu`. */
    void (*bias)(const float *bias, float *out, int64_t step, int64_t rows, int64_t n, bool relu);
    /* to[j][i] = from[i][j]. */
    void (*transpose)(const float *from, int64_t from_ld, float *to, int64_t to_ld, int64_t rows,
                      int64_t columns);
} ipu__xsmm_loops;

IPU__SIMD_DECLARE(extern const ipu__xsmm_loops, ipu__xsmm_loops_at)

/* ---- moving floats: xsmm_pack.c ---- */

/* to[j][i] = from[i][j]. */
void ipu__transpose_floats(const float *from, int64_t from_ld, float *to, int64_t to_ld, int64_t rows,
                           int64_t columns);
/* to[i] = from[i], from half, bfloat16 or float; and back. */
void ipu__to_floats(ipu_type type, const void *from, float *to, int64_t n);
void ipu__from_floats(ipu_type type, const float *from, void *to, int64_t n);
/* Likewise for rows that are `step` and `to_step` elements apart. */
void ipu__rows_to_floats(ipu_type type, const void *from, int64_t step, float *to, int64_t to_step,
                         int64_t rows, int64_t n);
void ipu__rows_from_floats(ipu_type type, const float *from, int64_t step, void *to, int64_t to_step,
                           int64_t rows, int64_t n);

#endif
