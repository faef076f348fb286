/* A small machine for tests of the engine: a graph, one program, and an engine made from them.
 *
 * requires: cmocka. Whatever goes wrong here fails the test with the library's own message.
 */
#ifndef IPU_TESTS_MACHINE_H
#define IPU_TESTS_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"

#define assert_ok(call)                                                  \
    do {                                                                 \
        ipu_status status_ = (call);                                     \
        if (status_ != IPU_OK) fail_msg("%s: %s", #call, ipu_message()); \
    } while (0)

#define assert_status(call, expected)                                                            \
    do {                                                                                         \
        ipu_status status_ = (call);                                                             \
        if (status_ != (expected)) fail_msg("%s: status %d: %s", #call, status_, ipu_message()); \
    } while (0)

#define assert_says(text)                                                                           \
    do {                                                                                            \
        if (!strstr(ipu_message(), text)) fail_msg("expected \"%s\" in:\n%s", text, ipu_message()); \
    } while (0)

static inline ipu_graph *machine_graph(int64_t n_replicas)
{
    ipu_target target;
    ipu_graph *g;
    assert_ok(ipu_target_find("gc200", n_replicas, &target));
    assert_ok(ipu_target_limit_tiles(&target, 16));
    assert_ok(ipu_graph_create(&target, n_replicas, &g));
    return g;
}

/* A variable on tile 0 that the host reads and writes under its name. */
static inline ipu_tensor machine_variable(ipu_graph *g, ipu_type type, ipu_shape shape, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, type, shape, name);
    ipu_graph_set_tile_mapping(g, t, 0);
    ipu_graph_add_host_read(g, name, t);
    ipu_graph_add_host_write(g, name, t);
    return t;
}

static inline ipu_executable *machine_compile(ipu_graph *g, const ipu_program *programs, size_t n)
{
    ipu_executable *exe = NULL;
    assert_ok(ipu_executable_compile(g, programs, n, NULL, &exe));
    return exe;
}

static inline ipu_engine *machine_engine(ipu_executable *exe, const char *threads)
{
    ipu_options *options;
    ipu_engine  *e = NULL;
    assert_ok(ipu_options_create(&options));
    assert_ok(ipu_options_set(options, "threads", threads));
    assert_ok(ipu_engine_create(exe, options, &e));
    ipu_options_destroy(options);
    return e;
}

/* An engine for one program; graph and executable are gone, which it does not need. */
static inline ipu_engine *machine_start(ipu_program p)
{
    ipu_executable *exe = machine_compile(p.graph, &p, 1);
    ipu_engine     *e   = machine_engine(exe, "2");
    ipu_executable_release(exe);
    ipu_graph_destroy(p.graph);
    return e;
}

static inline int32_t machine_read_int(ipu_engine *e, const char *handle)
{
    int32_t value = 0;
    assert_ok(ipu_engine_read(e, handle, &value, sizeof value));
    return value;
}

#endif
