/* Every allocation of building, printing, parsing, compiling, saving, loading and running a program made to fail,
 * one after another: no crash, no leak, IPU_OUT_OF_MEMORY each time.
 */
#include <stdatomic.h>

#include "base/alloc.h"
#include "support/machine.h"
#include "support/random_program.h"

/* ---- the allocator: refuses number `refuse`, and all after it if `for_good` ---- */

static struct {
    atomic_long n, live, refused;
    long        refuse; /* 0: none */
    bool        for_good;
} heap;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        atomic_fetch_sub(&heap.live, ptr != NULL);
        free(ptr);
        return NULL;
    }
    long number = atomic_fetch_add(&heap.n, 1) + 1;
    if (heap.refuse && (number == heap.refuse || (heap.for_good && number > heap.refuse))) {
        atomic_fetch_add(&heap.refused, 1);
        return NULL;
    }
    void *p = realloc(ptr, new_bytes);
    if (p && !ptr) atomic_fetch_add(&heap.live, 1);
    return p;
}

/* ---- a program with something of everything ---- */

static ipu_vertex add_vertex(ipu_graph *g, ipu_compute_set cs, const char *codelet)
{
    ipu_vertex v = ipu_graph_add_vertex(g, cs, codelet);
    ipu_graph_set_vertex_tile(g, v, 3);
    return v;
}

static ipu_tensor add_variable(ipu_graph *g, ipu_type type, ipu_shape shape, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, type, shape, name);
    ipu_graph_map_linearly_by(g, t, 2, 2);
    ipu_graph_set_tile_intervals(g, t, &(ipu_tile_interval){5, 0, 1}, 1);
    return t;
}

static ipu_compute_set add_vertices(ipu_graph *g, ipu_tensor x, ipu_tensor y, ipu_tensor n, ipu_tensor flag)
{
    ipu_compute_set cs     = ipu_graph_add_compute_set(g, "work");
    ipu_tensor      flat   = ipu_tensor_flatten(x);
    ipu_tensor      rows[] = {ipu_tensor_slice(flat, 0, 3, 0), ipu_tensor_slice(flat, 9, 12, 0)};
    ipu_vertex      sums = add_vertex(g, cs, "RowSums"), lookup = add_vertex(g, cs, "Lookup");
    ipu_vertex      step = add_vertex(g, cs, "Step");
    ipu_vertex_connect_list(sums, "rows", rows, 2);
    ipu_vertex_connect(sums, "sums", ipu_tensor_slice(y, 0, 2, 0));
    ipu_vertex_connect(lookup, "from", ipu_tensor_transpose(x));
    ipu_vertex_connect(lookup, "to", ipu_tensor_reverse(ipu_tensor_slice(y, 2, 6, 0), 0));
    ipu_vertex_set(lookup, "n", 4);
    ipu_vertex_set_data(lookup, "table", (int32_t[]){1, 2, 3}, 3);
    ipu_vertex_connect(step, "counter", n);
    ipu_vertex_connect(step, "flag", flag);
    ipu_vertex_set(step, "by", 1);
    ipu_vertex_set(step, "modulo", 3);
    return cs;
}

static void add_transfers(ipu_program p, ipu_tensor x, ipu_tensor y, ipu_tensor rows)
{
    ipu_graph        *g   = p.graph;
    ipu_stream        in  = ipu_graph_add_host_to_device(g, "in", IPU_INT32, 12, IPU_STREAM_BROADCAST);
    ipu_stream        out = ipu_graph_add_device_to_host(g, "out", IPU_INT32, 12);
    ipu_remote_buffer far = ipu_graph_add_remote_buffer(g, "far", IPU_INT32, 6, 4);
    ipu_program_add_read(p, in, ipu_tensor_transpose(x));
    ipu_program_add_remote_write(p, x, far, rows);
    ipu_program_add_remote_read(p, far, (ipu_tensor){g, 0}, ipu_tensor_concat2(y, ipu_tensor_index(x, 0), 0));
    ipu_program_add_write(p, x, out);
    ipu_program_add_cross_replica_copy(p, ipu_tensor_slice(x, 0, 1, 0), y, (int64_t[]){1, 0}, 2);
    ipu_tensor sums = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4, 3), "sums");
    ipu_graph_map_linearly(g, sums);
    ipu_program_add_kernel(p, "fill", (ipu_attribute[]){IPU_FLOAT_ATTRIBUTE("value", 1)}, 1, &sums, 1);
    ipu_program_add_all_reduce(p, ipu_tensor_slice(sums, 1, 3, 1));
    ipu_program_add_all_reduce_wait(p);
}

static void add_control(ipu_program p, ipu_program body, ipu_tensor n, ipu_tensor flag, ipu_tensor y)
{
    ipu_graph      *g    = p.graph;
    ipu_program     none = {g, 0}, fill = ipu_program_sequence(g);
    ipu_function    f       = ipu_graph_add_function(g, body, "f");
    ipu_switch_case cases[] = {{1, body}, {2, none}};
    ipu_program_add_call(p, f);
    ipu_program_add_repeat(p, 2, body);
    ipu_program_add_while_true(p, body, flag, none);
    ipu_program_add_if(p, flag, body, none);
    ipu_program_add_switch(p, n, cases, 2, none);
    ipu_program_add_kernel(fill, "fill", (ipu_attribute[]){IPU_INT_ATTRIBUTE("value", 7)}, 1, &y, 1);
    ipu_program_add_parallel(p, (ipu_program[]){fill, none}, 2);
    ipu_program_add_sync(p, IPU_SYNC_GLOBAL);
    ipu_program_add_print(p, "y", y);
    ipu_program_add_abort_if(p, flag, "not now");
    ipu_program_add_write_undef(p, y);
}

static ipu_program build(ipu_graph *g)
{
    ipu_program p = ipu_program_sequence(g), body = ipu_program_sequence(g);
    ipu_graph  *window = ipu_graph_add_virtual_range(g, 2, 9);
    for (size_t i = 0; i < random_program_n_codelets; i++)
        ipu_graph_add_codelet(g, random_program_codelets[i]);
    ipu_tensor x    = add_variable(g, IPU_INT32, IPU_SHAPE(2, 6), "x"),
               y    = add_variable(g, IPU_INT32, IPU_SHAPE(6), "y");
    ipu_tensor n    = add_variable(g, IPU_INT32, IPU_SCALAR, "n"),
               flag = add_variable(g, IPU_BOOL, IPU_SCALAR, "flag");
    ipu_tensor z    = ipu_graph_clone(g, ipu_tensor_transpose(x), "z");
    ipu_tensor rows = ipu_graph_add_constant(g, IPU_UINT32, IPU_SHAPE(2), (uint32_t[]){2, 1}, "rows");
    ipu_tensor ones = ipu_graph_add_constant_value(g, IPU_INT32, IPU_SHAPE(6), 1, "ones");
    if (window) ipu_graph_map_linearly(window, z);
    ipu_graph_set_tile_mapping(g, rows, 0);
    ipu_graph_set_tile_mapping(g, ones, 1);
    ipu_graph_set_initial_value(g, n, &(int32_t){0});
    ipu_graph_set_initial_value(g, ipu_tensor_index(x, 1), (int32_t[]){1, 2, 3, 4, 5, 6});
    ipu_graph_add_host_read(g, "z", z);
    ipu_graph_add_host_write(g, "x", x);
    ipu_program_add_execute(body, add_vertices(g, x, y, n, flag));
    add_transfers(p, x, y, rows);
    ipu_program_add_copy(p, x, ipu_tensor_transpose(z));
    ipu_program_add_kernel(p, "add", NULL, 0, (ipu_tensor[]){y, ones, y}, 3);
    ipu_program_add_kernel(p, "fill", (ipu_attribute[]){IPU_INT_ATTRIBUTE("value", 3)}, 1, &y, 1);
    ipu_tensor square = ipu_tensor_reshape(y, IPU_SHAPE(2, 3));
    ipu_tensor wide   = ipu_tensor_reshape(ipu_tensor_index(x, 0), IPU_SHAPE(3, 2)),
               out    = ipu_tensor_slice(x, 0, 2, 1);
    ipu_program_add_kernel(p, "matmul", NULL, 0, (ipu_tensor[]){square, wide, out}, 3);
    add_control(p, body, n, flag, y);
    return p;
}

/* ---- its whole life ---- */

static int32_t stream_in[12], stream_out[2][12];

static ipu_status run_engine(ipu_engine *e)
{
    int32_t x[12] = {0};
    IPU_TRY(ipu_engine_connect_stream(e, "in", stream_in, sizeof stream_in));
    for (int64_t r = 0; r < 2; r++)
        IPU_TRY(ipu_engine_connect_stream_replica(e, "out", r, stream_out[r], sizeof stream_out[r]));
    IPU_TRY(ipu_engine_write(e, "x", x, sizeof x));
    IPU_TRY(ipu_engine_run(e, 0));
    ipu_step_time *times;
    size_t         n;
    IPU_TRY(ipu_engine_step_times(e, &times, &n));
    ipu_free(times);
    return ipu_engine_read(e, "z", x, sizeof x);
}

/* The executable, by way of its file. */
static ipu_status save_and_load(ipu_executable **exe)
{
    void           *data = NULL;
    size_t          bytes;
    ipu_executable *loaded = NULL;
    ipu_status      status = ipu_executable_serialise(*exe, &data, &bytes);
    if (status == IPU_OK)
        status = ipu_executable_deserialise(data, bytes, random_program_codelets, random_program_n_codelets,
                                            NULL, &loaded);
    ipu_free(data);
    ipu_executable_release(*exe);
    *exe = loaded;
    return status;
}

static ipu_status compile_and_run(ipu_graph *g, const ipu_program *p)
{
    ipu_options    *options = NULL;
    ipu_executable *exe     = NULL;
    ipu_engine     *e       = NULL;
    ipu_status      status  = ipu_options_create(&options);
    if (status == IPU_OK) status = ipu_options_set(options, "threads", "2");
    if (status == IPU_OK) status = ipu_options_set(options, "profile", "true");
    if (status == IPU_OK) status = ipu_executable_compile(g, p, 1, options, &exe);
    if (status == IPU_OK && !getenv("IPU_CHECK")) status = save_and_load(&exe); /* not of a checked one */
    if (status == IPU_OK) status = ipu_engine_create(exe, options, &e);
    if (status == IPU_OK) status = run_engine(e);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_options_destroy(options);
    return status;
}

static ipu_status print_and_parse(ipu_graph *g, const ipu_program *p)
{
    char      *text   = NULL;
    ipu_parsed parsed = {0};
    ipu_status status = ipu_graph_print(g, p, 1, IPU_PRINT_LOCATIONS, NULL, &text);
    if (status == IPU_OK)
        status = ipu_graph_parse(text, strlen(text), "text", random_program_codelets,
                                 random_program_n_codelets, NULL, &parsed);
    if (status == IPU_OK) status = compile_and_run(parsed.graph, parsed.programs);
    ipu_graph_destroy(parsed.graph);
    ipu_free(text);
    return status;
}

static ipu_status live(void)
{
    ipu_target target;
    ipu_graph *g = NULL;
    IPU_TRY(ipu_target_find("gc200", 2, &target));
    IPU_TRY(ipu_target_limit_tiles(&target, 12));
    IPU_TRY(ipu_graph_create(&target, 2, &g));
    ipu_program p      = build(g);
    ipu_status  status = ipu_graph_status(g);
    if (status == IPU_OK) status = compile_and_run(g, &p);
    if (status == IPU_OK) status = print_and_parse(g, &p);
    ipu_graph_destroy(g);
    return status;
}

static ipu_status live_with(long refuse, bool for_good)
{
    heap.refuse   = refuse;
    heap.for_good = for_good;
    atomic_store(&heap.n, 0);
    atomic_store(&heap.refused, 0);
    ipu_status status = live();
    if (atomic_load(&heap.live) != 0)
        fail_msg("allocation %ld refused: %ld left behind", refuse, atomic_load(&heap.live));
    return status;
}

/* A location that cannot be noted costs an error message its line, no more: such a program may go on. */
static void each_allocation_may_fail_once(void **state)
{
    (void)state;
    long tolerated = 0, n = 0;
    ipu__alloc_set(failing_alloc, NULL);
    assert_ok(live_with(0, false));
    n = atomic_load(&heap.n);
    assert_true(n > 100);
    for (long i = 1; i <= n; i++) {
        ipu_status status = live_with(i, false);
        if (atomic_load(&heap.refused) == 0) break;
        if (status != IPU_OK && status != IPU_OUT_OF_MEMORY)
            fail_msg("allocation %ld of %ld refused: status %d: %s", i, n, status, ipu_message());
        tolerated += status == IPU_OK;
    }
    ipu__alloc_set(NULL, NULL);
    assert_in_range(tolerated, 0, n / 20);
}

static void memory_may_end_anywhere(void **state)
{
    (void)state;
    ipu__alloc_set(failing_alloc, NULL);
    assert_ok(live_with(0, false));
    for (long i = 1, n = atomic_load(&heap.n); i <= n; i++) {
        ipu_status status = live_with(i, true);
        if (atomic_load(&heap.refused) == 0) break;
        if (status != IPU_OUT_OF_MEMORY)
            fail_msg("from allocation %ld of %ld on: status %d: %s", i, n, status, ipu_message());
    }
    ipu__alloc_set(NULL, NULL);
}

static int check_on(void **state)
{
    (void)state;
    return setenv("IPU_CHECK", "1", 1);
}

static int check_off(void **state)
{
    (void)state;
    return unsetenv("IPU_CHECK");
}

#define checking_too(test) cmocka_unit_test(test), cmocka_unit_test_setup_teardown(test, check_on, check_off)

int main(void)
{
    const struct CMUnitTest tests[] = {
        checking_too(each_allocation_may_fail_once),
        checking_too(memory_may_end_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
