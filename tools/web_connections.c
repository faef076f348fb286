/* Connections and their deadlines. A socket is shut down, not closed: it is the server's, who then finds it at its end. */
#include "web_connections.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "clock.h"

static const int64_t limits[] = {
    [WEB_ASKING]    = 10 * TOOL_SECOND,
    [WEB_ANSWERING] = 60 * TOOL_SECOND,
    [WEB_STREAMING] = INT64_MAX,
    [WEB_RESTING]   = 30 * TOOL_SECOND,
};

typedef struct web_connection web_connection;
struct web_connection {
    web_connection *before, *after;
    int             socket;
    web_phase       phase;
    int64_t         since;
};

struct web_connections {
    pthread_mutex_t lock;
    web_connection  ring; /* no connection: the one before the first and after the last */
};

web_connections *web_connections_create(void)
{
    web_connections *all = calloc(1, sizeof *all);
    if (!all) return NULL;
    pthread_mutex_init(&all->lock, NULL);
    all->ring.before = all->ring.after = &all->ring;
    return all;
}

void web_connections_destroy(web_connections *all)
{
    if (!all) return;
    while (all->ring.after != &all->ring) {
        web_connection *c = all->ring.after;
        all->ring.after   = c->after;
        free(c);
    }
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* One for which there is no memory is served without a deadline of ours; the server has one for silence. */
static web_connection *begin(web_connections *all, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection,
                                                                   MHD_CONNECTION_INFO_CONNECTION_FD);
    web_connection                 *c    = info ? calloc(1, sizeof *c) : NULL;
    if (!c) return NULL;
    *c = (web_connection){all->ring.before, &all->ring, info->connect_fd, WEB_ASKING, tool_clock()};
    pthread_mutex_lock(&all->lock);
    c->before        = all->ring.before;
    c->before->after = all->ring.before = c;
    pthread_mutex_unlock(&all->lock);
    return c;
}

static void end(web_connections *all, web_connection *c)
{
    if (!c) return;
    pthread_mutex_lock(&all->lock);
    c->before->after = c->after;
    c->after->before = c->before;
    pthread_mutex_unlock(&all->lock);
    free(c);
}

void web_connections_notify(void *cls, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = begin(cls, connection);
    } else {
        end(cls, *context);
        *context = NULL;
    }
}

void web_connection_enter(web_connections *all, struct MHD_Connection *connection, web_phase phase)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection,
                                                                   MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    web_connection                 *c    = info ? info->socket_context : NULL;
    if (!c) return;
    pthread_mutex_lock(&all->lock);
    c->phase = phase;
    c->since = tool_clock();
    pthread_mutex_unlock(&all->lock);
}

void web_connections_sweep(web_connections *all)
{
    int64_t now = tool_clock();
    pthread_mutex_lock(&all->lock);
    for (const web_connection *c = all->ring.after; c != &all->ring; c = c->after)
        if (now - c->since > limits[c->phase]) shutdown(c->socket, SHUT_RDWR);
    pthread_mutex_unlock(&all->lock);
}
