/* .npy files: every type, version, order and byte order; what is written; headers that are invalid or
 * hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "data/npy.h"

/* A file of version `major`: the header as given, then the elements. Owned: ipu__free. */
static char *make_file(int major, const char *header, const void *elements, size_t n, size_t *bytes)
{
    size_t length = strlen(header), at = major == 1 ? 10 : 12;
    char  *file = ipu__alloc(at + length + n);
    assert_non_null(file);
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (char)major;
    file[7] = 0;
    for (size_t i = 8; i < at; i++) file[i] = (char)(length >> 8 * (i - 8) & 255);
    memcpy(file + at, header, length);
    if (n) memcpy(file + at + length, elements, n);
    *bytes = at + length + n;
    return file;
}

static ipu_status parse(int major, const char *header, const void *elements, size_t n, ipu_array *out)
{
    size_t bytes;
    char  *file = make_file(major, header, elements, n, &bytes);
    return ipu__npy_take(file, bytes, "f.npy", out);
}

static void assert_array(const ipu_array *a, ipu_type type, ipu_shape shape, const void *elements)
{
    assert_int_equal(a->type, type);
    assert_int_equal(a->shape.rank, shape.rank);
    for (int d = 0; d < shape.rank; d++) assert_int_equal(a->shape.dim[d], shape.dim[d]);
    if (ipu_array_bytes(a)) assert_memory_equal(a->data, elements, ipu_array_bytes(a));
}

/* ---- reading ---- */

static void versions_1_to_3_are_read(void **state)
{
    (void)state;
    static const float x[] = {1, 2, 3, 4, 5, 6};
    for (int major = 1; major <= 3; major++) {
        ipu_array a;
        assert_int_equal(parse(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    \n", x,
                               sizeof x, &a),
                         IPU_OK);
        assert_array(&a, IPU_FLOAT, IPU_SHAPE(2, 3), x);
        ipu_array_free(&a);
    }
}

static void keys_quotes_and_blanks_are_free(void **state)
{
    (void)state;
    static const int16_t     x[]       = {-3};
    static const char *const headers[] = {
        "{\"shape\":(1,),\"descr\":\"<i2\",\"fortran_order\":True}",
        "{ 'fortran_order' : False , 'shape' : ( 1 , ) , 'descr' : '=i2' , } \n\n",
        "{'descr': 'i2', 'fortran_order': False, 'shape': (1L,)}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        ipu_array a;
        assert_int_equal(parse(1, headers[i], x, sizeof x, &a), IPU_OK);
        assert_array(&a, IPU_INT16, IPU_SHAPE(1), x);
        ipu_array_free(&a);
    }
}

static void scalars_and_empty_arrays_are_read(void **state)
{
    (void)state;
    static const double x = 2.5;
    ipu_array           a;
    assert_int_equal(parse(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", &x, sizeof x, &a),
                     IPU_OK);
    assert_array(&a, IPU_DOUBLE, IPU_SCALAR, &x);
    ipu_array_free(&a);
    assert_int_equal(parse(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (3, 0, 2), }", NULL, 0, &a),
                     IPU_OK);
    assert_array(&a, IPU_DOUBLE, IPU_SHAPE(3, 0, 2), NULL);
    assert_non_null(a.data);
    ipu_array_free(&a);
}

static void big_endian_is_turned_round(void **state)
{
    (void)state;
    static const unsigned char two[] = {0x12, 0x34, 0xfe, 0xdc}, four[] = {1, 2, 3, 4},
                               eight[]     = {1, 2, 3, 4, 5, 6, 7, 8};
    static const uint16_t expected_two[]   = {0x1234, 0xfedc};
    static const uint32_t expected_four[]  = {0x01020304};
    static const uint64_t expected_eight[] = {0x0102030405060708};
    ipu_array             a;
    assert_int_equal(parse(1, "{'descr': '>u2', 'fortran_order': False, 'shape': (2,), }", two, 4, &a),
                     IPU_OK);
    assert_array(&a, IPU_UINT16, IPU_SHAPE(2), expected_two);
    ipu_array_free(&a);
    assert_int_equal(parse(1, "{'descr': '>V2', 'fortran_order': False, 'shape': (2,), }", two, 4, &a),
                     IPU_OK);
    assert_array(&a, IPU_BFLOAT16, IPU_SHAPE(2), expected_two);
    ipu_array_free(&a);
    assert_int_equal(parse(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", four, 4, &a),
                     IPU_OK);
    assert_array(&a, IPU_FLOAT, IPU_SHAPE(1), expected_four);
    ipu_array_free(&a);
    assert_int_equal(parse(1, "{'descr': '>i8', 'fortran_order': False, 'shape': (1,), }", eight, 8, &a),
                     IPU_OK);
    assert_array(&a, IPU_INT64, IPU_SHAPE(1), expected_eight);
    ipu_array_free(&a);
    assert_int_equal(parse(1, "{'descr': '>i1', 'fortran_order': False, 'shape': (4,), }", four, 4, &a),
                     IPU_OK);
    assert_array(&a, IPU_INT8, IPU_SHAPE(4), four);
    ipu_array_free(&a);
}

static void fortran_order_is_made_c_order(void **state)
{
    (void)state;
    enum { A = 2, B = 3, C = 4 };
    int32_t   fortran[A * B * C], c[A * B * C];
    ipu_array a;
    for (int i = 0; i < A; i++)
        for (int j = 0; j < B; j++)
            for (int k = 0; k < C; k++) {
                fortran[i + A * (j + B * k)] = 100 * i + 10 * j + k;
                c[(i * B + j) * C + k]       = 100 * i + 10 * j + k;
            }
    assert_int_equal(parse(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3, 4), }", fortran,
                           sizeof fortran, &a),
                     IPU_OK);
    assert_array(&a, IPU_INT32, IPU_SHAPE(A, B, C), c);
    ipu_array_free(&a);
}

static void bytes_of_bools_become_0_or_1(void **state)
{
    (void)state;
    static const uint8_t from[] = {0, 1, 2, 255}, to[] = {0, 1, 1, 1};
    ipu_array            a;
    assert_int_equal(parse(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (4,), }", from, 4, &a),
                     IPU_OK);
    assert_array(&a, IPU_BOOL, IPU_SHAPE(4), to);
    ipu_array_free(&a);
}

/* ---- what is refused ---- */

static void assert_refused(ipu_status expected, int major, const char *header, size_t n, const char *why)
{
    static const char elements[64];
    char              byte   = 0;
    ipu_array         a      = {.data = &byte};
    ipu_status        status = parse(major, header, elements, n, &a);
    if (status != expected || !strstr(ipu_message(), why) || !strstr(ipu_message(), "f.npy") || a.data)
        fail_msg("%s\n  status %d, \"%s\"; expected %d, \"%s\"", header, status, ipu_message(), expected,
                 why);
}

static void types_that_are_no_numbers_are_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"'|O'", "Python objects"},
        {"'<U3'", "strings"},
        {"'|S4'", "byte strings"},
        {"'<c8'", "complex numbers"},
        {"'<M8[ns]'", "times"},
        {"'<m8[s]'", "time intervals"},
        {"'|V3'", "raw bytes"},
        {"'<f16'", "another type"},
        {"'<i3'", "another type"},
        {"'<f4x'", "another type"},
        {"''", "another type"},
        {"'<'", "another type"},
        {"'<f99999999999'", "another type"},
        {"'<f'", "another type"},
        {"'f -4'", "another type"},
        {"[('a', '<f4'), ('b', '<i4')]", "structured"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char header[128];
        snprintf(header, sizeof header, "{'descr': %s, 'fortran_order': False, 'shape': (2,), }",
                 cases[i][0]);
        assert_refused(IPU_UNSUPPORTED, 1, header, 8, cases[i][1]);
    }
}

static void headers_that_are_wrong_say_where(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "byte 0: expected a dictionary"},
        {"[1]", "expected a dictionary, found \"[1]\""},
        {"{", "expected a string"},
        {"{}", "expected the keys descr, fortran_order and shape"},
        {"{'descr': '<f4', 'fortran_order': False, }", "expected the keys"},
        {"{'descr': '<f4', 'descr': '<f4', ", "each key once"},
        {"{'color': 1}", "expected the key descr, fortran_order or shape"},
        {"{'descr' '<f4'}", "expected a colon"},
        {"{'descr': '<f4' 'shape': ()}", "expected a comma"},
        {"{'descr': '<f4\\x41'}", "a plain character"},
        {"{'descr': '<f4", "the end of a short string"},
        {"{'descr': 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'}", "the end of a short string"},
        {"{'descr': 4}", "expected a string, found \"4}\""},
        {"{'fortran_order': 1}", "expected True or False"},
        {"{'shape': 3}", "a tuple"},
        {"{'shape': (3)}", "a comma behind the only dimension"},
        {"{'shape': (3,,)}", "expected a dimension"},
        {"{'shape': (3 4)}", "expected a comma"},
        {"{'shape': (-1,)}", "expected a dimension, found \"-1,)}\""},
        {"{'shape': (9223372036854775808,)}", "at most 63 bits"},
        {"{'shape': (", "expected a dimension, found \"\""},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } __import__('os')", "expected its end"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\x01", "found \"?\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(IPU_INVALID, 1, cases[i][0], 4, cases[i][1]);
    assert_refused(IPU_UNSUPPORTED, 1, "{'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}", 4, "more than 8 dimensions");
}

static void sizes_that_do_not_fit_the_file_are_refused(void **state)
{
    (void)state;
    static const char *const shapes[] = {
        "(2,)",
        "(4,)",
        "(0,)",
        "()",
        "(4611686018427387904, 4)",
        "(9223372036854775807, 9223372036854775807)",
        "(0, 9223372036854775807, 9223372036854775807)",
        "(1000000000000,)",
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char header[160];
        snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': True, 'shape': %s, }", shapes[i]);
        assert_refused(IPU_INVALID, 1, header, 12, "but 12 bytes follow");
    }
}

static void truncated_files_are_refused_at_every_length(void **state)
{
    (void)state;
    static const float x[2] = {1, 2};
    for (int major = 1; major <= 3; major++) {
        size_t bytes;
        char  *file = make_file(major, "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }\n", x, 8,
                                &bytes);
        for (size_t n = 0; n < bytes; n++) {
            ipu_array a;
            char     *part = ipu__alloc(n);
            memcpy(part, file, n);
            assert_int_equal(ipu__npy_take(part, n, "part", &a), IPU_INVALID);
            assert_null(a.data);
        }
        ipu__free(file);
    }
}

static void other_files_and_versions_are_refused(void **state)
{
    (void)state;
    assert_refused(IPU_UNSUPPORTED, 4, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4,
                   "version 4.0");
    assert_refused(IPU_UNSUPPORTED, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4,
                   "version 0.0");
    ipu_array a;
    char     *text = ipu__strdup("1.0 2.0 3.0 4.0 5.0");
    assert_int_equal(ipu__npy_take(text, 19, "numbers.txt", &a), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "numbers.txt: expected an array saved by numpy"));
    assert_int_equal(ipu_array_read_npy("/no/such/file.npy", &a), IPU_IO);
    assert_null(a.data);
}

/* ---- writing ---- */

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const ipu_shape shapes[] = {{0, {0}}, {1, {5}}, {3, {2, 0, 4}}, {8, {1, 2, 1, 3, 1, 1, 2, 1}}};
    char                   path[]   = "/tmp/ipu-npy-test-XXXXXX";
    int                    fd       = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (int type = 0; type < IPU_N_TYPES; type++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            ipu_array a, b;
            assert_int_equal(ipu_array_create((ipu_type)type, shapes[s], &a), IPU_OK);
            unsigned char *bytes = a.data;
            for (size_t i = 0; i < ipu_array_bytes(&a); i++)
                bytes[i] = (unsigned char)(type == IPU_BOOL ? i % 2 : i * 37 + 11);
            assert_int_equal(ipu_array_write_npy(path, &a), IPU_OK);
            assert_int_equal(ipu_array_read_npy(path, &b), IPU_OK);
            assert_array(&b, a.type, a.shape, a.data);
            ipu_array_free(&a);
            ipu_array_free(&b);
        }
    unlink(path);
}

static void headers_are_those_numpy_writes(void **state)
{
    (void)state;
    char            head[IPU__NPY_HEADER_BYTES], longest[IPU__NPY_HEADER_BYTES];
    size_t          bytes;
    float           x[6] = {0};
    const ipu_array a    = {IPU_FLOAT, {2, {2, 3}}, x};
    assert_int_equal(ipu__npy_header(&a, head, &bytes), IPU_OK);
    assert_int_equal(bytes, 128);
    assert_memory_equal(head,
                        "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 69);
    assert_int_equal(head[127], '\n');
    const int64_t   large = 9000000000000000000;
    const ipu_array none  = {IPU_BOOL, {8, {large, 0, 0, 0, 0, 0, 0, 0}}, x};
    assert_int_equal(ipu__npy_header(&none, longest, &bytes), IPU_OK);
    assert_int_equal(bytes % 64, 0);
    const ipu_array one = {IPU_INT8, {1, {6}}, x};
    assert_int_equal(ipu__npy_header(&one, head, &bytes), IPU_OK);
    assert_memory_equal(head + 10, "{'descr': '|i1', 'fortran_order': False, 'shape': (6,), }", 57);
}

static void what_is_no_array_is_not_written(void **state)
{
    (void)state;
    float     x = 0;
    ipu_array a = {0};
    assert_int_equal(ipu_array_write_npy("/no/such/folder/f.npy", &a), IPU_INVALID);
    a = (ipu_array){IPU_FLOAT, {1, {-1}}, &x};
    assert_int_equal(ipu_array_write_npy("/no/such/folder/f.npy", &a), IPU_INVALID);
    a = (ipu_array){IPU_FLOAT, {0, {0}}, &x};
    assert_int_equal(ipu_array_write_npy("/no/such/folder/f.npy", &a), IPU_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_1_to_3_are_read),
        cmocka_unit_test(keys_quotes_and_blanks_are_free),
        cmocka_unit_test(scalars_and_empty_arrays_are_read),
        cmocka_unit_test(big_endian_is_turned_round),
        cmocka_unit_test(fortran_order_is_made_c_order),
        cmocka_unit_test(bytes_of_bools_become_0_or_1),
        cmocka_unit_test(types_that_are_no_numbers_are_named),
        cmocka_unit_test(headers_that_are_wrong_say_where),
        cmocka_unit_test(sizes_that_do_not_fit_the_file_are_refused),
        cmocka_unit_test(truncated_files_are_refused_at_every_length),
        cmocka_unit_test(other_files_and_versions_are_refused),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(headers_are_those_numpy_writes),
        cmocka_unit_test(what_is_no_array_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
