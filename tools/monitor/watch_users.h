/* The IPUs of other users, for root. Each user's are looked at by a child that has irrevocably become that
 * user: whatever they put in the way (an endless file, a file system that never answers, a state that changes
 * its size, a signal) ends or delays the child, not the monitor, which touches nothing of theirs. A folder is
 * trusted only if that user owns it, just as for the user. */
#ifndef TOOLS_MONITOR_WATCH_USERS_H
#define TOOLS_MONITOR_WATCH_USERS_H

#include "monitor/watch_sample.h"

enum { WATCH_PROBLEM = 512, WATCH_USERS = 1024 /* looked at, at most */ };

/* One user's IPUs. */
typedef struct watch_user {
    int64_t      uid;
    char         name[WATCH_TEXT];
    watch_sample sample;                 /* the last good one */
    char         problem[WATCH_PROBLEM]; /* why the last look failed, or "" */
    int          unended;                /* the child of the last look if it has not ended, or 0 */
    int64_t rests_until; /* a user who kept us waiting is not looked at before this time (monotonic, ms) */
} watch_user;

/* A user's name, or the uid if there is none. */
void watch_user_name(int64_t uid, char *out, size_t size);

/* Moves all uids but `but`, each once and sorted, to the front of `uids`, and returns how many. If there are
 * too many the lowest stay: whoever can make folders for many users has high ones (subordinate uids). */
int watch_users_choose(int64_t *uids, int n, int64_t but, int *left_out);

/* Finds the users but one who may have a runtime folder in /run/user or /tmp: new ones get an entry, those
 * who left lose theirs. *left_out counts those beyond the limit. Returns false if out of memory, with
 * everything unchanged. */
bool watch_users_find(int64_t but, watch_user **users, int *n, int *left_out);
void watch_users_free(watch_user *users, int n);

/* Looks at the IPUs of these users, all at once. A user's problem is recorded, and the last good sample
 * stays. A user without a runtime folder gets an empty sample. A user whose child is stuck is skipped until
 * it ends, and one who used up our patience for a minute, so that other looks do not suffer each time. */
void watch_users_look(watch_user *users, int n, bool all_partitions);

#endif
