/* Appending, remembering the end of the file so that partial writes can be undone. */
#include "summary/append.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/host/file.h"

static ipu_status fail(const char *path)
{
    char reason[IPU__FILE_REASON];
    int  error = errno;
    ipu__fail(IPU_IO, "cannot write %s: %s", path, ipu__file_reason(error, reason));
    errno = error;
    return IPU_IO;
}

/* Must not block on a pipe without a reader. */
static int open_file(const char *path, bool exclusive)
{
    int flags = O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | (exclusive ? O_EXCL : 0);
    int fd;
    do fd = open(path, flags, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static ipu_status look(ipu__appended *f)
{
    struct stat st;
    if (fstat(f->fd, &st) != 0) return fail(f->path);
    if (!S_ISREG(st.st_mode))
        return ipu__fail(IPU_IO, "cannot write %s: expected a regular file or none, found something else",
                         f->path);
    f->bytes = st.st_size;
    return IPU_OK;
}

ipu_status ipu__append_open(const char *path, bool exclusive, ipu__appended *out)
{
    *out = (ipu__appended){.fd = -1, .path = ipu__strdup(path)};
    if (!out->path) return ipu__fail_memory();
    if (!ipu__file_links_are_trusted(path))
        return ipu__fail(
            IPU_IO,
            "cannot write %s: a link on the way to it was put by another user in a folder that all may "
            "write to: use another folder, or remove it",
            path);
    out->fd = open_file(path, exclusive);
    return out->fd < 0 ? fail(path) : look(out);
}

void ipu__append_close(ipu__appended *f)
{
    if (!f->path) return;
    if (f->fd >= 0) close(f->fd);
    ipu__free(f->path);
    *f = (ipu__appended){0};
}

static bool write_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno != EINTR) return false;
        if (n <= 0) continue;
        data += n;
        bytes -= (size_t)n;
    }
    return true;
}

ipu_status ipu__append(ipu__appended *f, const void *data, size_t bytes)
{
    ipu__size_guard guard = ipu__size_guard_begin();
    bool            ok    = write_all(f->fd, data, bytes);
    ipu__size_guard_end(&guard);
    if (ok) {
        f->bytes += (int64_t)bytes;
        return IPU_OK;
    }
    fail(f->path);
    if (ftruncate(f->fd, f->bytes) != 0) return fail(f->path);
    return IPU_IO;
}

ipu_status ipu__append_cut(ipu__appended *f, int64_t bytes)
{
    if (ftruncate(f->fd, bytes) != 0) return fail(f->path);
    f->bytes = bytes;
    return IPU_OK;
}
