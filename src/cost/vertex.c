/* A vertex: what an estimator sees of it, its cycles, the bytes of its state. */
#include <string.h>

#include "cost/cost.h"

struct ipu_vertex_info {
    const ipu_graph    *g;
    const ipu__vertex  *v;
    const ipu__codelet *codelet;
};

/* ---- fields ---- */

typedef struct field {
    const ipu_codelet_field *f; /* NULL if there is no such field */
    uint32_t                 link;
} field;

static field find(const ipu_vertex_info *v, const char *name)
{
    for (uint32_t i = 0; i < v->codelet->n_fields; i++)
        if (strcmp(v->codelet->fields[i].name, name) == 0)
            return (field){&v->codelet->fields[i], v->g->links.at[v->v->links + i]};
    return (field){0};
}

static bool is_state(const ipu_codelet_field *f)
{
    return ipu__field_direction(f->form) == IPU_DIRECTION_STATE;
}

/* State as seen by the body: one value, or a run. */
static ipu_span state_of(const ipu_graph *g, const ipu__vertex *v, const ipu_codelet_field *f)
{
    char    *image = v->state ? g->states.at[v->state] : NULL;
    ipu_span span  = {0};
    if (!image) return span;
    if (ipu__field_shape(f->form) == IPU_FIELD_SHAPE_VECTOR)
        memcpy(&span, image + f->offset, sizeof span);
    else
        span = (ipu_span){image + f->offset, 1};
    return span;
}

/* Number of runs of a connected link. */
static int64_t n_runs(const ipu_graph *g, uint32_t link)
{
    return link & IPU__LIST ? g->lists.at[link & ~IPU__LIST] : 1;
}

static int64_t run_size(const ipu_graph *g, uint32_t link, int64_t i)
{
    uint32_t  view = link & IPU__LIST ? g->lists.at[(link & ~IPU__LIST) + 1 + (uint32_t)i] : link;
    ipu__view v    = ipu__view_get(&g->views, view);
    return v.n_elements;
}

/* ---- what an estimator may ask ---- */

int64_t ipu_vertex_info_n_runs(const ipu_vertex_info *v, const char *name)
{
    field f = find(v, name);
    return !f.f ? -1 : is_state(f.f) ? 1 : n_runs(v->g, f.link);
}

int64_t ipu_vertex_info_run_size(const ipu_vertex_info *v, const char *name, int64_t i)
{
    field f = find(v, name);
    if (!f.f || i < 0 || i >= ipu_vertex_info_n_runs(v, name)) return -1;
    return is_state(f.f) ? (int64_t)state_of(v->g, v->v, f.f).size : run_size(v->g, f.link, i);
}

int64_t ipu_vertex_info_size(const ipu_vertex_info *v, const char *name)
{
    int64_t n = ipu_vertex_info_n_runs(v, name), sum = n < 0 ? -1 : 0;
    for (int64_t i = 0; i < n; i++) sum += ipu_vertex_info_run_size(v, name, i);
    return sum;
}

#define READ_AS(constant, T)              \
    case constant: {                      \
        T value;                          \
        memcpy(&value, at, sizeof value); \
        return (double)value;             \
    }

static double as_double(ipu_type type, const void *at)
{
    ipu_half     half;
    ipu_bfloat16 bfloat16;
    switch (type) {
        READ_AS(IPU_BOOL, bool)
        READ_AS(IPU_INT8, int8_t)
        READ_AS(IPU_UINT8, uint8_t)
        READ_AS(IPU_INT16, int16_t)
        READ_AS(IPU_UINT16, uint16_t)
        READ_AS(IPU_INT32, int32_t)
        READ_AS(IPU_UINT32, uint32_t)
        READ_AS(IPU_INT64, int64_t)
        READ_AS(IPU_UINT64, uint64_t)
        READ_AS(IPU_FLOAT, float)
        READ_AS(IPU_DOUBLE, double)
    case IPU_HALF: memcpy(&half, at, sizeof half); return (double)ipu_half_to_float(half);
    case IPU_BFLOAT16: memcpy(&bfloat16, at, sizeof bfloat16); return (double)ipu_bfloat16_to_float(bfloat16);
    case IPU_N_TYPES: break;
    }
    return 0;
}

bool ipu_vertex_info_state(const ipu_vertex_info *v, const char *name, int64_t i, double *out)
{
    field f = find(v, name);
    if (!f.f || !is_state(f.f)) return false;
    ipu_span span = state_of(v->g, v->v, f.f);
    if (i < 0 || (size_t)i >= span.size) return false;
    *out = as_double(f.f->type, (const char *)span.data + (size_t)i * ipu_type_size(f.f->type));
    return true;
}

ipu_type ipu_vertex_info_type(const ipu_vertex_info *v, const char *name)
{
    field f = find(v, name);
    return f.f ? f.f->type : IPU_N_TYPES;
}

const char *ipu_vertex_info_codelet(const ipu_vertex_info *v) { return v->codelet->name; }

/* ---- cycles ---- */

/* Every element of every edge is loaded or stored once, a vector at a time. */
static int64_t default_cycles(const ipu__pricer *p, const ipu__vertex *v, const ipu__codelet *codelet)
{
    const ipu_graph *g = p->g;
    int64_t width = (int64_t)p->model->vector_floats * (int64_t)sizeof(float), accesses = 0, runs = 0;
    if (width < 1) width = 1;
    for (uint32_t i = 0; i < codelet->n_fields; i++) {
        const ipu_codelet_field *f = &codelet->fields[i];
        if (is_state(f)) continue;
        uint32_t link  = g->links.at[v->links + i];
        int64_t  bytes = (int64_t)ipu_type_size(f->type), n = n_runs(g, link);
        int64_t  twice = ipu__field_direction(f->form) == IPU_DIRECTION_INOUT ? 2 : 1; /* loaded and stored */
        for (int64_t r = 0; r < n; r++)
            accesses += twice * ((run_size(g, link, r) * bytes + width - 1) / width);
        if (ipu__field_shape(f->form) == IPU_FIELD_SHAPE_VECTORS) runs += n;
    }
    int64_t loop = accesses * IPU__DEFAULT_access_cycles + runs * IPU__DEFAULT_run_cycles;
    if (codelet->multi) loop = (loop + p->model->n_workers - 1) / p->model->n_workers;
    return IPU__DEFAULT_vertex_cycles + loop;
}

ipu_status ipu__vertex_cycles(ipu__pricer *p, uint32_t id, uint32_t *out)
{
    const ipu__vertex  *v       = &p->g->vertices.at[id];
    const ipu__codelet *codelet = &p->g->codelets.at[v->codelet];
    int64_t             cycles  = v->cycles;
    if (!cycles && codelet->estimator) {
        ipu_vertex_info info = {p->g, v, codelet};
        cycles               = codelet->estimator(&info, &p->cost->target, codelet->estimator_user);
        char where[IPU__WHERE_BYTES];
        if (cycles < 0)
            return ipu__fail(
                IPU_INVALID,
                "%s: the cycle estimator of codelet \"%s\" returned %lld for a vertex: expected 0 or more",
                ipu__graph_where(p->g, v->location, where), codelet->name, (long long)cycles);
    } else if (!cycles) {
        cycles                      = default_cycles(p, v, codelet);
        p->is_defaulted[v->codelet] = 1;
    }
    *out = cycles < UINT32_MAX ? (uint32_t)cycles : UINT32_MAX;
    return IPU_OK;
}

/* ---- state ---- */

static int64_t field_bytes(const ipu_graph *g, const ipu__vertex *v, const ipu_codelet_field *f,
                           uint32_t link)
{
    enum { RUN = IPU__DEFAULT_pointer_bytes + IPU__DEFAULT_length_bytes };
    int64_t size = (int64_t)ipu_type_size(f->type);
    switch (ipu__field_shape(f->form)) {
    case IPU_FIELD_SHAPE_SCALAR: return is_state(f) ? size : IPU__DEFAULT_pointer_bytes;
    case IPU_FIELD_SHAPE_POINTER: return IPU__DEFAULT_pointer_bytes;
    case IPU_FIELD_SHAPE_VECTORS: return RUN + RUN * n_runs(g, link);
    case IPU_FIELD_SHAPE_VECTOR: break;
    }
    return is_state(f) ? RUN + size * (int64_t)state_of(g, v, f).size : RUN;
}

int64_t ipu__vertex_state_bytes(const ipu_graph *g, uint32_t id)
{
    const ipu__vertex  *v       = &g->vertices.at[id];
    const ipu__codelet *codelet = &g->codelets.at[v->codelet];
    int64_t             bytes   = 0;
    for (uint32_t i = 0; i < codelet->n_fields; i++)
        bytes += field_bytes(g, v, &codelet->fields[i], g->links.at[v->links + i]);
    return IPU__DEFAULT_vertex_entry_bytes + (bytes + 3) / 4 * 4; /* words */
}
