/* Signals that end a watch, as a descriptor to wait for. A second one of them ends the process. */
#ifndef TOOLS_MONITOR_WATCH_SIGNALS_H
#define TOOLS_MONITOR_WATCH_SIGNALS_H

/* Catches SIGINT, SIGQUIT, SIGTERM and SIGHUP, unless they are ignored, and SIGCHLD; once in a process. */
void watch_signals_catch(void);
/* Readable when one came; -1: there is no such descriptor. */
int watch_signals_fd(void);
/* Empties the descriptor; the signal that asks to end, 0 if none did. */
int watch_signals_take(void);

#endif
