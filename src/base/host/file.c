/* Reading and replacing whole files. On any failure temporary files are removed and existing files left
 * intact. */
#include "base/host/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"

const char *ipu__file_reason(int error, char text[IPU__FILE_REASON])
{
    struct rlimit limit;
    bool limited = error == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    if (limited)
        snprintf(text, IPU__FILE_REASON,
                 "%s: files of this process may have %llu bytes: raise the limit (ulimit -f)",
                 strerror(error), (unsigned long long)limit.rlim_cur);
    else
        snprintf(text, IPU__FILE_REASON, "%s", strerror(error));
    return text;
}

static ipu_status fail_errno(const char *what, const char *path)
{
    char reason[IPU__FILE_REASON];
    return ipu__fail(IPU_IO, "%s %s: %s", what, path, ipu__file_reason(errno, reason));
}

static int open_retrying(const char *path, int flags, mode_t mode)
{
    int fd;
    do fd = open(path, flags | O_CLOEXEC | O_NOCTTY, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* ---- reading ---- */

typedef IPU__ARRAY(char) bytes_array;

static ipu_status fail_too_large(const char *path, size_t limit)
{
    return ipu__fail(IPU_IO, "cannot read %s: it is larger than the %zu bytes allowed here", path, limit);
}

static ipu_status read_all(int fd, const char *path, size_t limit, bytes_array *data)
{
    for (;;) {
        if (data->capacity - data->n < 2 && !ipu__reserve(data, 4096)) return ipu__fail_memory();
        ssize_t got = read(fd, data->at + data->n, data->capacity - data->n - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno("cannot read", path);
        if (got == 0) break;
        data->n += (size_t)got;
        if (data->n > limit) return fail_too_large(path, limit);
    }
    data->at[data->n] = 0;
    return IPU_OK;
}

/* The size is only a hint: files grow, and those in /proc report 0. */
static ipu_status read_open(int fd, const char *path, size_t limit, bytes_array *data, bool *is_ours)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return fail_errno("cannot read", path);
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
        return ipu__fail(IPU_IO, "cannot read %s: expected a regular file or a pipe, found %s", path,
                         S_ISDIR(st.st_mode) ? "a directory" : "something else");
    if (S_ISREG(st.st_mode) && (uintmax_t)st.st_size > limit) return fail_too_large(path, limit);
    if (S_ISREG(st.st_mode)) {
        if (!ipu__reserve(data, (size_t)st.st_size + 2)) return ipu__fail_memory();
        ipu__alloc_advise(data->at, (size_t)st.st_size);
    }
    *is_ours = S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH));
    return read_all(fd, path, limit, data);
}

ipu_status ipu__file_read(const char *path, size_t limit, char **out, size_t *bytes)
{
    bool is_ours;
    return ipu__file_read_owned(path, limit, out, bytes, &is_ours);
}

ipu_status ipu__file_read_owned(const char *path, size_t limit, char **out, size_t *bytes, bool *is_ours)
{
    bytes_array data = {0};
    *out             = NULL;
    *bytes           = 0;
    *is_ours         = false;
    int fd           = open_retrying(path, O_RDONLY, 0);
    if (fd < 0) return fail_errno("cannot open", path);
    ipu_status status = read_open(fd, path, limit, &data, is_ours);
    close(fd);
    if (status != IPU_OK) {
        ipu__array_fini(&data);
        return status;
    }
    *out   = data.at;
    *bytes = data.n;
    return IPU_OK;
}

/* ---- the limit to the size of files ---- */

/* SIGXFSZ is sent to the writing thread, so blocking it in that thread is enough. */
static sigset_t size_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

ipu__size_guard ipu__size_guard_begin(void)
{
    ipu__size_guard guard;
    sigset_t        pending, set = size_signal();
    guard.was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &set, &guard.old);
    return guard;
}

void ipu__size_guard_end(const ipu__size_guard *guard)
{
    const struct timespec now   = {0};
    int                   error = errno;
    sigset_t              set   = size_signal();
    if (!guard->was_pending)
        while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR) {}
    pthread_sigmask(SIG_SETMASK, &guard->old, NULL);
    errno = error;
}

/* ---- where it goes ---- */

/* A path walk in progress: what is left of the path, relative to the folder reached. */
typedef struct walk {
    int  folder;
    char rest[PATH_MAX];
    int  n_links;
    char refused[PATH_MAX]; /* a link that must not be followed, and its owner */
} walk;

enum { MOST_LINKS = 40 };

/* Enters the folder `fd`. Returns -1 with errno. */
static bool step(walk *w, int fd)
{
    if (fd < 0) return false;
    if (w->folder >= 0) close(w->folder);
    w->folder = fd;
    return true;
}

/* The kernel's rule (fs.protected_symlinks), applied even if it is turned off, or the kernel is only asked for a
 * link's text. */
static bool may_follow(walk *w, const char *name, uid_t owner)
{
    struct stat st;
    if (fstat(w->folder, &st) != 0) return false;
    if (!(st.st_mode & S_IWOTH) || owner == geteuid() || owner == st.st_uid) return true;
    snprintf(w->refused, sizeof w->refused, "%.200s is a link that user %lu has put there", name,
             (unsigned long)owner);
    errno = EACCES;
    return false;
}

/* Substitutes the link's text in the path. */
static bool follow(walk *w, const char *name, uid_t owner, const char *after)
{
    char    text[PATH_MAX], whole[PATH_MAX];
    ssize_t n = readlinkat(w->folder, name, text, sizeof text - 1);
    if (n < 0 || !may_follow(w, name, owner)) return false;
    text[n]  = 0;
    int used = snprintf(whole, sizeof whole, "%s%s%s", text, *after ? "/" : "", after);
    errno    = ++w->n_links > MOST_LINKS ? ELOOP : ENAMETOOLONG;
    if (w->n_links > MOST_LINKS || used < 0 || (size_t)used >= sizeof whole) return false;
    memcpy(w->rest, whole, (size_t)used + 1);
    return *whole != '/' || step(w, open_retrying("/", O_PATH | O_DIRECTORY, 0));
}

/* Resolves one component of the path. Sets *done if it is the last and not a link; `name` receives it. */
static bool walk_one(walk *w, char name[NAME_MAX + 1], bool *done)
{
    struct stat st;
    size_t      skip = strspn(w->rest, "/"), n = strcspn(w->rest + skip, "/");
    char        after[PATH_MAX];
    errno = ENAMETOOLONG;
    if (n > NAME_MAX) return false;
    snprintf(name, NAME_MAX + 1, "%.*s", (int)n, w->rest + skip);
    snprintf(after, sizeof after, "%s", w->rest + skip + n + strspn(w->rest + skip + n, "/"));
    bool is_link = n > 0 && fstatat(w->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
    if (is_link) return follow(w, name, st.st_uid, after);
    *done = !*after;
    if (*done) return true;
    memcpy(w->rest, after, strlen(after) + 1);
    int flags = O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC;
    return step(w, openat(w->folder, name, flags));
}

/* The folder of `path` after following all links, and the final name; -1 with errno on failure. */
static int find_folder(const char *path, char name[NAME_MAX + 1], walk *w)
{
    bool done = false;
    *w        = (walk){.folder = -1};
    errno     = ENAMETOOLONG;
    if (strlen(path) >= sizeof w->rest) return -1;
    memcpy(w->rest, path, strlen(path) + 1);
    bool ok = step(w, open_retrying(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY, 0));
    while (ok && !done) ok = walk_one(w, name, &done);
    if (ok) return w->folder;
    int error = errno;
    if (w->folder >= 0) close(w->folder);
    errno = error;
    return -1;
}

static ipu_status fail_folder(const char *what, const char *path, const walk *w)
{
    if (!*w->refused) return fail_errno(what, path);
    return ipu__fail(
        IPU_IO,
        "%s %s: %s, in a folder that all may write to: it is not followed: use another folder, or "
        "remove it if it is meant",
        what, path, w->refused);
}

bool ipu__file_links_are_trusted(const char *path)
{
    char name[NAME_MAX + 1];
    walk w;
    int  folder = find_folder(path, name, &w);
    if (folder >= 0) close(folder);
    return !*w.refused;
}

/* For messages. */
static void name_whole(ipu__new_file *f, const char *path)
{
    char link[40], folder[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", f->folder);
    ssize_t n = readlink(link, folder, sizeof folder - 1);
    if (n < 0) n = 0;
    folder[n] = 0;
    int used  = snprintf(f->path, sizeof f->path, "%s/%s", strcmp(folder, "/") ? folder : "", f->name);
    if (*folder != '/' || used < 0 || (size_t)used >= sizeof f->path)
        snprintf(f->path, sizeof f->path, "%s", path);
}

/* The location of the new file, and the mode of the one it replaces, or 0. */
static ipu_status find_target(const char *path, ipu__new_file *f, mode_t *mode)
{
    struct stat st;
    walk        w;
    *mode = 0;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return ipu__fail(IPU_IO, "cannot write %s: expected a regular file or none, found %s", path,
                         S_ISDIR(st.st_mode) ? "a directory" : "something else");
    errno = EISDIR;
    if (*path && path[strlen(path) - 1] == '/') return fail_errno("cannot write", path);
    f->folder = find_folder(path, f->name, &w);
    if (f->folder < 0) return fail_folder("cannot write", path, &w);
    name_whole(f, path);
    if (fstatat(f->folder, f->name, &st, AT_SYMLINK_NOFOLLOW) != 0) return IPU_OK;
    if (faccessat(f->folder, f->name, W_OK, 0) == 0)
        *mode = st.st_mode;
    else if (errno != ENOENT) /* otherwise others have just removed it: as if it had never existed */
        return fail_errno("cannot write", path);
    return IPU_OK;
}

static const char temporary_name[] = ".ipu-%ld-%u.tmp";

/* Takes a lock that tells whoever cleans up (ipu__folder_clear_rests) that the writer is alive. Returns false if a
 * cleanup has just won. Where locks are unsupported, names and ages decide. */
static bool claim(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

/* Returns a descriptor, or -1 with errno. Not mkstemp, whose files ignore the umask. */
static int open_temporary(ipu__new_file *f)
{
    static atomic_uint counter;
    int                fd;
    for (;;) {
        snprintf(f->temporary, sizeof f->temporary, temporary_name, (long)getpid(),
                 atomic_fetch_add(&counter, 1));
        fd = openat(f->folder, f->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
        if (fd < 0 && errno != EINTR && errno != EEXIST) return -1;
        if (fd < 0) continue;
        if (claim(fd)) return fd;
        unlinkat(f->folder, f->temporary, 0);
        close(fd);
    }
}

/* Some file systems cannot do this, and unreadable folders cannot be synced: best effort. */
static bool sync_folder(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno == EACCES || errno == EPERM;
    int result = fsync(fd), error = errno;
    close(fd);
    errno = error;
    return result == 0 || error == EINVAL || error == EROFS || error == ENOTSUP;
}

static ipu_status fail_sync(const char *path)
{
    char reason[IPU__FILE_REASON];
    return ipu__fail(
        IPU_IO, "%s is there, but may be gone after a crash of the machine: its folder cannot be synced: %s",
        path, ipu__file_reason(errno, reason));
}

ipu_status ipu__file_sync_folder(const char *path)
{
    char name[NAME_MAX + 1];
    walk w;
    int  folder = find_folder(path, name, &w);
    if (folder < 0) return fail_folder("cannot sync the folder of", path, &w);
    ipu_status status = sync_folder(folder) ? IPU_OK : fail_sync(path);
    close(folder);
    return status;
}

ipu_status ipu__file_begin(const char *path, ipu__new_file *f)
{
    mode_t mode;
    f->fd = f->folder = -1;
    f->hasty          = false;
    ipu_status status = find_target(path, f, &mode);
    if (status == IPU_OK) {
        f->fd = open_temporary(f);
        if (f->fd < 0) status = fail_errno("cannot make a temporary file beside", path);
    }
    if (status == IPU_OK && mode && fchmod(f->fd, mode & 07777) != 0) {
        status = fail_errno("cannot write", path);
        unlinkat(f->folder, f->temporary, 0);
    }
    if (status == IPU_OK) return IPU_OK;
    if (f->fd >= 0) close(f->fd);
    if (f->folder >= 0) close(f->folder);
    f->fd = f->folder = -1;
    return status;
}

void ipu__file_abandon(ipu__new_file *f)
{
    int error = errno;
    unlinkat(f->folder, f->temporary, 0);
    close(f->fd);
    close(f->folder);
    f->fd = f->folder = -1;
    errno             = error;
}

/* Syncs, and closes a descriptor to see errors that only show then: network file systems may report a full disk on
 * close. `f->fd` becomes another descriptor, which keeps the lock. */
static bool finish(ipu__new_file *f)
{
    if (!f->hasty && fsync(f->fd) != 0) return false;
    int keeps = fcntl(f->fd, F_DUPFD_CLOEXEC, 0), result = close(f->fd), error = errno;
    f->fd = keeps;
    errno = error;
    return result == 0;
}

ipu_status ipu__file_commit(ipu__new_file *f)
{
    if (!finish(f) || renameat(f->folder, f->temporary, f->folder, f->name) != 0) {
        ipu_status status = fail_errno("cannot write", f->path);
        ipu__file_abandon(f);
        return status;
    }
    ipu_status status = f->hasty || sync_folder(f->folder) ? IPU_OK : fail_sync(f->path);
    if (f->fd >= 0) close(f->fd);
    close(f->folder);
    f->fd = f->folder = -1;
    return status;
}

bool ipu__file_commit_new(ipu__new_file *f)
{
    bool ok = finish(f) && linkat(f->folder, f->temporary, f->folder, f->name, 0) == 0
           && (f->hasty || sync_folder(f->folder));
    ipu__file_abandon(f);
    return ok;
}

/* ---- writing ---- */

bool ipu__file_append(ipu__new_file *f, const void *data, size_t bytes)
{
    ipu__size_guard guard = ipu__size_guard_begin();
    bool            ok    = true;
    for (const char *at = data; ok && bytes;) {
        ssize_t done = write(f->fd, at, bytes);
        ok           = done >= 0 || errno == EINTR;
        if (done < 0) continue;
        at += done;
        bytes -= (size_t)done;
    }
    ipu__size_guard_end(&guard);
    return ok;
}

ipu_status ipu__file_write(const char *path, const void *data, size_t bytes)
{
    return ipu__file_write_pieces(path, &(ipu__file_piece){data, bytes}, 1);
}

ipu_status ipu__file_write_pieces(const char *path, const ipu__file_piece *pieces, size_t n)
{
    ipu__new_file f;
    IPU_TRY(ipu__file_begin(path, &f));
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) ok = ipu__file_append(&f, pieces[i].data, pieces[i].bytes);
    if (ok) return ipu__file_commit(&f);
    ipu_status status = fail_errno("cannot write", path);
    ipu__file_abandon(&f);
    return status;
}

bool ipu__file_is_temporary(const char *name, pid_t *writer)
{
    long     pid;
    unsigned number;
    char     again[64];
    if (sscanf(name, temporary_name, &pid, &number) != 2 || pid <= 0) return false;
    snprintf(again, sizeof again, temporary_name, pid, number);
    *writer = (pid_t)pid;
    return strcmp(name, again) == 0;
}
