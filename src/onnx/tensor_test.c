/* Tensors of files: every encoding of every type, data beside the model, and what claims to be one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "onnx/make_test.h"
#include "onnx/tensor.h"

static ipu_status decode(bytes b, const char *folder, ipu_array *out)
{
    Ipu__TensorProto *t = ipu__tensor_proto__unpack(NULL, b.n, b.at);
    assert_non_null(t);
    ipu_status status = ipu__tensor_array(t, folder, out);
    if (status != IPU_OK) assert_null(out->data);
    ipu__tensor_proto__free_unpacked(t, NULL);
    return status;
}

static void expect_refused(bytes b, const char *folder, ipu_status status, const char *because)
{
    ipu_array  a;
    ipu_status found = decode(b, folder, &a);
    if (found != status || !strstr(ipu_message(), because))
        fail_msg("expected %d and \"%s\", found %d: %s", status, because, found, ipu_message());
}

static void expect_values(bytes b, ipu_type type, const double *values, int64_t n)
{
    ipu_array a;
    if (decode(b, NULL, &a) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(a.type, type);
    assert_int_equal(ipu_array_n_elements(&a), n);
    for (int64_t i = 0; i < n; i++) {
        double found = ipu_array_value(&a, i);
        if (found != values[i])
            fail_msg("type %d: element %d is %g, expected %g", type, (int)i, found, values[i]);
    }
    ipu_array_free(&a);
}

/* ---- encodings ---- */

#define RAW(name, type, C, ...)                                                               \
    do {                                                                                      \
        const C      data_[]     = {__VA_ARGS__};                                             \
        const double expected_[] = {__VA_ARGS__};                                             \
        expect_values(tensor("t", name "[2]", raw(data_, sizeof data_)), type, expected_, 2); \
    } while (0)

static void raw_bytes_of_all_types_are_read(void **state)
{
    (void)state;
    RAW("float", IPU_FLOAT, float, 1.5, -2);
    RAW("double", IPU_DOUBLE, double, 1e300, -2);
    RAW("int8", IPU_INT8, int8_t, -128, 127);
    RAW("uint8", IPU_UINT8, uint8_t, 0, 255);
    RAW("int16", IPU_INT16, int16_t, -32768, 5);
    RAW("uint16", IPU_UINT16, uint16_t, 65535, 5);
    RAW("int32", IPU_INT32, int32_t, -7, INT32_MAX);
    RAW("uint32", IPU_UINT32, uint32_t, 7, UINT32_MAX);
    RAW("int64", IPU_INT64, int64_t, -7, (int64_t)1 << 40);
    RAW("uint64", IPU_UINT64, uint64_t, 7, (uint64_t)1 << 63);
    expect_values(tensor("t", "half[2]", raw((uint16_t[]){0x3e00, 0xc000}, 4)), IPU_HALF, (double[]){1.5, -2},
                  2);
    expect_values(tensor("t", "bfloat16[2]", raw((uint16_t[]){0x3fc0, 0xc000}, 4)), IPU_BFLOAT16,
                  (double[]){1.5, -2}, 2);
    expect_values(tensor("t", "bool[3]", raw("\0\1\7", 3)), IPU_BOOL, (double[]){0, 1, 1}, 3);
    expect_values(tensor("t", "float[0,3]", none), IPU_FLOAT, NULL, 0);
    expect_values(tensor("t", "float[]", raw((float[]){3}, 4)), IPU_FLOAT, (double[]){3}, 1);
}

static bytes listed(const char *name, int field, const uint64_t *numbers, size_t n)
{
    char type[40];
    snprintf(type, sizeof type, "%s[%zu]", name, n);
    bytes out = join(tensor_dims(type), number(2, type_number(name, strlen(name))));
    for (size_t i = 0; i < n; i++) out = join(out, number(field, (int64_t)numbers[i]));
    return out;
}

static void lists_of_all_types_are_read(void **state)
{
    (void)state;
    const uint64_t two[] = {7, (uint64_t)-1}, bits[] = {0x3e00, 0xc000}, brain[] = {0x3fc0, 0xc000};
    expect_values(listed("int32", 5, two, 2), IPU_INT32, (double[]){7, -1}, 2);
    expect_values(listed("int16", 5, two, 2), IPU_INT16, (double[]){7, -1}, 2);
    expect_values(listed("int8", 5, two, 2), IPU_INT8, (double[]){7, -1}, 2);
    expect_values(listed("uint16", 5, two, 1), IPU_UINT16, (double[]){7}, 1);
    expect_values(listed("uint8", 5, two, 1), IPU_UINT8, (double[]){7}, 1);
    expect_values(listed("bool", 5, two, 2), IPU_BOOL, (double[]){1, 1}, 2);
    expect_values(listed("half", 5, bits, 2), IPU_HALF, (double[]){1.5, -2}, 2);
    expect_values(listed("bfloat16", 5, brain, 2), IPU_BFLOAT16, (double[]){1.5, -2}, 2);
    expect_values(listed("int64", 7, two, 2), IPU_INT64, (double[]){7, -1}, 2);
    expect_values(listed("uint64", 11, two, 1), IPU_UINT64, (double[]){7}, 1);
    expect_values(listed("uint32", 11, two, 1), IPU_UINT32, (double[]){7}, 1);
    expect_values(tensor_of_numbers("t", "float[3]", "1 -2.5 1e10"), IPU_FLOAT, (double[]){1, -2.5, 1e10}, 3);
    /* Packed, as most producers write them. */
    bytes packed = JOIN(tensor_dims("[3]"), number(2, 6), block(5, JOIN(varint(1), varint(300), varint(2))));
    expect_values(packed, IPU_INT32, (double[]){1, 300, 2}, 3);
    bytes doubles = JOIN(tensor_dims("[2]"), number(2, 11), block(10, raw((double[]){0.1, -3}, 16)));
    expect_values(doubles, IPU_DOUBLE, (double[]){0.1, -3}, 2);
}

static void not_a_number_stays_what_it_is(void **state)
{
    (void)state;
    const uint32_t bits[] = {0x7fc00001, 0xff800000};
    ipu_array      a;
    assert_int_equal(decode(tensor("t", "float[2]", raw(bits, 8)), NULL, &a), IPU_OK);
    assert_memory_equal(a.data, bits, 8);
    ipu_array_free(&a);
}

/* ---- what lies about itself ---- */

static void shapes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    expect_refused(tensor("t", "float[-1]", none), NULL, IPU_INVALID, "dimension 0 is -1");
    expect_refused(tensor("t", "float[4294967296,4294967296]", none), NULL, IPU_INVALID, "too many elements");
    expect_refused(tensor("t", "float[4611686018427387904,4]", none), NULL, IPU_INVALID, "too many elements");
    expect_refused(tensor("t", "float[0,4611686018427387904,4]", none), NULL, IPU_INVALID,
                   "too many elements");
    expect_refused(tensor("t", "float[1,1,1,1,1,1,1,1,1]", raw("1234", 4)), NULL, IPU_UNSUPPORTED,
                   "9 dimensions");
}

static void data_that_do_not_fit_the_shape_are_refused_before_memory_is_taken(void **state)
{
    (void)state;
    expect_refused(tensor("t", "float[2]", raw("1234", 4)), NULL, IPU_INVALID, "expected 8 bytes");
    expect_refused(tensor("t", "float[1099511627776]", raw("1234", 4)), NULL, IPU_INVALID,
                   "expected 4398046511104");
    expect_refused(tensor_of_numbers("t", "float[1099511627776]", "1 2"), NULL, IPU_INVALID, "found 2");
    expect_refused(tensor_of_numbers("t", "float[3]", "1 2"), NULL, IPU_INVALID, "expected 3 elements");
    /* The right number of elements, in the list of another type. */
    expect_refused(listed("float", 5, (uint64_t[]){1, 2}, 2), NULL, IPU_INVALID, "float_data");
}

static void types_that_we_do_not_have_are_named(void **state)
{
    (void)state;
    expect_refused(tensor("t", "string[1]", none), NULL, IPU_UNSUPPORTED, "string");
    expect_refused(tensor("t", "complex64[1]", none), NULL, IPU_UNSUPPORTED, "complex64");
    expect_refused(join(tensor_dims("[1]"), number(2, 17)), NULL, IPU_UNSUPPORTED, "not supported");
    expect_refused(join(tensor_dims("[1]"), number(2, -5)), NULL, IPU_UNSUPPORTED, "not supported");
    expect_refused(JOIN(tensor_dims("[1]"), number(2, 1), block(3, number(1, 0))), NULL, IPU_UNSUPPORTED,
                   "segments");
}

/* ---- external data ---- */

static char folder[] = "/tmp/ipu-onnx-tensor-test-XXXXXX";

static void in_folder(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", folder, name);
}

static int make_folder(void **state)
{
    (void)state;
    char path[200];
    if (!mkdtemp(folder)) return -1;
    in_folder(path, sizeof path, "data.bin");
    FILE *f = fopen(path, "wb");
    if (!f) return -1;
    for (int i = 0; i < 3000; i++) fwrite(&(float){(float)i}, 4, 1, f); /* more than a page */
    fclose(f);
    in_folder(path, sizeof path, "out.bin");
    if (symlink("/etc/passwd", path) != 0) return -1;
    in_folder(path, sizeof path, "link.bin");
    if (symlink("data.bin", path) != 0) return -1;
    in_folder(path, sizeof path, "pipe");
    if (mkfifo(path, 0600) != 0) return -1;
    in_folder(path, sizeof path, "sub");
    return mkdir(path, 0700);
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"data.bin", "out.bin", "link.bin", "pipe"};
    char                     path[200];
    for (size_t i = 0; i < 4; i++) {
        in_folder(path, sizeof path, names[i]);
        unlink(path);
    }
    in_folder(path, sizeof path, "sub");
    rmdir(path);
    ipu__arena_fini(&pool);
    return rmdir(folder);
}

static bytes entry(const char *key, const char *value)
{
    return block(13, join(text(1, key), text(2, value)));
}

static bytes external(const char *type, const char *location, const char *offset, const char *length)
{
    bytes out = JOIN(tensor_dims(type), number(2, 1), text(8, "w"), number(14, 1),
                     entry("location", location));
    if (offset) out = join(out, entry("offset", offset));
    return length ? join(out, entry("length", length)) : out;
}

static void expect_ramp(bytes b, float first)
{
    ipu_array a;
    if (decode(b, folder, &a) != IPU_OK) fail_msg("%s", ipu_message());
    for (int64_t i = 0; i < ipu_array_n_elements(&a); i++)
        assert_float_equal(((float *)a.data)[i], first + (float)i, 0);
    ipu_array_free(&a);
}

static void external_data_are_read_from_their_offset(void **state)
{
    (void)state;
    expect_ramp(external("float[3000]", "data.bin", NULL, NULL), 0);
    expect_ramp(external("float[2,3]", "data.bin", "8", NULL), 2);
    expect_ramp(external("float[5]", "data.bin", "5004", "20"), 1251);
    expect_ramp(external("float[1]", "data.bin", "11996", "4"), 2999);
    expect_ramp(external("float[0]", "data.bin", "12000", "0"), 0);
    expect_ramp(external("float[3]", "link.bin", "4", NULL), 1);
    expect_ramp(external("float[3]", "sub/../data.bin", "4", NULL), 1);
}

static void external_data_outside_the_folder_are_refused(void **state)
{
    (void)state;
    char absolute[200], up[200];
    in_folder(absolute, sizeof absolute, "data.bin");
    snprintf(up, sizeof up, "../%s/data.bin", strrchr(folder, '/') + 1);
    expect_refused(external("float[1]", "/etc/passwd", NULL, NULL), folder, IPU_INVALID,
                   "outside the model's folder");
    expect_refused(external("float[1]", absolute, NULL, NULL), folder, IPU_INVALID,
                   "outside the model's folder");
    expect_refused(external("float[1]", "../../etc/passwd", NULL, NULL), folder, IPU_INVALID, "outside");
    expect_refused(external("float[1]", "out.bin", NULL, NULL), folder, IPU_INVALID, "outside");
    expect_refused(external("float[1]", "data.bin", NULL, NULL), NULL, IPU_INVALID, "not read from a folder");
    expect_ramp(external("float[1]", up, NULL, NULL), 0); /* comes back in */
}

static void external_data_that_are_not_there_are_refused(void **state)
{
    (void)state;
    expect_refused(external("float[1]", "missing.bin", NULL, NULL), folder, IPU_IO, "missing.bin");
    expect_refused(external("float[1]", "", NULL, NULL), folder, IPU_INVALID, "without a location");
    expect_refused(external("float[1]", "sub", NULL, NULL), folder, IPU_IO, "no regular file");
    expect_refused(external("float[1]", "pipe", NULL, NULL), folder, IPU_IO, "no regular file");
    expect_refused(external("float[3001]", "data.bin", NULL, NULL), folder, IPU_INVALID,
                   "the file has 12000");
    expect_refused(external("float[1]", "data.bin", "12000", NULL), folder, IPU_INVALID,
                   "the file has 12000");
    expect_refused(external("float[1]", "data.bin", "9223372036854775807", NULL), folder, IPU_INVALID,
                   "the file has");
    expect_refused(external("float[1]", "data.bin", "-4", NULL), folder, IPU_INVALID, "expected a number");
    expect_refused(external("float[1]", "data.bin", "4x", NULL), folder, IPU_INVALID, "expected a number");
    expect_refused(external("float[1]", "data.bin", "99999999999999999999", NULL), folder, IPU_INVALID,
                   "expected a number");
    expect_refused(external("float[2]", "data.bin", NULL, "4"), folder, IPU_INVALID, "expected 8 bytes");
    /* Memory is not taken for what the file cannot hold. */
    expect_refused(external("float[1099511627776]", "data.bin", NULL, NULL), folder, IPU_INVALID,
                   "the file has 12000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_bytes_of_all_types_are_read),
        cmocka_unit_test(lists_of_all_types_are_read),
        cmocka_unit_test(not_a_number_stays_what_it_is),
        cmocka_unit_test(shapes_that_cannot_be_are_refused),
        cmocka_unit_test(data_that_do_not_fit_the_shape_are_refused_before_memory_is_taken),
        cmocka_unit_test(types_that_we_do_not_have_are_named),
        cmocka_unit_test(external_data_are_read_from_their_offset),
        cmocka_unit_test(external_data_outside_the_folder_are_refused),
        cmocka_unit_test(external_data_that_are_not_there_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
