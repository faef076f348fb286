/* Gather, scatter and one-hot of ONNX. */
#include <string.h>

#include "ipu/op.h"
#include "onnx/import/import.h"

/* A count of the indices becomes that of the result. */
void ipu__onnx_Gather(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), indices = ipu__in_needed(n, 1);
    int       axis = ipu__axis(n, "axis", 0, ipu_value_rank(x));
    ipu_value y    = ipu_gather(n->b, x, indices, axis);
    if (ipu__has_in(n, 0) && n->in[0].count.id)
        ipu__node_fail(n, IPU_UNSUPPORTED, "the extent of its data depends on data");
    else if (ipu__has_in(n, 1) && n->in[1].count.id)
        ipu__give_counted(n, 0, y, n->in[1].count, axis + n->in[1].count_dim);
    else
        ipu__give(n, 0, y);
}

void ipu__onnx_GatherElements(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), indices = ipu__in_needed(n, 1);
    ipu__give(n, 0, ipu_gather_elements(n->b, x, indices, ipu__axis(n, "axis", 0, ipu_value_rank(x))));
}

/* Batch dimensions, which both have, become one more index. */
void ipu__onnx_GatherND(ipu__node *n)
{
    ipu_builder *b = n->b;
    ipu_value    x = ipu__in_needed(n, 0), indices = ipu__in_needed(n, 1);
    int64_t      batch = ipu__attr_int(n, "batch_dims", 0);
    int          rank  = ipu_value_rank(indices);
    if (batch < 0 || batch >= rank || batch >= ipu_value_rank(x)) {
        ipu__node_fail(n, IPU_INVALID, "batch_dims is %lld; expected less than both ranks", (long long)batch);
        return;
    }
    for (int d = (int)batch - 1; d >= 0; d--) {
        ipu_shape one = ipu_value_shape(indices), own = {.rank = rank};
        one.dim[rank - 1] = 1;
        for (int i = 0; i < rank; i++) own.dim[i] = i == d ? one.dim[d] : 1;
        ipu_value places = ipu_reshape(b, ipu_arange(b, ipu_value_type(indices), one.dim[d], 0, 1), own);
        ipu_value both[] = {ipu_expand(b, places, one), indices};
        indices          = ipu_concat(b, both, 2, -1);
    }
    ipu__give(n, 0, ipu_gather_nd(b, x, indices));
}

static bool scatter_kind(ipu__node *n, ipu_scatter *how)
{
    static const char *const names[]   = {"none", "add", "mul", "max", "min"};
    static const ipu_scatter kinds[]   = {IPU_SCATTER_SET, IPU_SCATTER_ADD, IPU_SCATTER_MUL, IPU_SCATTER_MAX,
                                          IPU_SCATTER_MIN};
    const char              *reduction = ipu__attr_text(n, "reduction", "none");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(reduction, names[i]) == 0) {
            *how = kinds[i];
            return true;
        }
    ipu__node_fail(n, IPU_INVALID, "reduction is \"%.40s\"; expected none, add, mul, max or min", reduction);
    return false;
}

void ipu__onnx_ScatterElements(ipu__node *n)
{
    ipu_scatter how;
    ipu_value   x = ipu__in_needed(n, 0), indices = ipu__in_needed(n, 1), updates = ipu__in_needed(n, 2);
    if (!scatter_kind(n, &how)) return;
    int axis = ipu__axis(n, "axis", 0, ipu_value_rank(x));
    ipu__give(n, 0, ipu_scatter_elements(n->b, x, indices, updates, axis, how));
}

void ipu__onnx_Scatter(ipu__node *n) { ipu__onnx_ScatterElements(n); }

void ipu__onnx_ScatterND(ipu__node *n)
{
    ipu_scatter how;
    if (!scatter_kind(n, &how)) return;
    ipu__give(n, 0,
              ipu_scatter_nd(n->b, ipu__in_needed(n, 0), ipu__in_needed(n, 1), ipu__in_needed(n, 2), how));
}

/* on and off need not be known; indices may be of any type, and count from the end if negative. */
void ipu__onnx_OneHot(ipu__node *n)
{
    ipu_builder *b       = n->b;
    ipu_value    indices = ipu__in_needed(n, 0), values = ipu__in_needed(n, 2);
    int64_t      depth = ipu__in_int(n, 1, 1);
    int          axis  = ipu__axis(n, "axis", -1, ipu_value_rank(indices) + 1);
    ipu_type     type  = ipu_value_type(indices);
    if (type != IPU_INT64) indices = ipu_cast(b, indices, IPU_INT64);
    ipu_value all      = ipu_scalar_like(b, indices, (double)depth);
    ipu_value positive = ipu_where(b, ipu_less(b, indices, ipu_scalar_like(b, indices, 0)),
                                   ipu_add(b, indices, all), indices);
    ipu_value hot      = ipu_one_hot_with(b, positive, depth, IPU_FLOAT, axis, 1, 0);
    ipu_value is_on    = ipu_greater(b, hot, ipu_scalar_like(b, hot, 0.5));
    ipu__give(n, 0, ipu_where(b, is_on, ipu_index(b, values, 1, 0), ipu_index(b, values, 0, 0)));
}
