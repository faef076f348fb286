/* matmul of float, half and bfloat16 in blocks, each by a kernel of libxsmm.
 *
 * Blocks that lie otherwise than kernels want them, and those of b if many rows use them, are packed into
 * scratch, where they stay in the second-level cache. In which order a sum is added depends on the sizes of blocks.
 */
#include "base/alloc.h"
#include "op/matmul.h"
#include "op/xsmm.h"

enum { A = IPU__MATMUL_A, B = IPU__MATMUL_B, OUT = IPU__MATMUL_OUT };

/* Rows, columns and depth of a block: each operand's takes a third of a second-level cache of 1 MB. */
enum { BLOCK = 256 };

/* Rows from which a packed block of b pays for the packing. */
enum { ROWS_WORTH_PACKING = 32 };

/* Fewer rows or columns than this use too little of a vector: dot products along k are faster. */
enum { ROWS_WORTH_KERNELS = 8 };

/* With few columns, a kernel goes along many rows of a at once, a cache line of each. Rows that lie a multiple of
 * 2 KB apart meet in one or two of the 64 sets of a first-level cache, which hold 8 lines or some more, and push one
 * another out: 16 columns and rows of 512 floats ran at half the speed, of 1024 at a fifth. */
enum { COLUMNS_THAT_ARE_FEW = 32, WAY_BYTES = 4096, WAYS = 8 };

typedef enum way {
    DIRECT,  /* sums go to `out` */
    SUMS,    /* sums go to scratch until they are complete */
    SWAPPED, /* out^T = b^T a^T: so the smaller operand is the one that is transposed */
    DOTS     /* dot products of rows of a and columns of b, which are both contiguous */
} way;

/* What a part does, in terms of a product that may have been swapped. */
typedef struct part {
    ipu_interval     batch;
    int64_t          row, column; /* the first */
    int64_t          a_m, a_k, b_k, b_n;
    way              way;
    bool             is_swapped, pack_a, pack_b;
    ipu__xsmm_blocks blocks;
} part;

typedef struct state {
    ipu__matmul   mm;
    ipu_type      type;
    ipu__epilogue epilogue;
    part          parts[];
} state;

bool ipu__matmul_xsmm_fits(const ipu_kernel_call *call, unsigned cpu_features, int n_parts)
{
    (void)n_parts;
    ipu__matmul mm   = ipu__matmul_get(call);
    ipu_type    type = call->operand[OUT].type;
    if (!ipu__xsmm_works(cpu_features) || mm.batch == 0 || mm.m == 0 || mm.n == 0 || mm.k == 0) return false;
    return type == IPU_FLOAT || type == IPU_HALF || type == IPU_BFLOAT16;
}

/* ---- at load ---- */

static way choose(const ipu__matmul *mm, ipu_type type)
{
    bool few = mm->m < ROWS_WORTH_KERNELS || mm->n < ROWS_WORTH_KERNELS;
    if (few && mm->a_k == 1 && mm->b_k == 1 && mm->k >= 16) return DOTS;
    if (mm->b_n != 1 && mm->m < mm->n) return SWAPPED;
    return type == IPU_FLOAT ? DIRECT : SUMS;
}

/* Rows and depth of blocks; rows of a are `step` floats apart where kernels read them. Blocks of few rows have all
 * of the depth, so that b is packed once. */
static void set_blocks(ipu__xsmm_blocks *x, int64_t step)
{
    int64_t same = step * (int64_t)sizeof(float);
    same &= -same; /* the largest power of two that divides it */
    int64_t most = same >= WAY_BYTES ? WAYS : 2 * WAYS;
    bool    meet = same >= WAY_BYTES / 2 && x->n <= COLUMNS_THAT_ARE_FEW && x->n * x->k <= 2 * BLOCK * BLOCK;
    x->mb        = !meet ? ipu__xsmm_block(x->m, BLOCK, 6) : x->m < most ? x->m : most;
    x->nb        = ipu__xsmm_block(x->n, BLOCK, 64);
    x->kb        = meet ? x->k : ipu__xsmm_block(x->k, BLOCK, 8);
}

static void describe(const ipu__matmul *mm, ipu_type type, int index, int n_parts, part *out)
{
    ipu__matmul_part r    = ipu__matmul_part_get(mm, index, n_parts);
    int64_t          rows = r.row.end - r.row.begin, columns = r.column.end - r.column.begin;
    *out            = (part){.batch = r.batch, .way = choose(mm, type)};
    bool swap       = out->way == SWAPPED || (out->way == DOTS && mm->m < mm->n);
    out->is_swapped = swap;
    out->row        = swap ? r.column.begin : r.row.begin;
    out->column     = swap ? r.row.begin : r.column.begin;
    out->blocks.m   = swap ? columns : rows;
    out->blocks.n   = swap ? rows : columns;
    out->blocks.k   = mm->k;
    out->a_m        = swap ? mm->b_n : mm->a_m;
    out->a_k        = swap ? mm->b_k : mm->a_k;
    out->b_k        = swap ? mm->a_k : mm->b_k;
    out->b_n        = swap ? mm->a_m : mm->b_n;
    out->pack_a     = type != IPU_FLOAT;
    set_blocks(&out->blocks, out->pack_a || out->a_k != 1 ? 1 : out->a_m);
    out->pack_b = type != IPU_FLOAT || out->b_n != 1 || out->blocks.m >= ROWS_WORTH_PACKING;
}

static bool is_empty(const part *p)
{
    return p->batch.begin == p->batch.end || p->blocks.m == 0 || p->blocks.n == 0;
}

/* Scratch of a part, in floats; each piece begins at a cache line. */
typedef struct room {
    int64_t a, b, sums, lines, n;
} room;

enum { LINES = 8 }; /* rows that are converted before they are transposed: a block of the transposition */

static int64_t line_up(int64_t n) { return (n + 15) / 16 * 16; }

static room get_room(const part *p, ipu_type type)
{
    const ipu__xsmm_blocks *x       = &p->blocks;
    int64_t                 longest = x->kb > x->mb ? x->kb : x->mb;
    room                    r       = {0};
    if (is_empty(p)) return r;
    if (p->way == DOTS) {
        r.b    = type == IPU_FLOAT ? 0 : line_up(IPU__DOT_ROWS * x->k);
        r.sums = r.b + line_up(x->n * x->k);
        r.n    = r.sums + line_up(IPU__DOT_ROWS);
        return r;
    }
    if (x->nb > longest) longest = x->nb;
    r.b     = p->pack_a ? line_up(x->mb * x->kb) : 0;
    r.sums  = r.b + (p->pack_b ? line_up(x->kb * x->nb) : 0);
    r.lines = r.sums + (p->way == DIRECT ? 0 : line_up(x->mb * x->nb));
    r.n     = r.lines + (type == IPU_FLOAT ? 0 : LINES * line_up(longest));
    return r;
}

size_t ipu__matmul_xsmm_scratch_bytes(const ipu_kernel_call *call, int n_parts)
{
    ipu__matmul mm   = ipu__matmul_get(call);
    ipu_type    type = call->operand[OUT].type;
    int64_t     most = 0;
    for (int i = 0; i < n_parts; i++) {
        part p;
        describe(&mm, type, i, n_parts, &p);
        int64_t n = get_room(&p, type).n;
        if (n > most) most = n;
    }
    size_t more = ipu__epilogue_scratch_bytes(call);
    return more == SIZE_MAX ? more : (size_t)line_up(most) * sizeof(float) + more;
}

static ipu_status make_part(const ipu__matmul *mm, part *p)
{
    if (is_empty(p) || p->way == DOTS) return IPU_OK;
    bool    transposed = p->a_k != 1 && !p->pack_a;
    int64_t lda        = p->pack_a ? p->blocks.kb : transposed ? p->a_k : p->a_m;
    int64_t ldb        = p->pack_b ? p->blocks.nb : p->b_k;
    /* The stride of a single row is never used, but it must be possible. */
    if (p->blocks.m == 1 && !transposed && lda < p->blocks.kb) lda = p->blocks.kb;
    if (p->blocks.k == 1 && ldb < p->blocks.nb) ldb = p->blocks.nb;
    return ipu__xsmm_blocks_make(&p->blocks, lda, ldb, p->way == DIRECT ? mm->n : p->blocks.nb, transposed,
                                 false);
}

ipu_status ipu__matmul_xsmm_prepare(const ipu_kernel_call *call, int n_parts, void **out)
{
    state *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->parts);
    *out     = NULL;
    if (!s) return ipu__fail_memory();
    s->mm             = ipu__matmul_get(call);
    s->type           = call->operand[OUT].type;
    ipu_status status = ipu__epilogue_init(&s->epilogue, call);
    for (int i = 0; i < n_parts && status == IPU_OK; i++) {
        describe(&s->mm, s->type, i, n_parts, &s->parts[i]);
        status = make_part(&s->mm, &s->parts[i]);
    }
    if (status == IPU_OK)
        *out = s;
    else
        ipu__matmul_xsmm_release(s);
    return status;
}

void ipu__matmul_xsmm_release(void *prepared)
{
    state *s = prepared;
    if (!s) return;
    ipu__epilogue_fini(&s->epilogue);
    ipu__free(s);
}

/* ---- running ---- */

/* One matrix of the batch, as a part works on it. */
typedef struct job {
    const state *s;
    const part  *p;
    const char  *a, *b;
    char        *out;
    int64_t      bytes; /* of an element */
    float       *packed_a, *packed_b, *sums, *lines;
    void *const *operand;
    int64_t      matrix; /* of the batch */
    void        *chain_scratch;
} job;

/* The epilogue on rows and columns that are complete, in terms of `out`. */
static void finish(const job *j, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    ipu__matmul_finish(&j->s->mm, &j->s->epilogue, j->operand, j->matrix, row, rows, column, columns,
                       j->chain_scratch);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* to[i][j] = from[i][j], or to[j][i]; rows of `from` are `step` elements apart. */
static void pack(const job *j, const char *from, int64_t step, int64_t rows, int64_t columns, float *to,
                 int64_t to_ld, bool transpose)
{
    ipu_type type = j->s->type;
    if (!transpose) {
        for (int64_t i = 0; i < rows; i++)
            ipu__to_floats(type, from + i * step * j->bytes, to + i * to_ld, columns);
        return;
    }
    if (type == IPU_FLOAT) {
        ipu__transpose_floats((const float *)from, step, to, to_ld, rows, columns);
        return;
    }
    for (int64_t i = 0; i < rows; i += LINES) {
        int64_t n = least(rows - i, LINES), line = line_up(columns);
        for (int64_t l = 0; l < n; l++)
            ipu__to_floats(type, from + (i + l) * step * j->bytes, j->lines + l * line, columns);
        ipu__transpose_floats(j->lines, line, to + i, to_ld, n, columns);
    }
}

static const float *get_b(const job *j, int64_t k, int64_t depth, int64_t column, int64_t columns)
{
    const part *p    = j->p;
    const char *from = j->b + (k * p->b_k + column * p->b_n) * j->bytes;
    if (!p->pack_b) return (const float *)from;
    if (p->b_n != 1)
        pack(j, from, p->b_n, columns, depth, j->packed_b, p->blocks.nb, true);
    else
        pack(j, from, p->b_k, depth, columns, j->packed_b, p->blocks.nb, false);
    return j->packed_b;
}

static const float *get_a(const job *j, int64_t row, int64_t rows, int64_t k, int64_t depth)
{
    const part *p    = j->p;
    const char *from = j->a + (row * p->a_m + k * p->a_k) * j->bytes;
    if (!p->pack_a) return (const float *)from;
    if (p->a_k != 1)
        pack(j, from, p->a_k, depth, rows, j->packed_a, p->blocks.kb, true);
    else
        pack(j, from, p->a_m, rows, depth, j->packed_a, p->blocks.kb, false);
    return j->packed_a;
}

/* Sums go to `out` itself: a block of b is packed once for all rows. */
static void multiply_direct(const job *j, int64_t column, int64_t columns)
{
    const ipu__xsmm_blocks *x = &j->p->blocks;
    for (int64_t k = 0; k < x->k; k += x->kb) {
        int64_t      depth = least(x->k - k, x->kb);
        const float *b     = get_b(j, k, depth, column, columns);
        for (int64_t i = 0; i < x->m; i += x->mb) {
            int64_t row = j->p->row + i, rows = least(x->m - i, x->mb);
            float  *out = (float *)j->out + row * j->s->mm.n + column;
            ipu__xsmm_run(x, get_a(j, row, rows, k, depth), b, out, rows, columns, depth, k > 0);
            if (k + depth == x->k) finish(j, row, rows, column, columns);
        }
    }
}

static void store_sums(const job *j, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    int64_t n = j->s->mm.n, ld = j->p->blocks.nb;
    if (j->p->way != SWAPPED) {
        for (int64_t i = 0; i < rows; i++)
            ipu__from_floats(j->s->type, j->sums + i * ld, j->out + ((row + i) * n + column) * j->bytes,
                             columns);
        return;
    }
    if (j->s->type == IPU_FLOAT) {
        ipu__transpose_floats(j->sums, ld, (float *)j->out + column * n + row, n, rows, columns);
        return;
    }
    for (int64_t i = 0; i < columns; i += LINES) {
        int64_t m = least(columns - i, LINES), line = line_up(rows);
        ipu__transpose_floats(j->sums + i, ld, j->lines, line, rows, m);
        for (int64_t l = 0; l < m; l++)
            ipu__from_floats(j->s->type, j->lines + l * line,
                             j->out + ((column + i + l) * n + row) * j->bytes, rows);
    }
}

/* Sums stay in scratch until they are complete, and are rounded or transposed then. */
static void multiply_sums(const job *j, int64_t column, int64_t columns)
{
    const ipu__xsmm_blocks *x = &j->p->blocks;
    const float            *b = NULL;
    for (int64_t i = 0; i < x->m; i += x->mb) {
        int64_t row = j->p->row + i, rows = least(x->m - i, x->mb);
        for (int64_t k = 0; k < x->k; k += x->kb) {
            int64_t depth = least(x->k - k, x->kb);
            if (!b || x->k > x->kb) b = get_b(j, k, depth, column, columns);
            ipu__xsmm_run(x, get_a(j, row, rows, k, depth), b, j->sums, rows, columns, depth, k > 0);
        }
        store_sums(j, row, rows, column, columns);
        if (j->p->is_swapped)
            finish(j, column, columns, row, rows);
        else
            finish(j, row, rows, column, columns);
    }
}

/* Rows of a against columns of b, of which there are few: those are kept as floats. */
static void multiply_dots(const job *j)
{
    const part            *p     = j->p;
    const ipu__xsmm_loops *loops = &IPU__SIMD_PICK(ipu__xsmm_loops_at);
    int64_t                m = p->blocks.m, n = p->blocks.n, k = p->blocks.k;
    int64_t                row_step    = p->is_swapped ? 1 : j->s->mm.n;
    int64_t                column_step = row_step == 1 ? j->s->mm.n : 1;
    bool                   is_float    = j->s->type == IPU_FLOAT;
    pack(j, j->b + p->column * p->b_n * j->bytes, p->b_n, n, k, j->packed_b, k, false);
    for (int64_t i = 0; i < m; i += IPU__DOT_ROWS) {
        int64_t      rows = least(m - i, IPU__DOT_ROWS);
        const char  *from = j->a + (p->row + i) * p->a_m * j->bytes;
        const float *w    = is_float ? (const float *)from : j->packed_a;
        int64_t      step = is_float ? p->a_m : k;
        if (!is_float) pack(j, from, p->a_m, rows, k, j->packed_a, k, false);
        for (int64_t c = 0; c < n; c++) {
            float *sums = j->sums;
            char  *out  = j->out + ((p->row + i) * row_step + (p->column + c) * column_step) * j->bytes;
            if (rows == IPU__DOT_ROWS)
                loops->dots(j->packed_b + c * k, w, step, k, sums);
            else
                for (int64_t r = 0; r < rows; r++) {
                    float same[IPU__DOT_ROWS]; /* one row, IPU__DOT_ROWS times over */
                    loops->dots(j->packed_b + c * k, w + r * step, 0, k, same);
                    sums[r] = same[0];
                }
            for (int64_t r = 0; r < rows; r++)
                ipu__from_floats(j->s->type, &sums[r], out + r * row_step * j->bytes, 1);
        }
    }
}

static void multiply(const job *j)
{
    const part *p = j->p;
    if (p->way == DOTS) {
        multiply_dots(j);
        if (p->is_swapped)
            finish(j, p->column, p->blocks.n, p->row, p->blocks.m);
        else
            finish(j, p->row, p->blocks.m, p->column, p->blocks.n);
        return;
    }
    for (int64_t c = 0; c < p->blocks.n; c += p->blocks.nb)
        (p->way == DIRECT ? multiply_direct : multiply_sums)(j, p->column + c,
                                                             least(p->blocks.n - c, p->blocks.nb));
}

ipu_status ipu__matmul_xsmm_run(const ipu_kernel_call *call, void *prepared, void *const *operand,
                                void *scratch, int index, int n_parts)
{
    const state *s = prepared;
    const part  *p = &s->parts[index];
    (void)call, (void)n_parts;
    if (is_empty(p)) return IPU_OK;
    room   r      = get_room(p, s->type);
    float *floats = scratch;
    job    j      = {.s             = s,
                     .p             = p,
                     .bytes         = (int64_t)ipu_type_size(s->type),
                     .packed_a      = floats + r.a,
                     .packed_b      = floats + r.b,
                     .sums          = floats + r.sums,
                     .lines         = floats + r.lines,
                     .operand       = operand,
                     .chain_scratch = floats + line_up(r.n)};
    for (int64_t i = p->batch.begin; i < p->batch.end; i++) {
        int64_t a, b;
        ipu__matmul_at(&s->mm, i, &a, &b);
        const char *x = (const char *)operand[A] + a * j.bytes, *y = (const char *)operand[B] + b * j.bytes;
        j.a      = p->is_swapped ? y : x;
        j.b      = p->is_swapped ? x : y;
        j.out    = (char *)operand[OUT] + i * s->mm.m * s->mm.n * j.bytes;
        j.matrix = i;
        multiply(&j);
    }
    return IPU_OK;
}
