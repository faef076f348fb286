/* Recurrent layers, backward: a part takes rows of the batch from the last step to the first.
 *
 * Each step is one loop over the gates, which gives gradients before the activations, and one product with
 * w_hh, which takes them to the previous step. Weight gradients are products over all steps together, and
 * separate ops.
 */
#include <string.h>

#include "base/alloc.h"
#include "op/product/product.h"
#include "op/sequence/recurrent.h"

typedef struct part {
    ipu_interval rows;
    ipu__product to_h;
} part;

typedef struct state {
    ipu__recurrent              r;
    const ipu__recurrent_loops *loops;
    part                        parts[];
} state;

/* Scratch, in floats from its beginning: empty for float, which works in place. */
typedef struct areas {
    int64_t w_hh, d_y, gates, c, c_old, h, h_old, d_h, d_c, d_ih, d_hh, total;
} areas;

static bool fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    const ipu__recurrent_grad_operands at   = ipu__recurrent_grad_get(call).grad_at;
    bool                               more = (at.d_gates >= 0 && ipu__kernel_has(call, at.d_gates))
             || (at.d_cells >= 0 && ipu__kernel_has(call, at.d_cells));
    return call->operand[call->n_operands - 1].type != IPU_DOUBLE && !more;
}

static int64_t take(int64_t *total, int64_t n)
{
    int64_t at = *total;
    *total += (n + 15) / 16 * 16;
    return at;
}

static areas plan_scratch(const ipu__recurrent *r, ipu_type type, int n_parts)
{
    int64_t units = ipu__op_ceil_div(r->batch, n_parts) * r->hidden, wide = r->n_gates * r->hidden;
    areas   a = {0};
    if (type == IPU_FLOAT) return a;
    a.w_hh             = take(&a.total, wide * r->hidden);
    int64_t *const s[] = {&a.d_y, &a.c, &a.c_old, &a.h, &a.h_old, &a.d_h, &a.d_c};
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) *s[i] = take(&a.total, units);
    a.gates = take(&a.total, r->n_saved * units);
    a.d_ih  = take(&a.total, r->n_gates * units);
    a.d_hh  = take(&a.total, r->n_gates * units);
    return a;
}

static ipu_type type_of(const ipu__kernel_call *call) { return call->operand[call->n_operands - 1].type; }

static size_t scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    ipu__recurrent r = ipu__recurrent_grad_get(call);
    return (size_t)plan_scratch(&r, type_of(call), n_parts).total * sizeof(float);
}

static ipu_status prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    state *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->parts);
    if (!s) return ipu__fail_memory();
    s->r         = ipu__recurrent_grad_get(call);
    s->loops     = &IPU__SIMD_PICK(ipu__recurrent_loops);
    int64_t wide = s->r.n_gates * s->r.hidden, hidden = s->r.hidden;
    for (int i = 0; i < n_parts; i++) {
        part *p = &s->parts[i];
        p->rows = ipu__op_part(s->r.batch, 1, i, n_parts);
        p->to_h = (ipu__product){.m   = p->rows.end - p->rows.begin,
                                 .n   = hidden,
                                 .k   = wide,
                                 .lda = wide,
                                 .ldb = hidden,
                                 .ldc = hidden,
                                 .add = s->r.cell == IPU__GRU};
        ipu__product_make(&p->to_h);
    }
    *out = s;
    return IPU_OK;
}

/* ---- running ---- */

typedef struct job {
    const ipu__recurrent   *r;
    const ipu__kernel_call *call;
    void *const            *operand;
    ipu_type                type;
    int64_t                 first, rows;
    float                  *d_h, *d_c; /* of the state between steps */
} job;

static void *element(const job *j, int operand, int64_t time, int64_t columns)
{
    return (char *)j->operand[operand]
         + (size_t)((time * j->r->batch + j->first) * columns) * ipu_type_size(j->type);
}

/* Rows of this part as floats; NULL where the operand is not there. */
static const float *rows_of(const job *j, int operand, int64_t time, int64_t columns, float *buffer)
{
    if (operand < 0 || !ipu__kernel_has(j->call, operand)) return NULL;
    const void *from = element(j, operand, time, columns);
    if (j->type == IPU_FLOAT) return from;
    ipu__to_floats(j->type, from, buffer, j->rows * columns);
    return buffer;
}

static float *rows_to(const job *j, int operand, int64_t time, int64_t columns, float *buffer)
{
    if (operand < 0) return NULL;
    return j->type == IPU_FLOAT ? element(j, operand, time, columns) : buffer;
}

static void store(const job *j, int operand, int64_t time, int64_t columns, const float *from)
{
    if (operand < 0 || j->type == IPU_FLOAT) return; /* it is there already */
    ipu__from_floats(j->type, from, element(j, operand, time, columns), j->rows * columns);
}

static void run_gates(const state *s, const ipu__recurrent_back *back)
{
    switch (s->r.cell) {
    case IPU__LSTM: s->loops->lstm_back(back); break;
    case IPU__GRU: s->loops->gru_back(back); break;
    default: (s->r.relu ? s->loops->rnn_relu_back : s->loops->rnn_tanh_back)(back); break;
    }
}

/* The i-th step of the forward order. */
static void run_step(const state *s, const job *j, const ipu__product *to_h, const areas *a, float *scratch,
                     const float *w_hh, int64_t i)
{
    const ipu__recurrent               *r  = j->r;
    const ipu__recurrent_grad_operands *at = &r->grad_at;
    int64_t time = ipu__recurrent_time(r, i), before = ipu__recurrent_time(r, i - 1), hidden = r->hidden;
    ipu__recurrent_back back = {.rows = j->rows, .hidden = hidden, .d_h = j->d_h, .d_c = j->d_c};
    back.d_y                 = rows_of(j, at->d_y, time, hidden, scratch + a->d_y);
    back.gates               = rows_of(j, at->gates, time, r->n_saved * hidden, scratch + a->gates);
    back.c                   = rows_of(j, at->cells, time, hidden, scratch + a->c);
    back.h                   = rows_of(j, at->y, time, hidden, scratch + a->h);
    back.c_old               = i > 0 ? rows_of(j, at->cells, before, hidden, scratch + a->c_old)
                                     : rows_of(j, at->c0, 0, hidden, scratch + a->c_old);
    back.h_old               = i > 0 ? rows_of(j, at->y, before, hidden, scratch + a->h_old)
                                     : rows_of(j, at->h0, 0, hidden, scratch + a->h_old);
    back.d_ih                = rows_to(j, at->d_ih, time, r->n_gates * hidden, scratch + a->d_ih);
    back.d_hh                = rows_to(j, at->d_hh, time, r->n_gates * hidden, scratch + a->d_hh);
    run_gates(s, &back);
    store(j, at->d_ih, time, r->n_gates * hidden, back.d_ih);
    store(j, at->d_hh, time, r->n_gates * hidden, back.d_hh);
    ipu__product_run(to_h, back.d_hh ? back.d_hh : back.d_ih, w_hh, j->d_h);
}

/* What the end of the sequence gives, where its running value is kept. */
static void begin(const job *j, int from, float *to)
{
    const float *rows = to ? rows_of(j, from, 0, j->r->hidden, to) : NULL;
    size_t       n    = (size_t)(j->rows * j->r->hidden) * sizeof *to;
    if (!to || rows == to) return;
    if (rows)
        memcpy(to, rows, n);
    else
        memset(to, 0, n);
}

static ipu_status run(const ipu__kernel_call *call, void *prepared, void *const *operand, void *memory,
                      int index, int n_parts)
{
    const state                        *s       = prepared;
    const ipu__recurrent               *r       = &s->r;
    const ipu__recurrent_grad_operands *at      = &r->grad_at;
    ipu_interval                        mine    = s->parts[index].rows;
    float                              *scratch = memory;
    job                                 j       = {.r       = r,
                                                   .call    = call,
                                                   .operand = operand,
                                                   .type    = type_of(call),
                                                   .first   = mine.begin,
                                                   .rows    = mine.end - mine.begin};
    areas                               a       = plan_scratch(r, j.type, n_parts);
    if (j.rows == 0 || r->hidden == 0) return IPU_OK;
    const float *w_hh = operand[at->w_hh];
    if (j.type != IPU_FLOAT) {
        ipu__to_floats(j.type, operand[at->w_hh], scratch + a.w_hh, r->n_gates * r->hidden * r->hidden);
        w_hh = scratch + a.w_hh;
    }
    j.d_h = rows_to(&j, at->d_h0, 0, r->hidden, scratch + a.d_h);
    j.d_c = rows_to(&j, at->d_c0, 0, r->hidden, scratch + a.d_c);
    begin(&j, at->d_h_n, j.d_h);
    begin(&j, at->d_c_n, j.d_c);
    for (int64_t i = r->steps - 1; i >= 0; i--) run_step(s, &j, &s->parts[index].to_h, &a, scratch, w_hh, i);
    store(&j, at->d_h0, 0, r->hidden, j.d_h);
    store(&j, at->d_c0, 0, r->hidden, j.d_c);
    return IPU_OK;
}

const ipu__cpu_impl ipu__recurrent_grad_impl[1] = {{.head          = {"rows", fits},
                                                    .scratch_bytes = scratch_bytes,
                                                    .prepare       = prepare,
                                                    .release       = ipu__free,
                                                    .run           = run}};
