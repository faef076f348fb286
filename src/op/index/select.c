/* nonzero, and compress, which gathers by it. */
#include "ipu/op/select.h"

#include <string.h>

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/shape.h"
#include "op/number.h"
#include "op/op.h"

/* ---- nonzero ---- */

enum { X, AT, COUNT };

static ipu_status nonzero_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x = &call->operand[X].shape;
    int64_t          n = 1;
    for (int d = 0; d < x->rank; d++)
        if (__builtin_mul_overflow(n, x->dim[d], &n))
            return ipu__fail(IPU_INVALID, "nonzero: \"x\" %s has too many elements", ipu__shape_str(x));
    out[0] = (ipu__kernel_value){IPU_INT64, IPU_SHAPE(x->rank, n)};
    out[1] = (ipu__kernel_value){IPU_INT64, IPU_SCALAR};
    return IPU_OK;
}

static bool is_nonzero(ipu_type type, const void *x, int64_t i)
{
    if (ipu__op_is_floating(type)) return ipu__number_load(type, x, i) != 0;
    uint64_t bits = 0;
    memcpy(&bits, (const char *)x + (size_t)i * ipu_type_size(type), ipu_type_size(type));
    return bits != 0;
}

static void put_place(const ipu__kernel_call *call, int64_t *at, int64_t i, int64_t column)
{
    const ipu_shape *x = &call->operand[X].shape;
    int64_t          n = call->operand[AT].shape.dim[1];
    for (int d = x->rank - 1; d >= 0; d--) {
        at[d * n + column] = i % x->dim[d];
        i /= x->dim[d];
    }
}

static void nonzero_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_type type = call->operand[X].type;
    int64_t  n = call->operand[AT].shape.dim[1], count = 0;
    memset(operand[AT], 0, (size_t)ipu__op_n_elements(&call->operand[AT].shape) * sizeof(int64_t));
    for (int64_t i = 0; i < n; i++)
        if (is_nonzero(type, operand[X], i)) put_place(call, operand[AT], i, count++);
    *(int64_t *)operand[COUNT] = count;
}

/* Whether each of n elements from `first` on is not 0. */
static void get_flags(ipu_type type, const void *x, int64_t first, int64_t n, uint8_t *out)
{
    switch (type) {
#define PLAIN(TYPE, T)                                                           \
    case IPU_##TYPE:                                                             \
        for (int64_t i = 0; i < n; i++) out[i] = ((const T *)x)[first + i] != 0; \
        break;
#define SHORT(TYPE, T) /* both zeros */                                                          \
    case IPU_##TYPE:                                                                             \
        for (int64_t i = 0; i < n; i++) out[i] = (((const T *)x)[first + i].bits & 0x7fff) != 0; \
        break;
        PLAIN(BOOL, uint8_t)
        PLAIN(INT8, int8_t)
        PLAIN(UINT8, uint8_t)
        PLAIN(INT16, int16_t)
        PLAIN(UINT16, uint16_t)
        PLAIN(INT32, int32_t)
        PLAIN(UINT32, uint32_t)
        PLAIN(INT64, int64_t)
        PLAIN(UINT64, uint64_t)
        PLAIN(FLOAT, float)
        PLAIN(DOUBLE, double)
        SHORT(HALF, ipu_half)
        SHORT(BFLOAT16, ipu_bfloat16)
    case IPU_N_TYPES: memset(out, 0, (size_t)n); break;
    }
}

enum { BLOCK = 1024 };

static int64_t count_block(ipu_type type, const void *x, int64_t first, int64_t n, uint8_t *flags)
{
    int64_t count = 0;
    get_flags(type, x, first, n, flags);
    for (int64_t i = 0; i < n; i++) count += flags[i];
    return count;
}

/* Places of a block whose elements from `first` on are flagged; the coordinates are counted along. */
static void put_block(const ipu__kernel_call *call, int64_t *at, int64_t first, const uint8_t *flags,
                      int64_t n, int64_t column)
{
    const ipu_shape *x   = &call->operand[X].shape;
    int64_t          all = call->operand[AT].shape.dim[1], place[IPU_MAX_RANK] = {0};
    for (int d = x->rank - 1; d >= 0; d--) {
        place[d] = first % x->dim[d];
        first /= x->dim[d];
    }
    for (int64_t k = 0; k < n; k++) {
        for (int d = 0; d < x->rank && flags[k]; d++) at[d * all + column] = place[d];
        column += flags[k];
        for (int d = x->rank - 1; d >= 0 && ++place[d] == x->dim[d]; d--) place[d] = 0;
    }
}

/* Every part counts all, to know where its own begin and where the rest does. */
static ipu_status nonzero_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                              int part, int n_parts)
{
    (void)state, (void)scratch;
    ipu_type     type = call->operand[X].type;
    int          rank = call->operand[X].shape.rank;
    int64_t      n = call->operand[AT].shape.dim[1], count = 0, *at = operand[AT];
    ipu_interval mine = ipu__op_part(n, BLOCK, part, n_parts);
    uint8_t      flags[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t size = n - i < BLOCK ? n - i : BLOCK, found = count_block(type, operand[X], i, size, flags);
        if (i >= mine.begin && i < mine.end && found > 0) put_block(call, at, i, flags, size, count);
        count += found;
    }
    ipu_interval rest = ipu__op_part(n - count, 8, part, n_parts);
    for (int d = 0; d < rank; d++)
        memset(at + d * n + count + rest.begin, 0, (size_t)(rest.end - rest.begin) * sizeof *at);
    if (part == 0) *(int64_t *)operand[COUNT] = count;
    return IPU_OK;
}

static double work(const ipu__kernel_call *call)
{
    return 2 * (double)ipu__op_n_elements(&call->operand[X].shape);
}

static ipu_status plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__op_loop loop = {60, 1, 6 + 2.0 * call->operand[X].shape.rank};
    int64_t      n    = ipu__op_n_elements(&call->operand[X].shape);
    IPU_TRY(ipu__op_plan_loop(&loop, n, 4, target, out));
    if (n > 0) { /* counts of all tiles to all of them; then indices to where they go */
        double bytes = 4 * (double)out->n_tiles
                     + 8.0 * call->operand[X].shape.rank * (double)n / (double)out->n_tiles;
        out->bytes_received = out->bytes_sent = ipu__op_count(bytes);
    }
    out->basis =
        "our estimate: a loop that counts, tiles exchange counts, a loop that writes, all indices move";
    return IPU_OK;
}

static const ipu__kernel_operand nonzero_operands[] = {IPU__INPUT("x"), IPU__OUTPUT("indices"),
                                                       IPU__OUTPUT("count")};
static const ipu__cpu_impl nonzero_impls[]   = {{.head = {"parts", ipu__op_fits_always}, .run = nonzero_run}};
static const char *const   nonzero_samples[] = {"bool[2,3]",       "float[3,4,2]",   "int64[7]{0,2}",
                                                "int8[3,3]{-1,1}", "uint16[5]{0,1}", "float[]",
                                                "bool[0,3]",       "bool[40,2500]",  NULL};

const ipu__op_def ipu__op_nonzero = {
    .kernel  = {.name            = "nonzero",
                .operands        = nonzero_operands,
                .n_operands      = 3,
                .check           = ipu__op_check,
                .rows            = ipu__op_rows,
                .ref             = nonzero_ref,
                .work            = work,
                .plan            = plan,
                .implementations = IPU__ON_CPU(nonzero_impls)},
    .n_in    = 1,
    .family  = "select",
    .summary = "where x is not 0, and how often that is",
    .flags   = IPU__OP_NO_GRADIENT,
    .infer   = nonzero_infer,
    .samples = nonzero_samples,
};

/* ---- compress ---- */

enum { CONDITION = 1 };

static ipu_status compress_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x    = &call->operand[X].shape;
    bool             flat = !ipu__attribute_find(call, "axis");
    int              axis = 0;
    IPU_TRY(ipu__op_want_type(call, CONDITION, IPU_BOOL));
    IPU_TRY(ipu__op_want_rank(call, CONDITION, 1, 1));
    if (!flat) IPU_TRY(ipu__op_axis(call, "axis", x->rank, &axis));
    int64_t n = call->operand[CONDITION].shape.dim[0], extent = flat ? ipu__op_n_elements(x) : x->dim[axis];
    if (n > extent)
        return ipu__fail(IPU_INVALID,
                         "compress: \"condition\" has %lld elements: expected at most %lld, of x %s",
                         (long long)n, (long long)extent, ipu__shape_str(x));
    out[0] = call->operand[X];
    if (flat)
        out[0].shape = IPU_SHAPE(n);
    else
        out[0].shape.dim[axis] = n;
    out[1] = (ipu__kernel_value){IPU_INT64, IPU_SCALAR};
    return IPU_OK;
}

static void compress_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    const ipu_shape *x    = &call->operand[X].shape;
    bool             flat = !ipu__attribute_find(call, "axis");
    int              axis = 0, rank = flat ? 1 : x->rank;
    int64_t          n     = call->operand[CONDITION].shape.dim[0];
    ipu_shape        shape = {.rank = rank};
    if (!flat) ipu__op_axis(call, "axis", x->rank, &axis);
    for (int d = 0; d < rank; d++) shape.dim[d] = d == axis ? n : 1;
    ipu_value from = flat ? ipu_reshape(b, in[X], IPU_SHAPE(ipu__op_n_elements(x))) : in[X];
    ipu_value at   = ipu_reshape(b, ipu_nonzero(b, in[CONDITION], &out[1]), IPU_SHAPE(n));
    ipu_value used = ipu_less(b, ipu_arange(b, IPU_INT64, n, 0, 1), out[1]);
    ipu_value zero = ipu_constant_value(b, call->operand[X].type, IPU_SCALAR, 0);
    out[0]         = ipu_where(b, ipu_reshape(b, used, shape), ipu_gather(b, from, at, axis), zero);
}

static const ipu__kernel_operand compress_operands[]   = {IPU__INPUT("x"), IPU__INPUT("condition"),
                                                          IPU__OUTPUT("y"), IPU__OUTPUT("count")};
static const ipu_op_attribute    compress_attributes[] = {
       {.name      = "axis",
        .kind      = IPU_ATTRIBUTE_INT,
        .otherwise = IPU_MAX_RANK, /* none of an axis: 0 is not what leaving it out means */
        .meaning   = "of the slices; left out: elements, as a vector"}};
static const char *const compress_samples[] = {"float[3,2], bool[3]; axis=0",
                                               "float[3,2], bool[5]",
                                               "float[3,4,2], bool[3]; axis=-2",
                                               "int8[3], bool[3]; axis=0",
                                               "bool[6], bool[6]",
                                               "float[3,2], bool[0]; axis=1",
                                               NULL};

const ipu__op_def ipu__op_compress = {
    .kernel  = {.name = "compress", .operands = compress_operands, .n_operands = 4, .check = ipu__op_check},
    .n_in    = 2,
    .family  = "select",
    .summary = "slices for which a condition holds, and how many they are",
    .attributes   = compress_attributes,
    .n_attributes = 1,
    .infer        = compress_infer,
    .compose      = compress_compose,
    .samples      = compress_samples,
};

/* ---- the functions of ipu/op/select.h ---- */

ipu_value ipu_nonzero(ipu_builder *b, ipu_value x, ipu_value *count)
{
    ipu_value out[2];
    ipu_emit(b, "nonzero", NULL, 0, &x, 1, out, 2);
    *count = out[1];
    return out[0];
}

ipu_value ipu_compress(ipu_builder *b, ipu_value x, ipu_value condition, int axis, ipu_value *count)
{
    ipu_value out[2], in[] = {x, condition};
    ipu_emit(b, "compress", IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis)), in, 2, out, 2);
    *count = out[1];
    return out[0];
}

ipu_value ipu_compress_flat(ipu_builder *b, ipu_value x, ipu_value condition, ipu_value *count)
{
    ipu_value out[2], in[] = {x, condition};
    ipu_emit(b, "compress", NULL, 0, in, 2, out, 2);
    *count = out[1];
    return out[0];
}
