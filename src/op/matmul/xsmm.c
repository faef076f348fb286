/* matmul of float, half and bfloat16 in blocks, each by a kernel of libxsmm.
 *
 * Blocks whose layout does not suit the kernels, and those of b if many rows use them, are packed into
 * scratch, where they stay in the second-level cache: panels of few columns over the whole depth, so that
 * each is packed once and sums are complete immediately. The order of summation depends on the block sizes.
 */
#include <string.h>

#include "base/alloc.h"
#include "op/matmul/matmul.h"
#include "op/product/xsmm.h"

enum { A = IPU__MATMUL_A, B = IPU__MATMUL_B, OUT = IPU__MATMUL_OUT };

/* Blocks for a second-level cache of 1 MB. Columns of a panel, rows that go with it, and depth of one kernel, by
 * what was fastest on Zen 4: products of 512 x 256 x 1024 reach 113 to 114 of 117 GFLOP/s where blocks of 256
 * reached 104 to 110. Panels packed at once share what was read of a; all of them, or one alone if it is so deep,
 * have a limit. */
enum { PANEL = 64, ROWS = 132, DEPTH = 1024, PACKED_FLOATS = 1 << 17, DEEPEST_FLOATS = 1 << 18 };

/* The same where b is not packed, or a is: what is read of b from far, or packed of a, should serve more. */
enum { BLOCK = 256 };

/* And where what is packed of a serves few columns: it is still in the first-level cache then. */
enum { FEW_ROWS = 48, FEW_DEEP = 128 };

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
    bool             whole_a;      /* a is packed once for all columns */
    bool             lanes;        /* b is packed as it comes: in panels of sixteen columns */
    int64_t          group, chunk; /* columns and depth that are packed at once */
    ipu__xsmm_blocks blocks;
} part;

/* Epilogues that need no chain. */
typedef enum end { CHAIN, BIAS, BIAS_RELU } end;

typedef struct state {
    ipu__matmul   mm;
    ipu_type      type;
    ipu__epilogue epilogue;
    end           end;
    part          parts[];
} state;

bool ipu__matmul_xsmm_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)n_parts;
    ipu__matmul mm   = ipu__matmul_get(call);
    ipu_type    type = call->operand[OUT].type;
    if (!ipu__xsmm_works(ipu__cpu_features_of(machine)) || mm.batch == 0 || mm.m == 0 || mm.n == 0
        || mm.k == 0)
        return false;
    return type == IPU_FLOAT || type == IPU_HALF || type == IPU_BFLOAT16;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- at load ---- */

static way choose(const ipu__matmul *mm, ipu_type type)
{
    bool few = mm->m < ROWS_WORTH_KERNELS || mm->n < ROWS_WORTH_KERNELS;
    if (few && mm->a_k == 1 && mm->b_k == 1 && mm->k >= 16) return DOTS;
    if (mm->b_n != 1 && mm->m < mm->n) return SWAPPED;
    return type == IPU_FLOAT ? DIRECT : SUMS;
}

/* Sizes of blocks; rows of a are `step` floats apart where kernels read them. Blocks of few rows have all of
 * the depth, so that b is packed once. */
static void set_blocks(part *p, int64_t step)
{
    ipu__xsmm_blocks *x    = &p->blocks;
    int64_t           same = step * (int64_t)sizeof(float);
    same &= -same; /* the largest power of two that divides it */
    int64_t most  = same >= WAY_BYTES ? WAYS : 2 * WAYS;
    int64_t wide  = p->lanes ? IPU__LAYOUT_WIDTH : x->n;
    bool    meet  = same >= WAY_BYTES / 2 && wide <= COLUMNS_THAT_ARE_FEW && wide * x->k <= PACKED_FLOATS;
    bool    panel = p->lanes || (p->pack_b && (!p->pack_a || p->whole_a));
    x->mb         = meet ? (x->m < most ? x->m : most) : ipu__xsmm_block(x->m, panel ? ROWS : BLOCK, 6);
    x->nb         = panel ? ipu__xsmm_block(wide, PANEL, 16) : ipu__xsmm_block(x->n, BLOCK, 64);
    x->kb         = meet ? x->k : ipu__xsmm_block(x->k, panel ? DEPTH : BLOCK, 8);
    if (p->pack_a && !p->whole_a && x->n <= COLUMNS_THAT_ARE_FEW) {
        x->mb = ipu__xsmm_block(x->m, FEW_ROWS, 6);
        x->kb = ipu__xsmm_block(x->k, FEW_DEEP, 8);
    }
    p->chunk = x->nb * x->k <= DEEPEST_FLOATS ? x->k : x->kb;
    p->group = x->nb;
    if (!panel) return;
    int64_t panels = PACKED_FLOATS / (x->nb * p->chunk);
    p->group       = p->lanes ? x->n : x->nb * (panels > 1 ? panels : 1);
}

/* More parts than rows or columns: it has no blocks, whose sizes would be 0. */
static bool is_empty(const part *p)
{
    return p->batch.begin == p->batch.end || p->blocks.m == 0 || p->blocks.n == 0;
}

static void describe(const ipu__matmul *mm, ipu_type type, bool lanes, int index, int n_parts, part *out)
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
    out->whole_a    = out->pack_a && out->blocks.n > BLOCK && out->blocks.m * mm->k <= PACKED_FLOATS;
    out->lanes      = lanes;
    if (lanes) out->b_k = IPU__LAYOUT_WIDTH, out->b_n = 1;
    out->pack_b = !lanes && (type != IPU_FLOAT || out->b_n != 1 || out->blocks.m >= ROWS_WORTH_PACKING);
    if (!is_empty(out)) set_blocks(out, out->pack_a || out->a_k != 1 ? 1 : out->a_m);
}

static bool is_in_lanes(const ipu__kernel_call *call) { return call->layout[A] == IPU__LAYOUT_LANES; }

/* Rows in lanes are the panels that a swapped product packs of them, if parts have whole ones. */
ipu__kernel_layouts ipu__matmul_xsmm_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    ipu__kernel_layouts plain = {IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN), IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN),
                                 false};
    ipu__matmul         mm    = ipu__matmul_get(call);
    ipu_type            type  = call->operand[OUT].type;
    if (operand != A || type != IPU_FLOAT || mm.batch != 1 || mm.transpose_a
        || call->operand[A].shape.rank != 2 || choose(&mm, type) != SWAPPED)
        return plain;
    for (int i = 0; i < n_parts; i++) {
        ipu__matmul_part r = ipu__matmul_part_get(&mm, i, n_parts);
        if (r.row.begin % IPU__LAYOUT_WIDTH != 0 || r.row.end % IPU__LAYOUT_WIDTH != 0) return plain;
    }
    unsigned lanes = IPU__LAYOUT_BIT(IPU__LAYOUT_LANES);
    return (ipu__kernel_layouts){plain.takes | lanes, lanes, false};
}

/* Scratch of a part, in floats; each piece begins at a cache line. */
typedef struct room {
    int64_t a, b, sums, lines, n;
} room;

enum {
    LINES = 16
}; /* rows that are converted before they are transposed: a tile of the transposition, or two */

static int64_t line_up(int64_t n) { return (n + 15) / 16 * 16; }

static room get_room(const part *p, ipu_type type)
{
    const ipu__xsmm_blocks *x       = &p->blocks;
    int64_t                 longest = p->chunk > x->mb ? p->chunk : x->mb;
    room                    r       = {0};
    if (is_empty(p)) return r;
    if (p->way == DOTS) {
        r.b    = type == IPU_FLOAT ? 0 : line_up(IPU__DOT_ROWS * x->k);
        r.sums = r.b + line_up(x->n * x->k);
        r.n    = r.sums + line_up(IPU__DOT_ROWS);
        return r;
    }
    int64_t whole = (x->n + x->nb - 1) / x->nb * x->nb; /* panels */
    if (x->nb > longest) longest = x->nb;
    if (p->whole_a && x->m > longest) longest = x->m;
    r.b     = p->whole_a ? line_up(x->m * x->k) : p->pack_a ? line_up(x->mb * x->kb) : 0;
    r.sums  = r.b + (p->pack_b ? line_up(p->chunk * least(p->group, whole)) : 0);
    r.lines = r.sums + (p->way == DIRECT ? 0 : line_up(x->mb * x->nb));
    r.n     = r.lines + (type == IPU_FLOAT ? 0 : LINES * line_up(longest));
    return r;
}

size_t ipu__matmul_xsmm_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    ipu__matmul mm   = ipu__matmul_get(call);
    ipu_type    type = call->operand[OUT].type;
    int64_t     most = 0;
    for (int i = 0; i < n_parts; i++) {
        part p;
        describe(&mm, type, is_in_lanes(call), i, n_parts, &p);
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
    int64_t packed     = p->whole_a ? p->blocks.k : p->blocks.kb;
    int64_t lda        = p->pack_a ? packed : transposed ? p->a_k : p->a_m;
    int64_t ldb        = p->pack_b ? p->blocks.nb : p->b_k;
    /* The stride of a single row is never used, but it must be possible. */
    if (p->blocks.m == 1 && !transposed && lda < p->blocks.kb) lda = p->blocks.kb;
    if (p->blocks.k == 1 && ldb < p->blocks.nb) ldb = p->blocks.nb;
    return ipu__xsmm_blocks_make(&p->blocks, lda, ldb, p->way == DIRECT ? mm->n : p->blocks.nb, transposed,
                                 false);
}

static end find_end(const ipu__kernel_call *call, const ipu__matmul *mm)
{
    const ipu__kernel_value *e0   = &call->operand[IPU__MATMUL_B + 1];
    const char              *text = ipu__epilogue_has(call) ? ipu__op_text(call, "epilogue") : "";
    if (call->operand[OUT].type != IPU_FLOAT || e0->type != IPU_FLOAT || e0->shape.rank != 1
        || e0->shape.dim[0] != mm->n)
        return CHAIN;
    if (strcmp(text, "add a0 a1; out t0") == 0) return BIAS;
    return strcmp(text, "add a0 a1; relu t0; out t1") == 0 ? BIAS_RELU : CHAIN;
}

ipu_status ipu__matmul_xsmm_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    state *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->parts);
    *out     = NULL;
    if (!s) return ipu__fail_memory();
    s->mm             = ipu__matmul_get(call);
    s->type           = call->operand[OUT].type;
    s->end            = find_end(call, &s->mm);
    ipu_status status = ipu__epilogue_init(&s->epilogue, call);
    for (int i = 0; i < n_parts && status == IPU_OK; i++) {
        describe(&s->mm, s->type, is_in_lanes(call), i, n_parts, &s->parts[i]);
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
    const state *s = j->s;
    int64_t      n = s->mm.n;
    if (s->end == CHAIN)
        ipu__matmul_finish(&s->mm, &s->epilogue, j->operand, j->matrix, row, rows, column, columns,
                           j->chain_scratch);
    else
        IPU__SIMD_PICK(ipu__xsmm_loops_at)
            .bias((const float *)j->operand[B + 1] + column, (float *)j->out + row * n + column, n, rows,
                  columns, s->end == BIAS_RELU);
}

/* to[i][j] = from[i][j], or to[j][i]; rows of `from` are `step` elements apart. */
static void pack(const job *j, const char *from, int64_t step, int64_t rows, int64_t columns, float *to,
                 int64_t to_ld, bool transpose)
{
    ipu_type type = j->s->type;
    if (!transpose) {
        ipu__rows_to_floats(type, from, step, to, to_ld, rows, columns);
        return;
    }
    if (type == IPU_FLOAT) {
        ipu__transpose_floats((const float *)from, step, to, to_ld, rows, columns);
        return;
    }
    for (int64_t i = 0; i < rows; i += LINES) {
        int64_t n = least(rows - i, LINES), line = line_up(columns);
        ipu__rows_to_floats(type, from + i * step * j->bytes, step, j->lines, line, n, columns);
        ipu__transpose_floats(j->lines, line, to + i, to_ld, n, columns);
    }
}

/* Columns of b and a part of its depth, panel after panel: [panel][k][column]. */
static void pack_group(const job *j, int64_t k, int64_t depth, int64_t column, int64_t columns)
{
    const part *p  = j->p;
    int64_t     nb = p->blocks.nb;
    for (int64_t c = 0; c < columns; c += nb) {
        const char *from = j->b + (k * p->b_k + (column + c) * p->b_n) * j->bytes;
        float      *to   = j->packed_b + c * p->chunk;
        if (p->b_n != 1)
            pack(j, from, p->b_n, least(columns - c, nb), depth, to, nb, true);
        else
            pack(j, from, p->b_k, depth, least(columns - c, nb), to, nb, false);
    }
}

/* Rows and depth of a, as floats. */
static void pack_a(const job *j, int64_t row, int64_t rows, int64_t k, int64_t depth, int64_t ld)
{
    const part *p    = j->p;
    const char *from = j->a + (row * p->a_m + k * p->a_k) * j->bytes;
    if (p->a_k != 1)
        pack(j, from, p->a_k, depth, rows, j->packed_a, ld, true);
    else
        pack(j, from, p->a_m, rows, depth, j->packed_a, ld, false);
}

static const float *get_a(const job *j, int64_t row, int64_t rows, int64_t k, int64_t depth)
{
    const part *p = j->p;
    if (p->whole_a) return j->packed_a + (row - p->row) * p->blocks.k + k;
    if (!p->pack_a) return (const float *)j->a + row * p->a_m + k * p->a_k;
    pack_a(j, row, rows, k, depth, p->blocks.kb);
    return j->packed_a;
}

static void store_sums(const job *j, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    int64_t n = j->s->mm.n, ld = j->p->blocks.nb;
    if (j->p->way != SWAPPED) {
        ipu__rows_from_floats(j->s->type, j->sums, ld, j->out + (row * n + column) * j->bytes, n, rows,
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
        ipu__rows_from_floats(j->s->type, j->lines, line, j->out + ((column + i) * n + row) * j->bytes, n, m,
                              rows);
    }
}

/* Rows of a with a part of their depth and a group of columns; `is_last`: their sums are complete then. */
typedef struct span {
    int64_t row, rows, k, depth, column, columns;
    bool    is_last;
} span;

/* One panel: all of the depth that is at hand. Columns `c` and on of the group. */
static void multiply_panel(const job *j, const span *s, int64_t c)
{
    const part             *p       = j->p;
    const ipu__xsmm_blocks *x       = &p->blocks;
    int64_t                 columns = least(s->columns - c, x->nb), column = s->column + c;
    const float            *b   = p->pack_b ? j->packed_b + c * p->chunk
                                : p->lanes  ? (const float *)j->b + column * x->k + s->k * p->b_k
                                            : (const float *)j->b + s->k * p->b_k + column;
    int64_t                 b_k = p->pack_b ? x->nb : p->b_k;
    float                  *out = p->way == DIRECT ? (float *)j->out + s->row * j->s->mm.n + column : j->sums;
    for (int64_t k = 0; k < s->depth; k += x->kb) {
        int64_t depth = least(s->depth - k, x->kb);
        ipu__xsmm_run(x, get_a(j, s->row, s->rows, s->k + k, depth), b + k * b_k, out, s->rows, columns,
                      depth, s->k + k > 0);
    }
    if (!s->is_last || p->way == DIRECT) return;
    store_sums(j, s->row, s->rows, column, columns);
    if (p->is_swapped)
        finish(j, column, columns, s->row, s->rows);
    else
        finish(j, s->row, s->rows, column, columns);
}

/* Sums in scratch stay there until they are complete: if all of the depth is not packed at once, b is packed
 * again for each block of rows. */
static void multiply_group(const job *j, int64_t column, int64_t columns)
{
    const part             *p = j->p;
    const ipu__xsmm_blocks *x = &p->blocks;
    int64_t                 n = p->way == DIRECT || p->chunk == x->k ? x->m : x->mb; /* rows at a time */
    for (int64_t top = 0; top < x->m; top += n)
        for (int64_t k = 0; k < x->k; k += p->chunk) {
            span s = {.k       = k,
                      .depth   = least(x->k - k, p->chunk),
                      .column  = column,
                      .columns = columns,
                      .is_last = k + p->chunk >= x->k};
            if (p->pack_b) pack_group(j, k, s.depth, column, columns);
            for (int64_t i = top; i < least(top + n, x->m); i += x->mb) {
                s.row  = p->row + i;
                s.rows = least(x->m - i, x->mb);
                for (int64_t c = 0; c < columns; c += x->nb) multiply_panel(j, &s, c);
                if (s.is_last && p->way == DIRECT) finish(j, s.row, s.rows, column, columns);
            }
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
    if (p->whole_a) pack_a(j, p->row, p->blocks.m, 0, p->blocks.k, p->blocks.k);
    for (int64_t c = 0; c < p->blocks.n; c += p->group)
        multiply_group(j, p->column + c, least(p->blocks.n - c, p->group));
}

ipu_status ipu__matmul_xsmm_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
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
