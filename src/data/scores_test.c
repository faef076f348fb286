/* Scores: the best of a row, its probabilities whatever form it has, its loss. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ipu/scores.h"

static ipu_array rows(float *values, int64_t n, int64_t classes)
{
    return (ipu_array){.type = IPU_FLOAT, .shape = IPU_SHAPE(n, classes), .data = values};
}

static void test_best(void **state)
{
    (void)state;
    float     values[] = {1, 3, 3, NAN, 2, 5, NAN, NAN, NAN};
    ipu_array a        = rows(values, 3, 3);
    assert_int_equal(ipu_scores_best(&a, 0, 3), 1);
    assert_int_equal(ipu_scores_best(&a, 3, 3), 2);
    assert_int_equal(ipu_scores_best(&a, 6, 3), 0);
}

static void test_probabilities(void **state)
{
    (void)state;
    float     values[] = {0.25f, 0.75f, logf(0.25f), logf(0.75f), 1000, 1000 + logf(3)};
    ipu_array a        = rows(values, 3, 2);
    for (int64_t i = 0; i < 3; i++) {
        double p[2];
        ipu_scores_probabilities(&a, 2 * i, 2, p);
        assert_true(fabs(p[0] - 0.25) < 1e-4 && fabs(p[1] - 0.75) < 1e-4);
    }
}

static void test_loss(void **state)
{
    (void)state;
    float     values[] = {1000, 1000, logf(0.25f), logf(0.75f)};
    ipu_array a        = rows(values, 2, 2);
    assert_true(fabs(ipu_scores_loss(&a, 0, 2, 1) - log(2)) < 1e-6);
    assert_true(fabs(ipu_scores_loss(&a, 2, 2, 0) - log(4)) < 1e-6);
    assert_true(isnan(ipu_scores_loss(&a, 0, 2, 2)) && isnan(ipu_scores_loss(&a, 0, 2, -1)));
}

static void test_fit(void **state)
{
    (void)state;
    float     values[4] = {0};
    ipu_array a = rows(values, 2, 2), none = rows(values, 2, 0), labels = a;
    labels.type = IPU_INT32;
    assert_true(ipu_scores_fit(&a, 2));
    assert_false(ipu_scores_fit(&a, 4) || ipu_scores_fit(&none, 2) || ipu_scores_fit(&labels, 2)
                 || ipu_scores_fit(NULL, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_best), cmocka_unit_test(test_probabilities),
                                       cmocka_unit_test(test_loss), cmocka_unit_test(test_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
