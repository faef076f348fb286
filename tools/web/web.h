/* `ipu monitor --web`: a page that shows the IPUs, and the same for programs, until a signal. docs/tools.md is its manual.
 *
 * Who may look: on the loopback anybody on this host, unless a token is given; elsewhere only who brings the token. Nothing can
 * be changed through it.
 */
#ifndef TOOLS_WEB_WEB_H
#define TOOLS_WEB_WEB_H

#include "monitor/watch.h"

#define WEB_LISTEN "127.0.0.1:8091" /* unless --listen says otherwise */

typedef struct web_options {
    const char *listen;     /* "127.0.0.1:8091"; NULL: WEB_LISTEN */
    const char *token_file; /* NULL: IPU_MONITOR_TOKEN, or none */
    int64_t     count;      /* ends after so many looks; 0: goes on */
} web_options;

/* Looks with `w`, which is borrowed. The code of the signal that ended it: TOOL_INTERRUPTED, TOOL_TERMINATED. */
tool_exit web_run(watch *w, const web_options *options);

#endif
