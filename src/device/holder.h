/* Who is attached, according to the state. */
#ifndef IPU_DEVICE_HOLDER_H
#define IPU_DEVICE_HOLDER_H

#include "device/state.h"

/* Members as in ipu_attached. */
typedef struct ipu__holder {
    int64_t     pid, uid, since_ns, attached_ns;
    int         id, first, n_ipus;
    bool        measures;
    char        command[IPU__COMMAND_BYTES];
    ipu__counts counts; /* in its first slot only */
} ipu__holder;

/* Who holds slot i. Returns false if nobody does. Under the state's lock. For a holder that has not written
 * its identity yet, only the pid is known. */
bool ipu__holder_read(const ipu__state *state, int i, ipu__holder *out);

/* Replaces control characters, which file names may contain, by '?': a name stays on one line and cannot
 * affect a terminal. */
void ipu__clean_name(char *name);

/* "ann", or "1000". */
void ipu__user_name(int64_t uid, char *out, size_t bytes);

/* "IPU 2 by pid 71 (python3) of user ann since 2026-11-15 10:00:00, ...": at most four of slots [first,
 * first + n). */
void ipu__holders_text(const ipu__state *state, int first, int n, char *out, size_t bytes);

#endif
