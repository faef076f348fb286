/* matmul_integer and qlinear_matmul by oneDNN: sums of the raw numbers, then a correction for zero points.
 *
 * The right factor must be int8: uint8 is copied with 128 subtracted from it and from its zero point.
 */
#include <string.h>

#include "base/alloc.h"
#include "op/quantize/matmul.h"

/* What a part multiplies at once. */
typedef struct piece {
    ipu__matmul      mm;
    ipu__matmul_part mine;
    ipu__int8_dims   dims;
    bool             copies_b, is_int32;
} piece;

static piece get_piece(const ipu__kernel_call *call, int part, int n_parts)
{
    const ipu__int8_roles *r = ipu__int8_roles_of(call);
    piece                  p = {.mm       = ipu__int8_matmul_get(call),
                                .copies_b = call->operand[r->right].type == IPU_UINT8,
                                .is_int32 = call->operand[r->out].type == IPU_INT32};
    p.mine                   = ipu__matmul_part_get(&p.mm, part, n_parts);
    int64_t n                = p.mine.column.end - p.mine.column.begin;
    p.dims                   = (ipu__int8_dims){.m      = p.mine.row.end - p.mine.row.begin,
                                                .n      = n,
                                                .k      = p.mm.k,
                                                .a_type = call->operand[r->left].type,
                                                .b_k    = p.copies_b ? n : p.mm.b_k,
                                                .b_n    = 1,
                                                .out_m  = p.is_int32 ? p.mm.n : n};
    if (p.mine.batch.begin == p.mine.batch.end) p.dims.m = 0;
    return p;
}

bool ipu__int8_matmul_onednn_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)n_parts;
    ipu__matmul    mm   = ipu__int8_matmul_get(call);
    ipu__int8_dims dims = {.m = mm.m, .n = mm.n, .k = mm.k};
    return mm.batch > 0 && ipu__int8_gemm_fits(ipu__cpu_features_of(machine), &dims);
}

static size_t rounded(double bytes) { return ((size_t)bytes + 63) / 64 * 64; }

/* In the scratch memory, one after another: oneDNN's, b, sums of int32, then four rows. */
typedef struct offsets {
    size_t b, sums, column, zero, scales, end;
} offsets;

static ipu_status get_offsets(const piece *p, offsets *out)
{
    size_t bytes = 0;
    double n     = (double)p->dims.n;
    *out         = (offsets){0};
    if (p->dims.m == 0 || p->dims.n == 0) return IPU_OK;
    IPU_TRY(ipu__int8_gemm_bytes(&p->dims, &bytes));
    out->b      = rounded((double)bytes);
    out->sums   = out->b + (p->copies_b ? rounded(n * (double)p->dims.k) : 0);
    out->column = out->sums + (p->is_int32 ? 0 : rounded(4 * n * (double)p->dims.m));
    out->zero   = out->column + rounded(4 * n);
    out->scales = out->zero + rounded(4 * n);
    out->end    = out->scales + rounded(4 * n);
    return IPU_OK;
}

size_t ipu__int8_matmul_onednn_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    size_t most = 0;
    for (int i = 0; i < n_parts; i++) {
        piece   p = get_piece(call, i, n_parts);
        offsets o;
        if (get_offsets(&p, &o) != IPU_OK) return SIZE_MAX;
        most = o.end > most ? o.end : most;
    }
    return most;
}

typedef struct state {
    int n_parts;
    struct {
        ipu__int8_gemm *gemm; /* NULL: nothing to do */
        offsets         at;
    } part[];
} state;

void ipu__int8_matmul_onednn_release(void *prepared)
{
    state *s = prepared;
    for (int i = 0; s && i < s->n_parts; i++) ipu__int8_gemm_free(s->part[i].gemm);
    ipu__free(s);
}

ipu_status ipu__int8_matmul_onednn_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    state     *s      = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->part);
    ipu_status status = IPU_OK;
    *out              = NULL;
    if (!s) return ipu__fail_memory();
    s->n_parts = n_parts;
    for (int i = 0; i < n_parts && status == IPU_OK; i++) {
        piece p = get_piece(call, i, n_parts);
        status  = get_offsets(&p, &s->part[i].at);
        if (status == IPU_OK && s->part[i].at.end > 0)
            status = ipu__int8_gemm_make(&p.dims, &s->part[i].gemm);
    }
    if (status == IPU_OK)
        *out = s;
    else
        ipu__int8_matmul_onednn_release(s);
    return status;
}

/* ---- running ---- */

typedef struct work {
    const ipu__kernel_call    *call;
    const ipu__int8_roles     *r;
    const ipu__quantize_loops *loops;
    void *const               *operand;
    int8_t                    *b;
    int32_t                   *sums;
    uint32_t                  *column, *zero;
    float                     *scales;
} work;

/* Columns of b, as int8; and column[j], zero[j] of ipu__int8_correct. */
static const int8_t *get_columns(const piece *p, const work *w, const int8_t *b)
{
    int64_t n = p->dims.n, step = p->mm.b_k;
    if (p->copies_b) {
        for (int64_t k = 0; k < p->dims.k; k++) w->loops->flip(b + k * step, w->b + k * n, n);
        b    = w->b;
        step = n;
    }
    for (int64_t j = 0; j < n; j++) {
        int32_t zero = ipu__int8_zero(w->call, w->operand, w->r->right_zero, p->mine.column.begin + j);
        w->zero[j]   = (uint32_t)(zero - (p->copies_b ? 128 : 0));
        w->column[j] = (uint32_t)p->dims.k * w->zero[j];
    }
    for (int64_t k = 0; k < p->dims.k && ipu__kernel_has(w->call, w->r->left_zero); k++)
        w->loops->subtract(w->column, b + k * step, n);
    return b;
}

static void finish_rows(const piece *p, const work *w, int64_t matrix, const int8_t *a, int32_t *sums)
{
    bool corrects = p->copies_b || ipu__kernel_has(w->call, w->r->right_zero)
                 || ipu__kernel_has(w->call, w->r->left_zero);
    bool is_signed = p->dims.a_type == IPU_INT8;
    for (int64_t i = 0; i < p->dims.m; i++) {
        int64_t  row = p->mine.row.begin + i, at = (matrix * p->mm.m + row) * p->mm.n + p->mine.column.begin;
        int32_t *to = sums + i * p->dims.out_m;
        if (corrects)
            w->loops->correct(
                to, w->column, w->zero, (uint32_t)ipu__int8_zero(w->call, w->operand, w->r->left_zero, row),
                (is_signed ? w->loops->sum_int8 : w->loops->sum_uint8)(a + i * p->dims.k, p->dims.k),
                p->dims.n);
        if (p->is_int32) continue;
        ipu__int8_scales(w->call, w->r, w->operand, row, p->mine.column.begin, p->dims.n, w->scales);
        ipu__int8_finish(w->call, w->r, w->loops, w->operand, to, w->scales, p->dims.n, at);
    }
}

ipu_status ipu__int8_matmul_onednn_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                       void *scratch, int part, int n_parts)
{
    const ipu__int8_roles *r = ipu__int8_roles_of(call);
    const state           *s = prepared;
    ipu__int8_gemm        *g = s->part[part].gemm;
    offsets                o = s->part[part].at;
    piece                  p = get_piece(call, part, n_parts);
    if (!g) return IPU_OK;
    char *base = scratch;
    work  w    = {call,
                  r,
                  &IPU__SIMD_PICK(ipu__quantize_loops_of),
                  operand,
                  (int8_t *)(base + o.b),
                  (int32_t *)(base + o.sums),
                  (uint32_t *)(base + o.column),
                  (uint32_t *)(base + o.zero),
                  (float *)(base + o.scales)};
    for (int64_t i = p.mine.batch.begin; i < p.mine.batch.end; i++) {
        int64_t a_at, b_at;
        ipu__matmul_at(&p.mm, i, &a_at, &b_at);
        const int8_t *a  = (const int8_t *)operand[r->left] + a_at + p.mine.row.begin * p.mm.a_m;
        const int8_t *b  = (const int8_t *)operand[r->right] + b_at + p.mine.column.begin;
        int32_t      *to = w.sums;
        if (p.is_int32)
            to = (int32_t *)operand[r->out] + (i * p.mm.m + p.mine.row.begin) * p.mm.n + p.mine.column.begin;
        b = get_columns(&p, &w, b);
        IPU_TRY(ipu__int8_gemm_run(g, a, b, to, scratch));
        finish_rows(&p, &w, i, a, to);
    }
    return IPU_OK;
}
