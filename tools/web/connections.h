/* The open connections of the page's server: how long each may take, and how many may be at the same thing. A client that says
 * nothing, asks a byte at a time or does not read its answer is cut off; where there are too many of those, the oldest go at once,
 * so that a request that is complete never waits for one that is not.
 *
 * The server's thread tells what becomes of each; web_connections_sweep may be called by another.
 */
#ifndef TOOLS_WEB_CONNECTIONS_H
#define TOOLS_WEB_CONNECTIONS_H

#include <microhttpd.h>
#include <stdint.h>

#include "web/request.h"

/* What a connection is at, and thus for how long. */
typedef enum web_phase {
    WEB_ASKING,    /* its request is not complete: 10 s from the first byte it could have sent */
    WEB_ANSWERING, /* the answer is not sent: 60 s for all of it; 2 s where too many are at it */
    WEB_STREAMING, /* events: they go on; stream.h judges */
    WEB_RESTING,   /* between two requests: 30 s */
} web_phase;

/* How many may be at it; with WEB_STREAMS there is room to spare in the server's limit. */
enum { WEB_ASKING_MOST = 96, WEB_RESTING_MOST = 32, WEB_ANSWERING_MOST = 32 };

typedef struct web_connections web_connections;

/* NULL: out of memory. Destroy it after the server has stopped. */
web_connections *web_connections_create(void);
void             web_connections_destroy(web_connections *all);

/* For MHD_OPTION_NOTIFY_CONNECTION: cls is the web_connections. */
void web_connections_notify(void *cls, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode code);

/* The request that a connection is at. NULL: there was no memory for it. */
web_request *web_connection_request(struct MHD_Connection *connection);

void web_connection_enter(web_connections *all, struct MHD_Connection *connection, web_phase phase);

/* Cuts off what has been in its phase for too long. */
void web_connections_sweep(web_connections *all);

#endif
