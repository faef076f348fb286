/* A cost as JSON, in the form of docs/profile-schema.json. */
#include <jansson.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/status.h"
#include "ipu/profile.h"

enum { VERSION = 1 };

/* Adds to an existing object or list; sets *ok to false if anything is missing. */
static void put(json_t *object, const char *key, json_t *value, bool *ok)
{
    if (json_object_set_new(object, key, value) != 0) *ok = false;
}

static void append(json_t *list, json_t *value, bool *ok)
{
    if (json_array_append_new(list, value) != 0) *ok = false;
}

/* Names may contain any bytes; JSON is UTF-8. */
static json_t *text(const char *string)
{
    json_t *value = json_string(string);
    char   *copy  = value ? NULL : ipu__strdup(string);
    if (!copy) return value;
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    value = json_string(copy);
    ipu__free(copy);
    return value;
}

static json_t *number(int64_t n) { return json_integer((json_int_t)n); }

static json_t *json_cycles(const ipu_cost_cycles *c)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "compute", (json_int_t)c->compute, "exchange",
                     (json_int_t)c->exchange, "sync", (json_int_t)c->sync, "host", (json_int_t)c->host,
                     "total", (json_int_t)c->total);
}

static json_t *json_categories(const int64_t *bytes, bool *ok)
{
    static const char *const names[] = {
#define X(name, text) #name,
        IPU_MEMORY_LIST(X)
#undef X
    };
    json_t *o = json_object();
    for (int c = 0; c < IPU_N_MEMORY_CATEGORIES; c++) {
        char name[32] = {0};
        for (size_t i = 0; names[c][i] && i + 1 < sizeof name; i++)
            name[i] = (char)(names[c][i] == '_' ? '_' : names[c][i] - 'A' + 'a');
        put(o, name, number(bytes[c]), ok);
    }
    return o;
}

static json_t *json_notes(const ipu_cost *cost, ipu_cost_notes kind, bool *ok)
{
    json_t *list = json_array();
    for (int64_t i = 0; ipu_cost_note_at(cost, kind, i); i++)
        append(list, text(ipu_cost_note_at(cost, kind, i)), ok);
    return list;
}

static json_t *json_model(const ipu_cost *cost, bool *ok)
{
    json_t      *o = json_object(), *constants = json_array();
    ipu_constant c;
    put(o, "modelled", json_notes(cost, IPU_COST_MODELLED, ok), ok);
    put(o, "not_modelled", json_notes(cost, IPU_COST_NOT_MODELLED, ok), ok);
    put(o, "not_modelled_on_this_chip", json_notes(cost, IPU_COST_UNKNOWN_ON_CHIP, ok), ok);
    put(o, "by_default", json_notes(cost, IPU_COST_BY_DEFAULT, ok), ok);
    for (int64_t i = 0; ipu_cost_constant_at(cost, i, &c); i++)
        append(constants,
               json_pack("{s:s, s:f, s:s, s:s, s:s}", "name", c.name, "value", c.value, "unit", c.unit,
                         "certainty", ipu_certainty_text(c.certainty), "source", c.source),
               ok);
    put(o, "constants", constants, ok);
    return o;
}

static json_t *json_target(const ipu_cost_summary *s)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:f}", "chip", s->chip, "ipus", (json_int_t)s->n_ipus,
                     "replication", (json_int_t)s->replication, "tiles", (json_int_t)s->n_tiles,
                     "bytes_per_tile", (json_int_t)s->bytes_per_tile, "clock_hz", s->clock_hz);
}

static json_t *json_graph(const ipu_cost_summary *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "variables", (json_int_t)s->n_variables, "compute_sets",
                     (json_int_t)s->n_compute_sets, "vertices", (json_int_t)s->n_vertices, "edges",
                     (json_int_t)s->n_edges, "programs", (json_int_t)s->n_programs);
}

/* ---- memory ---- */

static json_t *json_step_number(int64_t step) { return step < 0 ? json_null() : number(step); }

static json_t *json_overfull(const ipu_cost *cost, bool *ok)
{
    json_t           *list = json_array();
    ipu_cost_overfull o;
    for (int64_t i = 0; ipu_cost_overfull_at(cost, i, &o); i++) {
        json_t *tenants = json_array();
        for (int k = 0; k < o.n_tenants; k++) {
            json_t *tenant = json_pack("{s:I}", "bytes", (json_int_t)o.tenant_bytes[k]);
            put(tenant, "name", text(o.tenant[k]), ok);
            append(tenants, tenant, ok);
        }
        json_t *tile = json_pack("{s:I, s:I}", "tile", (json_int_t)o.tile, "over", (json_int_t)o.over);
        put(tile, "peak_step", json_step_number(o.peak_step), ok);
        put(tile, "tenants", tenants, ok);
        append(list, tile, ok);
    }
    return list;
}

static json_t *json_tiles(const ipu_cost *cost, bool *ok)
{
    json_t       *list = json_array();
    ipu_cost_tile t;
    for (int64_t i = 0; ipu_cost_tile_at(cost, i, &t); i++) {
        json_t *tile = json_categories(t.bytes, ok);
        put(tile, "total", number(t.total), ok);
        put(tile, "peak_step", json_step_number(t.peak_step), ok);
        append(list, tile, ok);
    }
    return list;
}

static json_t *json_memory(const ipu_cost *cost, const ipu_cost_summary *s, unsigned flags, bool *ok)
{
    json_t *o = json_pack("{s:I, s:I, s:f, s:I, s:I, s:I}", "total", (json_int_t)s->memory_total, "least",
                          (json_int_t)s->memory_least, "mean", (double)s->memory_total / (double)s->n_tiles,
                          "most", (json_int_t)s->memory_most, "fullest_tile", (json_int_t)s->fullest_tile,
                          "n_overfull", (json_int_t)s->n_overfull);
    put(o, "categories", json_categories(s->memory, ok), ok);
    put(o, "overfull", json_overfull(cost, ok), ok);
    if (flags & IPU_PROFILE_TILES) put(o, "tiles", json_tiles(cost, ok), ok);
    return o;
}

/* ---- execution ---- */

static json_t *json_ipus(const ipu_cost *cost, bool *ok)
{
    json_t      *list = json_array();
    ipu_cost_ipu ipu;
    for (int64_t i = 0; ipu_cost_ipu_at(cost, i, &ipu); i++)
        append(list,
               json_pack("{s:I, s:f, s:I, s:I, s:I}", "cycles", (json_int_t)ipu.cycles, "share", ipu.share,
                         "memory_total", (json_int_t)ipu.memory_total, "memory_most",
                         (json_int_t)ipu.memory_most, "fullest_tile", (json_int_t)ipu.fullest_tile),
               ok);
    return list;
}

static json_t *json_execution(const ipu_cost *cost, const ipu_cost_summary *s, bool *ok)
{
    json_t *o = json_pack("{s:I, s:f, s:f}", "while_count", (json_int_t)s->while_count, "seconds", s->seconds,
                          "balance", s->balance);
    json_t *programs = json_array();
    ipu_cost_cycles c;
    for (int64_t i = 0; ipu_cost_program_at(cost, i, &c); i++) append(programs, json_cycles(&c), ok);
    put(o, "cycles", json_cycles(&s->cycles), ok);
    put(o, "programs", programs, ok);
    put(o, "ipus", json_ipus(cost, ok), ok);
    return o;
}

static json_t *json_step(const ipu_cost_step *s, bool *ok)
{
    json_t *o = json_pack("{s:s, s:i, s:I, s:I, s:I, s:f, s:I, s:I}", "kind", s->kind, "depth", s->depth,
                          "count", (json_int_t)s->count, "vertices", (json_int_t)s->n_vertices,
                          "active_tiles", (json_int_t)s->active_tiles, "balance", s->balance, "tile_bytes",
                          (json_int_t)s->tile_bytes, "fullest_tile", (json_int_t)s->fullest_tile);
    put(o, "name", text(s->name), ok);
    put(o, "where", text(s->where), ok);
    put(o, "note", text(s->note), ok);
    put(o, "part", text(s->part), ok);
    put(o, "cycles", json_cycles(&s->cycles), ok);
    put(o, "memory", json_categories(s->memory, ok), ok);
    put(o, "exchange",
        json_pack("{s:I, s:I, s:I, s:I, s:I}", "bytes", (json_int_t)s->bytes_exchanged, "received",
                  (json_int_t)s->bytes_received, "sent", (json_int_t)s->bytes_sent, "messages",
                  (json_int_t)s->messages, "link_bytes", (json_int_t)s->link_bytes),
        ok);
    put(o, "place", json_pack("{s:I, s:I}", "program", (json_int_t)s->program, "step", (json_int_t)s->step),
        ok);
    put(o, "measured",
        s->host_runs > 0
            ? json_pack("{s:I, s:f}", "runs", (json_int_t)s->host_runs, "seconds", s->host_seconds)
            : json_null(),
        ok);
    return o;
}

static json_t *json_steps(const ipu_cost *cost, bool *ok)
{
    json_t       *list = json_array();
    ipu_cost_step s;
    for (int64_t i = 0; ipu_cost_step_at(cost, i, &s); i++) append(list, json_step(&s, ok), ok);
    return list;
}

static json_t *json_host_steps(const ipu_cost *cost, bool *ok)
{
    json_t       *list = json_array();
    ipu_step_time t;
    for (int64_t i = 0; ipu_cost_host_step_at(cost, i, &t); i++) {
        json_t *o = json_pack("{s:s, s:I, s:f}", "kind", t.kind, "runs", (json_int_t)t.runs, "seconds",
                              t.seconds);
        put(o, "name", text(t.name), ok);
        append(list, o, ok);
    }
    return list;
}

ipu_status ipu_cost_json(const ipu_cost *cost, unsigned flags, char **out)
{
    bool             ok = true;
    json_t          *o  = json_pack("{s:i, s:b}", "version", VERSION, "is_estimate", 1);
    ipu_cost_summary s;
    ipu_cost_get_summary(cost, &s);
    put(o, "model", json_model(cost, &ok), &ok);
    put(o, "target", json_target(&s), &ok);
    put(o, "graph", json_graph(&s), &ok);
    put(o, "memory", json_memory(cost, &s, flags, &ok), &ok);
    put(o, "execution", json_execution(cost, &s, &ok), &ok);
    put(o, "steps", json_steps(cost, &ok), &ok);
    put(o, "host_steps", json_host_steps(cost, &ok), &ok);
    char *dump = ok ? json_dumps(o, JSON_INDENT(1)) : NULL;
    json_decref(o);
    *out = dump ? ipu__strdup(dump) : NULL; /* memory for ipu_free */
    free(dump);
    return *out ? IPU_OK : ipu__fail_memory();
}
