/* Files opened from disk, whose large tensors are not copied: they say what the same bytes in memory say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "onnx/borrow.h"
#include "onnx/run_test.h"

enum { LARGE = 2000 };

static char path[] = "/tmp/ipu-borrow-XXXXXX";

static void write_file(bytes b)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b.at, 1, b.n, f), b.n);
    assert_int_equal(fclose(f), 0);
}

static ipu_onnx *open_file(bytes b)
{
    ipu_onnx *file;
    write_file(b);
    if (ipu_onnx_open(path, &file) != IPU_OK) fail_msg("%s", ipu_message());
    return file;
}

static size_t count_borrowed(const ipu_onnx *file)
{
    size_t n = 0;
    for (size_t i = 0; i < file->proto->graph->n_initializer; i++)
        n += ipu__onnx_is_borrowed(file, file->proto->graph->initializer[i]);
    return n;
}

static bytes counting_up(const char *name, int64_t n, float first, bytes more)
{
    float *data = ipu__arena_alloc(&pool, (size_t)n * sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = first + (float)i;
    return block(5, JOIN(number(1, n), number(2, 1), block(9, raw(data, (size_t)n * sizeof *data)), more,
                         text(8, name)));
}

/* y = x + a + b, of which a and b are large and c, which is small, lies between. */
static bytes net(bytes more)
{
    bytes g = join(graph("in x float[2000]; in c float[2]; out y; t = Add(x, a); y = Add(t, b)", NULL),
                   JOIN(counting_up("a", LARGE, 1, none), counting_up("c", 2, 5, none),
                        counting_up("b", LARGE, 10, more)));
    return model(13, g, none);
}

static void expect_sum(ipu_onnx *file, float offset)
{
    ipu_onnx_session *s;
    static float      zeros[LARGE];
    ipu_onnx_value    x = value(IPU_FLOAT, IPU_SHAPE(LARGE), zeros), y;
    assert_int_equal(ipu_onnx_session_create(file, NULL, &s), IPU_OK);
    if (ipu_onnx_session_run(s, &x, 1, &y, 1) != IPU_OK) fail_msg("%s", ipu_message());
    for (int i = 0; i < LARGE; i++) assert_float_equal(((float *)y.array.data)[i], offset + 2 * (float)i, 0);
    ipu_onnx_value_free(&y);
    ipu_onnx_session_destroy(s);
}

static void large_tensors_stay_where_they_are(void **state)
{
    (void)state;
    ipu_onnx     *file = open_file(net(none));
    ipu_onnx_info info;
    ipu_onnx_get_info(file, &info);
    assert_int_equal(info.n_initializers, 3);
    assert_int_equal(info.n_parameters, 2 * LARGE + 2);
    assert_int_equal(ipu_onnx_n_inputs(file), 1);
    assert_int_equal(count_borrowed(file), 2);
    expect_sum(file, 11);
    ipu_onnx_close(file);
}

/* Packed again, the message is what it is without borrowing. */
static void a_file_is_saved_as_it_was_read(void **state)
{
    (void)state;
    bytes     b         = net(none);
    ipu_onnx *borrowing = open_file(b), *copied;
    size_t    n[2];
    uint8_t  *packed[2];
    assert_int_equal(ipu_onnx_read(b.at, b.n, NULL, &copied), IPU_OK);
    assert_int_equal(count_borrowed(copied), 0);
    ipu_onnx *const files[] = {borrowing, copied};
    for (int i = 0; i < 2; i++) {
        packed[i] = ipu__arena_alloc(&pool, ipu__model_proto__get_packed_size(files[i]->proto));
        n[i]      = ipu__model_proto__pack(files[i]->proto, packed[i]);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(packed[0], packed[1], n[0]);
    assert_int_equal(ipu_onnx_save(borrowing, path), IPU_OK); /* over what it was read from */
    expect_sum(borrowing, 11);
    ipu_onnx_close(borrowing);
    assert_int_equal(ipu_onnx_open(path, &borrowing), IPU_OK);
    expect_sum(borrowing, 11);
    ipu_onnx_close(borrowing);
    ipu_onnx_close(copied);
}

static void a_large_tensor_takes_new_values(void **state)
{
    (void)state;
    ipu_onnx *file = open_file(net(none));
    float     data[LARGE];
    for (int i = 0; i < LARGE; i++) data[i] = 100 + (float)i;
    const ipu_array a = {IPU_FLOAT, IPU_SHAPE(LARGE), data};
    for (int turn = 0; turn < 2; turn++) /* the second time over a copy */
        assert_int_equal(ipu_onnx_set_initializer(file, "b", &a), IPU_OK);
    assert_int_equal(count_borrowed(file), 1);
    expect_sum(file, 101);
    ipu_onnx_close(file);
}

/* What is said twice, or in several graphs, is merged as protobuf has it. */
static void unusual_messages_are_read_as_from_memory(void **state)
{
    (void)state;
    float data[LARGE];
    for (int i = 0; i < LARGE; i++) data[i] = 20 + (float)i;
    ipu_onnx *file = open_file(net(block(9, raw(data, sizeof data))));
    assert_int_equal(count_borrowed(file), 1);
    expect_sum(file, 21); /* the last counts */
    ipu_onnx_close(file);
    file = open_file(join(net(none), block(7, text(10, "more"))));
    assert_int_equal(count_borrowed(file), 0);
    expect_sum(file, 11);
    ipu_onnx_close(file);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    bytes whole = net(none);
    for (size_t n = 1; n < whole.n; n += n < 200 ? 1 : 97) {
        ipu_onnx *file = NULL, *same = NULL;
        write_file((bytes){whole.at, n});
        ipu_status status = ipu_onnx_open(path, &file);
        assert_int_equal(status, ipu_onnx_read(whole.at, n, NULL, &same));
        assert_int_equal(status == IPU_OK, file != NULL);
        ipu_onnx_close(file);
        ipu_onnx_close(same);
    }
}

static int set_up(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    if (fd < 0) return -1;
    return close(fd);
}

static int tear_down(void **state)
{
    unlink(path);
    return free_pool(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_tensors_stay_where_they_are),
        cmocka_unit_test(a_file_is_saved_as_it_was_read),
        cmocka_unit_test(a_large_tensor_takes_new_values),
        cmocka_unit_test(unusual_messages_are_read_as_from_memory),
        cmocka_unit_test(damaged_files_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
