/* matmul of float, half and bfloat16 in blocks, each by a kernel of libxsmm.
 *
 * Blocks of b (and of a, if it is transposed or has 16-bit elements) are packed into scratch, where they
 * stay in the second-level cache. Every sum is of ascending k whatever the parts are, so that their number
 * changes no bit.
 */
#include "base/alloc.h"
#include "op/matmul.h"
#include "op/xsmm.h"

enum { A = IPU__MATMUL_A, B = IPU__MATMUL_B, OUT = IPU__MATMUL_OUT };

/* Floats of a block: a third of a second-level cache of 1 MB for each operand. bench/ops: 192 to 320 are
 * alike, 128 and 512 are slower. */
enum { BLOCK = 256 };

/* Rows from which a packed block of b pays for the packing. */
enum { ROWS_WORTH_PACKING = 32 };

typedef struct part {
    ipu__matmul_part range;
    ipu__xsmm_blocks blocks;
    bool             pack_a, pack_b;
} part;

typedef struct state {
    ipu__matmul mm;
    ipu_type    type;
    part        parts[];
} state;

bool ipu__matmul_xsmm_fits(const ipu_kernel_call *call, unsigned cpu_features, int n_parts)
{
    (void)n_parts;
    ipu__matmul mm   = ipu__matmul_get(call);
    ipu_type    type = call->operand[OUT].type;
    if (!ipu__xsmm_works(cpu_features) || mm.batch == 0 || mm.m == 0 || mm.n == 0 || mm.k == 0) return false;
    return type == IPU_FLOAT || type == IPU_HALF || type == IPU_BFLOAT16;
}

/* Sizes of blocks and what is packed; empty parts have no rows or no columns. */
static void describe(const ipu__matmul *mm, ipu_type type, int index, int n_parts, part *out)
{
    ipu__matmul_part r    = ipu__matmul_part_get(mm, index, n_parts);
    int64_t          rows = r.row.end - r.row.begin, columns = r.column.end - r.column.begin;
    *out           = (part){.range = r};
    out->blocks.m  = rows;
    out->blocks.n  = columns;
    out->blocks.k  = mm->k;
    out->blocks.mb = ipu__xsmm_block(rows, BLOCK, 6);
    out->blocks.nb = ipu__xsmm_block(columns, BLOCK, 64);
    out->blocks.kb = ipu__xsmm_block(mm->k, BLOCK, 8);
    out->pack_a    = type != IPU_FLOAT;
    out->pack_b    = type != IPU_FLOAT || mm->transpose_b || rows >= ROWS_WORTH_PACKING;
}

static bool is_empty(const part *p)
{
    return p->range.batch.begin == p->range.batch.end || p->blocks.m == 0 || p->blocks.n == 0;
}

/* ---- scratch: packed a, packed b, sums ---- */

static int64_t round_up(int64_t n) { return (n + 15) / 16 * 16; }

static int64_t a_floats(const part *p) { return p->pack_a ? round_up(p->blocks.mb * p->blocks.kb) : 0; }

/* Twice: what is converted first, then transposed. */
static int64_t b_floats(const part *p) { return p->pack_b ? round_up(p->blocks.kb * p->blocks.nb) : 0; }

size_t ipu__matmul_xsmm_scratch_bytes(const ipu_kernel_call *call, int n_parts)
{
    ipu__matmul mm   = ipu__matmul_get(call);
    ipu_type    type = call->operand[OUT].type;
    int64_t     most = 0;
    for (int i = 0; i < n_parts; i++) {
        part p;
        describe(&mm, type, i, n_parts, &p);
        int64_t n = is_empty(&p) ? 0 : a_floats(&p) + b_floats(&p);
        if (n > 0 && type != IPU_FLOAT)
            n += p.blocks.mb * p.blocks.nb + p.blocks.mb + p.blocks.nb + p.blocks.kb;
        if (n > most) most = n;
    }
    return (size_t)most * sizeof(float);
}

ipu_status ipu__matmul_xsmm_prepare(const ipu_kernel_call *call, int n_parts, void **out)
{
    state *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->parts);
    *out     = NULL;
    if (!s) return ipu__fail_memory();
    s->mm             = ipu__matmul_get(call);
    s->type           = call->operand[OUT].type;
    ipu_status status = IPU_OK;
    for (int i = 0; i < n_parts && status == IPU_OK; i++) {
        part *p = &s->parts[i];
        describe(&s->mm, s->type, i, n_parts, p);
        if (is_empty(p)) continue;
        bool    transposed = s->mm.transpose_a && !p->pack_a;
        int64_t lda        = p->pack_a ? p->blocks.kb : transposed ? s->mm.a_k : s->mm.a_m;
        status             = ipu__xsmm_blocks_make(&p->blocks, lda, p->pack_b ? p->blocks.nb : s->mm.b_k,
                                       s->type == IPU_FLOAT ? s->mm.n : p->blocks.nb, transposed, false);
    }
    if (status == IPU_OK)
        *out = s;
    else
        ipu__free(s);
    return status;
}

/* ---- running ---- */

/* One matrix of the batch, as a part works on it. */
typedef struct job {
    const state *s;
    const part  *p;
    const char  *a, *b;
    char        *out;
    float       *packed_a, *packed_b, *sums, *line;
} job;

/* Rows of [rows][columns], `step` apart, to floats `to_ld` apart; transposed: to[j][i]. */
static void pack(const job *j, const char *from, int64_t step, int64_t rows, int64_t columns, float *to,
                 int64_t to_ld, bool transpose)
{
    ipu_type type  = j->s->type;
    int64_t  bytes = (int64_t)ipu_type_size(type);
    if (transpose && type == IPU_FLOAT) {
        ipu__transpose_floats((const float *)from, step, to, to_ld, rows, columns);
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        if (!transpose) {
            ipu__to_floats(type, from + i * step * bytes, to + i * to_ld, columns);
            continue;
        }
        ipu__to_floats(type, from + i * step * bytes, j->line, columns);
        for (int64_t l = 0; l < columns; l++) to[l * to_ld + i] = j->line[l];
    }
}

static const float *get_b(const job *j, int64_t k, int64_t depth, int64_t column, int64_t columns)
{
    const ipu__matmul *mm    = &j->s->mm;
    int64_t            bytes = (int64_t)ipu_type_size(j->s->type);
    const char        *from  = j->b + (k * mm->b_k + column * mm->b_n) * bytes;
    if (!j->p->pack_b) return (const float *)from;
    if (mm->transpose_b)
        pack(j, from, mm->b_n, columns, depth, j->packed_b, j->p->blocks.nb, true);
    else
        pack(j, from, mm->b_k, depth, columns, j->packed_b, j->p->blocks.nb, false);
    return j->packed_b;
}

static const float *get_a(const job *j, int64_t row, int64_t rows, int64_t k, int64_t depth)
{
    const ipu__matmul *mm    = &j->s->mm;
    int64_t            bytes = (int64_t)ipu_type_size(j->s->type);
    const char        *from  = j->a + (row * mm->a_m + k * mm->a_k) * bytes;
    if (!j->p->pack_a) return (const float *)from;
    if (mm->transpose_a)
        pack(j, from, mm->a_k, depth, rows, j->packed_a, j->p->blocks.kb, true);
    else
        pack(j, from, mm->a_m, rows, depth, j->packed_a, j->p->blocks.kb, false);
    return j->packed_a;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Sums go to `out` itself: a block of b is packed once for all rows. */
static void multiply_floats(const job *j, int64_t column, int64_t columns)
{
    const ipu__xsmm_blocks *x = &j->p->blocks;
    for (int64_t k = 0; k < x->k; k += x->kb) {
        int64_t      depth = least(x->k - k, x->kb);
        const float *b     = get_b(j, k, depth, column, columns);
        for (int64_t i = 0; i < x->m; i += x->mb) {
            int64_t row = j->p->range.row.begin + i, rows = least(x->m - i, x->mb);
            float  *out = (float *)j->out + row * j->s->mm.n + column;
            ipu__xsmm_run(x, get_a(j, row, rows, k, depth), b, out, rows, columns, depth, k > 0);
        }
    }
}

/* Sums stay in scratch until they are complete, and are rounded then. */
static void multiply_small(const job *j, int64_t column, int64_t columns)
{
    const ipu__xsmm_blocks *x     = &j->p->blocks;
    int64_t                 bytes = (int64_t)ipu_type_size(j->s->type);
    for (int64_t i = 0; i < x->m; i += x->mb) {
        int64_t row = j->p->range.row.begin + i, rows = least(x->m - i, x->mb);
        for (int64_t k = 0; k < x->k; k += x->kb) {
            int64_t      depth = least(x->k - k, x->kb);
            const float *b     = i == 0 || x->k > x->kb ? get_b(j, k, depth, column, columns) : j->packed_b;
            ipu__xsmm_run(x, get_a(j, row, rows, k, depth), b, j->sums, rows, columns, depth, k > 0);
        }
        for (int64_t l = 0; l < rows; l++)
            ipu__from_floats(j->s->type, j->sums + l * x->nb,
                             j->out + ((row + l) * j->s->mm.n + column) * bytes, columns);
    }
}

ipu_status ipu__matmul_xsmm_run(const ipu_kernel_call *call, void *prepared, void *const *operand,
                                void *scratch, int index, int n_parts)
{
    const state *s = prepared;
    const part  *p = &s->parts[index];
    (void)call, (void)n_parts;
    if (is_empty(p)) return IPU_OK;
    int64_t bytes = (int64_t)ipu_type_size(s->type);
    job     j     = {.s = s, .p = p, .packed_a = scratch};
    j.packed_b    = j.packed_a + a_floats(p);
    j.sums        = j.packed_b + b_floats(p);
    j.line        = j.sums + p->blocks.mb * p->blocks.nb;
    for (int64_t i = p->range.batch.begin; i < p->range.batch.end; i++) {
        int64_t a, b;
        ipu__matmul_at(&s->mm, i, &a, &b);
        j.a   = (const char *)operand[A] + a * bytes;
        j.b   = (const char *)operand[B] + b * bytes;
        j.out = (char *)operand[OUT] + i * s->mm.m * s->mm.n * bytes;
        for (int64_t c = p->range.column.begin; c < p->range.column.end; c += p->blocks.nb) {
            int64_t columns = least(p->range.column.end - c, p->blocks.nb);
            (s->type == IPU_FLOAT ? multiply_floats : multiply_small)(&j, c, columns);
        }
    }
    return IPU_OK;
}
