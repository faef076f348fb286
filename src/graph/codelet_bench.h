/* Shared by the tests of codelets from source: a folder per test, single-vertex sources, graphs that run
 * them, a compiler wrapper that counts its runs.
 */
#ifndef IPU_GRAPH_CODELET_BENCH_H
#define IPU_GRAPH_CODELET_BENCH_H

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "graph/codelet.h"
#include "ipu/ipu.h"

static char box[64]; /* all files of a test */

static inline const char *in_box(const char *name)
{
    static char paths[4][256];
    static int  next;
    char       *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", box, name);
    return path;
}

static inline void put(const char *name, const char *text)
{
    FILE *f = fopen(in_box(name), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static inline void put_script(const char *name, const char *text)
{
    put(name, text);
    assert_int_equal(chmod(in_box(name), 0700), 0);
}

static inline int set_up(void **state)
{
    (void)state;
    snprintf(box, sizeof box, "/tmp/ipu-codelet-test-XXXXXX");
    if (!mkdtemp(box)) return -1;
    setenv("IPU_CACHE_DIR", in_box("cache"), 1);
    setenv("TMPDIR", box, 1); /* so that children that end without cleaning up leave nothing outside */
    unsetenv("IPU_CC");
    return 0;
}

static inline int tear_down(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", box);
    return system(command);
}

#define HEAD "#include \"ipu/codelet.h\"\n"
#define FIELDS "#define FIELDS(F) F(IN, float, x) F(OUT, float, y)\n"
#define ONE(name, expression)                                      \
    HEAD FIELDS "IPU_VERTEX(" name ", FIELDS) { float x = *v->x; " \
                "*v->y = " expression "; return true; }\n"

/* y = codelet(x) on a tile of a graph that has the codelet. Destroys the graph. */
static inline float compute(ipu_graph *g, const char *codelet, float value)
{
    float           result = 0;
    ipu_executable *exe;
    ipu_engine     *e;
    ipu_tensor      x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SCALAR, "x");
    ipu_tensor      y = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SCALAR, "y");
    ipu_graph_set_tile_mapping(g, x, 0);
    ipu_graph_set_tile_mapping(g, y, 0);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "cs");
    ipu_vertex      v  = ipu_graph_add_vertex(g, cs, codelet);
    ipu_graph_set_vertex_tile(g, v, 0);
    ipu_vertex_connect(v, "x", x);
    ipu_vertex_connect(v, "y", y);
    ipu_graph_add_host_write(g, "x", x);
    ipu_graph_add_host_read(g, "y", y);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);
    assert_string_equal(ipu_graph_message(g), "");
    assert_int_equal(ipu_executable_compile(g, &p, 1, NULL, &exe), IPU_OK);
    ipu_graph_destroy(g);
    assert_int_equal(ipu_engine_create(exe, NULL, &e), IPU_OK);
    ipu_executable_release(exe);
    assert_int_equal(ipu_engine_write(e, "x", &value, sizeof value), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "y", &result, sizeof result), IPU_OK);
    ipu_engine_destroy(e);
    return result;
}

static inline ipu_graph *new_graph(void)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    return g;
}

/* The message of a graph that is expected to have failed. Destroys the graph. */
#define assert_fails(g, wanted_status, ...)                                             \
    do {                                                                                \
        static const char *const parts[] = {__VA_ARGS__};                               \
        assert_int_equal(ipu_graph_status(g), wanted_status);                           \
        for (size_t i_ = 0; i_ < sizeof parts / sizeof *parts; i_++)                    \
            if (!strstr(ipu_graph_message(g), parts[i_]))                               \
                fail_msg("expected \"%s\" in \"%s\"", parts[i_], ipu_graph_message(g)); \
        ipu_graph_destroy(g);                                                           \
    } while (0)

/* Points IPU_CC to a compiler that also appends a line to "count". */
static inline void count_runs(void)
{
    char text[256];
    snprintf(text, sizeof text, "#!/bin/sh\necho run >> '%s'\nexec cc \"$@\"\n", in_box("count"));
    put_script("counting-cc", text);
    setenv("IPU_CC", in_box("counting-cc"), 1);
}

static inline int runs(void)
{
    int   n = 0;
    FILE *f = fopen(in_box("count"), "r");
    for (int c = f ? getc(f) : EOF; c != EOF; c = getc(f)) n += c == '\n';
    if (f) fclose(f);
    return n;
}

/* The first cache entry with that ending, as a full path; "" if none. */
static inline const char *entry(const char *ending)
{
    static char path[512];
    DIR        *d = opendir(in_box("cache/codelets"));
    path[0]       = 0;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        const char *dot = strrchr(e->d_name, '.');
        if (dot && strcmp(dot, ending) == 0)
            snprintf(path, sizeof path, "%s/%.200s", in_box("cache/codelets"), e->d_name);
    }
    if (d) closedir(d);
    return path;
}

/* The value computed in a fresh process, or its exit status as a negative number: modules already loaded in
 * this process are not read from the cache again. */
static inline int in_child(int (*fn)(void))
{
    int   status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(fn());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

#endif
