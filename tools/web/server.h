/* The monitor's page over HTTP: who may request what, and the answers. It is read-only.
 *
 *     web_server *s;
 *     if (web_server_start(&(web_server_options){&address, &token, feed, streams}, &s) == TOOL_OK) ...
 *     web_server_stop(s);
 *
 * It has a thread of its own, which starts with all signals blocked.
 */
#ifndef TOOLS_WEB_SERVER_H
#define TOOLS_WEB_SERVER_H

#include "web/address.h"
#include "web/feed.h"
#include "web/stream.h"
#include "web/token.h"

typedef struct web_server web_server;

/* All borrowed until web_server_stop, except the address's socket, which the server takes over. */
typedef struct web_server_options {
    const web_address *address;
    const web_token   *token;
    web_feed          *feed;
    web_streams       *streams;
} web_server_options;

/* Reports errors. */
tool_exit web_server_start(const web_server_options *options, web_server **out);

/* Cuts off clients that take too long. To be called about every second. */
void web_server_sweep(web_server *server);

/* Streams must have been closed (web_streams_close). NULL is ignored. */
void web_server_stop(web_server *server);

#endif
