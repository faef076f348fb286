/* Prometheus metrics from a sample: a family per row of metrics.inc, a line per object. */
#include "monitor/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef enum metric_type { GAUGE, COUNTER, INFO, UNKNOWN } metric_type;
typedef enum metric_value { NUMBER, PRESENT, STATE, OF_PARTITION, ONE } metric_value;
typedef enum metric_of { PARTITIONS, IPUS, PROCESSES, ALERTS, MONITOR, N_LISTS } metric_of;

/* A label and the key of its value. A list ends with a NULL label. */
typedef struct metric_label {
    const char *name, *key;
} metric_label;

static const metric_label labels_NONE[] = {{NULL, NULL}};
static const metric_label labels_IPU[]  = {
     {"owner", "owner"}, {"partition", "partition"}, {"gcd", "gcd"}, {"ipu", "index"}, {NULL, NULL}};
static const metric_label labels_BOARD[]     = {{"owner", "owner"}, {"partition", "partition"},
                                                {"gcd", "gcd"},     {"machine", "machine"},
                                                {"type", "type"},   {"board", "board"},
                                                {NULL, NULL}};
static const metric_label labels_PARTITION[] = {
    {"owner", "owner"}, {"partition", "name"}, {"gcd", "gcd"}, {NULL, NULL}};
static const metric_label labels_PARTITION_KIND[] = {{"owner", "owner"},
                                                     {"partition", "name"},
                                                     {"gcd", "gcd"},
                                                     {"chip", "chip"},
                                                     {"architecture", "architecture"},
                                                     {"active", "active"},
                                                     {"elastic", "elastic"},
                                                     {"reconfigurable", "reconfigurable"},
                                                     {NULL, NULL}};
static const metric_label labels_PROCESS[]        = {{"owner", "owner"},     {"partition", "partition"},
                                                     {"gcd", "gcd"},         {"device", "device"},
                                                     {"pid", "pid"},         {"user", "user"},
                                                     {"command", "command"}, {NULL, NULL}};
static const metric_label labels_ALERT[] = {{"alert", "alert"}, {"subject", "subject"}, {NULL, NULL}};
static const metric_label labels_BUILD[] = {{"version", "version"}, {NULL, NULL}};

typedef struct metric {
    metric_of           of;
    const char         *name;
    metric_type         type;
    const char         *unit;
    const metric_label *labels;
    metric_value        value;
    const char         *key, *help;
} metric;

static const metric metrics[] = {
#define METRIC(of, name, type, unit, labels, value, key, help) \
    {of, name, type, unit, labels_##labels, value, key, help},
#include "monitor/metrics.inc"
#undef METRIC
};

static const char *const list_keys[N_LISTS] = {"partitions", "ipus", "processes", "alerts", NULL};

/* ---- content negotiation ---- */

/* Prometheus asks with several types and weights, its favourite first; curl and browsers never name
 * OpenMetrics. So naming it suffices, ignoring "q=0", which nobody sends. */
metrics_form metrics_negotiate(const char *accept)
{
    static const char type[] = "application/openmetrics-text";
    for (const char *at = accept; at && *at; at += strcspn(at, ","), at += *at == ',') {
        at += strspn(at, " \t");
        if (strncasecmp(at, type, sizeof type - 1) != 0) continue;
        char rest[128];
        snprintf(rest, sizeof rest, "%.*s", (int)strcspn(at, ","), at);
        const char *version = strcasestr(rest, "version=");
        if (version && strncmp(version + 8 + (version[8] == '"'), "1.0.0", 5) != 0) continue;
        return METRICS_OPENMETRICS;
    }
    return METRICS_PROMETHEUS;
}

const char *metrics_content_type(metrics_form form)
{
    return form == METRICS_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                       : "text/plain; version=0.0.4; charset=utf-8";
}

/* ---- text ---- */

static void put_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '\\' || *text == '"')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

/* IPUs beyond those that a partition shows have no id, and a process may hold several lots of them: the time
 * it got them tells those apart. */
static void put_label_value(FILE *out, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_string(value))
        put_escaped(out, json_string_value(value));
    else if (json_is_integer(value))
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "true" : "false", out);
    else if (!strcmp(key, "device"))
        fprintf(out, "own@%.6f", json_number_value(json_object_get(object, "since")));
}

static void put_labels(FILE *out, const metric_label *labels, const json_t *object)
{
    for (const metric_label *l = labels; l->name; l++) {
        fprintf(out, "%s%s=\"", l == labels ? "{" : ",", l->name);
        put_label_value(out, object, l->key);
        fputc('"', out);
    }
    if (labels->name) fputc('}', out);
}

static void put_number(FILE *out, const json_t *value)
{
    if (json_is_integer(value))
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        fprintf(out, "%.15g", json_number_value(value));
}

/* Counters and infos have a suffix on every line; in the older format also on the HELP and TYPE lines. */
static void put_name(FILE *out, const metric *m, bool ending)
{
    fputs(m->name, out);
    if (ending && m->type == COUNTER) fputs("_total", out);
    if (ending && m->type == INFO) fputs("_info", out);
}

static void put_about(FILE *out, const metric *m, metrics_form form)
{
    static const char *const types[][2] = {
        [GAUGE]   = {"gauge", "gauge"},
        [COUNTER] = {"counter", "counter"},
        [INFO]    = {"gauge", "info"},
        [UNKNOWN] = {"untyped", "unknown"},
    };
    bool ending = form == METRICS_PROMETHEUS;
    fputs("# HELP ", out);
    put_name(out, m, ending);
    fprintf(out, " %s\n# TYPE ", m->help);
    put_name(out, m, ending);
    fprintf(out, " %s\n", types[m->type][form]);
    if (form == METRICS_OPENMETRICS && m->unit) fprintf(out, "# UNIT %s %s\n", m->name, m->unit);
}

/* ---- values ---- */

static bool same(const json_t *a, const char *key_a, const json_t *b, const char *key_b)
{
    return json_equal(json_object_get(a, key_a), json_object_get(b, key_b));
}

static const json_t *partition_of(const json_t *sample, const json_t *object)
{
    const json_t *p;
    size_t        i;
    json_array_foreach(json_object_get(sample, "partitions"), i, p)
    {
        if (same(p, "name", object, "partition") && same(p, "gcd", object, "gcd")
            && same(p, "owner", object, "owner"))
            return p;
    }
    return NULL;
}

static bool put_value(FILE *out, const metric *m, const json_t *sample, const json_t *object)
{
    const json_t *from  = m->value == OF_PARTITION ? partition_of(sample, object) : object;
    const json_t *value = m->key ? json_object_get(from, m->key) : NULL;
    const char   *state = json_string_value(value);
    fputc(' ', out);
    switch (m->value) {
    case ONE: fputc('1', out); break;
    case PRESENT: fputc('0' + (value && !json_is_null(value)), out); break;
    case STATE:
        if (!state) return false;
        fputc(!strcmp(state, "firing") ? '2' : !strcmp(state, "pending") ? '1' : '0', out);
        break;
    case NUMBER:
    case OF_PARTITION:
        if (!json_is_number(value)) return false;
        put_number(out, value);
        break;
    }
    fputc('\n', out);
    return true;
}

/* ---- lines ---- */

/* Each line is built separately, so that one without a value, or with the same labels as another, can be left
 * out. */
typedef struct line {
    FILE  *file;
    char  *text;
    size_t size;
} line;

/* `seen` holds the names and labels of the family's lines so far. Returns false if out of memory. */
static bool put_line(FILE *out, line *l, const metric *m, const json_t *sample, const json_t *object,
                     json_t *seen)
{
    rewind(l->file);
    put_name(l->file, m, true);
    put_labels(l->file, m->labels, object);
    if (fflush(l->file) != 0) return false;
    size_t identity = (size_t)ftello(l->file);
    bool   known    = put_value(l->file, m, sample, object);
    if (fflush(l->file) != 0) return false;
    size_t size = (size_t)ftello(l->file);
    if (!known) return true;
    char *name = strndup(l->text, identity);
    if (!name) return false;
    bool twice = json_object_get(seen, name);
    bool set   = twice || json_object_set_new(seen, name, json_true()) == 0;
    free(name);
    if (!twice) fwrite(l->text, 1, size, out);
    return set;
}

static bool put_metric(FILE *out, line *l, const metric *m, const json_t *lists[], const json_t *sample,
                       metrics_form form)
{
    json_t       *seen = json_object();
    bool          done = seen != NULL;
    const json_t *object;
    size_t        i;
    put_about(out, m, form);
    json_array_foreach(lists[m->of], i, object) { done = done && put_line(out, l, m, sample, object, seen); }
    json_decref(seen);
    return done;
}

static bool put_all(FILE *out, const json_t *sample, const json_t *monitor, metrics_form form)
{
    const json_t *lists[N_LISTS];
    line          l = {0};
    l.file          = open_memstream(&l.text, &l.size);
    bool done       = l.file != NULL;
    for (int i = 0; i < N_LISTS; i++)
        lists[i] = list_keys[i] ? json_object_get(sample, list_keys[i]) : monitor;
    for (size_t i = 0; done && i < sizeof metrics / sizeof *metrics; i++)
        done = put_metric(out, &l, &metrics[i], lists, sample, form);
    if (form == METRICS_OPENMETRICS) fputs("# EOF\n", out);
    if (l.file) fclose(l.file);
    free(l.text);
    return done;
}

/* The monitor as a list of one object, so that its rows work like the others. */
static json_t *describe_monitor(const json_t *sample, const metrics_monitor *self)
{
    return json_pack("[{s:s, s:i, s:I, s:I, s:f, s:f, s:I, s:f}]", "version", self->version, "up",
                     json_is_null(json_object_get(sample, "problem")), "looks", (json_int_t)self->looks,
                     "failures", (json_int_t)self->failures, "look_seconds", self->look_seconds, "time",
                     json_number_value(json_object_get(sample, "time")), "scrapes", (json_int_t)self->scrapes,
                     "scrape_seconds", self->scrape_seconds);
}

char *metrics_write(const json_t *sample, const metrics_monitor *self, metrics_form form, size_t *size)
{
    char   *text    = NULL;
    json_t *monitor = describe_monitor(sample, self);
    FILE   *out     = monitor ? open_memstream(&text, size) : NULL;
    bool    done    = out && put_all(out, sample, monitor, form);
    if (out && fclose(out) != 0) done = false;
    json_decref(monitor);
    if (done) return text;
    free(text);
    return NULL;
}
