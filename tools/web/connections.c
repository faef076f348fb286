/* Connections, their deadlines and limits. A socket is shut down, not closed: the server, which owns it, then
 * sees its end. */
#include "web/connections.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "clock.h"

/* Beyond `most`, the oldest is dropped if it has been in its phase for `least`. */
static const struct {
    int64_t limit, least;
    int     most;
} phases[] = {
    [WEB_ASKING]    = {10 * TOOL_SECOND, 0, WEB_ASKING_MOST},
    [WEB_ANSWERING] = {60 * TOOL_SECOND, 2 * TOOL_SECOND, WEB_ANSWERING_MOST},
    [WEB_STREAMING] = {INT64_MAX, INT64_MAX, INT32_MAX},
    [WEB_RESTING]   = {30 * TOOL_SECOND, 0, WEB_RESTING_MOST},
};
enum { PHASES = sizeof phases / sizeof *phases };

typedef struct web_connection web_connection;
struct web_connection {
    web_connection *before, *after;
    int             socket;
    web_phase       phase;
    bool            cut;
    int64_t         since;
    web_request     request; /* used by the server's thread only */
};

struct web_connections {
    pthread_mutex_t lock;
    web_connection  rings[PHASES]; /* oldest first; each head links to the first and the last */
    int             n[PHASES];     /* excluding those that were cut off */
};

web_connections *web_connections_create(void)
{
    web_connections *all = calloc(1, sizeof *all);
    if (!all) return NULL;
    pthread_mutex_init(&all->lock, NULL);
    for (int i = 0; i < PHASES; i++) all->rings[i].before = all->rings[i].after = &all->rings[i];
    return all;
}

void web_connections_destroy(web_connections *all)
{
    if (!all) return;
    for (int i = 0; i < PHASES; i++) {
        for (web_connection *c = all->rings[i].after, *next; c != &all->rings[i]; c = next) {
            next = c->after;
            free(c);
        }
    }
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* ---- one of them ---- */

/* The server still reads what has arrived, so a request that is complete is served. Without a reset, the
 * connection would wait for the client in the kernel and occupy a port. */
static void cut(web_connections *all, web_connection *c)
{
    static const struct linger reset = {1, 0};
    if (c->cut) return;
    if (c->phase == WEB_ASKING || c->phase == WEB_RESTING) {
        setsockopt(c->socket, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        shutdown(c->socket, SHUT_RD);
    } else {
        shutdown(c->socket, SHUT_RDWR);
    }
    c->cut = true;
    all->n[c->phase]--;
}

static void make_room(web_connections *all, web_phase phase)
{
    int64_t         now = tool_clock();
    web_connection *c   = all->rings[phase].after;
    for (; c != &all->rings[phase] && all->n[phase] > phases[phase].most; c = c->after)
        if (now - c->since >= phases[phase].least) cut(all, c);
}

static void put(web_connections *all, web_connection *c, web_phase phase)
{
    static const struct linger orderly = {0, 0};
    web_connection            *ring    = &all->rings[phase];
    if (c->cut) setsockopt(c->socket, SOL_SOCKET, SO_LINGER, &orderly, sizeof orderly);
    c->cut           = false;
    c->phase         = phase;
    c->since         = tool_clock();
    c->before        = ring->before;
    c->after         = ring;
    c->before->after = ring->before = c;
    all->n[phase]++;
    make_room(all, phase);
}

static void take(web_connections *all, web_connection *c)
{
    c->before->after = c->after;
    c->after->before = c->before;
    if (!c->cut) all->n[c->phase]--;
}

/* ---- phases ---- */

/* A connection for which there is no memory has no deadline of ours, only the server's for silence. */
static web_connection *begin(web_connections *all, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection,
                                                                   MHD_CONNECTION_INFO_CONNECTION_FD);
    web_connection                 *c    = info ? calloc(1, sizeof *c) : NULL;
    if (!c) return NULL;
    c->socket = info->connect_fd;
    pthread_mutex_lock(&all->lock);
    put(all, c, WEB_ASKING);
    pthread_mutex_unlock(&all->lock);
    return c;
}

static void end(web_connections *all, web_connection *c)
{
    if (!c) return;
    pthread_mutex_lock(&all->lock);
    take(all, c);
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

static web_connection *find(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection,
                                                                   MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

web_request *web_connection_request(struct MHD_Connection *connection)
{
    web_connection *c = find(connection);
    return c ? &c->request : NULL;
}

void web_connection_enter(web_connections *all, struct MHD_Connection *connection, web_phase phase)
{
    web_connection *c = find(connection);
    if (!c) return;
    pthread_mutex_lock(&all->lock);
    take(all, c);
    put(all, c, phase);
    pthread_mutex_unlock(&all->lock);
}

void web_connections_sweep(web_connections *all)
{
    int64_t now = tool_clock();
    pthread_mutex_lock(&all->lock);
    for (int i = 0; i < PHASES; i++) {
        make_room(all, (web_phase)i);
        for (web_connection *c = all->rings[i].after; c != &all->rings[i]; c = c->after)
            if (now - c->since > phases[i].limit) cut(all, c);
    }
    pthread_mutex_unlock(&all->lock);
}
