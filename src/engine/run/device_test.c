/* Engines on devices: what they hold and when, counters of their runs, errors reported by devices. */
#include "device/sandbox_test.h"

#include "engine/engine.h"
#include "ipu/graph.h"

enum { N = 64 };

#define FIELDS(F) F(INOUT_VECTOR, float, x)
IPU_VERTEX(Twice, FIELDS)
{
    for (size_t i = 0; i < v->x.size; i++) v->x.data[i] *= 2;
    return true;
}

/* x = in, doubled three times over four tiles, out = x. */
static ipu_executable *compiled(const char *target_name, int64_t n_ipus)
{
    ipu_target      target;
    ipu_graph      *g;
    ipu_executable *exe;
    assert_status(ipu_target_find(target_name, n_ipus, &target), IPU_OK);
    assert_status(ipu_graph_create(&target, 1, &g), IPU_OK);
    ipu_graph_add_codelet(g, &Twice);
    ipu_tensor      x    = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(N), "x");
    ipu_compute_set cs   = ipu_graph_add_compute_set(g, "twice");
    ipu_program     body = ipu_program_sequence(g), p = ipu_program_sequence(g);
    ipu_graph_map_linearly(g, x);
    ipu_graph_add_host_write(g, "x", x);
    for (int i = 0; i < 4; i++) {
        ipu_vertex v = ipu_graph_add_vertex(g, cs, "Twice");
        ipu_graph_set_vertex_tile(g, v, i);
        ipu_vertex_connect(v, "x", ipu_tensor_slice(x, i * N / 4, (i + 1) * N / 4, 0));
    }
    ipu_stream in  = ipu_graph_add_host_to_device(g, "in", IPU_FLOAT, N, IPU_STREAM_REPLICATE);
    ipu_stream out = ipu_graph_add_device_to_host(g, "out", IPU_FLOAT, N);
    ipu_program_add_execute(body, cs);
    ipu_program_add_read(p, in, x);
    ipu_program_add_repeat(p, 3, body);
    ipu_program_add_write(p, x, out);
    assert_status(ipu_executable_compile(g, &p, 1, NULL, &exe), IPU_OK);
    ipu_graph_destroy(g);
    return exe;
}

static float data[2][N];

static ipu_engine *created(ipu_executable *exe)
{
    ipu_engine *e;
    assert_status(ipu_engine_create(exe, NULL, &e), IPU_OK);
    assert_status(ipu_engine_connect_stream(e, "in", data[0], sizeof data[0]), IPU_OK);
    assert_status(ipu_engine_connect_stream(e, "out", data[1], sizeof data[1]), IPU_OK);
    return e;
}

static size_t n_attached(void)
{
    ipu_device_list *list;
    assert_status(ipu_device_list_create(0, &list), IPU_OK);
    size_t n = ipu_device_list_active(list)->n_processes;
    ipu_device_list_destroy(list);
    return n;
}

static void an_engine_holds_a_device_and_counts_on_it(void **state)
{
    (void)state;
    setenv("IPU_ENGINE_OPTIONS", "{\"estimate\": true}", 1);
    ipu_executable     *exe = compiled("gc200", 2);
    ipu_engine         *e   = created(exe);
    ipu_device_counters c;
    unsetenv("IPU_ENGINE_OPTIONS");
    assert_int_equal(ipu_device_id(e->device), 4);
    data[0][5] = 3;
    assert_status(ipu_engine_run(e, 0), IPU_OK);
    assert_status(ipu_engine_run(e, 0), IPU_OK);
    assert_true(data[1][5] == 24);
    assert_status(ipu_engine_write(e, "x", data[0], sizeof data[0]), IPU_OK);
    ipu_device_get_counters(e->device, &c);
    assert_int_equal(c.runs, 2);
    assert_int_equal(c.supersteps, 6);
    assert_int_equal(c.host_bytes, 5 * (int64_t)sizeof data[0]);
    assert_true(exe->programs.at[0].cycles > 0);
    assert_int_equal(c.cycles, 2 * exe->programs.at[0].cycles);
    assert_true(c.tile_bytes >= (int64_t)sizeof data[0]);
    assert_true(c.utilisation_session > 0 && c.utilisation_session < 1);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    assert_int_equal(n_attached(), 0);
}

static void without_an_estimate_cycles_are_not_known(void **state)
{
    (void)state;
    ipu_device_counters c;
    ipu_executable     *exe = compiled("gc200", 1);
    ipu_engine         *e   = created(exe);
    assert_status(ipu_engine_run(e, 0), IPU_OK);
    ipu_device_get_counters(e->device, &c);
    assert_int_equal(c.cycles, -1);
    assert_int_equal(c.tile_bytes, -1);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
}

static void options_say_when_it_attaches(void **state)
{
    (void)state;
    ipu_executable *exe = compiled("gc200", 1);
    setenv("IPU_ENGINE_OPTIONS", "{\"device.attach\": \"onDemand\"}", 1);
    ipu_engine *e = created(exe);
    assert_int_equal(n_attached(), 0);
    assert_status(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(n_attached(), 1);
    ipu_engine_destroy(e);
    setenv("IPU_ENGINE_OPTIONS", "{\"device.attach\": \"never\"}", 1);
    e = created(exe);
    assert_status(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(n_attached(), 0);
    ipu_engine_destroy(e);
    setenv("IPU_ENGINE_OPTIONS", "{\"device.attach\": \"sometimes\"}", 1);
    assert_status(ipu_engine_create(exe, NULL, &e), IPU_INVALID);
    assert_message("always, onDemand or never");
    unsetenv("IPU_ENGINE_OPTIONS");
    ipu_executable_release(exe);
}

/* Training, then inference, on a partition of one IPU: elsewhere "Failed to acquire 1 IPU(s)". */
static void engines_of_one_process_share_a_hard_device(void **state)
{
    (void)state;
    put_config("p.conf", "{\"ipus\": 1}");
    ipu_executable *exe = compiled("gc200", 1), *two = compiled("gc200", 2);
    ipu_engine     *a = created(exe), *b = created(exe), *none;
    assert_ptr_equal(a->device, b->device);
    assert_status(ipu_engine_create(two, NULL, &none), IPU_NOT_FOUND);
    assert_message("2 IPUs are wanted, and partition p has 1");
    assert_null(none);
    ipu_engine_destroy(a);
    assert_status(ipu_engine_run(b, 0), IPU_OK);
    ipu_engine_destroy(b);
    assert_int_equal(n_attached(), 0);
    ipu_executable_release(exe);
    ipu_executable_release(two);
}

static void an_engine_can_be_put_on_a_device(void **state)
{
    (void)state;
    ipu_device     *d;
    ipu_engine     *e;
    ipu_executable *exe = compiled("gc200", 2);
    assert_status(ipu_device_open(3, &d), IPU_OK);
    assert_status(ipu_engine_create_on(exe, NULL, d, &e), IPU_INVALID);
    assert_message("the program needs 2 IPUs, and the device has 1");
    ipu_device_close(d);
    assert_status(ipu_device_open(5, &d), IPU_OK);
    assert_status(ipu_engine_create_on(exe, NULL, d, &e), IPU_OK);
    assert_int_equal(ipu_device_id(d), 5);
    ipu_device_close(d); /* the engine keeps it */
    assert_int_equal(n_attached(), 1);
    assert_int_equal(ipu_device_id(e->device), 5);
    ipu_engine_destroy(e);
    assert_int_equal(n_attached(), 0);
    ipu_executable_release(exe);
}

static void simulated_errors_stop_runs_until_reset(void **state)
{
    (void)state;
    setenv("GCDA_OPTIONS",
           "{\"simulateSOCError.errorList\": \"IPUSOFTERR\", \"simulateSOCError.triggerCount\": \"2\"}", 1);
    ipu_executable *exe = compiled("gc200", 1);
    ipu_engine     *e   = created(exe);
    data[0][0]          = 1;
    assert_status(ipu_engine_run(e, 0), IPU_OK);
    data[1][0] = 0;
    assert_status(ipu_engine_run(e, 0), IPU_DEVICE_ERROR);
    assert_message("IPUSOFTERR");
    assert_true(data[1][0] == 0); /* it did not run */
    assert_status(ipu_device_reset(0), IPU_OK);
    assert_status(ipu_engine_run(e, 0), IPU_OK);
    assert_true(data[1][0] == 8);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SANDBOXED(an_engine_holds_a_device_and_counts_on_it),
        SANDBOXED(without_an_estimate_cycles_are_not_known),
        SANDBOXED(options_say_when_it_attaches),
        SANDBOXED(engines_of_one_process_share_a_hard_device),
        SANDBOXED(an_engine_can_be_put_on_a_device),
        SANDBOXED(simulated_errors_stop_runs_until_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
