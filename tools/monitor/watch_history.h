/* The utilisation of each IPU over the last looks. All histories run in step: one value per look. An IPU is
 * identified by its user, partition and place there, so that partitions may come and go; one not seen for the
 * length of the history is forgotten.
 *
 *     watch_histories *h = watch_histories_create();
 *     watch_histories_add(h, &sample);                          at each look
 *     n = watch_histories_get(h, &sample, ipu, values, 60);     the last 60, oldest first
 */
#ifndef TOOLS_MONITOR_WATCH_HISTORY_H
#define TOOLS_MONITOR_WATCH_HISTORY_H

#include "monitor/watch_sample.h"

enum { WATCH_HISTORY = 600 }; /* looks */

typedef struct watch_histories watch_histories;

/* NULL: out of memory. */
watch_histories *watch_histories_create(void);
void             watch_histories_destroy(watch_histories *h);

/* Records one look. Returns false if out of memory; some IPUs then lack it. */
bool watch_histories_add(watch_histories *h, const watch_sample *s);

/* The last values of an IPU of the sample added last, at most `most`, oldest first: a share from 0 to 1;
 * below 0 if nobody was attached, it was not measured, or the IPU was not there. Returns how many: as many as
 * there were looks, for every IPU. */
int watch_histories_get(const watch_histories *h, int ipu, int most, float *out);
/* The number of IPUs remembered. */
int watch_histories_n(const watch_histories *h);
/* When those looks were, in nanoseconds since 1970. */
int watch_histories_times(const watch_histories *h, int most, int64_t *out);

#endif
