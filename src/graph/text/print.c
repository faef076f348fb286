/* Graphs to text: declarations in the order of their ids, so that parsing gives the same ids.
 * The output is canonical: parsing it and printing again gives the same bytes (docs/text-format.md). */
#include "graph/text/print.h"

#include <inttypes.h>
#include <locale.h>
#include <string.h>

#include "graph/text/literal.h"
#include "ipu/text.h"

void ipu__print_fail(ipu__printer *p, ipu_status status)
{
    if (p->status == IPU_OK) p->status = status;
}

void ipu__print_line(ipu__printer *p)
{
    static const char blanks[] = "                                ";
    ipu__text_add_bytes(&p->out, "\n", 1);
    for (size_t n = 2 * (size_t)p->depth; n > 0;) {
        size_t some = n < sizeof blanks - 1 ? n : sizeof blanks - 1;
        ipu__text_add_bytes(&p->out, blanks, some);
        n -= some;
    }
    if (p->out.n > IPU__TEXT_BYTES)
        ipu__print_fail(p, ipu__fail(IPU_INVALID,
                                     "printing: the text would be larger than 1 GiB; "
                                     "give a side file for its constants, or print fewer programs"));
}

static void print_string(ipu__printer *p, const char *text)
{
    ipu__text_add_bytes(&p->out, text, strlen(text));
}

void ipu__print_at(ipu__printer *p, uint32_t location)
{
    if (!(p->flags & IPU_PRINT_LOCATIONS)) return;
    ipu__location where = location ? p->g->locations.at[location] : (ipu__location){0};
    print_string(p, " at ");
    ipu__text_add_quoted(&p->out, where.file ? where.file : "");
    ipu__text_add(&p->out, ":%d", where.file ? where.line : 0);
}

/* ---- names ---- */

typedef const char *(*name_fn)(const ipu_graph *g, uint32_t id);

static const char *variable_name(const ipu_graph *g, uint32_t id) { return g->variables.at[id].name; }
static const char *compute_set_name(const ipu_graph *g, uint32_t id) { return g->compute_sets.at[id].name; }
static const char *function_name(const ipu_graph *g, uint32_t id) { return g->functions.at[id].name; }

static bool find_shared(const ipu_graph *g, name_fn name, size_t n, ipu__labels *out)
{
    ipu__map first = {0};
    out->shared    = ipu__alloc_zeroed(n * sizeof *out->shared);
    bool ok        = out->shared != NULL;
    for (uint32_t id = 1; ok && id < n; id++) {
        uint32_t other;
        if (ipu__map_find(&first, name(g, id), &other))
            out->shared[id] = out->shared[other] = true;
        else
            ok = ipu__map_set(&first, name(g, id), id);
    }
    ipu__map_fini(&first);
    return ok;
}

void ipu__print_label(ipu__printer *p, const ipu__labels *labels, const char *name, uint32_t id)
{
    bool is_word = ipu__is_word(name);
    if (is_word) print_string(p, name);
    if (!is_word || labels->shared[id]) ipu__text_add(&p->out, "~%" PRIu32, id);
}

/* A declaration: the label, and the name unless the label says it. */
static void print_declared(ipu__printer *p, const ipu__labels *labels, const char *name, uint32_t id)
{
    print_string(p, " ");
    ipu__print_label(p, labels, name, id);
    if (*name == 0 || ipu__is_word(name)) return;
    print_string(p, " ");
    ipu__text_add_quoted(&p->out, name);
}

/* ---- views ---- */

void ipu__print_dims(ipu__printer *p, const ipu_shape *shape)
{
    for (int d = 0; d < shape->rank; d++) ipu__text_add(&p->out, "%s%" PRId64, d ? "," : "[", shape->dim[d]);
    if (shape->rank) print_string(p, "]");
}

static bool same_shape(const ipu_shape *a, const ipu_shape *b)
{
    return a->rank == b->rank
        && (a->rank == 0 || memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0);
}

static size_t get_piece(const ipu__view_builder *b, size_t at, ipu__piece *out)
{
    const int64_t *words = b->words.at + at;
    out->var             = (uint32_t)words[0];
    out->n_loops         = (int)words[1];
    out->start           = words[2];
    for (int k = 0; k < out->n_loops; k++) out->loop[k] = (ipu__loop){words[3 + 2 * k], words[4 + 2 * k]};
    return at + 3 + 2 * (size_t)out->n_loops;
}

static void clear(ipu__view_builder *b)
{
    b->words.n  = 0;
    b->n_pieces = 0;
}

/* The pieces of the view in p->builder, as the parser would leave them: it joins neighbours, including some
 * that could not be joined when the view was made. */
static void settle_pieces(ipu__printer *p, uint32_t view)
{
    clear(&p->builder);
    ipu__view_add_view(&p->builder, &p->g->views, view);
    for (uint32_t before = UINT32_MAX; p->builder.n_pieces > 1 && p->builder.n_pieces < before;) {
        before                   = p->builder.n_pieces;
        ipu__view_builder source = p->builder;
        p->builder               = p->spare;
        p->spare                 = source;
        clear(&p->builder);
        ipu__piece piece;
        for (size_t at = 0; at < source.words.n && !p->builder.failed;) {
            at = get_piece(&source, at, &piece);
            ipu__view_add(&p->builder, &piece);
        }
    }
    if (p->builder.failed) ipu__print_fail(p, ipu__fail_memory());
}

static bool is_whole_variable(const ipu__printer *p, const ipu__view *view, uint32_t *var)
{
    if (p->builder.n_pieces != 1) return false;
    ipu__piece piece;
    get_piece(&p->builder, 0, &piece);
    const ipu__variable *v = ipu__graph_variable(p->g, piece.var);
    *var                   = piece.var;
    return piece.start == 0 && (piece.n_loops == 0 || (piece.n_loops == 1 && piece.loop[0].stride == 1))
        && view->n_elements == v->n_elements && view->type == v->type && same_shape(&view->shape, &v->shape);
}

void ipu__print_view(ipu__printer *p, uint32_t id)
{
    ipu__view view = ipu__view_get(&p->g->views, id);
    uint32_t  var;
    settle_pieces(p, id);
    if (p->status != IPU_OK) return;
    if (is_whole_variable(p, &view, &var)) {
        ipu__print_label(p, &p->variables, variable_name(p->g, var), var);
        return;
    }
    bool recast = p->builder.n_pieces == 0;
    print_string(p, "{");
    for (size_t at = 0; at < p->builder.words.n;) {
        ipu__piece piece;
        if (at) print_string(p, ", ");
        at = get_piece(&p->builder, at, &piece);
        recast |= ipu__graph_variable(p->g, piece.var)->type != view.type;
        ipu__print_label(p, &p->variables, variable_name(p->g, piece.var), piece.var);
        ipu__piece_text(&p->out, "", &piece);
    }
    print_string(p, "}");
    ipu__print_dims(p, &view.shape);
    if (recast) ipu__text_add(&p->out, " as %s", ipu_type_name(view.type));
}

/* ---- declarations ---- */

static void print_mapping(ipu__printer *p, ipu__variable *v)
{
    if (!ipu__mapping_sort(&v->mapping)) {
        ipu__print_fail(p, ipu__fail_memory());
        return;
    }
    size_t n_printed = 0;
    for (size_t i = 0; i < v->mapping.places.n;) {
        ipu__placement place = v->mapping.places.at[i++];
        while (i < v->mapping.places.n && v->mapping.places.at[i].begin == place.end
               && v->mapping.places.at[i].tile == place.tile)
            place.end = v->mapping.places.at[i++].end;
        if (place.tile == IPU__NO_TILE) continue;
        if (place.begin == 0 && place.end == v->n_elements) {
            ipu__text_add(&p->out, " on %" PRIu32, place.tile);
            return;
        }
        ipu__text_add(&p->out, "%s%" PRIu32 ": %" PRId64 "..%" PRId64, n_printed++ ? ", " : " on { ",
                      place.tile, place.begin, place.end);
    }
    if (n_printed) print_string(p, " }");
}

static void print_values(ipu__printer *p, ipu_type type, const void *data, size_t n)
{
    const char *at = data;
    print_string(p, "{");
    for (size_t i = 0; i < n && p->out.n <= IPU__TEXT_BYTES; i++, at += ipu_type_size(type)) {
        if (i) print_string(p, ", ");
        ipu__literal_print(&p->out, type, at);
    }
    print_string(p, "}");
}

void ipu__print_data(ipu__printer *p, ipu_type type, const void *data, int64_t n)
{
    print_string(p, " = ");
    if (!p->with_side || n <= IPU__TEXT_IN_FULL) {
        print_values(p, type, data, (size_t)n);
        return;
    }
    ipu__hash128 hash = ipu__side_add(&p->side, data, (size_t)n * ipu_type_size(type));
    char         text[IPU__HASH_TEXT];
    ipu__hash_print(&hash, text);
    ipu__text_add(&p->out, "hash \"%s\"", text);
}

static void print_variables(ipu__printer *p)
{
    static const char *const words[] = {
        [IPU__VARIABLE] = "var", [IPU__CONSTANT] = "const", [IPU__REPLICATION_INDEX] = "replication_index"};
    for (uint32_t id = 1; id < p->g->variables.n && p->status == IPU_OK; id++) {
        ipu__variable *v = &p->g->variables.at[id];
        ipu__print_line(p);
        print_string(p, words[v->kind]);
        print_declared(p, &p->variables, v->name, id);
        if (v->kind != IPU__REPLICATION_INDEX) {
            ipu__text_add(&p->out, " %s", ipu_type_name(v->type));
            ipu__print_dims(p, &v->shape);
        }
        if (v->kind == IPU__CONSTANT) ipu__print_data(p, v->type, v->data, v->n_elements);
        print_mapping(p, v);
        ipu__print_at(p, v->location);
        print_string(p, ";");
    }
}

static void print_initial_values(ipu__printer *p)
{
    for (size_t i = 0; i < p->g->initial_values.n && p->status == IPU_OK; i++) {
        const ipu__initial_value *initial = &p->g->initial_values.at[i];
        ipu__view                 view    = ipu__view_get(&p->g->views, initial->view);
        ipu__print_line(p);
        print_string(p, "init ");
        ipu__print_view(p, initial->view);
        ipu__print_data(p, view.type, initial->data, view.n_elements);
        ipu__print_at(p, initial->location);
        print_string(p, ";");
    }
}

static void print_codelets(ipu__printer *p)
{
    for (uint32_t id = 1; id < p->g->codelets.n; id++) {
        const ipu__codelet *codelet = &p->g->codelets.at[id];
        ipu__print_line(p);
        print_string(p, "codelet ");
        ipu__name_print(&p->out, codelet->name);
        if (codelet->multi) print_string(p, " multi");
        ipu__print_at(p, codelet->location);
        print_string(p, " {");
        for (uint32_t i = 0; i < codelet->n_fields; i++) {
            const ipu_codelet_field *field = &codelet->fields[i];
            ipu__text_add(&p->out, "%s%s %s ", i ? ", " : " ", ipu__field_form_text(field->form),
                          ipu_type_name(field->type));
            ipu__name_print(&p->out, field->name);
        }
        print_string(p, " }");
    }
}

/* A line for a handle: the word, the handle, and the type if it has one. */
static void begin_handle(ipu__printer *p, const char *word, const char *handle, ipu_type type)
{
    ipu__print_line(p);
    ipu__text_add(&p->out, "%s ", word);
    ipu__text_add_quoted(&p->out, handle);
    if (type != IPU_N_TYPES) ipu__text_add(&p->out, " %s", ipu_type_name(type));
}

static void print_streams(ipu__printer *p)
{
    for (uint32_t id = 1; id < p->g->streams.n; id++) {
        const ipu__stream *s = &p->g->streams.at[id];
        begin_handle(p, s->to_device ? "stream in" : "stream out", s->handle, s->type);
        ipu__text_add(&p->out, " %" PRId64, s->n_elements);
        if (s->to_device) print_string(p, s->mode == IPU_STREAM_BROADCAST ? " broadcast" : " replicate");
        ipu__print_at(p, s->location);
        print_string(p, ";");
    }
    for (uint32_t id = 1; id < p->g->remote_buffers.n; id++) {
        const ipu__remote_buffer *r = &p->g->remote_buffers.at[id];
        begin_handle(p, "remote", r->handle, r->type);
        ipu__text_add(&p->out, " %" PRId64 " rows %" PRId64, r->n_elements, r->n_rows);
        ipu__print_at(p, r->location);
        print_string(p, ";");
    }
    for (size_t i = 0; i < p->g->host_handles.n && p->status == IPU_OK; i++) {
        const ipu__host_handle *h = &p->g->host_handles.at[i];
        begin_handle(p, h->is_write ? "host_write" : "host_read", h->handle, IPU_N_TYPES);
        print_string(p, " ");
        ipu__print_view(p, h->view);
        ipu__print_at(p, h->location);
        print_string(p, ";");
    }
}

/* ---- vertices ---- */

static void print_state(ipu__printer *p, const ipu_codelet_field *field, const char *image)
{
    const char *at = image + field->offset;
    if (field->form == IPU_FIELD_STATE) {
        ipu__literal_print(&p->out, field->type, at);
        return;
    }
    ipu_span span;
    memcpy(&span, at, sizeof span);
    print_values(p, field->type, span.data, span.size);
}

static void print_link(ipu__printer *p, uint32_t link)
{
    if (!(link & IPU__LIST)) {
        ipu__print_view(p, link);
        return;
    }
    uint32_t at = link & ~IPU__LIST, n = p->g->lists.at[at];
    print_string(p, "[");
    for (uint32_t i = 0; i < n && p->status == IPU_OK; i++) {
        if (i) print_string(p, ", ");
        ipu__print_view(p, p->g->lists.at[at + 1 + i]);
    }
    print_string(p, "]");
}

static void print_vertex(ipu__printer *p, const ipu__vertex *v)
{
    const ipu__codelet *codelet = &p->g->codelets.at[v->codelet];
    const char         *comma   = " ";
    ipu__print_line(p);
    print_string(p, "vertex ");
    ipu__name_print(&p->out, codelet->name);
    if (v->tile != IPU__NO_TILE) ipu__text_add(&p->out, " on %" PRIu32, v->tile);
    if (v->cycles) ipu__text_add(&p->out, " cycles %" PRIu32, v->cycles);
    ipu__print_at(p, v->location);
    print_string(p, " {");
    for (uint32_t i = 0; i < codelet->n_fields && p->status == IPU_OK; i++) {
        const ipu_codelet_field *field = &codelet->fields[i];
        uint32_t                 link  = p->g->links.at[v->links + i];
        if (link == 0) continue;
        print_string(p, comma);
        comma = ", ";
        ipu__name_print(&p->out, field->name);
        print_string(p, " = ");
        if (ipu__field_direction(field->form) == IPU_DIRECTION_STATE)
            print_state(p, field, p->g->states.at[v->state]);
        else
            print_link(p, link);
    }
    print_string(p, " }");
}

static void print_compute_sets(ipu__printer *p)
{
    for (uint32_t id = 1; id < p->g->compute_sets.n && p->status == IPU_OK; id++) {
        const ipu__compute_set *cs = &p->g->compute_sets.at[id];
        ipu__print_line(p);
        print_string(p, "compute_set");
        print_declared(p, &p->compute_sets, cs->name, id);
        ipu__print_at(p, cs->location);
        print_string(p, cs->first ? " {" : " { }");
        if (!cs->first) continue;
        p->depth++;
        for (uint32_t v = cs->first; v && p->status == IPU_OK; v = p->g->vertices.at[v].next)
            print_vertex(p, &p->g->vertices.at[v]);
        p->depth--;
        ipu__print_line(p);
        print_string(p, "}");
    }
}

static void print_functions(ipu__printer *p)
{
    for (uint32_t id = 1; id < p->g->functions.n && p->status == IPU_OK; id++) {
        const ipu__function *f = &p->g->functions.at[id];
        ipu__print_line(p);
        print_string(p, "function");
        print_declared(p, &p->functions, f->name, id);
        ipu__print_at(p, f->location);
        ipu__print_block(p, f->body);
    }
}

/* ---- the whole ---- */

/* One for each call of ipu_graph_add_start, which adds a sequence each time. */
static void print_starts(ipu__printer *p)
{
    const ipu_graph *g = p->g;
    for (size_t i = 0; g->start && i < g->programs.at[g->start].steps.n && p->status == IPU_OK; i++) {
        const ipu__step *step = &g->programs.at[g->start].steps.at[i];
        ipu__print_line(p);
        print_string(p, "start");
        ipu__print_at(p, step->location);
        ipu__print_block(p, step->body);
    }
}

static void print_graph(ipu__printer *p)
{
    const ipu_graph *g = p->g;
    print_string(p, "graph target ");
    ipu__name_print(&p->out, ipu_target_chip_name(&g->target));
    ipu__text_add(&p->out, " ipus %" PRId64 " tiles %" PRId64 " replication %" PRId64 " {", g->target.n_ipus,
                  g->target.tiles_per_ipu, g->replication);
    p->depth = 1;
    print_codelets(p);
    print_variables(p);
    print_initial_values(p);
    print_streams(p);
    print_compute_sets(p);
    print_functions(p);
    print_starts(p);
    for (size_t i = 0; i < p->n_bodies && p->status == IPU_OK; i++) {
        ipu__print_line(p);
        print_string(p, "program");
        ipu__print_at(p, g->programs.at[p->bodies[i].program].location);
        ipu__print_block(p, p->bodies[i]);
    }
    print_string(p, "\n}\n");
}

/* Decimal points in numbers must not depend on the program's locale. */
ipu_status ipu__print_finish(ipu__printer *p, void (*print)(ipu__printer *p), const char *side_file,
                             char **out)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return ipu__fail_memory();
    locale_t before = uselocale(c);
    print(p);
    uselocale(before);
    freelocale(c);
    if (p->status != IPU_OK) return p->status;
    if (p->out.failed) return ipu__fail_memory();
    if (side_file) IPU_TRY(ipu__side_write(&p->side, side_file));
    *out = ipu__text_take(&p->out);
    return *out ? IPU_OK : ipu__fail_memory();
}

static ipu_status print_all(ipu__printer *p, const char *side_file, char **out)
{
    ipu_graph *g = p->g;
    if (!find_shared(g, variable_name, g->variables.n, &p->variables)
        || !find_shared(g, compute_set_name, g->compute_sets.n, &p->compute_sets)
        || !find_shared(g, function_name, g->functions.n, &p->functions))
        return ipu__fail_memory();
    return ipu__print_finish(p, print_graph, side_file, out);
}

static ipu_status take_bodies(const ipu_graph *g, const ipu_program *programs, size_t n, ipu__body *out)
{
    for (size_t i = 0; i < n; i++) {
        if (!programs[i].graph || programs[i].graph->root != g || programs[i].id == 0)
            return ipu__fail(IPU_INVALID, "ipu_graph_print: program %zu is null or of another graph", i);
        out[i] = (ipu__body){programs[i].id, (uint32_t)g->programs.at[programs[i].id].steps.n};
    }
    return IPU_OK;
}

ipu_status ipu_graph_print(ipu_graph *g, const ipu_program *programs, size_t n, unsigned flags,
                           const char *side_file, char **out)
{
    *out = NULL;
    g    = g->root;
    if (g->status != IPU_OK) return ipu__fail(g->status, "%s", ipu_graph_message(g));
    ipu__body *bodies = n > SIZE_MAX / sizeof *bodies ? NULL : ipu__alloc(n * sizeof *bodies);
    if (!bodies) return ipu__fail_memory();
    ipu__printer p = {
        .g = g, .flags = flags, .with_side = side_file != NULL, .bodies = bodies, .n_bodies = n};
    ipu_status status = take_bodies(g, programs, n, bodies);
    if (status == IPU_OK) status = print_all(&p, side_file, out);
    ipu__free(bodies);
    ipu__text_fini(&p.out);
    ipu__side_writer_fini(&p.side);
    ipu__view_builder_fini(&p.builder);
    ipu__view_builder_fini(&p.spare);
    ipu__free(p.variables.shared);
    ipu__free(p.compute_sets.shared);
    ipu__free(p.functions.shared);
    return status;
}
