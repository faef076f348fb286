/* matmul: out = a x b, with broadcast batch dimensions in front and either operand transposed.
 *
 * Sums run over ascending k in the accumulating type (float for half), rounding every operation; an
 * implementation may sum in another order, and then agrees up to rounding.
 */
#include "op/matmul/matmul.h"

#include "graph/graph.h"
#include "ipu/op/matmul.h"
#include "ipu/op/shape.h"
#include "op/builder.h"
#include "op/matmul/types.h"
#include "op/region.h"
#include "op/replicas.h"
#include "op/simplify.h"

enum { A = IPU__MATMUL_A, B = IPU__MATMUL_B, OUT = IPU__MATMUL_OUT };

/* ---- shapes ---- */

/* An operand as a stack of matrices; a vector has a dimension of 1 added in front or behind. */
typedef struct stack {
    int     rank; /* of the batch */
    int64_t dim[IPU_MAX_RANK], rows, columns;
} stack;

static stack stack_of(const ipu_shape *s, bool is_left)
{
    stack out = {.rank = s->rank > 2 ? s->rank - 2 : 0, .rows = 1, .columns = 1};
    for (int i = 0; i < out.rank; i++) out.dim[i] = s->dim[i];
    if (s->rank == 1)
        *(is_left ? &out.columns : &out.rows) = s->dim[0];
    else {
        out.rows    = s->dim[s->rank - 2];
        out.columns = s->dim[s->rank - 1];
    }
    return out;
}

static void swap(int64_t *a, int64_t *b)
{
    int64_t old = *a;
    *a          = *b;
    *b          = old;
}

/* Batch dimension `i` of `rank`, when dimensions are counted from the last and missing ones are 1. */
static int64_t batch_dim(const stack *s, int rank, int i)
{
    return i < rank - s->rank ? 1 : s->dim[i - (rank - s->rank)];
}

/* A batch that shares b: rows of all matrices of a follow one another. */
static void flatten(ipu__matmul *mm)
{
    if (mm->transpose_a) return;
    for (int i = 0; i < mm->rank; i++)
        if (mm->b_step[i] != 0 || (mm->a_step[i] == 0 && mm->dim[i] > 1)) return;
    mm->m *= mm->batch;
    mm->batch = 1;
    mm->rank  = 0;
}

static void get_steps(ipu__matmul *mm, const stack *a, const stack *b)
{
    int64_t a_step = mm->m * mm->k, b_step = mm->k * mm->n;
    mm->rank  = a->rank > b->rank ? a->rank : b->rank;
    mm->batch = 1;
    for (int i = mm->rank - 1; i >= 0; i--) {
        int64_t a_dim = batch_dim(a, mm->rank, i), b_dim = batch_dim(b, mm->rank, i);
        mm->dim[i]    = a_dim == 1 ? b_dim : a_dim;
        mm->a_step[i] = a_dim == 1 ? 0 : a_step;
        mm->b_step[i] = b_dim == 1 ? 0 : b_step;
        a_step *= a_dim;
        b_step *= b_dim;
        mm->batch *= mm->dim[i];
    }
}

ipu__matmul ipu__matmul_get(const ipu__kernel_call *call)
{
    stack       a = stack_of(&call->operand[A].shape, true), b = stack_of(&call->operand[B].shape, false);
    ipu__matmul mm = {.transpose_a = ipu__op_int(call, "transpose_a") != 0,
                      .transpose_b = ipu__op_int(call, "transpose_b") != 0};
    if (mm.transpose_a) swap(&a.rows, &a.columns);
    if (mm.transpose_b) swap(&b.rows, &b.columns);
    mm.m   = a.rows;
    mm.k   = a.columns;
    mm.n   = b.columns;
    mm.a_m = mm.transpose_a ? 1 : mm.k;
    mm.a_k = mm.transpose_a ? mm.m : 1;
    mm.b_k = mm.transpose_b ? 1 : mm.n;
    mm.b_n = mm.transpose_b ? mm.k : 1;
    get_steps(&mm, &a, &b);
    flatten(&mm);
    return mm;
}

void ipu__matmul_at(const ipu__matmul *mm, int64_t i, int64_t *a, int64_t *b)
{
    *a = *b = 0;
    for (int d = mm->rank - 1; d >= 0; d--) {
        int64_t at = i % mm->dim[d];
        i /= mm->dim[d];
        *a += at * mm->a_step[d];
        *b += at * mm->b_step[d];
    }
}

/* Where a is transposed (the gradient of weights) rows of the result are rows of weights, where b is (a product
 * with them) columns are. Dividing both alike, as optimizers divide elements, leaves lines with the thread that
 * wrote them. */
ipu__matmul_part ipu__matmul_part_get(const ipu__matmul *mm, int part, int n_parts)
{
    /* Rows of a part: with fewer, reading all of b for them costs too much. */
    const int64_t    few  = mm->transpose_a ? 16 : 96;
    const int64_t    line = mm->transpose_b ? 1 : 16;
    ipu__matmul_part all  = {{0, mm->batch}, {0, mm->m}, {0, mm->n}};
    if (mm->batch >= 2 * n_parts || (mm->batch == n_parts && mm->batch > 1))
        all.batch = ipu__op_part(mm->batch, 1, part, n_parts);
    else if (mm->m < few * n_parts && mm->n >= mm->m && mm->n >= 16 * n_parts)
        all.column = ipu__op_part(mm->n, line, part, n_parts);
    else
        all.row = ipu__op_part(mm->m, 1, part, n_parts);
    return all;
}

/* ---- by type ---- */

/* The meaning, for one matrix of the batch. Sum: the type that accumulates. */
#define REF(T, Sum, load, store)                                                                    \
    static void ref_##T(const ipu__matmul *mm, const void *a, const void *b, void *out)             \
    {                                                                                               \
        const T *x = a, *y = b;                                                                     \
        T       *to = out;                                                                          \
        for (int64_t i = 0; i < mm->m; i++)                                                         \
            for (int64_t j = 0; j < mm->n; j++) {                                                   \
                Sum sum = 0;                                                                        \
                for (int64_t p = 0; p < mm->k; p++)                                                 \
                    sum += load(x[i * mm->a_m + p * mm->a_k]) * load(y[p * mm->b_k + j * mm->b_n]); \
                to[i * mm->n + j] = store(sum);                                                     \
            }                                                                                       \
    }

IPU__MATMUL_TYPES(REF)

static void (*const ref_by_type[IPU_N_TYPES])(const ipu__matmul *mm, const void *a, const void *b,
                                              void *out) = {
/* NULL: not a type that multiplies */
#define X(T, Sum, load, store) [IPU_TYPE_OF(T)] = ref_##T,
    IPU__MATMUL_TYPES(X)
#undef X
};

static void matmul_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__matmul mm    = ipu__matmul_get(call);
    ipu_type    type  = call->operand[OUT].type;
    int64_t     bytes = (int64_t)ipu_type_size(type);
    for (int64_t i = 0; i < mm.batch; i++) {
        int64_t a, b;
        ipu__matmul_at(&mm, i, &a, &b);
        ref_by_type[type](&mm, (char *)operand[A] + a * bytes, (char *)operand[B] + b * bytes,
                          (char *)operand[OUT] + i * mm.m * mm.n * bytes);
    }
    ipu__epilogue_ref(call, operand);
}

/* ---- infer ---- */

static ipu_status check_flag(const ipu__kernel_call *call, const char *name, int operand, bool *out)
{
    int64_t value = ipu__op_int(call, name);
    if (value != 0 && value != 1)
        return ipu__fail(IPU_INVALID, "matmul: attribute \"%s\" must be 0 or 1, found %lld", name,
                         (long long)value);
    if (value && call->operand[operand].shape.rank < 2)
        return ipu__fail(IPU_INVALID, "matmul: %s = 1, but \"%s\" %s is a vector", name,
                         call->def->operands[operand].name, ipu__shape_str(&call->operand[operand].shape));
    *out = value;
    return IPU_OK;
}

static ipu_status infer_batch(const ipu__kernel_call *call, const stack *a, const stack *b, ipu_shape *out)
{
    out->rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 0; i < out->rank; i++) {
        int64_t x = batch_dim(a, out->rank, i), y = batch_dim(b, out->rank, i);
        if (x != y && x != 1 && y != 1)
            return ipu__fail(
                IPU_INVALID,
                "matmul: batch dimensions do not broadcast: a %s x b %s: counted from the last they "
                "must be equal or 1",
                ipu__shape_str(&call->operand[A].shape), ipu__shape_str(&call->operand[B].shape));
        out->dim[i] = x == 1 ? y : x;
    }
    return IPU_OK;
}

static ipu_status matmul_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    bool transpose_a = false, transpose_b = false;
    IPU_TRY(check_flag(call, "transpose_a", A, &transpose_a));
    IPU_TRY(check_flag(call, "transpose_b", B, &transpose_b));
    IPU_TRY(ipu__partials_check(call));
    IPU_TRY(ipu__op_want_same_type(call, A, B));
    if (!ref_by_type[call->operand[A].type])
        return ipu__fail(
            IPU_INVALID,
            "matmul: expected float, half, bfloat16, double, or an integer of 32 or 64 bits, found %s",
            ipu_type_name(call->operand[A].type));
    IPU_TRY(ipu__op_want_rank(call, A, 1, IPU_MAX_RANK));
    IPU_TRY(ipu__op_want_rank(call, B, 1, IPU_MAX_RANK));
    const ipu_shape *x = &call->operand[A].shape, *y = &call->operand[B].shape;
    stack            a = stack_of(x, true), b = stack_of(y, false);
    if (transpose_a) swap(&a.rows, &a.columns);
    if (transpose_b) swap(&b.rows, &b.columns);
    if (a.columns != b.rows)
        return ipu__fail(IPU_INVALID, "matmul: inner dimensions differ: a %s%s x b %s%s", ipu__shape_str(x),
                         transpose_a ? " transposed" : "", ipu__shape_str(y),
                         transpose_b ? " transposed" : "");
    *out = (ipu__kernel_value){.type = call->operand[A].type};
    IPU_TRY(infer_batch(call, &a, &b, &out->shape));
    if (x->rank > 1) out->shape.dim[out->shape.rank++] = a.rows;
    if (y->rank > 1) out->shape.dim[out->shape.rank++] = b.columns;
    return ipu__epilogue_infer(call, out);
}

static double matmul_work(const ipu__kernel_call *call)
{
    ipu__matmul mm = ipu__matmul_get(call);
    return 2.0 * (double)mm.batch * (double)mm.m * (double)mm.n * (double)mm.k;
}

/* ---- gradient ---- */

static ipu_value with_shape(ipu_builder *b, ipu_value v, const int64_t *dim, int rank)
{
    ipu_shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++) shape.dim[i] = dim[i];
    return ipu_reshape(b, v, shape);
}

/* A vector as a matrix, and the gradient of the product with the dimension that the vector lacks. */
static ipu_value as_matrix(ipu_builder *b, ipu_value v, bool is_left)
{
    if (ipu_value_rank(v) != 1) return v;
    int64_t n = ipu_value_dim(v, 0), dim[] = {is_left ? 1 : n, is_left ? n : 1};
    return with_shape(b, v, dim, 2);
}

static ipu_value as_product(ipu_builder *b, ipu_value v, bool left_is_vector, bool right_is_vector)
{
    if (!left_is_vector && !right_is_vector) return v;
    ipu_shape s = ipu_value_shape(v);
    if (left_is_vector) {
        if (!right_is_vector && s.rank > 0) s.dim[s.rank] = s.dim[s.rank - 1];
        s.dim[right_is_vector ? s.rank : s.rank - 1] = 1;
        s.rank++;
    }
    if (right_is_vector) s.dim[s.rank++] = 1;
    return with_shape(b, v, s.dim, s.rank);
}

/* Rows of all matrices as those of one. */
static ipu_value as_one(ipu_builder *b, ipu_value v)
{
    int64_t columns = ipu_value_dim(v, -1), rows = 1;
    for (int i = 0; i < ipu_value_rank(v) - 1; i++) rows *= ipu_value_dim(v, i);
    return with_shape(b, v, (int64_t[]){rows, columns}, 2);
}

static ipu_value back_to(ipu_builder *b, ipu_value d, ipu_value like, ipu_value original)
{
    ipu_shape shape = ipu_value_shape(original);
    d               = ipu__sum_like(b, d, like);
    if (ipu_value_rank(original) != 1) return d;
    return with_shape(b, d, shape.dim, shape.rank);
}

static void matmul_grad(ipu__gradient *g)
{
    ipu_builder *b = g->b;
    if (ipu__epilogue_has(g->call)) {
        ipu__builder_fail(b, IPU_UNSUPPORTED,
                          "matmul: it has an epilogue: take gradients before ops are fused");
        return;
    }
    bool      ta = ipu__op_int(g->call, "transpose_a") != 0, tb = ipu__op_int(g->call, "transpose_b") != 0;
    ipu_value x = as_matrix(b, g->in[A], true), y = as_matrix(b, g->in[B], false);
    ipu_value d = as_product(b, g->d_out[0], ipu_value_rank(g->in[A]) == 1, ipu_value_rank(g->in[B]) == 1);
    if (g->wanted[A]) {
        ipu_value dx = ta ? ipu_matmul_with(b, y, d, tb, true) : ipu_matmul_with(b, d, y, false, !tb);
        g->d_in[A]   = back_to(b, dx, x, g->in[A]);
    }
    if (!g->wanted[B]) return;
    if (!ta && ipu_value_rank(y) == 2 && ipu_value_rank(x) > 2) { /* one product instead of a sum of many */
        x = as_one(b, x);
        d = as_one(b, d);
    }
    ipu_value dy = tb ? ipu_matmul_with(b, d, x, true, ta) : ipu_matmul_with(b, x, d, !ta, false);
    g->d_in[B]   = back_to(b, dy, y, g->in[B]);
}

/* ---- the record ---- */

static const ipu__kernel_operand operands[] = {IPU__INPUT("a"), IPU__INPUT("b"), IPU__EPILOGUE_INPUTS,
                                               IPU__OUTPUT("out")};

static const ipu__cpu_impl implementations[] = {
    {
        .head          = {"xsmm", ipu__matmul_xsmm_fits},
        .layouts       = ipu__matmul_xsmm_layouts,
        .scratch_bytes = ipu__matmul_xsmm_scratch_bytes,
        .prepare       = ipu__matmul_xsmm_prepare,
        .release       = ipu__matmul_xsmm_release,
        .run           = ipu__matmul_xsmm_run,
    },
    {
        .head          = {"onednn", ipu__matmul_onednn_fits},
        .scratch_bytes = ipu__matmul_onednn_scratch_bytes,
        .prepare       = ipu__matmul_onednn_prepare,
        .release       = ipu__matmul_onednn_release,
        .run           = ipu__matmul_onednn_run,
    },
    {
        .head          = {"plain", ipu__op_fits_always},
        .scratch_bytes = ipu__matmul_plain_scratch_bytes,
        .prepare       = ipu__matmul_plain_prepare,
        .release       = ipu__matmul_plain_release,
        .run           = ipu__matmul_plain_run,
    },
};

static const ipu_op_attribute attributes[] = {
    {.name = "transpose_a", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: the last two dimensions of a swapped"},
    {.name = "transpose_b", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: the last two dimensions of b swapped"},
    IPU__PARTIALS_ATTRIBUTE,
    IPU__EPILOGUE_ATTRIBUTE,
};

static const char *const samples[] = {
    "float[3,4], float[4,5]",
    "float[2,4,3], float[2,4,5]; transpose_a=1",
    "float[2,3,4], float[2,5,4]; transpose_b=1",
    "float[4,3], float[2,5,4]; transpose_a=1 transpose_b=1",
    "float[2,1,3,4], float[5,4,2]",
    "float[2,3,3,4], float[4,6]",
    "float[4], float[4]",
    "float[4], float[3,4,2]",
    "float[2,3,4], float[4]",
    "float[3,0], float[0,5]",
    "float[0,4], float[4,5]",
    "float[9,33], float[33,257]",
    "float[64,100], float[100,65]",
    "float[65,100], float[130,100]; transpose_b=1",
    "int32[7,8], int32[8,9]",
    "int64[7,8], int64[8,9]",
    "uint32[2,7,8], uint32[2,8,9]",
    "uint64[7,8], uint64[9,8]; transpose_b=1",
    /* positive, so that rounding before the epilogue is not blown up by cancellation */
    "float[2,300,20]{0.1,1}, float[20,300]{0.1,1}, float[300,300]{0.1,1}, float[]{1,2}; epilogue=\"mul a0 a2; add t0 a1; out t1\"",
    "float[2,20]{0,0.1}, float[400,20]{0,1}, float[400]{0.1,1}; transpose_b=1 epilogue=\"add a0 a1; relu t0; out t1\"",
    "float[40,20]{0,0.1}, float[400,20]{0,1}, float[400]{0.1,1}; transpose_b=1 epilogue=\"add a0 a1; tanh t0; out t1\"",
    "float[30,0], float[0,70], float[70]; epilogue=\"add a0 a1; out t0\"",
    NULL,
};

/* Rows of a; columns stay together, and b is the same for all. */
static bool matmul_region(const ipu__kernel_call *call, int axis, ipu__regions *out)
{
    const ipu_shape *a = &call->operand[IPU__MATMUL_A].shape, *b = &call->operand[IPU__MATMUL_B].shape;
    const char      *epilogue = ipu__op_text(call, "epilogue");
    int              rank     = call->operand[IPU__MATMUL_OUT].shape.rank;
    out->in[IPU__MATMUL_A]    = axis;
    return a->rank == rank && b->rank == 2 && axis < rank - 1 && !ipu__op_int(call, "transpose_a")
        && !(epilogue && *epilogue);
}

static bool matmul_zeros(const ipu__kernel_call *call, int input, int axis, ipu__regions *out)
{
    return input == IPU__MATMUL_A && ipu__region_through(call, input, axis, axis, out);
}

static bool swaps_last_two(const ipu__kernel_call *transpose)
{
    int64_t perm[IPU_MAX_RANK];
    int     rank = ipu__transpose_perm(transpose, perm);
    if (rank < 2 || perm[rank - 1] != rank - 2 || perm[rank - 2] != rank - 1) return false;
    for (int d = 0; d < rank - 2; d++)
        if (perm[d] != d) return false;
    return true;
}

/* It transposes its operands itself. */
static ipu_status matmul_simplify(ipu__simplify *s)
{
    static const char *const flag[] = {"transpose_a", "transpose_b"};
    for (int i = 0; i < 2; i++) {
        ipu__kernel_call before;
        if (s->maker(s, i, &before) != &ipu__op_transpose || !swaps_last_two(&before)) continue;
        IPU_TRY(s->set(s, IPU_INT_ATTRIBUTE(flag[i], !ipu__op_int(&s->call, flag[i]))));
        s->pass_over(s, i);
    }
    return IPU_OK;
}

const ipu__op_def ipu__op_matmul = {
    .kernel       = {.name            = "matmul",
                     .operands        = operands,
                     .n_operands      = IPU__COUNT(operands),
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = matmul_ref,
                     .work            = matmul_work,
                     .plan            = ipu__matmul_plan,
                     .implementations = IPU__ON_CPU(implementations)},
    .n_in         = IPU__MATMUL_OUT,
    .family       = "matmul",
    .summary      = "matrix product, batched and broadcast, either operand transposed",
    .flags        = IPU__OP_EPILOGUE | IPU__OP_GAINS_IN_HALF,
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .infer        = matmul_infer,
    .grad         = matmul_grad,
    .simplify     = matmul_simplify,
    .region       = matmul_region,
    .zeros        = matmul_zeros,
    .fold         = ipu__fold_matmul,
    .samples      = samples,
};
