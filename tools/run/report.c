/* The report of `ipu run`, as text and as JSON. */
#include "run/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harmless.h"
#include "graph/kernels.h"
#include "output.h"

enum { N_SHOWN = 8, COLUMN = 10 };

/* ---- arrays ---- */

typedef struct statistics {
    double  least, most, mean; /* of finite elements; NaN if there are none */
    int64_t n_strange;         /* NaNs and infinities */
} statistics;

static statistics summarise(const ipu_array *a)
{
    statistics s   = {INFINITY, -INFINITY, 0, 0};
    int64_t    n   = ipu_array_n_elements(a);
    double     sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = ipu_array_value(a, i);
        if (!isfinite(x)) {
            s.n_strange++;
            continue;
        }
        s.least = fmin(s.least, x);
        s.most  = fmax(s.most, x);
        sum += x;
    }
    s.mean = n > s.n_strange ? sum / (double)(n - s.n_strange) : NAN;
    if (n == s.n_strange) s.least = s.most = NAN;
    return s;
}

void run_element_text(const ipu_array *a, int64_t i, char *out, size_t size)
{
    if (a->type == IPU_INT64)
        snprintf(out, size, "%lld", (long long)((const int64_t *)a->data)[i]);
    else if (a->type == IPU_UINT64)
        snprintf(out, size, "%llu", (unsigned long long)((const uint64_t *)a->data)[i]);
    else if (a->type == IPU_BOOL)
        snprintf(out, size, "%s", ipu_array_value(a, i) ? "true" : "false");
    else if (a->type == IPU_INT32 || a->type == IPU_UINT32)
        snprintf(out, size, "%.0f", ipu_array_value(a, i));
    else
        snprintf(out, size, "%.6g", ipu_array_value(a, i));
}

void run_index_text(const ipu_shape *shape, int64_t i, char *out, size_t size)
{
    ipu_shape place = {.rank = shape->rank};
    for (int d = shape->rank - 1; d >= 0; d--) {
        place.dim[d] = i % shape->dim[d];
        i /= shape->dim[d];
    }
    ipu_shape_text(&place, out, size);
}

static void shape_text(const ipu_array *a, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s", ipu_type_name(a->type));
    if (a->shape.rank > 0 && n < size) ipu_shape_text(&a->shape, out + n, size - n);
}

static void print_array(const ipu_array *a)
{
    int64_t    n = ipu_array_n_elements(a);
    statistics s = summarise(a);
    char       text[64];
    if (n > s.n_strange && n > 1)
        printf("%*sleast %.6g, most %.6g, mean %.6g", COLUMN, "", s.least, s.most, s.mean);
    if (s.n_strange)
        printf("%*s%lld not finite", n > s.n_strange && n > 1 ? 2 : COLUMN, "", (long long)s.n_strange);
    if ((n > s.n_strange && n > 1) || s.n_strange) putchar('\n');
    if (n == 0) return;
    printf("%*s", COLUMN - 1, "");
    for (int64_t i = 0; i < n && i < N_SHOWN; i++) {
        run_element_text(a, i, text, sizeof text);
        printf(" %s", text);
    }
    puts(n > N_SHOWN ? " ..." : "");
}

/* Prints one line of summary, then details. */
static void print_value(const char *title, const char *name, const ipu_onnx_value *v, const char *note,
                        bool in_full)
{
    char text[256] = "nothing";
    if (v->kind == IPU_ONNX_ARRAY) shape_text(&v->array, text, sizeof text);
    if (v->kind == IPU_ONNX_SEQUENCE) snprintf(text, sizeof text, "sequence of %zu", v->n_items);
    printf("%-*s%s  %s%s%s\n", COLUMN, title, harmless(name), text, *note ? "  " : "", note);
    if (!in_full) return;
    if (v->kind == IPU_ONNX_ARRAY) print_array(&v->array);
    for (size_t i = 0; v->kind == IPU_ONNX_SEQUENCE && i < v->n_items; i++) {
        char item[32];
        snprintf(item, sizeof item, "[%zu]", i);
        print_value("", item, &v->items[i], "", true);
    }
}

static const char *input_note(const run_result *r, size_t i)
{
    if (r->in->files[i]) return r->in->files[i];
    return r->in->values[i].kind == IPU_ONNX_NONE ? "left out" : "random";
}

/* ---- text ---- */

static void print_cost(const ipu_cost_summary *s)
{
    char time[32], used[32], room[32];
    tool_format(s->seconds, "s", time, sizeof time);
    tool_format((double)s->memory_most, "B", used, sizeof used);
    tool_format((double)s->bytes_per_tile, "B", room, sizeof room);
    printf("%-*s%s: %lld cycles (compute %lld, exchange %lld, sync %lld, host %lld), modelled\n", COLUMN,
           s->chip, time, (long long)s->cycles.total, (long long)s->cycles.compute,
           (long long)s->cycles.exchange, (long long)s->cycles.sync, (long long)s->cycles.host);
    printf("%*s%s of %s on the fullest tile: ", COLUMN, "", used, room);
    if (s->n_overfull == 0)
        puts("it fits");
    else
        printf("it does not fit, %lld of %lld tiles are over-full\n", (long long)s->n_overfull,
               (long long)s->n_tiles);
}

static bool is_anchor(const run_result *r, size_t i) { return i >= r->file->n_outputs - r->file->n_anchors; }

void run_print(const run_result *r)
{
    char median[32], least[32], first[32];
    for (size_t i = 0; i < r->in->n; i++)
        print_value("input", r->file->inputs[i].name, &r->in->values[i], input_note(r, i), false);
    for (size_t i = 0; i < r->file->n_outputs; i++)
        print_value(is_anchor(r, i) ? "anchor" : "output", r->file->outputs[i].name, &r->out[i], "", true);
    tool_format(r->median, "s", median, sizeof median);
    tool_format(r->least, "s", least, sizeof least);
    tool_format(r->first, "s", first, sizeof first);
    printf("%-*s%s per run", COLUMN, "host", median);
    if (r->n_timed > 1) printf(" (median of %lld; least %s)", (long long)r->n_timed, least);
    printf(", %d thread%s; %s %s\n", r->threads, r->threads == 1 ? "" : "s",
           r->was_cached ? "compiled before; first run" : "compilation and first run", first);
    run_ipus_print(r->ipus);
    print_cost(&r->cost);
}

/* ---- JSON ---- */

static json_t *json_element(const ipu_array *a, int64_t i)
{
    if (a->type == IPU_INT64) return json_integer(((const int64_t *)a->data)[i]);
    if (a->type == IPU_BOOL) return json_boolean(ipu_array_value(a, i) != 0);
    return tool_json_finite(ipu_array_value(a, i));
}

static json_t *json_array_value(const ipu_array *a)
{
    statistics s      = summarise(a);
    json_t    *first  = json_array();
    bool       failed = !first;
    for (int64_t i = 0; i < ipu_array_n_elements(a) && i < N_SHOWN; i++)
        failed |= json_array_append_new(first, json_element(a, i)) != 0;
    if (!failed)
        return json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:o}", "type", ipu_type_name(a->type), "shape",
                         tool_json_shape(&a->shape), "least", tool_json_finite(s.least), "most",
                         tool_json_finite(s.most), "mean", tool_json_finite(s.mean), "not_finite",
                         (json_int_t)s.n_strange, "first", first);
    json_decref(first);
    return NULL;
}

static json_t *json_value(const ipu_onnx_value *v)
{
    if (v->kind == IPU_ONNX_ARRAY) return json_array_value(&v->array);
    if (v->kind == IPU_ONNX_NONE) return json_object();
    json_t *items  = json_array();
    bool    failed = !items;
    for (size_t i = 0; i < v->n_items; i++)
        failed |= json_array_append_new(items, json_value(&v->items[i])) != 0;
    if (!failed) return json_pack("{s:o}", "items", items);
    json_decref(items);
    return NULL;
}

/* A value with its name; `file` is NULL unless it is an input from a file. */
static json_t *json_named(const char *name, const ipu_onnx_value *v, const char *file, bool is_random)
{
    json_t *value = json_value(v);
    bool    ok    = value && json_object_set_new(value, "name", tool_json_text(name)) == 0;
    if (file) ok = ok && json_object_set_new(value, "file", tool_json_text(file)) == 0;
    if (is_random) ok = ok && json_object_set_new(value, "random", json_true()) == 0;
    if (ok) return value;
    json_decref(value);
    return NULL;
}

static json_t *json_inputs(const run_result *r)
{
    json_t *list   = json_array();
    bool    failed = !list;
    for (size_t i = 0; i < r->in->n; i++) {
        const ipu_onnx_value *v    = &r->in->values[i];
        const char           *file = r->in->files[i];
        failed |= json_array_append_new(list, json_named(r->file->inputs[i].name, v, file,
                                                         !file && v->kind != IPU_ONNX_NONE))
               != 0;
    }
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

static json_t *json_output(const run_result *r, size_t i)
{
    json_t *value = json_named(r->file->outputs[i].name, &r->out[i], NULL, false);
    if (value && (!is_anchor(r, i) || json_object_set_new(value, "anchor", json_true()) == 0)) return value;
    json_decref(value);
    return NULL;
}

static json_t *json_outputs(const run_result *r)
{
    json_t *list   = json_array();
    bool    failed = !list;
    for (size_t i = 0; i < r->file->n_outputs; i++)
        failed |= json_array_append_new(list, json_output(r, i)) != 0;
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

static json_t *json_cost(const ipu_cost_summary *s)
{
    json_t *cycles = json_pack("{s:I, s:I, s:I, s:I, s:I}", "compute", (json_int_t)s->cycles.compute,
                               "exchange", (json_int_t)s->cycles.exchange, "sync", (json_int_t)s->cycles.sync,
                               "host", (json_int_t)s->cycles.host, "total", (json_int_t)s->cycles.total);
    return json_pack("{s:s, s:I, s:o, s:f, s:f, s:I, s:I, s:I, s:b}", "chip", s->chip, "ipus",
                     (json_int_t)s->n_ipus, "cycles", cycles, "seconds", s->seconds, "operations",
                     s->operations, "bytes_per_tile", (json_int_t)s->bytes_per_tile, "fullest_tile_bytes",
                     (json_int_t)s->memory_most, "overfull_tiles", (json_int_t)s->n_overfull, "fits",
                     (int)(s->n_overfull == 0));
}

json_t *run_json(const run_result *r)
{
    json_t *host = json_pack("{s:f, s:f, s:f, s:I, s:i}", "median", r->median, "least", r->least, "first",
                             r->first, "runs", (json_int_t)r->n_timed, "threads", r->threads);
    json_t *all  = json_pack("{s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "model", tool_json_text(r->file->path),
                             "inputs", json_inputs(r), "outputs", json_outputs(r), "compiled_before",
                             (int)r->was_cached, "seconds", host, "ipus", run_ipus_json(r->ipus), "modelled",
                             json_cost(&r->cost));
    if (all && r->engine && json_object_set_new(all, "host", kernels_json(r->engine)) != 0) {
        json_decref(all);
        return NULL;
    }
    return all;
}
