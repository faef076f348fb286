/* matmul_integer and qlinear_matmul: products of matrices of 8 bits.
 *
 * Without oneDNN, blocks of both are unpacked to 16 bits with their zero points subtracted, so that sums need
 * no correction.
 */
#include "graph/graph.h"
#include "ipu/op/quantize.h"
#include "op/quantize/matmul.h"

/* The same product of halves, which hold 8 bits exactly. */
static ipu__kernel_call as_halves(const ipu__kernel_call *call)
{
    const ipu__int8_roles *r     = ipu__int8_roles_of(call);
    ipu__kernel_call       inner = {.def = &ipu__op_matmul.kernel, .n_operands = IPU__MATMUL_OUT + 1};
    for (int i = 0; i < inner.n_operands; i++) inner.operand[i] = (ipu__kernel_value){IPU_HALF, IPU_SHAPE(0)};
    inner.operand[IPU__MATMUL_A].shape = call->operand[r->left].shape;
    inner.operand[IPU__MATMUL_B].shape = call->operand[r->right].shape;
    if (call->n_operands == call->def->n_operands)
        inner.operand[IPU__MATMUL_OUT].shape = call->operand[r->out].shape;
    return inner;
}

ipu__matmul ipu__int8_matmul_get(const ipu__kernel_call *call)
{
    ipu__kernel_call inner = as_halves(call);
    return ipu__matmul_get(&inner);
}

static ipu_status infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu__int8_roles *r     = ipu__int8_roles_of(call);
    const ipu_shape       *a     = &call->operand[r->left].shape;
    ipu__kernel_call       inner = as_halves(call);
    IPU_TRY(ipu__op_matmul.infer(&inner, out));
    return ipu__int8_infer(call, r, a->rank > 1 ? a->dim[a->rank - 2] : 1, ipu__int8_matmul_get(call).n,
                           &out->type);
}

static void product_ref(const ipu__kernel_call *call, void *const *operand)
{
    const ipu__int8_roles *r      = ipu__int8_roles_of(call);
    ipu__matmul            mm     = ipu__int8_matmul_get(call);
    ipu_type               a_type = call->operand[r->left].type, b_type = call->operand[r->right].type;
    for (int64_t at = 0; at < mm.batch * mm.m * mm.n; at++) {
        int64_t  i = at / mm.n % mm.m, j = at % mm.n, a, b;
        uint32_t sum    = 0;
        int32_t  a_zero = ipu__int8_zero(call, operand, r->left_zero, i);
        int32_t  b_zero = ipu__int8_zero(call, operand, r->right_zero, j);
        ipu__matmul_at(&mm, at / (mm.m * mm.n), &a, &b);
        for (int64_t k = 0; k < mm.k; k++) {
            int32_t x = ipu__quantized_load(a_type, operand[r->left], a + i * mm.a_m + k * mm.a_k) - a_zero;
            int32_t y = ipu__quantized_load(b_type, operand[r->right], b + k * mm.b_k + j * mm.b_n) - b_zero;
            sum += (uint32_t)(x * y);
        }
        ipu__int8_store(call, r, operand, at, sum, i, j);
    }
}

/* ---- in blocks ---- */

enum { BLOCK = IPU__INT8_BLOCK };

static size_t scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    double depth = (double)ipu__int8_depth(ipu__int8_matmul_get(call).k);
    double bytes = 2.0 * BLOCK * depth * sizeof(int16_t) + BLOCK * (BLOCK + 1.0) * sizeof(int32_t);
    return bytes < 0x1p60 ? (size_t)bytes : SIZE_MAX;
}

typedef struct product {
    const ipu__kernel_call    *call;
    const ipu__int8_roles     *r;
    const ipu__quantize_loops *loops;
    void *const               *operand;
    ipu__matmul                mm;
    int64_t                    depth;
    int16_t                   *a, *b;
    int32_t                   *sums;
    float                     *scales;
} product;

static void finish_row(const product *p, int64_t matrix, int64_t i, int64_t row, int64_t j, int64_t n)
{
    if (p->r->y_scale >= 0) ipu__int8_scales(p->call, p->r, p->operand, i + row, j, n, p->scales);
    ipu__int8_finish(p->call, p->r, p->loops, p->operand, p->sums + row * BLOCK, p->scales, n,
                     (matrix * p->mm.m + i + row) * p->mm.n + j);
}

/* Columns [j, j + n) of one matrix, whose operands begin at `a` and `b`, by rows [begin, end). */
static void run_columns(const product *p, int64_t matrix, const int8_t *a, const int8_t *b, ipu_interval rows,
                        int64_t j, int64_t n)
{
    const ipu__matmul     *mm = &p->mm;
    const ipu__int8_roles *r  = p->r;
    for (int64_t c = 0; c < n; c++)
        ipu__int8_pack(p->call->operand[r->right].type, b + (j + c) * mm->b_n, mm->b_k, mm->k,
                       ipu__int8_zero(p->call, p->operand, r->right_zero, j + c), p->depth,
                       p->b + c * p->depth);
    for (int64_t i = rows.begin; i < rows.end; i += BLOCK) {
        int64_t m = rows.end - i < BLOCK ? rows.end - i : BLOCK;
        for (int64_t row = 0; row < m; row++)
            ipu__int8_pack(p->call->operand[r->left].type, a + (i + row) * mm->a_m, mm->a_k, mm->k,
                           ipu__int8_zero(p->call, p->operand, r->left_zero, i + row), p->depth,
                           p->a + row * p->depth);
        p->loops->dots(p->a, p->b, p->depth, m, n, p->sums, BLOCK);
        for (int64_t row = 0; row < m; row++) finish_row(p, matrix, i, row, j, n);
    }
}

static ipu_status run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                      int part, int n_parts)
{
    (void)state;
    product p             = {.call    = call,
                             .r       = ipu__int8_roles_of(call),
                             .loops   = &IPU__SIMD_PICK(ipu__quantize_loops_of),
                             .operand = operand,
                             .mm      = ipu__int8_matmul_get(call)};
    p.depth               = ipu__int8_depth(p.mm.k);
    p.sums                = scratch;
    p.scales              = (float *)(p.sums + BLOCK * BLOCK);
    p.a                   = (int16_t *)(p.scales + BLOCK);
    p.b                   = p.a + BLOCK * p.depth;
    ipu__matmul_part mine = ipu__matmul_part_get(&p.mm, part, n_parts);
    for (int64_t i = mine.batch.begin; i < mine.batch.end; i++) {
        int64_t a, b;
        ipu__matmul_at(&p.mm, i, &a, &b);
        for (int64_t j = mine.column.begin; j < mine.column.end; j += BLOCK)
            run_columns(&p, i, (const int8_t *)operand[p.r->left] + a,
                        (const int8_t *)operand[p.r->right] + b, mine.row, j,
                        mine.column.end - j < BLOCK ? mine.column.end - j : BLOCK);
    }
    return IPU_OK;
}

/* ---- prices and records ---- */

static double work(const ipu__kernel_call *call)
{
    ipu__matmul mm = ipu__int8_matmul_get(call);
    return 2.0 * (double)mm.batch * (double)mm.m * (double)mm.n * (double)mm.k;
}

static ipu_status plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__kernel_call inner = as_halves(call);
    IPU_TRY(ipu__matmul_plan(&inner, target, out));
    out->basis = "as matmul of halves, which hold 8 bits exactly: the chip has no product of 8 bits";
    return IPU_OK;
}

static const ipu__kernel_operand integer_operands[] = {IPU__INPUT("a"), IPU__INPUT("b"),
                                                       IPU__OPTIONAL("a_zero_point"),
                                                       IPU__OPTIONAL("b_zero_point"), IPU__OUTPUT("y")};
static const ipu__kernel_operand qlinear_operands[] = {
    IPU__INPUT("a"),       IPU__INPUT("a_scale"),         IPU__OPTIONAL("a_zero_point"),
    IPU__INPUT("b"),       IPU__INPUT("b_scale"),         IPU__OPTIONAL("b_zero_point"),
    IPU__INPUT("y_scale"), IPU__OPTIONAL("y_zero_point"), IPU__OUTPUT("y")};

static const char *const integer_samples[] = {
    "uint8[4,3]{0,255}, uint8[3,2]{0,255}, uint8[1]{0,255}, uint8[]{0,255}",
    "uint8[5,70]{0,255}, int8[70,9]{-128,127}",
    "int8[2,3,4]{-128,127}, int8[4,5]{-128,127}, int8[3]{-128,127}, int8[5]{-128,127}",
    "int8[2,3,4]{-128,127}, uint8[2,4,5]{0,255}, none, uint8[5]{0,255}",
    "uint8[4], uint8[4]",
    "uint8[3,0], uint8[0,5]",
    "uint8[0,4], uint8[4,5]",
    "uint8[3,70000]{255,255}, uint8[70000,3]{254,255}",
    "uint8[67,130]{0,255}, int8[130,70]{-128,127}, uint8[]{0,255}",
    "int8[5,20,64]{-128,127}, uint8[5,64,30]{0,255}, int8[20]{-128,127}, uint8[30]{0,255}",
    "int8[70,64]{-128,127}, int8[64,30]{-128,127}, none, int8[30]{-128,127}",
    "int8[40,40]{-128,127}, int8[40,40]{-128,127}",
    "uint8[3,300]{0,255}, uint8[300,300]{0,255}",
    NULL};
static const char *const qlinear_samples[] = {
    ("uint8[2,4]{0,255}, float[1]{0.006,0.007}, uint8[1]{110,115}, uint8[4,3]{0,255}, float[1]{0.007,0.008}, "
     "uint8[1]{110,115}, float[1]{0.01,0.02}, uint8[1]{110,120}"),
    ("uint8[5,70]{0,255}, float[5]{0.006,0.007}, uint8[5]{110,115}, int8[70,9]{-128,127}, "
     "float[9]{0.007,0.008}, int8[9]{-3,3}, float[]{0.01,0.02}, int8[]{-9,9}"),
    ("int8[2,3,4]{-128,127}, float[]{0.1,0.2}, none, int8[2,4,5]{-128,127}, float[]{0.1,0.2}, none, "
     "float[]{1,2}"),
    ("uint8[67,130]{0,255}, float[]{0.1,0.2}, none, int8[130,70]{-128,127}, float[70]{0.1,0.2}, none, "
     "float[]{9,20}, uint8[]{110,120}"),
    ("int8[2,67,40]{-128,127}, float[67]{0.1,0.2}, int8[67]{-9,9}, uint8[40,70]{0,255}, float[70]{0.1,0.2}, "
     "uint8[70]{0,255}, float[]{9,20}, int8[]{-9,9}"),
    NULL};

static const ipu__cpu_impl implementations[] = {
    {.head          = {"onednn", ipu__int8_matmul_onednn_fits},
     .scratch_bytes = ipu__int8_matmul_onednn_scratch_bytes,
     .prepare       = ipu__int8_matmul_onednn_prepare,
     .release       = ipu__int8_matmul_onednn_release,
     .run           = ipu__int8_matmul_onednn_run},
    {.head = {"dots", ipu__op_fits_always}, .scratch_bytes = scratch_bytes, .run = run}};

#define RECORD(op, prefix, ins, ...)                                                                \
    const ipu__op_def ipu__op_##op = {.kernel  = {.name            = #op,                           \
                                                  .operands        = prefix##_operands,             \
                                                  .n_operands      = (ins) + 1,                     \
                                                  .check           = ipu__op_check,                 \
                                                  .rows            = ipu__op_rows,                  \
                                                  .ref             = product_ref,                   \
                                                  .work            = work,                          \
                                                  .plan            = plan,                          \
                                                  .implementations = IPU__ON_CPU(implementations)}, \
                                      .n_in    = (ins),                                             \
                                      .family  = "quantize",                                        \
                                      .flags   = IPU__OP_NO_GRADIENT,                               \
                                      .infer   = infer,                                             \
                                      .samples = prefix##_samples,                                  \
                                      __VA_ARGS__}
RECORD(matmul_integer, integer, 4, .summary = "matrix product of 8 bits, less zero points, in int32");
RECORD(qlinear_matmul, qlinear, 8, .summary = "matrix product of what is quantised, quantised again");

ipu_value ipu_matmul_integer(ipu_builder *b, ipu_value a, ipu_value x, ipu_value a_zero_point,
                             ipu_value x_zero_point)
{
    return ipu__emit1(b, "matmul_integer", NULL, 0, IPU__IN(a, x, a_zero_point, x_zero_point));
}

ipu_value ipu_qlinear_matmul(ipu_builder *b, ipu_quantized a, ipu_quantized x, ipu_value y_scale,
                             ipu_value y_zero_point)
{
    return ipu__emit1(b, "qlinear_matmul", NULL, 0,
                      IPU__IN(a.x, a.scale, a.zero_point, x.x, x.scale, x.zero_point, y_scale, y_zero_point));
}
