/* max_pool, its gradient, and max_pool_with_indices.
 *
 * The gradient looks for the maxima again instead of keeping indices: x is kept anyway, and the forward pass is
 * then plain maxima over rows. Where all of a window is minus infinity, rows give its gradient to no one.
 */
#include <math.h>
#include <string.h>

#include "ipu/gather.h"
#include "ipu/pool.h"
#include "ipu/shape.h"
#include "op/number.h"
#include "op/pool.h"

/* max_pool: x, y. max_pool_with_indices: x, y, indices. max_pool_grad: x, dy, dx. */
enum { X, Y, INDICES, DY = 1, DX };

static ipu__pool get(const ipu_kernel_call *call)
{
    ipu__pool pool;
    ipu_shape out;
    ipu__pool_get(call, &call->operand[X].shape, &pool, &out); /* infer has seen it */
    return pool;
}

/* ---- the meaning ---- */

/* Where in its plane the first maximum of window `i` is; *most: its value. */
static int64_t find(const ipu__pool *p, ipu_type type, const void *x, int64_t plane, const int64_t i[3],
                    double *most)
{
    ipu_interval taps[3];
    int64_t      found = -1;
    for (int d = 0; d < 3; d++) taps[d] = ipu__pool_taps(p, d, i[d]);
    for (int64_t a = taps[0].begin; a < taps[0].end; a++)
        for (int64_t b = taps[1].begin; b < taps[1].end; b++)
            for (int64_t c = taps[2].begin; c < taps[2].end; c++) {
                int64_t at = (ipu__pool_at(p, 0, i[0], a) * p->in[1] + ipu__pool_at(p, 1, i[1], b)) * p->in[2]
                           + ipu__pool_at(p, 2, i[2], c);
                double v = ipu__number_load(type, x, plane * p->in[0] * p->in[1] * p->in[2] + at);
                if (found >= 0 && !(v > *most) && !isnan(v)) continue;
                found = at;
                *most = v;
            }
    return found;
}

static void split_output(const ipu__pool *p, int64_t at, int64_t *plane, int64_t i[3])
{
    i[2]   = at % p->out[2];
    i[1]   = at / p->out[2] % p->out[1];
    i[0]   = at / (p->out[2] * p->out[1]) % p->out[0];
    *plane = at / (p->out[2] * p->out[1] * p->out[0]);
}

static int64_t n_outputs(const ipu__pool *p) { return p->planes * p->out[0] * p->out[1] * p->out[2]; }

/* `indices` NULL: not asked for. */
static void find_range(const ipu_kernel_call *call, void *const *operand, ipu_interval range,
                       int32_t *indices)
{
    ipu__pool p    = get(call);
    ipu_type  type = call->operand[X].type;
    for (int64_t at = range.begin; at < range.end; at++) {
        int64_t plane, i[3];
        double  most = 0;
        split_output(&p, at, &plane, i);
        int64_t found = find(&p, type, operand[X], plane, i, &most);
        ipu__number_store(type, operand[Y], at, most);
        if (indices) indices[at] = (int32_t)found;
    }
}

static void max_pool_ref(const ipu_kernel_call *call, void *const *operand)
{
    ipu__pool p = get(call);
    find_range(call, operand, (ipu_interval){0, n_outputs(&p)}, NULL);
}

static void with_indices_ref(const ipu_kernel_call *call, void *const *operand)
{
    ipu__pool p = get(call);
    find_range(call, operand, (ipu_interval){0, n_outputs(&p)}, operand[INDICES]);
}

static bool is_in(const ipu__pool *p, int d, int64_t i, int64_t at)
{
    int64_t tap = at - ipu__pool_at(p, d, i, 0);
    return tap >= 0 && tap % p->dilation[d] == 0 && tap / p->dilation[d] < p->kernel[d];
}

/* Windows of dimension `d` that may reach element `at`. */
static ipu_interval windows_at(const ipu__pool *p, int d, int64_t at)
{
    int64_t last = (at + p->before[d]) / p->stride[d];
    int64_t back = (p->kernel[d] - 1) * p->dilation[d] / p->stride[d] + 1;
    return (ipu_interval){last > back ? last - back : 0, last + 1 < p->out[d] ? last + 1 : p->out[d]};
}

/* Each element of dx asks the windows around it, so that the sum is rounded once. */
static double gather_dy(const ipu_kernel_call *call, const ipu__pool *p, void *const *operand, int64_t plane,
                        const int64_t at[3])
{
    ipu_type     type = call->operand[X].type;
    ipu_interval w[3];
    double       sum = 0, most = 0;
    int64_t      i[3], own     = (at[0] * p->in[1] + at[1]) * p->in[2] + at[2];
    for (int d = 0; d < 3; d++) w[d] = windows_at(p, d, at[d]);
    for (i[0] = w[0].begin; i[0] < w[0].end; i[0]++)
        for (i[1] = w[1].begin; i[1] < w[1].end; i[1]++)
            for (i[2] = w[2].begin; i[2] < w[2].end; i[2]++) {
                if (!is_in(p, 0, i[0], at[0]) || !is_in(p, 1, i[1], at[1]) || !is_in(p, 2, i[2], at[2]))
                    continue;
                if (find(p, type, operand[X], plane, i, &most) != own) continue;
                int64_t from = ((plane * p->out[0] + i[0]) * p->out[1] + i[1]) * p->out[2] + i[2];
                sum += ipu__number_load(type, operand[DY], from);
            }
    return sum;
}

static void max_pool_grad_ref(const ipu_kernel_call *call, void *const *operand)
{
    ipu__pool p = get(call);
    int64_t   n = p.planes * p.in[0] * p.in[1] * p.in[2];
    for (int64_t k = 0; k < n; k++) {
        int64_t at[3] = {k / (p.in[2] * p.in[1]) % p.in[0], k / p.in[2] % p.in[1], k % p.in[2]};
        double  sum   = gather_dy(call, &p, operand, k / (p.in[0] * p.in[1] * p.in[2]), at);
        ipu__number_store(call->operand[X].type, operand[DX], k, sum);
    }
}

/* ---- by rows ---- */

static bool rows_fit(const ipu_kernel_call *call, unsigned cpu_features, int n_parts)
{
    (void)cpu_features, (void)n_parts;
    return ipu__pool_in_float(call->operand[X].type) && ipu__op_n_elements(&call->operand[Y].shape) > 0;
}

typedef struct row_job {
    ipu__pool              p;
    ipu__pool_rows         r;
    const ipu__pool_loops *loops;
    ipu_type               type;
    float                 *row, *phases, *out, *room; /* padded row; its phases; a row of y; conversions */
} row_job;

static size_t row_floats(const ipu__pool *p, const ipu__pool_rows *r)
{
    return (size_t)(r->width + p->stride[2] * r->pitch + p->out[2] + p->in[2] + 64);
}

static row_job make_row_job(const ipu_kernel_call *call, float *scratch)
{
    row_job j = {.p = get(call), .loops = &IPU__SIMD_PICK(ipu__pool_loops_at), .type = call->operand[X].type};
    j.r       = ipu__pool_rows_get(&j.p);
    j.phases  = scratch;
    j.row     = j.phases + j.p.stride[2] * j.r.pitch;
    j.out     = j.row + j.r.width;
    j.room    = j.out + j.p.out[2];
    return j;
}

static void pad_row(const row_job *j)
{
    const ipu__pool *p = &j->p;
    for (int64_t i = 0; i < p->before[2] && i < j->r.width; i++) j->row[i] = -INFINITY;
    for (int64_t i = p->before[2] + j->r.kept; i < j->r.width; i++) j->row[i] = -INFINITY;
}

/* The largest of the rows of x that rows of windows i[0], i[1] reach, in the padded row. */
static void max_of_rows(const row_job *j, const void *x, int64_t plane, const int64_t i[3])
{
    const ipu__pool *p    = &j->p;
    ipu_interval     deep = ipu__pool_taps(p, 0, i[0]), high = ipu__pool_taps(p, 1, i[1]);
    float           *to    = j->row + p->before[2];
    bool             first = true;
    for (int64_t a = deep.begin; a < deep.end; a++)
        for (int64_t b = high.begin; b < high.end; b++) {
            int64_t at = (plane * p->in[0] + ipu__pool_at(p, 0, i[0], a)) * p->in[1]
                       + ipu__pool_at(p, 1, i[1], b);
            const float *from = ipu__pool_load(j->type, x, at * p->in[2], j->r.kept, j->room);
            if (first)
                memcpy(to, from, (size_t)j->r.kept * sizeof *to);
            else
                j->loops->max(to, from, j->r.kept);
            first = false;
        }
}

static ipu_status max_pool_run(const ipu_kernel_call *call, void *state, void *const *operand, void *scratch,
                               int part, int n_parts)
{
    (void)state;
    row_job          j    = make_row_job(call, scratch);
    const ipu__pool *p    = &j.p;
    ipu_interval     mine = ipu__op_part(p->planes * p->out[0] * p->out[1], 1, part, n_parts);
    pad_row(&j);
    for (int64_t row = mine.begin; row < mine.end; row++) {
        int64_t plane, i[3];
        split_output(p, row * p->out[2], &plane, i);
        max_of_rows(&j, operand[X], plane, i);
        j.loops->split(j.row, j.r.width, p->stride[2], j.phases, j.r.pitch);
        float *out = j.type == IPU_FLOAT ? (float *)operand[Y] + row * p->out[2] : j.out;
        memcpy(out, j.phases, (size_t)p->out[2] * sizeof *out);
        for (int64_t c = 1; c < p->kernel[2]; c++)
            j.loops->max(out, j.phases + ipu__pool_tap(p, &j.r, c), p->out[2]);
        if (j.type != IPU_FLOAT) ipu__pool_store(j.type, out, operand[Y], row * p->out[2], p->out[2]);
    }
    return IPU_OK;
}

static size_t max_pool_scratch(const ipu_kernel_call *call, int n_parts)
{
    (void)n_parts;
    ipu__pool      p = get(call);
    ipu__pool_rows r = ipu__pool_rows_get(&p);
    return row_floats(&p, &r) * sizeof(float);
}

/* ---- the gradient by planes ---- */

typedef struct plane_job {
    row_job  rows;
    int64_t  row_floats; /* phases of one row */
    float   *x, *dx;     /* phases of all rows of the plane */
    float   *most;
    int32_t *where;
} plane_job;

static size_t plane_scratch(const ipu_kernel_call *call, int n_parts)
{
    (void)n_parts;
    ipu__pool      p = get(call);
    ipu__pool_rows r = ipu__pool_rows_get(&p);
    return (row_floats(&p, &r) + (size_t)(2 * p.in[0] * p.in[1] * p.stride[2] * r.pitch + 2 * p.out[2]))
         * sizeof(float);
}

static plane_job make_plane_job(const ipu_kernel_call *call, float *scratch)
{
    plane_job        j = {.rows = make_row_job(call, scratch)};
    const ipu__pool *p = &j.rows.p;
    j.row_floats       = p->stride[2] * j.rows.r.pitch;
    j.x                = scratch + row_floats(p, &j.rows.r);
    j.dx               = j.x + p->in[0] * p->in[1] * j.row_floats;
    j.most             = j.dx + p->in[0] * p->in[1] * j.row_floats;
    j.where            = (int32_t *)(j.most + p->out[2]);
    pad_row(&j.rows);
    return j;
}

/* For every tap of the window row: the row of x and what it is called. */
#define FOR_TAPS(j, i, ROW, BODY)                                                                      \
    do {                                                                                               \
        const ipu__pool *p_    = &(j)->rows.p;                                                         \
        ipu_interval     deep_ = ipu__pool_taps(p_, 0, (i)[0]), high_ = ipu__pool_taps(p_, 1, (i)[1]); \
        for (int64_t a_ = deep_.begin; a_ < deep_.end; a_++)                                           \
            for (int64_t b_ = high_.begin; b_ < high_.end; b_++) {                                     \
                int64_t ROW = (ipu__pool_at(p_, 0, (i)[0], a_) * p_->in[1]                             \
                               + ipu__pool_at(p_, 1, (i)[1], b_))                                      \
                            * (j)->row_floats;                                                         \
                for (int64_t c_ = 0; c_ < p_->kernel[2]; c_++) {                                       \
                    int32_t k   = (int32_t)((a_ * p_->kernel[1] + b_) * p_->kernel[2] + c_);           \
                    int64_t tap = ROW + ipu__pool_tap(p_, &(j)->rows.r, c_);                           \
                    BODY;                                                                              \
                }                                                                                      \
            }                                                                                          \
    } while (0)

static void do_plane(const plane_job *j, void *const *operand, int64_t plane)
{
    const ipu__pool *p      = &j->rows.p;
    const row_job   *rows   = &j->rows;
    int64_t          n_rows = p->in[0] * p->in[1], i[3] = {0};
    for (int64_t row = 0; row < n_rows; row++) {
        const float *x = ipu__pool_load(rows->type, operand[X], (plane * n_rows + row) * p->in[2],
                                        rows->r.kept, rows->room);
        memcpy(rows->row + p->before[2], x, (size_t)rows->r.kept * sizeof *x);
        rows->loops->split(rows->row, rows->r.width, p->stride[2], j->x + row * j->row_floats, rows->r.pitch);
    }
    memset(j->dx, 0, (size_t)(n_rows * j->row_floats) * sizeof *j->dx);
    for (i[0] = 0; i[0] < p->out[0]; i[0]++)
        for (i[1] = 0; i[1] < p->out[1]; i[1]++) {
            int64_t      at = ((plane * p->out[0] + i[0]) * p->out[1] + i[1]) * p->out[2];
            const float *dy = ipu__pool_load(rows->type, operand[DY], at, p->out[2], rows->out);
            for (int64_t c = 0; c < p->out[2]; c++) {
                j->most[c]  = -INFINITY;
                j->where[c] = -1;
            }
            FOR_TAPS(j, i, row, rows->loops->seek(j->most, j->where, j->x + tap, k, p->out[2]));
            FOR_TAPS(j, i, row, rows->loops->give(j->dx + tap, j->where, dy, k, p->out[2]));
        }
}

static ipu_status max_pool_grad_run(const ipu_kernel_call *call, void *state, void *const *operand,
                                    void *scratch, int part, int n_parts)
{
    (void)state;
    plane_job        j      = make_plane_job(call, scratch);
    const ipu__pool *p      = &j.rows.p;
    int64_t          n_rows = p->in[0] * p->in[1];
    ipu_interval     mine   = ipu__op_part(p->planes, 1, part, n_parts);
    for (int64_t plane = mine.begin; plane < mine.end; plane++) {
        do_plane(&j, operand, plane);
        for (int64_t row = 0; row < n_rows; row++) {
            int64_t at = (plane * n_rows + row) * p->in[2];
            float  *to = j.rows.room; /* what windows do not reach stays 0 */
            memset(to + j.rows.r.kept, 0, (size_t)(p->in[2] - j.rows.r.kept) * sizeof *to);
            j.rows.loops->join(j.dx + row * j.row_floats, j.rows.r.pitch, p->stride[2], j.rows.row,
                               j.rows.r.width);
            memcpy(to, j.rows.row + p->before[2], (size_t)j.rows.r.kept * sizeof *to);
            ipu__pool_store(j.rows.type, to, operand[DX], at, p->in[2]);
        }
        pad_row(&j.rows); /* `join` wrote over it */
    }
    return IPU_OK;
}

static ipu_status with_indices_run(const ipu_kernel_call *call, void *state, void *const *operand,
                                   void *scratch, int part, int n_parts)
{
    (void)state, (void)scratch;
    ipu__pool p = get(call);
    find_range(call, operand, ipu__op_part(n_outputs(&p), 64, part, n_parts), operand[INDICES]);
    return IPU_OK;
}

/* ---- records ---- */

static ipu_status max_pool_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    ipu__pool pool;
    IPU_TRY(ipu__op_want_floating(call, X));
    out->type = call->operand[X].type;
    return ipu__pool_get(call, &call->operand[X].shape, &pool, &out->shape);
}

static ipu_status with_indices_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    IPU_TRY(max_pool_infer(call, out));
    out[1] = (ipu_kernel_value){IPU_INT32, out->shape};
    return IPU_OK;
}

static ipu_status max_pool_grad_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    ipu_kernel_value y;
    IPU_TRY(max_pool_infer(call, &y));
    IPU_TRY(ipu__op_want_same_type(call, X, DY));
    IPU_TRY(ipu__op_want_shape(call, DY, &y.shape));
    *out = call->operand[X];
    return IPU_OK;
}

static double work(const ipu_kernel_call *call)
{
    ipu__pool p = get(call);
    return ipu__pool_work(&p);
}

static ipu_status plan(const ipu_kernel_call *call, const ipu_target *target, ipu_kernel_plan *out)
{
    ipu__pool p = get(call);
    return ipu__pool_plan(&p, call->operand[X].type, target, out);
}

static void max_pool_grad_of(ipu__gradient *g)
{
    g->d_in[X] = ipu__emit1(g->b, "max_pool_grad", g->call->attributes, g->call->n_attributes,
                            IPU__IN(g->in[X], g->d_out[0]));
}

/* [planes of x, elements]. */
static ipu_value as_planes(ipu_builder *b, ipu_value v) { return ipu_flatten(b, v, 2); }

static void with_indices_grad(ipu__gradient *g)
{
    const ipu_kernel_value *x = &g->call->operand[X];
    if (!ipu__has(g->d_out[0])) return;
    ipu_value zeros = ipu_expand(g->b, ipu_constant_value(g->b, x->type, IPU_SCALAR, 0), x->shape);
    ipu_value dx    = ipu_scatter_elements(g->b, as_planes(g->b, zeros), as_planes(g->b, g->out[1]),
                                           as_planes(g->b, g->d_out[0]), 2, IPU_SCATTER_ADD);
    g->d_in[X]      = ipu_reshape(g->b, dx, x->shape);
}

/* Linear in dy: what comes back is taken where the maxima are. */
static void max_pool_grad_grad(ipu__gradient *g)
{
    ipu_value out[2];
    if (!g->wanted[DY]) return;
    ipu_emit(g->b, "max_pool_with_indices", g->call->attributes, g->call->n_attributes, &g->in[X], 1, out, 2);
    ipu_value d = ipu_gather_elements(g->b, as_planes(g->b, g->d_out[0]), as_planes(g->b, out[1]), 2);
    g->d_in[DY] = ipu_reshape(g->b, d, g->call->operand[DY].shape);
}

static const ipu_op_attribute attributes[] = {IPU__POOL_ATTRIBUTES};
enum { N_ATTRIBUTES = sizeof attributes / sizeof *attributes };

static const ipu_kernel_operand max_pool_operands[] = {IPU__INPUT("x"), IPU__OUTPUT("y")};
static const ipu_kernel_impl    max_pool_impls[]    = {
          {.name = "rows", .fits = rows_fit, .scratch_bytes = max_pool_scratch, .run = max_pool_run}};
/* clang-format off */
static const char *const max_pool_samples[] = {
    "float[2,3,6,8]; kernel=[2,2]",
    "float[1,2,7,9]; kernel=[3,3] stride=[2,2] padding=[1,1]",
    "float[2,1,7,8]; kernel=[3,2] stride=[1,3] padding=[1,0,0,1] ceil_mode=1",
    "float[2,2,11]; kernel=[3] stride=[2] dilation=[2] padding=[2]",
    "float[1,2,4,5,6]; kernel=[2,3,2] stride=[2,1,2] padding=[0,1,0]",
    "float[0,2,4,4]; kernel=[2,2]",
    "float[8,16,33,35]; kernel=[3,3] stride=[2,2] padding=[1,1]",
    "float[16,8,28,28]; kernel=[2,2]",
    NULL,
};
/* clang-format on */
const ipu_op_def ipu__op_max_pool = {
    .kernel       = {.name              = "max_pool",
                     .operands          = max_pool_operands,
                     .n_operands        = 2,
                     .check             = ipu__op_check,
                     .ref               = max_pool_ref,
                     .work              = work,
                     .plan              = plan,
                     .implementations   = max_pool_impls,
                     .n_implementations = 1},
    .n_in         = 1,
    .family       = "pool",
    .summary      = "the largest element of each window",
    .flags        = IPU__OP_BATCHED,
    .attributes   = attributes,
    .n_attributes = N_ATTRIBUTES,
    .infer        = max_pool_infer,
    .grad         = max_pool_grad_of,
    .samples      = max_pool_samples,
};

static const ipu_kernel_operand with_indices_operands[] = {IPU__INPUT("x"), IPU__OUTPUT("y"),
                                                           IPU__OUTPUT("indices")};
static const ipu_kernel_impl    with_indices_impls[]    = {
          {.name = "plain", .fits = ipu__op_fits_always, .run = with_indices_run}};
const ipu_op_def ipu__op_max_pool_with_indices = {
    .kernel       = {.name              = "max_pool_with_indices",
                     .operands          = with_indices_operands,
                     .n_operands        = 3,
                     .check             = ipu__op_check,
                     .ref               = with_indices_ref,
                     .work              = work,
                     .plan              = plan,
                     .implementations   = with_indices_impls,
                     .n_implementations = 1},
    .n_in         = 1,
    .family       = "pool",
    .summary      = "the largest element of each window, and where in its plane it is",
    .flags        = IPU__OP_BATCHED,
    .attributes   = attributes,
    .n_attributes = N_ATTRIBUTES,
    .infer        = with_indices_infer,
    .grad         = with_indices_grad,
    .samples      = max_pool_samples,
};

static const ipu_kernel_operand max_pool_grad_operands[] = {IPU__INPUT("x"), IPU__INPUT("dy"),
                                                            IPU__OUTPUT("dx")};
static const ipu_kernel_impl    max_pool_grad_impls[]    = {
          {.name = "planes", .fits = rows_fit, .scratch_bytes = plane_scratch, .run = max_pool_grad_run}};
/* clang-format off */
static const char *const max_pool_grad_samples[] = {
    "float[2,3,6,8], float[2,3,3,4]; kernel=[2,2]",
    "float[1,2,7,9], float[1,2,4,5]; kernel=[3,3] stride=[2,2] padding=[1,1]",
    "float[2,1,7,8], float[2,1,7,3]; kernel=[3,2] stride=[1,3] padding=[1,0,1,1] ceil_mode=1",
    "float[2,2,11], float[2,2,6]; kernel=[3] stride=[2] dilation=[2] padding=[2]",
    "float[1,2,4,5,6], float[1,2,2,5,3]; kernel=[2,3,2] stride=[2,1,2] padding=[0,1,0]",
    "float[2,2,7,11], float[2,2,2,3]; kernel=[2,2] stride=[4,4]",
    "float[0,2,4,4], float[0,2,2,2]; kernel=[2,2]",
    "float[8,16,33,35], float[8,16,17,18]; kernel=[3,3] stride=[2,2] padding=[1,1]",
    NULL,
};
/* clang-format on */
const ipu_op_def ipu__op_max_pool_grad = {
    .kernel       = {.name              = "max_pool_grad",
                     .operands          = max_pool_grad_operands,
                     .n_operands        = 3,
                     .check             = ipu__op_check,
                     .ref               = max_pool_grad_ref,
                     .work              = work,
                     .plan              = plan,
                     .implementations   = max_pool_grad_impls,
                     .n_implementations = 1},
    .n_in         = 2,
    .family       = "pool",
    .summary      = "the gradient of max_pool: dy added where the maxima of x are",
    .flags        = IPU__OP_BATCHED,
    .attributes   = attributes,
    .n_attributes = N_ATTRIBUTES,
    .infer        = max_pool_grad_infer,
    .grad         = max_pool_grad_grad,
    .samples      = max_pool_grad_samples,
};
