/* The state of a partition: a file shared by all processes of the user, with a lock and a record for each
 * IPU.
 *
 * Locks are POSIX record locks on bytes of the file: byte i is IPU i. They belong to the process that took
 * them, so the kernel drops them when it ends, however it ends, and a forked child does not inherit them. But
 * they are also dropped when the process closes any descriptor of the file, so each file is opened only once,
 * here, and listing our own holdings does not open it again. Within a process these locks do not exclude;
 * `held` does.
 *
 * The file is read and written by system calls, never mapped: truncating it would kill every process that
 * accesses a mapping, by SIGBUS. No process depends on anything that exists only in the file, and a damaged
 * one is repaired in place, because the locks are on the file and not on its name.
 *
 * Everything except the counts is used under ipu__state_lock.
 */
#ifndef IPU_DEVICE_STATE_H
#define IPU_DEVICE_STATE_H

#include <stdalign.h>
#include <stdint.h>
#include <sys/types.h>

#include "device/partition.h"

enum {
    IPU__MOST_OWN      = 768, /* attachments with IPUs of their own, beyond those shown by partitions */
    IPU__N_SLOTS       = IPU__MOST_IPUS + IPU__MOST_OWN,
    IPU__COMMAND_BYTES = 64,
    IPU__ERROR_BYTES   = 64,
};

/* Characters allowed in an IPU's error. */
#define IPU__ERROR_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_,"

/* Counters of an attachment. */
#define IPU__COUNTERS(X)                                                                           \
    X(runs)                                                                                        \
    X(supersteps)                                                                                  \
    X(host_bytes)                                                                                  \
    X(cycles)     /* -1 if unknown */                                                              \
    X(tile_bytes) /* -1 if unknown */                                                              \
    /* Runs in progress; on the monotonic clock, since when there have been some, and how long   \
     * there were before. */ \
    X(running)                                                                                     \
    X(run_began_ns)                                                                                \
    X(busy_ns)                                                                                     \
    /* The window that utilisation is of: when it began, busy_ns then, and the share of the one  \
     * before in millionths. */ \
    X(window_began_ns)                                                                             \
    X(window_busy_ns)                                                                              \
    X(last_share)

/* As stored in the file, in the attachment's first slot. */
typedef struct ipu__counts {
#define X(name) int64_t name;
    IPU__COUNTERS(X)
#undef X
} ipu__counts;

/* Written by the process that holds the lock. */
typedef struct ipu__slot {
    int64_t  pid;                        /* of the last holder; 0 if none yet, or being written */
    int64_t  uid, since_ns, attached_ns; /* wall and monotonic clock */
    uint64_t pid_namespace;              /* in which `pid` is meaningful */
    int32_t  id, first, n_ipus;          /* as in ipu_attached */
    int32_t  measures;                   /* whether utilisation is measured */
    char     command[IPU__COMMAND_BYTES];
    char     error[IPU__ERROR_BYTES]; /* of the IPU, whoever holds it; "" if none */
    alignas(64) ipu__counts counts;
} ipu__slot;

typedef struct ipu__state_header {
    char     magic[8];
    uint32_t format, slot_bytes, n_slots;
} ipu__state_header;

typedef struct ipu__state_file {
    ipu__state_header header;
    alignas(64) int64_t next_ticket; /* of the queue of waiting processes */
    alignas(4096) ipu__slot slots[IPU__N_SLOTS];
} ipu__state_file;

typedef struct ipu__state ipu__state;
struct ipu__state {
    ipu__state *next;
    int         n_users; /* in this process */
    dev_t       device;
    ino_t       inode;
    int         fd;                 /* -1 in a forked child */
    bool        is_sound;           /* its header is valid, so its contents may be believed */
    bool        is_limited;         /* there is a file size limit */
    bool        held[IPU__N_SLOTS]; /* by this process */
};

/* One lock for all states, free in a forked child. Nothing is logged under it: the log has its own lock. */
void ipu__state_lock(void);
void ipu__state_unlock(void);

/* Number of forks in this process and its ancestors: anything created before the last one is the parent's. */
unsigned ipu__state_generation(void);

/* Opens it, or finds it open; `create` creates it, repairs damage, and sets aside anything that is not a file private
 * to the user. NULL in *out, with IPU_OK, if it does not exist or, without `create`, is not such a file. Statuses:
 * those of ipu__runtime_folder; IO (no such file can be used; the message says why), OUT_OF_MEMORY. */
ipu_status ipu__state_open(const char *partition, int gcd, bool create, ipu__state **out);
void       ipu__state_close(ipu__state *state);

/* Returns false if the file has been removed since it was opened: locks on it no longer exclude anybody. */
bool ipu__state_is_current(const ipu__state *state);

/* The file's contents for slot i; zeros if it is damaged. */
void    ipu__state_read(const ipu__state *state, int i, ipu__slot *out);
int64_t ipu__state_read_pid(const ipu__state *state, int i);
/* A string, or "" if no process can have written it. */
void ipu__state_read_error(const ipu__state *state, int i, char out[IPU__ERROR_BYTES]);

/* Called by the process that holds the slot. A failed write is not reported: others see less, but nothing else
 * depends on it. Everything but the error; the error, which outlasts an attachment; the counts, without the lock. */
void ipu__state_write(const ipu__state *state, int i, const ipu__slot *slot);
void ipu__state_write_error(const ipu__state *state, int i, const char error[IPU__ERROR_BYTES]);
void ipu__state_write_counts(const ipu__state *state, int i, const ipu__counts *counts);

/* Takes slots [first, first + n), all or none. Returns false if someone has one of them. */
bool ipu__state_take(ipu__state *state, int first, int n);
void ipu__state_give(ipu__state *state, int first, int n);

/* The namespace of this process's pid. */
uint64_t ipu__state_pid_namespace(void);

/* Who holds slot i; returns false if nobody does. *pid is 0 if it is in another namespace. */
bool ipu__state_holder(const ipu__state *state, int i, int64_t *pid);
/* Whether anyone else has one of slots [first, first + n). */
bool ipu__state_any_other(const ipu__state *state, int first, int n);

/* A place in the queue of waiting processes, served in order; that of a process that ends is freed at once. */
typedef struct ipu__place_in_line {
    struct ipu__place_in_line *next;
    ipu__state                *state;
    int64_t                    ticket;
} ipu__place_in_line;
void ipu__state_line_enter(ipu__state *state, ipu__place_in_line *place);
void ipu__state_line_leave(ipu__place_in_line *place);
/* Whether anyone is waiting before `place` or, if NULL, at all. *pid: who, if known. */
bool ipu__state_line_others(const ipu__state *state, const ipu__place_in_line *place, int64_t *pid);

/* Removes the file; processes that have it open keep what they hold. NOT_FOUND is not an error. */
ipu_status ipu__state_remove(const char *partition, int gcd);

#endif
