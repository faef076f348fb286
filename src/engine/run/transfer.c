/* Streams and remote buffers during a run. */
#include <string.h>

#include "engine/memory.h"
#include "engine/run/run.h"

static ipu_status call_back(const ipu_engine *e, uint32_t stream, const ipu__connection *c, void *data)
{
    const ipu__exe_stream *s      = &e->exe->streams.at[stream];
    ipu_status             status = c->fn(c->user, data, (size_t)s->bytes);
    if (status == IPU_OK) return IPU_OK;
    return ipu__fail(status, "stream \"%s\": its callback returned %d (%s)", ipu__exe_text(e->exe, s->handle),
                     (int)status, ipu_status_text(status));
}

/* The next part of the ring. */
static char *next_part(ipu__connection *c, size_t bytes)
{
    if (bytes == 0) return c->data;
    char *part = c->data + c->at;
    c->at += bytes;
    if (c->at >= c->bytes) c->at = 0;
    return part;
}

/* The list of streams that a run checks may come from a file, and be incomplete. */
static ipu_status check_connected(const ipu_engine *e, const ipu__exe_transfer *t, const ipu__connection *c)
{
    if (ipu__is_connected(c) || e->exe->tensors.at[t->tensor].bytes == 0) return IPU_OK;
    return ipu__fail(IPU_INVALID, "stream \"%s\" is not connected",
                     ipu__exe_text(e->exe, e->exe->streams.at[t->object].handle));
}

static bool lend(ipu_engine *e, const ipu__exe_transfer *t, const void *data)
{
    return e->def->lend && e->def->lend(e, (uint32_t)(t - e->exe->transfers.at), data);
}

/* The tensor's own memory if the host may see it; NULL if a copy is needed. */
static char *map(const ipu_engine *e, const ipu__exe_tensor *t, int64_t replica)
{
    return t->direct ? ipu__engine_map(e, replica, t->place) : NULL;
}

static ipu_status read_lent(ipu__runner *l, const ipu__exe_transfer *t, const ipu__connection *c,
                            int64_t first, int64_t end)
{
    const ipu_executable  *exe    = l->e->exe;
    const ipu__exe_tensor *tensor = &exe->tensors.at[t->tensor];
    if (tensor->bytes == 0) return IPU_OK;
    const void *from = c->lend(c->user, (size_t)tensor->bytes);
    if (!from)
        return ipu__fail(IPU_ABORTED, "stream \"%s\": its callback lent nothing",
                         ipu__exe_text(exe, exe->streams.at[t->object].handle));
    return lend(l->e, t, from) ? IPU_OK : l->e->def->write(l, tensor, first, end, from);
}

/* One transfer for replicas [first, end), from the connection of the first. */
static ipu_status read_one(ipu__runner *l, const ipu__exe_transfer *transfer, int64_t first, int64_t end)
{
    ipu_engine            *e      = l->e;
    const ipu__exe_tensor *tensor = &e->exe->tensors.at[transfer->tensor];
    ipu__connection       *c      = &e->connections[transfer->object * e->replication + first];
    IPU_TRY(check_connected(e, transfer, c));
    l->counts.streamed_bytes += tensor->bytes;
    lend(e, transfer, NULL);
    if (c->lend) return read_lent(l, transfer, c, first, end);
    if (!c->fn) return e->def->write(l, tensor, first, end, next_part(c, (size_t)tensor->bytes));
    char *own = end - first == 1 ? map(e, tensor, first) : NULL;
    IPU_TRY(call_back(e, transfer->object, c, own ? own : l->staging));
    return own ? IPU_OK : e->def->write(l, tensor, first, end, l->staging);
}

ipu_status ipu__engine_read_stream(ipu__runner *l, const ipu__instruction *i)
{
    ipu_engine              *e        = l->e;
    const ipu__exe_transfer *transfer = &e->exe->transfers.at[i->a];
    if (e->exe->streams.at[transfer->object].broadcast) return read_one(l, transfer, 0, e->replication);
    for (int64_t r = 0; r < e->replication; r++) IPU_TRY(read_one(l, transfer, r, r + 1));
    return IPU_OK;
}

static ipu_status write_one(ipu__runner *l, const ipu__exe_transfer *transfer, int64_t r)
{
    ipu_engine            *e      = l->e;
    const ipu__exe_tensor *tensor = &e->exe->tensors.at[transfer->tensor];
    ipu__connection       *c      = &e->connections[transfer->object * e->replication + r];
    IPU_TRY(check_connected(e, transfer, c));
    l->counts.streamed_bytes += tensor->bytes;
    if (c->place) {
        void *to = c->place(c->user, (size_t)tensor->bytes);
        return to ? e->def->read(l, tensor, r, to) : IPU_OK;
    }
    if (!c->fn) return e->def->read(l, tensor, r, next_part(c, (size_t)tensor->bytes));
    char *own = map(e, tensor, r);
    if (!own) IPU_TRY(e->def->read(l, tensor, r, l->staging));
    return call_back(e, transfer->object, c, own ? own : l->staging);
}

ipu_status ipu__engine_write_stream(ipu__runner *l, const ipu__instruction *i)
{
    ipu_engine *e = l->e;
    for (int64_t r = 0; r < e->replication; r++) IPU_TRY(write_one(l, &e->exe->transfers.at[i->a], r));
    return IPU_OK;
}

/* ---- remote buffers ---- */

/* One transfer of a replica. */
typedef struct rows {
    const ipu__exe_remote *remote;
    const ipu__exe_tensor *tensor;
    char                  *buffer;
    const char            *numbers; /* NULL means 0, 1, 2 ... */
    bool                   is_signed;
    int64_t                n;
} rows;

static int64_t row_at(const rows *x, int64_t i)
{
    if (!x->numbers) return i;
    uint32_t number;
    memcpy(&number, x->numbers + i * (int64_t)sizeof number, sizeof number);
    return x->is_signed ? (int64_t)(int32_t)number : (int64_t)number;
}

static ipu_status find_rows(ipu__runner *l, const ipu__instruction *i, int64_t r, rows *out)
{
    ipu_engine              *e        = l->e;
    const ipu__exe_transfer *transfer = &e->exe->transfers.at[i->a];
    const ipu__exe_remote   *remote   = &e->exe->remotes.at[transfer->object];
    const ipu__exe_tensor   *tensor   = &e->exe->tensors.at[transfer->tensor];
    *out                              = (rows){.remote = remote, .tensor = tensor};
    if (remote->row_bytes > 0) out->n = tensor->bytes / remote->row_bytes;
    out->buffer = e->remotes[transfer->object] + r * remote->n_rows * remote->row_bytes;
    if (transfer->rows != IPU__NONE) {
        const ipu__exe_tensor *numbers = &e->exe->tensors.at[transfer->rows];
        char *packed = l->staging + (map(e, tensor, r) ? 0 : ipu__memory_align(tensor->bytes));
        IPU_TRY(e->def->read(l, numbers, r, packed));
        out->numbers   = packed;
        out->is_signed = numbers->type == IPU_INT32;
    }
    for (int64_t k = 0; k < out->n; k++) {
        int64_t row = row_at(out, k);
        if (row < 0 || row >= remote->n_rows)
            return ipu__engine_abort(e, i, "remote buffer \"%s\": row %lld is out of range: it has %lld rows",
                                     ipu__exe_text(e->exe, remote->handle), (long long)row,
                                     (long long)remote->n_rows);
    }
    return IPU_OK;
}

/* Rows in order to or from one packed buffer. */
static void move_rows(const rows *x, char *packed, bool is_read)
{
    int64_t bytes = x->remote->row_bytes;
    for (int64_t k = 0; k < x->n; k++) {
        char *row = x->buffer + row_at(x, k) * bytes, *part = packed + k * bytes;
        memcpy(is_read ? part : row, is_read ? row : part, (size_t)bytes);
    }
}

static ipu_status remote_one(ipu__runner *l, const ipu__instruction *i, int64_t r)
{
    bool is_read = i->op == IPU__CODE_REMOTE_READ;
    rows x;
    IPU_TRY(find_rows(l, i, r, &x));
    l->counts.streamed_bytes += x.tensor->bytes;
    const ipu__engine_def *def = l->e->def;
    char                  *own = map(l->e, x.tensor, r);
    if (x.n == 1) {
        char *row = x.buffer + row_at(&x, 0) * x.remote->row_bytes;
        return is_read ? def->write(l, x.tensor, r, r + 1, row) : def->read(l, x.tensor, r, row);
    }
    if (!own && !is_read) IPU_TRY(def->read(l, x.tensor, r, l->staging));
    move_rows(&x, own ? own : l->staging, is_read);
    return own || !is_read ? IPU_OK : def->write(l, x.tensor, r, r + 1, l->staging);
}

ipu_status ipu__engine_remote(ipu__runner *l, const ipu__instruction *i)
{
    ipu_engine *e = l->e;
    for (int64_t r = 0; r < e->replication; r++) IPU_TRY(remote_one(l, i, r));
    return IPU_OK;
}
