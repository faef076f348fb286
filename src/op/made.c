/* Constants given by a rule: arange, linspace, eye; triangles of matrices. */
#include "base/alloc.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/shape.h"
#include "op/builder.h"

#define MOST_BYTES ((size_t)1 << 29) /* of a constant that a few numbers ask for */

/* `n` elements of `type` that the caller fills; NULL and an error in the builder if that cannot be. */
static char *make_data(ipu_builder *b, const char *caller, ipu_type type, int64_t n)
{
    if (b->status != IPU_OK) return NULL;
    if ((unsigned)type >= IPU_N_TYPES)
        ipu__builder_fail(b, IPU_INVALID, "%s: there is no type %d", caller, (int)type);
    else if (n < 0 || (uint64_t)n > MOST_BYTES / ipu_type_size(type))
        ipu__builder_fail(b, IPU_INVALID, "%s: %lld elements: expected 0 to %zu", caller, (long long)n,
                          MOST_BYTES / ipu_type_size(type));
    if (b->status != IPU_OK) return NULL;
    char *data = ipu__alloc_zeroed((size_t)n * ipu_type_size(type));
    if (!data) ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "%s: memory for %lld elements", caller, (long long)n);
    return data;
}

/* begin + i * step, the last one `last` exactly if it is given. */
static ipu_value make_range(ipu_builder *b, const char *caller, ipu_type type, int64_t n, double begin,
                            double step, const double *last)
{
    char     *data = make_data(b, caller, type, n);
    ipu_value out  = {b, 0};
    if (!data) return out;
    for (int64_t i = 0; i < n && b->status == IPU_OK; i++) {
        double value = last && i == n - 1 ? *last : begin + (double)i * step;
        if (!ipu__value_from_double(type, value, data + (size_t)i * ipu_type_size(type)))
            ipu__builder_fail(b, IPU_INVALID, "%s: %s cannot hold the value %.17g", caller,
                              ipu_type_name(type), value);
    }
    if (b->status == IPU_OK) out = ipu_constant_data(b, type, IPU_SHAPE(n), data);
    ipu__free(data);
    return out;
}

ipu_value ipu_arange(ipu_builder *b, ipu_type type, int64_t n, double begin, double step)
{
    return make_range(b, __func__, type, n, begin, step, NULL);
}

ipu_value ipu_linspace(ipu_builder *b, ipu_type type, int64_t n, double begin, double end)
{
    if (n < 2) return make_range(b, __func__, type, n, begin, 0, NULL);
    return make_range(b, __func__, type, n, begin, (end - begin) / (double)(n - 1), &end);
}

static ipu_value make_eye(ipu_builder *b, const char *caller, ipu_type type, int64_t rows, int64_t columns,
                          int64_t diagonal)
{
    char *data = make_data(b, caller, type, rows * columns);
    if (!data) return (ipu_value){b, 0};
    for (int64_t i = 0; i < rows && columns > 0; i++)
        if (diagonal < columns - i && diagonal >= -i)
            ipu__value_from_double(type, 1,
                                   data + (size_t)(i * columns + i + diagonal) * ipu_type_size(type));
    ipu_value out = ipu_constant_data(b, type, IPU_SHAPE(rows, columns), data);
    ipu__free(data);
    return out;
}

ipu_value ipu_eye(ipu_builder *b, ipu_type type, int64_t n, int64_t diagonal)
{
    if (n < 0 || n > (int64_t)1 << 20) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_eye: %lld rows: expected 0 to 2^20", (long long)n);
        return (ipu_value){b, 0};
    }
    return make_eye(b, __func__, type, n, n, diagonal);
}

ipu_value ipu_eye_like(ipu_builder *b, ipu_value x, ipu_type type, int64_t diagonal)
{
    if (!ipu__builder_has(b, __func__, x)) return (ipu_value){b, 0};
    if (ipu_value_rank(x) != 2) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_eye_like: %s: expected a matrix", ipu__value_str(x));
        return (ipu_value){b, 0};
    }
    return make_eye(b, __func__, type, ipu_value_dim(x, 0), ipu_value_dim(x, 1), diagonal);
}

/* `sign` 1: columns up to row + diagonal; -1: from there on. */
static ipu_value triangle(ipu_builder *b, const char *caller, ipu_value x, int64_t diagonal, int sign)
{
    if (!ipu__builder_has(b, caller, x)) return (ipu_value){b, 0};
    int64_t rows = ipu_value_dim(x, -2), columns = ipu_value_dim(x, -1);
    if (ipu_value_rank(x) < 2) {
        ipu__builder_fail(b, IPU_INVALID, "%s: %s: expected two dimensions or more", caller,
                          ipu__value_str(x));
        return (ipu_value){b, 0};
    }
    if (ipu_value_n_elements(x) == 0) return x; /* its rows may be more than can be counted */
    char *mask = make_data(b, caller, IPU_BOOL, rows * columns);
    if (!mask) return (ipu_value){b, 0};
    if (diagonal > columns) diagonal = columns;
    if (diagonal < -rows) diagonal = -rows;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) mask[i * columns + j] = sign * (i + diagonal - j) >= 0;
    ipu_value keep = ipu_constant_data(b, IPU_BOOL, IPU_SHAPE(rows, columns), mask);
    ipu__free(mask);
    return ipu_where(b, keep, x, ipu_scalar_like(b, x, 0));
}

ipu_value ipu_tril(ipu_builder *b, ipu_value x, int64_t diagonal)
{
    return triangle(b, __func__, x, diagonal, 1);
}
ipu_value ipu_triu(ipu_builder *b, ipu_value x, int64_t diagonal)
{
    return triangle(b, __func__, x, diagonal, -1);
}
