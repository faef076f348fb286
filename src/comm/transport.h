/* Transports carry bytes between processes. Each is a table of functions, which a plugin exports as ipu__comm_plugin.
 *
 * Plugins are separate shared objects (libipu-mpi.so), so that the library does not depend on MPI. They know nothing
 * of the library but this header.
 */
#ifndef IPU_COMM_TRANSPORT_H
#define IPU_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IPU__TRANSPORT_VERSION = 2 };

#define IPU__TRANSPORT_PLUGIN "ipu__comm_plugin"

/* A message in transit: space for a transport's own data. */
typedef struct ipu__request {
    void *space[2];
} ipu__request;

/* All functions are called by the thread that called `open`. Those that return false have written the reason to
 * `message`, of `room` bytes. Messages between two processes with the same tag arrive in the order sent. */
typedef struct ipu__transport {
    int         version;
    const char *name;
    bool (*open)(void *argument, void **self, int64_t *rank, int64_t *size, char *message, size_t room);
    void (*close)(void *self);
    bool (*send)(void *self, int64_t to, int tag, const void *data, size_t bytes, ipu__request *request,
                 char *message, size_t room);
    bool (*receive)(void *self, int64_t from, int tag, void *data, size_t bytes, ipu__request *request,
                    char *message, size_t room);
    /* Once done, a request is not polled again. A message of unexpected length is an error. */
    bool (*is_done)(void *self, ipu__request *request, bool *done, char *message, size_t room);
    /* Whether there is a message for which no receive has been started. */
    bool (*has_come)(void *self, int64_t from, int tag, bool *out);
    /* Ends all processes. Does not return. May be called from any thread. */
    void (*abort)(void *self, int exit_status);
} ipu__transport;

#endif
