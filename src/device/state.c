/* The state of partitions: opening each file once, locks, the line of those who wait, forks. */
#include "device/state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "device/runtime.h"

enum { FORMAT = 1 };

static const ipu__state_header expected = {"OpenIPU", FORMAT, sizeof(ipu__slot), IPU__N_SLOTS};

/* Bytes that are locked lie far behind the end of the file for those who wait. */
#define LINE_BEGIN ((off_t)1 << 32)

static pthread_mutex_t     lock = PTHREAD_MUTEX_INITIALIZER;
static ipu__state         *states;  /* all that are open */
static ipu__place_in_line *waiting; /* of this process */
static atomic_uint         generation;

/* ---- forks ---- */

/* The child has neither the locks nor any use for the counters. Its descriptors may be closed: it is
 * the parent's closing that would drop the parent's locks. */
static void leave_to_parent(void)
{
    for (ipu__state *s = states; s; s = s->next) {
        close(s->fd);
        munmap(s->map, sizeof *s->map);
        s->fd  = -1;
        s->map = NULL;
        memset(s->held, 0, sizeof s->held);
    }
    states  = NULL;
    waiting = NULL;
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

static ipu_status path_of(const char *partition, int gcd, bool create, char out[PATH_MAX], bool *exists)
{
    char folder[PATH_MAX];
    IPU_TRY(ipu__runtime_folder(create, folder, exists));
    int n = snprintf(out, PATH_MAX, "%s/%s.gcd%d.ipus%d", folder, partition, gcd, FORMAT);
    if (n < 0 || n >= PATH_MAX)
        return ipu__fail(IPU_IO, "the path of the runtime folder is too long: %.60s...", folder);
    return IPU_OK;
}

static ipu_status fail_file(const char *what, const char *path)
{
    return ipu__fail(IPU_IO, "%s the state of devices, %s: %s", what, path, strerror(errno));
}

/* Made beside it and linked into place whole, so that no one ever sees half of it; with all of its blocks,
 * so that no one dies of a full disk by writing to the map. */
static ipu_status make(const char *path)
{
    char temporary[PATH_MAX + 32];
    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    int fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EEXIST
        && unlink(temporary) == 0) /* of a process that is no more and had our number */
        fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return fail_file("cannot make", temporary);
    int error = write(fd, &expected, sizeof expected) == sizeof expected ? 0 : errno;
    if (!error) error = posix_fallocate(fd, 0, sizeof(ipu__state_file));
    if (!error && link(temporary, path) != 0 && errno != EEXIST) error = errno;
    close(fd);
    unlink(temporary);
    errno = error;
    return error ? fail_file("cannot make", path) : IPU_OK;
}

static ipu_status check_file(const char *path, const struct stat *st)
{
    if (S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH))
        && st->st_size == sizeof(ipu__state_file))
        return IPU_OK;
    return ipu__fail(
        IPU_IO,
        "%s is not the state of devices: expected a file of %zu bytes of user %lu's that no other may "
        "write to: remove it when no program runs",
        path, sizeof(ipu__state_file), (unsigned long)geteuid());
}

static ipu_status map_file(ipu__state *s, const char *path)
{
    s->map = mmap(NULL, sizeof *s->map, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (s->map == MAP_FAILED) {
        s->map = NULL;
        return fail_file("cannot map", path);
    }
    if (memcmp(&s->map->header, &expected, sizeof expected) == 0) return IPU_OK;
    return ipu__fail(IPU_IO, "%s is not the state of devices: remove it when no program runs", path);
}

static ipu__state *find_open(const struct stat *st)
{
    ipu__state *s = states;
    while (s && (s->device != st->st_dev || s->inode != st->st_ino)) s = s->next;
    return s;
}

static void release(ipu__state *s)
{
    if (s->map) munmap(s->map, sizeof *s->map);
    if (s->fd >= 0) close(s->fd);
    ipu__free(s);
}

/* Never as standard input, output or error, in a program that has closed these: what it prints would end up in the
 * state. There are no locks yet that closing the lower descriptor could drop. */
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

/* `handle` names the file without opening it: what was checked is what is opened, and a file that is open
 * already gets no second descriptor, whose closing would drop our locks. */
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
    *s                = (ipu__state){.n_users = 1, .device = st.st_dev, .inode = st.st_ino};
    s->fd             = open_above_standard(again);
    ipu_status status = s->fd < 0 ? fail_file("cannot open", path) : map_file(s, path);
    if (status != IPU_OK) {
        release(s);
        return status;
    }
    s->next = states;
    states  = s;
    *out    = s;
    return IPU_OK;
}

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
        if (handle >= 0) break;
        if (exists && errno != ENOENT) return fail_file("cannot open", path);
        if (!create) return IPU_OK;
        if (tries == 3) return fail_file("cannot keep", path);
        IPU_TRY(make(path));
    }
    ipu_status status = open_handle(handle, path, out);
    close(handle);
    return status;
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

/* ---- locks ---- */

static bool set_lock(int fd, short type, off_t first, off_t n)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = n};
    int          result;
    do result = fcntl(fd, F_SETLK, &range);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

/* A lock outlives its process where another shares its descriptors, and the number may be a stranger's by now: who asks
 * could end that one instead. */
static bool may_be_holder(pid_t pid) { return pid > 0 && kill(pid, 0) == 0; }

/* A process other than this one with a lock in the range, and its number if that is known, else 0; false: none. */
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

void ipu__state_line_enter(ipu__state *state, ipu__place_in_line *place)
{
    place->state  = state;
    place->ticket = atomic_fetch_add(&state->map->next_ticket, 1);
    place->next   = waiting;
    waiting       = place;
    set_lock(state->fd, F_WRLCK, LINE_BEGIN + place->ticket, 1);
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
    int64_t before = place ? place->ticket : atomic_load(&state->map->next_ticket);
    *pid           = getpid();
    for (const ipu__place_in_line *p = waiting; p; p = p->next)
        if (p->state == state && p->ticket < before) return true;
    return before > 0 && get_lock(state->fd, LINE_BEGIN, before, pid);
}
