/* Shared by 8-bit products: types, zero points, scales, storing sums. */
#include "op/quantize/quantize.h"

#include <string.h>

#include "graph/graph.h"

enum { NONE = -1 };

/* clang-format off */
static const ipu__int8_roles integer_roles = {
    .left = 0, .right = 1, .left_zero = 2, .right_zero = 3, .left_scale = NONE, .right_scale = NONE,
    .y_scale = NONE, .y_zero = NONE, .bias = NONE, .out = 4};
#define QLINEAR .left = 0, .left_scale = 1, .left_zero = 2, .right = 3, .right_scale = 4, .right_zero = 5, \
                .y_scale = 6, .y_zero = 7
static const ipu__int8_roles qlinear_matmul_roles = {QLINEAR, .bias = NONE, .out = 8};
static const ipu__int8_roles qlinear_conv_roles   = {QLINEAR, .bias = 8, .out = 9};
/* clang-format on */

const ipu__int8_roles *ipu__int8_roles_of(const ipu__kernel_call *call)
{
    if (call->def == &ipu__op_qlinear_matmul.kernel) return &qlinear_matmul_roles;
    return call->def == &ipu__op_qlinear_conv.kernel ? &qlinear_conv_roles : &integer_roles;
}

static ipu_status check_side(const ipu__kernel_call *call, int x, int zero, int scale, int64_t n,
                             const char *of)
{
    IPU_TRY(ipu__want_8_bits(call, x));
    if (scale >= 0) {
        IPU_TRY(ipu__op_want_type(call, scale, IPU_FLOAT));
        IPU_TRY(ipu__want_scales(call, scale, n, of));
    }
    if (!ipu__kernel_has(call, zero)) return IPU_OK;
    IPU_TRY(ipu__op_want_same_type(call, x, zero));
    return ipu__want_scales(call, zero, n, of);
}

ipu_status ipu__int8_infer(const ipu__kernel_call *call, const ipu__int8_roles *r, int64_t n_left,
                           int64_t n_right, ipu_type *out)
{
    IPU_TRY(check_side(call, r->left, r->left_zero, r->left_scale, n_left, "row"));
    IPU_TRY(check_side(call, r->right, r->right_zero, r->right_scale, n_right, "column or output channel"));
    *out = IPU_INT32;
    if (r->y_scale < 0) return IPU_OK;
    IPU_TRY(ipu__op_want_type(call, r->y_scale, IPU_FLOAT));
    IPU_TRY(ipu__want_scales(call, r->y_scale, 1, "output"));
    *out = call->operand[r->left].type;
    if (!ipu__kernel_has(call, r->y_zero)) return IPU_OK;
    IPU_TRY(ipu__want_8_bits(call, r->y_zero));
    *out = call->operand[r->y_zero].type;
    return ipu__want_scales(call, r->y_zero, 1, "output");
}

/* Rows of a batch follow one another: their scales begin again with every matrix. */
static int64_t place(const ipu__kernel_call *call, int i, int64_t at)
{
    int64_t n = ipu__op_n_elements(&call->operand[i].shape);
    return n == 1 ? 0 : at % n;
}

int32_t ipu__int8_zero(const ipu__kernel_call *call, void *const *operand, int zero, int64_t i)
{
    if (!ipu__kernel_has(call, zero)) return 0;
    return ipu__quantized_load(call->operand[zero].type, operand[zero], place(call, zero, i));
}

float ipu__int8_scale(const ipu__kernel_call *call, const ipu__int8_roles *r, void *const *operand,
                      int64_t i_left, int64_t i_right)
{
    const float *left = operand[r->left_scale], *right = operand[r->right_scale], *y = operand[r->y_scale];
    return left[place(call, r->left_scale, i_left)] * right[place(call, r->right_scale, i_right)] / y[0];
}

void ipu__int8_scales(const ipu__kernel_call *call, const ipu__int8_roles *r, void *const *operand,
                      int64_t i_left, int64_t i_right, int64_t n, float *to)
{
    const float *left = operand[r->left_scale], *right = operand[r->right_scale], *y = operand[r->y_scale];
    float        l        = left[place(call, r->left_scale, i_left)];
    bool         is_alone = ipu__op_n_elements(&call->operand[r->right_scale].shape) == 1;
    for (int64_t j = 0; j < n; j++) to[j] = l * right[is_alone ? 0 : i_right + j] / y[0];
}

void ipu__int8_store(const ipu__kernel_call *call, const ipu__int8_roles *r, void *const *operand, int64_t at,
                     uint32_t value, int64_t i_left, int64_t i_right)
{
    ipu_type type = call->operand[r->out].type;
    if (type == IPU_INT32) {
        ((uint32_t *)operand[r->out])[at] = value;
        return;
    }
    float sum = (float)(int32_t)value * ipu__int8_scale(call, r, operand, i_left, i_right);
    ipu__quantized_store(type, operand[r->out], at,
                         (double)(rintf(sum) + (float)ipu__int8_zero(call, operand, r->y_zero, 0)));
}

void ipu__int8_pack(ipu_type type, const void *x, int64_t step, int64_t n, int32_t zero, int64_t depth,
                    int16_t *to)
{
    const int8_t  *s = x;
    const uint8_t *u = x;
    if (type == IPU_INT8)
        for (int64_t i = 0; i < n; i++) to[i] = (int16_t)(s[i * step] - zero);
    else
        for (int64_t i = 0; i < n; i++) to[i] = (int16_t)(u[i * step] - zero);
    memset(to + n, 0, (size_t)(depth - n) * sizeof *to);
}

void ipu__int8_finish(const ipu__kernel_call *call, const ipu__int8_roles *r,
                      const ipu__quantize_loops *loops, void *const *operand, const int32_t *sums,
                      const float *scales, int64_t n, int64_t at)
{
    ipu_type type = call->operand[r->out].type;
    char    *to   = (char *)operand[r->out] + (size_t)at * ipu_type_size(type);
    if (type == IPU_INT32) {
        memcpy(to, sums, (size_t)n * sizeof *sums);
        return;
    }
    float zero = (float)ipu__int8_zero(call, operand, r->y_zero, 0);
    (type == IPU_UINT8 ? loops->finish_uint8 : loops->finish_int8)(sums, scales, zero, to, n);
}
