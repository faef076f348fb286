/* Determinants, inverses and the gradient of determinants, of batches of square matrices.
 *
 * All by Gaussian elimination with complete pivoting in double, whatever the type: P A Q = L U. A singular
 * matrix has a last pivot of exactly 0 or near it; its cofactors are still correct.
 */
#include "ipu/op/linalg.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/matmul.h"
#include "ipu/op/shape.h"
#include "op/number.h"
#include "op/op.h"

/* ---- factors ---- */

/* a: L below the diagonal (its own is 1), U on and above. Element (i, j) of it was (row[i], column[j]). */
typedef struct factors {
    int64_t  n, rank;
    double  *a, *inverse;
    int64_t *row, *column;
    double   sign;
} factors;

static size_t factors_bytes(int64_t n)
{
    double bytes = 16 * (double)n * (double)n + 16 * (double)n;
    return bytes < 0x1p47 ? (size_t)bytes : SIZE_MAX;
}

static factors factors_in(void *memory, int64_t n)
{
    factors f = {.n = n, .a = memory};
    f.inverse = f.a + n * n;
    f.row     = (int64_t *)(void *)(f.inverse + n * n);
    f.column  = f.row + n;
    return f;
}

static void swap_rows(factors *f, int64_t i, int64_t k)
{
    if (i == k) return;
    int64_t row = f->row[i];
    f->row[i]   = f->row[k];
    f->row[k]   = row;
    f->sign     = -f->sign;
    for (int64_t j = 0; j < f->n; j++) {
        double v           = f->a[i * f->n + j];
        f->a[i * f->n + j] = f->a[k * f->n + j];
        f->a[k * f->n + j] = v;
    }
}

static void swap_columns(factors *f, int64_t j, int64_t k)
{
    if (j == k) return;
    int64_t column = f->column[j];
    f->column[j]   = f->column[k];
    f->column[k]   = column;
    f->sign        = -f->sign;
    for (int64_t i = 0; i < f->n; i++) {
        double v           = f->a[i * f->n + j];
        f->a[i * f->n + j] = f->a[i * f->n + k];
        f->a[i * f->n + k] = v;
    }
}

/* The largest of what is left to corner (k, k). */
static double pivot(factors *f, int64_t k)
{
    int64_t best_i = k, best_j = k;
    double  best = -1;
    for (int64_t i = k; i < f->n; i++)
        for (int64_t j = k; j < f->n; j++)
            if (fabs(f->a[i * f->n + j]) > best) {
                best   = fabs(f->a[i * f->n + j]);
                best_i = i;
                best_j = j;
            }
    swap_rows(f, k, best_i);
    swap_columns(f, k, best_j);
    return f->a[k * f->n + k];
}

static void factor(factors *f, ipu_type type, const void *x, int64_t matrix)
{
    int64_t n = f->n;
    for (int64_t i = 0; i < n * n; i++) f->a[i] = ipu__number_load(type, x, matrix * n * n + i);
    for (int64_t i = 0; i < n; i++) f->row[i] = f->column[i] = i;
    f->sign = 1;
    f->rank = 0;
    for (int64_t k = 0; k < n; k++) {
        double p = pivot(f, k);
        if (p == 0) return; /* and so is all that is left */
        f->rank++;
        for (int64_t i = k + 1; i < n; i++) {
            double by = f->a[i * n + k] /= p;
            for (int64_t j = k + 1; j < n; j++) f->a[i * n + j] -= by * f->a[k * n + j];
        }
    }
}

static double product_of_pivots(const factors *f)
{
    double p = f->sign;
    for (int64_t i = 0; i < f->rank; i++) p *= f->a[i * f->n + i];
    return p;
}

static double determinant(const factors *f) { return f->rank == f->n ? product_of_pivots(f) : 0; }

/* f->inverse: column by column, L y = P e, U z = y. NaN if there is none. */
static void invert(factors *f)
{
    int64_t n = f->n;
    double *a = f->a, *to = f->inverse;
    for (int64_t c = 0; c < n; c++) { /* what was row[c] */
        int64_t at = f->row[c];
        for (int64_t i = 0; i < n; i++) {
            double v = i == c;
            for (int64_t j = c; j < i; j++) v -= a[i * n + j] * to[f->column[j] * n + at];
            to[f->column[i] * n + at] = v;
        }
        for (int64_t i = n - 1; i >= 0; i--) {
            double v = to[f->column[i] * n + at];
            for (int64_t j = i + 1; j < n; j++) v -= a[i * n + j] * to[f->column[j] * n + at];
            to[f->column[i] * n + at] = f->rank == n ? v / a[i * n + i] : (double)NAN;
        }
    }
}

/* The gradient of the determinant: f->inverse receives det(A) A^-T. For a rank of n - 1 that is sign times
 * the product of pivots times z v^T (permuted back), where L^T z = e_n and U v = 0, v_n = 1: both are found
 * in the last row and column of L and U. */
static void find_cofactors(factors *f)
{
    int64_t n = f->n;
    double *a = f->a, *to = f->inverse, scale = product_of_pivots(f);
    if (f->rank == n) {
        invert(f);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++) {
                double v      = scale * to[i * n + j];
                to[i * n + j] = scale * to[j * n + i];
                to[j * n + i] = v;
            }
        return;
    }
    for (int64_t i = 0; i < n * n; i++) to[i] = 0;
    if (f->rank < n - 1) return;
    for (int64_t i = n - 2; i >= 0; i--) {
        double z = -a[(n - 1) * n + i], v = -a[i * n + n - 1];
        for (int64_t j = i + 1; j < n - 1; j++) {
            z -= a[j * n + i] * a[(n - 1) * n + j];
            v -= a[i * n + j] * a[j * n + n - 1];
        }
        a[(n - 1) * n + i] = z; /* z_i */
        a[i * n + n - 1]   = v / a[i * n + i];
    }
    a[n * n - 1] = 1; /* z_n and v_n */
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            to[f->row[i] * n + f->column[j]] = scale * a[(n - 1) * n + i] * a[j * n + n - 1];
}

/* ---- kernels: x (, d_det) -> out ---- */

enum { X, D_DET };

static int64_t size_of(const ipu__kernel_call *call)
{
    const ipu_shape *x = &call->operand[X].shape;
    return x->dim[x->rank - 1];
}

static int64_t n_matrices(const ipu__kernel_call *call)
{
    const ipu_shape *x = &call->operand[X].shape;
    int64_t          n = 1;
    for (int d = 0; d < x->rank - 2; d++) n *= x->dim[d];
    return n;
}

static void do_matrices(const ipu__kernel_call *call, void *const *operand, void *memory, ipu_interval mine)
{
    ipu_type type   = call->operand[X].type;
    int64_t  n      = size_of(call);
    bool     is_det = call->def == &ipu__op_det.kernel, is_grad = call->def == &ipu__op_det_grad.kernel;
    void    *out = operand[call->n_operands - 1];
    factors  f   = factors_in(memory, n);
    for (int64_t m = mine.begin; m < mine.end; m++) {
        double by = is_grad ? ipu__number_load(type, operand[D_DET], m) : 1;
        factor(&f, type, operand[X], m);
        if (is_det) {
            ipu__number_store(type, out, m, determinant(&f));
            continue;
        }
        (is_grad ? find_cofactors : invert)(&f);
        for (int64_t i = 0; i < n * n; i++) ipu__number_store(type, out, m * n * n + i, by * f.inverse[i]);
    }
}

/* NaN where there is no memory for it; implementations have theirs. */
static void linalg_ref(const ipu__kernel_call *call, void *const *operand)
{
    const ipu__kernel_value *out    = &call->operand[call->n_operands - 1];
    void                    *memory = ipu__alloc(factors_bytes(size_of(call)));
    if (memory)
        do_matrices(call, operand, memory, (ipu_interval){0, n_matrices(call)});
    else
        for (int64_t i = 0; i < ipu__op_n_elements(&out->shape); i++)
            ipu__number_store(out->type, operand[call->n_operands - 1], i, (double)NAN);
    ipu__free(memory);
}

static size_t linalg_scratch(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    return factors_bytes(size_of(call));
}

static ipu_status linalg_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                             int part, int n_parts)
{
    (void)state;
    int64_t grain = call->def == &ipu__op_det.kernel ? ipu__op_line(call->operand[X].type) : 1;
    do_matrices(call, operand, scratch, ipu__op_part(n_matrices(call), grain, part, n_parts));
    return IPU_OK;
}

static ipu_status check_square(const ipu__kernel_call *call)
{
    const ipu_shape *x = &call->operand[X].shape;
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 2, IPU_MAX_RANK));
    if (x->dim[x->rank - 2] == x->dim[x->rank - 1]) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: the last two dimensions of \"x\" %s must be equal", call->def->name,
                     ipu__shape_str(x));
}

static ipu_status det_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(check_square(call));
    *out = call->operand[X];
    out->shape.rank -= 2;
    return IPU_OK;
}

static ipu_status inverse_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(check_square(call));
    *out = call->operand[X];
    return IPU_OK;
}

static ipu_status det_grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu__kernel_value det;
    IPU_TRY(det_infer(call, &det));
    IPU_TRY(ipu__op_want_same_type(call, X, D_DET));
    IPU_TRY(ipu__op_want_shape(call, D_DET, &det.shape));
    *out = call->operand[X];
    return IPU_OK;
}

/* ---- gradients ---- */

static void det_gradient(ipu__gradient *g)
{
    g->d_in[X] = ipu__emit1(g->b, "det_grad", NULL, 0, IPU__IN(g->in[X], g->d_out[0]));
}

/* Right where x has an inverse. */
static void det_grad_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    ipu_shape one         = call->operand[X].shape;
    one.dim[one.rank - 1] = one.dim[one.rank - 2] = 1;
    ipu_value scale = ipu_reshape(b, ipu_mul(b, in[D_DET], ipu__emit1(b, "det", NULL, 0, IPU__IN(in[X]))),
                                  one);
    out[0]          = ipu_mul(b, scale, ipu_swap_axes(b, ipu_inverse(b, in[X]), -1, -2));
}

/* d(A^-1) = -A^-1 dA A^-1 */
static void inverse_gradient(ipu__gradient *g)
{
    ipu_value half = ipu_matmul_with(g->b, g->out[0], g->d_out[0], true, false);
    g->d_in[X]     = ipu_neg(g->b, ipu_matmul_with(g->b, half, g->out[0], false, true));
}

/* ---- records ---- */

static double linalg_work(const ipu__kernel_call *call)
{
    double n = (double)size_of(call), each = n * n + n * n * n;
    return (double)n_matrices(call) * (call->def == &ipu__op_det.kernel ? each : 3 * each);
}

static ipu_status linalg_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    int64_t      n = n_matrices(call), size = size_of(call);
    ipu__op_loop loop = {40, 1, n > 0 ? 2 * linalg_work(call) / (double)n : 0};
    IPU_TRY(ipu__op_plan_loop(&loop, n, 1, target, out));
    out->tile_bytes = n > 0 ? ipu__op_count(8 * (double)size * (double)size) : 0;
    out->basis =
        "our estimate: a matrix on a worker, two cycles for a product and its sum, and to seek pivots";
    return IPU_OK;
}

static const ipu__kernel_operand det_operands[]      = {IPU__INPUT("x"), IPU__OUTPUT("det")};
static const ipu__kernel_operand inverse_operands[]  = {IPU__INPUT("x"), IPU__OUTPUT("out")};
static const ipu__kernel_operand det_grad_operands[] = {IPU__INPUT("x"), IPU__INPUT("d_det"),
                                                        IPU__OUTPUT("dx")};

static const ipu__cpu_impl implementations[] = {
    {.head = {"pivots", ipu__op_fits_always}, .scratch_bytes = linalg_scratch, .run = linalg_run}};

static const char *const det_samples[] = {"float[3,3]",   "float[1,1]",   "float[5,2,2]",   "float[2,3,4,4]",
                                          "float[2,0,0]", "float[0,3,3]", "float[300,9,9]", NULL};
static const char *const inverse_samples[]  = {"float[2,2]{1,2}",
                                               "float[1,1]{1,2}",
                                               "float[3,0,0]",
                                               "float[0,3,3]",
                                               "float[2,3,3]",
                                               "float[500,2,2]{1,2}",
                                               NULL};
static const char *const det_grad_samples[] = {"float[2,2]{1,2}, float[]",   "float[1,1], float[]",
                                               "float[2,3,3], float[2]",     "float[0,2,2], float[0]",
                                               "float[600,2,2], float[600]", NULL};

#define RECORD(op, ins, text, ...)                                                                  \
    const ipu__op_def ipu__op_##op = {.kernel  = {.name            = #op,                           \
                                                  .operands        = op##_operands,                 \
                                                  .n_operands      = (ins) + 1,                     \
                                                  .check           = ipu__op_check,                 \
                                                  .rows            = ipu__op_rows,                  \
                                                  .ref             = linalg_ref,                    \
                                                  .work            = linalg_work,                   \
                                                  .plan            = linalg_plan,                   \
                                                  .implementations = IPU__ON_CPU(implementations)}, \
                                      .n_in    = (ins),                                             \
                                      .family  = "linalg",                                          \
                                      .summary = (text),                                            \
                                      .infer   = op##_infer,                                        \
                                      .samples = op##_samples,                                      \
                                      __VA_ARGS__}
RECORD(det, 1, "the determinant of each matrix", .flags = IPU__OP_SHORT_IN_HALF, .grad = det_gradient,
       .batch = IPU__BATCH({IPU__LEADING}, {IPU__LEADING}));
RECORD(inverse, 1, "the inverse of each matrix", .flags = IPU__OP_SHORT_IN_HALF, .grad = inverse_gradient,
       .batch = IPU__BATCH({IPU__LEADING}, {IPU__LEADING}));
RECORD(det_grad, 2, "d_det times the cofactors of each matrix: the gradient of det",
       .compose = det_grad_compose, .batch = IPU__BATCH({IPU__LEADING, IPU__LEADING}, {IPU__LEADING}));

ipu_value ipu_det(ipu_builder *b, ipu_value x) { return ipu__emit1(b, "det", NULL, 0, IPU__IN(x)); }
ipu_value ipu_inverse(ipu_builder *b, ipu_value x) { return ipu__emit1(b, "inverse", NULL, 0, IPU__IN(x)); }
