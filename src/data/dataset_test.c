/* Datasets: fields, rows of arrays, functions, and those of IDX files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/host/file.h"
#include "data/dataset.h"
#include "data/idx.h"

static void refused(ipu_status status, ipu_status expected, const char *word)
{
    if (status != expected || !strstr(ipu_message(), word)) print_error("%d: %s\n", status, ipu_message());
    assert_int_equal(status, expected);
    assert_non_null(strstr(ipu_message(), word));
}

/* ---- arrays ---- */

static float           values[6]  = {0, 1, 2, 3, 4, 5};
static uint8_t         classes[3] = {4, 2, 0};
static ipu_named_array both[2]    = {{(char *)"images", {IPU_FLOAT, {2, {3, 2}}, values}},
                                     {(char *)"labels", {IPU_UINT8, {1, {3}}, classes}}};

static void samples_are_rows_of_arrays(void **state)
{
    (void)state;
    ipu_dataset *d;
    float        row[2];
    uint8_t      label;
    assert_int_equal(ipu_dataset_from_arrays(both, 2, &d), IPU_OK);
    assert_int_equal(ipu_dataset_n_fields(d), 2);
    assert_int_equal(ipu_dataset_n_samples(d), 3);
    assert_int_equal(ipu_dataset_n_classes(d), 5);
    assert_false(ipu_dataset_is_iterable(d));
    assert_string_equal(ipu_dataset_field_at(d, 0)->name, "images");
    assert_int_equal(ipu_dataset_field_at(d, 0)->shape.rank, 1);
    assert_int_equal(ipu_dataset_field_at(d, 0)->shape.dim[0], 2);
    assert_int_equal(ipu_dataset_field_at(d, 1)->shape.rank, 0);
    assert_null(ipu_dataset_field_at(d, 2));
    assert_int_equal(ipu_dataset_get(d, 1, (void *[]){row, &label}), IPU_OK);
    assert_true(row[0] == 2 && row[1] == 3);
    assert_int_equal(label, 2);
    refused(ipu_dataset_get(d, 3, (void *[]){row, &label}), IPU_INVALID, "no sample 3: the dataset has 3");
    refused(ipu_dataset_get(d, -1, (void *[]){row, &label}), IPU_INVALID, "no sample -1");
    bool end;
    refused(ipu_dataset_next(d, (void *[]){row, &label}, &end), IPU_INVALID, "map-style");
    assert_int_equal(ipu_dataset_rewind(d, 7), IPU_OK);
    ipu_dataset_destroy(d);
}

static void wrong_arrays_are_refused(void **state)
{
    (void)state;
    ipu_dataset    *d;
    ipu_named_array wrong[2]    = {both[0], both[1]};
    wrong[1].array.shape.dim[0] = 2;
    refused(ipu_dataset_from_arrays(wrong, 2, &d), IPU_INVALID, "\"images\" has 3, \"labels\" 2");
    wrong[1] = both[0];
    refused(ipu_dataset_from_arrays(wrong, 2, &d), IPU_INVALID, "both called \"images\"");
    wrong[1].array.shape.rank = 0;
    refused(ipu_dataset_from_arrays(wrong, 2, &d), IPU_INVALID, "scalar");
    wrong[1].array.data = NULL;
    refused(ipu_dataset_from_arrays(wrong, 2, &d), IPU_INVALID, "empty");
    refused(ipu_dataset_from_arrays(wrong, 0, &d), IPU_INVALID, "1 to 16");
    assert_null(d);
}

/* ---- functions ---- */

typedef struct counter {
    int64_t at, epoch;
    int     destroyed;
} counter;

static ipu_status count_get(void *user, int64_t i, void *const *fields)
{
    (void)user;
    if (i == 5) return ipu__fail(IPU_IO, "sample five is lost");
    *(int32_t *)fields[0] = (int32_t)i * 10;
    return IPU_OK;
}

static ipu_status count_next(void *user, void *const *fields, bool *end)
{
    counter *c            = user;
    *end                  = c->at == 2;
    *(int32_t *)fields[0] = (int32_t)(c->epoch * 100 + c->at++);
    return IPU_OK;
}

static ipu_status count_rewind(void *user, int64_t epoch)
{
    *(counter *)user = (counter){.epoch = epoch};
    return IPU_OK;
}

static void count_destroy(void *user) { ((counter *)user)->destroyed++; }

static const ipu_field number[] = {{"number", IPU_INT32, {0}}};

static void functions_give_samples_by_number(void **state)
{
    (void)state;
    counter               c = {0};
    ipu_dataset          *d;
    int32_t               x;
    ipu_dataset_functions f = {.get = count_get, .destroy = count_destroy};
    assert_int_equal(ipu_dataset_create(number, 1, 6, f, &c, &d), IPU_OK);
    assert_int_equal(ipu_dataset_n_classes(d), 0);
    assert_int_equal(ipu_dataset_get(d, 3, (void *[]){&x}), IPU_OK);
    assert_int_equal(x, 30);
    refused(ipu_dataset_get(d, 5, (void *[]){&x}), IPU_IO, "sample five is lost");
    ipu_dataset_destroy(d);
    assert_int_equal(c.destroyed, 1);
}

static void functions_give_one_sample_after_the_other(void **state)
{
    (void)state;
    counter               c = {0};
    ipu_dataset          *d;
    int32_t               x;
    bool                  end;
    ipu_dataset_functions f = {.next = count_next, .rewind = count_rewind};
    assert_int_equal(ipu_dataset_create(number, 1, -1, f, &c, &d), IPU_OK);
    assert_true(ipu_dataset_is_iterable(d));
    assert_int_equal(ipu_dataset_n_samples(d), -1);
    refused(ipu_dataset_get(d, 0, (void *[]){&x}), IPU_INVALID, "iterable");
    for (int epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(ipu_dataset_rewind(d, epoch), IPU_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(ipu_dataset_next(d, (void *[]){&x}, &end), IPU_OK);
            assert_false(end);
            assert_int_equal(x, epoch * 100 + i);
        }
        assert_int_equal(ipu_dataset_next(d, (void *[]){&x}, &end), IPU_OK);
        assert_true(end);
    }
    ipu_dataset_destroy(d);
}

static void functions_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    counter               c = {0};
    ipu_dataset          *d;
    ipu_dataset_functions none = {0}, get = {.get = count_get}, next = {.next = count_next};
    ipu_dataset_functions two = {.get = count_get, .next = count_next, .destroy = count_destroy};
    refused(ipu_dataset_create(number, 1, 1, none, &c, &d), IPU_INVALID, "found none");
    refused(ipu_dataset_create(number, 1, 1, two, &c, &d), IPU_INVALID, "found both");
    refused(ipu_dataset_create(number, 1, -1, get, &c, &d), IPU_INVALID, "-1 samples");
    refused(ipu_dataset_create(number, 0, 1, get, &c, &d), IPU_INVALID, "0 fields");
    refused(ipu_dataset_create(&(ipu_field){"", IPU_INT32, {0}}, 1, 1, get, &c, &d), IPU_INVALID, "no name");
    refused(ipu_dataset_create(&(ipu_field){"x", IPU_INT32, {1, {-1}}}, 1, 1, get, &c, &d), IPU_INVALID,
            "dimensions");
    assert_int_equal(c.destroyed, 0);
    assert_int_equal(ipu_dataset_create(number, 1, -1, next, &c, &d), IPU_OK);
    assert_int_equal(ipu_dataset_rewind(d, 0), IPU_OK);
    refused(ipu_dataset_rewind(d, 1), IPU_INVALID, "epoch 1");
    ipu_dataset_destroy(d);
    ipu_dataset_destroy(NULL);
}

/* ---- IDX files ---- */

static char folder[] = "/tmp/ipu-dataset-test-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_idx(const char *name, const int64_t *dims, int rank, const uint8_t *elements)
{
    uint8_t head[IPU__IDX_HEADER_BYTES];
    size_t  n = 1;
    for (int d = 0; d < rank; d++) n *= (size_t)dims[d];
    ipu__file_piece pieces[] = {{head, ipu__idx_header(dims, rank, head)}, {elements, n}};
    assert_int_equal(ipu__file_write_pieces(in_folder(name), pieces, 2), IPU_OK);
}

static const uint8_t pixels[] = {0, 51, 255, 102, 1, 2, 3, 4, 5, 6, 7, 8};

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    write_idx("train-images-idx3-ubyte", (int64_t[]){3, 2, 2}, 3, pixels);
    write_idx("train-labels-idx1-ubyte", (int64_t[]){3}, 1, (uint8_t[]){7, 0, 2});
    write_idx("t10k-images.idx3-ubyte", (int64_t[]){1, 2, 2}, 3, pixels + 4);
    write_idx("t10k-labels-idx1-ubyte", (int64_t[]){1}, 1, (uint8_t[]){3});
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                 "t10k-images.idx3-ubyte", "t10k-labels-idx1-ubyte"};
    for (int i = 0; i < 4; i++) unlink(in_folder(names[i]));
    return rmdir(folder);
}

static void pixels_of_idx_files_become_floats(void **state)
{
    (void)state;
    ipu_dataset *d;
    float        x[4];
    int32_t      label;
    assert_int_equal(ipu_dataset_open(folder, IPU_TRAIN, NULL, &d), IPU_OK);
    assert_int_equal(ipu_dataset_n_samples(d), 3);
    assert_int_equal(ipu_dataset_n_classes(d), 8);
    const ipu_field *f = ipu_dataset_field_at(d, 0);
    assert_int_equal(f->type, IPU_FLOAT);
    assert_int_equal(f->shape.rank, 3);
    assert_true(f->shape.dim[0] == 1 && f->shape.dim[1] == 2 && f->shape.dim[2] == 2);
    assert_int_equal(ipu_dataset_get(d, 0, (void *[]){x, &label}), IPU_OK);
    assert_true(x[0] == 0 && x[1] == 51 / 255.0f && x[2] == 1 && x[3] == 102 / 255.0f);
    assert_int_equal(label, 7);
    ipu_dataset_destroy(d);
    assert_int_equal(ipu_dataset_open(folder, IPU_TEST, NULL, &d), IPU_OK);
    assert_int_equal(ipu_dataset_n_samples(d), 1);
    assert_int_equal(ipu_dataset_get(d, 0, (void *[]){x, &label}), IPU_OK);
    assert_true(x[3] == 4 / 255.0f);
    assert_int_equal(label, 3);
    ipu_dataset_destroy(d);
}

static void options_scale_and_cut(void **state)
{
    (void)state;
    ipu_dataset        *d;
    float               x[4];
    int32_t             label;
    ipu_dataset_options scale = {.mean = 0.1307, .std = 0.3081, .most = 2}, raw = {.raw = true, .mean = 3};
    assert_int_equal(ipu_dataset_open(folder, IPU_TRAIN, &scale, &d), IPU_OK);
    assert_int_equal(ipu_dataset_n_samples(d), 2);
    assert_int_equal(ipu_dataset_get(d, 0, (void *[]){x, &label}), IPU_OK);
    assert_true(x[1] == (51 / 255.0f - 0.1307f) / 0.3081f);
    assert_int_equal(ipu_dataset_get(d, 2, (void *[]){x, &label}), IPU_INVALID);
    ipu_dataset_destroy(d);
    assert_int_equal(ipu_dataset_open(folder, IPU_TRAIN, &raw, &d), IPU_OK);
    assert_int_equal(ipu_dataset_get(d, 0, (void *[]){x, &label}), IPU_OK);
    assert_true(x[1] == 51 && x[2] == 255);
    ipu_dataset_destroy(d);
    refused(ipu_dataset_open(folder, IPU_TRAIN, &(ipu_dataset_options){.test_share = 1}, &d), IPU_INVALID,
            "test_share 1");
    refused(ipu_dataset_open(folder, IPU_TRAIN, &(ipu_dataset_options){.most = -1}, &d), IPU_INVALID,
            "most -1");
    refused(ipu_dataset_open(folder, IPU_TRAIN, &(ipu_dataset_options){.std = 1.0 / 0.0}, &d), IPU_INVALID,
            "finite");
}

static void files_that_do_not_belong_together_are_named(void **state)
{
    (void)state;
    ipu_dataset *d;
    write_idx("train-labels-idx1-ubyte", (int64_t[]){2}, 1, (uint8_t[]){7, 0});
    refused(ipu_dataset_open(folder, IPU_TRAIN, NULL, &d), IPU_INVALID, "3 pictures, but ");
    unlink(in_folder("train-labels-idx1-ubyte"));
    refused(ipu_dataset_open(folder, IPU_TRAIN, NULL, &d), IPU_NOT_FOUND,
            "no train-labels-idx1-ubyte[.gz] beside");
    unlink(in_folder("train-images-idx3-ubyte"));
    refused(ipu_dataset_open(folder, IPU_TRAIN, NULL, &d), IPU_NOT_FOUND,
            "no train-images-idx3-ubyte[.gz] beside");
    refused(ipu_dataset_open("/tmp/no such folder", IPU_TRAIN, NULL, &d), IPU_NOT_FOUND, "no such folder");
    refused(ipu_dataset_open("/proc", IPU_TRAIN, NULL, &d), IPU_NOT_FOUND, "t10k-images-idx3-ubyte");
    refused(ipu_dataset_open(folder, (ipu_dataset_part)2, NULL, &d), IPU_INVALID, "IPU_TRAIN or IPU_TEST");
    assert_null(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_rows_of_arrays),
        cmocka_unit_test(wrong_arrays_are_refused),
        cmocka_unit_test(functions_give_samples_by_number),
        cmocka_unit_test(functions_give_one_sample_after_the_other),
        cmocka_unit_test(functions_that_do_not_fit_are_refused),
        cmocka_unit_test(pixels_of_idx_files_become_floats),
        cmocka_unit_test(options_scale_and_cut),
        cmocka_unit_test(files_that_do_not_belong_together_are_named), /* last: removes files */
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
