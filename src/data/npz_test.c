/* .npz files: writing and reading, missing and duplicate names, and inconsistent archives. `data_npz_test
 * FROM TO` copies a .npy or .npz instead, for tests/numpy_test.sh. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "data/npz.h"

static char folder[] = "/tmp/ipu-npz-test-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/f.npz", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails if a temporary file is left */
}

static float           ramp[600];
static int32_t         ones[3] = {1, 1, 1};
static ipu_named_array both[2] = {{(char *)"ramp", {IPU_FLOAT, {2, {20, 30}}, ramp}},
                                  {(char *)"b", {IPU_INT32, {1, {3}}, ones}}};

/* The bytes of an archive of `both`. Owned: ipu__free. */
static char *archive(bool compress, size_t *bytes)
{
    char *data;
    for (int i = 0; i < 600; i++) ramp[i] = (float)i;
    assert_int_equal(ipu_npz_write(path, both, 2, compress), IPU_OK);
    assert_int_equal(ipu__file_read(path, 1 << 20, &data, bytes), IPU_OK);
    return data;
}

static void assert_both(const ipu_npz *z)
{
    assert_int_equal(z->n, 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(z->arrays[i].name, both[i].name);
        assert_int_equal(z->arrays[i].array.type, both[i].array.type);
        assert_int_equal(z->arrays[i].array.shape.rank, both[i].array.shape.rank);
        assert_int_equal(ipu_array_bytes(&z->arrays[i].array), ipu_array_bytes(&both[i].array));
        assert_memory_equal(z->arrays[i].array.data, both[i].array.data, ipu_array_bytes(&both[i].array));
    }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    for (int compress = 0; compress < 2; compress++) {
        size_t  bytes;
        ipu_npz z;
        ipu__free(archive(compress, &bytes));
        if (compress) assert_in_range(bytes, 0, 2000);
        if (!compress) assert_in_range(bytes, 2400, 4000);
        assert_int_equal(ipu_npz_read(path, &z), IPU_OK);
        assert_both(&z);
        ipu_npz_free(&z);
        assert_null(z.arrays);
    }
}

static void equal_arrays_make_equal_files(void **state)
{
    (void)state;
    size_t n, n_again;
    char  *first = archive(true, &n);
    sleep(2); /* time resolution of archives */
    char *again = archive(true, &n_again);
    assert_int_equal(n, n_again);
    assert_memory_equal(first, again, n);
    ipu__free(first);
    ipu__free(again);
}

static void an_archive_without_arrays_is_one(void **state)
{
    (void)state;
    ipu_npz z;
    assert_int_equal(ipu_npz_write(path, NULL, 0, false), IPU_OK);
    assert_int_equal(ipu_npz_read(path, &z), IPU_OK);
    assert_int_equal(z.n, 0);
    ipu_npz_free(&z);
}

static void one_array_is_read_by_its_name(void **state)
{
    (void)state;
    size_t    bytes;
    ipu_array a;
    ipu__free(archive(false, &bytes));
    assert_int_equal(ipu_array_read_npz(path, "b", &a), IPU_OK);
    assert_int_equal(a.shape.dim[0], 3);
    assert_memory_equal(a.data, ones, sizeof ones);
    ipu_array_free(&a);
    assert_int_equal(ipu_array_read_npz(path, "c", &a), IPU_NOT_FOUND);
    assert_null(a.data);
    assert_non_null(strstr(ipu_message(), "holds no array \"c\"; it holds \"ramp\", \"b\""));
    char name[1000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_int_equal(ipu_array_read_npz(path, name, &a), IPU_INVALID);
}

static void names_may_be_long_utf_8_or_have_folders(void **state)
{
    (void)state;
    static char name[3000];
    memset(name, 'x', sizeof name - 1);
    ipu_named_array named[] = {both[1], both[1], both[1]};
    named[0].name           = (char *)"Gewichte/\xc3\xa4u\xc3\x9f"
                                      "ere";
    named[1].name           = name;
    named[2].name           = (char *)"a.npy";
    ipu_npz z;
    assert_int_equal(ipu_npz_write(path, named, 3, true), IPU_OK);
    assert_int_equal(ipu_npz_read(path, &z), IPU_OK);
    assert_int_equal(z.n, 3);
    for (int i = 0; i < 3; i++) assert_string_equal(z.arrays[i].name, named[i].name);
    ipu_npz_free(&z);
}

/* ---- what is refused ---- */

static void assert_refused(const char *data, size_t bytes, const char *why)
{
    ipu_npz    z      = {.n = 9};
    ipu_status status = ipu__npz_read_bytes(data, bytes, "f.npz", &z);
    if (status == IPU_OK || z.n || !strstr(ipu_message(), "f.npz") || !strstr(ipu_message(), why))
        fail_msg("status %d, \"%s\"; expected \"%s\"", status, ipu_message(), why);
}

/* The central directory's entry number `i`: "PK\1\2", method at 10, sizes at 20 and 24, name at 46. */
static char *central(char *data, size_t bytes, int i)
{
    for (char *p = data; p < data + bytes - 4; p++)
        if (memcmp(p, "PK\1\2", 4) == 0 && i-- == 0) return p;
    fail_msg("no central directory");
    return NULL;
}

static void put32(char *at, uint32_t value) { memcpy(at, &value, sizeof value); }

static void archives_that_lie_about_sizes_are_refused(void **state)
{
    (void)state;
    size_t bytes;
    char  *data = archive(true, &bytes);
    put32(central(data, bytes, 0) + 24, 4000000000u);
    assert_refused(data, bytes, "4000000000 bytes, compressed to");
    ipu__free(data);

    data = archive(true, &bytes); /* too large, but still plausible */
    put32(central(data, bytes, 0) + 24, 4000);
    assert_refused(data, bytes, "expected 4000 bytes, found fewer");
    ipu__free(data);

    data = archive(false, &bytes);
    put32(central(data, bytes, 0) + 24, 100);
    assert_refused(data, bytes, "");
    ipu__free(data);

    data = archive(true, &bytes); /* as if the second also had the bytes of the first */
    put32(central(data, bytes, 1) + 20, (uint32_t)bytes - 50);
    assert_refused(data, bytes, "which cannot be");
    ipu__free(data);
}

static void corrupted_elements_are_noticed(void **state)
{
    (void)state;
    size_t bytes;
    char  *data = archive(false, &bytes);
    data[1000] ^= 1;
    assert_refused(data, bytes, "CRC");
    ipu__free(data);
    data = archive(true, &bytes);
    data[300] ^= 1;
    assert_refused(data, bytes, "");
    ipu__free(data);
}

/* In pages that are never written to, there and back. */
static void arrays_may_be_larger_than_4_gib(void **state)
{
    (void)state;
    const int64_t n = ((int64_t)1 << 32) + 12345;
    if (!getenv("IPU_TEST_LARGE")) skip(); /* 4 GiB of memory, a minute */
    ipu_named_array one = {(char *)"zeros", {0}};
    ipu_array       read;
    assert_int_equal(ipu_array_create(IPU_UINT8, IPU_SHAPE(n), &one.array), IPU_OK);
    assert_int_equal(ipu_npz_write(path, &one, 1, true), IPU_OK);
    ipu_array_free(&one.array);
    assert_int_equal(ipu_array_read_npz(path, "zeros", &read), IPU_OK);
    assert_true(read.shape.dim[0] == n && ((const uint8_t *)read.data)[n - 1] == 0);
    ipu_array_free(&read);
}

static void pipes_are_not_waited_for(void **state)
{
    (void)state;
    ipu_npz   z;
    ipu_array a;
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(600);
    assert_int_equal(ipu_npz_read(path, &z), IPU_IO);
    assert_int_equal(ipu_array_read_npz(path, "x", &a), IPU_IO);
    assert_int_equal(ipu__npz_read_sealed(path, &z), IPU_IO);
    alarm(0);
    assert_non_null(strstr(ipu_message(), "expected a regular file, found a pipe"));
    unlink(path);
}

static void two_arrays_of_one_name_are_refused(void **state)
{
    (void)state;
    size_t bytes;
    both[0].name                = (char *)"a";
    char *data                  = archive(false, &bytes);
    both[0].name                = (char *)"ramp";
    central(data, bytes, 1)[46] = 'a';
    for (char *p = data; p < data + bytes - 8; p++)
        if (memcmp(p, "b.npy", 5) == 0) *p = 'a';
    assert_refused(data, bytes, "two entries a.npy");
    ipu__free(data);
    const ipu_named_array same[] = {both[1], both[1]};
    assert_int_equal(ipu_npz_write(path, same, 2, false), IPU_IO);
    assert_non_null(strstr(ipu_message(), "\"b\""));
}

static void unknown_methods_are_refused(void **state)
{
    (void)state;
    size_t bytes;
    char  *data                 = archive(false, &bytes);
    central(data, bytes, 0)[10] = 12;
    assert_refused(data, bytes, "method 12: expected 0 (stored) or 8 (deflate)");
    ipu__free(data);
}

static void entries_that_are_no_arrays(void **state)
{
    (void)state;
    size_t  bytes;
    char   *data = archive(false, &bytes);
    ipu_npz z;
    central(data, bytes, 0)[46 + 5] = 't'; /* ramp.tpy: skipped */
    for (char *p = data; p < data + bytes - 8; p++)
        if (memcmp(p, "ramp.npy", 8) == 0) p[5] = 't';
    assert_int_equal(ipu__npz_read_bytes(data, bytes, "f.npz", &z), IPU_OK);
    assert_int_equal(z.n, 1);
    assert_string_equal(z.arrays[0].name, "b");
    ipu_npz_free(&z);
    ipu__free(data);
    assert_refused("\x93NUMPY and more", 15, "zip");
    assert_refused("", 0, "zip");
}

static void truncated_archives_are_refused_at_every_length(void **state)
{
    (void)state;
    size_t bytes;
    char  *data = archive(true, &bytes);
    for (size_t n = 0; n < bytes; n++) {
        char *part = malloc(n + 1); /* of exactly that length, to detect reads beyond the end */
        memcpy(part, data, n);
        assert_refused(part, n, "");
        free(part);
    }
    ipu__free(data);
}

static void files_that_cannot_be_are_errors(void **state)
{
    (void)state;
    ipu_npz z;
    assert_int_equal(ipu_npz_read("/no/such/file.npz", &z), IPU_IO);
    assert_int_equal(ipu_npz_read(folder, &z), IPU_IO);
    assert_int_equal(ipu_npz_write("/no/such/folder/f.npz", both, 2, false), IPU_IO);
    assert_int_equal(ipu_npz_write(folder, both, 2, false), IPU_IO);
    assert_non_null(strstr(ipu_message(), folder));
    ipu_named_array empty = {(char *)"empty", {0}};
    assert_int_equal(ipu_npz_write(path, &empty, 1, false), IPU_INVALID);
}

/* ---- seals ---- */

static char *sealed(size_t *bytes)
{
    char *data;
    assert_int_equal(ipu__npz_write_sealed(path, both, 2), IPU_OK);
    assert_int_equal(ipu__file_read(path, 1 << 20, &data, bytes), IPU_OK);
    return data;
}

static void what_is_sealed_is_read_and_is_an_archive(void **state)
{
    (void)state;
    size_t  bytes;
    ipu_npz z;
    char   *data = sealed(&bytes);
    assert_int_equal(ipu__npz_read_sealed(path, &z), IPU_OK);
    assert_both(&z);
    ipu_npz_free(&z);
    assert_int_equal(ipu__npz_read_bytes(data, bytes, "f.npz", &z), IPU_OK);
    assert_both(&z);
    ipu_npz_free(&z);
    ipu__free(data);
    ipu__free(archive(false, &bytes));
    assert_int_equal(ipu__npz_read_sealed(path, &z), IPU_INVALID); /* no seal */
    assert_non_null(strstr(ipu_message(), "expected a checksum"));
    assert_int_equal(ipu__npz_write_sealed(path, NULL, 0), IPU_INVALID);
    assert_int_equal(ipu__npz_read_sealed(folder, &z), IPU_IO);
    assert_int_equal(ipu__npz_read_sealed("/no/such/file.npz", &z), IPU_IO);
}

static void put_file(const char *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static void a_change_of_any_byte_or_length_breaks_the_seal(void **state)
{
    (void)state;
    size_t  bytes;
    ipu_npz z;
    char   *data = sealed(&bytes);
    for (size_t i = 0; i < bytes; i++) {
        data[i] ^= (char)(1 << i % 8);
        put_file(data, bytes);
        data[i] ^= (char)(1 << i % 8);
        if (ipu__npz_read_sealed(path, &z) != IPU_INVALID) fail_msg("byte %zu of %zu", i, bytes);
        assert_int_equal(z.n, 0);
    }
    for (size_t n = 0; n < bytes; n += n < 60 || n + 60 > bytes ? 1 : 37) {
        put_file(data, n);
        if (ipu__npz_read_sealed(path, &z) != IPU_INVALID) fail_msg("%zu bytes of %zu", n, bytes);
    }
    put_file(data, bytes);
    assert_int_equal(ipu__npz_read_sealed(path, &z), IPU_OK);
    ipu_npz_free(&z);
    ipu__free(data);
}

/* In a child with a file size limit: to write, this looks like a full disk. */
static void a_full_disk_leaves_the_old_archive_and_no_other(void **state)
{
    (void)state;
    ipu_npz z;
    assert_int_equal(ipu__npz_write_sealed(path, both, 2), IPU_OK);
    for (rlim_t most = 0; most < 2900; most += 100) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){most, most});
            if (ipu__npz_write_sealed(path, both, 2) != IPU_IO) _exit(1);
            if (!strstr(ipu_message(), strerror(EFBIG)) || !strstr(ipu_message(), path)) _exit(2);
            _exit(ipu_npz_write(path, both, 2, false) != IPU_IO);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status) fail_msg("%d bytes: status %d", (int)most, status);
        assert_int_equal(ipu__npz_read_sealed(path, &z), IPU_OK);
        assert_both(&z);
        ipu_npz_free(&z);
    }
}

/* ---- memory ---- */

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
    size_t     bytes;
    ipu_npz    z;
    char      *data    = archive(true, &bytes);
    ipu_status status  = IPU_OUT_OF_MEMORY;
    int        refused = 0;
    for (int allowed = 0; status == IPU_OUT_OF_MEMORY; allowed++, refused++) {
        assert_in_range(allowed, 0, 50);
        ipu__alloc_set(limited, NULL);
        calls_left = allowed;
        status     = ipu__npz_read_bytes(data, bytes, "f.npz", &z);
        if (status == IPU_OK) ipu_npz_free(&z);
        ipu__alloc_set(NULL, NULL);
    }
    assert_int_equal(status, IPU_OK);
    assert_true(refused > 4);
    ipu__free(data);
    for (int allowed = 0; allowed < 2; allowed++) {
        ipu__alloc_set(limited, NULL);
        calls_left = allowed;
        assert_int_equal(ipu_npz_write(path, both, 2, true), IPU_OUT_OF_MEMORY);
        ipu__alloc_set(NULL, NULL);
    }
}

/* ---- copying ---- */

static ipu_status copy(const char *from, const char *to)
{
    const char *end = strrchr(from, '.');
    if (end && strcmp(end, ".npz") == 0) {
        ipu_npz z;
        IPU_TRY(ipu_npz_read(from, &z));
        ipu_status status = ipu_npz_write(to, z.arrays, z.n, true);
        ipu_npz_free(&z);
        return status;
    }
    ipu_array a;
    IPU_TRY(ipu_array_read_npy(from, &a));
    ipu_status status = ipu_array_write_npy(to, &a);
    ipu_array_free(&a);
    return status;
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        bool copied = copy(argv[1], argv[2]) == IPU_OK;
        if (!copied) fprintf(stderr, "%s\n", ipu_message());
        return copied ? 0 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(equal_arrays_make_equal_files),
        cmocka_unit_test(an_archive_without_arrays_is_one),
        cmocka_unit_test(one_array_is_read_by_its_name),
        cmocka_unit_test(names_may_be_long_utf_8_or_have_folders),
        cmocka_unit_test(archives_that_lie_about_sizes_are_refused),
        cmocka_unit_test(corrupted_elements_are_noticed),
        cmocka_unit_test(arrays_may_be_larger_than_4_gib),
        cmocka_unit_test(pipes_are_not_waited_for),
        cmocka_unit_test(two_arrays_of_one_name_are_refused),
        cmocka_unit_test(unknown_methods_are_refused),
        cmocka_unit_test(entries_that_are_no_arrays),
        cmocka_unit_test(truncated_archives_are_refused_at_every_length),
        cmocka_unit_test(files_that_cannot_be_are_errors),
        cmocka_unit_test(what_is_sealed_is_read_and_is_an_archive),
        cmocka_unit_test(a_change_of_any_byte_or_length_breaks_the_seal),
        cmocka_unit_test(a_full_disk_leaves_the_old_archive_and_no_other),
        cmocka_unit_test(refused_memory_is_reported_at_every_allocation),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
