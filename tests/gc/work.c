/* Runs a program on an IPU again and again until its standard input ends: work BUSY IDLE, in milliseconds each time.
 * Says "working" when it has run once. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ipu/ipu.h"

#define BUSY(F)             \
    F(STATE, int32_t, msec) \
    F(OUT, int32_t, done)

IPU_VERTEX(Busy, BUSY)
{
    struct timespec t = {.tv_nsec = v->msec * 1000000L};
    while (nanosleep(&t, &t) != 0) {}
    *v->done = 1;
    return true;
}

static ipu_status build(int milliseconds, ipu_executable **out)
{
    ipu_target target;
    ipu_graph *g;
    IPU_TRY(ipu_target_find("gc200", 1, &target));
    IPU_TRY(ipu_graph_create(&target, 1, &g));
    ipu_graph_add_codelet(g, &Busy);
    ipu_tensor      done = ipu_graph_add_variable(g, IPU_INT32, IPU_SHAPE(1), "done");
    ipu_compute_set set  = ipu_graph_add_compute_set(g, "busy");
    ipu_vertex      v    = ipu_graph_add_vertex(g, set, "Busy");
    ipu_graph_set_tile_mapping(g, done, 0);
    ipu_graph_set_vertex_tile(g, v, 0);
    ipu_vertex_connect(v, "done", ipu_tensor_index(done, 0));
    ipu_vertex_set(v, "msec", milliseconds);
    ipu_graph_add_host_read(g, "done", done);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, set);
    ipu_status status = ipu_executable_compile(g, &p, 1, NULL, out);
    ipu_graph_destroy(g);
    return status;
}

/* Until the input ends. */
static ipu_status work(ipu_engine *e, int idle)
{
    for (int i = 0;; i++) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        int32_t       done;
        char          byte;
        IPU_TRY(ipu_engine_run(e, 0));
        IPU_TRY(ipu_engine_read(e, "done", &done, sizeof done));
        if (i == 0) puts("working");
        fflush(stdout);
        if (poll(&input, 1, idle) > 0 && read(STDIN_FILENO, &byte, 1) <= 0) return IPU_OK;
    }
}

int main(int argc, char **argv)
{
    ipu_executable *exe    = NULL;
    ipu_engine     *engine = NULL;
    if (argc != 3) return 2;
    ipu_status status = build(atoi(argv[1]), &exe);
    if (status == IPU_OK) status = ipu_engine_create(exe, NULL, &engine);
    if (status == IPU_OK) status = work(engine, atoi(argv[2]));
    if (status != IPU_OK) fprintf(stderr, "work: %s\n", ipu_message());
    ipu_engine_destroy(engine);
    ipu_executable_release(exe);
    return status != IPU_OK;
}
