/* Signals that end a watch, as a descriptor to wait for. The second of them ends the process. */
#ifndef TOOLS_MONITOR_WATCH_SIGNALS_H
#define TOOLS_MONITOR_WATCH_SIGNALS_H

/* Catches SIGINT, SIGQUIT, SIGTERM and SIGHUP, unless ignored, and SIGCHLD. To be called once per process. */
void watch_signals_catch(void);
/* Readable after a signal; -1 if it could not be created. */
int watch_signals_fd(void);
/* Empties the descriptor; returns the signal that asks to end, or 0. */
int watch_signals_take(void);

#endif
