/* The state of one partition: a file that all processes of the user share, with a lock and a record for
 * each IPU.
 *
 * Locks are POSIX record locks on bytes of the file: byte i is IPU i. They belong to the process that took
 * them, so the kernel drops them when it ends, however it does, and a forked child has none of them. Such
 * locks are also dropped when the process closes any descriptor of the file: therefore a process opens each
 * file once, here, and lists what it holds itself without opening it again. Within a process they do not
 * exclude: `held` does.
 *
 * Everything but the counters is used under ipu__state_lock.
 */
#ifndef IPU_DEVICE_STATE_H
#define IPU_DEVICE_STATE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "device/partition.h"

enum {
    IPU__MOST_OWN      = 768, /* attachments with IPUs of their own, beyond those that partitions show */
    IPU__N_SLOTS       = IPU__MOST_IPUS + IPU__MOST_OWN,
    IPU__COMMAND_BYTES = 64,
    IPU__ERROR_BYTES   = 64,
};

/* What is counted for an attachment, in its first slot. One update is one relaxed addition. */
typedef struct ipu__counters {
    atomic_llong runs, supersteps, host_bytes;
    atomic_llong cycles;     /* -1: not known */
    atomic_llong tile_bytes; /* -1: not known */
    /* Runs in progress; on the monotonic clock, since when there have been some, and how long there were
     * before. */
    atomic_llong running, run_began_ns, busy_ns;
    /* The window that utilisation is of: when it began, busy_ns then, and the share of the one before in
     * millionths. */
    atomic_llong window_began_ns, window_busy_ns, last_share;
} ipu__counters;

/* Written by the process that has the lock. */
typedef struct ipu__slot {
    atomic_llong pid;                        /* of the last that had it; 0: none yet, or being written */
    int64_t      uid, since_ns, attached_ns; /* wall and monotonic clock */
    uint64_t     pid_namespace;              /* that `pid` is a number in */
    int32_t      id, first, n_ipus;          /* as in ipu_attached */
    int32_t      measures;                   /* utilisation is measured */
    char         command[IPU__COMMAND_BYTES];
    char         error[IPU__ERROR_BYTES]; /* of the IPU, whoever has it; "": none */
    alignas(64) ipu__counters counters;
} ipu__slot;

typedef struct ipu__state_header {
    char     magic[8];
    uint32_t format, slot_bytes, n_slots;
} ipu__state_header;

typedef struct ipu__state_file {
    ipu__state_header header;
    alignas(64) atomic_llong next_ticket; /* of the line of those who wait */
    alignas(4096) ipu__slot slots[IPU__N_SLOTS];
} ipu__state_file;

typedef struct ipu__state ipu__state;
struct ipu__state {
    ipu__state      *next;
    int              n_users; /* of it in this process */
    dev_t            device;
    ino_t            inode;
    int              fd;                 /* -1: a forked child */
    ipu__state_file *map;                /* NULL: a forked child */
    bool             held[IPU__N_SLOTS]; /* by this process */
};

/* One lock for all states, free in a forked child. Nothing is logged under it: the log has a lock of its
 * own. */
void ipu__state_lock(void);
void ipu__state_unlock(void);

/* Forks of this process and its ancestors so far: what was made before the last one is the parent's. */
unsigned ipu__state_generation(void);

/* Open, or find open; `create` makes it. NULL in *out, with IPU_OK: it does not exist. Statuses: those of
 * ipu__runtime_folder; IO (no such file can be used: the message says why), OUT_OF_MEMORY. */
ipu_status ipu__state_open(const char *partition, int gcd, bool create, ipu__state **out);
void       ipu__state_close(ipu__state *state);

/* False: the file was removed since it was opened: locks on it keep nobody else away. */
bool ipu__state_is_current(const ipu__state *state);

/* Take slots [first, first + n), all or none. False: someone has one of them. */
bool ipu__state_take(ipu__state *state, int first, int n);
void ipu__state_give(ipu__state *state, int first, int n);

/* The namespace that process ids of this process are numbers in. */
uint64_t ipu__state_pid_namespace(void);

/* Who has slot i: false, nobody. *pid: 0 if it is in another namespace. */
bool ipu__state_holder(const ipu__state *state, int i, int64_t *pid);
/* Does anyone else have one of slots [first, first + n)? */
bool ipu__state_any_other(const ipu__state *state, int first, int n);

/* A place in the line of those who wait: served in order; that of a process that ends is free at once. */
typedef struct ipu__place_in_line {
    struct ipu__place_in_line *next;
    ipu__state                *state;
    int64_t                    ticket;
} ipu__place_in_line;
void ipu__state_line_enter(ipu__state *state, ipu__place_in_line *place);
void ipu__state_line_leave(ipu__place_in_line *place);
/* Does anyone wait before `place`; NULL: at all? *pid: who, if it can be told. */
bool ipu__state_line_others(const ipu__state *state, const ipu__place_in_line *place, int64_t *pid);

/* Remove the file; processes that have it open keep what they have. NOT_FOUND is no error. */
ipu_status ipu__state_remove(const char *partition, int gcd);

#endif
