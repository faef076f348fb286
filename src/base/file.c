/* Reading and replacing whole files. Whatever fails, no temporary file stays and no old one is harmed. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

static ipu_status fail_errno(const char *what, const char *path)
{
    return ipu__fail(IPU_IO, "%s %s: %s", what, path, strerror(errno));
}

static int open_retrying(const char *path, int flags, mode_t mode)
{
    int fd;
    do fd = open(path, flags | O_CLOEXEC | O_NOCTTY, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* ---- reading ---- */

typedef IPU_ARRAY(char) bytes_array;

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

/* The size is a hint only: files grow, and those of /proc say 0. */
static ipu_status read_open(int fd, const char *path, size_t limit, bytes_array *data, bool *is_ours)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return fail_errno("cannot read", path);
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
        return ipu__fail(IPU_IO, "cannot read %s: expected a regular file or a pipe, found %s", path,
                         S_ISDIR(st.st_mode) ? "a directory" : "something else");
    if (S_ISREG(st.st_mode) && (uintmax_t)st.st_size > limit) return fail_too_large(path, limit);
    if (S_ISREG(st.st_mode) && !ipu__reserve(data, (size_t)st.st_size + 2)) return ipu__fail_memory();
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

/* ---- writing ---- */

/* Where the new file is made, and what it replaces. */
typedef struct target {
    char   path[PATH_MAX]; /* links followed: the link stays, the file it names is replaced */
    char   temporary[PATH_MAX];
    bool   exists;
    mode_t mode;
} target;

static ipu_status find_target(const char *path, target *t)
{
    struct stat st;
    if (strlen(path) >= sizeof t->path) {
        errno = ENAMETOOLONG;
        return fail_errno("cannot write", path);
    }
    if (!realpath(path, t->path)) memcpy(t->path, path, strlen(path) + 1);
    t->exists = stat(t->path, &st) == 0;
    if (!t->exists) return IPU_OK;
    if (!S_ISREG(st.st_mode))
        return ipu__fail(IPU_IO, "cannot write %s: expected a regular file or none, found %s", path,
                         S_ISDIR(st.st_mode) ? "a directory" : "something else");
    if (access(t->path, W_OK) != 0) return fail_errno("cannot write", path);
    t->mode = st.st_mode & 07777;
    return IPU_OK;
}

/* A descriptor, or -1 with errno. Not mkstemp, whose files ignore the umask. */
static int open_temporary(target *t)
{
    static atomic_uint counter;
    const char        *slash  = strrchr(t->path, '/');
    int                folder = slash ? (int)(slash + 1 - t->path) : 0, fd;
    do {
        int n = snprintf(t->temporary, sizeof t->temporary, "%.*s.ipu-%ld-%u.tmp", folder, t->path,
                         (long)getpid(), atomic_fetch_add(&counter, 1));
        if (n < 0 || (size_t)n >= sizeof t->temporary) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open_retrying(t->temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
    } while (fd < 0 && errno == EEXIST);
    return fd;
}

static bool write_piece(int fd, const char *data, size_t bytes)
{
    while (bytes) {
        ssize_t done = write(fd, data, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return false;
        data += done;
        bytes -= (size_t)done;
    }
    return true;
}

static bool write_all(int fd, const ipu__file_piece *pieces, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!write_piece(fd, pieces[i].data, pieces[i].bytes)) return false;
    return true;
}

/* So that the new name, too, survives a crash. Some file systems cannot: then it is as good as it gets. */
static void sync_folder(const target *t)
{
    char        folder[PATH_MAX];
    const char *slash = strrchr(t->path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash + 1 - t->path) : 1, slash ? t->path : ".");
    int fd = open_retrying(folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

ipu_status ipu__file_write(const char *path, const void *data, size_t bytes)
{
    return ipu__file_write_pieces(path, &(ipu__file_piece){data, bytes}, 1);
}

ipu_status ipu__file_write_pieces(const char *path, const ipu__file_piece *pieces, size_t n)
{
    target t = {0};
    IPU_TRY(find_target(path, &t));
    int fd = open_temporary(&t);
    if (fd < 0) return fail_errno("cannot make a temporary file beside", path);
    bool ok    = (!t.exists || fchmod(fd, t.mode) == 0) && write_all(fd, pieces, n) && fsync(fd) == 0;
    int  error = errno;
    if (close(fd) != 0 && ok) { /* network file systems find out here that the disk is full */
        ok    = false;
        error = errno;
    }
    if (ok && rename(t.temporary, t.path) != 0) {
        ok    = false;
        error = errno;
    }
    if (!ok) {
        unlink(t.temporary);
        errno = error;
        return fail_errno("cannot write", path);
    }
    sync_folder(&t);
    return IPU_OK;
}
