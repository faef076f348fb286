/* Pooling: small planes by hand, edges of windows, and errors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"

typedef struct bench {
    ipu_graph   *g;
    ipu_program  p;
    ipu_builder *b;
    ipu_engine  *e;
} bench;

static bench begin(void)
{
    ipu_target target;
    bench      t = {0};
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &t.g), IPU_OK);
    t.p = ipu_program_sequence(t.g);
    assert_int_equal(ipu_builder_create(t.g, t.p, &t.b), IPU_OK);
    return t;
}

static void give(bench *t, ipu_value v, const char *name)
{
    ipu_graph_add_host_read(t->g, name, ipu_value_tensor(v));
}

static void run(bench *t)
{
    ipu_executable *exe;
    if (ipu_builder_status(t->b) != IPU_OK) fail_msg("%s", ipu_builder_message(t->b));
    if (ipu_executable_compile(t->g, &t->p, 1, NULL, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(ipu_engine_create(exe, NULL, &t->e), IPU_OK);
    ipu_executable_release(exe);
    assert_int_equal(ipu_engine_run(t->e, 0), IPU_OK);
}

static void end(bench *t)
{
    ipu_engine_destroy(t->e);
    ipu_builder_destroy(t->b);
    ipu_graph_destroy(t->g);
}

static void expect(bench *t, const char *name, const float *want, size_t n)
{
    float found[64];
    assert_int_equal(ipu_engine_read(t->e, name, found, n * sizeof *found), IPU_OK);
    for (size_t i = 0; i < n; i++)
        if (found[i] != want[i] && !(isnan(found[i]) && isnan(want[i])))
            fail_msg("%s[%zu]: expected %g, found %g", name, i, (double)want[i], (double)found[i]);
}

static const float plane[] = {1, 5, 2, 0, /**/ 3, 4, 8, 8, /**/ -1, -2, -3, -4};

static void maxima_and_their_places(void **state)
{
    (void)state;
    bench            t = begin();
    ipu_value        x = ipu_constant_data(t.b, IPU_FLOAT, IPU_SHAPE(1, 1, 3, 4), plane), indices;
    ipu_pool_options o = {.kernel = {2, 2}, .ceil_mode = true};
    give(&t, ipu_max_pool_with_indices(t.b, x, o, &indices), "y");
    give(&t, ipu_cast(t.b, indices, IPU_FLOAT), "at");
    give(&t, ipu_max_pool2d(t.b, x, 2), "whole");
    run(&t);
    expect(&t, "y", (float[]){5, 8, -1, -3}, 4);
    expect(&t, "at", (float[]){1, 6, 8, 10}, 4); /* the first of two that are equal */
    expect(&t, "whole", (float[]){5, 8}, 2);
    end(&t);
}

static void padding_is_never_the_largest_and_nan_always_is(void **state)
{
    (void)state;
    bench       t     = begin();
    const float row[] = {-5, NAN, -7, -9};
    ipu_value   x     = ipu_constant_data(t.b, IPU_FLOAT, IPU_SHAPE(1, 1, 4), row);
    give(&t, ipu_max_pool(t.b, x, (ipu_pool_options){.kernel = {3}, .stride = {3}, .padding = {1}}), "y");
    run(&t);
    expect(&t, "y", (float[]){NAN, -7}, 2);
    end(&t);
}

static void averages_count_padding_or_not(void **state)
{
    (void)state;
    bench            t = begin();
    ipu_value        x = ipu_constant_data(t.b, IPU_FLOAT, IPU_SHAPE(1, 1, 3, 4), plane);
    ipu_pool_options o = {.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 1}};
    give(&t, ipu_average_pool(t.b, x, o), "with");
    o.exclude_padding = true;
    give(&t, ipu_average_pool(t.b, x, o), "without");
    give(&t, ipu_global_average_pool(t.b, x), "all");
    give(&t, ipu_adaptive_average_pool(t.b, x, (int64_t[]){2, 3}), "adapted");
    run(&t);
    expect(&t, "with", (float[]){0.25, 1.75, 0, 0.5, 1.75, 1}, 6);
    expect(&t, "without", (float[]){1, 3.5, 0, 1, 1.75, 2}, 6);
    expect(&t, "all", (float[]){1.75}, 1);
    expect(&t, "adapted", (float[]){3.25, 4.75, 4.5, 1, 1.75, 2.25}, 6);
    end(&t);
}

static void refuse(ipu_shape shape, ipu_pool_options o, const char *why)
{
    bench     t = begin();
    ipu_value x = ipu_constant_value(t.b, IPU_FLOAT, shape, 0);
    assert_int_equal(ipu_max_pool(t.b, x, o).id, 0);
    assert_int_equal(ipu_builder_status(t.b), IPU_INVALID);
    if (!strstr(ipu_builder_message(t.b), why))
        fail_msg("expected \"%s\", found \"%s\"", why, ipu_builder_message(t.b));
    assert_non_null(strstr(ipu_builder_message(t.b), "pool_test.c:"));
    end(&t);
}

static void windows_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    refuse(IPU_SHAPE(1, 4, 4), (ipu_pool_options){.kernel = {-1}}, "\"kernel\" has -1: expected 1 or more");
    refuse(IPU_SHAPE(1, 4, 4), (ipu_pool_options){.kernel = {5}}, "smaller than the window");
    refuse(IPU_SHAPE(1, 4, 4), (ipu_pool_options){.kernel = {2}, .padding = {2}},
           "padding of 2 in dimension 0");
    refuse(IPU_SHAPE(4, 4), (ipu_pool_options){.kernel = {2}}, "expected an input of rank 3 to 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maxima_and_their_places),
        cmocka_unit_test(padding_is_never_the_largest_and_nan_always_is),
        cmocka_unit_test(averages_count_padding_or_not),
        cmocka_unit_test(windows_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
