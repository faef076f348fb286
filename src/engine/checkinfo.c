/* Collects what checking mode needs while the graph still exists. */
#include "engine/checkinfo.h"

static bool add_variables(ipu__compiler *c, ipu__check_info *info)
{
    for (uint32_t id = 1; id < c->g->variables.n; id++) {
        const ipu__variable *v    = &c->g->variables.at[id];
        int64_t              unit = (int64_t)ipu_type_size(v->type);
        if (v->kind == IPU__CONSTANT || (v->kind == IPU__REPLICATION_INDEX && !c->is_used[id])) continue;
        ipu__check_variable known = {.name     = ipu__compiler_text(c, ipu__variable_str(c->g, id)),
                                     .location = ipu__compiler_location(c, v->location),
                                     .offset   = ipu__place_offset(c->places[id]),
                                     .bytes    = v->n_elements * unit,
                                     .unit     = unit};
        if (known.name == IPU__NONE || !ipu__push(&info->variables, known)) return false;
    }
    return true;
}

static bool add_codelet(ipu__compiler *c, ipu__check_info *info, const ipu__codelet *codelet, uint32_t id)
{
    info->codelets.at[id] = (ipu__check_codelet){(uint32_t)info->fields.n, codelet->n_fields};
    for (uint32_t i = 0; i < codelet->n_fields; i++) {
        const ipu_codelet_field *f     = &codelet->fields[i];
        ipu__check_field         known = {.name      = ipu__compiler_text(c, f->name),
                                          .offset    = f->offset,
                                          .direction = ipu__field_direction(f->form),
                                          .shape     = ipu__field_shape(f->form),
                                          .unit      = (int64_t)ipu_type_size(f->type)};
        if (known.name == IPU__NONE || !ipu__push(&info->fields, known)) return false;
    }
    return true;
}

static bool add_codelets(ipu__compiler *c, ipu__check_info *info)
{
    size_t n = c->exe->codelets.n;
    if (!ipu__reserve(&info->codelets, n)) return false;
    info->codelets.n = n;
    for (size_t id = 1; id < c->g->codelets.n; id++)
        if (c->codelet_of[id] != IPU__NONE
            && !add_codelet(c, info, &c->g->codelets.at[id], c->codelet_of[id]))
            return false;
    return true;
}

static bool add_lengths(const ipu_graph *g, ipu__check_info *info, const ipu__vertex *vertex)
{
    const ipu__codelet *codelet = &g->codelets.at[vertex->codelet];
    for (uint32_t i = 0; i < codelet->n_fields; i++) {
        if (ipu__field_shape(codelet->fields[i].form) != IPU_FIELD_SHAPE_POINTER) continue;
        int64_t n = ipu__view_get(&g->views, g->links.at[vertex->links + i]).n_elements;
        if (!ipu__push(&info->lengths, n)) return false;
    }
    return true;
}

/* `ids`: room for the vertices of a set, by their number within it. */
static bool add_set(const ipu__compiler *c, ipu__check_info *info, uint32_t set, uint32_t *ids)
{
    const ipu_graph    *g     = c->g;
    const ipu__exe_set *known = &c->exe->sets.at[c->set_of[set]];
    uint32_t            n     = 0;
    for (uint32_t id = g->compute_sets.at[set].first; id; id = g->vertices.at[id].next) ids[n++] = id;
    for (uint32_t k = known->first_group; k < known->first_group + known->n_groups; k++) {
        const ipu__exe_group *group = &c->exe->groups.at[k];
        for (uint32_t i = group->first; i < group->first + group->n; i++) {
            info->first_length[i] = info->lengths.n;
            if (!add_lengths(g, info, &g->vertices.at[ids[c->exe->vertices.at[i].number]])) return false;
        }
    }
    return true;
}

static bool add_sets(const ipu__compiler *c, ipu__check_info *info)
{
    uint32_t *ids      = ipu__alloc(c->g->vertices.n * sizeof *ids);
    info->first_length = ipu__alloc(c->exe->vertices.n * sizeof *info->first_length);
    bool ok            = ids && info->first_length;
    for (uint32_t set = 1; ok && set < c->g->compute_sets.n; set++)
        if (c->set_of[set] != IPU__NONE) ok = add_set(c, info, set, ids);
    ipu__free(ids);
    return ok;
}

ipu_status ipu__check_info_build(ipu__compiler *c)
{
    ipu__check_info *info = c->exe->check = ipu__alloc_zeroed(sizeof *info);
    return ipu__or_memory(info && add_variables(c, info) && add_codelets(c, info) && add_sets(c, info));
}

void ipu__check_info_destroy(ipu__check_info *info)
{
    if (!info) return;
    ipu__array_fini(&info->variables);
    ipu__array_fini(&info->fields);
    ipu__array_fini(&info->codelets);
    ipu__array_fini(&info->lengths);
    ipu__free(info->first_length);
    ipu__free(info);
}
