/* Recurrent layers, forward: a part takes rows of the batch through all steps.
 *
 * Each step is a product with x, one with h, both accumulated in place, and one loop over the gates while
 * they are in cache. Weights are transposed once into scratch, so that their rows are vectors.
 */
#include <string.h>

#include "base/alloc.h"
#include "op/product/product.h"
#include "op/sequence/recurrent.h"

typedef struct part {
    ipu_interval rows;
    ipu__product from_x, from_h, from_h_q; /* the last for gru: q is not added to what comes from x */
} part;

typedef struct state {
    ipu__recurrent              r;
    const ipu__recurrent_loops *loops;
    part                        parts[];
} state;

/* Scratch, in floats from its beginning. */
typedef struct areas {
    int64_t w_ih, w_hh, converted, bias, x, gates, h, c, total;
} areas;

static bool fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    return call->operand[0].type != IPU_DOUBLE;
}

static int64_t take(int64_t *total, int64_t n)
{
    int64_t at = *total;
    *total += (n + 15) / 16 * 16;
    return at;
}

static areas plan_scratch(const ipu__recurrent *r, ipu_type type, int n_parts)
{
    int64_t wide = r->n_gates * r->hidden, rows = ipu__op_ceil_div(r->batch, n_parts);
    int64_t longer   = r->inputs > r->hidden ? r->inputs : r->hidden;
    bool    is_float = type == IPU_FLOAT;
    areas   a        = {0};
    a.w_ih           = take(&a.total, wide * r->inputs);
    a.w_hh           = take(&a.total, wide * r->hidden);
    a.bias           = take(&a.total, 2 * wide);
    a.c              = take(&a.total, rows * r->hidden);
    a.gates          = take(&a.total, is_float && r->keeps ? 0 : rows * r->n_saved * r->hidden);
    a.converted      = take(&a.total, is_float ? 0 : wide * longer);
    a.x              = take(&a.total, is_float ? 0 : rows * r->inputs);
    a.h              = take(&a.total, is_float ? 0 : rows * r->hidden);
    return a;
}

static size_t scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    ipu__recurrent r = ipu__recurrent_get(call);
    return (size_t)plan_scratch(&r, call->operand[0].type, n_parts).total * sizeof(float);
}

static void make_part(const ipu__recurrent *r, part *p)
{
    int64_t rows = p->rows.end - p->rows.begin, wide = r->n_gates * r->hidden;
    int64_t apart  = r->cell == IPU__RNN ? r->hidden : r->n_saved * r->hidden;
    int64_t summed = r->cell == IPU__GRU ? 2 * r->hidden : wide;
    p->from_x      = (ipu__product){
             .m = rows, .n = wide, .k = r->inputs, .lda = r->inputs, .ldb = wide, .ldc = apart};
    p->from_h = (ipu__product){
        .m = rows, .n = summed, .k = r->hidden, .lda = r->hidden, .ldb = wide, .ldc = apart, .add = true};
    ipu__product_make(&p->from_x);
    ipu__product_make(&p->from_h);
    if (r->cell != IPU__GRU) return;
    p->from_h_q     = p->from_h;
    p->from_h_q.n   = r->hidden;
    p->from_h_q.add = false;
    ipu__product_make(&p->from_h_q);
}

static ipu_status prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    state *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->parts);
    if (!s) return ipu__fail_memory();
    s->r     = ipu__recurrent_get(call);
    s->loops = &IPU__SIMD_PICK(ipu__recurrent_loops);
    for (int i = 0; i < n_parts; i++) {
        s->parts[i].rows = ipu__op_part(s->r.batch, 1, i, n_parts);
        make_part(&s->r, &s->parts[i]);
    }
    *out = s;
    return IPU_OK;
}

/* ---- running ---- */

/* What one part works on. */
typedef struct job {
    const ipu__recurrent   *r;
    const ipu__kernel_call *call;
    void *const            *operand;
    const part             *p;
    areas                   a;
    float                  *scratch;
    ipu_type                type;
    int64_t                 first, rows;
} job;

static bool has(const job *j, int operand) { return operand >= 0 && ipu__kernel_has(j->call, operand); }

static void *element(const job *j, int operand, int64_t i)
{
    return (char *)j->operand[operand] + (size_t)i * ipu_type_size(j->type);
}

static void transpose(const job *j, int operand, int64_t columns, float *to)
{
    int64_t      rows = j->r->n_gates * j->r->hidden;
    const float *from = j->operand[operand];
    if (j->type != IPU_FLOAT) {
        ipu__to_floats(j->type, j->operand[operand], j->scratch + j->a.converted, rows * columns);
        from = j->scratch + j->a.converted;
    }
    ipu__transpose_floats(from, columns, to, rows, rows, columns);
}

/* Both biases as one; for gru's last gate they stay apart. */
static void add_biases(const job *j, float *ih, float *hh)
{
    int64_t wide = j->r->n_gates * j->r->hidden, summed = j->r->cell == IPU__GRU ? wide / 3 * 2 : wide;
    memset(ih, 0, (size_t)wide * sizeof *ih);
    memset(hh, 0, (size_t)wide * sizeof *hh);
    if (has(j, j->r->at.b_ih)) ipu__to_floats(j->type, j->operand[j->r->at.b_ih], ih, wide);
    if (has(j, j->r->at.b_hh)) ipu__to_floats(j->type, j->operand[j->r->at.b_hh], hh, wide);
    for (int64_t i = 0; i < summed; i++) ih[i] += hh[i];
}

/* Rows of this part of an operand, as floats: in place, or converted into `buffer`. */
static const float *rows_of(const job *j, int operand, int64_t time, int64_t columns, float *buffer)
{
    const void *from = element(j, operand, (time * j->r->batch + j->first) * columns);
    if (j->type == IPU_FLOAT) return from;
    ipu__to_floats(j->type, from, buffer, j->rows * columns);
    return buffer;
}

/* Where rows of an output are computed: in place, or in `buffer`, from which `store` takes them. */
static float *rows_to(const job *j, int operand, int64_t time, int64_t columns, float *buffer)
{
    return j->type == IPU_FLOAT ? element(j, operand, (time * j->r->batch + j->first) * columns) : buffer;
}

static void store(const job *j, int operand, int64_t time, int64_t columns, const float *from)
{
    void *to = element(j, operand, (time * j->r->batch + j->first) * columns);
    if (to != (const void *)from) ipu__from_floats(j->type, from, to, j->rows * columns);
}

static void add_products(const job *j, const float *x, const float *h, float *gates)
{
    const ipu__recurrent *r   = j->r;
    const float          *w_h = j->scratch + j->a.w_hh;
    ipu__product_run(&j->p->from_x, x, j->scratch + j->a.w_ih, gates);
    if (h) ipu__product_run(&j->p->from_h, h, w_h, gates);
    if (r->cell != IPU__GRU) return;
    if (h)
        ipu__product_run(&j->p->from_h_q, h, w_h + 2 * r->hidden, gates + 3 * r->hidden);
    else
        for (int64_t i = 0; i < j->rows; i++)
            memset(gates + (i * 4 + 3) * r->hidden, 0, (size_t)r->hidden * sizeof *gates);
}

static void run_gates(const state *s, const ipu__recurrent_step *step)
{
    switch (s->r.cell) {
    case IPU__LSTM: s->loops->lstm(step); break;
    case IPU__GRU: s->loops->gru(step); break;
    default: (s->r.relu ? s->loops->rnn_relu : s->loops->rnn_tanh)(step); break;
    }
}

/* One step: `h` and `c` are the state before (NULL: zeros), and after it the state to go on with. */
static void run_step(const state *s, const job *j, int64_t time, const float **h, const float **c)
{
    const ipu__recurrent *r    = j->r;
    float                *bias = j->scratch + j->a.bias;
    const float          *x    = rows_of(j, r->at.x, time, r->inputs, j->scratch + j->a.x);
    ipu__recurrent_step   step = {.rows = j->rows, .hidden = r->hidden, .h_old = *h, .c_old = *c};
    step.bias_ih               = bias;
    step.bias_hh               = bias + r->n_gates * r->hidden;
    step.h                     = rows_to(j, r->at.y, time, r->hidden, j->scratch + j->a.h);
    step.c                     = j->scratch + j->a.c;
    step.gates                 = j->scratch + j->a.gates;
    if (r->keeps) step.gates = rows_to(j, r->at.gates, time, r->n_saved * r->hidden, step.gates);
    if (r->keeps && r->at.cells >= 0) step.c = rows_to(j, r->at.cells, time, r->hidden, step.c);
    if (r->cell == IPU__RNN && j->type != IPU_FLOAT && *h) { /* sums would go over the h they are made from */
        memcpy(step.c, *h, (size_t)(j->rows * r->hidden) * sizeof *step.c);
        *h = step.c;
    }
    add_products(j, x, *h, r->cell == IPU__RNN ? step.h : step.gates);
    run_gates(s, &step);
    store(j, r->at.y, time, r->hidden, step.h);
    if (r->keeps) store(j, r->at.gates, time, r->n_saved * r->hidden, step.gates);
    if (r->keeps && r->at.cells >= 0) store(j, r->at.cells, time, r->hidden, step.c);
    *h = step.h;
    *c = step.c;
}

static void store_last(const job *j, int operand, const float *from)
{
    if (operand < 0) return;
    if (from)
        store(j, operand, 0, j->r->hidden, from);
    else
        memset(element(j, operand, j->first * j->r->hidden), 0,
               (size_t)(j->rows * j->r->hidden) * ipu_type_size(j->type));
}

static ipu_status run(const ipu__kernel_call *call, void *prepared, void *const *operand, void *scratch,
                      int index, int n_parts)
{
    const state          *s = prepared;
    const ipu__recurrent *r = &s->r;
    job j   = {.r = r, .call = call, .operand = operand, .p = &s->parts[index], .scratch = scratch};
    j.type  = call->operand[0].type;
    j.a     = plan_scratch(r, j.type, n_parts);
    j.first = j.p->rows.begin;
    j.rows  = j.p->rows.end - j.p->rows.begin;
    if (j.rows == 0 || r->hidden == 0) return IPU_OK;
    float *bias = j.scratch + j.a.bias;
    transpose(&j, r->at.w_ih, r->inputs, j.scratch + j.a.w_ih);
    transpose(&j, r->at.w_hh, r->hidden, j.scratch + j.a.w_hh);
    add_biases(&j, bias, bias + r->n_gates * r->hidden);
    const float *h = NULL, *c = NULL;
    if (has(&j, r->at.h0)) h = rows_of(&j, r->at.h0, 0, r->hidden, j.scratch + j.a.h);
    if (has(&j, r->at.c0)) c = rows_of(&j, r->at.c0, 0, r->hidden, j.scratch + j.a.c);
    for (int64_t i = 0; i < r->steps; i++) run_step(s, &j, ipu__recurrent_time(r, i), &h, &c);
    store_last(&j, r->at.h_n, h);
    store_last(&j, r->at.c_n, c);
    return IPU_OK;
}

const ipu__cpu_impl ipu__recurrent_impl[1] = {{.head          = {"rows", fits},
                                               .scratch_bytes = scratch_bytes,
                                               .prepare       = prepare,
                                               .release       = ipu__free,
                                               .run           = run}};
