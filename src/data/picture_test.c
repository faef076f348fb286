/* Converting pictures to digits: whatever the polarity, size, shade, specks or pen, the same figure
 * results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/dataset.h"

enum { PIXELS = 28 * 28 };

/* The fraction of two pictures' ink that they do not share. */
static double difference(const uint8_t *a, const uint8_t *b)
{
    double apart = 0, all = 0;
    for (int i = 0; i < PIXELS; i++) {
        apart += abs(a[i] - b[i]);
        all += a[i] + b[i];
    }
    return apart / all;
}

static ipu_array convert(ipu_type type, ipu_shape shape, void *data)
{
    ipu_array out;
    assert_int_equal(ipu_picture_digit(&(ipu_array){type, shape, data}, &out), IPU_OK);
    assert_int_equal(out.type, IPU_UINT8);
    assert_true(out.shape.rank == 2 && out.shape.dim[0] == 28 && out.shape.dim[1] == 28);
    return out;
}

static void mnist_stays_as_it_is(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        uint8_t p[PIXELS];
        int     label;
        ipu_digits_draw(1, i, &label, p);
        ipu_array a = convert(IPU_UINT8, IPU_SHAPE(28, 28), p);
        assert_memory_equal(a.data, p, PIXELS);
        ipu_array_free(&a);
    }
}

static void mnist_turned_is_turned_back(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        uint8_t p[PIXELS], turned[PIXELS];
        int     label;
        ipu_digits_draw(1, i, &label, p);
        for (int k = 0; k < PIXELS; k++) turned[k] = (uint8_t)(255 - p[k]);
        ipu_array a = convert(IPU_UINT8, IPU_SHAPE(28, 28, 1), turned);
        assert_memory_equal(a.data, p, PIXELS);
        ipu_array_free(&a);
    }
}

static void a_digit_on_paper_becomes_the_digit_of_mnist(void **state)
{
    (void)state;
    double worst = 0, sum = 0;
    for (int i = 0; i < 100; i++) {
        uint8_t   p[PIXELS];
        ipu_array paper;
        int       label;
        ipu_digits_draw(2, i, &label, p);
        assert_int_equal(ipu_digits_picture(2, i, i % 2 ? 200 : 700, NULL, &paper), IPU_OK);
        ipu_array a = convert(IPU_UINT8, paper.shape, paper.data);
        double    d = difference(a.data, p);
        sum += d;
        if (d > worst) worst = d;
        ipu_array_free(&a);
        ipu_array_free(&paper);
    }
    if (sum > 15 || worst > 0.5) print_error("on average %g, at worst %g\n", sum / 100, worst);
    assert_true(sum / 100 < 0.15);
    assert_true(worst < 0.5);
}

/* ---- a cross of two lines, by hand ---- */

enum { SIDE = 300 };
static uint8_t scene[SIDE * SIDE * 3];

static void paint(int x0, int y0, int x1, int y1, int r, int g, int b)
{
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++)
            memcpy(scene + (y * SIDE + x) * 3, (uint8_t[]){(uint8_t)r, (uint8_t)g, (uint8_t)b}, 3);
}

/* Lines are 100 long and `width` wide, and do not cross in the middle, where rounding could go either way. */
static ipu_array cross(int width, bool dark)
{
    int paper = dark ? 230 : 20;
    paint(0, 0, SIDE, SIDE, paper, paper, paper);
    paint(40, 143 - width / 2, 140, 143 - width / 2 + width, 160, 40, dark ? 40 : 250);
    paint(94 - width / 2, 100, 94 - width / 2 + width, 200, 160, 40, dark ? 40 : 250);
    return convert(IPU_UINT8, IPU_SHAPE(SIDE, SIDE, 3), scene);
}

static int at(const ipu_array *a, int x, int y) { return ((const uint8_t *)a->data)[y * 28 + x]; }

static void colours_and_either_shade_are_read(void **state)
{
    (void)state;
    for (int dark = 0; dark < 2; dark++) {
        ipu_array a = cross(15, dark);
        assert_in_range(at(&a, 14, 13), 250, 255);
        assert_in_range(at(&a, 5, 13), 200, 255);
        assert_in_range(at(&a, 22, 13), 200, 255);
        assert_in_range(at(&a, 14, 6), 200, 255);
        assert_int_equal(at(&a, 7, 7), 0);
        assert_int_equal(at(&a, 2, 13), 0);
        assert_int_equal(at(&a, 26, 13), 0);
        ipu_array_free(&a);
    }
}

static void thin_lines_become_as_thick_as_mnists(void **state)
{
    (void)state;
    ipu_array thin = cross(2, true), thick = cross(11, true);
    int       ink[2] = {0};
    for (int i = 0; i < PIXELS; i++) {
        ink[0] += ((uint8_t *)thin.data)[i];
        ink[1] += ((uint8_t *)thick.data)[i];
    }
    assert_in_range(ink[0], ink[1] * 7 / 10, ink[1] * 13 / 10);
    ipu_array_free(&thin);
    ipu_array_free(&thick);
}

static void specks_and_shade_do_not_matter(void **state)
{
    (void)state;
    ipu_array clean = cross(12, true);
    paint(280, 280, 283, 283, 30, 30, 30);
    paint(10, 260, 12, 262, 30, 30, 30);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            for (int c = 0; c < 3; c++) {
                uint8_t *p = &scene[(y * SIDE + x) * 3 + c];
                *p         = (uint8_t)(*p * (1000 - x / 4) / 1000 - (x * 7 + y * 13) % 5);
            }
    ipu_array dirty = convert(IPU_UINT8, IPU_SHAPE(SIDE, SIDE, 3), scene);
    double    d     = difference(clean.data, dirty.data);
    if (d >= 0.05) print_error("%g apart\n", d);
    assert_true(d < 0.05);
    ipu_array_free(&clean);
    ipu_array_free(&dirty);
}

static void what_is_no_digit_is_refused(void **state)
{
    (void)state;
    ipu_array out;
    uint8_t   one = 200;
    paint(0, 0, SIDE, SIDE, 240, 240, 240);
    assert_int_equal(ipu_picture_digit(&(ipu_array){IPU_UINT8, {3, {SIDE, SIDE, 3}}, scene}, &out),
                     IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "blank"));
    assert_null(out.data);
    assert_int_equal(ipu_picture_digit(&(ipu_array){IPU_UINT8, {2, {1, 1}}, &one}, &out), IPU_INVALID);
    assert_int_equal(ipu_picture_digit(&(ipu_array){IPU_UINT8, {2, {0, 1}}, &one}, &out), IPU_INVALID);
    assert_int_equal(ipu_picture_digit(&(ipu_array){IPU_INT8, {2, {1, 1}}, &one}, &out), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "int8[1,1]"));
    assert_int_equal(ipu_picture_digit(&(ipu_array){0}, &out), IPU_INVALID);
    assert_int_equal(ipu_picture_digit(&(ipu_array){IPU_UINT8, {2, {1, 2}}, (uint8_t[]){0, 255}}, &out),
                     IPU_OK);
    ipu_array_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mnist_stays_as_it_is),
        cmocka_unit_test(mnist_turned_is_turned_back),
        cmocka_unit_test(a_digit_on_paper_becomes_the_digit_of_mnist),
        cmocka_unit_test(colours_and_either_shade_are_read),
        cmocka_unit_test(thin_lines_become_as_thick_as_mnists),
        cmocka_unit_test(specks_and_shade_do_not_matter),
        cmocka_unit_test(what_is_no_digit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
