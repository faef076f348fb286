/* `ipu monitor` on a terminal: live tables of IPUs, processes and alerts, with keys (h shows them). */
#ifndef TOOLS_LIVE_LIVE_H
#define TOOLS_LIVE_LIVE_H

#include "monitor/watch.h"

/* Runs until a key or a signal ends it, or for `count` looks (0: no limit), then restores the terminal. Fails
 * if the first look fails, or if the terminal is unknown or cannot position text. */
tool_exit live_run(watch *w, int64_t count);

#endif
