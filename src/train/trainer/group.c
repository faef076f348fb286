/* A training of several processes: what they tell one another beside gradients. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "train/trainer/trainer.h"

static ipu_comm *comm_of(const ipu_trainer *t) { return t->options.executor.comm; }

/* Of a process that is not the first, whose message says more. */
static ipu_status fail_elsewhere(ipu_trainer *t, ipu_status status)
{
    t->is_elsewhere = true;
    return ipu__fail(status, "process 0 of the training has failed: its message says why");
}

/* ---- settings ---- */

ipu_status ipu__trainer_agree(ipu_trainer *t, ipu_status status)
{
    if (t->n_ranks == 1) return status;
    ipu_status found = status;
    IPU_TRY(ipu_comm_broadcast(comm_of(t), 0, &found, sizeof found));
    if (found == IPU_OK) return status;
    t->stops = true;
    return ipu__trainer_is_first(t) ? status : fail_elsewhere(t, found);
}

/* Where the data lie may differ between hosts. */
static bool only_tells(const ipu_trainer *t, const char *key)
{
    for (size_t i = 0; i < t->options.n_may_differ; i++)
        if (!strcmp(t->options.may_differ[i], key)) return true;
    return false;
}

/* Values are texts of jansson's. `n`: how many there are, also if memory ran out. */
static ipu_status list_values(const ipu_trainer *t, const json_t *all, ipu_comm_item *items, char **values,
                              size_t *n)
{
    const char *key;
    json_t     *value;
    json_object_foreach((json_t *)(uintptr_t)all, key, value)
    {
        if (only_tells(t, key)) continue;
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        if (!text) return ipu__fail_memory();
        values[*n]    = text;
        items[(*n)++] = (ipu_comm_item){key, text};
    }
    return IPU_OK;
}

ipu_status ipu__trainer_compare(ipu_trainer *t, const json_t *all)
{
    size_t         most = json_object_size(all) + 1, n = 0;
    ipu_comm_item *items  = ipu__alloc(most * sizeof *items);
    char         **values = ipu__alloc(most * sizeof *values);
    ipu_status     status = items && values ? list_values(t, all, items, values, &n) : ipu__fail_memory();
    if (status == IPU_OK) {
        status          = ipu_comm_agree(comm_of(t), items, n);
        t->stops        = status == IPU_INVALID; /* all know */
        t->is_elsewhere = t->stops && !ipu__trainer_is_first(t);
    }
    for (size_t i = 0; i < n; i++) free(values[i]);
    ipu__free(items);
    ipu__free(values);
    return status;
}

/* ---- numbers ---- */

ipu_status ipu__trainer_add_up(ipu_trainer *t, double *loss, double *right, bool stop)
{
    if (t->n_ranks == 1) {
        t->stops = stop;
        return IPU_OK;
    }
    double sums[] = {*loss, *right, stop};
    IPU_TRY(ipu_comm_all_reduce(comm_of(t), IPU_DOUBLE, sums, 3));
    *loss    = sums[0] / (double)t->n_ranks;
    *right   = sums[1];
    t->stops = sums[2] > 0;
    return IPU_OK;
}

ipu_status ipu__trainer_tell(ipu_trainer *t, double *numbers, size_t n, bool stop)
{
    double told = stop;
    if (t->n_ranks > 1) {
        IPU_TRY(ipu_comm_broadcast(comm_of(t), 0, numbers, n * sizeof *numbers));
        IPU_TRY(ipu_comm_broadcast(comm_of(t), 0, &told, sizeof told));
    }
    t->stops = told != 0;
    return IPU_OK;
}

/* ---- checkpoints: from the first one's disk to all, who may have none in common ---- */

/* The bytes of a file. Owned: ipu__free. */
static ipu_status read_all(const char *path, char **out, int64_t *bytes)
{
    FILE       *f    = fopen(path, "rb");
    char       *data = NULL;
    int64_t     n    = 0;
    struct stat about;
    if (f && fstat(fileno(f), &about) == 0) {
        n    = (int64_t)about.st_size;
        data = ipu__alloc((size_t)n + 1);
        if (data && fread(data, 1, (size_t)n, f) != (size_t)n) {
            ipu__free(data);
            data = NULL;
        }
    }
    int error = errno;
    if (f) fclose(f);
    if (!data) return ipu__fail(IPU_IO, "cannot read %s: %s", path, strerror(error));
    *out   = data;
    *bytes = n;
    return IPU_OK;
}

/* What was sent, through a file that is gone afterwards. */
static ipu_status take(const char *data, int64_t bytes, ipu_checkpoint *out)
{
    const char *folder = getenv("TMPDIR");
    char        path[4096];
    snprintf(path, sizeof path, "%s/ipu-checkpoint-XXXXXX", folder && *folder ? folder : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) return ipu__fail(IPU_IO, "cannot make %s: %s", path, strerror(errno));
    FILE      *f  = fdopen(fd, "wb");
    bool       ok = f && fwrite(data, 1, (size_t)bytes, f) == (size_t)bytes;
    ipu_status status;
    if (f ? fclose(f) != 0 : close(fd) != 0) ok = false;
    if (ok)
        status = ipu_checkpoint_read(path, out);
    else
        status = ipu__fail(IPU_IO, "cannot write %s: %s", path, strerror(errno));
    unlink(path);
    return status;
}

ipu_status ipu__trainer_share_checkpoint(ipu_trainer *t, const char *path, ipu_checkpoint *c)
{
    int64_t    bytes  = -1;
    bool       first  = ipu__trainer_is_first(t);
    char      *data   = NULL;
    ipu_status status = IPU_OK;
    if (t->n_ranks == 1) return IPU_OK;
    if (first) status = read_all(path, &data, &bytes);
    IPU_TRY(ipu_comm_broadcast(comm_of(t), 0, &bytes, sizeof bytes));
    if (bytes < 0) return first ? status : fail_elsewhere(t, IPU_IO);
    if (!first && !(data = ipu__alloc((size_t)bytes + 1))) return ipu__fail_memory();
    status = ipu_comm_broadcast(comm_of(t), 0, data, (size_t)bytes);
    if (status == IPU_OK && !first) status = take(data, bytes, c);
    ipu__free(data);
    return status;
}
