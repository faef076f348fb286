/* Codelets, compute sets and vertices. */
#include <string.h>

#include "base/nearest.h"
#include "graph/graph.h"

static const struct {
    const char         *text;
    ipu_field_direction direction;
    ipu_field_shape     shape;
} forms[] = {
#define X(form, text, direction, shape) \
    [IPU_FIELD_##form] = {text, IPU_DIRECTION_##direction, IPU_FIELD_SHAPE_##shape},
    IPU_FIELD_FORM_LIST(X)
#undef X
};

ipu_field_direction ipu__field_direction(ipu_field_form form) { return forms[form].direction; }
ipu_field_shape     ipu__field_shape(ipu_field_form form) { return forms[form].shape; }
const char         *ipu__field_form_text(ipu_field_form form) { return forms[form].text; }

/* ---- codelets ---- */

static bool same_signature(const ipu__codelet *a, const ipu_codelet *b, const ipu_codelet_field *fields)
{
    if (a->n_fields != b->n_fields || a->bytes != b->bytes || a->multi != b->multi) return false;
    for (uint32_t i = 0; i < a->n_fields; i++)
        if (strcmp(a->fields[i].name, fields[i].name) != 0 || a->fields[i].form != fields[i].form
            || a->fields[i].type != fields[i].type || a->fields[i].offset != fields[i].offset)
            return false;
    return true;
}

/* The fields, with our own copies of the names. */
static const ipu_codelet_field *copy_fields(ipu_graph *g, const ipu_codelet *codelet)
{
    ipu_codelet_field *own = ipu__arena_alloc(&g->arena, (codelet->n_fields + 1) * sizeof *own);
    for (uint32_t i = 0; own && i < codelet->n_fields; i++) {
        own[i]      = codelet->fields()[i];
        own[i].name = ipu__arena_strdup(&g->arena, own[i].name);
        if (!own[i].name) return NULL;
    }
    return own;
}

void ipu_graph_add_codelet(ipu_graph *graph, const ipu_codelet *codelet)
{
    if (!ipu__graph_ok(graph)) return;
    ipu_graph *g = graph->root;
    uint32_t   id;
    if (ipu__map_find(&g->codelet_names, codelet->name, &id)) {
        ipu__codelet *known = &g->codelets.at[id];
        bool          same  = same_signature(known, codelet, codelet->fields());
        if (same && !known->compute) known->compute = codelet->compute;
        if (!same || (codelet->compute && known->compute != codelet->compute))
            ipu__graph_fail(g, IPU_INVALID, "%s: there is another codelet called \"%s\"", __func__,
                            codelet->name);
        return;
    }
    ipu__codelet c = {.name     = ipu__arena_strdup(&g->arena, codelet->name),
                      .compute  = codelet->compute,
                      .fields   = copy_fields(g, codelet),
                      .n_fields = codelet->n_fields,
                      .bytes    = codelet->bytes,
                      .multi    = codelet->multi,
                      .location = ipu__graph_here(g)};
    if (!c.name || !c.fields || !ipu__push(&g->codelets, c)
        || !ipu__map_set(&g->codelet_names, c.name, (uint32_t)g->codelets.n - 1))
        ipu__graph_fail_memory(g);
}

bool ipu_graph_has_codelet(const ipu_graph *g, const char *name)
{
    uint32_t id;
    return ipu__map_find(&g->root->codelet_names, name, &id);
}

/* ---- compute sets and vertices ---- */

ipu_compute_set ipu_graph_add_compute_set(ipu_graph *graph, const char *name)
{
    ipu_compute_set null = {graph, 0};
    if (!ipu__graph_ok(graph)) return null;
    ipu_graph       *g  = graph->root;
    ipu__compute_set cs = {.name = ipu__graph_strdup(g, name), .location = ipu__graph_here(g)};
    if (!cs.name) return null;
    if (!ipu__push(&g->compute_sets, cs)) {
        ipu__graph_fail_memory(g);
        return null;
    }
    return (ipu_compute_set){graph, (uint32_t)g->compute_sets.n - 1};
}

static uint32_t find_codelet(ipu_graph *g, const char *function, const char *name)
{
    uint32_t id;
    if (ipu__map_find(&g->codelet_names, name, &id)) return id;
    ipu__nearest nearest = ipu__nearest_to(name);
    for (size_t i = 1; i < g->codelets.n; i++) ipu__nearest_try(&nearest, g->codelets.at[i].name);
    ipu__graph_fail(g, IPU_NOT_FOUND, "%s: no codelet \"%s\"%s: add it with ipu_graph_add_codelet", function,
                    name, ipu__nearest_hint(&nearest));
    return 0;
}

ipu_vertex ipu_graph_add_vertex(ipu_graph *graph, ipu_compute_set cs, const char *codelet)
{
    ipu_vertex null = {graph, 0};
    if (!ipu__graph_ok(graph)) return null;
    ipu_graph *g = graph->root;
    if (cs.id == 0 || !cs.graph || cs.graph->root != g) {
        ipu__graph_fail(g, IPU_INVALID, "%s: the compute set is null or belongs to another graph", __func__);
        return null;
    }
    uint32_t type = find_codelet(g, __func__, codelet), id = (uint32_t)g->vertices.n;
    if (!type) return null;
    uint32_t n_fields = g->codelets.at[type].n_fields;
    if (id == UINT32_MAX || g->links.n > UINT32_MAX - n_fields || !ipu__reserve(&g->vertices, 1)
        || !ipu__reserve(&g->links, n_fields)) {
        ipu__graph_fail_memory(g);
        return null;
    }
    ipu__compute_set *set           = &g->compute_sets.at[cs.id];
    g->vertices.at[g->vertices.n++] = (ipu__vertex){.codelet     = type,
                                                    .compute_set = cs.id,
                                                    .tile        = IPU__NO_TILE,
                                                    .location    = ipu__graph_here(g),
                                                    .links       = (uint32_t)g->links.n};
    memset(g->links.at + g->links.n, 0, n_fields * sizeof *g->links.at);
    g->links.n += n_fields;
    if (set->last)
        g->vertices.at[set->last].next = id;
    else
        set->first = id;
    set->last = id;
    set->n_vertices++;
    return (ipu_vertex){graph, id};
}

void ipu_graph_set_vertex_tile(ipu_graph *g, ipu_vertex v, int64_t tile)
{
    if (!ipu__graph_ok(g)) return;
    if (v.id == 0 || !v.graph || v.graph->root != g->root) {
        ipu__graph_fail(g, IPU_INVALID, "%s: the vertex is null or belongs to another graph", __func__);
        return;
    }
    uint32_t root_tile = ipu__graph_tile(g, __func__, tile);
    if (root_tile != IPU__NO_TILE) g->root->vertices.at[v.id].tile = root_tile;
}

void ipu_vertex_set_cycles(ipu_vertex v, int64_t cycles)
{
    if (!ipu__graph_ok(v.graph)) return;
    ipu_graph *g = v.graph->root;
    if (v.id == 0)
        ipu__graph_fail(g, IPU_INVALID, "%s: the vertex is null", __func__);
    else if (cycles < 1 || cycles > UINT32_MAX)
        ipu__graph_fail(g, IPU_INVALID, "%s: %lld cycles: expected 1 to %u", __func__, (long long)cycles,
                        UINT32_MAX);
    else
        g->vertices.at[v.id].cycles = (uint32_t)cycles;
}

void ipu_graph_set_cycle_estimator(ipu_graph *graph, const char *codelet, ipu_cycle_fn fn, void *user)
{
    if (!ipu__graph_ok(graph)) return;
    ipu_graph *g  = graph->root;
    uint32_t   id = find_codelet(g, __func__, codelet);
    if (!id) return;
    g->codelets.at[id].estimator      = fn;
    g->codelets.at[id].estimator_user = user;
}

int64_t ipu_graph_n_vertices(const ipu_graph *g) { return (int64_t)g->root->vertices.n - 1; }
int64_t ipu_graph_n_compute_sets(const ipu_graph *g) { return (int64_t)g->root->compute_sets.n - 1; }

/* ---- fields ---- */

typedef struct slot {
    ipu_graph               *g; /* NULL if an error was recorded */
    const ipu__codelet      *codelet;
    const ipu_codelet_field *field;
    uint32_t                *link;
} slot;

static slot find_slot(const char *function, ipu_vertex v, const char *name, bool is_state)
{
    slot none = {0};
    if (!ipu__graph_ok(v.graph)) return none;
    ipu_graph *g = v.graph->root;
    if (v.id == 0) {
        ipu__graph_fail(g, IPU_INVALID, "%s: the vertex is null", function);
        return none;
    }
    const ipu__vertex  *vertex  = &g->vertices.at[v.id];
    const ipu__codelet *codelet = &g->codelets.at[vertex->codelet];
    uint32_t            i       = 0;
    while (i < codelet->n_fields && strcmp(codelet->fields[i].name, name) != 0) i++;
    if (i == codelet->n_fields) {
        ipu__nearest nearest = ipu__nearest_to(name);
        for (i = 0; i < codelet->n_fields; i++) ipu__nearest_try(&nearest, codelet->fields[i].name);
        ipu__graph_fail(g, IPU_NOT_FOUND, "%s: codelet \"%s\" has no field \"%s\"%s", function, codelet->name,
                        name, ipu__nearest_hint(&nearest));
        return none;
    }
    slot s = {g, codelet, &codelet->fields[i], &g->links.at[vertex->links + i]};
    if ((forms[s.field->form].direction == IPU_DIRECTION_STATE) != is_state) {
        ipu__graph_fail(g, IPU_INVALID, "%s: field \"%s\" of \"%s\" is %s: %s", function, name, codelet->name,
                        forms[s.field->form].text,
                        is_state ? "connect a tensor to it" : "give it a value with ipu_vertex_set");
        return none;
    }
    if (!is_state && *s.link != 0) {
        ipu__graph_fail(g, IPU_INVALID, "%s: field \"%s\" of vertex \"%s\" is connected already", function,
                        name, codelet->name);
        return none;
    }
    return s;
}

static bool check_type(const char *function, const slot *s, ipu_tensor t)
{
    if (!ipu__graph_has(s->g, function, t)) return false;
    ipu_type type = ipu_tensor_type(t);
    if (type == s->field->type) return true;
    ipu__graph_fail(s->g, IPU_INVALID, "%s: field \"%s\" of vertex \"%s\" is %s, the tensor is %s", function,
                    s->field->name, s->codelet->name, ipu_type_name(s->field->type), ipu_type_name(type));
    return false;
}

/* Adds [n, view...] to graph->lists; the link refers to it. */
static void link_list(slot *s, const uint32_t *views, size_t n)
{
    if (n >= IPU__LIST || s->g->lists.n > IPU__LIST - 1 - n || !ipu__reserve(&s->g->lists, n + 1)) {
        ipu__graph_fail_memory(s->g);
        return;
    }
    *s->link                        = IPU__LIST | (uint32_t)s->g->lists.n;
    s->g->lists.at[s->g->lists.n++] = (uint32_t)n;
    if (n && views) memcpy(s->g->lists.at + s->g->lists.n, views, n * sizeof *views);
    s->g->lists.n += n;
}

static void connect_rows(slot *s, ipu_tensor t)
{
    int64_t n = ipu_tensor_dim(t, 0);
    if (ipu_tensor_rank(t) != 2) {
        ipu_shape shape = ipu_tensor_shape(t);
        ipu__graph_fail(
            s->g, IPU_INVALID,
            "ipu_vertex_connect: field \"%s\" of vertex \"%s\" is a list of runs: expected a tensor of rank 2, found shape %s",
            s->field->name, s->codelet->name, ipu__shape_str(&shape));
        return;
    }
    uint32_t *rows = ipu__alloc((size_t)n * sizeof *rows);
    if (!rows) ipu__graph_fail_memory(s->g);
    for (int64_t i = 0; rows && i < n; i++) rows[i] = ipu_tensor_index(t, i).id;
    if (ipu__graph_ok(s->g)) link_list(s, rows, (size_t)n);
    ipu__free(rows);
}

void ipu_vertex_connect(ipu_vertex v, const char *field, ipu_tensor t)
{
    slot s = find_slot(__func__, v, field, false);
    if (!s.g || !check_type(__func__, &s, t)) return;
    ipu_field_shape shape = forms[s.field->form].shape;
    if (shape == IPU_FIELD_SHAPE_SCALAR && ipu_tensor_n_elements(t) != 1) {
        ipu_shape found = ipu_tensor_shape(t);
        ipu__graph_fail(s.g, IPU_INVALID,
                        "%s: field \"%s\" of vertex \"%s\" is one element, the tensor has shape %s", __func__,
                        s.field->name, s.codelet->name, ipu__shape_str(&found));
    } else if (shape == IPU_FIELD_SHAPE_VECTORS) {
        connect_rows(&s, t);
    } else {
        *s.link = t.id;
    }
}

void ipu_vertex_connect_list(ipu_vertex v, const char *field, const ipu_tensor *tensors, size_t n)
{
    slot s = find_slot(__func__, v, field, false);
    if (!s.g) return;
    if (forms[s.field->form].shape != IPU_FIELD_SHAPE_VECTORS) {
        ipu__graph_fail(s.g, IPU_INVALID, "%s: field \"%s\" of vertex \"%s\" is %s, not a list of runs",
                        __func__, s.field->name, s.codelet->name, forms[s.field->form].text);
        return;
    }
    uint32_t *views = ipu__alloc(n * sizeof *views);
    bool      ok    = views != NULL;
    if (!ok) ipu__graph_fail_memory(s.g);
    for (size_t i = 0; ok && i < n; i++) {
        ok = check_type(__func__, &s, tensors[i]);
        if (ok) views[i] = tensors[i].id;
    }
    if (ok) link_list(&s, views, n);
    ipu__free(views);
}

/* The image of the vertex's struct that holds its state. */
static char *state_image(slot *s, ipu_vertex v)
{
    ipu_graph   *g      = s->g;
    ipu__vertex *vertex = &g->vertices.at[v.id];
    if (vertex->state) return g->states.at[vertex->state];
    char *image = ipu__arena_alloc(&g->arena, s->codelet->bytes);
    if (!image || !ipu__push(&g->states, image)) return NULL;
    memset(image, 0, s->codelet->bytes);
    vertex->state = (uint32_t)g->states.n - 1;
    return image;
}

void ipu_vertex_set_data(ipu_vertex v, const char *field, const void *data, size_t n)
{
    slot s = find_slot(__func__, v, field, true);
    if (!s.g) return;
    bool is_vector = forms[s.field->form].shape == IPU_FIELD_SHAPE_VECTOR;
    if (!is_vector && n != 1) {
        ipu__graph_fail(s.g, IPU_INVALID, "%s: field \"%s\" of vertex \"%s\" is one value, not %zu", __func__,
                        s.field->name, s.codelet->name, n);
        return;
    }
    size_t bytes = n * ipu_type_size(s.field->type);
    char  *image = state_image(&s, v);
    void  *own   = image && is_vector ? ipu__arena_copy(&s.g->arena, data, bytes) : NULL;
    if (!image || (is_vector && !own)) {
        ipu__graph_fail_memory(s.g);
        return;
    }
    if (is_vector)
        memcpy(image + s.field->offset, &(ipu_span){own, n}, sizeof(ipu_span));
    else
        memcpy(image + s.field->offset, data, bytes);
    *s.link = 1;
}

void ipu_vertex_set(ipu_vertex v, const char *field, double value)
{
    slot s = find_slot(__func__, v, field, true);
    char element[8];
    if (!s.g) return;
    if (!ipu__value_from_double(s.field->type, value, element)) {
        ipu__graph_fail(s.g, IPU_INVALID,
                        "%s: %.17g is no value of field \"%s\" of vertex \"%s\", which is %s", __func__,
                        value, s.field->name, s.codelet->name, ipu_type_name(s.field->type));
        return;
    }
    ipu_vertex_set_data(v, field, element, 1);
}

ipu_vertex ipu_graph_add_vertex_with(ipu_graph *g, ipu_compute_set cs, const char *codelet, int64_t tile,
                                     const ipu_connection *connections, size_t n)
{
    ipu_vertex v = ipu_graph_add_vertex(g, cs, codelet);
    ipu_graph_set_vertex_tile(g, v, tile);
    for (size_t i = 0; i < n && ipu__graph_ok(g); i++) {
        const ipu_connection *c = &connections[i];
        if (c->kind == IPU_CONNECTION_VALUE)
            ipu_vertex_set(v, c->field, c->value);
        else if (c->kind == IPU_CONNECTION_LIST)
            ipu_vertex_connect_list(v, c->field, c->list, c->n);
        else
            ipu_vertex_connect(v, c->field, c->tensor);
    }
    return ipu__graph_ok(g) ? v : (ipu_vertex){g, 0};
}
