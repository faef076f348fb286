/* `ipu monitor` on a terminal: tables of IPUs, processes and alerts that follow what happens, with keys (h shows them). */
#ifndef TOOLS_LIVE_LIVE_H
#define TOOLS_LIVE_LIVE_H

#include "monitor/watch.h"

/* Until a key or a signal ends it, or after `count` looks (0: no end). The terminal is as before then. Errors: the first look
 * fails; the terminal is not known or cannot place text. */
tool_exit live_run(watch *w, int64_t count);

#endif
