/* Declarations from text: the graph itself, variables, codelets, compute sets and their vertices.
 * Everything is added through public builder functions, so their checks apply to texts too. */
#include "graph/text/parse.h"

#include <string.h>

#include "base/text.h"

bool ipu__parse_graph(ipu__parser *p, ipu__position at, const char *target, int64_t ipus, int64_t tiles,
                      int64_t replication)
{
    ipu_target found;
    if (p->g) return ipu__parse_fail(p, at, "expected one graph in a text, found another");
    if (ipu_target_find(target, ipus == -1 ? 0 : ipus, &found) != IPU_OK
        || (tiles != -1 && ipu_target_limit_tiles(&found, tiles) != IPU_OK))
        return ipu__parse_fail(p, at, "%s", ipu_message());
    ipu_status status = ipu_graph_create(&found, replication == -1 ? 1 : replication, &p->g);
    if (status == IPU_OUT_OF_MEMORY) return ipu__parse_memory(p);
    return status == IPU_OK || ipu__parse_fail(p, at, "%s", ipu_message());
}

/* ---- variables ---- */

bool ipu__parse_place(ipu__parser *p, int64_t tile, int64_t begin, int64_t end)
{
    return ipu__push(&p->places, (ipu_tile_interval){tile, begin, end}) || ipu__parse_memory(p);
}

/* Map the new variable and register its label. */
static bool place_variable(ipu__parser *p, ipu__position at, ipu__slice label, ipu_tensor t)
{
    if (!ipu__parse_built(p, at)) return false;
    if (p->places.n == 1 && p->places.at[0].begin == -1)
        ipu_graph_set_tile_mapping(p->g, t, p->places.at[0].tile);
    else if (p->places.n)
        ipu_graph_set_tile_intervals(p->g, t, p->places.at, p->places.n);
    return ipu__parse_built(p, at)
        && ipu__parse_label(p, at, &p->variables, "variable", label, (uint32_t)p->g->variables.n - 1);
}

bool ipu__parse_variable(ipu__parser *p, ipu__position at, ipu__declared d, ipu_type type, ipu__at where)
{
    const char *name = ipu__parse_name_of(p, d.label, d.name);
    if (!name) return false;
    ipu__parse_here(p, at, where);
    return place_variable(p, at, d.label, ipu_graph_add_variable(p->g, type, p->shape, name));
}

void ipu__parse_expect_values(ipu__parser *p, ipu_type type)
{
    p->takes_values = true;
    p->value_type   = type;
    p->values.n     = 0;
}

bool ipu__parse_hash(ipu__parser *p, ipu__position at, const char *hash)
{
    if (!p->has_side)
        return ipu__parse_fail(p, at, "the values are in a side file: expected one with the text");
    const ipu__side_entry *entry = ipu__side_find(&p->side, hash);
    if (!entry)
        return ipu__parse_fail(p, at, "not in the side file, which belongs to another text: %.64s", hash);
    if (entry->bytes > p->side_left)
        return ipu__parse_fail(p, at, "the text takes more from the side file than there is in it");
    p->side_left -= entry->bytes;
    if (!ipu__reserve(&p->values, entry->bytes)) return ipu__parse_memory(p);
    if (entry->bytes) memcpy(p->values.at, entry->data, entry->bytes);
    p->values.n = entry->bytes;
    return true;
}

bool ipu__parse_check_values(ipu__parser *p, ipu__position at, int64_t n)
{
    size_t found = p->values.n / ipu_type_size(p->value_type);
    return (found == (uint64_t)n && p->values.n % ipu_type_size(p->value_type) == 0)
        || ipu__parse_fail(p, at, "expected %lld values, found %zu", (long long)n, found);
}

/* A valid pointer, even if there are no values. */
static const void *values(const ipu__parser *p) { return p->values.n ? p->values.at : ""; }

bool ipu__parse_constant(ipu__parser *p, ipu__position at, ipu__declared d, ipu_type type, ipu__at where)
{
    int64_t     n    = 0;
    const char *name = ipu__parse_name_of(p, d.label, d.name);
    if (!name) return false;
    ipu__shape_count(&p->shape, &n);
    if (!ipu__parse_check_values(p, at, n)) return false;
    ipu__parse_here(p, at, where);
    return place_variable(p, at, d.label, ipu_graph_add_constant(p->g, type, p->shape, values(p), name));
}

bool ipu__parse_replication_index(ipu__parser *p, ipu__position at, ipu__declared d, ipu__at where)
{
    const char *name = ipu__parse_name_of(p, d.label, d.name);
    if (!name) return false;
    ipu__parse_here(p, at, where);
    return place_variable(p, at, d.label, ipu_graph_add_replication_index(p->g, name));
}

bool ipu__parse_initial_value(ipu__parser *p, ipu__position at, ipu_tensor t, ipu__at where)
{
    if (!ipu__parse_check_values(p, at, ipu_tensor_n_elements(t))) return false;
    ipu__parse_here(p, at, where);
    ipu_graph_set_initial_value(p->g, t, values(p));
    return ipu__parse_built(p, at);
}

/* ---- codelets ---- */

bool ipu__parse_field(ipu__parser *p, ipu__position at, ipu_field_direction direction, ipu_field_shape shape,
                      ipu_type type, const char *name)
{
    ipu_field_form form = 0;
    while (form < IPU_N_FIELD_FORMS
           && (ipu__field_direction(form) != direction || ipu__field_shape(form) != shape))
        form++;
    if (form == IPU_N_FIELD_FORMS)
        return ipu__parse_fail(p, at, "a state field is one value or a vector of them");
    if (p->fields.n == IPU__MAX_FIELDS)
        return ipu__parse_fail(p, at, "expected at most %d fields in a codelet", IPU__MAX_FIELDS);
    for (size_t i = 0; i < p->fields.n; i++)
        if (strcmp(p->fields.at[i].name, name) == 0)
            return ipu__parse_fail(p, at, "the codelet has a field '%.200s' already", name);
    ipu_codelet_field field = {.name = name, .form = form, .type = type};
    return ipu__push(&p->fields, field) || ipu__parse_memory(p);
}

static const ipu_codelet *find_record(const ipu__parser *p, const char *name)
{
    for (size_t i = 0; i < p->n_records; i++)
        if (strcmp(p->records[i]->name, name) == 0) return p->records[i];
    return NULL;
}

/* Lays out the struct as C would; returns its size. */
static uint32_t lay_out(ipu_codelet_field *fields, size_t n)
{
    size_t at = 0, widest = 1;
    for (size_t i = 0; i < n; i++) {
        ipu_field_shape shape    = ipu__field_shape(fields[i].form);
        bool            is_value = fields[i].form == IPU_FIELD_STATE;
        bool            is_span  = shape == IPU_FIELD_SHAPE_VECTOR || shape == IPU_FIELD_SHAPE_VECTORS;
        size_t bytes = is_value ? ipu_type_size(fields[i].type) : is_span ? sizeof(ipu_span) : sizeof(void *);
        size_t align = is_value ? bytes : sizeof(void *);
        at           = (at + align - 1) / align * align;
        fields[i].offset = (uint32_t)at;
        at += bytes;
        if (align > widest) widest = align;
    }
    return (uint32_t)((at + widest - 1) / widest * widest);
}

/* A codelet without a record: only its signature is known, and it cannot be run. */
static bool add_signature(ipu__parser *p, const char *name, bool multi)
{
    ipu_graph *g     = p->g;
    uint32_t   n     = (uint32_t)p->fields.n;
    uint32_t   bytes = lay_out(p->fields.at, n);
    for (size_t i = 0; i < n; i++)
        if (!(p->fields.at[i].name = ipu__graph_strdup(g, p->fields.at[i].name))) return ipu__parse_memory(p);
    ipu__codelet codelet = {
        .name = ipu__graph_strdup(g, name), .n_fields = n, .bytes = bytes, .multi = multi};
    codelet.fields   = ipu__arena_copy(&g->arena, p->fields.at, n * sizeof *p->fields.at);
    codelet.location = ipu__graph_here(g);
    bool ok          = codelet.name && codelet.fields && ipu__push(&g->codelets, codelet)
           && ipu__map_set(&g->codelet_names, codelet.name, (uint32_t)g->codelets.n - 1);
    return ok || ipu__parse_memory(p);
}

static bool agrees(const ipu__parser *p, const ipu_codelet *record, bool multi)
{
    if (record->n_fields != p->fields.n || record->multi != multi) return false;
    const ipu_codelet_field *fields = record->fields();
    for (uint32_t i = 0; i < record->n_fields; i++) {
        const ipu_codelet_field *field = &p->fields.at[i];
        if (strcmp(fields[i].name, field->name) != 0 || fields[i].form != field->form
            || fields[i].type != field->type)
            return false;
    }
    return true;
}

static bool check_new(ipu__parser *p, ipu__position at, const char *name)
{
    return !ipu_graph_has_codelet(p->g, name)
        || ipu__parse_fail(p, at, "there is a codelet '%.200s' already", name);
}

bool ipu__parse_codelet(ipu__parser *p, ipu__position at, const char *name, bool multi, ipu__at where)
{
    const ipu_codelet *record = find_record(p, name);
    if (!check_new(p, at, name)) return false;
    if (record && !agrees(p, record, multi))
        return ipu__parse_fail(p, at,
                               "the fields of codelet '%.200s' differ from those of the record of that name; "
                               "print the graph anew, or write 'codelet %.200s;' to take the record's",
                               name, name);
    ipu__parse_here(p, at, where);
    if (record)
        ipu_graph_add_codelet(p->g, record);
    else if (!add_signature(p, name, multi))
        return false;
    p->fields.n = 0;
    return ipu__parse_built(p, at);
}

bool ipu__parse_known_codelet(ipu__parser *p, ipu__position at, const char *name, ipu__at where)
{
    const ipu_codelet *record = find_record(p, name);
    if (!check_new(p, at, name)) return false;
    if (!record)
        return ipu__parse_fail(p, at, "no record of codelet '%.200s' was given: expected its fields", name);
    ipu__parse_here(p, at, where);
    ipu_graph_add_codelet(p->g, record);
    return ipu__parse_built(p, at);
}

/* ---- compute sets and vertices ---- */

bool ipu__parse_compute_set(ipu__parser *p, ipu__position at, ipu__declared d, ipu__at where)
{
    const char *name = ipu__parse_name_of(p, d.label, d.name);
    if (!name) return false;
    ipu__parse_here(p, at, where);
    p->compute_set = ipu_graph_add_compute_set(p->g, name);
    return ipu__parse_built(p, at)
        && ipu__parse_label(p, at, &p->compute_sets, "compute set", d.label, p->compute_set.id);
}

bool ipu__parse_cycles(ipu__parser *p, ipu__position at, int64_t cycles)
{
    if (cycles >= 1 && cycles <= UINT32_MAX) return true;
    return ipu__parse_fail(p, at, "expected 1 to %u cycles, found %lld", UINT32_MAX, (long long)cycles);
}

bool ipu__parse_vertex(ipu__parser *p, ipu__position at, const char *codelet, int64_t tile, int64_t cycles,
                       ipu__at where)
{
    if (!ipu_graph_has_codelet(p->g, codelet))
        return ipu__parse_fail(p, at, "no codelet '%.200s' is declared above%s", codelet,
                               ipu__parse_hint(p, &p->g->codelet_names, codelet));
    ipu__parse_here(p, at, where);
    p->vertex = ipu_graph_add_vertex(p->g, p->compute_set, codelet);
    if (!ipu__parse_built(p, at)) return false;
    if (tile != -1) ipu_graph_set_vertex_tile(p->g, p->vertex, tile);
    if (cycles > 0) ipu_vertex_set_cycles(p->vertex, cycles);
    return ipu__parse_built(p, at);
}

bool ipu__parse_link(ipu__parser *p, ipu__position at, const char *field)
{
    const ipu__codelet *codelet = &p->g->codelets.at[p->g->vertices.at[p->vertex.id].codelet];
    p->field                    = NULL;
    for (uint32_t i = 0; i < codelet->n_fields; i++)
        if (strcmp(codelet->fields[i].name, field) == 0) p->field = &codelet->fields[i];
    if (p->field) {
        ipu__parse_expect_values(p, p->field->type);
        p->takes_values = ipu__field_direction(p->field->form) == IPU_DIRECTION_STATE;
        return true;
    }
    ipu__text names = {0};
    for (uint32_t i = 0; i < codelet->n_fields; i++)
        ipu__text_add(&names, "%s%s", i ? ", " : "", codelet->fields[i].name);
    if (names.failed)
        ipu__parse_memory(p);
    else
        ipu__parse_fail(p, at, "codelet %.200s has no field '%.200s': it has %.400s", codelet->name, field,
                        names.n ? names.at : "none");
    ipu__text_fini(&names);
    return false;
}

static bool check_edge(ipu__parser *p, ipu__position at)
{
    return !p->takes_values
        || ipu__parse_fail(p, at, "field '%.200s' is state: expected a value, found a view", p->field->name);
}

bool ipu__parse_connect(ipu__parser *p, ipu__position at, ipu_tensor t)
{
    if (!check_edge(p, at)) return false;
    if (ipu__field_shape(p->field->form) == IPU_FIELD_SHAPE_VECTORS)
        return ipu__parse_fail(p, at, "field '%.200s' is a list of runs: expected [view, ...]",
                               p->field->name);
    ipu_vertex_connect(p->vertex, p->field->name, t);
    return ipu__parse_built(p, at);
}

bool ipu__parse_connect_list(ipu__parser *p, ipu__position at)
{
    if (!check_edge(p, at)) return false;
    ipu_vertex_connect_list(p->vertex, p->field->name, p->tensors.at, p->tensors.n);
    return ipu__parse_built(p, at);
}

bool ipu__parse_no_state(ipu__parser *p, ipu__position at)
{
    return ipu__parse_fail(p, at, "field '%.200s' is connected to tensors: expected a view", p->field->name);
}

bool ipu__parse_state(ipu__parser *p, ipu__position at, bool is_list)
{
    if (!p->takes_values) return ipu__parse_no_state(p, at);
    if (is_list != (p->field->form == IPU_FIELD_STATE_VECTOR))
        return ipu__parse_fail(p, at, "field '%.200s' is %s", p->field->name,
                               is_list ? "one value: expected it without braces"
                                       : "a vector: expected its values in braces");
    ipu_vertex_set_data(p->vertex, p->field->name, values(p), p->values.n / ipu_type_size(p->field->type));
    return ipu__parse_built(p, at);
}
