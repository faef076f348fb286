/* Layouts and depth first: what an engine chooses and must not choose, and that results match those of plain kernels
 * run one after another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "base/host/cpu.h"
#include "engine/cpu/cpu.h"
#include "ipu/ipu.h"

enum { ROWS = 64 };

typedef struct machine {
    ipu_graph  *g;
    ipu_program p;
} machine;

static machine machine_make(void)
{
    machine    m;
    ipu_target target;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &m.g), IPU_OK);
    m.p = ipu_program_sequence(m.g);
    return m;
}

/* Used between kernels only. */
static ipu_tensor inner(const machine *m, ipu_shape shape)
{
    ipu_tensor t = ipu_graph_add_variable(m->g, IPU_FLOAT, shape, NULL);
    ipu_graph_map_linearly(m->g, t);
    return t;
}

/* Used by the host too. */
static ipu_tensor outer(const machine *m, ipu_type type, ipu_shape shape, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(m->g, type, shape, name);
    ipu_graph_map_linearly(m->g, t);
    ipu_graph_add_host_write(m->g, name, t);
    ipu_graph_add_host_read(m->g, name, t);
    return t;
}

static void kernel(const machine *m, const char *name, const ipu_attribute *a, size_t n_a,
                   ipu_tensor *operands, size_t n)
{
    ipu_program_add_kernel(m->p, name, a, n_a, operands, n);
    if (ipu_graph_status(m->g) != IPU_OK) fail_msg("%s", ipu_graph_message(m->g));
}

static ipu_executable *compile(const machine *m)
{
    ipu_executable *exe;
    if (ipu_executable_compile(m->g, &m->p, 1, NULL, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    return exe;
}

static ipu_engine *start(ipu_executable *exe, const char *layouts, const char *threads)
{
    ipu_options *options;
    ipu_engine  *e;
    assert_int_equal(ipu_options_create(&options), IPU_OK);
    assert_int_equal(ipu_options_set(options, "memory.layouts", layouts), IPU_OK);
    assert_int_equal(ipu_options_set(options, "threads", threads), IPU_OK);
    if (ipu_engine_create(exe, options, &e) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_options_destroy(options);
    return e;
}

static void fill(ipu_engine *e, const char *name, int64_t n)
{
    float *data = malloc((size_t)n * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < n; i++) data[i] = (float)(i * 37 % 101 - 50) / 64;
    assert_int_equal(ipu_engine_write(e, name, data, (size_t)n * sizeof *data), IPU_OK);
    free(data);
}

/* Compares, with tolerance, what the two engines have in `name`. */
static void compare(ipu_engine *a, ipu_engine *b, const char *name, int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    assert_true(x && y);
    assert_int_equal(ipu_engine_read(a, name, x, (size_t)n * sizeof *x), IPU_OK);
    assert_int_equal(ipu_engine_read(b, name, y, (size_t)n * sizeof *y), IPU_OK);
    float largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(x[i]));
    assert_true(largest > 0 && isfinite(largest));
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(x[i] - y[i]) <= 1e-5F * largest))
            fail_msg("%s[%lld]: %g and %g", name, (long long)i, (double)x[i], (double)y[i]);
    free(x);
    free(y);
}

static int64_t n_of(ipu_tensor t)
{
    int64_t   n = 1;
    ipu_shape s = ipu_tensor_shape(t);
    for (int i = 0; i < s.rank; i++) n *= s.dim[i];
    return n;
}

static int count_chunked(const ipu_engine *e)
{
    int n = 0;
    for (size_t i = 0; i < e->exe->kernels.n; i++) n += ipu__cpu_of(e)->kernels[i].n_chunks > 0;
    return n;
}

static int count_layouts(const ipu_engine *e)
{
    int n = 0;
    for (size_t i = 0; i < e->exe->kernels.n; i++)
        for (int k = 0; k < ipu__cpu_of(e)->kernels[i].call->n_operands; k++)
            n += ipu__cpu_of(e)->kernels[i].call->layout[k] != IPU__LAYOUT_PLAIN;
    return n;
}

/* ---- layouts ---- */

/* x -> conv of few channels -> relu -> max pool -> conv -> y. `seen`: the host also reads the intermediate
 * values. */
static machine small_network(int64_t rows, bool seen)
{
    machine       m     = machine_make();
    const int64_t two[] = {2, 2};
    ipu_tensor    x     = outer(&m, IPU_FLOAT, IPU_SHAPE(rows, 3, 12, 12), "x"),
               w        = outer(&m, IPU_FLOAT, IPU_SHAPE(5, 3, 3, 3), "w"),
               y        = outer(&m, IPU_FLOAT, IPU_SHAPE(rows, 4, 3, 3), "y"),
               none     = outer(&m, IPU_FLOAT, IPU_SHAPE(0), "none");
    ipu_shape  wide     = IPU_SHAPE(rows, 5, 10, 10);
    ipu_tensor a = seen ? outer(&m, IPU_FLOAT, wide, "a") : inner(&m, wide), b = inner(&m, wide);
    ipu_tensor c = inner(&m, IPU_SHAPE(rows, 5, 5, 5)), v = outer(&m, IPU_FLOAT, IPU_SHAPE(4, 5, 3, 3), "v");
    ipu_tensor indices = ipu_graph_add_variable(m.g, IPU_INT32, IPU_SHAPE(rows, 5, 5, 5), NULL);
    ipu_graph_map_linearly(m.g, indices);
    const ipu_attribute pool[] = {{.name = "kernel", .kind = IPU_ATTRIBUTE_INTS, .ints = two, .n_ints = 2},
                                  {.name = "strides", .kind = IPU_ATTRIBUTE_INTS, .ints = two, .n_ints = 2}};
    kernel(&m, "conv", NULL, 0, (ipu_tensor[]){x, w, none, none, none, none, none, a}, 8);
    kernel(&m, "relu", NULL, 0, (ipu_tensor[]){a, b}, 2);
    kernel(&m, "max_pool", pool, 2, (ipu_tensor[]){b, c, indices}, 3);
    kernel(&m, "conv", NULL, 0, (ipu_tensor[]){c, v, none, none, none, none, none, y}, 8);
    return m;
}

static void run_small(ipu_engine *e, int64_t rows)
{
    fill(e, "x", rows * 3 * 144);
    fill(e, "w", 135);
    fill(e, "v", 180);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
}

static void buffers_between_kernels_lie_as_kernels_like_them(void **unused)
{
    (void)unused;
    for (int64_t rows = 16; rows <= 64; rows += 16) {
        machine         m   = small_network(rows, false);
        ipu_executable *exe = compile(&m);
        ipu_engine     *e = start(exe, "true", "2"), *plain = start(exe, "false", "2");
        assert_int_equal(count_layouts(plain), 0);
        assert_int_equal(count_chunked(plain), 0);
        if (ipu__cpu_features() & IPU__CPU_AVX512F) assert_true(count_layouts(e) > 0);
        run_small(e, rows);
        run_small(plain, rows);
        compare(plain, e, "y", rows * 36);
        ipu_engine_destroy(e);
        ipu_engine_destroy(plain);
        ipu_executable_release(exe);
        ipu_graph_destroy(m.g);
    }
}

static void what_the_host_reads_lies_plain(void **unused)
{
    (void)unused;
    machine         m   = small_network(16, true);
    ipu_executable *exe = compile(&m);
    ipu_engine     *e = start(exe, "true", "2"), *plain = start(exe, "false", "2");
    assert_int_equal(ipu__cpu_of(e)->kernels[0].call->layout[7], IPU__LAYOUT_PLAIN);
    run_small(e, 16);
    run_small(plain, 16);
    compare(plain, e, "a", 16 * 500);
    ipu_engine_destroy(e);
    ipu_engine_destroy(plain);
    ipu_executable_release(exe);
    ipu_graph_destroy(m.g);
}

static void a_loaded_executable_has_the_same_choices(void **unused)
{
    (void)unused;
    machine         m   = small_network(ROWS, false);
    ipu_executable *exe = compile(&m), *again;
    void           *bytes;
    size_t          n;
    assert_int_equal(ipu_executable_serialise(exe, &bytes, &n), IPU_OK);
    assert_int_equal(ipu_executable_deserialise(bytes, n, NULL, 0, NULL, &again), IPU_OK);
    ipu_engine *a = start(exe, "true", "2"), *b = start(again, "true", "2");
    for (size_t i = 0; i < exe->kernels.n; i++) {
        assert_int_equal(ipu__cpu_of(a)->kernels[i].n_chunks, ipu__cpu_of(b)->kernels[i].n_chunks);
        assert_memory_equal(ipu__cpu_of(a)->kernels[i].call->layout, ipu__cpu_of(b)->kernels[i].call->layout,
                            IPU__MAX_OPERANDS);
    }
    free(bytes);
    ipu_engine_destroy(a);
    ipu_engine_destroy(b);
    ipu_executable_release(exe);
    ipu_executable_release(again);
    ipu_graph_destroy(m.g);
}

/* ---- depth first ---- */

static void product(const machine *m, ipu_tensor a, ipu_tensor b, ipu_tensor out)
{
    ipu_tensor none = ipu_graph_add_variable(m->g, IPU_FLOAT, IPU_SHAPE(0), NULL);
    ipu_graph_map_linearly(m->g, none);
    kernel(m, "matmul", NULL, 0, (ipu_tensor[]){a, b, none, none, none, none, out}, 7);
}

/* tanh(x w) w and so on, whose values would share memory in pairs; finally added to the first. */
static machine deep_network(int depth, ipu_tensor *out)
{
    machine    m     = machine_make();
    ipu_shape  shape = IPU_SHAPE(ROWS, 96);
    ipu_tensor x = outer(&m, IPU_FLOAT, shape, "x"), w = outer(&m, IPU_FLOAT, IPU_SHAPE(96, 96), "w");
    ipu_tensor first = inner(&m, shape), at = first;
    *out = outer(&m, IPU_FLOAT, shape, "y");
    product(&m, x, w, first);
    for (int i = 0; i < depth; i++) {
        ipu_tensor bent = inner(&m, shape), next = inner(&m, shape);
        kernel(&m, "tanh", NULL, 0, (ipu_tensor[]){at, bent}, 2);
        product(&m, bent, w, next);
        at = next;
    }
    kernel(&m, "add", NULL, 0, (ipu_tensor[]){first, at, *out}, 3);
    return m;
}

static void rows_go_through_kernels_depth_first(void **unused)
{
    (void)unused;
    ipu_tensor      y;
    machine         m         = deep_network(4, &y);
    ipu_executable *exe       = compile(&m);
    const char     *threads[] = {"1", "2", "4"};
    ipu_engine     *plain     = start(exe, "false", "1");
    fill(plain, "x", ROWS * 96);
    fill(plain, "w", 96 * 96);
    assert_int_equal(ipu_engine_run(plain, 0), IPU_OK);
    for (int t = 0; t < 3; t++) {
        ipu_engine *e = start(exe, "true", threads[t]);
        assert_int_equal(count_chunked(e), 10);
        fill(e, "x", ROWS * 96);
        fill(e, "w", 96 * 96);
        for (int i = 0; i < 2; i++) assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
        compare(plain, e, "y", n_of(y));
        ipu_engine_destroy(e);
    }
    ipu_engine_destroy(plain);
    ipu_executable_release(exe);
    ipu_graph_destroy(m.g);
}

/* The second product reads all rows of the first, so they cannot run together. */
static void what_reads_all_rows_waits_for_them(void **unused)
{
    (void)unused;
    machine    m     = machine_make();
    ipu_shape  shape = IPU_SHAPE(ROWS, ROWS);
    ipu_tensor x = outer(&m, IPU_FLOAT, shape, "x"), y = outer(&m, IPU_FLOAT, shape, "y");
    ipu_tensor a = inner(&m, shape), b = inner(&m, shape), c = inner(&m, shape);
    product(&m, x, x, a);
    kernel(&m, "tanh", NULL, 0, (ipu_tensor[]){a, b}, 2);
    product(&m, x, b, c);
    kernel(&m, "tanh", NULL, 0, (ipu_tensor[]){c, y}, 2);
    ipu_executable *exe = compile(&m);
    ipu_engine     *e = start(exe, "true", "2"), *plain = start(exe, "false", "2");
    assert_int_equal(exe->code.at[0].n, 2);
    assert_int_equal(exe->code.at[2].n, 2);
    fill(e, "x", ROWS * ROWS);
    fill(plain, "x", ROWS * ROWS);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_run(plain, 0), IPU_OK);
    compare(plain, e, "y", ROWS * ROWS);
    ipu_engine_destroy(e);
    ipu_engine_destroy(plain);
    ipu_executable_release(exe);
    ipu_graph_destroy(m.g);
}

static void a_kernel_that_fails_in_a_chunk_is_named(void **unused)
{
    (void)unused;
    machine    m     = machine_make();
    ipu_shape  shape = IPU_SHAPE(ROWS, 96);
    ipu_tensor x = outer(&m, IPU_FLOAT, shape, "x"), w = outer(&m, IPU_FLOAT, IPU_SHAPE(96, 96), "w");
    ipu_tensor labels = outer(&m, IPU_INT32, IPU_SHAPE(ROWS), "labels"), a = inner(&m, shape),
               b    = inner(&m, shape);
    ipu_tensor loss = inner(&m, IPU_SHAPE(ROWS)), weight = inner(&m, IPU_SHAPE(ROWS));
    ipu_tensor none        = outer(&m, IPU_FLOAT, IPU_SHAPE(0), "none");
    int32_t    wrong[ROWS] = {0};
    wrong[ROWS - 1]        = 1000;
    product(&m, x, w, a);
    kernel(&m, "log_softmax", NULL, 0, (ipu_tensor[]){a, b}, 2);
    kernel(&m, "nll", NULL, 0, (ipu_tensor[]){b, labels, none, loss, weight}, 5);
    ipu_executable *exe = compile(&m);
    ipu_engine     *e   = start(exe, "true", "2");
    assert_int_equal(count_chunked(e), 3);
    fill(e, "x", ROWS * 96);
    fill(e, "w", 96 * 96);
    assert_int_equal(ipu_engine_write(e, "labels", wrong, sizeof wrong), IPU_OK);
    assert_int_not_equal(ipu_engine_run(e, 0), IPU_OK);
    if (!strstr(ipu_message(), "nll") || !strstr(ipu_message(), "1000")) fail_msg("%s", ipu_message());
    wrong[ROWS - 1] = 1;
    assert_int_equal(ipu_engine_write(e, "labels", wrong, sizeof wrong), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_graph_destroy(m.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_between_kernels_lie_as_kernels_like_them),
        cmocka_unit_test(what_the_host_reads_lies_plain),
        cmocka_unit_test(a_loaded_executable_has_the_same_choices),
        cmocka_unit_test(rows_go_through_kernels_depth_first),
        cmocka_unit_test(what_reads_all_rows_waits_for_them),
        cmocka_unit_test(a_kernel_that_fails_in_a_chunk_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
