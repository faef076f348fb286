/* IDX files: plain and compressed, and every way in which one can be damaged or inconsistent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "data/idx.h"

/* 2 pictures of 2 x 3. */
static const uint8_t small[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,  0,  0,
                                0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

/* Like gzip. */
static size_t compress_bytes(const void *data, size_t bytes, uint8_t *to, size_t room)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in   = (uint8_t *)data;
    z.avail_in  = (unsigned)bytes;
    z.next_out  = to;
    z.avail_out = (unsigned)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&z), Z_OK);
    return room - z.avail_out;
}

static void assert_small(const ipu__idx *x)
{
    assert_int_equal(x->shape.rank, 3);
    assert_int_equal(x->shape.dim[0], 2);
    assert_int_equal(x->shape.dim[1], 2);
    assert_int_equal(x->shape.dim[2], 3);
    assert_memory_equal(x->elements, small + 16, 12);
}

static void a_plain_file_is_read_in_place(void **state)
{
    (void)state;
    ipu__idx x;
    assert_int_equal(ipu__idx_read(small, sizeof small, "f", &x), IPU_OK);
    assert_small(&x);
    assert_ptr_equal(x.elements, small + 16);
    ipu__idx_close(&x);
}

static void a_compressed_one_is_inflated(void **state)
{
    (void)state;
    uint8_t  file[256];
    ipu__idx x;
    size_t   n = compress_bytes(small, sizeof small, file, sizeof file);
    assert_int_equal(ipu__idx_read(file, n, "f", &x), IPU_OK);
    assert_small(&x);
    ipu__idx_close(&x);
}

static void several_streams_are_one_file(void **state)
{
    (void)state;
    uint8_t  file[512];
    ipu__idx x;
    size_t   n = compress_bytes(small, 5, file, 256);
    n += compress_bytes(small + 5, sizeof small - 5, file + n, 256);
    assert_int_equal(ipu__idx_read(file, n, "f", &x), IPU_OK);
    assert_small(&x);
    ipu__idx_close(&x);
}

static void files_are_mapped_or_inflated(void **state)
{
    (void)state;
    char     path[] = "/tmp/ipu-idx-test-XXXXXX";
    uint8_t  file[256];
    ipu__idx x;
    close(mkstemp(path));
    assert_int_equal(ipu__file_write(path, small, sizeof small), IPU_OK);
    assert_int_equal(ipu__idx_open(path, &x), IPU_OK);
    assert_small(&x);
    assert_non_null(x.block.mapped);
    ipu__idx_close(&x);
    assert_int_equal(ipu__file_write(path, file, compress_bytes(small, sizeof small, file, sizeof file)),
                     IPU_OK);
    assert_int_equal(ipu__idx_open(path, &x), IPU_OK);
    assert_small(&x);
    assert_null(x.block.mapped);
    ipu__idx_close(&x);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(ipu__idx_open(path, &x), IPU_INVALID);
    unlink(path);
    assert_int_equal(ipu__idx_open(path, &x), IPU_IO);
    assert_int_equal(ipu__idx_open("/tmp", &x), IPU_IO);
    assert_non_null(strstr(ipu_message(), "directory"));
}

static void refuse(const void *data, size_t bytes, ipu_status status, const char *word)
{
    ipu__idx x;
    assert_int_equal(ipu__idx_read(data, bytes, "the-file", &x), status);
    if (!strstr(ipu_message(), word) || !strstr(ipu_message(), "the-file"))
        print_error("%s\n", ipu_message());
    assert_non_null(strstr(ipu_message(), word));
    assert_non_null(strstr(ipu_message(), "the-file"));
    assert_null(x.elements);
}

static void every_shorter_file_is_refused(void **state)
{
    (void)state;
    uint8_t file[256];
    size_t  n = compress_bytes(small, sizeof small, file, sizeof file);
    for (size_t i = 0; i < sizeof small; i++) refuse(small, i, IPU_INVALID, "get the file again");
    for (size_t i = 2; i < n; i++) refuse(file, i, IPU_INVALID, "get the file again");
}

/* Except for those in gzip's header that say when and where, and those that pad the last byte. */
static void every_flipped_bit_of_compressed_data_is_noticed(void **state)
{
    (void)state;
    enum { HEADER = 10 };
    uint8_t file[256];
    int     unnoticed = 0;
    size_t  n         = compress_bytes(small, sizeof small, file, sizeof file);
    for (size_t i = HEADER; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            ipu__idx x;
            file[i] ^= (uint8_t)(1 << bit);
            if (ipu__idx_read(file, n, "f", &x) == IPU_OK) {
                assert_small(&x);
                ipu__idx_close(&x);
                unnoticed++;
            }
            file[i] ^= (uint8_t)(1 << bit);
        }
    assert_in_range(unnoticed, 0, 7);
}

static void what_follows_the_elements_is_refused(void **state)
{
    (void)state;
    uint8_t more[sizeof small + 1] = {0}, file[256];
    memcpy(more, small, sizeof small);
    refuse(more, sizeof more, IPU_INVALID, "[2,2,3] bytes, but more follow");
    refuse(file, compress_bytes(more, sizeof more, file, sizeof file), IPU_INVALID, "more follow");
    memcpy(file, small, sizeof small);
    size_t n = compress_bytes(small, sizeof small, file, sizeof file - 5);
    memset(file + n, 'x', 5);
    refuse(file, n + 5, IPU_INVALID, "damaged");
}

static void other_types_and_files_are_named(void **state)
{
    (void)state;
    uint8_t copy[sizeof small];
    memcpy(copy, small, sizeof small);
    copy[2] = 0x0d;
    refuse(copy, sizeof copy, IPU_UNSUPPORTED, "float");
    copy[2] = 7;
    refuse(copy, sizeof copy, IPU_INVALID, "type 7");
    copy[2] = 8;
    copy[3] = 5;
    refuse(copy, sizeof copy, IPU_INVALID, "expected an IDX file");
    refuse("PK\3\4 an archive", 15, IPU_INVALID, "expected an IDX file");
}

/* ---- memory that a file asks for ---- */

static size_t most_asked;

static void *watching_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes > most_asked) most_asked = new_bytes;
    if (new_bytes) return realloc(ptr, new_bytes);
    free(ptr);
    return NULL;
}

static void a_small_file_cannot_ask_for_much(void **state)
{
    (void)state;
    uint8_t head[16], file[256];
    most_asked = 0;
    ipu__alloc_set(watching_alloc, NULL);
    ipu__idx_header((int64_t[]){60000, 28, 1 << 20}, 3, head);
    refuse(head, sizeof head, IPU_INVALID, "fewer follow");
    refuse(file, compress_bytes(head, sizeof head, file, sizeof file), IPU_INVALID, "cannot hold them");
    ipu__idx_header((int64_t[]){UINT32_MAX, UINT32_MAX, UINT32_MAX}, 3, head);
    refuse(head, sizeof head, IPU_INVALID, "more elements than can be addressed");
    ipu__alloc_set(NULL, NULL);
    assert_in_range(most_asked, 1, 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_file_is_read_in_place),
        cmocka_unit_test(a_compressed_one_is_inflated),
        cmocka_unit_test(several_streams_are_one_file),
        cmocka_unit_test(files_are_mapped_or_inflated),
        cmocka_unit_test(every_shorter_file_is_refused),
        cmocka_unit_test(every_flipped_bit_of_compressed_data_is_noticed),
        cmocka_unit_test(what_follows_the_elements_is_refused),
        cmocka_unit_test(other_types_and_files_are_named),
        cmocka_unit_test(a_small_file_cannot_ask_for_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
