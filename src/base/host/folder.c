/* Folders of files that come and go. Others may be working in the same folder: a file that has vanished is
 * not an error. */
#include "base/host/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/host/file.h"

/* ---- making ---- */

static ipu_status fail_make(const char *path)
{
    return ipu__fail(IPU_IO, "cannot make the folder %s: %s", path, strerror(errno));
}

/* The new name is synced to disk like a file's. */
static ipu_status make_one(const char *path, mode_t mode)
{
    if (mkdir(path, mode) == 0) return ipu__file_sync_folder(path);
    return errno == EEXIST ? IPU_OK : fail_make(path);
}

ipu_status ipu__folder_make(const char *path, mode_t mode)
{
    char        part[PATH_MAX];
    struct stat st;
    size_t      n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    errno = ENAMETOOLONG;
    if (n >= sizeof part) return fail_make(path);
    if (!ipu__file_links_are_trusted(path))
        return ipu__fail(
            IPU_IO,
            "cannot use the folder %s: a link on the way to it was put by another user in a folder "
            "that all may write to: use another folder, or remove it if it is meant",
            path);
    snprintf(part, sizeof part, "%.*s", (int)n, path);
    for (char *slash = part; (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        IPU_TRY(make_one(part, mode));
        *slash = '/';
    }
    IPU_TRY(make_one(part, mode));
    errno = ENOTDIR;
    return stat(part, &st) == 0 && S_ISDIR(st.st_mode) ? IPU_OK : fail_make(path);
}

const char *ipu__folder_distrust(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0) return strerror(errno);
    if (!S_ISDIR(st.st_mode)) return "it is no folder";
    if (st.st_uid != geteuid()) return "it belongs to another user";
    if (st.st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it";
    if (access(path, R_OK | W_OK | X_OK) != 0) return strerror(errno);
    return NULL;
}

/* ---- clearing ---- */

/* Process ids are reused: after a while, age decides. */
static bool is_rest(int folder, const char *name, pid_t writer)
{
    const time_t hour = 3600;
    struct stat  st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) return false;
    return (kill(writer, 0) != 0 && errno == ESRCH) || st.st_mtime < time(NULL) - hour;
}

/* Unless it is being written: the lock tells, whatever container or host the writer is in. We hold it until the file
 * is gone, because a writer that has just created the file takes the lock next, and starts over with another name if
 * it cannot. */
static void remove_rest(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) unlinkat(folder, name, 0);
    if (fd >= 0) close(fd);
}

void ipu__folder_clear(const char *path, bool (*is_temporary)(const char *name, pid_t *writer))
{
    DIR  *d = opendir(path);
    pid_t writer;
    if (!d) return;
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (is_temporary(e->d_name, &writer) && is_rest(dirfd(d), e->d_name, writer))
            remove_rest(dirfd(d), e->d_name);
    closedir(d);
}

void ipu__folder_clear_rests(const char *path) { ipu__folder_clear(path, ipu__file_is_temporary); }

/* ---- trimming ---- */

typedef struct kept {
    char     name[NAME_MAX + 1];
    int64_t  used;
    uint64_t bytes;
} kept;

typedef IPU__ARRAY(kept) kept_list;

static int by_use(const void *a, const void *b)
{
    const kept *x = a, *y = b;
    return (x->used > y->used) - (x->used < y->used);
}

/* Allocation failure leaves some entries out: they are trimmed another time. */
static uint64_t list_entries(DIR *d, bool (*is_entry)(const char *name), kept_list *list)
{
    struct stat st;
    uint64_t    bytes = 0;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (!is_entry(e->d_name) || strlen(e->d_name) > NAME_MAX
            || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        kept k = {.used  = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
                  .bytes = (uint64_t)st.st_size};
        memcpy(k.name, e->d_name, strlen(e->d_name) + 1);
        if (ipu__push(list, k)) bytes += k.bytes;
    }
    return bytes;
}

void ipu__folder_trim(const char *path, bool (*is_entry)(const char *name), uint64_t most_bytes,
                      size_t most_files)
{
    kept_list list = {0};
    DIR      *d    = opendir(path);
    if (!d) return;
    uint64_t bytes = list_entries(d, is_entry, &list);
    if (list.n > most_files || bytes > most_bytes) qsort(list.at, list.n, sizeof *list.at, by_use);
    for (size_t i = 0; i < list.n && (list.n - i > most_files || bytes > most_bytes); i++) {
        unlinkat(dirfd(d), list.at[i].name, 0);
        bytes -= list.at[i].bytes;
    }
    closedir(d);
    ipu__array_fini(&list);
}

void ipu__folder_note_use(const char *file) { utimensat(AT_FDCWD, file, NULL, 0); }
