/* Messages over MPI: libipu-mpi.so, which libipu loads under an MPI launcher.
 *
 * Only the thread that opened it calls MPI (MPI_THREAD_FUNNELED), except to abort. The table is all it knows of
 * libipu.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/mpi_watch_plugin.h"
#include "comm/transport.h"

_Static_assert(sizeof(MPI_Request) <= sizeof(void *), "a request has room for MPI's");

typedef struct group {
    MPI_Comm comm; /* keeps our messages apart from those of a program that also uses MPI */
    bool     is_ours;
} group;

static bool check(int code, const char *what, char *message, size_t room)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int  n                          = 0;
    if (code == MPI_SUCCESS) return true;
    MPI_Error_string(code, text, &n);
    snprintf(message, room, "MPI: %s: %.*s", what, n, text);
    return false;
}

static bool open_group(void *argument, void **self, int64_t *rank, int64_t *size, char *message, size_t room)
{
    int    is_initialized = 0, provided = MPI_THREAD_SERIALIZED, r = 0, n = 1;
    group *g = calloc(1, sizeof *g);
    (void)argument;
    if (!g) {
        snprintf(message, room, "out of memory");
        return false;
    }
    /* Open MPI spins while waiting, which must be avoided if there are more processes than processors. */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    bool ok = check(MPI_Initialized(&is_initialized), "MPI_Initialized", message, room);
    if (ok && !is_initialized) {
        ipu__mpi_watch watch;
        ipu__mpi_watch_begin(&watch);
        ok = check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread", message,
                   room);
        ipu__mpi_watch_end(&watch);
    } else if (ok)
        ok = check(MPI_Query_thread(&provided), "MPI_Query_thread", message, room);
    if (ok && is_initialized && provided < MPI_THREAD_SERIALIZED) {
        snprintf(message, room, "MPI was begun for one thread: begin it with MPI_THREAD_SERIALIZED");
        ok = false;
    }
    ok = ok && check(MPI_Comm_dup(MPI_COMM_WORLD, &g->comm), "MPI_Comm_dup", message, room)
      && check(MPI_Comm_set_errhandler(g->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", message, room)
      && check(MPI_Comm_rank(g->comm, &r), "MPI_Comm_rank", message, room)
      && check(MPI_Comm_size(g->comm, &n), "MPI_Comm_size", message, room);
    if (!ok) {
        free(g);
        return false;
    }
    g->is_ours = !is_initialized;
    *rank      = r;
    *size      = n;
    *self      = g;
    return true;
}

static void close_group(void *self)
{
    group *g = self;
    MPI_Comm_free(&g->comm);
    if (g->is_ours) MPI_Finalize();
    free(g);
}

static bool begin_send(void *self, int64_t to, int tag, const void *data, size_t bytes, ipu__request *request,
                       char *message, size_t room)
{
    group      *g = self;
    MPI_Request r;
    int         code = MPI_Isend(data, (int)bytes, MPI_BYTE, (int)to, tag, g->comm, &r);
    *request         = (ipu__request){0};
    memcpy(request, &r, sizeof r); /* is_done waits for it */
    // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker)
    return check(code, "MPI_Isend", message, room);
}

static bool begin_receive(void *self, int64_t from, int tag, void *data, size_t bytes, ipu__request *request,
                          char *message, size_t room)
{
    group      *g = self;
    MPI_Request r;
    int         code = MPI_Irecv(data, (int)bytes, MPI_BYTE, (int)from, tag, g->comm, &r);
    *request         = (ipu__request){.space = {NULL, (void *)(bytes + 1)}};
    memcpy(request, &r, sizeof r); /* is_done waits for it */
    // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker)
    return check(code, "MPI_Irecv", message, room);
}

static bool is_done(void *self, ipu__request *request, bool *done, char *message, size_t room)
{
    MPI_Request r;
    MPI_Status  status;
    size_t      expected = (size_t)request->space[1]; /* and 1; 0 for a send */
    int         flag = 0, n = 0;
    (void)self;
    memcpy(&r, request, sizeof r);
    int code = MPI_Test(&r, &flag, &status);
    memcpy(request, &r, sizeof r);
    *done = flag != 0;
    if (!check(code, "MPI_Test", message, room)) return false;
    if (!*done || expected == 0) return true;
    if (!check(MPI_Get_count(&status, MPI_BYTE, &n), "MPI_Get_count", message, room)) return false;
    if ((size_t)n + 1 == expected) return true;
    snprintf(message, room, "rank %d has sent %d bytes where %zu were expected: it makes other calls",
             status.MPI_SOURCE, n, expected - 1);
    return false;
}

static bool has_come(void *self, int64_t from, int tag, bool *out)
{
    group *g    = self;
    int    flag = 0;
    int    code = MPI_Iprobe((int)from, tag, g->comm, &flag, MPI_STATUS_IGNORE);
    *out        = flag != 0;
    return code == MPI_SUCCESS;
}

static void end_all(void *self, int exit_status)
{
    (void)self;
    MPI_Abort(MPI_COMM_WORLD, exit_status);
    _exit(exit_status);
}

extern const ipu__transport ipu__comm_plugin;
const ipu__transport        ipu__comm_plugin = {.version  = IPU__TRANSPORT_VERSION,
                                                .name     = "mpi",
                                                .open     = open_group,
                                                .close    = close_group,
                                                .send     = begin_send,
                                                .receive  = begin_receive,
                                                .is_done  = is_done,
                                                .has_come = has_come,
                                                .abort    = end_all};
