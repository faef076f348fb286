/* einsum: sums of products over named indices, as diagonals, sums, products of matrices and transposes.
 *
 * Operands are combined from left to right. An index that only one of the two has, and nothing later needs,
 * is summed first; one that both have and nothing later needs is the inner dimension of a batched matrix
 * product.
 */
#include <ctype.h>
#include <string.h>

#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/linalg.h"
#include "ipu/op/matmul.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "op/builder.h"

/* Letters are 0 to 51, upper case first; dimensions of the ellipsis follow, counted from the last. */
enum { MOST = 16, OUT = MOST, N_LETTERS = 52, N_LABELS = N_LETTERS + IPU_MAX_RANK };

typedef struct term {
    int n, label[IPU_MAX_RANK];
} term;

typedef struct equation {
    int     n;
    term    in[MOST], out;
    int64_t extent[N_LABELS]; /* -1: not in any input */
} sum;

static uint64_t bit(int label) { return UINT64_C(1) << label; }

static uint64_t labels_of(const term *t)
{
    uint64_t all = 0;
    for (int i = 0; i < t->n; i++) all |= bit(t->label[i]);
    return all;
}

/* ---- reading ---- */

static bool is_ellipsis(const char *at, const char *end)
{
    return end - at >= 3 && memcmp(at, "...", 3) == 0;
}

static int letter(char c) { return isupper((unsigned char)c) ? c - 'A' : 26 + c - 'a'; }

/* The text from `at` to `end` as labels; an ellipsis stands for `rank` dimensions less the letters, or, if
 * rank is -1, for `n_dots`. Who fails says why. */
static const char *read_term(const char *at, const char *end, int rank, int n_dots, term *out)
{
    int letters = 0, dots = 0;
    for (const char *p = at; p < end; p++) {
        if (is_ellipsis(p, end) && dots++ == 0)
            p += 2;
        else if (isalpha((unsigned char)*p))
            letters++;
        else if (*p != ' ')
            return "expected letters, spaces, one \"...\" in a term, commas and one \"->\"";
    }
    if (rank >= 0) n_dots = rank - letters;
    if (rank >= 0 && (n_dots < 0 || (dots == 0 && n_dots != 0)))
        return "expected as many letters as the operand has dimensions";
    if (letters + (dots ? n_dots : 0) > IPU_MAX_RANK) return "more than 8 dimensions";
    out->n = 0;
    for (const char *p = at; p < end; p++)
        if (isalpha((unsigned char)*p))
            out->label[out->n++] = letter(*p);
        else if (*p == '.') {
            for (int i = n_dots - 1; i >= 0; i--) out->label[out->n++] = N_LETTERS + i;
            p += 2;
        }
    return NULL;
}

/* Without "->": the ellipsis, then what occurs once, in the order of the alphabet. */
static void imply_output(sum *e, int n_dots)
{
    int times[N_LABELS] = {0};
    for (int i = 0; i < e->n; i++)
        for (int d = 0; d < e->in[i].n; d++) times[e->in[i].label[d]]++;
    e->out.n = 0;
    for (int i = n_dots - 1; i >= 0; i--) e->out.label[e->out.n++] = N_LETTERS + i;
    for (int l = 0; l < N_LETTERS && e->out.n < IPU_MAX_RANK; l++)
        if (times[l] == 1) e->out.label[e->out.n++] = l;
}

/* Equal extents, or 1, which stretches. */
static const char *find_extents(const ipu__kernel_call *call, sum *e)
{
    for (int l = 0; l < N_LABELS; l++) e->extent[l] = -1;
    for (int i = 0; i < e->n; i++)
        for (int d = 0; d < e->in[i].n; d++) {
            int64_t own = call->operand[i].shape.dim[d], *all = &e->extent[e->in[i].label[d]];
            for (int k = 0; k < d; k++)
                if (e->in[i].label[k] == e->in[i].label[d] && call->operand[i].shape.dim[k] != own)
                    return "dimensions of one operand with the same letter must be equal";
            if (*all < 0 || *all == 1)
                *all = own;
            else if (own != 1 && own != *all)
                return "dimensions with the same letter must be equal, or 1";
        }
    return NULL;
}

static const char *read_equation(const ipu__kernel_call *call, sum *e)
{
    const char *text = ipu__op_text(call, "equation"), *arrow = strstr(text, "->"), *problem = NULL;
    const char *end = arrow ? arrow : text + strlen(text), *at = text;
    int         n_dots = 0;
    for (e->n = 0; !problem; e->n++, at++) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
        if (e->n == MOST) return "more than 16 operands";
        int rank = call->operand[e->n].shape.rank;
        problem  = read_term(at, stop, rank, 0, &e->in[e->n]);
        for (int d = 0; !problem && d < e->in[e->n].n; d++)
            if (e->in[e->n].label[d] - N_LETTERS >= n_dots) n_dots = e->in[e->n].label[d] - N_LETTERS + 1;
        at = stop;
        if (!comma) {
            e->n++;
            break;
        }
    }
    for (int i = e->n; i < MOST && !problem; i++)
        if (ipu__kernel_has(call, i)) return "more operands than terms";
    if (!problem) problem = find_extents(call, e);
    if (!problem && arrow) problem = read_term(arrow + 2, arrow + strlen(arrow), -1, n_dots, &e->out);
    if (!problem && !arrow) imply_output(e, n_dots);
    for (int d = 0; !problem && d < e->out.n; d++) {
        if (e->extent[e->out.label[d]] < 0) return "a letter of the output is in no operand";
        for (int k = 0; k < d; k++)
            if (e->out.label[k] == e->out.label[d]) return "a letter is twice in the output";
    }
    return problem;
}

static ipu_status einsum_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    sum         e;
    const char *problem = read_equation(call, &e);
    if (problem) return ipu__fail(IPU_INVALID, "einsum: \"%s\": %s", ipu__op_text(call, "equation"), problem);
    if (call->operand[0].type == IPU_BOOL)
        return ipu__fail(IPU_INVALID, "einsum: \"x0\" must be of a floating or an integer type, found bool");
    for (int i = 1; i < e.n; i++) IPU_TRY(ipu__op_want_same_type(call, 0, i));
    *out = (ipu__kernel_value){call->operand[0].type, {.rank = e.out.n}};
    for (int d = 0; d < e.out.n; d++) out->shape.dim[d] = e.extent[e.out.label[d]];
    return IPU_OK;
}

/* ---- composing ---- */

typedef struct factor {
    ipu_value v;
    term      t;
} factor;

static void drop_label(term *t, int d)
{
    for (int i = d; i + 1 < t->n; i++) t->label[i] = t->label[i + 1];
    t->n--;
}

static void take_diagonals(ipu_builder *b, factor *f)
{
    for (int d = 1; d < f->t.n; d++)
        for (int k = 0; k < d; k++) {
            if (f->t.label[k] != f->t.label[d]) continue;
            int label = f->t.label[d];
            f->v      = ipu_diagonal(b, f->v, 0, k, d);
            drop_label(&f->t, d);
            drop_label(&f->t, k);
            f->t.label[f->t.n++] = label;
            d                    = 0; /* labels have moved: look again */
            break;
        }
}

/* What would be stretched is left to the others, who have it at full length. */
static void drop_ones(ipu_builder *b, const sum *e, factor *f)
{
    for (int d = f->t.n - 1; d >= 0; d--)
        if (ipu_value_dim(f->v, d) == 1 && e->extent[f->t.label[d]] != 1) {
            f->v = ipu_squeeze(b, f->v, d);
            drop_label(&f->t, d);
        }
}

static void sum_others(ipu_builder *b, factor *f, uint64_t keep)
{
    int  axes[IPU_MAX_RANK], n = 0;
    term left = {0};
    for (int d = 0; d < f->t.n; d++)
        if (keep & bit(f->t.label[d]))
            left.label[left.n++] = f->t.label[d];
        else
            axes[n++] = d;
    if (n > 0) f->v = ipu_reduce_sum(b, f->v, axes, n, false);
    f->t = left;
}

/* Those of `t` that are in `which`, appended to `to`. */
static void append(term *to, const term *t, uint64_t which)
{
    for (int d = 0; d < t->n && to->n < IPU_MAX_RANK; d++)
        if (which & bit(t->label[d])) to->label[to->n++] = t->label[d];
}

static int64_t extent_of(const sum *e, const term *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->n; d++) n *= e->extent[t->label[d]];
    return n;
}

static bool in_order(const term *t, const term *order)
{
    return memcmp(t->label, order->label, (size_t)t->n * sizeof *t->label) == 0;
}

static ipu_value arranged(ipu_builder *b, const factor *f, const term *order)
{
    int perm[IPU_MAX_RANK];
    if (in_order(&f->t, order)) return f->v;
    for (int d = 0; d < order->n; d++)
        for (int k = 0; k < f->t.n; k++)
            if (f->t.label[k] == order->label[d]) perm[d] = k;
    return ipu_transpose(b, f->v, perm, order->n);
}

/* [batch, outer, inner], or *swapped: [batch, inner, outer], if it lies so already. */
static ipu_value as_matrices(ipu_builder *b, const sum *e, const factor *f, const term *batch,
                             const term *inner, bool *swapped)
{
    uint64_t outer = labels_of(&f->t) & ~labels_of(batch) & ~labels_of(inner);
    term     plain = *batch, other = *batch;
    int64_t  n = extent_of(e, batch), columns = extent_of(e, inner), rows = 1;
    append(&plain, &f->t, outer);
    append(&plain, inner, UINT64_MAX);
    append(&other, inner, UINT64_MAX);
    append(&other, &f->t, outer);
    for (int d = batch->n; d < f->t.n - inner->n; d++) rows *= e->extent[plain.label[d]];
    *swapped = !in_order(&f->t, &plain) && in_order(&f->t, &other);
    if (*swapped) return ipu_reshape(b, f->v, IPU_SHAPE(n, columns, rows));
    return ipu_reshape(b, arranged(b, f, &plain), IPU_SHAPE(n, rows, columns));
}

static bool multiplies(ipu_type type)
{
    return ipu__op_is_floating(type) || (ipu__op_is_integer(type) && ipu_type_size(type) >= 4);
}

/* [batch, rows, inner] and [batch, columns, inner] (swapped: the last two change places). */
static ipu_value product(ipu_builder *b, ipu_value x, bool x_swapped, ipu_value y, bool y_swapped,
                         bool has_inner)
{
    if (has_inner && multiplies(ipu_value_type(x))) return ipu_matmul_with(b, x, y, x_swapped, !y_swapped);
    if (x_swapped) x = ipu_swap_axes(b, x, 1, 2);
    if (y_swapped) y = ipu_swap_axes(b, y, 1, 2);
    if (!has_inner) return ipu_mul(b, x, ipu_swap_axes(b, y, 1, 2));
    return ipu_reduce_sum(b, ipu_mul(b, ipu_unsqueeze(b, x, 2), ipu_unsqueeze(b, y, 1)), (int[]){3}, 1,
                          false);
}

static void join(ipu_builder *b, const sum *e, factor *f, factor *other, uint64_t keep)
{
    sum_others(b, f, keep | labels_of(&other->t));
    sum_others(b, other, keep | labels_of(&f->t));
    uint64_t x = labels_of(&f->t), y = labels_of(&other->t);
    term     batch = {0}, inner = {0}, result;
    bool     x_swapped, y_swapped;
    append(&batch, &f->t, x & y & keep);
    append(&inner, &f->t, x & y & ~keep);
    int rank = __builtin_popcountll(x | y) - inner.n;
    if (rank > IPU_MAX_RANK) {
        ipu__builder_fail(b, IPU_INVALID,
                          "einsum: a product on the way has %d dimensions: expected at most %d", rank,
                          IPU_MAX_RANK);
        return;
    }
    ipu_value left  = as_matrices(b, e, f, &batch, &inner, &x_swapped);
    ipu_value right = as_matrices(b, e, other, &batch, &inner, &y_swapped);
    result          = batch;
    append(&result, &f->t, x & ~y);
    append(&result, &other->t, y & ~x);
    ipu_shape shape = {.rank = result.n};
    for (int d = 0; d < result.n; d++) shape.dim[d] = e->extent[result.label[d]];
    f->v = ipu_reshape(b, product(b, left, x_swapped, right, y_swapped, inner.n > 0), shape);
    f->t = result;
}

static void einsum_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    sum    e;
    factor f = {.v = in[0]}, next;
    out[0]   = (ipu_value){b, 0};
    if (read_equation(call, &e)) return; /* infer has read it */
    for (int i = 0; i < e.n && ipu_builder_status(b) == IPU_OK; i++) {
        uint64_t keep = labels_of(&e.out);
        for (int k = i + 1; k < e.n; k++) keep |= labels_of(&e.in[k]);
        next = (factor){in[i], e.in[i]};
        take_diagonals(b, &next);
        drop_ones(b, &e, &next);
        if (i == 0)
            f = next;
        else
            join(b, &e, &f, &next, keep);
    }
    if (ipu_builder_status(b) != IPU_OK) return;
    sum_others(b, &f, labels_of(&e.out));
    out[0] = arranged(b, &f, &e.out);
    if (out[0].id == in[0].id) out[0] = ipu_identity(b, in[0]);
}

/* ---- the record ---- */

static const ipu__kernel_operand operands[] = {
    IPU__INPUT("x0"),     IPU__OPTIONAL("x1"),  IPU__OPTIONAL("x2"),  IPU__OPTIONAL("x3"),
    IPU__OPTIONAL("x4"),  IPU__OPTIONAL("x5"),  IPU__OPTIONAL("x6"),  IPU__OPTIONAL("x7"),
    IPU__OPTIONAL("x8"),  IPU__OPTIONAL("x9"),  IPU__OPTIONAL("x10"), IPU__OPTIONAL("x11"),
    IPU__OPTIONAL("x12"), IPU__OPTIONAL("x13"), IPU__OPTIONAL("x14"), IPU__OPTIONAL("x15"),
    IPU__OUTPUT("out")};

static const ipu_op_attribute attributes[] = {
    {.name     = "equation",
     .kind     = IPU_ATTRIBUTE_TEXT,
     .required = true,
     .meaning  = "letters for the dimensions of each operand, and after -> of the result"},
};

/* clang-format off */
static const char *const samples[] = {
    "float[3,4], float[4,5]; equation=\"ij,jk->ik\"",
    "float[2,3,4], float[2,5,4]; equation=\"bij, bkj -> bki\"",
    "float[3,3,2]; equation=\"iij->ji\"",
    "float[2,3,3]; equation=\"...ii\"",
    "float[2,3,4]; equation=\"a...->...\"",
    "float[3], float[4]; equation=\"i,j\"",
    "float[3,2], float[2,3], float[3]; equation=\"ij,jk,k->i\"",
    "float[], float[3]; equation=\",i\"",
    "float[1,2,3], float[4,3,2]; equation=\"...ij,...jk->...ik\"",
    "float[1,3], float[4,3]; equation=\"bi,bi->b\"",
    "float[1,3], float[4,3]; equation=\"bi,bi->bi\"",
    "float[0,3], float[3,2]; equation=\"ij,jk->ik\"",
    "float[3,4]; equation=\"ij->ij\"",
    "float[2,3,2,2], float[4,2,3]; equation=\"abcd,eab->cde\"",
    "int8[2,3], int8[3,2]; equation=\"ij,jk->ik\"",
    "uint32[2,3], uint32[3,2]; equation=\"ij,jk->ki\"",
    NULL};
/* clang-format on */

const ipu__op_def ipu__op_einsum = {
    .kernel       = {.name = "einsum", .operands = operands, .n_operands = MOST + 1, .check = ipu__op_check},
    .n_in         = MOST,
    .family       = "linalg",
    .summary      = "sums of products over named indices",
    .attributes   = attributes,
    .n_attributes = 1,
    .infer        = einsum_infer,
    .compose      = einsum_compose,
    .samples      = samples,
};

ipu_value ipu_einsum(ipu_builder *b, const char *equation, const ipu_value *values, size_t n)
{
    return ipu__emit1(b, "einsum", IPU__WITH(IPU_TEXT_ATTRIBUTE("equation", equation)), values, n);
}
