/* Datasets of PNG files in class folders and of numpy files: what is found, how it is split, what is
 * refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "ipu/dataset.h"

static char root[64];

static const char *in_root(const char *name)
{
    static char paths[4][256];
    static int  turn;
    char       *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/ipu-files-test-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void refused(ipu_status status, ipu_status expected, const char *word)
{
    if (status != expected || !strstr(ipu_message(), word)) print_error("%d: %s\n", status, ipu_message());
    assert_int_equal(status, expected);
    assert_non_null(strstr(ipu_message(), word));
}

static void refused_at(const char *path, ipu_dataset_part part, ipu_status expected, const char *word)
{
    ipu_dataset *d;
    refused(ipu_dataset_open(path, part, NULL, &d), expected, word);
    assert_null(d);
}

/* ---- PNG files ---- */

/* A picture of 2 x 3 whose pixels are value, value + 1, ... */
static void put_picture(const char *name, int64_t channels, int value)
{
    uint8_t p[18];
    for (int i = 0; i < 18; i++) p[i] = (uint8_t)(value + i);
    char folder[256];
    snprintf(folder, sizeof folder, "%s", in_root(name));
    for (char *c = folder + strlen(root) + 1; *c; c++)
        if (*c == '/') {
            *c = 0;
            mkdir(folder, 0777);
            *c = '/';
        }
    assert_int_equal(ipu_png_write(in_root(name), &(ipu_array){IPU_UINT8, {3, {2, 3, channels}}, p}), IPU_OK);
}

static void class_folders_are_numbered_by_name(void **state)
{
    (void)state;
    ipu_dataset        *d;
    float               x[6];
    int32_t             label;
    ipu_dataset_options raw = {.raw = true};
    put_picture("train/dog/b.png", 1, 20);
    put_picture("train/dog/a.PNG", 1, 10);
    put_picture("train/cat/z.png", 1, 30);
    put_picture("train/emu/z.png", 1, 40);
    put_picture("train/.hidden/z.png", 1, 50);
    put_picture("test/emu/z.png", 1, 60); /* in class 2, although it is the only one here */
    assert_int_equal(ipu__file_write(in_root("train/dog/notes.txt"), "x", 1), IPU_OK);
    assert_int_equal(ipu_dataset_open(root, IPU_TRAIN, &raw, &d), IPU_OK);
    assert_int_equal(ipu_dataset_n_samples(d), 4);
    assert_int_equal(ipu_dataset_n_classes(d), 3);
    const ipu_shape *shape = &ipu_dataset_field_at(d, 0)->shape;
    assert_true(shape->rank == 3 && shape->dim[0] == 1 && shape->dim[1] == 2 && shape->dim[2] == 3);
    const int wanted[4][2] = {{30, 0}, {10, 1}, {20, 1}, {40, 2}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ipu_dataset_get(d, i, (void *[]){x, &label}), IPU_OK);
        assert_true(x[0] == wanted[i][0] && x[5] == wanted[i][0] + 5);
        assert_int_equal(label, wanted[i][1]);
    }
    ipu_dataset_destroy(d);
    assert_int_equal(ipu_dataset_open(root, IPU_TEST, &raw, &d), IPU_OK);
    assert_int_equal(ipu_dataset_n_samples(d), 1);
    assert_int_equal(ipu_dataset_n_classes(d), 3);
    assert_int_equal(ipu_dataset_get(d, 0, (void *[]){x, &label}), IPU_OK);
    assert_true(x[0] == 60);
    assert_int_equal(label, 2);
    ipu_dataset_destroy(d);
}

static void colours_come_as_three_planes(void **state)
{
    (void)state;
    ipu_dataset        *d;
    float               x[18];
    int32_t             label;
    ipu_dataset_options raw = {.raw = true};
    put_picture("train/a/1.png", 3, 100);
    put_picture("train/a/2.png", 1, 50);
    assert_int_equal(ipu_dataset_open(root, IPU_TRAIN, &raw, &d), IPU_OK);
    assert_int_equal(ipu_dataset_field_at(d, 0)->shape.dim[0], 3);
    assert_int_equal(ipu_dataset_get(d, 0, (void *[]){x, &label}), IPU_OK);
    for (int c = 0; c < 3; c++)
        for (int p = 0; p < 6; p++) assert_true(x[c * 6 + p] == 100 + p * 3 + c);
    assert_int_equal(ipu_dataset_get(d, 1, (void *[]){x, &label}), IPU_OK);
    for (int c = 0; c < 3; c++)
        for (int p = 0; p < 6; p++) assert_true(x[c * 6 + p] == 50 + p);
    ipu_dataset_destroy(d);
}

static void pictures_that_do_not_fit_are_named(void **state)
{
    (void)state;
    char name[32];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "train/a/%02d.png", i);
        put_picture(name, 1, i);
    }
    refused_at(root, IPU_TEST, IPU_NOT_FOUND, "train is there, but no");
    put_picture("test/b/1.png", 1, 0);
    refused_at(root, IPU_TEST, IPU_INVALID, "class \"b\"");
    uint8_t p[12] = {0};
    assert_int_equal(ipu_png_write(in_root("train/a/07.png"), &(ipu_array){IPU_UINT8, {3, {3, 3, 1}}, p}),
                     IPU_OK);
    assert_int_equal(ipu_png_write(in_root("train/a/15.png"), &(ipu_array){IPU_UINT8, {3, {3, 4, 1}}, p}),
                     IPU_OK);
    refused_at(root, IPU_TRAIN, IPU_INVALID, "07.png has 3 x 3 pixels");
    char  *data;
    size_t bytes;
    put_picture("train/a/07.png", 1, 7);
    put_picture("train/a/15.png", 1, 15);
    assert_int_equal(ipu__file_read(in_root("train/a/07.png"), 4096, &data, &bytes), IPU_OK);
    assert_int_equal(ipu__file_write(in_root("train/a/05.png"), data, bytes - 20), IPU_OK);
    ipu__free(data);
    refused_at(root, IPU_TRAIN, IPU_INVALID, "05.png");
    assert_int_equal(ipu__file_write(in_root("train/a/03.png"), "GIF89a", 6), IPU_OK);
    refused_at(root, IPU_TRAIN, IPU_INVALID, "03.png: expected a PNG");
}

/* Finds the samples of a part by the value of their first pixel. */
static int collect(ipu_dataset_part part, double share, bool seen[120])
{
    ipu_dataset        *d;
    ipu_dataset_options options = {.raw = true, .test_share = share};
    assert_int_equal(ipu_dataset_open(root, part, &options, &d), IPU_OK);
    int n = (int)ipu_dataset_n_samples(d);
    for (int i = 0; i < n; i++) {
        float   x[6];
        int32_t label;
        assert_int_equal(ipu_dataset_get(d, i, (void *[]){x, &label}), IPU_OK);
        assert_int_equal(label, (int)x[0] / 60);
        assert_false(seen[(int)x[0]]);
        seen[(int)x[0]] = true;
    }
    assert_int_equal(ipu_dataset_n_classes(d), 2);
    ipu_dataset_destroy(d);
    return n;
}

static void an_undivided_folder_is_divided_once_and_for_all(void **state)
{
    (void)state;
    char name[32];
    for (int i = 0; i < 120; i++) {
        snprintf(name, sizeof name, "%s/%03d.png", i < 60 ? "one" : "two", i);
        put_picture(name, 1, i);
    }
    bool seen[120] = {false}, again[120] = {false};
    assert_int_equal(collect(IPU_TEST, 0, seen), 20);
    assert_int_equal(collect(IPU_TEST, 0, again), 20);
    assert_memory_equal(seen, again, sizeof seen);
    int of_first = 0;
    for (int i = 0; i < 60; i++) of_first += seen[i];
    assert_in_range(of_first, 3, 17);                   /* not just the first or last ones */
    assert_int_equal(collect(IPU_TRAIN, 0, seen), 100); /* the others: `seen` was false for each */
    bool half[120] = {false};
    assert_int_equal(collect(IPU_TEST, 0.5, half), 60);
    assert_int_equal(collect(IPU_TRAIN, 0.5, half), 60);
}

/* ---- numpy files ---- */

static uint8_t bytes_of_two[24] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                   12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
static int64_t two_labels[2]    = {5, 1};

static void put_npy(const char *name, ipu_type type, ipu_shape shape, void *data)
{
    assert_int_equal(ipu_array_write_npy(in_root(name), &(ipu_array){type, shape, data}), IPU_OK);
}

static void expect_shape(int64_t c, int64_t h, int64_t w, int second_sample_from, int step)
{
    ipu_dataset        *d;
    float               x[12];
    int32_t             label;
    ipu_dataset_options raw = {.raw = true};
    assert_int_equal(ipu_dataset_open(root, IPU_TRAIN, &raw, &d), IPU_OK);
    const ipu_shape *s = &ipu_dataset_field_at(d, 0)->shape;
    assert_true(s->rank == 3 && s->dim[0] == c && s->dim[1] == h && s->dim[2] == w);
    assert_int_equal(ipu_dataset_get(d, 1, (void *[]){x, &label}), IPU_OK);
    assert_true(x[0] == second_sample_from && x[1] == second_sample_from + step);
    assert_int_equal(label, 1);
    assert_int_equal(ipu_dataset_n_classes(d), 6);
    ipu_dataset_destroy(d);
}

static void npy_files_are_samples_by_row(void **state)
{
    (void)state;
    put_npy("y_train.npy", IPU_INT64, IPU_SHAPE(2), two_labels);
    put_npy("x_train.npy", IPU_UINT8, IPU_SHAPE(2, 3, 4), bytes_of_two);
    expect_shape(1, 3, 4, 12, 1);
    put_npy("x_train.npy", IPU_UINT8, IPU_SHAPE(2, 2, 2, 3), bytes_of_two); /* Keras: channels last */
    expect_shape(3, 2, 2, 12, 3);
    put_npy("x_train.npy", IPU_UINT8, IPU_SHAPE(2, 3, 2, 2), bytes_of_two); /* PyTorch: channels first */
    expect_shape(3, 2, 2, 12, 1);
    put_npy("y_train.npy", IPU_INT64, IPU_SHAPE(2, 1), two_labels); /* like Keras's CIFAR */
    expect_shape(3, 2, 2, 12, 1);
    refused_at(root, IPU_TEST, IPU_NOT_FOUND, "no dataset at");
}

static void floats_are_not_divided_by_255(void **state)
{
    (void)state;
    ipu_dataset        *d;
    float               x[2];
    int32_t             label;
    ipu_dataset_options scale = {.mean = 1, .std = 2};
    put_npy("y_train.npy", IPU_INT64, IPU_SHAPE(2), two_labels);
    put_npy("x_train.npy", IPU_DOUBLE, IPU_SHAPE(2, 2), (double[]){1, 2, 3, 4});
    assert_int_equal(ipu_dataset_open(root, IPU_TRAIN, &scale, &d), IPU_OK);
    assert_int_equal(ipu_dataset_field_at(d, 0)->shape.rank, 1);
    assert_int_equal(ipu_dataset_get(d, 1, (void *[]){x, &label}), IPU_OK);
    assert_true(x[0] == 1 && x[1] == 1.5f);
    ipu_dataset_destroy(d);
}

static void pixels_that_are_no_numbers_are_named(void **state)
{
    (void)state;
    static const double wrong[]  = {(double)NAN, -(double)INFINITY, 1e300};
    static const char  *said[]   = {"x_train.npy: sample 1 is nan at element 2", "is -inf at element 2",
                                    "is 1e+300 at element 2"};
    double              pixels[] = {1, 2, 3, 4, 5, 6};
    float               x[3];
    int32_t             label;
    ipu_dataset        *d;
    put_npy("y_train.npy", IPU_INT64, IPU_SHAPE(2), two_labels);
    for (int i = 0; i < 3; i++) {
        pixels[5] = wrong[i];
        put_npy("x_train.npy", IPU_DOUBLE, IPU_SHAPE(2, 3), pixels);
        assert_int_equal(ipu_dataset_open(root, IPU_TRAIN, NULL, &d), IPU_OK);
        assert_int_equal(ipu_dataset_get(d, 0, (void *[]){x, &label}), IPU_OK);
        assert_int_equal(ipu_dataset_get(d, 1, (void *[]){x, &label}), IPU_INVALID);
        assert_non_null(strstr(ipu_message(), said[i]));
        ipu_dataset_destroy(d);
    }
}

static void npz_files_have_either_names(void **state)
{
    (void)state;
    ipu_named_array all[] = {{(char *)"x_train", {IPU_UINT8, {3, {2, 3, 4}}, bytes_of_two}},
                             {(char *)"y_train", {IPU_INT64, {1, {2}}, two_labels}},
                             {(char *)"x_test", {IPU_UINT8, {3, {1, 3, 4}}, bytes_of_two}},
                             {(char *)"y_test", {IPU_INT64, {1, {1}}, two_labels}}};
    ipu_dataset    *d;
    const char     *path = in_root("mnist.npz");
    assert_int_equal(ipu_npz_write(path, all, 4, true), IPU_OK);
    for (int part = 0; part < 2; part++) {
        assert_int_equal(ipu_dataset_open(path, part, NULL, &d), IPU_OK);
        assert_int_equal(ipu_dataset_n_samples(d), part == IPU_TEST ? 1 : 2);
        ipu_dataset_destroy(d);
    }
    all[0].name = (char *)"images";
    all[1].name = (char *)"labels";
    assert_int_equal(ipu_npz_write(path, all, 2, false), IPU_OK);
    assert_int_equal(ipu_dataset_open(path, IPU_TEST, &(ipu_dataset_options){.test_share = 0.5}, &d), IPU_OK);
    assert_int_equal(ipu_dataset_n_samples(d), 1);
    ipu_dataset_destroy(d);
    refused_at(path, IPU_TEST, IPU_INVALID, "the test set has no samples"); /* a sixth of two */
    all[0].name = (char *)"pictures";
    assert_int_equal(ipu_npz_write(path, all, 2, false), IPU_OK);
    refused_at(path, IPU_TRAIN, IPU_NOT_FOUND, "\"pictures\"");
}

static void wrong_arrays_are_named(void **state)
{
    (void)state;
    put_npy("y_train.npy", IPU_INT64, IPU_SHAPE(2), two_labels);
    refused_at(root, IPU_TRAIN, IPU_NOT_FOUND, "no x_train.npy beside it");
    put_npy("x_train.npy", IPU_UINT8, IPU_SHAPE(3, 2, 4), bytes_of_two);
    refused_at(root, IPU_TRAIN, IPU_INVALID, "has 3 samples, but ");
    put_npy("x_train.npy", IPU_INT8, IPU_SHAPE(2, 3, 4), bytes_of_two);
    refused_at(root, IPU_TRAIN, IPU_UNSUPPORTED, "int8");
    put_npy("x_train.npy", IPU_UINT8, IPU_SHAPE(2), bytes_of_two);
    refused_at(root, IPU_TRAIN, IPU_INVALID, "2 dimensions");
    put_npy("x_train.npy", IPU_UINT8, IPU_SHAPE(2, 3, 4), bytes_of_two);
    put_npy("y_train.npy", IPU_FLOAT, IPU_SHAPE(2), two_labels);
    refused_at(root, IPU_TRAIN, IPU_UNSUPPORTED, "float");
    put_npy("y_train.npy", IPU_INT64, IPU_SHAPE(2), (int64_t[]){3, -1});
    refused_at(root, IPU_TRAIN, IPU_INVALID, "label 1 is -1");
    put_npy("y_train.npy", IPU_INT64, IPU_SHAPE(2), (int64_t[]){3, (int64_t)1 << 40});
    refused_at(root, IPU_TRAIN, IPU_INVALID, "label 1 is");
    put_npy("y_train.npy", IPU_INT32, IPU_SHAPE(1, 2), two_labels);
    refused_at(root, IPU_TRAIN, IPU_INVALID, "[1,2]");
    assert_int_equal(ipu__file_write(in_root("y_train.npy"), "", 0), IPU_OK);
    refused_at(root, IPU_TRAIN, IPU_INVALID, ".npy");
    refused_at(in_root("y_train.npy"), IPU_TRAIN, IPU_NOT_FOUND, "expected a folder");
}

/* ---- memory that runs out ---- */

static atomic_long n_allocs, n_live;
static long        refuse_at;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        n_live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (++n_allocs == refuse_at) return NULL;
    void *p = realloc(ptr, new_bytes);
    if (p && !ptr) n_live++;
    return p;
}

/* Fails one allocation after another until it opens. */
static void open_without_memory(const char *path)
{
    ipu_status status = IPU_OUT_OF_MEMORY;
    ipu__alloc_set(failing_alloc, NULL);
    for (refuse_at = 1; status != IPU_OK && refuse_at < 1000; refuse_at++) {
        ipu_dataset *d;
        n_allocs = 0;
        status   = ipu_dataset_open(path, IPU_TEST, NULL, &d);
        assert_true(status == IPU_OK || (status == IPU_OUT_OF_MEMORY && !d));
        ipu_dataset_destroy(d);
        assert_int_equal(n_live, 0);
    }
    ipu__alloc_set(NULL, NULL);
    assert_int_equal(status, IPU_OK);
    assert_in_range(refuse_at, 4, 999);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    ipu_named_array all[] = {{(char *)"images", {IPU_UINT8, {3, {2, 3, 4}}, bytes_of_two}},
                             {(char *)"labels", {IPU_INT64, {1, {2}}, two_labels}}};
    char            name[32];
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "png/%d/%d.png", i / 6, i);
        put_picture(name, 1, i);
    }
    open_without_memory(in_root("png"));
    assert_int_equal(ipu_digits_write(in_root("digits"), &(ipu_digits_options){.n_train = 3, .n_test = 2},
                                      NULL, NULL),
                     IPU_OK);
    open_without_memory(in_root("digits"));
    put_npy("x_test.npy", IPU_FLOAT, IPU_SHAPE(2, 3), bytes_of_two);
    put_npy("y_test.npy", IPU_INT64, IPU_SHAPE(2), two_labels);
    open_without_memory(root);
    all[0].name = (char *)"x_test";
    all[1].name = (char *)"y_test";
    assert_int_equal(ipu_npz_write(in_root("a.npz"), all, 2, true), IPU_OK);
    open_without_memory(in_root("a.npz"));
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        EACH(class_folders_are_numbered_by_name),
        EACH(colours_come_as_three_planes),
        EACH(pictures_that_do_not_fit_are_named),
        EACH(an_undivided_folder_is_divided_once_and_for_all),
        EACH(npy_files_are_samples_by_row),
        EACH(floats_are_not_divided_by_255),
        EACH(pixels_that_are_no_numbers_are_named),
        EACH(npz_files_have_either_names),
        EACH(wrong_arrays_are_named),
        EACH(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
