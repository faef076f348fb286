/* Checkpoints as files: what is written is read, and whatever else is there is told from it.
 * `train_checkpoint_test FILE` writes one instead, for tests/numpy_test.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "data/npz.h"
#include "ipu/checkpoint.h"

static char folder[] = "/tmp/ipu-checkpoint-test-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/c.npz", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    ipu__alloc_set(NULL, NULL);
    unlink(path);
    return rmdir(folder); /* fails if a temporary file was left */
}

/* NaNs with a payload, a minus zero and subnormals: all bits count. */
static uint32_t        bits[6] = {0x7fc01234, 0xffc00001, 0x80000000, 1, 0x3f800000, 0x7f800000};
static uint64_t        seed[2] = {UINT64_MAX, 7};
static int8_t          none[1];
static ipu_named_array arrays[] = {{(char *)"conv1.weight", {IPU_FLOAT, {2, {2, 3}}, bits}},
                                   {(char *)"random/seed", {IPU_UINT64, {1, {2}}, seed}},
                                   {(char *)"scalar", {IPU_HALF, {0, {0}}, bits}},
                                   {(char *)"no elements", {IPU_INT8, {2, {0, 4}}, none}}};

static const ipu_checkpoint full = {.step     = 1234567890123,
                                    .position = {3, 77},
                                    .state    = {arrays, sizeof arrays / sizeof *arrays},
                                    .text     = (char *)"{\"lr\": 0.01, \"name\": \"\xc3\xa4\"}",
                                    .model    = (char *)"seed-cnn"};

static void assert_equal(const ipu_checkpoint *a, const ipu_checkpoint *b)
{
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->position.epoch, b->position.epoch);
    assert_int_equal(a->position.batch, b->position.batch);
    assert_int_equal(a->state.n, b->state.n);
    for (size_t i = 0; i < a->state.n; i++) {
        const ipu_named_array *x = &a->state.arrays[i], *y = &b->state.arrays[i];
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->array.type, y->array.type);
        assert_int_equal(x->array.shape.rank, y->array.shape.rank);
        assert_int_equal(ipu_array_bytes(&x->array), ipu_array_bytes(&y->array));
        for (int d = 0; d < x->array.shape.rank; d++)
            assert_int_equal(x->array.shape.dim[d], y->array.shape.dim[d]);
        assert_memory_equal(x->array.data, y->array.data, ipu_array_bytes(&x->array));
    }
    assert_int_equal(a->text != NULL, b->text != NULL);
    assert_int_equal(a->model != NULL, b->model != NULL);
    if (a->text) assert_string_equal(a->text, b->text);
    if (a->model) assert_string_equal(a->model, b->model);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    ipu_checkpoint c, cases[] = {full, {0}, full, full};
    cases[2].text  = NULL;
    cases[2].model = (char *)"";
    cases[3].model = NULL;
    cases[3].state = (ipu_npz){0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(ipu_checkpoint_write(path, &cases[i]), IPU_OK);
        assert_int_equal(ipu_checkpoint_read(path, &c), IPU_OK);
        assert_equal(&c, &cases[i]);
        ipu_checkpoint_free(&c);
        assert_null(c.state.arrays);
        assert_null(c.text);
    }
}

static void equal_checkpoints_make_equal_files(void **state)
{
    (void)state;
    char  *data[2];
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ipu_checkpoint_write(path, &full), IPU_OK);
        assert_int_equal(ipu__file_read(path, 1 << 20, &data[i], &bytes[i]), IPU_OK);
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(data[0], data[1], bytes[0]);
    ipu__free(data[0]);
    ipu__free(data[1]);
}

static void what_makes_no_checkpoint_is_refused_and_the_old_file_stays(void **state)
{
    (void)state;
    ipu_checkpoint  c, cases[] = {full, full, full, full, full, full};
    ipu_named_array reserved = arrays[0], nameless = arrays[0], empty = {(char *)"empty", {0}};
    ipu_named_array twice[] = {arrays[0], arrays[1], arrays[0]};
    reserved.name           = (char *)"checkpoint/mine";
    nameless.name           = (char *)"";
    cases[0].step           = -1;
    cases[1].position.batch = -2;
    cases[2].state          = (ipu_npz){&reserved, 1};
    cases[3].state          = (ipu_npz){&nameless, 1};
    cases[4].state          = (ipu_npz){&empty, 1};
    cases[5].state          = (ipu_npz){twice, 3};
    const char *const why[] = {"step -1", "batch -2", "checkpoint/mine", "no name", "empty", "conv1.weight"};
    assert_int_equal(ipu_checkpoint_write(path, &full), IPU_OK);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ipu_checkpoint_write(path, &cases[i]), i < 5 ? IPU_INVALID : IPU_IO);
        if (!strstr(ipu_message(), why[i])) fail_msg("\"%s\" in \"%s\"", why[i], ipu_message());
    }
    assert_int_equal(ipu_checkpoint_read(path, &c), IPU_OK);
    assert_equal(&c, &full);
    ipu_checkpoint_free(&c);
}

/* ---- what is no checkpoint ---- */

static void assert_refused(ipu_status expected, const char *why)
{
    ipu_checkpoint c      = {.step = 9};
    ipu_status     status = ipu_checkpoint_read(path, &c);
    if (status != expected || c.step || c.state.n || !strstr(ipu_message(), path)
        || !strstr(ipu_message(), why))
        fail_msg("status %d, \"%s\"; expected \"%s\"", status, ipu_message(), why);
}

static void a_change_of_any_byte_is_noticed(void **state)
{
    (void)state;
    char  *data;
    size_t bytes;
    assert_int_equal(ipu_checkpoint_write(path, &full), IPU_OK);
    assert_int_equal(ipu__file_read(path, 1 << 20, &data, &bytes), IPU_OK);
    for (size_t i = 0; i < bytes; i++) {
        FILE *f = fopen(path, "wb");
        data[i] ^= 0x10;
        assert_int_equal(fwrite(data, 1, bytes, f), bytes);
        assert_int_equal(fclose(f), 0);
        data[i] ^= 0x10;
        assert_refused(IPU_INVALID, "");
    }
    ipu__free(data);
}

static void other_archives_are_told_what_they_lack(void **state)
{
    (void)state;
    int64_t         one = 1, two = 2, below[2] = {-1, 0}, place[2] = {0, 0};
    ipu_named_array own[] = {{(char *)"checkpoint/format", {IPU_INT64, {0, {0}}, &one}},
                             {(char *)"checkpoint/step", {IPU_INT64, {0, {0}}, &one}},
                             {(char *)"checkpoint/position", {IPU_INT64, {1, {2}}, place}},
                             {(char *)"checkpoint/text", {IPU_UINT8, {1, {8}}, &one}},
                             {(char *)"checkpoint/of a later version", {IPU_INT64, {0, {0}}, &one}}};
    ipu_checkpoint  c;
    assert_int_equal(ipu__npz_write_sealed(path, own, 5), IPU_OK);
    assert_int_equal(ipu_checkpoint_read(path, &c), IPU_OK);
    assert_int_equal(c.state.n, 0);
    ipu_checkpoint_free(&c);
    assert_int_equal(ipu_npz_write(path, own, 5, false), IPU_OK);
    assert_refused(IPU_INVALID, "expected a checksum");
    assert_int_equal(ipu__npz_write_sealed(path, arrays, 2), IPU_OK);
    assert_refused(IPU_INVALID, "expected a checkpoint");
    assert_int_equal(ipu__npz_write_sealed(path, own, 2), IPU_OK);
    assert_refused(IPU_INVALID, "\"checkpoint/position\" is missing");
    own[2].array.data = below;
    assert_int_equal(ipu__npz_write_sealed(path, own, 5), IPU_OK);
    assert_refused(IPU_INVALID, "below 0");
    own[2].array.shape.dim[0] = 1;
    assert_int_equal(ipu__npz_write_sealed(path, own, 5), IPU_OK);
    assert_refused(IPU_INVALID, "\"checkpoint/position\" is of another type or shape");
    own[0].array.data = &two;
    assert_int_equal(ipu__npz_write_sealed(path, own, 5), IPU_OK);
    assert_refused(IPU_UNSUPPORTED, "format 2: expected 1");
    assert_int_equal(unlink(path), 0);
    assert_refused(IPU_IO, "No such file");
}

/* ---- size and memory ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* seed-cnn with momentum has 200 thousand floats. The bound is generous: what is meant is 2 ms, without fsync. */
static void a_checkpoint_of_a_small_network_is_fast(void **state)
{
    (void)state;
    ipu_checkpoint c;
    double         best_write = 10, best_read = 10;
    ipu_array      a;
    assert_int_equal(ipu_array_create(IPU_FLOAT, IPU_SHAPE(200000), &a), IPU_OK);
    ipu_named_array big = {(char *)"a", a};
    for (int i = 0; i < 10; i++) {
        double t0 = now();
        assert_int_equal(ipu_checkpoint_write(path, &(ipu_checkpoint){.state = {&big, 1}}), IPU_OK);
        double t1 = now();
        assert_int_equal(ipu_checkpoint_read(path, &c), IPU_OK);
        double t2 = now();
        ipu_checkpoint_free(&c);
        if (t1 - t0 < best_write) best_write = t1 - t0;
        if (t2 - t1 < best_read) best_read = t2 - t1;
    }
    ipu_array_free(&a);
    print_message("800 kB: written in %.2f ms with fsync, read in %.2f ms\n", 1e3 * best_write,
                  1e3 * best_read);
    assert_true(best_write < 2 && best_read < 1);
}

static int calls_left;

static void *limited(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes && calls_left-- <= 0) return NULL;
    if (new_bytes) return realloc(ptr, new_bytes);
    free(ptr);
    return NULL;
}

static void refused_memory_is_reported_at_every_allocation(void **state)
{
    (void)state;
    ipu_checkpoint c;
    for (int reading = 0; reading < 2; reading++) {
        ipu_status status = IPU_OUT_OF_MEMORY;
        int        allowed;
        for (allowed = 0; status == IPU_OUT_OF_MEMORY; allowed++) {
            assert_in_range(allowed, 0, 100);
            ipu__alloc_set(limited, NULL);
            calls_left = allowed;
            status     = reading ? ipu_checkpoint_read(path, &c) : ipu_checkpoint_write(path, &full);
            if (reading && status == IPU_OK) ipu_checkpoint_free(&c);
            ipu__alloc_set(NULL, NULL);
        }
        assert_int_equal(status, IPU_OK);
        assert_true(allowed > 5);
    }
}

int main(int argc, char **argv)
{
    if (argc == 2) return ipu_checkpoint_write(argv[1], &full) == IPU_OK ? 0 : 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(equal_checkpoints_make_equal_files),
        cmocka_unit_test(what_makes_no_checkpoint_is_refused_and_the_old_file_stays),
        cmocka_unit_test(a_change_of_any_byte_is_noticed),
        cmocka_unit_test(other_archives_are_told_what_they_lack),
        cmocka_unit_test(a_checkpoint_of_a_small_network_is_fast),
        cmocka_unit_test(refused_memory_is_reported_at_every_allocation),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
