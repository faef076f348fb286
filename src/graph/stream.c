/* Streams, remote buffers and host handles. */
#include "graph/graph.h"

/* Reserves `handle` in `names` for index `id`; it must be unique and not empty. NULL if an error was
 * recorded. */
static const char *take_handle(ipu_graph *g, const char *function, ipu__map *names, const char *handle,
                               uint32_t id)
{
    uint32_t other;
    if (!handle || !*handle) {
        ipu__graph_fail(g, IPU_INVALID, "%s: a handle must not be empty", function);
        return NULL;
    }
    if (ipu__map_find(names, handle, &other)) {
        ipu__graph_fail(g, IPU_INVALID, "%s: there is another \"%s\": handles are unique", function, handle);
        return NULL;
    }
    const char *own = ipu__graph_strdup(g, handle);
    if (own && !ipu__map_set(names, own, id)) {
        ipu__graph_fail_memory(g);
        return NULL;
    }
    return own;
}

static bool check_size(ipu_graph *g, const char *function, ipu_type type, int64_t n_elements, int64_t n_rows)
{
    if (!ipu__graph_ok(g)) return false;
    int64_t n;
    if (type >= IPU_N_TYPES)
        ipu__graph_fail(g, IPU_INVALID, "%s: %d is no element type", function, (int)type);
    else if (n_elements < 0 || n_rows < 0 || !ipu__shape_count(&IPU_SHAPE(n_rows, n_elements), &n))
        ipu__graph_fail(g, IPU_INVALID, "%s: %lld elements in %lld rows: negative or too many", function,
                        (long long)n_elements, (long long)n_rows);
    return ipu__graph_ok(g);
}

static ipu_stream add_stream(ipu_graph *graph, const char *function, ipu__stream stream)
{
    ipu_stream null = {graph, 0};
    if (!check_size(graph, function, stream.type, stream.n_elements, 1)) return null;
    ipu_graph *g  = graph->root;
    uint32_t   id = (uint32_t)g->streams.n;
    stream.handle = take_handle(g, function, &g->stream_names, stream.handle, id);
    if (!stream.handle) return null;
    stream.location = ipu__graph_here(g);
    if (!ipu__push(&g->streams, stream)) {
        ipu__graph_fail_memory(g);
        return null;
    }
    return (ipu_stream){graph, id};
}

ipu_stream ipu_graph_add_host_to_device(ipu_graph *g, const char *handle, ipu_type type, int64_t n_elements,
                                        ipu_stream_mode mode)
{
    ipu__stream stream = {
        .handle = handle, .type = type, .n_elements = n_elements, .to_device = true, .mode = mode};
    return add_stream(g, __func__, stream);
}

ipu_stream ipu_graph_add_device_to_host(ipu_graph *g, const char *handle, ipu_type type, int64_t n_elements)
{
    return add_stream(g, __func__, (ipu__stream){.handle = handle, .type = type, .n_elements = n_elements});
}

ipu_remote_buffer ipu_graph_add_remote_buffer(ipu_graph *graph, const char *handle, ipu_type type,
                                              int64_t n_elements, int64_t n_rows)
{
    ipu_remote_buffer null = {graph, 0};
    if (!check_size(graph, __func__, type, n_elements, n_rows)) return null;
    ipu_graph         *g      = graph->root;
    uint32_t           id     = (uint32_t)g->remote_buffers.n;
    ipu__remote_buffer buffer = {take_handle(g, __func__, &g->remote_names, handle, id), type, n_elements,
                                 n_rows, ipu__graph_here(g)};
    if (!buffer.handle) return null;
    if (!ipu__push(&g->remote_buffers, buffer)) {
        ipu__graph_fail_memory(g);
        return null;
    }
    return (ipu_remote_buffer){graph, id};
}

static void add_host_handle(ipu_graph *graph, const char *function, const char *handle, ipu_tensor t,
                            bool is_write)
{
    if (!ipu__graph_has(graph, function, t)) return;
    ipu_graph *g = graph->root;
    if (is_write && ipu_tensor_contains_constant(t)) {
        ipu__graph_fail(g, IPU_INVALID,
                        "%s: the tensor of \"%s\" contains a constant, which cannot be written", function,
                        handle);
        return;
    }
    if (is_write && ipu_tensor_contains_aliases(t)) {
        ipu__graph_fail(g, IPU_INVALID, "%s: the tensor of \"%s\" selects some elements twice", function,
                        handle);
        return;
    }
    ipu__map        *names = is_write ? &g->write_names : &g->read_names;
    ipu__host_handle h     = {take_handle(g, function, names, handle, (uint32_t)g->host_handles.n), t.id,
                              is_write, ipu__graph_here(g)};
    if (h.handle && !ipu__push(&g->host_handles, h)) ipu__graph_fail_memory(g);
}

void ipu_graph_add_host_write(ipu_graph *g, const char *handle, ipu_tensor t)
{
    add_host_handle(g, __func__, handle, t, true);
}

void ipu_graph_add_host_read(ipu_graph *g, const char *handle, ipu_tensor t)
{
    add_host_handle(g, __func__, handle, t, false);
}
