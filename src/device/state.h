/* The state of one partition: a file that all processes of the user share, with a lock and a record for
 * each IPU.
 *
 * Locks are POSIX record locks on bytes of the file: byte i is IPU i. They belong to the process that took
 * them, so the kernel drops them when it ends, however it does, and a forked child has none of them. Such
 * locks are also dropped when the process closes any descriptor of the file: therefore a process opens each
 * file once, here, and lists what it holds itself without opening it again. Within a process they do not
 * exclude: `held` does.
 *
 * The file is read and written by calls, never mapped: whoever cut it short would end, by SIGBUS, every process
 * that looks at its map. Nothing that a process needs is in the file only, and one that is damaged is mended in
 * place, as the locks are on the file and not on its name.
 *
 * Everything but the counts is used under ipu__state_lock.
 */
#ifndef IPU_DEVICE_STATE_H
#define IPU_DEVICE_STATE_H

#include <stdalign.h>
#include <stdint.h>
#include <sys/types.h>

#include "device/partition.h"

enum {
    IPU__MOST_OWN      = 768, /* attachments with IPUs of their own, beyond those that partitions show */
    IPU__N_SLOTS       = IPU__MOST_IPUS + IPU__MOST_OWN,
    IPU__COMMAND_BYTES = 64,
    IPU__ERROR_BYTES   = 64,
};

/* An error of an IPU is of these. */
#define IPU__ERROR_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_,"

/* What is counted for an attachment. */
#define IPU__COUNTERS(X)                                                                           \
    X(runs)                                                                                        \
    X(supersteps)                                                                                  \
    X(host_bytes)                                                                                  \
    X(cycles)     /* -1: not known */                                                              \
    X(tile_bytes) /* -1: not known */                                                              \
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

/* As they stand in the file, in the first slot of the attachment. */
typedef struct ipu__counts {
#define X(name) int64_t name;
    IPU__COUNTERS(X)
#undef X
} ipu__counts;

/* Written by the process that has the lock. */
typedef struct ipu__slot {
    int64_t  pid;                        /* of the last that had it; 0: none yet, or being written */
    int64_t  uid, since_ns, attached_ns; /* wall and monotonic clock */
    uint64_t pid_namespace;              /* that `pid` is a number in */
    int32_t  id, first, n_ipus;          /* as in ipu_attached */
    int32_t  measures;                   /* utilisation is measured */
    char     command[IPU__COMMAND_BYTES];
    char     error[IPU__ERROR_BYTES]; /* of the IPU, whoever has it; "": none */
    alignas(64) ipu__counts counts;
} ipu__slot;

typedef struct ipu__state_header {
    char     magic[8];
    uint32_t format, slot_bytes, n_slots;
} ipu__state_header;

typedef struct ipu__state_file {
    ipu__state_header header;
    alignas(64) int64_t next_ticket; /* of the line of those who wait */
    alignas(4096) ipu__slot slots[IPU__N_SLOTS];
} ipu__state_file;

typedef struct ipu__state ipu__state;
struct ipu__state {
    ipu__state *next;
    int         n_users; /* of it in this process */
    dev_t       device;
    ino_t       inode;
    int         fd;                 /* -1: a forked child */
    bool        is_sound;           /* its header is right: what is in it may be believed */
    bool        is_limited;         /* there is a limit to the size of files */
    bool        held[IPU__N_SLOTS]; /* by this process */
};

/* One lock for all states, free in a forked child. Nothing is logged under it: the log has a lock of its
 * own. */
void ipu__state_lock(void);
void ipu__state_unlock(void);

/* Forks of this process and its ancestors so far: what was made before the last one is the parent's. */
unsigned ipu__state_generation(void);

/* Open, or find open; `create` makes it, mends it if it is damaged, and sets aside what is no file of the user's alone.
 * NULL in *out, with IPU_OK: it does not exist, or, without `create`, is no such file. Statuses: those of ipu__runtime_folder; IO (no such file can be used:
 * the message says why), OUT_OF_MEMORY. */
ipu_status ipu__state_open(const char *partition, int gcd, bool create, ipu__state **out);
void       ipu__state_close(ipu__state *state);

/* False: the file was removed since it was opened: locks on it keep nobody else away. */
bool ipu__state_is_current(const ipu__state *state);

/* What the file says of slot i. Zeros, if it is damaged. */
void    ipu__state_read(const ipu__state *state, int i, ipu__slot *out);
int64_t ipu__state_read_pid(const ipu__state *state, int i);
/* Text, or "" if it cannot be what a process wrote. */
void ipu__state_read_error(const ipu__state *state, int i, char out[IPU__ERROR_BYTES]);

/* By the process that has the slot. A write that fails is not told: others see less, and nothing else depends on it.
 * All but the error; the error, which outlasts an attachment; the counts, without the lock. */
void ipu__state_write(const ipu__state *state, int i, const ipu__slot *slot);
void ipu__state_write_error(const ipu__state *state, int i, const char error[IPU__ERROR_BYTES]);
void ipu__state_write_counts(const ipu__state *state, int i, const ipu__counts *counts);

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
