/* A training of several processes: what they tell one another beside gradients. */
#include "train_group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"

static tool_exit failed(void) { return tool_fail("%s", ipu_message()); }

/* ---- life ---- */

tool_exit train_group_open(train_group *g)
{
    *g = (train_group){.size = 1};
    if (ipu_comm_open(&g->comm) != IPU_OK) return failed();
    g->rank = ipu_comm_rank(g->comm);
    g->size = ipu_comm_size(g->comm);
    return TOOL_OK;
}

void train_group_close(train_group *g, tool_exit code)
{
    bool is_told = code == TOOL_OK || g->stops;
    if (g->comm && g->size > 1 && !is_told) {
        fflush(stdout);
        ipu_comm_abort(g->comm, (int)code);
    }
    ipu_comm_close(g->comm);
}

/* ---- settings ---- */

tool_exit train_group_agree(train_group *g, tool_exit code)
{
    if (ipu_comm_broadcast(g->comm, 0, &code, sizeof code) != IPU_OK) return failed();
    if (code != TOOL_OK) g->stops = true;
    return code;
}

tool_exit train_group_read_settings(train_group *g, train_settings *s, const tool_arguments *args)
{
    tool_exit code = train_group_is_first(g) ? train_settings_read(s, args, g->size) : TOOL_OK;
    code           = train_group_agree(g, code);
    return code != TOOL_OK || train_group_is_first(g) ? code : train_settings_read(s, args, g->size);
}

/* Where the data lie may differ between hosts. */
tool_exit train_group_compare(train_group *g, const json_t *options)
{
    enum { MOST = 64 };
    ipu_comm_item items[MOST];
    char         *values[MOST];
    size_t        n      = 0;
    ipu_status    status = IPU_OK;
    const char   *key;
    json_t       *value;
    bool          ok = true;
    json_object_foreach((json_t *)options, key, value)
    {
        if (!strcmp(key, "data") || n == MOST) continue;
        values[n] = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        ok        = ok && values[n];
        items[n]  = (ipu_comm_item){key, values[n] ? values[n] : ""};
        n++;
    }
    if (ok) status = ipu_comm_agree(g->comm, items, n);
    for (size_t i = 0; i < n; i++) free(values[i]);
    if (!ok) return tool_fail("out of memory");
    if (status == IPU_OK) return TOOL_OK;
    g->stops = status == IPU_INVALID; /* all know */
    return train_group_is_first(g) || !g->stops ? failed() : TOOL_FAILED;
}

/* ---- numbers ---- */

tool_exit train_group_add_up(train_group *g, double *loss, double *right, bool stop)
{
    if (g->size == 1) {
        g->stops = stop;
        return TOOL_OK;
    }
    double sums[] = {*loss, *right, stop};
    if (ipu_comm_all_reduce(g->comm, IPU_DOUBLE, sums, 3) != IPU_OK) return failed();
    *loss    = sums[0] / (double)g->size;
    *right   = sums[1];
    g->stops = sums[2] > 0;
    return TOOL_OK;
}

tool_exit train_group_tell(train_group *g, double *numbers, size_t n, bool stop)
{
    double told = stop;
    if (ipu_comm_broadcast(g->comm, 0, numbers, n * sizeof *numbers) != IPU_OK
        || ipu_comm_broadcast(g->comm, 0, &told, sizeof told) != IPU_OK)
        return failed();
    g->stops = told != 0;
    return TOOL_OK;
}

/* ---- checkpoints: from rank 0's disk to all, who may have none in common ---- */

/* The bytes of a file, to be freed; NULL: it cannot be read, which was reported. */
static char *read_all(const char *path, int64_t *bytes)
{
    FILE       *f = fopen(path, "rb");
    struct stat about;
    char       *data = NULL;
    if (f && fstat(fileno(f), &about) == 0) {
        *bytes = (int64_t)about.st_size;
        data   = malloc((size_t)*bytes + 1);
        if (data && fread(data, 1, (size_t)*bytes, f) != (size_t)*bytes) {
            free(data);
            data = NULL;
        }
    }
    if (!data) tool_fail("cannot read %s: %s", path, strerror(errno));
    if (f) fclose(f);
    return data;
}

/* What was sent, through a file that is gone afterwards. */
static tool_exit take(const char *data, int64_t bytes, ipu_checkpoint *out)
{
    const char *folder = getenv("TMPDIR");
    char        path[4096];
    snprintf(path, sizeof path, "%s/ipu-checkpoint-XXXXXX", folder && *folder ? folder : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) return tool_fail("cannot make %s: %s", path, strerror(errno));
    FILE     *f    = fdopen(fd, "wb");
    bool      ok   = f && fwrite(data, 1, (size_t)bytes, f) == (size_t)bytes;
    tool_exit code = TOOL_OK;
    if (f ? fclose(f) != 0 : close(fd) != 0) ok = false;
    if (!ok)
        code = tool_fail("cannot write %s: %s", path, strerror(errno));
    else if (ipu_checkpoint_read(path, out) != IPU_OK)
        code = failed();
    unlink(path);
    return code;
}

tool_exit train_group_share_checkpoint(train_group *g, const char *path, ipu_checkpoint *c)
{
    int64_t   bytes = -1;
    tool_exit code  = TOOL_OK;
    if (g->size == 1) return TOOL_OK;
    char *data = train_group_is_first(g) ? read_all(path, &bytes) : NULL;
    if (ipu_comm_broadcast(g->comm, 0, &bytes, sizeof bytes) != IPU_OK) code = failed();
    if (bytes < 0) code = TOOL_FAILED;
    if (code == TOOL_OK && !train_group_is_first(g)) data = malloc((size_t)bytes + 1);
    if (code == TOOL_OK && !data) code = tool_fail("out of memory");
    if (code == TOOL_OK && ipu_comm_broadcast(g->comm, 0, data, (size_t)bytes) != IPU_OK) code = failed();
    if (code == TOOL_OK && !train_group_is_first(g)) code = take(data, bytes, c);
    free(data);
    return code;
}

/* ---- what it cost ---- */

static void counters(ipu_executor *x, double *waited, int64_t *bytes)
{
    *waited = 0;
    *bytes  = 0;
    if (ipu_executor_engine(x)) ipu_engine_comm_counters(ipu_executor_engine(x), waited, bytes);
}

json_t *train_group_json(const train_group *g, ipu_executor *x)
{
    double  waited;
    int64_t bytes;
    if (g->size == 1) return json_null();
    counters(x, &waited, &bytes);
    return json_pack("{s:I, s:f, s:I}", "processes", (json_int_t)g->size, "waited_s", waited, "sent_bytes",
                     (json_int_t)bytes);
}

void train_group_print(const train_group *g, ipu_executor *x, double seconds)
{
    double  waited;
    int64_t bytes;
    char    sent[32];
    if (g->size == 1) return;
    counters(x, &waited, &bytes);
    tool_format((double)bytes, "B", sent, sizeof sent);
    printf("%lld processes: %.1f %% of the time waited for one another, %s sent by each\n",
           (long long)g->size, seconds > 0 ? 100 * waited / seconds : 0, sent);
}
