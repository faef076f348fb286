/* The IPUs of other users, for root. Each user's are looked at by a child that has become that user for good: what they
 * put in the way (a file that never ends, a file system that never answers, a state that changes its size, a signal) ends or
 * delays the child, not the one who looks, who touches nothing of theirs. A folder is believed only if it is theirs, as for
 * themselves. */
#ifndef TOOLS_MONITOR_WATCH_USERS_H
#define TOOLS_MONITOR_WATCH_USERS_H

#include "monitor/watch_sample.h"

enum { WATCH_PROBLEM = 512, WATCH_USERS = 1024 /* are looked at, at most */ };

/* One user's IPUs. */
typedef struct watch_user {
    int64_t      uid;
    char         name[WATCH_TEXT];
    watch_sample sample;                 /* the last good one */
    char         problem[WATCH_PROBLEM]; /* why the last look failed; "": it did not */
    int          unended;                /* the child of the last look, if it had not ended then; 0: none */
    int64_t      rests_until; /* of one who kept us waiting: not looked at before (monotonic, ms) */
} watch_user;

/* The name of a user, or the number. */
void watch_user_name(int64_t uid, char *out, size_t size);

/* Of `n` numbers of users those but one, each once, in order, at their beginning: how many. Of too many the lowest stay: whoever
 * can make folders of many users has high ones (subordinate users). */
int watch_users_choose(int64_t *uids, int n, int64_t but, int *left_out);

/* Find out which users but one may have a runtime folder in /run/user or /tmp: those who have come get an entry, those who
 * went lose theirs. *left_out: so many that are too many. False: out of memory; all stays as it was. */
bool watch_users_find(int64_t but, watch_user **users, int *n, int *left_out);
void watch_users_free(watch_user *users, int n);

/* Look at the IPUs of these users, all at once. A user's problem is put down, and what was seen before stays. Who has no runtime
 * folder after all has an empty sample. A user whose child is stuck is not looked at until it ends, and one who took all of our patience
 * not for a minute: the looks of others need not suffer each time. */
void watch_users_look(watch_user *users, int n, bool all_partitions);

#endif
