/* Opening and reading of regular files only. O_NONBLOCK keeps open() from waiting for the writer of a pipe; it has no
 * effect on regular files. */
#include "base/host/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

static ipu_status fail_errno(const char *what, const char *path)
{
    return ipu__fail(IPU_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "something else";
}

static ipu_status fail_kind(const char *path, mode_t mode)
{
    errno = EINVAL;
    return ipu__fail(IPU_IO, "cannot read %s: expected a regular file, found %s", path, kind_of(mode));
}

/* Does not even open anything else, since opening some devices has side effects; the second check catches a file
 * swapped in the meantime. */
ipu_status ipu__regular_open(const char *path, int *fd)
{
    struct stat st;
    *fd = -1;
    if (stat(path, &st) != 0) return fail_errno("open", path);
    if (!S_ISREG(st.st_mode)) return fail_kind(path, st.st_mode);
    int opened;
    do opened = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    while (opened < 0 && errno == EINTR);
    if (opened < 0) return fail_errno("open", path);
    ipu_status status = fstat(opened, &st) != 0 ? fail_errno("read", path)
                      : S_ISREG(st.st_mode)     ? IPU_OK
                                                : fail_kind(path, st.st_mode);
    if (status == IPU_OK)
        *fd = opened;
    else
        close(opened);
    return status;
}

typedef IPU__ARRAY(char) bytes_array;

/* The size is only a hint: files grow, and those in /proc report 0. */
static ipu_status read_open(int fd, const char *path, size_t limit, bytes_array *data)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return fail_errno("read", path);
    if ((uintmax_t)st.st_size <= limit && !ipu__reserve(data, (size_t)st.st_size + 2))
        return ipu__fail_memory();
    while ((uintmax_t)st.st_size <= limit && data->n <= limit) {
        if (data->capacity - data->n < 2 && !ipu__reserve(data, 4096)) return ipu__fail_memory();
        ssize_t got = read(fd, data->at + data->n, data->capacity - data->n - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno("read", path);
        data->n += (size_t)got;
        data->at[data->n] = 0;
        if (got == 0) return IPU_OK;
    }
    return ipu__fail(IPU_IO, "cannot read %s: it is larger than the %zu bytes allowed here", path, limit);
}

ipu_status ipu__regular_read(const char *path, size_t limit, char **out, size_t *bytes)
{
    bytes_array data = {0};
    int         fd;
    *out   = NULL;
    *bytes = 0;
    IPU_TRY(ipu__regular_open(path, &fd));
    ipu_status status = read_open(fd, path, limit, &data);
    close(fd);
    if (status != IPU_OK) {
        ipu__array_fini(&data);
        return status;
    }
    *out   = data.at;
    *bytes = data.n;
    return IPU_OK;
}
