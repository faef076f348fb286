/* The open connections of the page's server: how long each may take, and how many may be in the same phase. A
 * client that sends nothing, sends a byte at a time or does not read its answer is cut off; if there are too
 * many, the oldest go at once, so that a complete request never waits for an incomplete one.
 *
 * The server's thread reports the changes of each; web_connections_sweep may be called by another.
 */
#ifndef TOOLS_WEB_CONNECTIONS_H
#define TOOLS_WEB_CONNECTIONS_H

#include <microhttpd.h>
#include <stdint.h>

#include "web/request.h"

/* A connection's phase, which determines its deadline. */
typedef enum web_phase {
    WEB_ASKING,    /* request incomplete: 10 s from the first byte it could have sent */
    WEB_ANSWERING, /* answer not sent: 60 s for all of it; 2 s if too many are in this phase */
    WEB_STREAMING, /* events: unlimited; stream.h decides */
    WEB_RESTING,   /* between requests: 30 s */
} web_phase;

/* Limits for each phase; together with WEB_STREAMS they stay well below the server's limit. */
enum { WEB_ASKING_MOST = 96, WEB_RESTING_MOST = 32, WEB_ANSWERING_MOST = 32 };

typedef struct web_connections web_connections;

/* NULL if out of memory. Destroy it after the server has stopped. */
web_connections *web_connections_create(void);
void             web_connections_destroy(web_connections *all);

/* For MHD_OPTION_NOTIFY_CONNECTION: cls is the web_connections. */
void web_connections_notify(void *cls, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode code);

/* The current request of a connection. NULL if there was no memory for it. */
web_request *web_connection_request(struct MHD_Connection *connection);

void web_connection_enter(web_connections *all, struct MHD_Connection *connection, web_phase phase);

/* Cuts off connections that have been in their phase for too long. */
void web_connections_sweep(web_connections *all);

#endif
