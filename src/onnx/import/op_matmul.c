/* Products of matrices of ONNX. */
#include "ipu/op.h"
#include "onnx/import/dequantized.h"
#include "onnx/import/import.h"

void ipu__onnx_MatMul(ipu__node *n)
{
    ipu_value a = ipu__in_needed(n, 0), x = ipu__in_needed(n, 1);
    ipu_value y = ipu__dequantized_matmul(n, a, x, false, IPU_NO_VALUE);
    ipu__give(n, 0, y.id ? y : ipu_matmul(n->b, a, x));
}

void ipu__onnx_Gemm(ipu__node *n)
{
    ipu_builder *b = n->b;
    ipu_value    a = ipu__in_needed(n, 0), x = ipu__in_needed(n, 1), c = ipu__in(n, 2);
    double       alpha = ipu__attr_float(n, "alpha", 1), beta = ipu__attr_float(n, "beta", 1);
    bool         turn_a = ipu__attr_int(n, "transA", 0) != 0, turn_b = ipu__attr_int(n, "transB", 0) != 0;
    ipu_value    y = IPU_NO_VALUE;
    if (alpha == 1 && beta == 1 && !turn_a) y = ipu__dequantized_matmul(n, a, x, turn_b, c);
    if (y.id) {
        ipu__give(n, 0, y);
        return;
    }
    y = ipu_matmul_with(b, a, x, turn_a, turn_b);
    if (alpha != 1) y = ipu_mul(b, y, ipu_scalar_like(b, y, alpha));
    if (c.id && beta != 1) c = ipu_mul(b, c, ipu_scalar_like(b, c, beta));
    ipu__give(n, 0, c.id ? ipu_add(b, y, c) : y);
}

void ipu__onnx_Einsum(ipu__node *n)
{
    ipu_value *values = ipu__import_alloc(n->im, n->n_in * sizeof *values);
    for (size_t i = 0; values && i < n->n_in; i++) values[i] = ipu__in_needed(n, i);
    if (values && ipu__import_ok(n->im))
        ipu__give(n, 0, ipu_einsum(n->b, ipu__attr_text(n, "equation", ""), values, n->n_in));
}

void ipu__onnx_Det(ipu__node *n) { ipu__give(n, 0, ipu_det(n->b, ipu__in_needed(n, 0))); }
