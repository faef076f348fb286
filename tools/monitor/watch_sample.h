/* A sample: partitions, IPUs and attached processes at one moment, of one user or of several, as plain records
 * that refer to each other by index and own no memory but the three lists. Text in them is harmless, whatever
 * names processes give themselves: valid UTF-8 without controls, which read `?`; what does not fit is cut.
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

/* What is looked at of another user's, so that no user can make the one who looks run out of memory or time: sixteen
 * partitions of the largest size there is. */
enum { WATCH_MOST_PARTITIONS = 1024, WATCH_MOST_IPUS = 4096, WATCH_MOST_PROCESSES = 8192 };

enum { WATCH_TEXT = 64, WATCH_PATH = 256, WATCH_TITLE = 96 };

typedef struct watch_partition {
    int64_t uid; /* of the user whose IPUs these are */
    char    owner[WATCH_TEXT];
    char    name[WATCH_TEXT];
    char    title[WATCH_TITLE]; /* the name, or "p1 (gcd:0)" where it has several domains */
    int     gcd;
    bool    active, elastic, reconfigurable;
    bool    stale; /* it could not be looked at this time: this is from before */
    char    chip[WATCH_TEXT], arch[WATCH_TEXT];
    double  clock_hz;
    int64_t bytes_per_ipu;  /* of memory, on all its tiles */
    int     first_ipu;      /* in `ipus` */
    int     n_ipus, n_free; /* free: nobody is attached */
    int     n_processes;    /* those with IPUs of their own too */
} watch_partition;

typedef struct watch_ipu {
    int  partition; /* in `partitions` */
    int  id;        /* as listed: raised by the IPUs of the partitions before it if all are shown */
    int  index;     /* in the partition */
    int  number;    /* in the machine */
    int  process;   /* in `processes`; -1: nobody is attached */
    char machine[WATCH_TEXT], type[WATCH_TEXT], software[WATCH_TEXT], server[WATCH_TEXT],
        firmware[WATCH_TEXT];
    char board[WATCH_TEXT]; /* serial number */
    char error[WATCH_TEXT]; /* names of errors; "": none */
} watch_ipu;

/* One for each device that a process holds. */
typedef struct watch_process {
    int                 partition; /* in `partitions` */
    int64_t             pid;       /* 0: a process of another namespace */
    int64_t             uid;
    char                user[WATCH_TEXT], command[WATCH_TEXT], executable[WATCH_PATH];
    int64_t             since_ns; /* attached, since 1970 */
    int                 device;   /* id in its partition; -1: IPUs of its own */
    int                 first_id; /* of its IPUs, as listed; -1: IPUs of its own */
    int                 n_ipus;
    ipu_device_counters counters;
    double              runs_per_second, host_bytes_per_second; /* since the last look; below 0: not known */
} watch_process;

typedef struct watch_sample {
    int64_t          time_ns; /* since 1970 */
    watch_partition *partitions;
    watch_ipu       *ipus; /* of partition 0, then of partition 1, ... */
    watch_process   *processes;
    int              n_partitions, n_ipus, n_processes;
} watch_sample;

/* Add what a list shows to a sample: the active partition, or all of them. False: out of memory. */
bool watch_sample_add(watch_sample *s, const ipu_device_list *list, int64_t uid, const char *owner, bool all);
/* Add another sample, whose time does not count. */
bool watch_sample_append(watch_sample *s, const watch_sample *more);
/* Empty it, keeping its memory for the next. */
void watch_sample_clear(watch_sample *s);
void watch_sample_fini(watch_sample *s);

/* Is it more than may be sent? */
bool watch_sample_is_too_large(const watch_sample *s);
/* Between processes. A sample that came from elsewhere is checked: what comes back refers to nothing outside, its text is harmless
 * and its numbers are such as can be. */
bool watch_sample_write(int fd, const watch_sample *s);
/* From what was written; false: it is no sample, or memory ran out. */
bool watch_sample_read(const void *bytes, size_t n, watch_sample *out);

/* The same attachment in two samples, neither of which may be NULL. */
bool watch_same_process(const watch_sample *a, int i, const watch_sample *b, int k);

/* Room for `more` behind the `n` of a list; they are zero. NULL: out of memory. */
void *watch_grow(void **list, int n, int more, size_t size);
#define WATCH_GROW(list, n, more) watch_grow((void **)&(list), n, more, sizeof *(list))

/* Who, in words: "IPU 0 of p1", "IPUs 0 to 3 of p1", "8 further IPUs of default". */
void watch_ipus_text(const watch_sample *s, const watch_process *p, char *out, size_t size);

#endif
