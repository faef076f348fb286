/* ONNX sessions: the model of a file for inputs of some shapes and values, and outputs cut to their extents.
 *
 * Which inputs must be known is found out by importing. An input that was needed once is known in all later imports. */
#include <string.h>

#include "base/alloc.h"
#include "data/array.h"
#include "engine/executable.h"
#include "graph/graph.h"
#include "ipu/device.h"
#include "onnx/import/import.h"
#include "onnx/ports.h"
#include "onnx/session_cache.h"
#include "onnx/session_parallel.h"
#include "session/session.h"

enum { MOST_COMPILED = 64 /* executables kept, unless the options say */ };

typedef struct compiled {
    ipu__compiled      base;
    ipu_model         *m; /* NULL: it came from the cache, and nobody has asked for it */
    ipu__ports         ports;
    ipu__session_cache cache;
    ipu__streams       streams; /* of runs over several IPUs or batches */
    bool              *fixed;   /* which inputs of the file are compile-time ones */
} compiled;

struct ipu_onnx_session {
    ipu__session          base;
    ipu_onnx             *file;
    ipu_onnx_options      options;
    ipu_target            target;
    bool                 *fixed; /* compile-time inputs found so far */
    size_t                n_in;
    const ipu_onnx_value *in;    /* of the run in progress */
    ipu__arguments        asked; /* the same */
};

/* Those of the file and those that the options ask for. */
static size_t n_outputs(const ipu_onnx_session *s)
{
    return ipu_onnx_n_outputs(s->file) + s->options.n_outputs;
}

static compiled *last(const ipu_onnx_session *s) { return (compiled *)s->base.last; }

/* ---- inputs as arguments ---- */

static bool add_argument(ipu__arguments *a, const ipu_onnx_value *v, bool is_fixed)
{
    if (!ipu__reserve(&a->list, 1)) return false;
    ipu__argument *own      = &a->list.at[a->list.n++]; /* in place: this is a part of each run */
    bool           is_array = v->kind == IPU_ONNX_ARRAY;
    own->kind               = (int)v->kind;
    own->n_items            = is_array ? 0 : v->n_items;
    own->type               = is_array ? v->array.type : (ipu_type)0;
    own->shape              = is_array ? v->array.shape : (ipu_shape){0};
    own->value              = is_array ? v->array.data : NULL;
    own->is_fixed           = is_fixed;
    bool ok                 = true;
    for (size_t i = 0; !is_array && i < v->n_items; i++) ok = ok && add_argument(a, &v->items[i], is_fixed);
    return ok;
}

/* `fixed` NULL: none. */
static ipu_status list_arguments(ipu_onnx_session *s, const bool *fixed)
{
    bool ok         = true;
    s->asked.list.n = 0;
    for (size_t i = 0; i < s->n_in; i++) ok = ok && add_argument(&s->asked, &s->in[i], fixed && fixed[i]);
    return ipu__or_memory(ok);
}

/* The value that begins with argument `*next`, whose array it borrows. */
static ipu_status value_of(const ipu__arguments *a, size_t *next, ipu__arena *arena, ipu_onnx_value *out)
{
    const ipu__argument *from = &a->list.at[(*next)++];
    *out                      = (ipu_onnx_value){.kind  = (ipu_onnx_kind)from->kind,
                                                 .array = {from->type, from->shape, (void *)(uintptr_t)from->value}};
    if (from->n_items == 0) return IPU_OK;
    out->items = ipu__arena_alloc(arena, from->n_items * sizeof *out->items);
    if (!out->items) return ipu__fail_memory();
    out->n_items = from->n_items;
    for (size_t i = 0; i < from->n_items; i++) IPU_TRY(value_of(a, next, arena, &out->items[i]));
    return IPU_OK;
}

/* ---- compiling ---- */

static ipu_status fail_odd(const ipu_onnx_session *s, size_t i)
{
    ipu_onnx_port port;
    ipu_onnx_input_at(s->file, i, &port);
    return ipu__spread_fail(&s->options, port.name, &s->in[i]);
}

/* Notes the inputs that turn out to decide shapes: they are known in later imports from the first. Where inputs hold several
 * batches, such a one is not divided among them. `one`: room for the inputs of one batch. */
static ipu_status import_as(ipu_onnx_session *s, ipu_onnx_value *one, ipu__imported *out)
{
    ipu_onnx_options options = s->options;
    options.inputs           = one;
    options.n_inputs         = s->n_in;
    ipu__spread_divide(&s->options, s->in, s->fixed, s->n_in, one);
    ipu_status status = ipu__onnx_import(s->file, &options, s->in, s->fixed, out);
    size_t     odd    = ipu__spread_divide(&s->options, s->in, s->fixed, s->n_in, one);
    if (odd == SIZE_MAX) return status;
    if (status == IPU_OK) ipu__imported_fini(out);
    return fail_odd(s, odd);
}

static ipu_status import(ipu_onnx_session *s, ipu__imported *out)
{
    ipu_onnx_value *one = ipu__alloc_zeroed((s->n_in + 1) * sizeof *one);
    if (!one) return ipu__fail_memory();
    ipu_status status = import_as(s, one, out);
    ipu__free(one);
    return status;
}

/* What it is for, and so where the cache has it, as soon as compile-time inputs are known. */
static ipu_status note_arguments(ipu_onnx_session *s, compiled *c)
{
    ipu__arguments_fini(&c->base.arguments);
    IPU_TRY(list_arguments(s, c->fixed));
    return ipu__arguments_copy(&s->asked, &c->base.arguments);
}

/* Imports and compiles, with what was noted in `c->fixed` known from the first. */
static ipu_status compile(void *user, ipu__compiled *base)
{
    ipu_onnx_session *s = user;
    compiled         *c = (compiled *)base;
    ipu__imported     imported;
    for (size_t i = 0; i < s->n_in; i++) s->fixed[i] |= c->fixed[i];
    IPU_TRY(import(s, &imported));
    memcpy(c->fixed, s->fixed, s->n_in * sizeof *c->fixed);
    ipu_status status = ipu__spreads(&s->options)
                          ? ipu__spread_compile(&s->options, &s->target, &imported, n_outputs(s), &base->exe)
                          : ipu_model_compile(imported.m, &s->target, s->options.options, &base->exe);
    if (status != IPU_OK) ipu__fail(status, "%s: %s", s->file->name, ipu_message());
    if (status == IPU_OK && !ipu__spreads(&s->options))
        status = ipu__ports_note(&imported, n_outputs(s), NULL, base->exe);
    if (status == IPU_OK) status = note_arguments(s, c);
    if (status == IPU_OK) ipu__session_cache_made(&c->cache, s->file, base);
    c->m       = imported.m;
    imported.m = NULL;
    ipu__imported_fini(&imported);
    return status;
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

/* The arrays that are not fixed must be those of the ports, in number and size. */
static bool ports_fit(const ipu_onnx_options *o, const ipu__ports *ports, const ipu__arguments *a)
{
    size_t next = 0;
    for (size_t i = 0; i < a->list.n; i++) {
        const ipu__argument *v = &a->list.at[i];
        if (v->is_fixed || v->kind != IPU_ONNX_ARRAY) continue;
        if (next >= ports->n_inputs) return false;
        const ipu__handle *port = &ports->inputs[next++];
        if (port->type != v->type || !ipu__spread_fits(o, &port->shape, &v->shape)) return false;
    }
    return next == ports->n_inputs;
}

static ipu_status accept(void *user, ipu__compiled *base)
{
    const ipu_onnx_session *s = user;
    compiled               *c = (compiled *)base;
    ipu_status status = ipu__ports_read(base->exe, n_outputs(s), ipu__spread_sums(&s->options), &c->ports);
    if (status == IPU_OK && !ports_fit(&s->options, &c->ports, &base->arguments)) {
        ipu__ports_fini(&c->ports);
        status = ipu__fail(IPU_INVALID, "its inputs are not those of %s", s->file->name);
    }
    return status == IPU_OK ? check_memory(s, base->exe) : status;
}

static ipu_status need_model(ipu_onnx_session *s, compiled *c)
{
    if (c->m) return IPU_OK;
    ipu_onnx_options options = s->options;
    ipu__arena       arena   = {0};
    size_t           next    = 0;
    ipu_onnx_value  *in      = ipu__arena_alloc(&arena, (s->n_in + 1) * sizeof *in);
    ipu_status       status  = ipu__or_memory(in != NULL);
    for (size_t i = 0; i < s->n_in && status == IPU_OK; i++)
        status = value_of(&c->base.arguments, &next, &arena, &in[i]);
    if (status == IPU_OK) ipu__spread_divide(&s->options, in, c->fixed, s->n_in, in);
    options.inputs   = in;
    options.n_inputs = s->n_in;
    options.fixed    = c->fixed;
    if (status == IPU_OK) status = ipu_onnx_import(s->file, &options, &c->m);
    ipu__arena_fini(&arena);
    return status;
}

static ipu_status price(void *user, ipu__compiled *base, ipu_cost **out)
{
    ipu_onnx_session *s = user;
    compiled         *c = (compiled *)base;
    IPU_TRY(need_model(s, c));
    return ipu__spreads(&s->options) ? ipu__spread_cost(&s->options, &s->target, c->m, out)
                                     : ipu_model_cost(c->m, &s->target, NULL, out);
}

static void destroy(void *user, ipu__compiled *base)
{
    compiled *c = (compiled *)base;
    (void)user;
    ipu__streams_fini(&c->streams);
    ipu__compiled_fini(base);
    ipu__ports_fini(&c->ports);
    ipu_model_destroy(c->m);
    ipu__free(c->fixed);
    ipu__free(c);
}

static const ipu__session_def def = {compile, accept, price, destroy};

static ipu_status make(ipu_onnx_session *s, compiled *c)
{
    c->fixed = ipu__alloc_zeroed(s->n_in + 1);
    if (!c->fixed) return ipu__fail_memory();
    IPU_TRY(ipu__session_cache_open(s->file, &s->options, &s->target, &s->asked, &c->cache));
    ipu__session_cache_fixed(&c->cache, c->fixed, s->n_in);
    IPU_TRY(note_arguments(s, c));
    IPU_TRY(ipu__session_cache_key(&c->cache, &c->base));
    IPU_TRY(ipu__session_compile(&s->base, &c->base));
    if (ipu__spreads(&s->options))
        IPU_TRY(ipu__spread_list(&s->options, &c->ports, n_outputs(s), &c->streams));
    if (!c->base.was_cached) ipu__session_cache_store_fixed(&c->cache, &c->base, c->fixed, s->n_in);
    return ipu__session_keep(&s->base, &c->base);
}

static ipu_status find_compiled(ipu_onnx_session *s, compiled **out)
{
    IPU_TRY(list_arguments(s, NULL));
    *out = (compiled *)ipu__session_find(&s->base, &s->asked);
    if (*out) return IPU_OK;
    s->base.last = NULL;
    compiled *c  = ipu__alloc_zeroed(sizeof *c);
    if (!c) return ipu__fail_memory();
    ipu_status status = make(s, c);
    if (status != IPU_OK)
        destroy(s, &c->base);
    else
        *out = c;
    return status;
}

static ipu_status need_engine(ipu_onnx_session *s, compiled *c)
{
    bool is_new = !c->base.engine;
    IPU_TRY(ipu__session_start(&s->base, &c->base));
    if (is_new) ipu__alloc_trim(); /* the models it was made from are gone */
    return !ipu__spreads(&s->options) || c->streams.engine
             ? IPU_OK
             : ipu__streams_connect(&c->streams, c->base.engine);
}

/* ---- making and freeing ---- */

ipu_status ipu_onnx_session_create(ipu_onnx *file, const ipu_onnx_options *options, ipu_onnx_session **out)
{
    *out                = NULL;
    ipu_onnx_session *s = ipu__alloc_zeroed(sizeof *s);
    if (!s) return ipu__fail_memory();
    s->file = file;
    if (options) s->options = *options;
    s->base           = (ipu__session){.def       = &def,
                                       .user      = s,
                                       .options   = s->options.options,
                                       .device_id = s->options.device_id,
                                       .alone     = s->options.device_alone,
                                       .most      = s->options.most_executables ? s->options.most_executables
                                                                                : (size_t)MOST_COMPILED};
    s->n_in           = ipu_onnx_n_inputs(file);
    s->fixed          = ipu__alloc_zeroed(s->n_in + 1);
    ipu_status status = s->fixed ? IPU_OK : ipu__fail_memory();
    if (s->options.target)
        s->target = *s->options.target;
    else if (status == IPU_OK)
        status = ipu_target_find(ipu_device_chip(), 1, &s->target);
    if (status == IPU_OK) status = ipu__spread_target(&s->options, &s->target);
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
    ipu__session_fini(&s->base);
    ipu__arguments_fini(&s->asked);
    ipu__free(s->fixed);
    ipu__free(s);
}

/* ---- running ---- */

/* Only what has no elements may do without data: of others what was left of the run before would be taken. */
static ipu_status check_data(const ipu_onnx_session *s, const char *name, const ipu_onnx_value *v)
{
    const ipu_array *a = &v->array;
    size_t           bytes;
    bool             is_array = v->kind == IPU_ONNX_ARRAY;
    for (size_t i = 0; !is_array && i < v->n_items; i++) IPU_TRY(check_data(s, name, &v->items[i]));
    if (!is_array) return IPU_OK;
    ipu_status status = ipu__array_size(a->type, &a->shape, &bytes);
    if (status != IPU_OK)
        return ipu__fail(status, "%s: input \"%s\": %s", s->file->name, name, ipu_message());
    if (bytes == 0 || a->data) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: input \"%s\": expected %zu bytes of data for %s%s, found none (NULL)",
                     s->file->name, name, bytes, ipu_type_name(a->type), ipu__shape_str(&a->shape));
}

static ipu_status check_input(const ipu_onnx_session *s, size_t i, const ipu_onnx_value *v)
{
    ipu_onnx_port port;
    ipu_onnx_input_at(s->file, i, &port);
    if (v->kind == IPU_ONNX_NONE && port.is_optional) return IPU_OK;
    if (v->kind != port.kind)
        return ipu__fail(IPU_INVALID, "%s: input \"%s\" must be a %s", s->file->name, port.name,
                         port.kind == IPU_ONNX_SEQUENCE ? "sequence" : "tensor");
    if (s->options.wide && port.type == IPU_FLOAT) port.type = IPU_DOUBLE;
    if (v->kind == IPU_ONNX_ARRAY && port.has_type && v->array.type != port.type)
        return ipu__fail(IPU_INVALID, "%s: input \"%s\" must be %s, found %s", s->file->name, port.name,
                         ipu_type_name(port.type), ipu_type_name(v->array.type));
    return check_data(s, port.name, v);
}

/* Other shapes than the file tells are tried, as models often work for them; when they do not, this is why. */
static ipu_status blame_shapes(const ipu_onnx_session *s, const ipu_onnx_value *in, ipu_status status)
{
    for (size_t i = 0; i < s->n_in; i++) {
        ipu_onnx_port port;
        ipu_onnx_input_at(s->file, i, &port);
        if (in[i].kind != IPU_ONNX_ARRAY || port.rank < 0) continue;
        const ipu_shape *shape = &in[i].array.shape;
        if (port.rank > 0 && port.shape.dim[0] >= 0 && !s->fixed[i])
            port.shape.dim[0] *= ipu__spread_batches(&s->options);
        bool fits_shape = port.rank == shape->rank;
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
        return bytes ? ipu_engine_write(c->base.engine, port->name, v->array.data, bytes) : IPU_OK;
    }
    for (size_t i = 0; i < v->n_items; i++) IPU_TRY(write_input(c, &v->items[i], next));
    return IPU_OK;
}

static ipu_status read_array(compiled *c, const ipu__result *from, ipu_onnx_value *out)
{
    out->kind = IPU_ONNX_ARRAY;
    IPU_TRY(ipu_array_create(from->array.type, from->array.shape, &out->array));
    size_t bytes = ipu_array_bytes(&out->array);
    if (bytes) IPU_TRY(ipu_engine_read(c->base.engine, from->array.name, out->array.data, bytes));
    if (!from->count) return IPU_OK;
    int64_t count;
    IPU_TRY(ipu_engine_read(c->base.engine, from->count, &count, sizeof count));
    ipu__ports_cut(&out->array, from->dim, count);
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

static ipu_status run_plain(ipu_onnx_session *s, compiled *c, ipu_onnx_value *out, size_t n_out)
{
    size_t next = 0;
    for (size_t i = 0; i < s->n_in; i++)
        if (!c->fixed[i]) IPU_TRY(write_input(c, &s->in[i], &next));
    IPU_TRY(ipu_engine_run(c->base.engine, 0));
    for (size_t i = 0; i < n_out; i++) IPU_TRY(read_output(c, &c->ports.outputs[i], &out[i]));
    return IPU_OK;
}

static ipu_status run(ipu_onnx_session *s, ipu_onnx_value *out, size_t n_out)
{
    compiled *c = NULL;
    for (size_t i = 0; i < s->n_in; i++) IPU_TRY(check_input(s, i, &s->in[i]));
    ipu_status status = find_compiled(s, &c);
    if (status == IPU_OK) status = need_engine(s, c);
    if (status != IPU_OK) return blame_shapes(s, s->in, status);
    if (ipu__spreads(&s->options))
        status = ipu__spread_run(&c->streams, &c->ports, s->in, c->fixed, s->n_in, out, n_out);
    else
        status = run_plain(s, c, out, n_out);
    ipu__session_has_run(&s->base);
    return status == IPU_OK ? status : ipu__fail(status, "%s: %s", s->file->name, ipu_message());
}

ipu_status ipu_onnx_session_run(ipu_onnx_session *s, const ipu_onnx_value *in, size_t n_in,
                                ipu_onnx_value *out, size_t n_out)
{
    if (n_out) memset(out, 0, n_out * sizeof *out);
    if (n_in > s->n_in || n_out > n_outputs(s))
        return ipu__fail(IPU_INVALID, "%s has %zu inputs and %zu outputs; %zu and %zu were given",
                         s->file->name, s->n_in, n_outputs(s), n_in, n_out);
    ipu_onnx_value *all = ipu__alloc_zeroed((s->n_in + 1) * sizeof *all);
    if (!all) return ipu__fail_memory();
    if (n_in) memcpy(all, in, n_in * sizeof *all);
    s->in             = all;
    ipu_status status = run(s, out, n_out);
    s->in             = NULL;
    ipu__free(all);
    for (size_t i = 0; status != IPU_OK && i < n_out; i++) ipu_onnx_value_free(&out[i]);
    return status;
}

static ipu_status fail_never_run(const ipu_onnx_session *s)
{
    return ipu__fail(IPU_INVALID, "%s: nothing has been run", s->file->name);
}

/* ---- device ---- */

ipu_status ipu_onnx_session_attach(ipu_onnx_session *s)
{
    if (s->base.compiled.n == 0) return fail_never_run(s);
    if (last(s)) IPU_TRY(need_engine(s, last(s)));
    return ipu__session_attach(&s->base);
}

ipu_status ipu_onnx_session_detach(ipu_onnx_session *s)
{
    if (!ipu_onnx_session_is_attached(s))
        return ipu__fail(IPU_INVALID, "%s: the session is not attached to a device", s->file->name);
    return ipu__session_detach(&s->base);
}

bool ipu_onnx_session_is_attached(const ipu_onnx_session *s) { return ipu__session_is_attached(&s->base); }

/* ---- what the last run used ---- */

ipu_executable *ipu_onnx_session_executable(ipu_onnx_session *s)
{
    return s->base.last ? s->base.last->exe : NULL;
}

ipu_engine *ipu_onnx_session_engine(ipu_onnx_session *s)
{
    return s->base.last ? s->base.last->engine : NULL;
}

size_t ipu_onnx_session_n_compiled(const ipu_onnx_session *s) { return s->base.compiled.n; }

bool ipu_onnx_session_was_cached(const ipu_onnx_session *s)
{
    return s->base.last && s->base.last->was_cached;
}

ipu_model *ipu_onnx_session_model(ipu_onnx_session *s)
{
    ipu_status status = last(s) ? need_model(s, last(s)) : fail_never_run(s);
    return status == IPU_OK ? last(s)->m : NULL;
}

ipu_status ipu_onnx_session_price(ipu_onnx_session *s, ipu_cost **out)
{
    *out = NULL;
    return last(s) ? price(s, s->base.last, out) : fail_never_run(s);
}

ipu_status ipu_onnx_session_cost(ipu_onnx_session *s, ipu_cost_summary *out)
{
    if (!last(s)) return fail_never_run(s);
    IPU_TRY(ipu__session_price(&s->base, s->base.last));
    *out      = s->base.last->cost;
    out->chip = ipu_target_chip_name(&s->target);
    return IPU_OK;
}
