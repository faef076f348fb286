/* Streams of events (text/event-stream): first what the monitor remembers, then each look at the IPUs, and a comment now and
 * then so that both ends know of each other.
 *
 * A stream has no queue: a client that reads too slowly misses looks, and one that reads next to nothing is cut off.
 * Streams are answers of the server's thread; publishing is the other's.
 */
#ifndef TOOLS_WEB_STREAM_H
#define TOOLS_WEB_STREAM_H

#include <microhttpd.h>
#include <stdbool.h>

#include "web/feed.h"

enum { WEB_STREAMS = 64 }; /* at most */

typedef struct web_streams web_streams;

/* NULL: out of memory. The feed is borrowed. Destroy it after the server has stopped. */
web_streams *web_streams_create(web_feed *feed);
void         web_streams_destroy(web_streams *all);

/* An answer that streams. NULL: there are WEB_STREAMS already, or memory ran out. Owned: MHD_destroy_response. */
struct MHD_Response *web_stream_open(web_streams *all, struct MHD_Connection *connection);

/* There is something new, or time went by: go on where there is something to send, cut off who does not read. */
void web_streams_wake(web_streams *all);

/* End them all; none can be opened afterwards. Returns whether all have ended; if not, ask again. */
bool web_streams_close(web_streams *all);

#endif
