/* A sample: partitions, IPUs and attached processes at one moment, of one user or of several, as plain
 * records that refer to each other by index and own no memory but the three lists. Text in them is safe to
 * print, whatever names processes give themselves: valid UTF-8, with `?` for controls, and truncated to fit.
 *
 *     watch_sample s = {0};
 *     if (watch_sample_add(&s, list, uid, "alice", all)) ... s.ipus[i] ...
 *     watch_sample_fini(&s);
 */
#ifndef TOOLS_MONITOR_WATCH_SAMPLE_H
#define TOOLS_MONITOR_WATCH_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harmless.h"
#include "ipu/device.h"

/* Limits on what is read of another user's state, so that no user can make the monitor run out of memory or
 * time: sixteen partitions of the largest size there is. */
enum { WATCH_MOST_PARTITIONS = 1024, WATCH_MOST_IPUS = 4096, WATCH_MOST_PROCESSES = 8192 };

enum { WATCH_TEXT = 64, WATCH_PATH = 256, WATCH_TITLE = 96 };

typedef struct watch_partition {
    int64_t uid; /* of the user whose IPUs these are */
    char    owner[WATCH_TEXT];
    char    name[WATCH_TEXT];
    char    title[WATCH_TITLE]; /* the name, or "p1 (gcd:0)" if it has several domains */
    int     gcd;
    bool    active, elastic, reconfigurable;
    bool    stale; /* it could not be read this time: this is from before */
    char    chip[WATCH_TEXT], arch[WATCH_TEXT];
    double  clock_hz;
    int64_t bytes_per_ipu;  /* of memory, on all its tiles */
    int     first_ipu;      /* index into `ipus` */
    int     n_ipus, n_free; /* free: nobody is attached */
    int     n_processes;    /* including those with IPUs of their own */
} watch_partition;

typedef struct watch_ipu {
    int  partition; /* index into `partitions` */
    int  id;        /* as listed: offset by the IPUs of the partitions before it if all are shown */
    int  index;     /* in the partition */
    int  number;    /* in the machine */
    int  process;   /* index into `processes`, or -1 if nobody is attached */
    char machine[WATCH_TEXT], type[WATCH_TEXT], software[WATCH_TEXT], server[WATCH_TEXT],
        firmware[WATCH_TEXT];
    char board[WATCH_TEXT]; /* serial number */
    char error[WATCH_TEXT]; /* names of errors, or "" */
} watch_ipu;

/* One per device that a process holds. */
typedef struct watch_process {
    int                 partition; /* index into `partitions` */
    int64_t             pid;       /* 0 for a process of another namespace */
    int64_t             uid;
    char                user[WATCH_TEXT], command[WATCH_TEXT], executable[WATCH_PATH];
    int64_t             since_ns; /* when it attached, since 1970 */
    int                 device;   /* id in its partition; -1 for IPUs of its own */
    int                 first_id; /* of its IPUs, as listed; -1 for IPUs of its own */
    int                 n_ipus;
    ipu_device_counters counters;
    double              runs_per_second, host_bytes_per_second; /* since the last look; below 0 if unknown */
} watch_process;

typedef struct watch_sample {
    int64_t          time_ns; /* since 1970 */
    watch_partition *partitions;
    watch_ipu       *ipus; /* of partition 0, then of partition 1, ... */
    watch_process   *processes;
    int              n_partitions, n_ipus, n_processes;
} watch_sample;

/* Adds the contents of a list to a sample: the active partition, or all. Returns false if out of memory. */
bool watch_sample_add(watch_sample *s, const ipu_device_list *list, int64_t uid, const char *owner, bool all);
/* Adds another sample, ignoring its time. */
bool watch_sample_append(watch_sample *s, const watch_sample *more);
/* Empties it, keeping its memory for reuse. */
void watch_sample_clear(watch_sample *s);
void watch_sample_fini(watch_sample *s);

/* Whether it exceeds what may be sent. */
bool watch_sample_is_too_large(const watch_sample *s);
/* Between processes. Received samples are checked: references stay within them, text is safe to print, and
 * numbers are plausible. */
bool watch_sample_write(int fd, const watch_sample *s);
/* Returns false if it is no valid sample, or out of memory. */
bool watch_sample_read(const void *bytes, size_t n, watch_sample *out);

/* Whether both are the same attachment; neither sample may be NULL. */
bool watch_same_process(const watch_sample *a, int i, const watch_sample *b, int k);

/* Makes room for `more` zeroed items after the `n` of a list. NULL if out of memory. */
void *watch_grow(void **list, int n, int more, size_t size);
#define WATCH_GROW(list, n, more) watch_grow((void **)&(list), n, more, sizeof *(list))

/* In words: "IPU 0 of p1", "IPUs 0 to 3 of p1", "8 further IPUs of default". */
void watch_ipus_text(const watch_sample *s, const watch_process *p, char *out, size_t size);

#endif
