/* tf_idf: how often the n-grams of a pool are in rows of whole numbers.
 *
 * An n-gram is found wherever its numbers follow one another at equal distances, of 1 to max_skip_count + 1;
 * those of one number are found once.
 */
#include <string.h>

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/select.h"
#include "op/index/gather.h"

enum { X, WEIGHTS, OUT };

typedef struct grams {
    const int64_t *pool, *begin, *index;
    size_t         n_pool, n_begin, n_index;
    int64_t        least, most, skips; /* lengths */
    bool           counts, weighs;
} grams;

static grams get_grams(const ipu__kernel_call *call)
{
    grams       g    = {0};
    const char *mode = ipu__op_text(call, "mode");
    g.pool           = ipu__op_ints(call, "pool", &g.n_pool);
    g.begin          = ipu__op_ints(call, "ngram_counts", &g.n_begin);
    g.index          = ipu__op_ints(call, "ngram_indexes", &g.n_index);
    g.least          = ipu__op_int(call, "min_gram_length");
    g.most           = ipu__op_int(call, "max_gram_length");
    g.skips          = ipu__op_int(call, "max_skip_count");
    g.counts         = strcmp(mode, "IDF") != 0;
    g.weighs         = strcmp(mode, "TF") != 0;
    return g;
}

/* Where in the pool n-grams of length n + 1 begin, and end. */
static int64_t begin_of(const grams *g, size_t n)
{
    return n < g->n_begin ? g->begin[n] : (int64_t)g->n_pool;
}

/* The pool is whole n-grams of each length; *n is how many. */
static ipu_status count_grams(const grams *g, int64_t *n)
{
    *n = 0;
    for (size_t i = 0; i < g->n_begin; i++) {
        int64_t begin = begin_of(g, i), end = begin_of(g, i + 1), length = (int64_t)i + 1;
        if (begin < 0 || end < begin || end > (int64_t)g->n_pool || (end - begin) % length != 0)
            return ipu__fail(
                IPU_INVALID,
                "tf_idf: n-grams of %lld numbers lie from %lld to %lld of a pool of %zu: expected whole ones",
                (long long)length, (long long)begin, (long long)end, g->n_pool);
        *n += (end - begin) / length;
    }
    return IPU_OK;
}

static ipu_status check_grams(const ipu__kernel_call *call, const grams *g, int64_t *largest)
{
    const char *mode = ipu__op_text(call, "mode");
    int64_t     n;
    if (strcmp(mode, "TF") != 0 && strcmp(mode, "IDF") != 0 && strcmp(mode, "TFIDF") != 0)
        return ipu__fail(IPU_INVALID, "tf_idf: mode = \"%s\": expected TF, IDF or TFIDF", mode);
    if (g->least < 1 || g->most < g->least || (size_t)g->most > g->n_begin || g->skips < 0)
        return ipu__fail(
            IPU_INVALID,
            "tf_idf: lengths %lld to %lld, skipping up to %lld: expected 1 or more, up to the %zu of "
            "ngram_counts, and 0 or more",
            (long long)g->least, (long long)g->most, (long long)g->skips, g->n_begin);
    IPU_TRY(count_grams(g, &n));
    if ((size_t)n != g->n_index)
        return ipu__fail(IPU_INVALID,
                         "tf_idf: ngram_indexes has %zu numbers: expected %lld, one for each n-gram",
                         g->n_index, (long long)n);
    *largest = -1;
    for (size_t i = 0; i < g->n_index; i++) {
        if (g->index[i] < 0 || g->index[i] > INT32_MAX)
            return ipu__fail(IPU_INVALID, "tf_idf: ngram_indexes has %lld: expected 0 or more",
                             (long long)g->index[i]);
        if (g->index[i] > *largest) *largest = g->index[i];
    }
    return IPU_OK;
}

static ipu_status infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x       = &call->operand[X].shape;
    grams            g       = get_grams(call);
    int64_t          largest = -1;
    IPU_TRY(ipu__op_want_integer(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 1, 2));
    IPU_TRY(check_grams(call, &g, &largest));
    if (ipu__kernel_has(call, WEIGHTS)) {
        IPU_TRY(ipu__op_want_type(call, WEIGHTS, IPU_FLOAT));
        IPU_TRY(ipu__op_want_shape(call, WEIGHTS, &IPU_SHAPE((int64_t)g.n_index)));
    }
    *out = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(largest + 1)};
    if (x->rank == 2) out->shape = IPU_SHAPE(x->dim[0], largest + 1);
    return IPU_OK;
}

/* Whether numbers of x, `step` apart from element `at` on, are the n-gram. */
static bool is_there(ipu_type type, const void *x, int64_t at, int64_t step, const int64_t *gram,
                     int64_t length)
{
    for (int64_t k = 0; k < length; k++)
        if (ipu__index_load(type, x, at + k * step) != gram[k]) return false;
    return true;
}

/* How often an n-gram is in the row of `n` that begins at `row`. */
static int64_t count_gram(const grams *g, ipu_type type, const void *x, int64_t row, int64_t n,
                          const int64_t *gram, int64_t length)
{
    int64_t count = 0;
    for (int64_t step = 1; step <= (length == 1 ? 1 : g->skips + 1); step++) {
        if (length > 1 && step > (n - 1) / (length - 1)) break;
        for (int64_t at = 0; at + (length - 1) * step < n; at++)
            count += is_there(type, x, row + at, step, gram, length);
    }
    return count;
}

static void fill_rows(const ipu__kernel_call *call, void *const *operand, ipu_interval rows)
{
    const ipu_shape *x = &call->operand[X].shape;
    grams            g = get_grams(call);
    int64_t          n = x->dim[x->rank - 1], columns = call->operand[OUT].shape.dim[x->rank - 1];
    const float     *weights = ipu__kernel_has(call, WEIGHTS) && g.weighs ? operand[WEIGHTS] : NULL;
    for (int64_t row = rows.begin; row < rows.end; row++) {
        float  *y    = (float *)operand[OUT] + row * columns;
        int64_t gram = 0;
        memset(y, 0, (size_t)columns * sizeof *y);
        for (int64_t length = 1; length <= (int64_t)g.n_begin; length++)
            for (int64_t at = begin_of(&g, (size_t)length - 1); at < begin_of(&g, (size_t)length);
                 at += length, gram++) {
                if (length < g.least || length > g.most) continue;
                int64_t count = count_gram(&g, call->operand[X].type, operand[X], row * n, n, g.pool + at,
                                           length);
                float   value = g.counts ? (float)count : (float)(count > 0);
                if (count > 0) y[g.index[gram]] += weights ? value * weights[gram] : value;
            }
    }
}

static int64_t n_rows(const ipu__kernel_call *call)
{
    return call->operand[X].shape.rank == 2 ? call->operand[X].shape.dim[0] : 1;
}

static void tf_idf_ref(const ipu__kernel_call *call, void *const *operand)
{
    fill_rows(call, operand, (ipu_interval){0, n_rows(call)});
}

static ipu_status run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                      int part, int n_parts)
{
    (void)state, (void)scratch;
    fill_rows(call, operand, ipu__op_part(n_rows(call), 1, part, n_parts));
    return IPU_OK;
}

static double comparisons(const ipu__kernel_call *call)
{
    grams g = get_grams(call);
    return (double)ipu__op_n_elements(&call->operand[X].shape) * (double)g.n_index * (double)(g.skips + 1);
}

static ipu_status plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__op_loop loop = {40, 1, 5};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_count(comparisons(call)), 4, target, out));
    out->basis = "our estimate: 5 cycles to compare an n-gram with a place of x, comparisons dealt evenly";
    return IPU_OK;
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OPTIONAL("weights"), IPU__OUTPUT("y")};

#define NUMBER(n, d, text)                                                          \
    {                                                                               \
        .name = (n), .kind = IPU_ATTRIBUTE_INT, .otherwise = (d), .meaning = (text) \
    }
#define LIST(n, text)                                                                \
    {                                                                                \
        .name = (n), .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = (text) \
    }
static const ipu_op_attribute attributes[] = {
    {.name = "mode", .kind = IPU_ATTRIBUTE_TEXT, .text_otherwise = "TF", .meaning = "TF, IDF or TFIDF"},
    NUMBER("min_gram_length", 1, "of n-grams that count"),
    NUMBER("max_gram_length", 1, "of n-grams that count"),
    NUMBER("max_skip_count", 0, "numbers that may lie between those of an n-gram"),
    LIST("pool", "n-grams, the shorter ones first"),
    LIST("ngram_counts", "where in the pool n-grams of 1, 2, ... numbers begin"),
    LIST("ngram_indexes", "for each n-gram: which element of y counts it")};

static const ipu__cpu_impl implementations[] = {{.head = {"rows", ipu__op_fits_always}, .run = run}};

#define POOL "pool=[2,3,5,4,5,6,7,8,6,7] ngram_counts=[0,4] ngram_indexes=[0,1,2,3,4,5,6]"
static const char *const samples[] = {
    "int32[12]; max_gram_length=2 min_gram_length=2 " POOL,
    "int64[2,6]; max_gram_length=2 max_skip_count=5 " POOL,
    "int64[2,6], float[7]; max_gram_length=2 max_skip_count=5 mode=TFIDF " POOL,
    "int64[2,6], float[7]; mode=IDF " POOL,
    "int32[0]; max_gram_length=2 " POOL,
    "int32[40,300]; max_gram_length=2 max_skip_count=1 " POOL,
    NULL};

const ipu__op_def ipu__op_tf_idf = {
    .kernel       = {.name            = "tf_idf",
                     .operands        = operands,
                     .n_operands      = 3,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = tf_idf_ref,
                     .work            = comparisons,
                     .plan            = plan,
                     .implementations = IPU__ON_CPU(implementations)},
    .n_in         = 2,
    .family       = "select",
    .summary      = "how often the n-grams of a pool are there",
    .flags        = IPU__OP_NO_GRADIENT,
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .infer        = infer,
    .samples      = samples,
};

ipu_value ipu_tf_idf(ipu_builder *b, ipu_value x, ipu_value weights, ipu_tf_idf_options o)
{
    return ipu__emit1(
        b, "tf_idf",
        IPU__WITH(IPU_TEXT_ATTRIBUTE("mode", o.mode ? o.mode : "TF"),
                  IPU_INT_ATTRIBUTE("min_gram_length", o.min_gram_length ? o.min_gram_length : 1),
                  IPU_INT_ATTRIBUTE("max_gram_length", o.max_gram_length ? o.max_gram_length : 1),
                  IPU_INT_ATTRIBUTE("max_skip_count", o.max_skip_count), IPU__INTS("pool", o.pool, o.n_pool),
                  IPU__INTS("ngram_counts", o.ngram_counts, o.n_ngram_counts),
                  IPU__INTS("ngram_indexes", o.ngram_indexes, o.n_ngram_indexes)),
        IPU__IN(x, weights));
}
