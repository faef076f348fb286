/* Ends a process that holds IPUs, and never another one: the process is pinned by a descriptor and then
 * looked at again, so that one that has since received its PID is never hit. */
#ifndef TOOLS_LIVE_KILL_H
#define TOOLS_LIVE_KILL_H

#include "live/view.h"

enum { LIVE_QUESTION = 512 };

typedef struct live_kill {
    int     fd; /* of the process, or -1 */
    int64_t pid;
    char    who[LIVE_QUESTION];  /* "pid 12 (python3) of alice" */
    char    what[LIVE_QUESTION]; /* "which holds IPU 0 of p1" */
} live_kill;

/* Pins the selected process after a fresh look. Returns false with the reason in *problem. */
bool live_kill_begin(live_kill *k, watch *w, const live_view *v, char *problem, size_t size);
/* Sends it a signal; *said is the outcome. */
void live_kill_send(live_kill *k, int number, char *said, size_t size);
void live_kill_end(live_kill *k);

#endif
