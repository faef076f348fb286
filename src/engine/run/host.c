/* The host's side between runs: connecting streams, reading and writing tensors and remote rows. */
#include <string.h>

#include "base/nearest.h"
#include "engine/run/run.h"

/* ---- names ---- */

/* Index of `handle` in `names`; NOT_FOUND suggests the nearest. */
static ipu_status find(const ipu__map *names, const char *kind, const char *handle, uint32_t *out)
{
    if (!handle) return ipu__fail(IPU_INVALID, "the name of a %s is NULL", kind);
    if (ipu__map_find(names, handle, out)) return IPU_OK;
    ipu__nearest nearest = ipu__nearest_to(handle);
    for (size_t i = 0; i < names->capacity; i++)
        if (names->slots[i].key) ipu__nearest_try(&nearest, names->slots[i].key);
    return ipu__fail(IPU_NOT_FOUND, "there is no %s \"%s\"%s", kind, handle, ipu__nearest_hint(&nearest));
}

static ipu_status check_replica(const ipu_engine *e, const char *what, int64_t replica)
{
    if (replica >= 0 && replica < e->replication) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: there is no replica %lld: the graph has %lld, counted from 0", what,
                     (long long)replica, (long long)e->replication);
}

/* ---- streams ---- */

static ipu_status find_connection(ipu_engine *e, const char *handle, int64_t replica,
                                  const ipu__exe_stream **stream, ipu__connection **out)
{
    uint32_t id = 0;
    IPU_TRY(ipu__engine_check(e));
    IPU_TRY(find(&e->exe->stream_names, "stream", handle, &id));
    *stream = &e->exe->streams.at[id];
    IPU_TRY(check_replica(e, handle, replica));
    if ((*stream)->broadcast && replica != 0)
        return ipu__fail(
            IPU_INVALID,
            "stream \"%s\" is broadcast: it has one connection for all replicas, that of replica 0", handle);
    *out = &e->connections[id * e->replication + replica];
    return IPU_OK;
}

ipu_status ipu_engine_connect_stream_replica(ipu_engine *e, const char *handle, int64_t replica, void *data,
                                             size_t bytes)
{
    const ipu__exe_stream *stream;
    ipu__connection       *connection;
    IPU_TRY(find_connection(e, handle, replica, &stream, &connection));
    if (!data) return ipu__fail(IPU_INVALID, "stream \"%s\": the memory to connect it to is NULL", handle);
    size_t transfer = (size_t)stream->bytes;
    if (transfer ? bytes == 0 || bytes % transfer != 0 : bytes != 0)
        return ipu__fail(IPU_INVALID,
                         "stream \"%s\": expected a multiple of a transfer (%zu bytes), found %zu bytes",
                         handle, transfer, bytes);
    *connection = (ipu__connection){.data = data, .bytes = bytes};
    return IPU_OK;
}

ipu_status ipu_engine_connect_stream(ipu_engine *e, const char *handle, void *data, size_t bytes)
{
    return ipu_engine_connect_stream_replica(e, handle, 0, data, bytes);
}

ipu_status ipu_engine_connect_callback_replica(ipu_engine *e, const char *handle, int64_t replica,
                                               ipu_stream_fn fn, void *user)
{
    const ipu__exe_stream *stream;
    ipu__connection       *connection;
    IPU_TRY(find_connection(e, handle, replica, &stream, &connection));
    if (!fn) return ipu__fail(IPU_INVALID, "stream \"%s\": the callback is NULL", handle);
    *connection = (ipu__connection){.fn = fn, .user = user};
    return IPU_OK;
}

ipu_status ipu_engine_connect_lender_replica(ipu_engine *e, const char *handle, int64_t replica,
                                             ipu_stream_lend_fn lend, void *user)
{
    const ipu__exe_stream *stream;
    ipu__connection       *connection;
    IPU_TRY(find_connection(e, handle, replica, &stream, &connection));
    if (!lend) return ipu__fail(IPU_INVALID, "stream \"%s\": the callback is NULL", handle);
    if (!stream->to_device)
        return ipu__fail(IPU_INVALID, "stream \"%s\" is to the host: memory is lent to those to the device",
                         handle);
    *connection = (ipu__connection){.lend = lend, .user = user};
    return IPU_OK;
}

ipu_status ipu_engine_connect_place_replica(ipu_engine *e, const char *handle, int64_t replica,
                                            ipu_stream_place_fn place, void *user)
{
    const ipu__exe_stream *stream;
    ipu__connection       *connection;
    IPU_TRY(find_connection(e, handle, replica, &stream, &connection));
    if (!place) return ipu__fail(IPU_INVALID, "stream \"%s\": the callback is NULL", handle);
    if (stream->to_device)
        return ipu__fail(IPU_INVALID, "stream \"%s\" is to the device: places are for those to the host",
                         handle);
    *connection = (ipu__connection){.place = place, .user = user};
    return IPU_OK;
}

ipu_status ipu_engine_connect_callback(ipu_engine *e, const char *handle, ipu_stream_fn fn, void *user)
{
    return ipu_engine_connect_callback_replica(e, handle, 0, fn, user);
}

/* ---- tensors ---- */

static ipu_status check_buffer(const char *what, const char *handle, int64_t expected, const void *data,
                               size_t bytes)
{
    if (bytes != (size_t)expected)
        return ipu__fail(IPU_INVALID, "%s \"%s\": it has %lld bytes, found %zu", what, handle,
                         (long long)expected, bytes);
    if (!data && bytes > 0) return ipu__fail(IPU_INVALID, "%s \"%s\": the memory is NULL", what, handle);
    return IPU_OK;
}

/* Between `data` and the tensor in replicas [first, end). */
static ipu_status access_tensor(ipu_engine *e, const char *handle, bool is_write, int64_t first, int64_t end,
                                void *data, size_t bytes)
{
    const ipu_executable *exe  = e->exe;
    const char           *what = is_write ? "host write" : "host read";
    uint32_t              id   = 0, other;
    IPU_TRY(ipu__engine_check(e));
    const ipu__map *names  = is_write ? &exe->write_names : &exe->read_names,
                   *others = is_write ? &exe->read_names : &exe->write_names;
    if (handle && !ipu__map_find(names, handle, &id) && ipu__map_find(others, handle, &other))
        return ipu__fail(IPU_NOT_FOUND, "\"%s\" is there for %s only: add ipu_graph_add_host_%s for it",
                         handle, is_write ? "reading" : "writing", is_write ? "write" : "read");
    IPU_TRY(find(names, what, handle, &id));
    IPU_TRY(check_replica(e, handle, first));
    const ipu__exe_tensor *tensor = &exe->tensors.at[exe->handles.at[id].tensor];
    IPU_TRY(check_buffer(what, handle, tensor->bytes, data, bytes));
    if (ipu__engine_is_checking(e))
        IPU_TRY(e->def->checks->host(e, handle, exe->handles.at[id].tensor, is_write, first, end));
    IPU_TRY(is_write ? e->def->write(e->runners, tensor, first, end, data)
                     : e->def->read(e->runners, tensor, first, data));
    if (e->device) ipu__device_count_host_bytes(e->device, (int64_t)bytes);
    return IPU_OK;
}

ipu_status ipu_engine_write(ipu_engine *e, const char *handle, const void *data, size_t bytes)
{
    return access_tensor(e, handle, true, 0, e->replication, (void *)data, bytes);
}

ipu_status ipu_engine_write_replica(ipu_engine *e, const char *handle, int64_t replica, const void *data,
                                    size_t bytes)
{
    return access_tensor(e, handle, true, replica, replica + 1, (void *)data, bytes);
}

ipu_status ipu_engine_read_replica(ipu_engine *e, const char *handle, int64_t replica, void *data,
                                   size_t bytes)
{
    return access_tensor(e, handle, false, replica, replica + 1, data, bytes);
}

ipu_status ipu_engine_read(ipu_engine *e, const char *handle, void *data, size_t bytes)
{
    return ipu_engine_read_replica(e, handle, 0, data, bytes);
}

/* ---- remote buffers ---- */

typedef struct remote_row {
    const char *handle;
    int64_t     replica, number;
    const void *data; /* the host's */
    size_t      bytes;
} remote_row;

static ipu_status check_row(const ipu_engine *e, const remote_row *r, uint32_t id)
{
    const ipu__exe_remote *remote = &e->exe->remotes.at[id];
    IPU_TRY(check_replica(e, r->handle, r->replica));
    IPU_TRY(check_buffer("a row of remote buffer", r->handle, remote->row_bytes, r->data, r->bytes));
    if (r->number >= 0 && r->number < remote->n_rows) return IPU_OK;
    return ipu__fail(IPU_INVALID, "remote buffer \"%s\": row %lld is out of range: it has %lld rows",
                     r->handle, (long long)r->number, (long long)remote->n_rows);
}

static ipu_status copy_row(ipu_engine *e, const remote_row *r, void *to_host)
{
    uint32_t id = 0;
    IPU_TRY(ipu__engine_check(e));
    IPU_TRY(find(&e->exe->remote_names, "remote buffer", r->handle, &id));
    IPU_TRY(check_row(e, r, id));
    const ipu__exe_remote *remote = &e->exe->remotes.at[id];
    char *at = e->remotes[id] + (r->replica * remote->n_rows + r->number) * remote->row_bytes;
    if (ipu__engine_is_checking(e)) IPU_TRY(e->def->checks->row(e, id, r->replica, r->number, !to_host));
    if (r->bytes > 0) memcpy(to_host ? to_host : at, to_host ? at : r->data, r->bytes);
    return IPU_OK;
}

ipu_status ipu_engine_write_remote(ipu_engine *e, const char *handle, int64_t replica, int64_t row,
                                   const void *data, size_t bytes)
{
    return copy_row(e, &(remote_row){handle, replica, row, data, bytes}, NULL);
}

ipu_status ipu_engine_read_remote(ipu_engine *e, const char *handle, int64_t replica, int64_t row, void *data,
                                  size_t bytes)
{
    return copy_row(e, &(remote_row){handle, replica, row, data, bytes}, data);
}
