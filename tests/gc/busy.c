/* Attaches and runs programs until its standard input ends: busy ID [PERCENT]: device, share of the time (default: 50).
 * Says "attached" when it runs. A program takes host time but next to no CPU: its vertex sleeps. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ipu/ipu.h"

enum { BYTES = 4096, PERIOD_MS = 50 };

#define NAP(F)                      \
    F(STATE, int32_t, microseconds) \
    F(OUT_VECTOR, uint8_t, out)

IPU_VERTEX(Nap, NAP)
{
    struct timespec t = {v->microseconds / 1000000, v->microseconds % 1000000 * 1000};
    memset(v->out.data, 1, v->out.size);
    nanosleep(&t, NULL);
    return true;
}

static ipu_status make(int microseconds, ipu_executable **out)
{
    ipu_target target;
    ipu_graph *g;
    IPU_TRY(ipu_target_find("gc200", 1, &target));
    IPU_TRY(ipu_graph_create(&target, 1, &g));
    ipu_graph_add_codelet(g, &Nap);
    ipu_tensor      data = ipu_graph_add_variable(g, IPU_UINT8, IPU_SHAPE(BYTES), "data");
    ipu_compute_set set  = ipu_graph_add_compute_set(g, "nap");
    ipu_vertex      v    = ipu_graph_add_vertex(g, set, "Nap");
    ipu_graph_set_tile_mapping(g, data, 0);
    ipu_graph_set_vertex_tile(g, v, 0);
    ipu_vertex_connect(v, "out", data);
    ipu_vertex_set(v, "microseconds", microseconds);
    ipu_graph_add_host_read(g, "data", data);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, set);
    ipu_status status = ipu_executable_compile(g, &p, 1, NULL, out);
    ipu_graph_destroy(g);
    return status;
}

static ipu_status work(ipu_engine *e, int rest_ms)
{
    static uint8_t bytes[BYTES];
    struct pollfd  input = {.fd = STDIN_FILENO, .events = POLLIN};
    puts("attached");
    fflush(stdout);
    while (poll(&input, 1, rest_ms) == 0) {
        IPU_TRY(ipu_engine_run(e, 0));
        IPU_TRY(ipu_engine_read(e, "data", bytes, sizeof bytes));
    }
    return IPU_OK;
}

int main(int argc, char **argv)
{
    ipu_device     *device  = NULL;
    ipu_executable *exe     = NULL;
    ipu_engine     *e       = NULL;
    int             percent = argc == 3 ? atoi(argv[2]) : 50;
    if (argc < 2 || argc > 3 || percent < 1 || percent > 100) return 2;
    ipu_status status = ipu_device_open(atoi(argv[1]), &device);
    if (status == IPU_OK) status = ipu_device_attach(device, 0);
    if (status == IPU_OK) status = make(PERIOD_MS * percent * 10, &exe);
    if (status == IPU_OK) status = ipu_engine_create_on(exe, NULL, device, &e);
    if (status == IPU_OK) status = work(e, PERIOD_MS * (100 - percent) / 100);
    if (status != IPU_OK) fprintf(stderr, "busy: %s\n", ipu_message());
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_device_close(device);
    return status != IPU_OK;
}
