/* Attention by blocks of queries: a block's scores stay in cache between product, softmax and the next
 * product.
 *
 * A part gets blocks of queries, or whole groups in the backward pass, because gradients of keys and values
 * are sums over all queries. Keys (and values, backwards) are transposed once per group. half and bfloat16
 * are converted once per group.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "op/sequence/attention.h"
#include "op/product/product.h"

enum { ROWS = 64 }; /* of a block of queries */

enum { Q = IPU__ATTENTION_Q, K, V, MASK, OUT, LSE };
enum { G_D_OUT, G_Q, G_K, G_V, G_MASK, G_OUT, G_LSE, G_D_LSE, G_D_Q, G_D_K, G_D_V };

/* Products of a block; [1] of the last block of a group, which may have fewer rows. */
typedef struct state {
    ipu__attention              a;
    const ipu__attention_loops *loops;
    ipu__product                scores[2], values[2];                 /* forwards; scores backwards too */
    ipu__product                d_p[2], d_q[2], d_k[2][2], d_v[2][2]; /* [block][add] */
} state;

/* Scratch, in floats from its beginning. */
typedef struct areas {
    int64_t keys, scores, mask, total;
    int64_t values, d_scores;                   /* backwards */
    int64_t q, k, v, out, d_out, d_q, d_k, d_v; /* converted, of one group */
} areas;

static int64_t take(int64_t *total, int64_t n)
{
    int64_t at = *total;
    *total += (n + 15) / 16 * 16;
    return at;
}

static int64_t n_rows(const ipu__attention *a) { return a->queries < ROWS ? a->queries : ROWS; }

static areas plan_scratch(const ipu__attention *a, bool back)
{
    int64_t block = n_rows(a) * a->keys, n_q = a->queries * a->depth, n_k = a->keys * a->depth;
    int64_t n_v = a->keys * a->width, n_out = a->queries * a->width;
    areas   s = {0};
    s.keys    = take(&s.total, n_k);
    s.scores  = take(&s.total, block);
    s.mask    = take(&s.total, a->keys);
    if (back) {
        s.values   = take(&s.total, n_v);
        s.d_scores = take(&s.total, block);
    }
    if (a->type == IPU_FLOAT) return s;
    s.q   = take(&s.total, n_q);
    s.k   = take(&s.total, n_k);
    s.v   = take(&s.total, n_v);
    s.out = take(&s.total, n_out);
    if (!back) return s;
    s.d_out = take(&s.total, n_out);
    s.d_q   = take(&s.total, n_q);
    s.d_k   = take(&s.total, n_k);
    s.d_v   = take(&s.total, n_v);
    return s;
}

static bool fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    return call->operand[IPU__ATTENTION_GRAD_Q].type != IPU_DOUBLE; /* k forwards: of the same type */
}

static size_t forward_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    ipu__attention a = ipu__attention_get(call);
    return (size_t)plan_scratch(&a, false).total * sizeof(float);
}

static size_t back_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    ipu__attention a = ipu__attention_get(call);
    return (size_t)plan_scratch(&a, true).total * sizeof(float);
}

static ipu__product make(int64_t m, int64_t n, int64_t k, int64_t lda, bool transpose_a, bool add)
{
    ipu__product p = {
        .m = m, .n = n, .k = k, .lda = lda, .ldb = n, .ldc = n, .transpose_a = transpose_a, .add = add};
    ipu__product_make(&p);
    return p;
}

static void make_products(state *s, bool back)
{
    const ipu__attention *a       = &s->a;
    int64_t               rows[2] = {n_rows(a), a->queries > 0 ? (a->queries - 1) % ROWS + 1 : 0};
    for (int i = 0; i < 2; i++) {
        s->scores[i] = make(rows[i], a->keys, a->depth, a->depth, false, false);
        if (!back) s->values[i] = make(rows[i], a->width, a->keys, a->keys, false, false);
        if (!back) continue;
        s->d_p[i] = make(rows[i], a->keys, a->width, a->width, false, false);
        s->d_q[i] = make(rows[i], a->depth, a->keys, a->keys, false, false);
        for (int add = 0; add < 2; add++) {
            s->d_k[i][add] = make(a->keys, a->depth, rows[i], a->keys, true, add);
            s->d_v[i][add] = make(a->keys, a->width, rows[i], a->keys, true, add);
        }
    }
}

static ipu_status prepare(const ipu__kernel_call *call, bool back, void **out)
{
    state *s = ipu__alloc_zeroed(sizeof *s);
    if (!s) return ipu__fail_memory();
    s->a     = ipu__attention_get(call);
    s->loops = &IPU__SIMD_PICK(ipu__attention_loops);
    make_products(s, back);
    *out = s;
    return IPU_OK;
}

static ipu_status forward_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    return prepare(call, false, out);
}

static ipu_status back_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    return prepare(call, true, out);
}

/* ---- running ---- */

typedef struct job {
    const state *s;
    void *const *operand;
    float       *scratch;
    areas        at;
    int64_t      group;
} job;

/* `n` elements of the group as floats: in place, or converted into `buffer`. */
static const float *group_of(const job *j, int operand, int64_t n, int64_t buffer)
{
    const char *from = (const char *)j->operand[operand]
                     + (size_t)(j->group * n) * ipu_type_size(j->s->a.type);
    if (j->s->a.type == IPU_FLOAT) return (const float *)from;
    ipu__to_floats(j->s->a.type, from, j->scratch + buffer, n);
    return j->scratch + buffer;
}

static float *group_to(const job *j, int operand, int64_t n, int64_t buffer)
{
    return j->s->a.type == IPU_FLOAT ? (float *)j->operand[operand] + j->group * n : j->scratch + buffer;
}

/* Elements [first, first + count) of the n of a group, if they are not there already. */
static void store(const job *j, int operand, int64_t n, int64_t buffer, int64_t first, int64_t count)
{
    ipu_type type = j->s->a.type;
    if (type == IPU_FLOAT) return;
    char *to = (char *)j->operand[operand] + (size_t)(j->group * n + first) * ipu_type_size(type);
    ipu__from_floats(type, j->scratch + buffer + first, to, count);
}

/* A row of the mask as floats; NULL: none. */
static const float *mask_row(const job *j, int64_t query)
{
    const ipu__attention *a = &j->s->a;
    if (a->mask < 0) return NULL;
    int64_t     first = ipu__attention_mask_at(a, j->group, query);
    const char *from  = (const char *)j->operand[a->mask] + (size_t)first * ipu_type_size(a->type);
    float      *row   = j->scratch + j->at.mask;
    if (a->type == IPU_FLOAT && a->mask_key == 1) return (const float *)from;
    ipu__to_floats(a->type, from, row, a->mask_key == 1 ? a->keys : 1);
    for (int64_t i = 1; a->mask_key == 0 && i < a->keys; i++) row[i] = row[0];
    return row;
}

static int64_t n_seen(const ipu__attention *a, int64_t query)
{
    return a->causal && query + 1 < a->keys ? query + 1 : a->keys;
}

/* Queries [first, first + rows) of the group. */
static void run_block(const job *j, const float *q, const float *v, float *out, int64_t first, int64_t rows)
{
    const ipu__attention *a      = &j->s->a;
    float                *scores = j->scratch + j->at.scores, sums[ROWS];
    float                *lse    = (float *)j->operand[LSE] + j->group * a->queries + first;
    int                   last   = rows != n_rows(a);
    ipu__product_run(&j->s->scores[last], q + first * a->depth, j->scratch + j->at.keys, scores);
    for (int64_t i = 0; i < rows; i++) {
        float most;
        sums[i] = j->s->loops->row(scores + i * a->keys, mask_row(j, first + i), (float)a->scale,
                                   n_seen(a, first + i), a->keys, &most);
        lse[i]  = most + logf(sums[i]);
    }
    ipu__product_run(&j->s->values[last], scores, v, out + first * a->width);
    for (int64_t i = 0; i < rows; i++)
        j->s->loops->multiply(out + (first + i) * a->width, 1 / sums[i], a->width);
}

static ipu_status forward_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                              void *scratch, int part, int n_parts)
{
    (void)call;
    const state          *s      = prepared;
    const ipu__attention *a      = &s->a;
    int64_t               blocks = ipu__op_ceil_div(a->queries, ROWS), begun = -1;
    ipu_interval          mine = ipu__op_part(a->groups * blocks, 1, part, n_parts);
    job                   j    = {s, operand, scratch, plan_scratch(a, false), 0};
    const float          *q = NULL, *v = NULL;
    for (int64_t i = mine.begin; i < mine.end; i++) {
        j.group       = i / blocks;
        int64_t first = i % blocks * ROWS, rows = a->queries - first < ROWS ? a->queries - first : ROWS;
        if (j.group != begun) {
            begun = j.group;
            q     = group_of(&j, Q, a->queries * a->depth, j.at.q);
            v     = group_of(&j, V, a->keys * a->width, j.at.v);
            ipu__transpose_floats(group_of(&j, K, a->keys * a->depth, j.at.k), a->depth,
                                  j.scratch + j.at.keys, a->keys, a->keys, a->depth);
        }
        run_block(&j, q, v, group_to(&j, OUT, a->queries * a->width, j.at.out), first, rows);
        store(&j, OUT, a->queries * a->width, j.at.out, first * a->width, rows * a->width);
    }
    return IPU_OK;
}

const ipu__cpu_impl ipu__attention_impl[1] = {{.head          = {"blocks", fits},
                                               .scratch_bytes = forward_scratch_bytes,
                                               .prepare       = forward_prepare,
                                               .release       = ipu__free,
                                               .run           = forward_run}};

/* ---- backwards ---- */

typedef struct matrices {
    const float *q, *k, *v, *out, *d_out, *lse, *d_lse;
    float       *d_q, *d_k, *d_v;
} matrices;

static void run_back_block(const job *j, const matrices *m, int64_t first, int64_t rows)
{
    const state          *s = j->s;
    const ipu__attention *a = &s->a;
    float                *p = j->scratch + j->at.scores, *d = j->scratch + j->at.d_scores;
    int                   last = rows != n_rows(a), add = first > 0;
    const float          *d_out = m->d_out + first * a->width, *q = m->q + first * a->depth;
    ipu__product_run(&s->scores[last], q, j->scratch + j->at.keys, p);
    ipu__product_run(&s->d_p[last], d_out, j->scratch + j->at.values, d);
    for (int64_t i = 0; i < rows; i++) {
        int64_t row   = first + i;
        float   minus = s->loops->dot(d_out + i * a->width, m->out + row * a->width, a->width);
        if (m->d_lse) minus -= m->d_lse[row];
        s->loops->row_back(p + i * a->keys, d + i * a->keys, mask_row(j, row), (float)a->scale, m->lse[row],
                           minus, n_seen(a, row), a->keys);
    }
    ipu__product_run(&s->d_q[last], d, m->k, m->d_q + first * a->depth);
    ipu__product_run(&s->d_k[last][add], d, q, m->d_k);
    ipu__product_run(&s->d_v[last][add], p, d_out, m->d_v);
}

static void run_back_group(const job *j, bool has_d_lse)
{
    const ipu__attention *a   = &j->s->a;
    int64_t               n_q = a->queries * a->depth, n_k = a->keys * a->depth, n_v = a->keys * a->width;
    int64_t               n_out = a->queries * a->width;
    matrices              m     = {.q     = group_of(j, G_Q, n_q, j->at.q),
                                   .k     = group_of(j, G_K, n_k, j->at.k),
                                   .v     = group_of(j, G_V, n_v, j->at.v),
                                   .out   = group_of(j, G_OUT, n_out, j->at.out),
                                   .d_out = group_of(j, G_D_OUT, n_out, j->at.d_out),
                                   .lse   = (float *)j->operand[G_LSE] + j->group * a->queries,
                                   .d_q   = group_to(j, G_D_Q, n_q, j->at.d_q),
                                   .d_k   = group_to(j, G_D_K, n_k, j->at.d_k),
                                   .d_v   = group_to(j, G_D_V, n_v, j->at.d_v)};
    if (has_d_lse) m.d_lse = (float *)j->operand[G_D_LSE] + j->group * a->queries;
    ipu__transpose_floats(m.k, a->depth, j->scratch + j->at.keys, a->keys, a->keys, a->depth);
    ipu__transpose_floats(m.v, a->width, j->scratch + j->at.values, a->keys, a->keys, a->width);
    if (a->queries == 0) {
        memset(m.d_k, 0, (size_t)n_k * sizeof *m.d_k);
        memset(m.d_v, 0, (size_t)n_v * sizeof *m.d_v);
    }
    for (int64_t first = 0; first < a->queries; first += ROWS)
        run_back_block(j, &m, first, a->queries - first < ROWS ? a->queries - first : ROWS);
    store(j, G_D_Q, n_q, j->at.d_q, 0, n_q);
    store(j, G_D_K, n_k, j->at.d_k, 0, n_k);
    store(j, G_D_V, n_v, j->at.d_v, 0, n_v);
}

static ipu_status back_run(const ipu__kernel_call *call, void *prepared, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    const state *s    = prepared;
    ipu_interval mine = ipu__op_part(s->a.groups, 1, part, n_parts);
    job          j    = {s, operand, scratch, plan_scratch(&s->a, true), 0};
    for (j.group = mine.begin; j.group < mine.end; j.group++)
        run_back_group(&j, ipu__kernel_has(call, G_D_LSE));
    return IPU_OK;
}

const ipu__cpu_impl ipu__attention_grad_impl[1] = {{.head          = {"blocks", fits},
                                                    .scratch_bytes = back_scratch_bytes,
                                                    .prepare       = back_prepare,
                                                    .release       = ipu__free,
                                                    .run           = back_run}};
