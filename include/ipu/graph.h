/* Graphs: variables mapped to tiles, and the vertices that work on them.
 *
 * A graph owns everything built in it (variables, tensors, compute sets, vertices, programs, streams) until
 * ipu_graph_destroy. It is used by one thread at a time.
 *
 *     ipu_graph *g;
 *     IPU_TRY(ipu_graph_create(&target, 1, &g));
 *     ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(100), "x");
 *     ipu_graph_map_linearly(g, x);
 *     if (ipu_graph_status(g) != IPU_OK) puts(ipu_graph_message(g));
 *
 * Builder functions do not return a status: the graph keeps the first error, with the file and line of the
 * call, and ignores later calls; compiling reports it.
 */
#ifndef IPU_GRAPH_H
#define IPU_GRAPH_H

#include "ipu/codelet.h"
#include "ipu/target.h"
#include "ipu/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A graph for `target`: the same program on `replication` groups of IPUs (1 for no replication). The user
 * builds the graph of one replica, which has n_ipus / replication IPUs. Owned: ipu_graph_destroy. Statuses:
 * INVALID (replication does not divide n_ipus). */
ipu_status ipu_graph_create(const ipu_target *target, int64_t replication, ipu_graph **out);
void       ipu_graph_destroy(ipu_graph *g);

/* The first builder error and its message ("" if none). */
ipu_status  ipu_graph_status(const ipu_graph *g);
const char *ipu_graph_message(const ipu_graph *g);

const ipu_target *ipu_graph_target(const ipu_graph *g);
int64_t           ipu_graph_replication(const ipu_graph *g);
/* Number of tiles this graph may use: those of one replica, or of a virtual graph. */
int64_t ipu_graph_n_tiles(const ipu_graph *g);

/* ---- virtual graphs ---- */

/* The same graph seen through a window: tile t of the result is tile tiles[t] of `g`. Variables and vertices
 * mapped through it land there; tensors and programs of both may be mixed. Borrowed: destroyed with `g`. NULL
 * if `g` has failed. */
ipu_graph *ipu_graph_add_virtual(ipu_graph *g, const int64_t *tiles, int64_t n);
/* The window begin <= tile < end. */
ipu_graph *ipu_graph_add_virtual_range(ipu_graph *g, int64_t begin, int64_t end);

/* ---- variables and constants ---- */

/* A variable, undefined until written, not yet mapped to any tile. `name` is for people: it need not be
 * unique and may be NULL. */
ipu_tensor ipu_graph_add_variable(ipu_graph *g, ipu_type type, ipu_shape shape, const char *name);
/* A constant with the values at `data` (copied; in the representation of `type`). */
ipu_tensor ipu_graph_add_constant(ipu_graph *g, ipu_type type, ipu_shape shape, const void *data,
                                  const char *name);
/* A constant whose elements are all `value`, converted to `type`. */
ipu_tensor ipu_graph_add_constant_value(ipu_graph *g, ipu_type type, ipu_shape shape, double value,
                                        const char *name);
/* A constant uint32 scalar: the index of the replica that reads it. */
ipu_tensor ipu_graph_add_replication_index(ipu_graph *g, const char *name);
/* The values that elements of `t` have when an engine is created. `t` must not contain constants. */
void ipu_graph_set_initial_value(ipu_graph *g, ipu_tensor t, const void *data);
/* A new variable with the shape, type and tile mapping of `t`. Aliased elements become separate. */
ipu_tensor ipu_graph_clone(ipu_graph *g, ipu_tensor t, const char *name);
/* The same with another element type. */
ipu_tensor ipu_graph_clone_as(ipu_graph *g, ipu_type type, ipu_tensor t, const char *name);

/* ---- tile mapping: a property of elements, set through any tensor that selects them;
 *      later calls override earlier ones ---- */

void ipu_graph_set_tile_mapping(ipu_graph *g, ipu_tensor t, int64_t tile);

/* Elements begin <= i < end of the flattened tensor on `tile`. */
typedef struct ipu_tile_interval {
    int64_t tile, begin, end;
} ipu_tile_interval;
void ipu_graph_set_tile_intervals(ipu_graph *g, ipu_tensor t, const ipu_tile_interval *map, size_t n);

/* Spread over all tiles of `g` in order, as evenly as possible, in units of `grain` elements and with at
 * least `min_elements` on every tile used. The short form has grain 1 and minimum 1. */
void ipu_graph_map_linearly(ipu_graph *g, ipu_tensor t);
void ipu_graph_map_linearly_by(ipu_graph *g, ipu_tensor t, int64_t min_elements, int64_t grain);

/* Where the elements of `t` are, in tensor order, using the tile numbers of `g`; unmapped elements have tile
 * -1. Owned: ipu_free. Statuses: INVALID (null, or on a tile not visible through a virtual `g`). */
ipu_status ipu_graph_tile_mapping(ipu_graph *g, ipu_tensor t, ipu_tile_interval **out, size_t *n);

/* ---- codelets ---- */

/* Register `codelet`. Borrowed: the record must outlive the graph and anything compiled from it. Registering
 * the same record twice is fine; another of the same name is an error. */
void ipu_graph_add_codelet(ipu_graph *g, const ipu_codelet *codelet);
bool ipu_graph_has_codelet(const ipu_graph *g, const char *name);
/* Compile C source, or take it from the cache, and register all codelets in it: see ipu_codelet_load_file and
 * ipu_codelet_load_source, whose errors become the graph's. */
void ipu_graph_add_codelet_file(ipu_graph *g, const char *path, const char *flags);
void ipu_graph_add_codelet_source(ipu_graph *g, const char *name, const char *source, const char *flags);

/* ---- compute sets and vertices ---- */

typedef struct ipu_compute_set {
    ipu_graph *graph;
    uint32_t   id;
} ipu_compute_set;

typedef struct ipu_vertex {
    ipu_graph *graph;
    uint32_t   id;
} ipu_vertex;

/* A set of vertices that run together: one superstep. */
ipu_compute_set ipu_graph_add_compute_set(ipu_graph *g, const char *name);
/* Add a vertex of the named codelet, with no fields connected and no tile. */
ipu_vertex ipu_graph_add_vertex(ipu_graph *g, ipu_compute_set cs, const char *codelet);
void       ipu_graph_set_vertex_tile(ipu_graph *g, ipu_vertex v, int64_t tile);

/* Connect a field: a scalar needs a tensor of one element, a vector or pointer one of any shape (flattened),
 * a list of runs one of rank 2, with a run per row. Types must match. */
void ipu_vertex_connect(ipu_vertex v, const char *field, ipu_tensor t);
/* For a field that is a list of runs: run i is tensors[i], flattened. */
void ipu_vertex_connect_list(ipu_vertex v, const char *field, const ipu_tensor *tensors, size_t n);
/* Set plain state to a number, which must be representable in the field's type. */
void ipu_vertex_set(ipu_vertex v, const char *field, double value);
/* Set plain state from memory: `n` values of the field's type (1 for STATE), copied. */
void ipu_vertex_set_data(ipu_vertex v, const char *field, const void *data, size_t n);

/* ---- what a vertex costs on the chip (ipu/cost.h); there is a documented default ---- */

/* Worker cycles of `v`, 1 to 2^32 - 1 (for a multi-vertex: of the busiest worker). */
void ipu_vertex_set_cycles(ipu_vertex v, int64_t cycles);
/* The same for all vertices of a codelet, as a function of what they are connected to: `fn` returns worker
 * cycles, 0 or more, and is called when costs are estimated. `user` is borrowed. NULL for none. A number set
 * for a single vertex takes precedence. */
typedef struct ipu_vertex_info ipu_vertex_info;
typedef int64_t (*ipu_cycle_fn)(const ipu_vertex_info *v, const ipu_target *target, void *user);
void ipu_graph_set_cycle_estimator(ipu_graph *g, const char *codelet, ipu_cycle_fn fn, void *user);

/* Add a vertex with its tile and all its fields in one call:
 *
 *     ipu_graph_add_vertex_with(g, cs, "Scale", 3, IPU_FIELDS(IPU_TO("x", row), IPU_VALUE("by", 2)));
 */
typedef enum ipu_connection_kind {
    IPU_CONNECTION_TENSOR,
    IPU_CONNECTION_LIST,
    IPU_CONNECTION_VALUE
} ipu_connection_kind;

typedef struct ipu_connection {
    const char         *field;
    ipu_connection_kind kind;
    ipu_tensor          tensor; /* TENSOR: as ipu_vertex_connect */
    const ipu_tensor   *list;   /* LIST: as ipu_vertex_connect_list */
    size_t              n;
    double              value; /* VALUE: as ipu_vertex_set */
} ipu_connection;

#define IPU_TO(f, t) ((ipu_connection){.field = (f), .kind = IPU_CONNECTION_TENSOR, .tensor = (t)})
#define IPU_TO_LIST(f, l, count) \
    ((ipu_connection){.field = (f), .kind = IPU_CONNECTION_LIST, .list = (l), .n = (count)})
#define IPU_VALUE(f, v) ((ipu_connection){.field = (f), .kind = IPU_CONNECTION_VALUE, .value = (v)})
#define IPU_FIELDS(...) \
    (const ipu_connection[]){__VA_ARGS__}, sizeof((ipu_connection[]){__VA_ARGS__}) / sizeof(ipu_connection)

ipu_vertex ipu_graph_add_vertex_with(ipu_graph *g, ipu_compute_set cs, const char *codelet, int64_t tile,
                                     const ipu_connection *connections, size_t n);

int64_t ipu_graph_n_vertices(const ipu_graph *g);
int64_t ipu_graph_n_compute_sets(const ipu_graph *g);
int64_t ipu_graph_n_variables(const ipu_graph *g); /* including constants */
/* The whole of variable i, numbered in order of creation; a null tensor past the last. */
ipu_tensor ipu_graph_variable_at(ipu_graph *g, int64_t i);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
IPU_LEFT(ipu_graph, ipu_graph *)
IPU_LEFT(ipu_compute_set, ipu_compute_set)
IPU_LEFT(ipu_vertex, ipu_vertex)
#define ipu_graph_add_virtual(...) ipu_graph_left((IPU_ENTER, ipu_graph_add_virtual(__VA_ARGS__)))
#define ipu_graph_add_virtual_range(...) ipu_graph_left((IPU_ENTER, ipu_graph_add_virtual_range(__VA_ARGS__)))
#define ipu_graph_add_variable(...) ipu_tensor_left((IPU_ENTER, ipu_graph_add_variable(__VA_ARGS__)))
#define ipu_graph_add_constant(...) ipu_tensor_left((IPU_ENTER, ipu_graph_add_constant(__VA_ARGS__)))
#define ipu_graph_add_constant_value(...) \
    ipu_tensor_left((IPU_ENTER, ipu_graph_add_constant_value(__VA_ARGS__)))
#define ipu_graph_add_replication_index(...) \
    ipu_tensor_left((IPU_ENTER, ipu_graph_add_replication_index(__VA_ARGS__)))
#define ipu_graph_set_initial_value(...) (IPU_ENTER, ipu_graph_set_initial_value(__VA_ARGS__), ipu_leave())
#define ipu_graph_clone(...) ipu_tensor_left((IPU_ENTER, ipu_graph_clone(__VA_ARGS__)))
#define ipu_graph_clone_as(...) ipu_tensor_left((IPU_ENTER, ipu_graph_clone_as(__VA_ARGS__)))
#define ipu_graph_set_tile_mapping(...) (IPU_ENTER, ipu_graph_set_tile_mapping(__VA_ARGS__), ipu_leave())
#define ipu_graph_set_tile_intervals(...) (IPU_ENTER, ipu_graph_set_tile_intervals(__VA_ARGS__), ipu_leave())
#define ipu_graph_map_linearly(...) (IPU_ENTER, ipu_graph_map_linearly(__VA_ARGS__), ipu_leave())
#define ipu_graph_map_linearly_by(...) (IPU_ENTER, ipu_graph_map_linearly_by(__VA_ARGS__), ipu_leave())
#define ipu_graph_add_codelet(...) (IPU_ENTER, ipu_graph_add_codelet(__VA_ARGS__), ipu_leave())
#define ipu_graph_add_codelet_file(...) (IPU_ENTER, ipu_graph_add_codelet_file(__VA_ARGS__), ipu_leave())
#define ipu_graph_add_codelet_source(...) (IPU_ENTER, ipu_graph_add_codelet_source(__VA_ARGS__), ipu_leave())
#define ipu_graph_add_compute_set(...) \
    ipu_compute_set_left((IPU_ENTER, ipu_graph_add_compute_set(__VA_ARGS__)))
#define ipu_graph_add_vertex(...) ipu_vertex_left((IPU_ENTER, ipu_graph_add_vertex(__VA_ARGS__)))
#define ipu_graph_add_vertex_with(...) ipu_vertex_left((IPU_ENTER, ipu_graph_add_vertex_with(__VA_ARGS__)))
#define ipu_graph_set_vertex_tile(...) (IPU_ENTER, ipu_graph_set_vertex_tile(__VA_ARGS__), ipu_leave())
#define ipu_vertex_connect(...) (IPU_ENTER, ipu_vertex_connect(__VA_ARGS__), ipu_leave())
#define ipu_vertex_connect_list(...) (IPU_ENTER, ipu_vertex_connect_list(__VA_ARGS__), ipu_leave())
#define ipu_vertex_set(...) (IPU_ENTER, ipu_vertex_set(__VA_ARGS__), ipu_leave())
#define ipu_vertex_set_data(...) (IPU_ENTER, ipu_vertex_set_data(__VA_ARGS__), ipu_leave())
#define ipu_vertex_set_cycles(...) (IPU_ENTER, ipu_vertex_set_cycles(__VA_ARGS__), ipu_leave())
#define ipu_graph_set_cycle_estimator(...) \
    (IPU_ENTER, ipu_graph_set_cycle_estimator(__VA_ARGS__), ipu_leave())
#endif
#endif
