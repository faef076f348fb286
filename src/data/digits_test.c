/* Digits: consistent shapes, identical bits for the same seed, MNIST's frame, and the files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "data/digits.h"
#include "data/strokes.h"
#include "ipu/dataset.h"

enum { N = 2000, PIXELS = 28 * 28 };

static void both_forms_of_a_shape_have_the_same_spots(void **state)
{
    (void)state;
    float weights[10] = {0};
    for (int s = 0; s < ipu__n_shapes; s++) {
        const ipu__shape *shape = &ipu__shapes[s];
        assert_in_range(shape->digit, 0, 9);
        weights[shape->digit] += shape->weight;
        const ipu__pen *from = shape->from, *to = shape->to ? shape->to : from;
        int             n = 0, run = 0;
        for (;; from++, to++) {
            bool sign = from->x == IPU__PEN_SIGN;
            assert_int_equal(sign, to->x == IPU__PEN_SIGN);
            n += !sign;
            run = sign ? 0 : run + 1;
            if (!sign) continue;
            assert_int_equal(from->y, to->y);
            assert_in_range(from->y, IPU__PEN_TURN, IPU__PEN_END);
            if (from->y == IPU__PEN_END) break;
        }
        assert_in_range(n, 3, 20);
    }
    for (int d = 0; d < 10; d++) assert_true(weights[d] > 0.999f && weights[d] < 1.001f);
}

static void a_sample_depends_on_seed_and_number_only(void **state)
{
    (void)state;
    uint8_t a[PIXELS], b[PIXELS];
    int     la, lb;
    ipu_digits_draw(7, 123, &la, a);
    ipu_digits_draw(7, 124, &lb, b);
    assert_memory_not_equal(a, b, PIXELS);
    ipu_digits_draw(7, 123, &lb, b);
    assert_memory_equal(a, b, PIXELS);
    assert_int_equal(la, lb);
    ipu_digits_draw(8, 123, &lb, b);
    assert_memory_not_equal(a, b, PIXELS);
    ipu_digits_draw(7, 123 + IPU_DIGITS_TEST, &lb, b);
    assert_memory_not_equal(a, b, PIXELS);
}

/* As in MNIST: the figure in a box of 20 x 20, with its centre of mass within half a pixel of pixel 14. */
static void figures_sit_as_in_mnist(void **state)
{
    (void)state;
    int count[10] = {0}, n_off = 0;
    for (int i = 0; i < N; i++) {
        uint8_t p[PIXELS];
        int     label, left = 28, right = 0, top = 28, bottom = 0;
        double  mass = 0, sx = 0, sy = 0;
        ipu_digits_draw(1, i, &label, p);
        count[label]++;
        for (int y = 0; y < 28; y++)
            for (int x = 0; x < 28; x++) {
                int v = p[y * 28 + x];
                mass += v, sx += v * x, sy += v * y;
                if (v < 128) continue;
                left = x < left ? x : left, right = x + 1 > right ? x + 1 : right;
                top = y < top ? y : top, bottom = y + 1 > bottom ? y + 1 : bottom;
            }
        int side = right - left > bottom - top ? right - left : bottom - top;
        assert_in_range(side, 18, 20);
        assert_in_range((int)(mass / 255), 20, 350);
        double dx = sx / mass - 14, dy = sy / mass - 14;
        n_off += dx < -0.51 || dx > 0.51 || dy < -0.51 || dy > 0.51; /* some are clipped by the frame */
    }
    assert_in_range(n_off, 0, N / 100);
    for (int d = 0; d < 10; d++) assert_in_range(count[d], N / 10 - 60, N / 10 + 60);
}

static void all_machines_draw_the_same(void **state)
{
    (void)state;
    static uint8_t p[100][PIXELS];
    char           text[IPU__HASH_TEXT];
    for (int i = 0; i < 100; i++) {
        int label;
        ipu_digits_draw(0, i, &label, p[i]);
    }
    ipu__hash128 hash = ipu__hash_bytes(p, sizeof p);
    ipu__hash_print(&hash, text);
    assert_string_equal(text, "52228d1e187ca64d93ae603e58b4c430");
}

static void a_picture_is_the_same_digit_on_paper(void **state)
{
    (void)state;
    ipu_array a;
    uint8_t   p[PIXELS];
    int       label, again;
    ipu_digits_draw(3, 5, &label, p);
    assert_int_equal(ipu_digits_picture(3, 5, 200, &again, &a), IPU_OK);
    assert_int_equal(label, again);
    assert_int_equal(a.shape.rank, 3);
    assert_true(a.shape.dim[0] == 200 && a.shape.dim[1] == 200 && a.shape.dim[2] == 1);
    const uint8_t *q    = a.data;
    int            dark = 0;
    for (int i = 0; i < 200 * 200; i++) dark += q[i] < 128;
    assert_true(q[0] > 200);
    assert_in_range(dark, 800, 20000);
    ipu_array_free(&a);
    assert_int_equal(ipu_digits_picture(3, 5, 27, NULL, &a), IPU_INVALID);
    assert_int_equal(ipu_digits_picture(3, 5, 5000, NULL, &a), IPU_INVALID);
    assert_null(a.data);
}

/* What `ipu dataset draw 81 --out examples/mnist/image/infer_3.png` draws. */
static void the_picture_of_the_example_can_be_drawn_again(void **state)
{
    (void)state;
    const char *path = "examples/mnist/image/infer_3.png";
    ipu_array   drawn, found;
    int         label;
    if (access(path, R_OK) != 0) {
        print_message("run from elsewhere: no %s here\n", path);
        skip();
    }
    assert_int_equal(ipu_digits_picture(0, 81, 200, &label, &drawn), IPU_OK);
    assert_int_equal(ipu_png_read(path, &found), IPU_OK);
    assert_int_equal(label, 3);
    assert_true(ipu_array_is_close(&drawn, &found, 0, 0, NULL));
    ipu_array_free(&drawn);
    ipu_array_free(&found);
}

/* ---- files ---- */

static bool count_calls(void *user, int64_t done, int64_t total)
{
    int64_t *last = user;
    assert_true(done > *last && done <= total);
    *last = done;
    return total != 1500; /* the call that stops it */
}

static void files_hold_what_is_drawn(void **state)
{
    (void)state;
    char               folder[] = "/tmp/ipu-digits-test-XXXXXX", path[64];
    int64_t            last     = 0;
    ipu_digits_options options  = {.n_train = 2100, .n_test = 300, .seed = 9};
    assert_non_null(mkdtemp(folder));
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(ipu_digits_write(folder, &options, count_calls, &last), IPU_OK);
    assert_int_equal(last, 2400);
    for (int part = 0; part < 2; part++) {
        ipu_dataset        *d;
        ipu_dataset_options raw = {.raw = true};
        assert_int_equal(ipu_dataset_open(folder, part, &raw, &d), IPU_OK);
        assert_int_equal(ipu_dataset_n_samples(d), part == IPU_TEST ? 300 : 2100);
        assert_int_equal(ipu_dataset_n_classes(d), 10);
        for (int64_t i = 0; i < ipu_dataset_n_samples(d); i += 7) {
            float   x[PIXELS];
            uint8_t p[PIXELS];
            int32_t label;
            int     drawn;
            assert_int_equal(ipu_dataset_get(d, i, (void *[]){x, &label}), IPU_OK);
            ipu_digits_draw(9, i + (part == IPU_TEST ? IPU_DIGITS_TEST : 0), &drawn, p);
            assert_int_equal(label, drawn);
            for (int k = 0; k < PIXELS; k++) assert_true(x[k] == p[k]);
        }
        ipu_dataset_destroy(d);
    }
    const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                 "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(folder), 0);
    last = 0;
    assert_int_equal(ipu_digits_write(folder, &(ipu_digits_options){.n_train = 1000, .n_test = 500},
                                      count_calls, &last),
                     IPU_INTERRUPTED);
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(ipu_digits_write("/proc/none/x", &options, NULL, NULL), IPU_IO);
    assert_int_equal(ipu_digits_write(folder, &(ipu_digits_options){.n_train = -1}, NULL, NULL), IPU_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_of_a_shape_have_the_same_spots),
        cmocka_unit_test(a_sample_depends_on_seed_and_number_only),
        cmocka_unit_test(figures_sit_as_in_mnist),
        cmocka_unit_test(all_machines_draw_the_same),
        cmocka_unit_test(a_picture_is_the_same_digit_on_paper),
        cmocka_unit_test(the_picture_of_the_example_can_be_drawn_again),
        cmocka_unit_test(files_hold_what_is_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
