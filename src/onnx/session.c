/* Sessions: executables by input shapes and by values of compile-time inputs, and outputs cut to their extents.
 *
 * Which inputs must be known is found out by importing: the importer notes them, the session imports again with
 * their values. An input that was needed once is known in all later imports. */
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "ipu/device.h"
#include "onnx/import.h"
#include "onnx/ports.h"
#include "onnx/session_cache.h"

enum {
    MOST_COMPILED = 64, /* executables kept; the one used longest ago goes */
    MANY_TURNS    = 16, /* of importing, each with an input more that decides a shape */
    MOST_TURNS    = 64,
    SMALL         = 1024 /* elements of an input */
};

typedef struct compiled {
    ipu_model         *m; /* NULL: it came from the cache, and nobody has asked for it */
    ipu_executable    *exe;
    ipu__ports         ports;
    ipu_engine        *engine;
    ipu__session_cache cache;
    bool               was_cached, has_cost;
    ipu_cost_summary   cost;
    ipu_onnx_value    *in; /* what it was compiled for: shapes of all, data of the fixed */
    bool              *fixed;
    uint64_t           used;
} compiled;

struct ipu_onnx_session {
    ipu_onnx        *file;
    ipu_onnx_options options;
    ipu_target       target;
    bool            *fixed; /* compile-time inputs found so far */
    size_t           n_in;
    IPU_ARRAY(compiled *) compiled;
    compiled *last;
    uint64_t  clock;
};

/* ---- comparing and copying inputs ---- */

static bool same_value(const ipu_onnx_value *a, const ipu_onnx_value *b, bool is_fixed)
{
    if (a->kind != b->kind) return false;
    if (a->kind == IPU_ONNX_ARRAY) {
        if (a->array.type != b->array.type || !ipu__shape_equal(&a->array.shape, &b->array.shape))
            return false;
        size_t bytes = ipu_array_bytes(&a->array);
        return !is_fixed || bytes == 0 || memcmp(a->array.data, b->array.data, bytes) == 0;
    }
    if (a->n_items != b->n_items) return false;
    for (size_t i = 0; i < a->n_items; i++)
        if (!same_value(&a->items[i], &b->items[i], is_fixed)) return false;
    return true;
}

static ipu_status copy_value(const ipu_onnx_value *from, bool with_data, ipu_onnx_value *out)
{
    *out = (ipu_onnx_value){.kind  = from->kind,
                            .array = {.type = from->array.type, .shape = from->array.shape}};
    if (from->kind == IPU_ONNX_ARRAY && with_data && from->array.data) {
        IPU_TRY(ipu_array_create(from->array.type, from->array.shape, &out->array));
        memcpy(out->array.data, from->array.data, ipu_array_bytes(&from->array));
    }
    if (from->n_items == 0) return IPU_OK;
    out->items = ipu__alloc_zeroed(from->n_items * sizeof *out->items);
    if (!out->items) return ipu__fail_memory();
    out->n_items = from->n_items;
    for (size_t i = 0; i < from->n_items; i++)
        IPU_TRY(copy_value(&from->items[i], with_data, &out->items[i]));
    return IPU_OK;
}

/* ---- making and freeing ---- */

static void free_compiled(const ipu_onnx_session *s, compiled *c)
{
    if (!c) return;
    ipu_engine_destroy(c->engine);
    ipu_executable_release(c->exe);
    ipu__ports_fini(&c->ports);
    ipu_model_destroy(c->m);
    for (size_t i = 0; c->in && i < s->n_in; i++) ipu_onnx_value_free(&c->in[i]);
    ipu__free(c->in);
    ipu__free(c->fixed);
    ipu__free(c);
}

ipu_status ipu_onnx_session_create(ipu_onnx *file, const ipu_onnx_options *options, ipu_onnx_session **out)
{
    *out                = NULL;
    ipu_onnx_session *s = ipu__alloc_zeroed(sizeof *s);
    if (!s) return ipu__fail_memory();
    s->file = file;
    if (options) s->options = *options;
    s->n_in           = ipu_onnx_n_inputs(file);
    s->fixed          = ipu__alloc_zeroed(s->n_in + 1);
    ipu_status status = s->fixed ? IPU_OK : ipu__fail_memory();
    if (s->options.target)
        s->target = *s->options.target;
    else if (status == IPU_OK)
        status = ipu_target_find(ipu_device_chip(), 1, &s->target);
    if (status != IPU_OK) {
        ipu_onnx_session_destroy(s);
        return status;
    }
    *out = s;
    return IPU_OK;
}

void ipu_onnx_session_destroy(ipu_onnx_session *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->compiled.n; i++) free_compiled(s, s->compiled.at[i]);
    ipu__array_fini(&s->compiled);
    ipu__free(s->fixed);
    ipu__free(s);
}

/* ---- compiling ---- */

/* Notes the inputs that decide shapes; all that are small once there were many turns, as each costs an import. False:
 * there are no new ones. */
static bool fix_inputs(ipu_onnx_session *s, const ipu_onnx_value *in, const bool *needed, int turn)
{
    bool any = false;
    for (size_t i = 0; i < s->n_in; i++) {
        bool is_small = in[i].kind == IPU_ONNX_ARRAY && ipu_array_n_elements(&in[i].array) <= SMALL;
        bool fixes    = needed[i] || (turn >= MANY_TURNS && is_small);
        any |= fixes && !s->fixed[i];
        s->fixed[i] |= fixes;
    }
    return any;
}

/* Again with every input that turns out to decide a shape, until none is missing. */
static ipu_status import(ipu_onnx_session *s, const ipu_onnx_value *in, ipu__imported *out)
{
    ipu_onnx_options options = s->options;
    options.inputs           = in;
    options.n_inputs         = s->n_in;
    options.fixed            = s->fixed;
    for (int turn = 0; turn < MOST_TURNS; turn++) {
        ipu_status status = ipu__onnx_import(s->file, &options, out);
        if (status == IPU_OK || !out->needed) return status;
        bool any = fix_inputs(s, in, out->needed, turn);
        ipu__imported_fini(out);
        if (!any) return status;
    }
    return ipu__fail(IPU_UNSUPPORTED, "%s: over %d inputs decide shapes, one after another", s->file->name,
                     MOST_TURNS);
}

static ipu_status check_memory(const ipu_onnx_session *s, const ipu_executable *exe)
{
    int64_t planned, unshared, most = s->options.most_bytes;
    ipu_executable_memory(exe, &planned, &unshared);
    if (most == 0 || planned <= most) return IPU_OK;
    return ipu__fail(IPU_OUT_OF_MEMORY,
                     "%s: its variables take %lld bytes, more than the %lld that are allowed "
                     "(ipu_onnx_options.most_bytes, --max-memory)",
                     s->file->name, (long long)planned, (long long)most);
}

/* Imports and compiles, with what was noted in `c->fixed` known from the first. */
static ipu_status compile(ipu_onnx_session *s, const ipu_onnx_value *in, compiled *c)
{
    ipu__imported imported;
    for (size_t i = 0; i < s->n_in; i++) s->fixed[i] |= c->fixed[i];
    IPU_TRY(import(s, in, &imported));
    memcpy(c->fixed, s->fixed, s->n_in * sizeof *c->fixed);
    ipu_status status = ipu_model_compile(imported.m, &s->target, s->options.options, &c->exe);
    if (status != IPU_OK) ipu__fail(status, "%s: %s", s->file->name, ipu_message());
    if (status == IPU_OK) status = ipu__ports_note(&imported, ipu_onnx_n_outputs(s->file), c->exe);
    if (status == IPU_OK) status = ipu__ports_read(c->exe, ipu_onnx_n_outputs(s->file), &c->ports);
    c->m       = imported.m;
    imported.m = NULL;
    ipu__imported_fini(&imported);
    return status;
}

/* The arrays of inputs that are not fixed must be those of the ports, in number and size. */
static bool ports_fit(const ipu__ports *ports, const ipu_onnx_value *v, size_t *next)
{
    if (v->kind == IPU_ONNX_ARRAY) {
        if (*next >= ports->n_inputs) return false;
        const ipu__handle *port = &ports->inputs[(*next)++];
        return port->type == v->array.type && ipu__shape_equal(&port->shape, &v->array.shape);
    }
    for (size_t i = 0; i < v->n_items; i++)
        if (!ports_fit(ports, &v->items[i], next)) return false;
    return true;
}

static ipu_status read_ports(const ipu_onnx_session *s, const ipu_onnx_value *in, compiled *c)
{
    IPU_TRY(ipu__ports_read(c->exe, ipu_onnx_n_outputs(s->file), &c->ports));
    size_t next = 0;
    bool   fit  = true;
    for (size_t i = 0; fit && i < s->n_in; i++) fit = c->fixed[i] || ports_fit(&c->ports, &in[i], &next);
    if (fit && next == c->ports.n_inputs) return IPU_OK;
    return ipu__fail(IPU_INVALID, "its inputs are not those of %s", s->file->name);
}

/* NOT_FOUND: the cache does not have it. */
static ipu_status load(ipu_onnx_session *s, const ipu_onnx_value *in, compiled *c)
{
    IPU_TRY(ipu__session_cache_open(s->file, &s->options, &s->target, in, &c->cache));
    ipu__session_cache_fixed(&c->cache, c->fixed, s->n_in);
    IPU_TRY(ipu__session_cache_load(&c->cache, &s->options, in, c->fixed, s->n_in, &c->exe));
    ipu_status status = read_ports(s, in, c);
    c->was_cached     = status == IPU_OK;
    if (status != IPU_INVALID) return status;
    ipu__log(IPU_LOG_WARN, "onnx", "an executable in the cache is made anew: %s", ipu_message());
    ipu__ports_fini(&c->ports);
    ipu_executable_release(c->exe);
    c->exe = NULL;
    return IPU_NOT_FOUND;
}

static ipu_status make(ipu_onnx_session *s, const ipu_onnx_value *in, compiled *c)
{
    c->in    = ipu__alloc_zeroed((s->n_in + 1) * sizeof *c->in);
    c->fixed = ipu__alloc_zeroed(s->n_in + 1);
    if (!c->in || !c->fixed) return ipu__fail_memory();
    ipu_status status = load(s, in, c);
    if (status == IPU_NOT_FOUND) status = compile(s, in, c);
    if (status == IPU_OK) status = check_memory(s, c->exe);
    if (status != IPU_OK) return status;
    for (size_t i = 0; i < s->n_in; i++) IPU_TRY(copy_value(&in[i], c->fixed[i], &c->in[i]));
    if (!c->was_cached) ipu__session_cache_store(&c->cache, s->file, c->in, c->fixed, s->n_in, c->exe);
    IPU_TRY(ipu_engine_create(c->exe, s->options.options, &c->engine));
    ipu__alloc_trim();
    return IPU_OK;
}

static void drop_oldest(ipu_onnx_session *s)
{
    size_t oldest = 0;
    for (size_t i = 1; i < s->compiled.n; i++)
        if (s->compiled.at[i]->used < s->compiled.at[oldest]->used) oldest = i;
    free_compiled(s, s->compiled.at[oldest]);
    s->compiled.at[oldest] = s->compiled.at[--s->compiled.n];
}

static bool fits(const ipu_onnx_session *s, const compiled *c, const ipu_onnx_value *in)
{
    for (size_t i = 0; i < s->n_in; i++)
        if (!same_value(&c->in[i], &in[i], c->fixed[i])) return false;
    return true;
}

static ipu_status find_compiled(ipu_onnx_session *s, const ipu_onnx_value *in, compiled **out)
{
    for (size_t i = 0; i < s->compiled.n; i++) {
        if (!fits(s, s->compiled.at[i], in)) continue;
        *out = s->compiled.at[i];
        return IPU_OK;
    }
    s->last = NULL;
    if (s->compiled.n == MOST_COMPILED) drop_oldest(s);
    compiled *c = ipu__alloc_zeroed(sizeof *c);
    if (!c) return ipu__fail_memory();
    ipu_status status = make(s, in, c);
    if (status == IPU_OK && !ipu__push(&s->compiled, c)) status = ipu__fail_memory();
    if (status != IPU_OK)
        free_compiled(s, c);
    else
        *out = c;
    return status;
}

/* ---- running ---- */

static ipu_status check_input(const ipu_onnx_session *s, size_t i, const ipu_onnx_value *v)
{
    ipu_onnx_port port;
    ipu_onnx_input_at(s->file, i, &port);
    if (v->kind == IPU_ONNX_NONE && port.is_optional) return IPU_OK;
    if (v->kind != port.kind)
        return ipu__fail(IPU_INVALID, "%s: input \"%s\" must be a %s", s->file->name, port.name,
                         port.kind == IPU_ONNX_SEQUENCE ? "sequence" : "tensor");
    if (s->options.wide && port.type == IPU_FLOAT) port.type = IPU_DOUBLE;
    if (v->kind != IPU_ONNX_ARRAY || !port.has_type || v->array.type == port.type) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: input \"%s\" must be %s, found %s", s->file->name, port.name,
                     ipu_type_name(port.type), ipu_type_name(v->array.type));
}

/* Other shapes than the file tells are tried, as models often work for them; when they do not, this is why. */
static ipu_status blame_shapes(const ipu_onnx_session *s, const ipu_onnx_value *in, ipu_status status)
{
    for (size_t i = 0; i < s->n_in; i++) {
        ipu_onnx_port port;
        ipu_onnx_input_at(s->file, i, &port);
        if (in[i].kind != IPU_ONNX_ARRAY || port.rank < 0) continue;
        const ipu_shape *shape      = &in[i].array.shape;
        bool             fits_shape = port.rank == shape->rank;
        for (int d = 0; fits_shape && d < port.rank; d++)
            fits_shape = port.shape.dim[d] < 0 || port.shape.dim[d] == shape->dim[d];
        char expected[200], found[200];
        if (!fits_shape)
            return ipu__fail(status, "%s (input \"%s\" should have shape %s, found %s)", ipu_message(),
                             port.name, ipu__onnx_shape_text(&port.shape, expected, sizeof expected),
                             ipu__onnx_shape_text(shape, found, sizeof found));
    }
    return status;
}

/* Writes the arrays of `v` that are inputs of the model, in the order they were made. */
static ipu_status write_input(compiled *c, const ipu_onnx_value *v, size_t *next)
{
    if (v->kind == IPU_ONNX_ARRAY) {
        const ipu__handle *port  = &c->ports.inputs[(*next)++];
        size_t             bytes = ipu_array_bytes(&v->array);
        return bytes ? ipu_engine_write(c->engine, port->name, v->array.data, bytes) : IPU_OK;
    }
    for (size_t i = 0; i < v->n_items; i++) IPU_TRY(write_input(c, &v->items[i], next));
    return IPU_OK;
}

/* The first `count` slices of dimension `dim`. */
static void cut(ipu_array *a, int dim, int64_t count)
{
    int64_t before = 1, after = (int64_t)ipu_type_size(a->type), all = a->shape.dim[dim];
    for (int i = 0; i < dim; i++) before *= a->shape.dim[i];
    for (int i = dim + 1; i < a->shape.rank; i++) after *= a->shape.dim[i];
    if (count < 0 || count >= all) return;
    for (int64_t i = 0; i < before; i++)
        memmove((char *)a->data + i * count * after, (char *)a->data + i * all * after,
                (size_t)(count * after));
    a->shape.dim[dim] = count;
}

static ipu_status read_array(compiled *c, const ipu__result *from, ipu_onnx_value *out)
{
    out->kind = IPU_ONNX_ARRAY;
    IPU_TRY(ipu_array_create(from->array.type, from->array.shape, &out->array));
    size_t bytes = ipu_array_bytes(&out->array);
    if (bytes) IPU_TRY(ipu_engine_read(c->engine, from->array.name, out->array.data, bytes));
    if (!from->count) return IPU_OK;
    int64_t count;
    IPU_TRY(ipu_engine_read(c->engine, from->count, &count, sizeof count));
    cut(&out->array, from->dim, count);
    return IPU_OK;
}

static ipu_status read_output(compiled *c, const ipu__result *from, ipu_onnx_value *out)
{
    if (from->kind == IPU_ONNX_ARRAY) return read_array(c, from, out);
    out->kind = from->kind;
    if (from->n_items == 0) return IPU_OK;
    out->items = ipu__alloc_zeroed(from->n_items * sizeof *out->items);
    if (!out->items) return ipu__fail_memory();
    out->n_items = from->n_items;
    for (size_t i = 0; i < from->n_items; i++) IPU_TRY(read_output(c, &from->items[i], &out->items[i]));
    return IPU_OK;
}

static ipu_status run(ipu_onnx_session *s, const ipu_onnx_value *in, ipu_onnx_value *out, size_t n_out)
{
    compiled *c    = NULL;
    size_t    next = 0;
    for (size_t i = 0; i < s->n_in; i++) IPU_TRY(check_input(s, i, &in[i]));
    ipu_status status = find_compiled(s, in, &c);
    if (status != IPU_OK) return blame_shapes(s, in, status);
    s->last = c;
    c->used = ++s->clock;
    for (size_t i = 0; i < s->n_in; i++)
        if (!c->fixed[i]) IPU_TRY(write_input(c, &in[i], &next));
    status = ipu_engine_run(c->engine, 0);
    if (status != IPU_OK) return ipu__fail(status, "%s: %s", s->file->name, ipu_message());
    for (size_t i = 0; i < n_out; i++) IPU_TRY(read_output(c, &c->ports.outputs[i], &out[i]));
    return IPU_OK;
}

ipu_status ipu_onnx_session_run(ipu_onnx_session *s, const ipu_onnx_value *in, size_t n_in,
                                ipu_onnx_value *out, size_t n_out)
{
    if (n_out) memset(out, 0, n_out * sizeof *out);
    if (n_in > s->n_in || n_out > ipu_onnx_n_outputs(s->file))
        return ipu__fail(IPU_INVALID, "%s has %zu inputs and %zu outputs; %zu and %zu were given",
                         s->file->name, s->n_in, ipu_onnx_n_outputs(s->file), n_in, n_out);
    ipu_onnx_value *all = ipu__alloc_zeroed((s->n_in + 1) * sizeof *all);
    if (!all) return ipu__fail_memory();
    if (n_in) memcpy(all, in, n_in * sizeof *all);
    ipu_status status = run(s, all, out, n_out);
    ipu__free(all);
    for (size_t i = 0; status != IPU_OK && i < n_out; i++) ipu_onnx_value_free(&out[i]);
    return status;
}

/* ---- what the last run used ---- */

ipu_executable *ipu_onnx_session_executable(ipu_onnx_session *s) { return s->last ? s->last->exe : NULL; }
ipu_engine     *ipu_onnx_session_engine(ipu_onnx_session *s) { return s->last ? s->last->engine : NULL; }
size_t          ipu_onnx_session_n_compiled(const ipu_onnx_session *s) { return s->compiled.n; }
bool ipu_onnx_session_was_cached(const ipu_onnx_session *s) { return s->last && s->last->was_cached; }

/* With the model of the last run, which what came from the cache does not have. */
static ipu_status need_model(ipu_onnx_session *s)
{
    compiled *c = s->last;
    if (!c) return ipu__fail(IPU_INVALID, "%s: nothing has been run", s->file->name);
    if (c->m) return IPU_OK;
    ipu_onnx_options options = s->options;
    options.inputs           = c->in;
    options.n_inputs         = s->n_in;
    options.fixed            = c->fixed;
    return ipu_onnx_import(s->file, &options, &c->m);
}

ipu_model *ipu_onnx_session_model(ipu_onnx_session *s) { return need_model(s) == IPU_OK ? s->last->m : NULL; }

static ipu_status price(ipu_onnx_session *s, ipu_cost_summary *out)
{
    ipu_cost *cost;
    IPU_TRY(need_model(s));
    IPU_TRY(ipu_model_cost(s->last->m, &s->target, NULL, &cost));
    ipu_cost_get_summary(cost, out);
    ipu_cost_destroy(cost);
    return IPU_OK;
}

ipu_status ipu_onnx_session_cost(ipu_onnx_session *s, ipu_cost_summary *out)
{
    compiled *c = s->last;
    if (!c) return ipu__fail(IPU_INVALID, "%s: nothing has been run", s->file->name);
    if (!c->has_cost && !ipu__session_cache_load_cost(&c->cache, &c->cost)) {
        IPU_TRY(price(s, &c->cost));
        ipu__session_cache_store_cost(&c->cache, &c->cost);
    }
    c->has_cost  = true;
    c->cost.chip = ipu_target_chip_name(&s->target);
    *out         = c->cost;
    return IPU_OK;
}
