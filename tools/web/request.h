/* Checks that a request is well formed: libmicrohttpd accepts much that a proxy in front of us may read
 * differently. */
#ifndef TOOLS_WEB_REQUEST_H
#define TOOLS_WEB_REQUEST_H

#include <microhttpd.h>
#include <stdbool.h>

enum { WEB_TARGET_MOST = 8192, WEB_HEADERS_MOST = 100 };

typedef struct web_request {
    const char *target, *target_end; /* the path and its query, in the received bytes; or NULL */
    unsigned    target_flaw;
    bool        has_head; /* its head has been checked */
} web_request;

/* Begins a request with this path and query: `target` is that of MHD_OPTION_URI_LOG_CALLBACK. */
void web_request_begin(web_request *request, const char *target);

/* The status to refuse it with (400, 414 or 431) and why, or 0 if it is well formed. To be called as soon as
 * the head has arrived. */
unsigned web_request_flaw(const web_request *request, struct MHD_Connection *connection, const char *method,
                          const char *version, const char **why);

#endif
