/* `ipu monitor --web`: serves a page that shows the IPUs, and the same data for programs, until a signal.
 * docs/tools.md is its manual.
 *
 * Access: on the loopback anybody on this host, unless a token is set; elsewhere only with the token. It is
 * read-only.
 */
#ifndef TOOLS_WEB_WEB_H
#define TOOLS_WEB_WEB_H

#include "monitor/watch.h"

#define WEB_LISTEN "127.0.0.1:8091" /* default of --listen */

typedef struct web_options {
    const char *listen;     /* "127.0.0.1:8091"; NULL for WEB_LISTEN */
    const char *token_file; /* NULL for IPU_MONITOR_TOKEN, or none */
    int64_t     count;      /* number of looks; 0: no limit */
} web_options;

/* Looks with `w`, which is borrowed. Returns the code of the signal that ended it: TOOL_INTERRUPTED,
 * TOOL_TERMINATED. */
tool_exit web_run(watch *w, const web_options *options);

#endif
