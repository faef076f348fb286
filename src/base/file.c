/* Reading and replacing whole files. Whatever fails, no temporary file stays and no old one is harmed. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
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

/* Where the new file goes, and the mode of the one it replaces; 0: there is none. */
static ipu_status find_target(const char *path, ipu__new_file *f, mode_t *mode)
{
    struct stat st;
    if (strlen(path) >= sizeof f->path) {
        errno = ENAMETOOLONG;
        return fail_errno("cannot write", path);
    }
    *mode = 0;
    if (!realpath(path, f->path)) memcpy(f->path, path, strlen(path) + 1);
    if (stat(f->path, &st) != 0) return IPU_OK;
    if (!S_ISREG(st.st_mode))
        return ipu__fail(IPU_IO, "cannot write %s: expected a regular file or none, found %s", path,
                         S_ISDIR(st.st_mode) ? "a directory" : "something else");
    if (access(f->path, W_OK) == 0)
        *mode = st.st_mode;
    else if (errno != ENOENT) /* else others have removed it meanwhile: as if it had not been there */
        return fail_errno("cannot write", path);
    return IPU_OK;
}

static const char temporary_name[] = ".ipu-%ld-%u.tmp";

/* Length of the folder's part of the path, with the slash. */
static int folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash + 1 - path) : 0;
}

/* A descriptor, or -1 with errno. Not mkstemp, whose files ignore the umask. */
static int open_temporary(ipu__new_file *f)
{
    static atomic_uint counter;
    int                folder = folder_length(f->path), fd;
    char               name[64];
    do {
        snprintf(name, sizeof name, temporary_name, (long)getpid(), atomic_fetch_add(&counter, 1));
        int n = snprintf(f->temporary, sizeof f->temporary, "%.*s%s", folder, f->path, name);
        if (n < 0 || (size_t)n >= sizeof f->temporary) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open_retrying(f->temporary, O_RDWR | O_CREAT | O_EXCL, 0666);
    } while (fd < 0 && errno == EEXIST);
    return fd;
}

void ipu__file_sync_folder(const char *path)
{
    char folder[PATH_MAX];
    int  n = folder_length(path);
    snprintf(folder, sizeof folder, "%.*s", n ? n : 1, n ? path : ".");
    int fd = open_retrying(folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

ipu_status ipu__file_begin(const char *path, ipu__new_file *f)
{
    mode_t mode;
    f->fd    = -1;
    f->hasty = false;
    IPU_TRY(find_target(path, f, &mode));
    f->fd = open_temporary(f);
    if (f->fd < 0) return fail_errno("cannot make a temporary file beside", path);
    if (!mode || fchmod(f->fd, mode & 07777) == 0) return IPU_OK;
    ipu_status status = fail_errno("cannot write", path);
    ipu__file_abandon(f);
    return status;
}

void ipu__file_abandon(ipu__new_file *f)
{
    close(f->fd);
    unlink(f->temporary);
    f->fd = -1;
}

ipu_status ipu__file_commit(ipu__new_file *f)
{
    bool ok    = f->hasty || fsync(f->fd) == 0;
    int  error = errno;
    if (close(f->fd) != 0 && ok) { /* network file systems find out here that the disk is full */
        ok    = false;
        error = errno;
    }
    if (ok && rename(f->temporary, f->path) != 0) {
        ok    = false;
        error = errno;
    }
    f->fd = -1;
    if (!ok) {
        unlink(f->temporary);
        errno = error;
        return fail_errno("cannot write", f->path);
    }
    if (!f->hasty) ipu__file_sync_folder(f->path);
    return IPU_OK;
}

bool ipu__file_append(ipu__new_file *f, const void *data, size_t bytes)
{
    for (const char *at = data; bytes;) {
        ssize_t done = write(f->fd, at, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return false;
        at += done;
        bytes -= (size_t)done;
    }
    return true;
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
