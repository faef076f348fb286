/* Graphs: creation, errors and locations, variables and constants, virtual graphs. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

/* ---- life ---- */

/* Index 0 of every array indexed by id is reserved, so that id 0 is null. */
static bool reserve_null_ids(ipu_graph *g)
{
    return ipu__push(&g->variables, (ipu__variable){0}) && ipu__push(&g->codelets, (ipu__codelet){0})
        && ipu__push(&g->compute_sets, (ipu__compute_set){0}) && ipu__push(&g->vertices, (ipu__vertex){0})
        && ipu__push(&g->links, 0) && ipu__push(&g->lists, 0) && ipu__push(&g->states, NULL)
        && ipu__push(&g->streams, (ipu__stream){0}) && ipu__push(&g->remote_buffers, (ipu__remote_buffer){0})
        && ipu__push(&g->programs, (ipu__program){0}) && ipu__push(&g->functions, (ipu__function){0})
        && ipu__push(&g->kernel_steps, (ipu__kernel_step){0}) && ipu__push(&g->locations, (ipu__location){0});
}

ipu_status ipu_graph_create(const ipu_target *target, int64_t replication, ipu_graph **out)
{
    *out = NULL;
    if (replication < 1 || target->n_ipus % replication != 0)
        return ipu__fail(IPU_INVALID,
                         "ipu_graph_create: replication %lld does not divide the %lld IPUs of the target",
                         (long long)replication, (long long)target->n_ipus);
    ipu_graph *g = ipu__alloc_zeroed(sizeof *g);
    if (!g) return ipu__fail_memory();
    g->root        = g;
    g->target      = *target;
    g->replication = replication;
    g->n_tiles     = ipu_target_n_tiles(target) / replication;
    if (!reserve_null_ids(g)) {
        ipu_graph_destroy(g);
        return ipu__fail_memory();
    }
    *out = g;
    return IPU_OK;
}

void ipu_graph_destroy(ipu_graph *g)
{
    if (!g || g->root != g) return;
    for (ipu_graph *v = g->next_virtual, *next; v; v = next) {
        next = v->next_virtual;
        ipu__free(v);
    }
    for (size_t i = 0; i < g->variables.n; i++) ipu__array_fini(&g->variables.at[i].mapping.places);
    for (size_t i = 0; i < g->programs.n; i++) ipu__array_fini(&g->programs.at[i].steps);
    ipu__array_fini(&g->views.words);
    ipu__view_builder_fini(&g->builder);
    ipu__piece_index_fini(&g->piece_index);
    ipu__array_fini(&g->variables);
    ipu__array_fini(&g->initial_values);
    ipu__array_fini(&g->codelets);
    ipu__array_fini(&g->compute_sets);
    ipu__array_fini(&g->vertices);
    ipu__array_fini(&g->links);
    ipu__array_fini(&g->lists);
    ipu__array_fini(&g->states);
    ipu__array_fini(&g->streams);
    ipu__array_fini(&g->remote_buffers);
    ipu__array_fini(&g->host_handles);
    ipu__array_fini(&g->programs);
    ipu__array_fini(&g->functions);
    ipu__array_fini(&g->kernel_steps);
    ipu__array_fini(&g->locations);
    ipu__map *const maps[] = {&g->codelet_names, &g->stream_names, &g->remote_names,
                              &g->write_names,   &g->read_names,   &g->files};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) ipu__map_fini(maps[i]);
    ipu__free(g->message);
    ipu__arena_fini(&g->arena);
    ipu__free(g);
}

/* ---- errors and locations ---- */

bool ipu__graph_ok(const ipu_graph *g) { return g && g->root->status == IPU_OK; }

ipu_status ipu_graph_status(const ipu_graph *g) { return g->root->status; }

const char *ipu_graph_message(const ipu_graph *g)
{
    const ipu_graph *root = g->root;
    return root->message ? root->message : root->status == IPU_OK ? "" : ipu_status_text(root->status);
}

ipu_status ipu__graph_fail(ipu_graph *g, ipu_status status, const char *format, ...)
{
    ipu_graph *root = g->root;
    if (root->status != IPU_OK) return root->status;
    ipu__text     text = {0};
    ipu__location here = ipu__here();
    va_list       args;
    va_start(args, format);
    ipu__vfail(status, format, args);
    va_end(args);
    if (here.file) ipu__text_add(&text, "%s:%d: ", here.file, here.line);
    ipu__text_add(&text, "%s", ipu_message());
    root->status  = status;
    root->message = ipu__text_take(&text);
    return ipu__fail(status, "%s", ipu_graph_message(root));
}

ipu_status ipu__graph_fail_memory(ipu_graph *g)
{
    if (g->root->status == IPU_OK) g->root->status = IPU_OUT_OF_MEMORY;
    return ipu__fail_memory();
}

bool ipu__graph_has(ipu_graph *g, const char *function, ipu_tensor t)
{
    if (!ipu__graph_ok(g)) return false;
    if (t.id == 0)
        ipu__graph_fail(g, IPU_INVALID, "%s: the tensor is null", function);
    else if (!t.graph || t.graph->root != g->root)
        ipu__graph_fail(g, IPU_INVALID, "%s: the tensor belongs to another graph", function);
    return ipu__graph_ok(g);
}

/* The file name, interned. */
static const char *intern_file(ipu_graph *g, const char *file)
{
    uint32_t known;
    if (ipu__map_find(&g->files, file, &known)) return g->locations.at[known].file;
    const char *copy = ipu__arena_strdup(&g->arena, file);
    if (copy && !ipu__map_set(&g->files, copy, (uint32_t)g->locations.n)) return NULL;
    return copy;
}

uint32_t ipu__graph_here(ipu_graph *graph)
{
    ipu_graph    *g    = graph->root;
    ipu__location here = ipu__here();
    if (!here.file) return 0;
    size_t    slot = (size_t)here.line % (sizeof g->location_cache / sizeof *g->location_cache);
    uint32_t *id   = &g->location_cache[slot];
    if (*id && g->locations.at[*id].line == here.line && strcmp(g->locations.at[*id].file, here.file) == 0)
        return *id;
    if (!ipu__reserve(&g->locations, 1)) return 0;
    here.file = intern_file(g, here.file);
    if (!here.file) return 0;
    *id                               = (uint32_t)g->locations.n;
    g->locations.at[g->locations.n++] = here;
    return *id;
}

const char *ipu__graph_where(const ipu_graph *g, uint32_t location, char buffer[IPU__WHERE_BYTES])
{
    const ipu__location *at = &g->root->locations.at[location];
    if (location)
        snprintf(buffer, IPU__WHERE_BYTES, "%s:%d", at->file, at->line);
    else
        snprintf(buffer, IPU__WHERE_BYTES, "place unknown");
    return buffer;
}

const char *ipu__graph_strdup(ipu_graph *g, const char *text)
{
    if (!text || !*text) return "";
    const char *copy = ipu__arena_strdup(&g->root->arena, text);
    if (!copy) ipu__graph_fail_memory(g);
    return copy;
}

/* ---- words for messages ---- */

static char *rotating_buffer(size_t *size)
{
    enum { N = 4, BYTES = 256 };
    static _Thread_local char     buffers[N][BYTES];
    static _Thread_local unsigned next;
    *size = BYTES;
    return buffers[next++ % N];
}

const char *ipu__shape_str(const ipu_shape *shape)
{
    size_t size, n;
    char  *buffer = rotating_buffer(&size);
    n             = (size_t)snprintf(buffer, size, "[");
    for (int d = 0; d < shape->rank && d < IPU_MAX_RANK; d++)
        n += (size_t)snprintf(buffer + n, size - n, d ? ",%lld" : "%lld", (long long)shape->dim[d]);
    snprintf(buffer + n, size - n, "]");
    return buffer;
}

const char *ipu__variable_str(const ipu_graph *g, uint32_t id)
{
    size_t      size;
    char       *buffer = rotating_buffer(&size);
    const char *name   = ipu__graph_variable(g, id)->name;
    if (*name)
        snprintf(buffer, size, "\"%s\"", name);
    else
        snprintf(buffer, size, "variable #%u", id);
    return buffer;
}

bool ipu__shape_count(const ipu_shape *shape, int64_t *out)
{
    const int64_t most = (int64_t)1 << 47; /* in bytes, still far from overflow */
    int64_t       n    = 1;
    bool          zero = false;
    if (shape->rank < 0 || shape->rank > IPU_MAX_RANK) return false;
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] < 0) return false;
        if (shape->dim[d] == 0) {
            zero = true;
        } else {
            if (n > most / shape->dim[d]) return false;
            n *= shape->dim[d];
        }
    }
    *out = zero ? 0 : n;
    return true;
}

/* ---- virtual graphs ---- */

const ipu_target *ipu_graph_target(const ipu_graph *g) { return &g->root->target; }
int64_t           ipu_graph_replication(const ipu_graph *g) { return g->root->replication; }
int64_t           ipu_graph_n_tiles(const ipu_graph *g) { return g->n_tiles; }
int64_t           ipu_graph_n_variables(const ipu_graph *g) { return (int64_t)g->root->variables.n - 1; }

ipu_tensor ipu_graph_variable_at(ipu_graph *g, int64_t i)
{
    bool there = i >= 0 && i < ipu_graph_n_variables(g);
    return (ipu_tensor){g, there ? g->root->variables.at[i + 1].view : 0};
}

uint32_t ipu__graph_tile(ipu_graph *g, const char *function, int64_t tile)
{
    if (tile < 0 || tile >= g->n_tiles) {
        ipu__graph_fail(g, IPU_INVALID, "%s: tile %lld is out of range: this %s has tiles 0 to %lld",
                        function, (long long)tile, g->root == g ? "graph" : "virtual graph",
                        (long long)g->n_tiles - 1);
        return IPU__NO_TILE;
    }
    return (uint32_t)(g->tiles ? g->tiles[tile] : tile);
}

ipu_graph *ipu_graph_add_virtual(ipu_graph *g, const int64_t *tiles, int64_t n)
{
    if (!ipu__graph_ok(g)) return NULL;
    if (n < 1 || n > g->root->n_tiles) {
        ipu__graph_fail(g, IPU_INVALID, "ipu_graph_add_virtual: %lld tiles: expected 1 to %lld", (long long)n,
                        (long long)g->root->n_tiles);
        return NULL;
    }
    int64_t *own = ipu__arena_alloc(&g->root->arena, (size_t)n * sizeof *own);
    for (int64_t i = 0; own && i < n; i++) {
        own[i] = ipu__graph_tile(g, "ipu_graph_add_virtual", tiles[i]);
        if (own[i] == IPU__NO_TILE) return NULL;
    }
    ipu_graph *v = own ? ipu__alloc_zeroed(sizeof *v) : NULL;
    if (!v) {
        ipu__graph_fail_memory(g);
        return NULL;
    }
    *v = (ipu_graph){.root = g->root, .n_tiles = n, .tiles = own, .next_virtual = g->root->next_virtual};
    g->root->next_virtual = v;
    return v;
}

ipu_graph *ipu_graph_add_virtual_range(ipu_graph *g, int64_t begin, int64_t end)
{
    if (!ipu__graph_ok(g)) return NULL;
    if (begin < 0 || begin >= end || end > g->n_tiles) {
        ipu__graph_fail(g, IPU_INVALID,
                        "ipu_graph_add_virtual_range: tiles [%lld, %lld): expected 0 <= begin < end <= %lld",
                        (long long)begin, (long long)end, (long long)g->n_tiles);
        return NULL;
    }
    int64_t *tiles = ipu__alloc((size_t)(end - begin) * sizeof *tiles);
    if (!tiles) {
        ipu__graph_fail_memory(g);
        return NULL;
    }
    for (int64_t i = begin; i < end; i++) tiles[i - begin] = i;
    ipu_graph *v = ipu_graph_add_virtual(g, tiles, end - begin);
    ipu__free(tiles);
    return v;
}

/* ---- variables and constants ---- */

enum { MOST_VARIABLES = 1 << 27 }; /* a packed piece has 27 bits for its variable */

static bool check_variable(ipu_graph *g, const char *function, ipu_type type, const ipu_shape *shape,
                           int64_t *n)
{
    if (!ipu__graph_ok(g)) return false;
    if (type >= IPU_N_TYPES)
        ipu__graph_fail(g, IPU_INVALID, "%s: %d is no element type", function, (int)type);
    else if (shape->rank < 0 || shape->rank > IPU_MAX_RANK)
        ipu__graph_fail(g, IPU_INVALID, "%s: rank %d: expected 0 to %d", function, shape->rank, IPU_MAX_RANK);
    else if (!ipu__shape_count(shape, n))
        ipu__graph_fail(g, IPU_INVALID,
                        "%s: shape %s: a dimension is negative or there are too many elements", function,
                        ipu__shape_str(shape));
    else if (g->root->variables.n >= MOST_VARIABLES)
        ipu__graph_fail(g, IPU_UNSUPPORTED, "%s: more than %d variables", function, MOST_VARIABLES);
    return ipu__graph_ok(g);
}

static uint32_t whole_view(ipu_graph *g, uint32_t var, const ipu__variable *v, const ipu_shape *shape)
{
    ipu__piece piece = {.var = var, .n_loops = 1, .loop = {{v->n_elements, 1}}};
    if (v->n_elements > 0) ipu__view_add(&g->builder, &piece);
    return ipu__view_commit(&g->builder, &g->views, v->type, shape);
}

ipu_tensor ipu__graph_add_variable(ipu_graph *graph, const char *function, ipu__variable_kind kind,
                                   ipu_type type, const ipu_shape *shape, const void *data, const char *name)
{
    int64_t    n    = 0;
    ipu_tensor null = {graph, 0};
    if (!check_variable(graph, function, type, shape, &n)) return null;
    ipu_graph    *g   = graph->root;
    uint32_t      var = (uint32_t)g->variables.n;
    ipu__variable v   = {.name       = ipu__graph_strdup(g, name),
                         .type       = type,
                         .kind       = kind,
                         .shape      = *shape,
                         .n_elements = n,
                         .data       = data,
                         .location   = ipu__graph_here(g)};
    if (!v.name) return null;
    v.view      = whole_view(g, var, &v, shape);
    v.flat_view = shape->rank == 1 ? v.view : whole_view(g, var, &v, &IPU_SHAPE(n));
    if (!v.view || !v.flat_view || !ipu__push(&g->variables, v)) {
        ipu__graph_fail_memory(g);
        return null;
    }
    return (ipu_tensor){graph, v.view};
}

ipu_tensor ipu_graph_add_variable(ipu_graph *g, ipu_type type, ipu_shape shape, const char *name)
{
    return ipu__graph_add_variable(g, __func__, IPU__VARIABLE, type, &shape, NULL, name);
}

static ipu_tensor add_constant(ipu_graph *g, const char *function, ipu_type type, const ipu_shape *shape,
                               void **data, const char *name)
{
    int64_t n = 0;
    *data     = NULL;
    if (!check_variable(g, function, type, shape, &n)) return (ipu_tensor){g, 0};
    *data = ipu__arena_alloc(&g->root->arena, (size_t)n * ipu_type_size(type) + 1);
    if (!*data) {
        ipu__graph_fail_memory(g);
        return (ipu_tensor){g, 0};
    }
    return ipu__graph_add_variable(g, function, IPU__CONSTANT, type, shape, *data, name);
}

ipu_tensor ipu_graph_add_constant(ipu_graph *g, ipu_type type, ipu_shape shape, const void *data,
                                  const char *name)
{
    void      *own;
    ipu_tensor t     = add_constant(g, __func__, type, &shape, &own, name);
    size_t     bytes = (size_t)ipu_tensor_n_elements(t) * ipu_type_size(type);
    if (!own || bytes == 0) return t; /* `data` may be NULL for an empty one */
    if (!data) {
        ipu__graph_fail(g, IPU_INVALID, "%s: no data for a constant of shape %s", __func__,
                        ipu__shape_str(&shape));
        return (ipu_tensor){g, 0};
    }
    memcpy(own, data, bytes);
    return t;
}

ipu_tensor ipu_graph_add_constant_value(ipu_graph *g, ipu_type type, ipu_shape shape, double value,
                                        const char *name)
{
    void      *own;
    char       element[8];
    ipu_tensor t = add_constant(g, __func__, type, &shape, &own, name);
    if (!own) return t;
    if (!ipu__value_from_double(type, value, element)) {
        ipu__graph_fail(g, IPU_INVALID, "ipu_graph_add_constant_value: %g is no value of type %s", value,
                        ipu_type_name(type));
        return (ipu_tensor){g, 0};
    }
    size_t size = ipu_type_size(type);
    for (int64_t i = 0, n = ipu_tensor_n_elements(t); i < n; i++)
        memcpy((char *)own + (size_t)i * size, element, size);
    return t;
}

ipu_tensor ipu_graph_add_replication_index(ipu_graph *g, const char *name)
{
    return ipu__graph_add_variable(g, __func__, IPU__REPLICATION_INDEX, IPU_UINT32, &IPU_SCALAR, NULL, name);
}

void ipu_graph_set_initial_value(ipu_graph *graph, ipu_tensor t, const void *data)
{
    if (!ipu__graph_has(graph, __func__, t)) return;
    ipu_graph *g = graph->root;
    if (ipu_tensor_contains_constant(t)) {
        ipu__graph_fail(g, IPU_INVALID, "%s: the tensor contains a constant, whose value is given already",
                        __func__);
        return;
    }
    if (ipu_tensor_contains_aliases(t)) {
        ipu__graph_fail(g, IPU_INVALID, "%s: the tensor selects some elements twice", __func__);
        return;
    }
    size_t             bytes = (size_t)ipu_tensor_n_elements(t) * ipu_type_size(ipu_tensor_type(t));
    ipu__initial_value value = {t.id, ipu__arena_copy(&g->arena, data, bytes), ipu__graph_here(g)};
    if (!value.data || !ipu__push(&g->initial_values, value)) ipu__graph_fail_memory(g);
}

ipu_tensor ipu_graph_clone_as(ipu_graph *g, ipu_type type, ipu_tensor t, const char *name)
{
    ipu_tensor null = {g, 0};
    if (!ipu__graph_has(g, __func__, t)) return null;
    ipu_shape          shape = ipu_tensor_shape(t);
    ipu_tensor         copy  = ipu__graph_add_variable(g, __func__, IPU__VARIABLE, type, &shape, NULL, name);
    ipu_tile_interval *map;
    size_t             n;
    if (copy.id == 0) return null;
    if (ipu_graph_tile_mapping(g->root, t, &map, &n) != IPU_OK) {
        ipu__graph_fail_memory(g);
        return null;
    }
    ipu__mapping *mapping = &g->root->variables.at[g->root->variables.n - 1].mapping;
    for (size_t i = 0; i < n; i++)
        if (map[i].tile >= 0 && !ipu__mapping_add(mapping, map[i].begin, map[i].end, (uint32_t)map[i].tile))
            ipu__graph_fail_memory(g);
    ipu__free(map);
    return ipu__graph_ok(g) ? copy : null;
}

ipu_tensor ipu_graph_clone(ipu_graph *g, ipu_tensor t, const char *name)
{
    return ipu_graph_clone_as(g, ipu_tensor_type(t), t, name);
}
