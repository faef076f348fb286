/* Kernels on operands as they come: transposed, misaligned, in place, overlapping; on several threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/cpu/impl.h"
#include "engine/executable.h"
#include "ipu/ipu.h"

enum { M = 70, K = 90, N = 110, SIZE = 40000 };

static ipu_graph *new_graph(void)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", 2, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 2, &g), IPU_OK);
    return g;
}

static ipu_tensor new_variable(ipu_graph *g, ipu_type type, ipu_shape shape, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, type, shape, name);
    ipu_graph_map_linearly(g, t);
    ipu_graph_add_host_write(g, name, t);
    ipu_graph_add_host_read(g, name, t);
    return t;
}

static ipu_engine *new_engine(ipu_graph *g, ipu_program p, const char *threads)
{
    ipu_options    *options;
    ipu_executable *exe;
    ipu_engine     *e;
    assert_string_equal(ipu_graph_message(g), "");
    assert_int_equal(ipu_options_create(&options), IPU_OK);
    assert_int_equal(ipu_options_set(options, "threads", threads), IPU_OK);
    if (ipu_executable_compile(g, &p, 1, options, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_graph_destroy(g); /* everything, including attributes, must be the executable's own */
    if (ipu_engine_create(exe, options, &e) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_executable_release(exe);
    ipu_options_destroy(options);
    return e;
}

static void add_kernel(ipu_program p, const char *kernel, ipu_tensor a, ipu_tensor b, ipu_tensor out)
{
    ipu_program_add_kernel(p, kernel, NULL, 0, (ipu_tensor[]){a, b, out}, 3);
}

/* Small integers, so that every order of summation gives the same result. */
static void fill(float *x, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) x[i] = (float)((i * 7 + seed * 13) % 11) - 5;
}

/* out transposed = a transposed * b, of which a is a column of blocks and b misaligned by an element. */
static void operands_that_are_no_plain_runs_are_packed(void **state)
{
    (void)state;
    static const char *const threads[] = {"1", "3"};
    static float             a[K][M + 1], b[K * N + 1], out[N][M];
    for (size_t t = 0; t < 2; t++) {
        ipu_graph  *g = new_graph();
        ipu_program p = ipu_program_sequence(g);
        ipu_tensor  x = new_variable(g, IPU_FLOAT, IPU_SHAPE(K, M + 1), "a"),
                   y  = new_variable(g, IPU_FLOAT, IPU_SHAPE(K * N + 1), "b"),
                   z  = new_variable(g, IPU_FLOAT, IPU_SHAPE(N, M), "out");
        add_kernel(p, "matmul", ipu_tensor_transpose(ipu_tensor_slice(x, 1, M + 1, 1)),
                   ipu_tensor_reshape(ipu_tensor_slice(y, 1, K * N + 1, 0), IPU_SHAPE(K, N)),
                   ipu_tensor_transpose(z));
        ipu_engine *e = new_engine(g, p, threads[t]);
        for (unsigned r = 0; r < 2; r++) {
            fill(&a[0][0], sizeof a / sizeof(float), r);
            fill(b, sizeof b / sizeof(float), r + 5);
            assert_int_equal(ipu_engine_write_replica(e, "a", r, a, sizeof a), IPU_OK);
            assert_int_equal(ipu_engine_write_replica(e, "b", r, b, sizeof b), IPU_OK);
        }
        if (ipu_engine_run(e, 0) != IPU_OK) fail_msg("%s", ipu_message());
        for (unsigned r = 0; r < 2; r++) {
            fill(&a[0][0], sizeof a / sizeof(float), r);
            fill(b, sizeof b / sizeof(float), r + 5);
            assert_int_equal(ipu_engine_read_replica(e, "out", r, out, sizeof out), IPU_OK);
            for (int i = 0; i < M; i++)
                for (int j = 0; j < N; j++) {
                    float sum = 0;
                    for (int k = 0; k < K; k++) sum += a[k][i + 1] * b[1 + k * N + j];
                    if (out[j][i] != sum)
                        fail_msg("[%d,%d]: %g, not %g", i, j, (double)out[j][i], (double)sum);
                }
        }
        ipu_engine_counters counters;
        ipu_engine_get_counters(e, &counters);
        assert_int_equal(counters.supersteps, 1);
        ipu_engine_destroy(e);
    }
}

/* x[0:n] += y in place; x[1:n] = x[0:n-1] + y: each element from its old neighbour, which is itself
 * overwritten. */
static void outputs_over_inputs_see_the_old_values(void **state)
{
    (void)state;
    static const char *const threads[] = {"1", "3"};
    static int32_t           x[SIZE + 16], y[SIZE], found[SIZE + 16];
    for (size_t t = 0; t < 2; t++)
        for (int64_t shift = 0; shift <= 16;
             shift += shift ? 15 : 1) { /* 16: aligned, but still overlapping */
            ipu_graph  *g = new_graph();
            ipu_program p = ipu_program_sequence(g);
            ipu_tensor  a = new_variable(g, IPU_INT32, IPU_SHAPE(SIZE + 16), "x"),
                       b  = new_variable(g, IPU_INT32, IPU_SHAPE(SIZE), "y");
            add_kernel(p, "add", ipu_tensor_slice(a, 0, SIZE, 0), b,
                       ipu_tensor_slice(a, shift, SIZE + shift, 0));
            ipu_engine *e = new_engine(g, p, threads[t]);
            for (int32_t i = 0; i < SIZE + 16; i++) x[i] = i * 3;
            for (int32_t i = 0; i < SIZE; i++) y[i] = i % 17;
            assert_int_equal(ipu_engine_write(e, "x", x, sizeof x), IPU_OK);
            assert_int_equal(ipu_engine_write(e, "y", y, sizeof y), IPU_OK);
            if (ipu_engine_run(e, 0) != IPU_OK) fail_msg("%s", ipu_message());
            for (int32_t i = 0; i < SIZE; i++) x[i + shift] = i * 3 + y[i];
            for (int r = 0; r < 2; r++) {
                assert_int_equal(ipu_engine_read_replica(e, "x", r, found, sizeof found), IPU_OK);
                assert_memory_equal(found, x, sizeof x);
            }
            ipu_engine_destroy(e);
        }
}

static void only_the_elements_of_the_view_are_written(void **state)
{
    (void)state;
    float       found[6][4];
    ipu_graph  *g   = new_graph();
    ipu_program p   = ipu_program_sequence(g);
    ipu_tensor  x   = new_variable(g, IPU_FLOAT, IPU_SHAPE(6, 4), "x"),
               part = ipu_tensor_slice(ipu_tensor_slice(x, 1, 3, 1), 2, 5, 0);
    {
        char          name[] = "value"; /* names and values of attributes are copied */
        ipu_attribute value  = IPU_FLOAT_ATTRIBUTE(name, 2.5);
        ipu_program_add_kernel(p, "fill", &value, 1, &part, 1);
        memset(name, 'x', sizeof name - 1);
    }
    ipu_engine *e = new_engine(g, p, "2");
    memset(found, 0, sizeof found);
    assert_int_equal(ipu_engine_write(e, "x", found, sizeof found), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "x", found, sizeof found), IPU_OK);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 4; j++)
            assert_true(found[i][j] == (i >= 2 && i < 5 && j >= 1 && j < 3 ? 2.5f : 0.0f));
    ipu_engine_destroy(e);
}

static bool fits_all(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)call, (void)machine, (void)n_parts;
    return true;
}

static size_t no_answer(const ipu__kernel_call *call, int n_parts)
{
    (void)call, (void)n_parts;
    return SIZE_MAX;
}

static ipu_status must_not_run(const ipu__kernel_call *call, void *kernel_state, void *const *operand,
                               void *scratch, int part, int n_parts)
{
    (void)call, (void)kernel_state, (void)operand, (void)scratch, (void)part, (void)n_parts;
    fail_msg("a kernel ran without its scratch memory");
    return IPU_OK;
}

static double little_work(const ipu__kernel_call *call)
{
    (void)call;
    return 1;
}

static void scratch_that_cannot_be_had_is_no_engine(void **state)
{
    (void)state;
    static const ipu__cpu_impl impl[] = {
        {.head = {"greedy", fits_all}, .scratch_bytes = no_answer, .run = must_not_run}};
    ipu_graph  *g = new_graph();
    ipu_program p = ipu_program_sequence(g);
    ipu_tensor  x = new_variable(g, IPU_FLOAT, IPU_SHAPE(4), "x");
    add_kernel(p, "add", x, x, x);
    ipu_executable *exe;
    ipu_engine     *e;
    assert_int_equal(ipu_executable_compile(g, &p, 1, NULL, &exe), IPU_OK);
    ipu__kernel_def greedy      = *exe->kernels.at[0].call.def;
    greedy.work                 = little_work; /* its op looks it up by its record */
    greedy.implementations      = IPU__ON_CPU(impl);
    exe->kernels.at[0].call.def = &greedy;
    assert_int_equal(ipu_engine_create(exe, NULL, &e), IPU_OUT_OF_MEMORY);
    assert_null(e);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_that_are_no_plain_runs_are_packed),
        cmocka_unit_test(outputs_over_inputs_see_the_old_values),
        cmocka_unit_test(only_the_elements_of_the_view_are_written),
        cmocka_unit_test(scratch_that_cannot_be_had_is_no_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
