/* Streams of events (text/event-stream): first the history, then each look at the IPUs, with occasional
 * comments so that each end knows the other is there.
 *
 * A stream has no queue: a client that reads too slowly misses looks, and one that reads next to nothing is
 * cut off. Streams run in the server's thread; the other one publishes.
 */
#ifndef TOOLS_WEB_STREAM_H
#define TOOLS_WEB_STREAM_H

#include <microhttpd.h>
#include <stdbool.h>

#include "web/feed.h"

enum { WEB_STREAMS = 64 }; /* at most */

typedef struct web_streams web_streams;

/* Borrows the feed. NULL if out of memory. Destroy it after the server has stopped. */
web_streams *web_streams_create(web_feed *feed);
void         web_streams_destroy(web_streams *all);

/* An answer that streams. NULL if there are WEB_STREAMS already, or out of memory. Owned:
 * MHD_destroy_response. */
struct MHD_Response *web_stream_open(web_streams *all, struct MHD_Connection *connection);

/* After a look, or from time to time: resumes streams that have something to send, cuts off clients that do
 * not read. */
void web_streams_wake(web_streams *all);

/* Ends all streams and refuses new ones. Returns whether all have ended; if not, call again. */
bool web_streams_close(web_streams *all);

#endif
