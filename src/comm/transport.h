/* What carries bytes between processes: a table of functions, which a plugin has under the name ipu__comm_plugin.
 *
 * Plugins are shared objects of their own (libipu-mpi.so), so that the library does not depend on MPI. This header is all
 * they know of it.
 */
#ifndef IPU_COMM_TRANSPORT_H
#define IPU_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IPU__TRANSPORT_VERSION = 2 };

#define IPU__TRANSPORT_PLUGIN "ipu__comm_plugin"

/* A message on its way: room for what a transport keeps about it. */
typedef struct ipu__request {
    void *space[2];
} ipu__request;

/* All functions are called by one thread, that which called `open`. Those that return false have written why to
 * `message`, of `room` bytes. Messages between two processes with the same tag arrive in the order they were sent. */
typedef struct ipu__transport {
    int         version;
    const char *name;
    bool (*open)(void *argument, void **self, int64_t *rank, int64_t *size, char *message, size_t room);
    void (*close)(void *self);
    bool (*send)(void *self, int64_t to, int tag, const void *data, size_t bytes, ipu__request *request,
                 char *message, size_t room);
    bool (*receive)(void *self, int64_t from, int tag, void *data, size_t bytes, ipu__request *request,
                    char *message, size_t room);
    /* Once done, a request is not asked about again. A message of another length than was to be received is a failure. */
    bool (*is_done)(void *self, ipu__request *request, bool *done, char *message, size_t room);
    /* Whether there is a message that nobody has begun to receive. */
    bool (*has_come)(void *self, int64_t from, int tag, bool *out);
    /* End all processes. Does not return. From any thread. */
    void (*abort)(void *self, int exit_status);
} ipu__transport;

#endif
