/* Streams, remote buffers and host handles: how data get in and out.
 *
 * A stream is a FIFO between the host and a program; each copy step moves one transfer. A remote buffer is
 * memory beside the chip, organised in rows. A host handle lets the host read or write a tensor between runs,
 * without a program step.
 *
 *     ipu_stream in = ipu_graph_add_host_to_device(g, "in", IPU_FLOAT, 100, IPU_STREAM_REPLICATE);
 *     ipu_program_add_read(p, in, x);
 *     ipu_graph_add_host_read(g, "result", y);           later: ipu_engine_read(e, "result", ...)
 *
 * Handles (names) are unique within their kind. All belong to the graph.
 */
#ifndef IPU_STREAM_H
#define IPU_STREAM_H

#include "ipu/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_stream {
    ipu_graph *graph;
    uint32_t   id;
} ipu_stream;

typedef struct ipu_remote_buffer {
    ipu_graph *graph;
    uint32_t   id;
} ipu_remote_buffer;

typedef enum ipu_stream_mode {
    IPU_STREAM_REPLICATE, /* each replica has its own connection */
    IPU_STREAM_BROADCAST  /* one connection; all replicas get the same transfer */
} ipu_stream_mode;

/* `n_elements` is the size of one transfer. */
ipu_stream ipu_graph_add_host_to_device(ipu_graph *g, const char *handle, ipu_type type, int64_t n_elements,
                                        ipu_stream_mode mode);
ipu_stream ipu_graph_add_device_to_host(ipu_graph *g, const char *handle, ipu_type type, int64_t n_elements);

/* `n_rows` rows of `n_elements` each, initially zero; every replica has its own. */
ipu_remote_buffer ipu_graph_add_remote_buffer(ipu_graph *g, const char *handle, ipu_type type,
                                              int64_t n_elements, int64_t n_rows);

/* Let the host write, or read, `t` by this name. */
void ipu_graph_add_host_write(ipu_graph *g, const char *handle, ipu_tensor t);
void ipu_graph_add_host_read(ipu_graph *g, const char *handle, ipu_tensor t);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
IPU_LEFT(ipu_stream, ipu_stream)
IPU_LEFT(ipu_remote_buffer, ipu_remote_buffer)
#define ipu_graph_add_host_to_device(...) \
    ipu_stream_left((IPU_ENTER, ipu_graph_add_host_to_device(__VA_ARGS__)))
#define ipu_graph_add_device_to_host(...) \
    ipu_stream_left((IPU_ENTER, ipu_graph_add_device_to_host(__VA_ARGS__)))
#define ipu_graph_add_remote_buffer(...) \
    ipu_remote_buffer_left((IPU_ENTER, ipu_graph_add_remote_buffer(__VA_ARGS__)))
#define ipu_graph_add_host_write(...) (IPU_ENTER, ipu_graph_add_host_write(__VA_ARGS__), ipu_leave())
#define ipu_graph_add_host_read(...) (IPU_ENTER, ipu_graph_add_host_read(__VA_ARGS__), ipu_leave())
#endif
#endif
