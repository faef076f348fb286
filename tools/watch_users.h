/* The IPUs of other users, for root. Each user's are looked at by a child that has become that user for good: what they
 * put in the way (a file that never ends, a state that changes its size, a signal) ends or delays the child,
 * not the one who looks, and a folder is believed only if it is theirs, as for themselves. */
#ifndef TOOLS_WATCH_USERS_H
#define TOOLS_WATCH_USERS_H

#include "watch_sample.h"

enum { WATCH_PROBLEM = 512 };

/* One user's IPUs. */
typedef struct watch_user {
    int64_t      uid;
    char         name[WATCH_TEXT];
    watch_sample sample;                 /* the last good one */
    char         problem[WATCH_PROBLEM]; /* why the last look failed; "": it did not */
} watch_user;

/* Users other than `but` with a runtime folder of their own in /run/user or /tmp, by number. Returns how many,
 * -1: out of memory. Owned: free. */
int watch_users_find(int64_t but, int64_t **out);

/* The name of a user, or the number. */
void watch_user_name(int64_t uid, char *out, size_t size);

/* Look at the IPUs of these users, all at once. A user's problem is put down, and what was seen before stays. */
void watch_users_look(watch_user *users, int n, bool all_partitions);

#endif
