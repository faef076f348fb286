/* average_pool and its gradient, each of which is in the gradient of the other. */
#include <string.h>

#include "graph/graph.h"
#include "ipu/pool.h"
#include "op/number.h"
#include "op/pool.h"

enum { FROM, TO }; /* x and y; dy and dx */

static ipu__pool get(const ipu_kernel_call *call)
{
    ipu__pool pool;
    ipu_shape out;
    bool      is_grad = strcmp(call->def->name, "average_pool_grad") == 0;
    ipu__pool_get(call, &call->operand[is_grad ? TO : FROM].shape, &pool, &out); /* infer has seen it */
    return pool;
}

static double count(const ipu__pool *p, const int64_t i[3])
{
    return (double)ipu__pool_count(p, 0, i[0]) * (double)ipu__pool_count(p, 1, i[1])
         * (double)ipu__pool_count(p, 2, i[2]);
}

static void split(const int64_t dims[3], int64_t at, int64_t *plane, int64_t i[3])
{
    i[2]   = at % dims[2];
    i[1]   = at / dims[2] % dims[1];
    i[0]   = at / (dims[2] * dims[1]) % dims[0];
    *plane = at / (dims[2] * dims[1] * dims[0]);
}

static int64_t n_elements(const ipu__pool *p, const int64_t dims[3])
{
    return p->planes * dims[0] * dims[1] * dims[2];
}

/* ---- the meaning ---- */

static void average_pool_ref(const ipu_kernel_call *call, void *const *operand)
{
    ipu__pool p    = get(call);
    ipu_type  type = call->operand[FROM].type;
    for (int64_t at = 0; at < n_elements(&p, p.out); at++) {
        int64_t      plane, i[3];
        ipu_interval taps[3];
        double       sum = 0;
        split(p.out, at, &plane, i);
        for (int d = 0; d < 3; d++) taps[d] = ipu__pool_taps(&p, d, i[d]);
        for (int64_t a = taps[0].begin; a < taps[0].end; a++)
            for (int64_t b = taps[1].begin; b < taps[1].end; b++)
                for (int64_t c = taps[2].begin; c < taps[2].end; c++) {
                    int64_t row = (plane * p.in[0] + ipu__pool_at(&p, 0, i[0], a)) * p.in[1]
                                + ipu__pool_at(&p, 1, i[1], b);
                    sum += ipu__number_load(type, operand[FROM],
                                            row * p.in[2] + ipu__pool_at(&p, 2, i[2], c));
                }
        ipu__number_store(type, operand[TO], at, sum / count(&p, i));
    }
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

static void average_pool_grad_ref(const ipu_kernel_call *call, void *const *operand)
{
    ipu__pool p    = get(call);
    ipu_type  type = call->operand[FROM].type;
    for (int64_t k = 0; k < n_elements(&p, p.in); k++) {
        int64_t      plane, at[3], i[3];
        ipu_interval w[3];
        double       sum = 0;
        split(p.in, k, &plane, at);
        for (int d = 0; d < 3; d++) w[d] = windows_at(&p, d, at[d]);
        for (i[0] = w[0].begin; i[0] < w[0].end; i[0]++)
            for (i[1] = w[1].begin; i[1] < w[1].end; i[1]++)
                for (i[2] = w[2].begin; i[2] < w[2].end; i[2]++) {
                    if (!is_in(&p, 0, i[0], at[0]) || !is_in(&p, 1, i[1], at[1])
                        || !is_in(&p, 2, i[2], at[2]))
                        continue;
                    int64_t from = ((plane * p.out[0] + i[0]) * p.out[1] + i[1]) * p.out[2] + i[2];
                    sum += ipu__number_load(type, operand[FROM], from) / count(&p, i);
                }
        ipu__number_store(type, operand[TO], k, sum);
    }
}

/* ---- by rows ---- */

static bool rows_fit(const ipu_kernel_call *call, unsigned cpu_features, int n_parts)
{
    (void)cpu_features, (void)n_parts;
    return ipu__pool_in_float(call->operand[FROM].type) && ipu__op_n_elements(&call->operand[TO].shape) > 0;
}

typedef struct row_job {
    ipu__pool              p;
    ipu__pool_rows         r;
    const ipu__pool_loops *loops;
    ipu_type               type;
    float *phases, *row, *out, *counts, *by, *room, *plane; /* plane: dx in float, where it is not */
} row_job;

static size_t row_floats(const ipu__pool *p, const ipu__pool_rows *r)
{
    return (size_t)(p->stride[2] * r->pitch + r->width + 3 * p->out[2] + p->in[2]);
}

static size_t rows_scratch(const ipu_kernel_call *call, int n_parts)
{
    (void)n_parts;
    ipu__pool      p = get(call);
    ipu__pool_rows r = ipu__pool_rows_get(&p);
    return (row_floats(&p, &r) + (size_t)(p.in[0] * p.in[1] * p.in[2])) * sizeof(float);
}

static row_job make_job(const ipu_kernel_call *call, float *scratch)
{
    row_job j = {
        .p = get(call), .loops = &IPU__SIMD_PICK(ipu__pool_loops_at), .type = call->operand[FROM].type};
    const ipu__pool *p = &j.p;
    j.r                = ipu__pool_rows_get(p);
    j.phases           = scratch;
    j.row              = j.phases + p->stride[2] * j.r.pitch;
    j.out              = j.row + j.r.width;
    j.counts           = j.out + p->out[2];
    j.by               = j.counts + p->out[2];
    j.room             = j.by + p->out[2];
    j.plane            = j.room + p->in[2];
    memset(j.row, 0, (size_t)j.r.width * sizeof *j.row);
    for (int64_t i = 0; i < p->out[2]; i++) j.counts[i] = (float)ipu__pool_count(p, 2, i);
    return j;
}

/* What the windows of row i[0], i[1] are divided by. */
static void find_counts(const row_job *j, const int64_t i[3])
{
    float rows = (float)ipu__pool_count(&j->p, 0, i[0]) * (float)ipu__pool_count(&j->p, 1, i[1]);
    for (int64_t c = 0; c < j->p.out[2]; c++) j->by[c] = rows * j->counts[c];
}

static void sum_of_rows(const row_job *j, const void *x, int64_t plane, const int64_t i[3])
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
                j->loops->add(to, from, j->r.kept);
            first = false;
        }
}

static ipu_status average_pool_run(const ipu_kernel_call *call, void *state, void *const *operand,
                                   void *scratch, int part, int n_parts)
{
    (void)state;
    row_job          j    = make_job(call, scratch);
    const ipu__pool *p    = &j.p;
    ipu_interval     mine = ipu__op_part(p->planes * p->out[0] * p->out[1], 1, part, n_parts);
    for (int64_t row = mine.begin; row < mine.end; row++) {
        int64_t plane, i[3];
        split(p->out, row * p->out[2], &plane, i);
        sum_of_rows(&j, operand[FROM], plane, i);
        j.loops->split(j.row, j.r.width, p->stride[2], j.phases, j.r.pitch);
        memcpy(j.out, j.phases, (size_t)p->out[2] * sizeof *j.out);
        for (int64_t c = 1; c < p->kernel[2]; c++)
            j.loops->add(j.out, j.phases + ipu__pool_tap(p, &j.r, c), p->out[2]);
        find_counts(&j, i);
        j.loops->divide(j.out, j.by, p->out[2]);
        ipu__pool_store(j.type, j.out, operand[TO], row * p->out[2], p->out[2]);
    }
    return IPU_OK;
}

/* A row of dy / count spread over a row of dx, which is added to every row that the windows reach. */
static void spread_row(const row_job *j, const void *dy, float *dx, int64_t plane, const int64_t i[3])
{
    const ipu__pool *p    = &j->p;
    ipu_interval     deep = ipu__pool_taps(p, 0, i[0]), high = ipu__pool_taps(p, 1, i[1]);
    int64_t          at   = ((plane * p->out[0] + i[0]) * p->out[1] + i[1]) * p->out[2];
    const float     *from = ipu__pool_load(j->type, dy, at, p->out[2], j->out);
    if (from != j->out) memcpy(j->out, from, (size_t)p->out[2] * sizeof *from);
    find_counts(j, i);
    j->loops->divide(j->out, j->by, p->out[2]);
    memset(j->phases, 0, (size_t)(p->stride[2] * j->r.pitch) * sizeof *j->phases);
    for (int64_t c = 0; c < p->kernel[2]; c++)
        j->loops->add(j->phases + ipu__pool_tap(p, &j->r, c), j->out, p->out[2]);
    j->loops->join(j->phases, j->r.pitch, p->stride[2], j->row, j->r.width);
    for (int64_t a = deep.begin; a < deep.end; a++)
        for (int64_t b = high.begin; b < high.end; b++) {
            int64_t row = ipu__pool_at(p, 0, i[0], a) * p->in[1] + ipu__pool_at(p, 1, i[1], b);
            j->loops->add(dx + row * p->in[2], j->row + p->before[2], j->r.kept);
        }
}

static ipu_status average_pool_grad_run(const ipu_kernel_call *call, void *state, void *const *operand,
                                        void *scratch, int part, int n_parts)
{
    (void)state;
    row_job          j = make_job(call, scratch);
    const ipu__pool *p = &j.p;
    int64_t          n = p->in[0] * p->in[1] * p->in[2], i[3] = {0};
    ipu_interval     mine = ipu__op_part(p->planes, 1, part, n_parts);
    for (int64_t plane = mine.begin; plane < mine.end; plane++) {
        float *dx = j.type == IPU_FLOAT ? (float *)operand[TO] + plane * n : j.plane;
        memset(dx, 0, (size_t)n * sizeof *dx);
        for (i[0] = 0; i[0] < p->out[0]; i[0]++)
            for (i[1] = 0; i[1] < p->out[1]; i[1]++) spread_row(&j, operand[FROM], dx, plane, i);
        if (j.type != IPU_FLOAT) ipu__pool_store(j.type, dx, operand[TO], plane * n, n);
    }
    return IPU_OK;
}

/* ---- records ---- */

static ipu_status average_pool_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    ipu__pool pool;
    IPU_TRY(ipu__op_want_floating(call, FROM));
    out->type = call->operand[FROM].type;
    return ipu__pool_get(call, &call->operand[FROM].shape, &pool, &out->shape);
}

static ipu_status average_pool_grad_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    const ipu_shape *dy = &call->operand[FROM].shape;
    size_t           n;
    const int64_t   *size = ipu__op_ints(call, "size", &n);
    ipu__pool        pool;
    ipu_shape        want;
    IPU_TRY(ipu__op_want_floating(call, FROM));
    if (n + 2 != (size_t)dy->rank)
        return ipu__fail(IPU_INVALID, "average_pool_grad: size has %zu numbers: expected %d, for dy %s", n,
                         dy->rank - 2, ipu__shape_str(dy));
    *out = call->operand[FROM];
    for (size_t d = 0; d < n; d++) {
        out->shape.dim[2 + d] = size[d];
        if (size[d] < 0) return ipu__fail(IPU_INVALID, "average_pool_grad: size[%zu] is negative", d);
    }
    IPU_TRY(ipu__pool_get(call, &out->shape, &pool, &want));
    return ipu__op_want_shape(call, FROM, &want);
}

static double work(const ipu_kernel_call *call)
{
    ipu__pool p = get(call);
    return ipu__pool_work(&p);
}

static ipu_status plan(const ipu_kernel_call *call, const ipu_target *target, ipu_kernel_plan *out)
{
    ipu__pool p = get(call);
    return ipu__pool_plan(&p, call->operand[FROM].type, target, out);
}

enum { MOST_ATTRIBUTES = 8 };

static void average_pool_grad_of(ipu__gradient *g)
{
    ipu_attribute    list[MOST_ATTRIBUTES];
    size_t           n = 0;
    const ipu_shape *x = &g->call->operand[FROM].shape;
    for (; n < g->call->n_attributes; n++) list[n] = g->call->attributes[n];
    list[n++]     = IPU__INTS("size", x->dim + 2, x->rank - 2);
    g->d_in[FROM] = ipu__emit1(g->b, "average_pool_grad", list, n, IPU__IN(g->d_out[0]));
}

static void average_pool_grad_grad(ipu__gradient *g)
{
    ipu_attribute list[MOST_ATTRIBUTES];
    size_t        n = 0;
    for (size_t i = 0; i < g->call->n_attributes; i++)
        if (strcmp(g->call->attributes[i].name, "size") != 0) list[n++] = g->call->attributes[i];
    g->d_in[FROM] = ipu__emit1(g->b, "average_pool", list, n, IPU__IN(g->d_out[0]));
}

static const ipu_op_attribute attributes[] = {
    IPU__POOL_ATTRIBUTES,
    {.name     = "size",
     .kind     = IPU_ATTRIBUTE_INTS,
     .required = true,
     .meaning  = "dimensions of x after the second"},
};
enum { N_ATTRIBUTES = sizeof attributes / sizeof *attributes };
_Static_assert((int)N_ATTRIBUTES <= (int)MOST_ATTRIBUTES, "room for all attributes");

static const ipu_kernel_operand average_pool_operands[] = {IPU__INPUT("x"), IPU__OUTPUT("y")};
static const ipu_kernel_impl    average_pool_impls[]    = {
          {.name = "rows", .fits = rows_fit, .scratch_bytes = rows_scratch, .run = average_pool_run}};
/* clang-format off */
static const char *const average_pool_samples[] = {
    "float[2,3,6,8]; kernel=[2,2]",
    "float[1,2,7,9]; kernel=[3,3] stride=[2,2] padding=[1,1]",
    "float[1,2,7,9]; kernel=[3,3] stride=[2,2] padding=[1,1] count_include_pad=0 ceil_mode=1",
    "float[2,1,7,8]; kernel=[3,2] stride=[1,3] padding=[1,0,1,1] ceil_mode=1",
    "float[2,2,11]; kernel=[3] stride=[2] dilation=[2] padding=[2]",
    "float[1,2,4,5,6]; kernel=[2,3,2] stride=[2,1,2] padding=[0,1,0]",
    "float[0,2,4,4]; kernel=[2,2]",
    "float[8,16,33,35]; kernel=[3,3] stride=[2,2] padding=[1,1]",
    NULL,
};
/* clang-format on */
const ipu_op_def ipu__op_average_pool = {
    .kernel       = {.name              = "average_pool",
                     .operands          = average_pool_operands,
                     .n_operands        = 2,
                     .check             = ipu__op_check,
                     .ref               = average_pool_ref,
                     .work              = work,
                     .plan              = plan,
                     .implementations   = average_pool_impls,
                     .n_implementations = 1},
    .n_in         = 1,
    .family       = "pool",
    .summary      = "the mean of each window",
    .flags        = IPU__OP_BATCHED,
    .attributes   = attributes,
    .n_attributes = N_ATTRIBUTES - 1,
    .infer        = average_pool_infer,
    .grad         = average_pool_grad_of,
    .samples      = average_pool_samples,
};

static const ipu_kernel_operand average_pool_grad_operands[] = {IPU__INPUT("dy"), IPU__OUTPUT("dx")};
static const ipu_kernel_impl    average_pool_grad_impls[]    = {
          {.name = "rows", .fits = rows_fit, .scratch_bytes = rows_scratch, .run = average_pool_grad_run}};
/* clang-format off */
static const char *const average_pool_grad_samples[] = {
    "float[2,3,3,4]; kernel=[2,2] size=[6,8]",
    "float[1,2,4,5]; kernel=[3,3] stride=[2,2] padding=[1,1] size=[7,9]",
    "float[1,2,4,5]; kernel=[3,3] stride=[2,2] padding=[1,1] count_include_pad=0 size=[7,9]",
    "float[2,2,6]; kernel=[3] stride=[2] dilation=[2] padding=[2] size=[11]",
    "float[1,2,2,5,3]; kernel=[2,3,2] stride=[2,1,2] padding=[0,1,0] size=[4,5,6]",
    "float[2,2,2,3]; kernel=[2,2] stride=[4,4] size=[7,11]",
    "float[8,16,17,18]; kernel=[3,3] stride=[2,2] padding=[1,1] size=[33,35]",
    NULL,
};
/* clang-format on */
const ipu_op_def ipu__op_average_pool_grad = {
    .kernel       = {.name              = "average_pool_grad",
                     .operands          = average_pool_grad_operands,
                     .n_operands        = 2,
                     .check             = ipu__op_check,
                     .ref               = average_pool_grad_ref,
                     .work              = work,
                     .plan              = plan,
                     .implementations   = average_pool_grad_impls,
                     .n_implementations = 1},
    .n_in         = 1,
    .family       = "pool",
    .summary      = "the gradient of average_pool: dy spread over its windows",
    .flags        = IPU__OP_BATCHED,
    .attributes   = attributes,
    .n_attributes = N_ATTRIBUTES,
    .infer        = average_pool_grad_infer,
    .grad         = average_pool_grad_grad,
    .samples      = average_pool_grad_samples,
};
