/* Which users are looked at if there are many. */
#include <stdlib.h>

#include "monitor/watch_users.h"

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int watch_users_choose(int64_t *uids, int n, int64_t but, int *left_out)
{
    int kept = 0;
    if (n > 0) qsort(uids, (size_t)n, sizeof *uids, by_number);
    for (int i = 0; i < n; i++)
        if (uids[i] != but && (kept == 0 || uids[kept - 1] != uids[i])) uids[kept++] = uids[i];
    *left_out = kept > WATCH_USERS ? kept - WATCH_USERS : 0;
    return kept - *left_out;
}
