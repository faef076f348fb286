/* Ending a process that holds IPUs, and no other: it is pinned by a descriptor, then looked at again; a process that has
 * got its number since is never met. */
#ifndef TOOLS_LIVE_KILL_H
#define TOOLS_LIVE_KILL_H

#include "live/view.h"

enum { LIVE_QUESTION = 512 };

typedef struct live_kill {
    int     fd; /* of the process; -1: none */
    int64_t pid;
    char    who[LIVE_QUESTION];  /* "pid 12 (python3) of alice" */
    char    what[LIVE_QUESTION]; /* "which holds IPU 0 of p1" */
} live_kill;

/* Pins the process that is selected, after a new look. False: *problem says why not. */
bool live_kill_begin(live_kill *k, watch *w, const live_view *v, char *problem, size_t size);
/* Sends it a signal; *said is what came of it. */
void live_kill_send(live_kill *k, int number, char *said, size_t size);
void live_kill_end(live_kill *k);

#endif
