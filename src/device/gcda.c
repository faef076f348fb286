/* GCDA_OPTIONS, a JSON object, and the separate variables that exist for some of its keys. */
#include "device/gcda.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/status.h"

static const char *const names[] = {
    /* These have an effect ... */
    "monitorUtilisation", "simulateSOCError.errorList", "simulateSOCError.triggerCount",
    "simulateSOCError.rearmOnReset",
    /* ... and these concern hardware that does not exist here. */
    "configFile", "discoverUSBDevices", "enableMonitoring", "forceHSPPosted"};
enum { N_NAMES = sizeof names / sizeof *names, UTILISATION = 0, ERRORS, TRIGGER, REARM, VALUE_BYTES = 128 };

static ipu_status wrong(const char *key, const char *expected, const char *value)
{
    return ipu__fail(IPU_INVALID, "GCDA_OPTIONS: key \"%s\": expected %s, found \"%s\": correct or unset it",
                     key, expected, value);
}

static ipu_status set_bool(const char *key, const char *value, bool *out)
{
    *out = strcmp(value, "true") == 0;
    return *out || strcmp(value, "false") == 0 ? IPU_OK : wrong(key, "true or false", value);
}

static ipu_status set_errors(const char *key, const char *value, ipu__gcda *out)
{
    size_t n = strlen(value);
    if (n == 0 || n >= sizeof out->errors || strspn(value, IPU__ERROR_LETTERS) != n || *value == ','
        || value[n - 1] == ',' || strstr(value, ",,"))
        return wrong(key,
                     "names in capitals, with commas between, of at most 63 letters in all, as IPUSOFTERR",
                     value);
    memcpy(out->errors, value, n + 1);
    return IPU_OK;
}

static ipu_status set_trigger(const char *key, const char *value, ipu__gcda *out)
{
    char *end    = NULL;
    out->trigger = *value >= '1' && *value <= '9' && strlen(value) < 19 ? strtoll(value, &end, 10) : 0;
    return out->trigger > 0 && !*end ? IPU_OK : wrong(key, "a whole number from 1", value);
}

static ipu_status set(const char *key, const char *value, ipu__gcda *out)
{
    int i = 0;
    while (i < N_NAMES && strcmp(names[i], key) != 0) i++;
    switch (i) {
    case UTILISATION: return set_bool(key, value, &out->measures);
    case ERRORS: return set_errors(key, value, out);
    case TRIGGER: return set_trigger(key, value, out);
    case REARM: return set_bool(key, value, &out->rearms);
    case N_NAMES: break;
    default: return IPU_OK;
    }
    ipu__nearest nearest = ipu__nearest_to(key);
    for (i = 0; i < N_NAMES; i++) ipu__nearest_try(&nearest, names[i]);
    return ipu__fail(IPU_INVALID, "GCDA_OPTIONS: no key \"%.80s\"%s: correct or unset it", key,
                     ipu__nearest_hint(&nearest));
}

static ipu_status set_value(const char *key, const json_t *value, ipu__gcda *out)
{
    char text[VALUE_BYTES];
    switch (json_typeof(value)) {
    case JSON_STRING: return set(key, json_string_value(value), out);
    case JSON_TRUE: return set(key, "true", out);
    case JSON_FALSE: return set(key, "false", out);
    case JSON_INTEGER:
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
        return set(key, text, out);
    default: return wrong(key, "text", "something else");
    }
}

static ipu_status read_options(const char *json, ipu__gcda *out)
{
    json_error_t error;
    const char  *key;
    json_t      *root = json_loads(json, JSON_REJECT_DUPLICATES, &error), *value;
    if (!root && json_error_code(&error) == json_error_out_of_memory) return ipu__fail_memory();
    if (!json_is_object(root)) {
        json_decref(root);
        return ipu__fail(IPU_INVALID,
                         "GCDA_OPTIONS: expected a JSON object of text, {\"key\": \"value\"}: correct or "
                         "unset it");
    }
    ipu_status status = IPU_OK;
    json_object_foreach(root, key, value)
    {
        status = set_value(key, value, out);
        if (status != IPU_OK) break;
    }
    json_decref(root);
    return status;
}

ipu_status ipu__gcda_read(ipu__gcda *out)
{
    const char *options = getenv("GCDA_OPTIONS"), *suppress = getenv("GCDA_SUPPRESS_UTILISATION_MEASUREMENT");
    *out = (ipu__gcda){.measures = !suppress || strcmp(suppress, "1") != 0, .trigger = 1};
    return options && *options ? read_options(options, out) : IPU_OK;
}
