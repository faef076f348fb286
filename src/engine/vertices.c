/* Compute sets: vertices grouped by codelet, with an image of the struct for each body.
 *
 * requires: access (is_gathered), liveness (places). Pointers in the images are places. A field that is not
 * contiguous points to gather memory, and the vertex has moves to fill and empty it. Compute sets share
 * gather memory; the vertices of one set do not.
 */
#include <assert.h>
#include <string.h>

#include "engine/compile.h"
#include "engine/memory.h"

static_assert(sizeof(ipu_span) == sizeof(ipu__exe_span)
                  && offsetof(ipu_span, size) == offsetof(ipu__exe_span, size),
              "records hold places where they will hold pointers");

enum { RECORD_ALIGN = 16 };

typedef struct filler {
    ipu__compiler *c;
    size_t         first_move; /* of the current vertex */
    int64_t        gathered;   /* end of the gather memory used by the set */
    int64_t        bytes;      /* connected to fields */
} filler;

/* ---- codelets ---- */

static bool lower_signature(ipu__compiler *c, const ipu__codelet *codelet, ipu__exe_codelet *out)
{
    ipu_executable *exe  = c->exe;
    out->first_signature = (uint32_t)exe->signatures.n;
    out->n_signatures    = codelet->n_fields;
    for (uint32_t i = 0; i < codelet->n_fields; i++) {
        const ipu_codelet_field *f    = &codelet->fields[i];
        uint32_t                 name = ipu__compiler_text(c, f->name);
        if (name == IPU__NONE
            || !ipu__push(&exe->signatures, (ipu__exe_signature){name, f->form, f->type, f->offset}))
            return false;
    }
    return true;
}

static bool same_source(const ipu_executable *exe, const ipu__exe_source *a, const ipu__codelet_origin *b)
{
    return strcmp(ipu__exe_text(exe, a->text), b->text) == 0
        && strcmp(ipu__exe_text(exe, a->flags), b->flags) == 0
        && strcmp(ipu__exe_text(exe, a->name), b->name) == 0;
}

static bool lower_source(ipu__compiler *c, const ipu__codelet_origin *origin, uint32_t *out)
{
    ipu_executable *exe = c->exe;
    *out                = IPU__NONE;
    if (!origin) return true;
    for (*out = 0; *out < exe->sources.n; ++*out)
        if (same_source(exe, &exe->sources.at[*out], origin)) return true;
    ipu__exe_source source = {ipu__compiler_text(c, origin->name), ipu__compiler_text(c, origin->text),
                              ipu__compiler_text(c, origin->flags)};
    return source.name != IPU__NONE && source.text != IPU__NONE && source.flags != IPU__NONE
        && ipu__push(&exe->sources, source);
}

static ipu_status lower_codelet(ipu__compiler *c, uint32_t id, uint32_t *out)
{
    ipu_executable     *exe     = c->exe;
    const ipu__codelet *codelet = &c->g->codelets.at[id];
    *out                        = c->codelet_of[id];
    if (*out != IPU__NONE) return IPU_OK;
    ipu__exe_codelet lowered = {.name        = ipu__compiler_text(c, codelet->name),
                                .compute     = codelet->compute,
                                .first_field = (uint32_t)exe->fields.n,
                                .bytes       = codelet->bytes,
                                .multi       = codelet->multi};
    bool             ok      = lowered.name != IPU__NONE && lower_signature(c, codelet, &lowered)
           && lower_source(c, codelet->origin, &lowered.source);
    for (uint32_t i = 0; ok && i < codelet->n_fields; i++)
        if (codelet->fields[i].form != IPU_FIELD_STATE)
            ok = ipu__push(&exe->fields, codelet->fields[i].offset);
    lowered.n_fields = (uint32_t)exe->fields.n - lowered.first_field;
    *out             = (uint32_t)exe->codelets.n;
    if (!ok || !ipu__push(&exe->codelets, lowered)) return ipu__fail_memory();
    c->codelet_of[id] = *out;
    return IPU_OK;
}

/* ---- fields ---- */

static ipu__place take_gather(filler *f, int64_t bytes)
{
    ipu__place place = ipu__place_make(IPU__SPACE_GATHER, f->gathered);
    f->gathered += ipu__memory_room(f->c->engine->spacing, bytes);
    return place;
}

/* Where the elements of a view are for the vertex, and the moves that bring them there. */
static bool fill_run(filler *f, uint32_t view, int64_t unit, ipu__exe_span *out)
{
    ipu__compiler *c = f->c;
    ipu__run       run;
    ipu__place     place = IPU__EMPTY_PLACE;
    if (ipu__view_contiguous(&c->g->views, view, &run)) {
        if (run.count > 0) place = c->places[run.var] + (uint64_t)(run.start * unit);
    } else {
        run.count = ipu__view_get(&c->g->views, view).n_elements;
        place     = take_gather(f, run.count * unit);
        if (!ipu__moves_add_pack(&c->exe->moves, f->first_move, &c->layout, view, place)) return false;
    }
    f->bytes += run.count * unit;
    *out = (ipu__exe_span){place, (size_t)run.count};
    return true;
}

static bool fill_list(filler *f, uint32_t link, int64_t unit, ipu__exe_span *out)
{
    ipu__compiler  *c    = f->c;
    ipu_executable *exe  = c->exe;
    const uint32_t *list = &c->g->lists.at[link & ~IPU__LIST];
    size_t          n = list[0], first = exe->spans.n;
    ipu__place      place = ipu__place_make(IPU__SPACE_SPANS, (int64_t)(first * sizeof(ipu__exe_span)));
    if (!ipu__reserve(&exe->spans, n)) return false;
    exe->spans.n += n;
    *out = (ipu__exe_span){n ? place : IPU__EMPTY_PLACE, n};
    for (size_t i = 0; i < n; i++)
        if (!fill_run(f, list[1 + i], unit, &exe->spans.at[first + i])) return false;
    return true;
}

/* Turns state vectors in the graph's image into constants. */
static bool fill_state(filler *f, const char *slot, int64_t unit, ipu__exe_span *out)
{
    ipu_span set;
    memcpy(&set, slot, sizeof set);
    *out = (ipu__exe_span){IPU__EMPTY_PLACE, set.size};
    return set.size == 0 || ipu__compiler_constant(f->c, set.data, set.size * (size_t)unit, 16, &out->place);
}

static bool fill_field(filler *f, const ipu_codelet_field *field, uint32_t link, char *record)
{
    int64_t       unit = (int64_t)ipu_type_size(field->type);
    char         *slot = record + field->offset;
    ipu__exe_span span;
    bool          has_size = ipu__field_shape(field->form) == IPU_FIELD_SHAPE_VECTOR
                 || ipu__field_shape(field->form) == IPU_FIELD_SHAPE_VECTORS;
    if (field->form == IPU_FIELD_STATE) return true;
    bool ok = field->form == IPU_FIELD_STATE_VECTOR                    ? fill_state(f, slot, unit, &span)
            : ipu__field_shape(field->form) == IPU_FIELD_SHAPE_VECTORS ? fill_list(f, link, unit, &span)
                                                                       : fill_run(f, link, unit, &span);
    if (ok) memcpy(slot, &span, has_size ? sizeof span : sizeof span.place);
    return ok;
}

/* ---- scattering what was gathered ---- */

static bool scatter_run(filler *f, uint32_t view, const ipu__exe_span *span)
{
    if (ipu__place_space(span->place) != IPU__SPACE_GATHER) return true;
    return ipu__moves_add_unpack(&f->c->exe->moves, f->first_move, &f->c->layout, span->place, view);
}

static bool scatter_field(filler *f, const ipu_codelet_field *field, uint32_t link, const char *record)
{
    int           direction = ipu__field_direction(field->form);
    ipu__exe_span span      = {0};
    if (direction != IPU_DIRECTION_OUT && direction != IPU_DIRECTION_INOUT) return true;
    bool is_list = ipu__field_shape(field->form) == IPU_FIELD_SHAPE_VECTORS;
    memcpy(&span, record + field->offset, is_list ? sizeof span : sizeof span.place);
    if (!is_list) return scatter_run(f, link, &span);
    if (span.size == 0) return true;
    const ipu__exe_span *spans = f->c->exe->spans.at + ipu__place_offset(span.place) / (int64_t)sizeof span;
    for (size_t i = 0; i < span.size; i++)
        if (!scatter_run(f, f->c->g->lists.at[(link & ~IPU__LIST) + 1 + i], &spans[i])) return false;
    return true;
}

/* ---- vertices ---- */

static bool fill_vertex(filler *f, const ipu__vertex *vertex, char *record, ipu__exe_vertex_moves *moves)
{
    const ipu_graph    *g       = f->c->g;
    const ipu__codelet *codelet = &g->codelets.at[vertex->codelet];
    const uint32_t     *links   = g->links.at + vertex->links;
    ipu__moves         *list    = &f->c->exe->moves;
    if (vertex->state)
        memcpy(record, g->states.at[vertex->state], codelet->bytes);
    else
        memset(record, 0, codelet->bytes);
    f->first_move = list->at.n;
    for (uint32_t i = 0; i < codelet->n_fields; i++)
        if (!fill_field(f, &codelet->fields[i], links[i], record)) return false;
    if (!moves) return true;
    moves->gather  = (uint32_t)f->first_move;
    f->first_move  = list->at.n;
    moves->scatter = (uint32_t)f->first_move;
    for (uint32_t i = 0; i < codelet->n_fields; i++)
        if (!scatter_field(f, &codelet->fields[i], links[i], record)) return false;
    moves->end = (uint32_t)list->at.n;
    return true;
}

static uint32_t key_of(const ipu__compiler *c, uint32_t vertex)
{
    return 2 * c->g->vertices.at[vertex].codelet + c->is_gathered[vertex];
}

static ipu_status count_groups(ipu__compiler *c, const ipu__compute_set *cs)
{
    for (uint32_t id = cs->first; id; id = c->g->vertices.at[id].next) {
        uint32_t *group = &c->group_of[key_of(c, id)];
        if (*group == IPU__NONE) {
            ipu__exe_group fresh = {.first_moves = c->is_gathered[id] ? 0 : IPU__NONE};
            IPU_TRY(lower_codelet(c, c->g->vertices.at[id].codelet, &fresh.codelet));
            if (!ipu__push(&c->exe->groups, fresh)) return ipu__fail_memory();
            *group = (uint32_t)c->exe->groups.n - 1;
        }
        c->exe->groups.at[*group].n++;
    }
    return IPU_OK;
}

/* Makes room for the records of groups from `first` on; resets their counts, to be counted again. */
static bool reserve_groups(ipu_executable *exe, size_t first)
{
    for (size_t i = first; i < exe->groups.n; i++) {
        ipu__exe_group *group = &exe->groups.at[i];
        size_t          bytes = (size_t)group->n * exe->codelets.at[group->codelet].bytes;
        if (!ipu__reserve(&exe->records, bytes + RECORD_ALIGN) || !ipu__reserve(&exe->vertices, group->n))
            return false;
        while (exe->records.n % RECORD_ALIGN != 0) exe->records.at[exe->records.n++] = 0;
        group->records = exe->records.n;
        group->first   = (uint32_t)exe->vertices.n;
        exe->records.n += bytes;
        exe->vertices.n += group->n;
        if (group->first_moves != IPU__NONE) {
            if (!ipu__reserve(&exe->vertex_moves, group->n)) return false;
            group->first_moves = (uint32_t)exe->vertex_moves.n;
            exe->vertex_moves.n += group->n;
        }
        group->n = 0;
    }
    return true;
}

static ipu_status fill_set(ipu__compiler *c, const ipu__compute_set *cs, filler *f)
{
    ipu_executable *exe    = c->exe;
    uint32_t        number = 0;
    for (uint32_t id = cs->first; id; id = c->g->vertices.at[id].next) {
        const ipu__vertex *vertex = &c->g->vertices.at[id];
        ipu__exe_group    *group  = &exe->groups.at[c->group_of[key_of(c, id)]];
        uint32_t           i      = group->n++;
        char              *record = exe->records.at + group->records
                     + (size_t)i * c->g->codelets.at[vertex->codelet].bytes;
        exe->vertices.at[group->first + i] = (ipu__exe_vertex){
            vertex->tile, ipu__compiler_location(c, vertex->location), number++};
        bool gathers = group->first_moves != IPU__NONE;
        if (!fill_vertex(f, vertex, record, gathers ? &exe->vertex_moves.at[group->first_moves + i] : NULL))
            return ipu__fail_memory();
        IPU_TRY(ipu__compiler_advance(c, 1));
    }
    return IPU_OK;
}

ipu_status ipu__lower_set(ipu__compiler *c, uint32_t compute_set, uint32_t *out)
{
    ipu_executable         *exe = c->exe;
    const ipu__compute_set *cs  = &c->g->compute_sets.at[compute_set];
    *out                        = c->set_of[compute_set];
    if (*out != IPU__NONE) return IPU_OK;
    filler       f   = {.c = c, .gathered = ipu__gather_begin(c)};
    ipu__exe_set set = {.name        = ipu__compiler_text(c, cs->name),
                        .first_group = (uint32_t)exe->groups.n,
                        .n_vertices  = cs->n_vertices};
    if (set.name == IPU__NONE) return ipu__fail_memory();
    IPU_TRY(count_groups(c, cs));
    set.n_groups = (uint32_t)exe->groups.n - set.first_group;
    if (!reserve_groups(exe, set.first_group)) return ipu__fail_memory();
    IPU_TRY(fill_set(c, cs, &f));
    for (uint32_t id = cs->first; id; id = c->g->vertices.at[id].next) c->group_of[key_of(c, id)] = IPU__NONE;
    set.bytes = f.bytes;
    if (f.gathered > exe->gather_bytes) exe->gather_bytes = f.gathered;
    *out                   = (uint32_t)exe->sets.n;
    c->set_of[compute_set] = *out;
    return ipu__or_memory(ipu__push(&exe->sets, set));
}
