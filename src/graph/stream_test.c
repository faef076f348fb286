/* Streams, remote buffers and host handles: what the graph stores, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"

static ipu_graph *new_graph(void)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    return g;
}

static void what_was_declared_is_kept(void **state)
{
    (void)state;
    ipu_graph        *g      = new_graph();
    char              name[] = "in";
    ipu_tensor        x      = ipu_graph_add_variable(g, IPU_HALF, IPU_SHAPE(6), "x");
    ipu_stream        in     = ipu_graph_add_host_to_device(g, name, IPU_HALF, 6, IPU_STREAM_BROADCAST);
    ipu_stream        out    = ipu_graph_add_device_to_host(g, "out", IPU_BOOL, 0);
    ipu_remote_buffer far    = ipu_graph_add_remote_buffer(g, "in", IPU_DOUBLE, 3, 9);
    name[0]                  = '?';
    ipu_graph_add_host_write(g, "in", x);
    ipu_graph_add_host_read(g, "in", ipu_tensor_reverse(x, 0));
    assert_int_equal(ipu_graph_status(g), IPU_OK);
    const ipu__stream *s = &g->streams.at[in.id];
    assert_string_equal(s->handle, "in");
    assert_true(s->to_device);
    assert_int_equal(s->type, IPU_HALF);
    assert_int_equal(s->n_elements, 6);
    assert_int_equal(s->mode, IPU_STREAM_BROADCAST);
    assert_false(g->streams.at[out.id].to_device);
    assert_int_equal(g->remote_buffers.at[far.id].n_rows, 9);
    assert_int_equal(g->remote_buffers.at[far.id].n_elements, 3);
    assert_int_equal(g->host_handles.n, 2);
    assert_true(g->host_handles.at[0].is_write);
    assert_false(g->host_handles.at[1].is_write);
    ipu_graph_destroy(g);
}

static void check_refused(ipu_graph *g, int line)
{
    char where[300];
    snprintf(where, sizeof where, "%s:%d", __FILE__, line);
    if (ipu_graph_status(g) != IPU_INVALID) fail_msg("line %d: accepted", line);
    if (!strstr(ipu_graph_message(g), where)) fail_msg("line %d: \"%s\"", line, ipu_graph_message(g));
}

#define REFUSED(...)                \
    do {                            \
        ipu_graph *g = new_graph(); \
        (void)(__VA_ARGS__);        \
        check_refused(g, __LINE__); \
        ipu_graph_destroy(g);       \
    } while (0)

static void wrong_declarations_are_refused(void **state)
{
    (void)state;
    const int64_t huge = INT64_MAX;
    REFUSED(ipu_graph_add_host_to_device(g, "", IPU_FLOAT, 1, IPU_STREAM_REPLICATE));
    REFUSED(ipu_graph_add_host_to_device(g, NULL, IPU_FLOAT, 1, IPU_STREAM_REPLICATE));
    REFUSED(ipu_graph_add_host_to_device(g, "s", IPU_FLOAT, -1, IPU_STREAM_REPLICATE));
    REFUSED(ipu_graph_add_host_to_device(g, "s", IPU_N_TYPES, 1, IPU_STREAM_REPLICATE));
    REFUSED(ipu_graph_add_device_to_host(g, "s", IPU_FLOAT, huge));
    REFUSED(ipu_graph_add_remote_buffer(g, "s", IPU_FLOAT, 4, -1));
    REFUSED(ipu_graph_add_remote_buffer(g, "s", IPU_FLOAT, huge, huge));
    REFUSED(ipu_graph_add_host_read(g, "s", (ipu_tensor){g, 0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_declared_is_kept),
        cmocka_unit_test(wrong_declarations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
