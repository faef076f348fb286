/* Files mapped into memory: pages are read when touched, and can be dropped again. */
#include "data/block.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/host/regular.h"

static ipu_status map_open(int fd, const char *path, ipu__bytes *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return ipu__fail(IPU_IO, "cannot read %s: %s", path, strerror(errno));
    if (st.st_size == 0) return IPU_OK; /* mmap refuses a length of 0 */
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) return ipu__fail(IPU_IO, "cannot map %s: %s", path, strerror(errno));
    *out = (ipu__bytes){.data = at, .bytes = (size_t)st.st_size, .mapped = at};
    return IPU_OK;
}

ipu_status ipu__bytes_map(const char *path, ipu__bytes *out)
{
    int fd;
    *out = (ipu__bytes){0};
    IPU_TRY(ipu__regular_open(path, &fd));
    ipu_status status = map_open(fd, path, out);
    close(fd);
    return status;
}

void ipu__bytes_free(ipu__bytes *b)
{
    if (b->mapped) munmap(b->mapped, b->bytes);
    ipu__free(b->owned);
    *b = (ipu__bytes){0};
}
