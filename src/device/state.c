/* The state of partitions: opening each file once, repairing it, records, locks, the queue of waiting
 * processes, forks. */
#include "device/state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "base/status.h"
#include "device/runtime.h"

enum { FORMAT = 1, MOST_TRIES = 4 };

static const ipu__state_header expected = {"OpenIPU", FORMAT, sizeof(ipu__slot), IPU__N_SLOTS};

/* Lock bytes for the queue lie far beyond the end of the file; the one before them is for whoever repairs
 * it. */
#define LINE_BEGIN ((off_t)1 << 32)
#define MENDING (LINE_BEGIN - 1)
#define MOST_TICKETS ((int64_t)1 << 40)

static pthread_mutex_t     lock = PTHREAD_MUTEX_INITIALIZER;
static ipu__state         *states;  /* all that are open */
static ipu__place_in_line *waiting; /* of this process */
static atomic_uint         generation;
static bool                is_clear; /* this process has cleaned up */

/* ---- forks ---- */

/* The child has neither the locks nor any use for the counters. It may close its descriptors: only the
 * parent's closing would drop the parent's locks. */
static void leave_to_parent(void)
{
    for (ipu__state *s = states; s; s = s->next) {
        close(s->fd);
        s->fd = -1;
        memset(s->held, 0, sizeof s->held);
    }
    states   = NULL;
    waiting  = NULL;
    is_clear = false;
    atomic_fetch_add(&generation, 1);
    pthread_mutex_unlock(&lock);
}

static void add_fork_handlers(void) { pthread_atfork(ipu__state_lock, ipu__state_unlock, leave_to_parent); }

static void watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, add_fork_handlers);
}

void ipu__state_lock(void) { pthread_mutex_lock(&lock); }
void ipu__state_unlock(void) { pthread_mutex_unlock(&lock); }

unsigned ipu__state_generation(void) { return atomic_load_explicit(&generation, memory_order_relaxed); }

/* ---- files ---- */

/* Looking changes nothing; whoever takes IPUs first cleans up, once per process. */
static void clear(const char *folder)
{
    if (!is_clear) ipu__runtime_clear(folder);
    is_clear = true;
}

static ipu_status path_of(const char *partition, int gcd, bool create, char out[PATH_MAX], bool *exists)
{
    char folder[PATH_MAX];
    IPU_TRY(ipu__runtime_folder(create, folder, exists));
    if (create) clear(folder);
    int n = snprintf(out, PATH_MAX, "%s/%s.gcd%d.ipus%d", folder, partition, gcd, FORMAT);
    if (n < 0 || n >= PATH_MAX)
        return ipu__fail(IPU_IO, "the path of the runtime folder is too long: %.60s...", folder);
    return IPU_OK;
}

static ipu_status fail_file(const char *what, const char *path)
{
    return ipu__fail(IPU_IO, "%s the state of devices, %s: %s", what, path, strerror(errno));
}

/* Allocate all blocks, so that a full disk is noticed now. It works even without them: locks need no
 * blocks. */
static void allocate(int fd)
{
    ipu__size_guard guard = ipu__size_guard_begin();
    (void)!posix_fallocate(fd, 0, sizeof(ipu__state_file));
    ipu__size_guard_end(&guard);
}

/* Created beside it and linked into place complete, so that nobody ever sees half of it. */
static ipu_status make(const char *path)
{
    ipu__new_file file;
    IPU_TRY(ipu__file_begin(path, &file));
    file.hasty = true;
    bool ok    = fchmod(file.fd, 0600) == 0 && ipu__file_append(&file, &expected, sizeof expected);
    if (ok) allocate(file.fd);
    if (ok && (ipu__file_commit_new(&file) || errno == EEXIST)) return IPU_OK;
    ipu_status status = fail_file("cannot make", path);
    if (!ok) ipu__file_abandon(&file);
    return status;
}

static bool is_own_file(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

static ipu_status check_file(const char *path, const struct stat *st)
{
    if (is_own_file(st)) return IPU_OK;
    return ipu__fail(
        IPU_IO,
        "%s is not the state of devices: expected a file of user %lu's that no other may write to: "
        "remove it when no program runs",
        path, (unsigned long)geteuid());
}

/* Moved out of the way rather than removed: someone may need it. */
static void set_aside(const char *path)
{
    char aside[PATH_MAX + 40];
    snprintf(aside, sizeof aside, "%s.aside-%ld", path, (long)getpid());
    if (rename(path, aside) == 0)
        ipu__runtime_note("%.300s was not a file of the user's alone: it is now %.300s", path, aside);
}

/* ---- mending ---- */

static bool set_lock(int fd, short type, off_t first, off_t n)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = n};
    int          result;
    do result = fcntl(fd, F_SETLK, &range);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

static bool has_header(int fd)
{
    ipu__state_header found;
    return pread(fd, &found, sizeof found, 0) == sizeof found && memcmp(&found, &expected, sizeof found) == 0;
}

static void write_at(const ipu__state *s, const void *data, size_t bytes, off_t at)
{
    ipu__size_guard guard;
    if (s->is_limited) guard = ipu__size_guard_begin();
    (void)!pwrite(s->fd, data, bytes, at);
    if (s->is_limited) ipu__size_guard_end(&guard);
}

/* In place: holders of IPUs have locks on this very file, and would be invisible if another took its place. They
 * rewrite their records. By one process at a time, or it would wipe out what the first has written since. */
static void mend(ipu__state *s, const char *path)
{
    static const char zeros[4096];
    struct stat       st;
    if (!has_header(s->fd) && set_lock(s->fd, F_WRLCK, MENDING, 1)) {
        if (!has_header(s->fd)) {
            for (off_t at = 0; at < (off_t)sizeof(ipu__state_file); at += (off_t)sizeof zeros)
                write_at(s, zeros, sizeof zeros, at);
            write_at(s, &expected, sizeof expected, 0);
            ipu__runtime_note("%s was damaged: it is mended", path);
        }
        set_lock(s->fd, F_UNLCK, MENDING, 1);
    }
    if (fstat(s->fd, &st) == 0 && st.st_size < (off_t)sizeof(ipu__state_file)) allocate(s->fd);
}

static ipu__state *find_open(const struct stat *st)
{
    ipu__state *s = states;
    while (s && (s->device != st->st_dev || s->inode != st->st_ino)) s = s->next;
    return s;
}

static void release(ipu__state *s)
{
    if (s->fd >= 0) close(s->fd);
    ipu__free(s);
}

/* Never as standard input, output or error of a program that has closed these: its output would end up in the
 * state. No locks exist yet that closing the lower descriptor could drop. */
static int open_above_standard(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int error = errno;
    close(fd);
    errno = error;
    return above;
}

static bool is_limited(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* `handle` refers to the file without opening it, so that what was checked is what gets opened, and a file
 * that is already open gets no second descriptor, whose closing would drop our locks. */
static ipu_status open_handle(int handle, const char *path, ipu__state **out)
{
    struct stat st;
    char        again[40];
    if (fstat(handle, &st) != 0) return fail_file("cannot use", path);
    IPU_TRY(check_file(path, &st));
    ipu__state *s = find_open(&st);
    if (s) {
        s->n_users++;
        *out = s;
        return IPU_OK;
    }
    s = ipu__alloc_zeroed(sizeof *s);
    if (!s) return ipu__fail_memory();
    snprintf(again, sizeof again, "/proc/self/fd/%d", handle);
    *s    = (ipu__state){.n_users = 1, .device = st.st_dev, .inode = st.st_ino, .is_limited = is_limited()};
    s->fd = open_above_standard(again);
    if (s->fd < 0) {
        ipu_status status = fail_file("cannot open", path);
        release(s);
        return status;
    }
    s->next = states;
    states  = s;
    *out    = s;
    return IPU_OK;
}

/* Whether what is there can be the state. */
static bool is_usable(int handle)
{
    struct stat st;
    char        again[40];
    snprintf(again, sizeof again, "/proc/self/fd/%d", handle);
    return fstat(handle, &st) != 0
        || (is_own_file(&st) && faccessat(AT_FDCWD, again, R_OK | W_OK, AT_EACCESS) == 0);
}

/* Anything that cannot be the state is ignored when just looking, and moved out of the way by whoever takes
 * IPUs. */
ipu_status ipu__state_open(const char *partition, int gcd, bool create, ipu__state **out)
{
    char path[PATH_MAX];
    bool exists;
    int  handle = -1;
    *out        = NULL;
    watch_forks();
    IPU_TRY(path_of(partition, gcd, create, path, &exists));
    for (int tries = 0; handle < 0; tries++) {
        handle = exists ? open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW) : -1;
        if (handle < 0 && exists && errno != ENOENT) return fail_file("cannot open", path);
        if (handle < 0 && !create) return IPU_OK;
        if (handle < 0 && tries == MOST_TRIES) return fail_file("cannot keep", path);
        if (handle < 0)
            IPU_TRY(make(path));
        else if (tries < MOST_TRIES && !is_usable(handle)) {
            close(handle);
            if (!create) return IPU_OK;
            set_aside(path);
            handle = -1;
        }
    }
    ipu_status status = open_handle(handle, path, out);
    close(handle);
    if (status != IPU_OK) return status;
    if (create) mend(*out, path);
    (*out)->is_sound = has_header((*out)->fd);
    return IPU_OK;
}

void ipu__state_close(ipu__state *state)
{
    if (!state || --state->n_users > 0) return;
    for (ipu__state **at = &states; *at; at = &(*at)->next)
        if (*at == state) {
            *at = state->next;
            break;
        }
    release(state);
}

bool ipu__state_is_current(const ipu__state *state)
{
    struct stat st;
    return fstat(state->fd, &st) == 0 && st.st_nlink > 0;
}

ipu_status ipu__state_remove(const char *partition, int gcd)
{
    char path[PATH_MAX];
    bool exists;
    IPU_TRY(path_of(partition, gcd, false, path, &exists));
    if (exists && unlink(path) != 0 && errno != ENOENT) return fail_file("cannot remove", path);
    return IPU_OK;
}

/* ---- records ---- */

static off_t place_of(int slot, size_t member)
{
    return (off_t)(offsetof(ipu__state_file, slots) + (size_t)slot * sizeof(ipu__slot) + member);
}

/* Beyond the end of the file, reads zeros. */
static void read_at(const ipu__state *s, void *data, size_t bytes, off_t at)
{
    ssize_t n = s->is_sound ? pread(s->fd, data, bytes, at) : 0;
    if (n < 0) n = 0;
    memset((char *)data + n, 0, bytes - (size_t)n);
}

void ipu__state_read(const ipu__state *state, int i, ipu__slot *out)
{
    read_at(state, out, sizeof *out, place_of(i, 0));
}

int64_t ipu__state_read_pid(const ipu__state *state, int i)
{
    int64_t pid;
    read_at(state, &pid, sizeof pid, place_of(i, offsetof(ipu__slot, pid)));
    return pid;
}

void ipu__state_read_error(const ipu__state *state, int i, char out[IPU__ERROR_BYTES])
{
    read_at(state, out, IPU__ERROR_BYTES, place_of(i, offsetof(ipu__slot, error)));
    bool   ends = out[IPU__ERROR_BYTES - 1] == 0;
    size_t n    = ends ? strspn(out, IPU__ERROR_LETTERS) : 0;
    while (ends && n < IPU__ERROR_BYTES) ends = out[n++] == 0;
    if (!ends) *out = 0;
}

/* The pid is cleared while writing, so that a concurrent reader does not believe the record. */
void ipu__state_write(const ipu__state *state, int i, const ipu__slot *slot)
{
    const size_t  pid = offsetof(ipu__slot, pid), rest = offsetof(ipu__slot, uid);
    const int64_t none = 0;
    write_at(state, &none, sizeof none, place_of(i, pid));
    write_at(state, (const char *)slot + rest, offsetof(ipu__slot, error) - rest, place_of(i, rest));
    write_at(state, &slot->pid, sizeof slot->pid, place_of(i, pid));
}

void ipu__state_write_error(const ipu__state *state, int i, const char error[IPU__ERROR_BYTES])
{
    write_at(state, error, IPU__ERROR_BYTES, place_of(i, offsetof(ipu__slot, error)));
}

void ipu__state_write_counts(const ipu__state *state, int i, const ipu__counts *counts)
{
    write_at(state, counts, sizeof *counts, place_of(i, offsetof(ipu__slot, counts)));
}

/* ---- locks ---- */

/* A lock outlives its process if another shares its descriptors, and the pid may have been reused: users might kill
 * the wrong process. */
static bool may_be_holder(pid_t pid) { return pid > 0 && kill(pid, 0) == 0; }

/* Finds another process with a lock in the range, and its pid, or 0 if unknown. Returns false if none. */
static bool get_lock(int fd, off_t first, off_t n, int64_t *pid)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = first, .l_len = n};
    *pid               = 0;
    if (fcntl(fd, F_GETLK, &range) != 0 || range.l_type == F_UNLCK) return false;
    *pid = may_be_holder(range.l_pid) ? range.l_pid : 0;
    return true;
}

bool ipu__state_take(ipu__state *state, int first, int n)
{
    for (int i = first; i < first + n; i++)
        if (state->held[i]) return false;
    if (!set_lock(state->fd, F_WRLCK, first, n)) return false;
    memset(state->held + first, true, (size_t)n);
    return true;
}

void ipu__state_give(ipu__state *state, int first, int n)
{
    if (state->fd < 0) return;
    memset(state->held + first, false, (size_t)n);
    set_lock(state->fd, F_UNLCK, first, n);
}

uint64_t ipu__state_pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

bool ipu__state_holder(const ipu__state *state, int i, int64_t *pid)
{
    *pid = getpid();
    return state->held[i] || get_lock(state->fd, i, 1, pid);
}

bool ipu__state_any_other(const ipu__state *state, int first, int n)
{
    int64_t pid;
    return get_lock(state->fd, first, n, &pid);
}

/* ---- the line ---- */

/* The next ticket is the one in the file, if plausible, or else a later one: a lock shows that it is taken. */
void ipu__state_line_enter(ipu__state *state, ipu__place_in_line *place)
{
    const off_t at = offsetof(ipu__state_file, next_ticket);
    int64_t     ticket;
    read_at(state, &ticket, sizeof ticket, at);
    if (ticket < 0 || ticket > MOST_TICKETS) ticket = 0;
    for (const ipu__place_in_line *p = waiting; p; p = p->next)
        if (p->state == state && p->ticket >= ticket) ticket = p->ticket + 1;
    for (int tries = 0; tries < IPU__N_SLOTS && !set_lock(state->fd, F_WRLCK, LINE_BEGIN + ticket, 1);
         tries++)
        ticket++;
    int64_t next  = ticket + 1;
    place->state  = state;
    place->ticket = ticket;
    place->next   = waiting;
    waiting       = place;
    write_at(state, &next, sizeof next, at);
}

void ipu__state_line_leave(ipu__place_in_line *place)
{
    for (ipu__place_in_line **at = &waiting; *at; at = &(*at)->next)
        if (*at == place) {
            *at = place->next;
            break;
        }
    if (place->state->fd >= 0) set_lock(place->state->fd, F_UNLCK, LINE_BEGIN + place->ticket, 1);
}

bool ipu__state_line_others(const ipu__state *state, const ipu__place_in_line *place, int64_t *pid)
{
    const off_t to_the_end = 0;
    *pid                   = getpid();
    for (const ipu__place_in_line *p = waiting; p; p = p->next)
        if (p->state == state && (!place || p->ticket < place->ticket)) return true;
    if (!place) return get_lock(state->fd, LINE_BEGIN, to_the_end, pid);
    return place->ticket > 0 && get_lock(state->fd, LINE_BEGIN, place->ticket, pid);
}
