/* The table of ops: what ops.inc lists, and the functions of its simple lines. */
#include <string.h>

#include "ipu/op.h"
#include "onnx/import/broadcast.h"
#include "onnx/import/import.h"

static void reduce(ipu__node *n, ipu_value (*f)(ipu_builder *, ipu_value, const int *, int, bool))
{
    ipu_value  x         = ipu__in_needed(n, 0);
    bool       keep_dims = ipu__attr_int(n, "keepdims", 1) != 0;
    const int *axes;
    int        n_axes;
    ipu__axes(n, "axes", 1, ipu_value_rank(x), &axes, &n_axes);
    bool is_identity = n_axes == 0 && ipu__attr_int(n, "noop_with_empty_axes", 0) != 0;
    ipu__give(n, 0, is_identity ? x : f(n->b, x, axes, n_axes, keep_dims));
}

#define UNARY(name, f) \
    static void unary_##name(ipu__node *n) { ipu__give(n, 0, f(n->b, ipu__in_needed(n, 0))); }
#define BINARY(name, f)                                               \
    static void binary_##name(ipu__node *n)                           \
    {                                                                 \
        ipu_value x = ipu__in_needed(n, 0), y = ipu__in_needed(n, 1); \
        ipu__give(n, 0, f(n->b, x, ipu__aligned(n, x, y)));           \
    }
#define REDUCE(name, f) \
    static void reduce_##name(ipu__node *n) { reduce(n, f); }
#define ONNX(name, flags)
#define TRAINING(name)
#include "onnx/import/ops.inc"
#undef UNARY
#undef BINARY
#undef REDUCE
#undef ONNX
#undef TRAINING

enum { ELEMENTWISE = IPU__ONNX_ELEMENTWISE, COUNTS = IPU__ONNX_COUNTS };

static const ipu__onnx_op table[] = {
#define UNARY(name, f) {"", #name, unary_##name, ELEMENTWISE},
#define BINARY(name, f) {"", #name, binary_##name, ELEMENTWISE},
#define REDUCE(name, f) {"", #name, reduce_##name, 0},
#define ONNX(name, flags) {"", #name, ipu__onnx_##name, flags},
#define TRAINING(name) {"ai.onnx.preview.training", #name, ipu__onnx_##name, 0},
#include "onnx/import/ops.inc"
#undef UNARY
#undef BINARY
#undef REDUCE
#undef ONNX
#undef TRAINING
};

const ipu__onnx_op *ipu__onnx_op_find(const char *domain, const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].name[0] == name[0] && strcmp(table[i].name, name) == 0
            && strcmp(table[i].domain, domain) == 0)
            return &table[i];
    return NULL;
}

bool ipu_onnx_known_op_at(size_t i, const char **domain, const char **name)
{
    if (i >= sizeof table / sizeof *table) return false;
    *domain = table[i].domain;
    *name   = table[i].name;
    return true;
}
