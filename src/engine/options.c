/* Options: text that is checked when set; the environment takes precedence when they are used. */
#include "engine/options.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/host/pool.h"
#include "base/status.h"
#include "engine/engine.h"

typedef enum kind { COUNT, BOOL, WHEN, ENGINE } kind;

static const struct {
    const char *key;
    kind        kind;
    const char *value, *help;
} known[] = {
#define OPTION(key, kind, value, help) {key, kind, value, help},
#define POPLAR_FAMILY(prefix)
#include "engine/options.inc"
#undef OPTION
#undef POPLAR_FAMILY
};

static const char *const families[] = {
#define OPTION(key, kind, value, help)
#define POPLAR_FAMILY(prefix) prefix,
#include "engine/options.inc"
#undef OPTION
#undef POPLAR_FAMILY
};

enum {
    N_KNOWN     = sizeof known / sizeof *known,
    N_FAMILIES  = sizeof families / sizeof *families,
    VALUE_BYTES = 16,
    MOST        = 4096, /* of a COUNT */
};

/* For a key that is accepted but has no effect. */
typedef struct ignored {
    char *key, *value;
} ignored;

struct ipu_options {
    char values[N_KNOWN][VALUE_BYTES]; /* in canonical form */
    IPU__ARRAY(ignored) ignored;
};

/* ---- life ---- */

ipu_status ipu_options_create(ipu_options **out)
{
    ipu_options *options = *out = ipu__alloc_zeroed(sizeof *options);
    if (!options) {
        ipu__fail_memory();
        return IPU_OUT_OF_MEMORY;
    }
    for (int i = 0; i < N_KNOWN; i++) snprintf(options->values[i], VALUE_BYTES, "%s", known[i].value);
    return IPU_OK;
}

void ipu_options_destroy(ipu_options *options)
{
    if (!options) return;
    for (size_t i = 0; i < options->ignored.n; i++) {
        ipu__free(options->ignored.at[i].key);
        ipu__free(options->ignored.at[i].value);
    }
    ipu__array_fini(&options->ignored);
    ipu__free(options);
}

static ipu_status ignore(ipu_options *options, const char *key, const char *value)
{
    char *own = ipu__strdup(value);
    if (!own) return ipu__fail_memory();
    for (size_t i = 0; i < options->ignored.n; i++) {
        ignored *entry = &options->ignored.at[i];
        if (strcmp(entry->key, key) != 0) continue;
        ipu__free(entry->value);
        entry->value = own;
        return IPU_OK;
    }
    char *own_key = ipu__strdup(key);
    if (own_key && ipu__push(&options->ignored, (ignored){own_key, own})) return IPU_OK;
    ipu__free(own_key);
    ipu__free(own);
    return ipu__fail_memory();
}

ipu_status ipu__options_copy(const ipu_options *from, ipu_options **out)
{
    IPU_TRY(ipu_options_create(out));
    if (!from) return IPU_OK;
    memcpy((*out)->values, from->values, sizeof from->values);
    ipu_status status = IPU_OK;
    for (size_t i = 0; status == IPU_OK && i < from->ignored.n; i++)
        status = ignore(*out, from->ignored.at[i].key, from->ignored.at[i].value);
    if (status != IPU_OK) ipu_options_destroy(*out);
    return status;
}

/* ---- setting ---- */

static ipu_status set_count(const char *key, const char *value, char out[VALUE_BYTES])
{
    char *end;
    long  n = value[0] >= '0' && value[0] <= '9' ? strtol(value, &end, 10) : -1;
    if (n < 0 || n > MOST || *end != 0)
        return ipu__fail(IPU_INVALID, "option \"%s\": expected a whole number from 0 to %d, found \"%s\"",
                         key, MOST, value);
    snprintf(out, VALUE_BYTES, "%ld", n);
    return IPU_OK;
}

static ipu_status set_bool(const char *key, const char *value, char out[VALUE_BYTES])
{
    bool is_true = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    if (!is_true && strcmp(value, "false") != 0 && strcmp(value, "0") != 0)
        return ipu__fail(IPU_INVALID, "option \"%s\": expected true or false, found \"%s\"", key, value);
    snprintf(out, VALUE_BYTES, "%s", is_true ? "true" : "false");
    return IPU_OK;
}

/* In the order of ipu__attach_when. */
static const char *const whens[] = {"always", "onDemand", "never"};
enum { N_WHENS = sizeof whens / sizeof *whens };

static int find_when(const char *value)
{
    int i = 0;
    while (i < N_WHENS && strcmp(whens[i], value) != 0) i++;
    return i;
}

static ipu_status set_when(const char *key, const char *value, char out[VALUE_BYTES])
{
    if (find_when(value) == N_WHENS)
        return ipu__fail(IPU_INVALID, "option \"%s\": expected always, onDemand or never, found \"%s\"", key,
                         value);
    snprintf(out, VALUE_BYTES, "%s", value);
    return IPU_OK;
}

static ipu_status set_engine(const char *key, const char *value, char out[VALUE_BYTES])
{
    ipu__nearest nearest = ipu__nearest_to(value);
    for (int i = 0; ipu__engines[i]; i++) {
        ipu__nearest_try(&nearest, ipu__engines[i]->name);
        if (strcmp(ipu__engines[i]->name, value) != 0) continue;
        snprintf(out, VALUE_BYTES, "%s", value);
        return IPU_OK;
    }
    return ipu__fail(IPU_INVALID, "option \"%s\": there is no engine \"%s\"%s: `ipu help engine` lists them",
                     key, value, ipu__nearest_hint(&nearest));
}

static int find(const char *key)
{
    int i = 0;
    while (i < N_KNOWN && strcmp(known[i].key, key) != 0) i++;
    return i;
}

static bool is_poplar(const char *key)
{
    for (int i = 0; i < N_FAMILIES; i++) {
        size_t n = strlen(families[i]);
        if (strncmp(key, families[i], n) == 0 && key[n] != 0) return true;
    }
    return false;
}

ipu_status ipu_options_set(ipu_options *options, const char *key, const char *value)
{
    static ipu_status (*const setters[])(const char *, const char *, char *) = {
        [COUNT] = set_count, [BOOL] = set_bool, [WHEN] = set_when, [ENGINE] = set_engine};
    if (!key || !value)
        return ipu__fail(IPU_INVALID, "ipu_options_set: the %s is NULL", key ? "value" : "key");
    int i = find(key);
    if (i < N_KNOWN) return setters[known[i].kind](key, value, options->values[i]);
    if (is_poplar(key)) {
        ipu__log(IPU_LOG_INFO, "engine", "option \"%s\" (\"%s\") is Poplar's and has no effect here", key,
                 value);
        return ignore(options, key, value);
    }
    ipu__nearest nearest = ipu__nearest_to(key);
    for (i = 0; i < N_KNOWN; i++) ipu__nearest_try(&nearest, known[i].key);
    for (i = 0; i < N_FAMILIES; i++) ipu__nearest_try(&nearest, families[i]);
    return ipu__fail(IPU_NOT_FOUND, "there is no option \"%s\"%s", key, ipu__nearest_hint(&nearest));
}

/* ---- JSON ---- */

static ipu_status set_json_value(ipu_options *options, const char *key, const json_t *value)
{
    char text[40];
    switch (json_typeof(value)) {
    case JSON_STRING: return ipu_options_set(options, key, json_string_value(value));
    case JSON_TRUE: return ipu_options_set(options, key, "true");
    case JSON_FALSE: return ipu_options_set(options, key, "false");
    case JSON_INTEGER: snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value)); break;
    case JSON_REAL: snprintf(text, sizeof text, "%.17g", json_real_value(value)); break;
    default: return ipu__fail(IPU_INVALID, "option \"%s\": expected a string, a number, true or false", key);
    }
    return ipu_options_set(options, key, text);
}

/* `source` is the name of the text in messages. */
static ipu_status apply_json(ipu_options *options, const char *source, const char *json)
{
    json_error_t error;
    json_t      *root = json_loads(json, JSON_REJECT_DUPLICATES, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory) return ipu__fail_memory();
    if (!root)
        return ipu__fail(IPU_INVALID, "%s: no JSON at line %d, column %d: %s", source, error.line,
                         error.column, error.text);
    ipu_status  status = IPU_OK;
    const char *key;
    json_t     *value;
    if (!json_is_object(root))
        status = ipu__fail(IPU_INVALID,
                           "%s: expected a JSON object such as {\"threads\": \"2\"}, found \"%.60s\"", source,
                           json);
    else
        json_object_foreach(root, key, value)
        {
            status = set_json_value(options, key, value);
            if (status == IPU_INVALID || status == IPU_NOT_FOUND)
                ipu__fail(status, "%s: %s", source, ipu_message());
            if (status != IPU_OK) break;
        }
    json_decref(root);
    return status;
}

ipu_status ipu_options_set_json(ipu_options *options, const char *json)
{
    ipu_options *changed;
    if (!json) return ipu__fail(IPU_INVALID, "ipu_options_set_json: the text is NULL");
    IPU_TRY(ipu__options_copy(options, &changed));
    ipu_status status = apply_json(changed, "ipu_options_set_json", json);
    if (status == IPU_OK) {
        ipu_options swapped = *options;
        *options            = *changed;
        *changed            = swapped;
    }
    ipu_options_destroy(changed);
    return status;
}

/* ---- asking ---- */

const char *ipu_options_get(const ipu_options *options, const char *key)
{
    int i = find(key);
    if (i < N_KNOWN) return options->values[i];
    for (size_t k = 0; k < options->ignored.n; k++)
        if (strcmp(options->ignored.at[k].key, key) == 0) return options->ignored.at[k].value;
    return is_poplar(key) ? "" : NULL;
}

const char *ipu_options_key_at(int i, const char **value, const char **help)
{
    if (i < 0 || i >= N_KNOWN) return NULL;
    if (value) *value = known[i].value;
    if (help) *help = known[i].help;
    return known[i].key;
}

/* A shorthand for an option: IPU_CHECK=1 is {"check": "true"}. */
static ipu_status apply_variable(ipu_options *options, const char *variable, const char *key)
{
    const char *value = getenv(variable);
    if (!value || !*value) return IPU_OK;
    ipu_status status = ipu_options_set(options, key, value);
    return status == IPU_INVALID ? ipu__fail(status, "%s: %s", variable, ipu_message()) : status;
}

ipu_status ipu__options_settle(const ipu_options *options, ipu__settings *out)
{
    static const char *const variables[] = {"POPLAR_ENGINE_OPTIONS", "IPU_ENGINE_OPTIONS"};
    ipu_options             *settled;
    ipu_status               status = IPU_OK;
    IPU_TRY(ipu__options_copy(options, &settled));
    for (size_t i = 0; status == IPU_OK && i < sizeof variables / sizeof *variables; i++) {
        const char *json = getenv(variables[i]);
        if (json && *json) status = apply_json(settled, variables[i], json);
    }
    if (status == IPU_OK) status = apply_variable(settled, "IPU_CHECK", "check");
    if (status == IPU_OK) status = apply_variable(settled, "IPU_ENGINE", "engine");
    if (status == IPU_OK) {
        int threads       = atoi(ipu_options_get(settled, "threads"));
        out->threads      = threads ? threads : ipu__pool_default_threads();
        out->profile      = strcmp(ipu_options_get(settled, "profile"), "true") == 0;
        out->trust        = strcmp(ipu_options_get(settled, "load.trust"), "true") == 0;
        out->layouts      = strcmp(ipu_options_get(settled, "memory.layouts"), "true") == 0;
        out->share        = strcmp(ipu_options_get(settled, "memory.share"), "true") == 0;
        out->check        = strcmp(ipu_options_get(settled, "check"), "true") == 0;
        out->share        = out->share && !out->check;
        out->check_floats = strcmp(ipu_options_get(settled, "check.floats"), "true") == 0;
        out->estimate     = strcmp(ipu_options_get(settled, "estimate"), "true") == 0;
        out->attach       = (ipu__attach_when)find_when(ipu_options_get(settled, "device.attach"));
        out->wait_seconds = atoi(ipu_options_get(settled, "device.wait"));
        snprintf(out->engine, sizeof out->engine, "%s", ipu_options_get(settled, "engine"));
    }
    ipu_options_destroy(settled);
    return status;
}
