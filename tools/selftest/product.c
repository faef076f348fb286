/* Checks matrix products by multiplying by a vector, in integers: n^2 steps where the product itself takes
 * n^3. */
#include "selftest/product.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "selftest/data.h"

void product_fill(float *x, size_t side, uint64_t seed)
{
    for (size_t i = 0; i < side * side; i++) x[i] = (float)(selftest_random(seed, i) % 3) - 1;
}

static int64_t multiply_row(const float *row, const int64_t *x, size_t side)
{
    int64_t sum = 0;
    for (size_t k = 0; k < side; k++) sum += (int64_t)row[k] * x[k];
    return sum;
}

static void multiply(const float *m, const int64_t *x, size_t side, int64_t *out)
{
    for (size_t i = 0; i < side; i++) out[i] = multiply_row(m + i * side, x, side);
}

/* Anything that is not an integer, or too large for a sum of `side` products, is wrong and must not be
 * converted. */
static bool is_sum(const float *row, size_t side)
{
    for (size_t k = 0; k < side; k++)
        if (!(fabsf(row[k]) <= (float)side) || row[k] != rintf(row[k])) return false;
    return true;
}

int64_t product_wrong_rows(const float *a, const float *b, const float *c, size_t side)
{
    int64_t *x = calloc(3 * side, sizeof *x), wrong = 0;
    if (!x) return -1;
    int64_t *bx = x + side, *abx = bx + side;
    for (size_t i = 0; i < side; i++) x[i] = 1 + (int64_t)(selftest_random(side, i) % 1000003);
    multiply(b, x, side, bx);
    multiply(a, bx, side, abx);
    for (size_t i = 0; i < side; i++) {
        const float *row = c + i * side;
        wrong += !is_sum(row, side) || multiply_row(row, x, side) != abx[i];
    }
    free(x);
    return wrong;
}
