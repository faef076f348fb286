/* Programs from text: blocks, and looking up what steps refer to by name. */
#include "graph/text/parse.h"

bool ipu__parse_open(ipu__parser *p, ipu__position at, ipu__at where)
{
    if (p->blocks.n > IPU__MAX_DEPTH)
        return ipu__parse_fail(p, at, "blocks are nested more than %d deep", IPU__MAX_DEPTH);
    ipu__parse_here(p, at, where);
    ipu_program program = ipu_program_sequence(p->g);
    if (!ipu__parse_built(p, at)) return false;
    return ipu__push(&p->blocks, program) || ipu__parse_memory(p);
}

ipu_program ipu__parse_top(const ipu__parser *p) { return p->blocks.at[p->blocks.n - 1]; }

ipu_program ipu__parse_close(ipu__parser *p) { return p->blocks.at[--p->blocks.n]; }

bool ipu__parse_function(ipu__parser *p, ipu__position at, ipu__declared d, ipu_program body, ipu__at where)
{
    const char *name = ipu__parse_name_of(p, d.label, d.name);
    if (!name) return false;
    ipu__parse_here(p, at, where);
    ipu_function f = ipu_graph_add_function(p->g, body, name);
    return ipu__parse_built(p, at) && ipu__parse_label(p, at, &p->functions, "function", d.label, f.id);
}

static bool find_handle(ipu__parser *p, ipu__position at, const ipu__map *map, const char *what,
                        const char *handle, uint32_t *out)
{
    return ipu__map_find(map, handle, out)
        || ipu__parse_fail(p, at, "no %s \"%.200s\" is declared above%s", what, handle,
                           ipu__parse_hint(p, map, handle));
}

bool ipu__parse_find_stream(ipu__parser *p, ipu__position at, const char *handle, ipu_stream *out)
{
    out->graph = p->g;
    return find_handle(p, at, &p->g->stream_names, "stream", handle, &out->id);
}

bool ipu__parse_find_remote(ipu__parser *p, ipu__position at, const char *handle, ipu_remote_buffer *out)
{
    out->graph = p->g;
    return find_handle(p, at, &p->g->remote_names, "remote buffer", handle, &out->id);
}

bool ipu__parse_ints(ipu__parser *p, ipu_attribute *out)
{
    const int64_t *ints = ipu__arena_copy(&p->arena, p->ints.at, p->ints.n * sizeof *ints);
    *out                = (ipu_attribute){.kind = IPU_ATTRIBUTE_INTS, .ints = ints, .n_ints = p->ints.n};
    return ints || ipu__parse_memory(p);
}
