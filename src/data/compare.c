/* Arrays compared element by element, with tolerances. */
#include <math.h>
#include <string.h>

#include "data/array.h"

static bool same_shape(const ipu_shape *a, const ipu_shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

/* How far beyond its tolerance; 0 if within. Infinite for a mismatched NaN or infinity. */
static double excess(double expected, double found, double tolerance)
{
    if (expected == found || (isnan(expected) && isnan(found))) return 0;
    double distance = fabs(expected - found);
    if (!isfinite(distance)) return INFINITY;
    return distance <= tolerance ? 0 : distance - tolerance;
}

bool ipu_array_is_close(const ipu_array *expected, const ipu_array *found, double rtol, double atol,
                        ipu_array_difference *out)
{
    ipu_array_difference d       = {0};
    double               largest = 0;
    if (expected->type != found->type || !same_shape(&expected->shape, &found->shape)
        || !expected->data != !found->data)
        d.n = -1;
    int64_t n       = d.n || !expected->data || !found->data ? 0 : ipu_array_n_elements(expected);
    bool    is_long = expected->type == IPU_INT64 || expected->type == IPU_UINT64;
    for (int64_t i = 0; i < n; i++) {
        double x = ipu_array_value(expected, i), y = ipu_array_value(found, i);
        double tolerance = isfinite(x) ? atol + rtol * fabs(x) : 0, over = excess(x, y, tolerance);
        if (is_long && over == 0 && tolerance < 1) /* they may differ by less than a double can show */
            over = ((const uint64_t *)expected->data)[i] != ((const uint64_t *)found->data)[i];
        if (over == 0) continue;
        if (d.n++ == 0) d = (ipu_array_difference){1, i, x, y, tolerance, i};
        if (over > largest) d.worst = i, largest = over;
    }
    if (out) *out = d;
    return d.n == 0;
}
