/* Reading and writing IPUoF configuration files. All keys except `attributes` and its `GCD Id` are our own. */
#include "device/ipuof.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/status.h"
#include "base/text.h"

enum { MOST_TEXT = 64, MOST_REPLICAS = 256, MOST_GCD = 255 };

/* What is being read, for messages: `prefix` is "" or "machines[2].". */
typedef struct reader {
    ipu__arena *arena;
    const char *file, *prefix;
} reader;

typedef ipu_status (*key_fn)(reader *r, const char *key, const json_t *value, void *out);

static ipu_status wrong(const reader *r, const char *key, const char *what)
{
    return ipu__fail(IPU_INVALID, "%s: key \"%s%s\": %s", r->file, r->prefix, key, what);
}

/* ---- values ---- */

static bool is_clean(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f) return false;
    return true;
}

static ipu_status read_text(reader *r, const char *key, const json_t *value, void *out)
{
    const char *text = json_string_value(value);
    if (!text || json_string_length(value) > MOST_TEXT || strlen(text) != json_string_length(value)
        || !is_clean(text))
        return wrong(r, key, "expected text of at most 64 bytes without control characters: write \"...\"");
    char *own           = ipu__arena_strdup(r->arena, text);
    *(const char **)out = own;
    return own ? IPU_OK : ipu__fail_memory();
}

static ipu_status read_bool(reader *r, const char *key, const json_t *value, bool *out)
{
    if (!json_is_boolean(value)) return wrong(r, key, "expected true or false, without quotes");
    *out = json_is_true(value);
    return IPU_OK;
}

static ipu_status read_number(reader *r, const char *key, const json_t *value, json_int_t least,
                              json_int_t most, json_int_t *out)
{
    char what[96];
    *out = json_integer_value(value);
    if (json_is_integer(value) && *out >= least && *out <= most) return IPU_OK;
    snprintf(what, sizeof what, "expected a whole number from %lld to %lld, without quotes", (long long)least,
             (long long)most);
    return wrong(r, key, what);
}

/* ---- objects: a table of keys for each ---- */

typedef struct known_key {
    const char *name;
    key_fn      read;
    size_t      offset;
} known_key;

static ipu_status unknown(const reader *r, const char *key, const known_key *keys, size_t n)
{
    ipu__nearest nearest = ipu__nearest_to(key);
    ipu__text    names   = {0};
    for (size_t i = 0; i < n; i++) {
        ipu__nearest_try(&nearest, keys[i].name);
        ipu__text_add(&names, "%s%s", i ? ", " : "", keys[i].name);
    }
    ipu_status status = ipu__fail(IPU_INVALID, "%s: key \"%s%.80s\" is not known%s: expected one of %s",
                                  r->file, r->prefix, key, ipu__nearest_hint(&nearest),
                                  names.failed ? "" : names.at);
    ipu__text_fini(&names);
    return status;
}

static ipu_status read_object(reader *r, const json_t *object, const known_key *keys, size_t n, void *out)
{
    const char *key;
    json_t     *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t i = 0;
        while (i < n && strcmp(keys[i].name, key) != 0) i++;
        if (i == n) return unknown(r, key, keys, n);
        IPU_TRY(keys[i].read(r, key, value, (char *)out + keys[i].offset));
    }
    return IPU_OK;
}

/* ---- machines ---- */

static ipu_status read_boards(reader *r, const char *key, const json_t *value, void *out)
{
    const char **boards = out;
    size_t       n      = json_array_size(value);
    if (!json_is_array(value) || n < 1 || n > 2)
        return wrong(r, key, "expected a list of 1 or 2 serial numbers, one for each pair of IPUs");
    for (size_t i = 0; i < n; i++) IPU_TRY(read_text(r, key, json_array_get(value, i), &boards[i]));
    return IPU_OK;
}

#define MACHINE(name, read)                      \
    {                                            \
#name, read, offsetof(ipu_machine, name) \
    }
static const known_key machine_keys[] = {
    MACHINE(host, read_text),     MACHINE(type, read_text),
    MACHINE(software, read_text), MACHINE(server, read_text),
    MACHINE(firmware, read_text), {"boards", read_boards, offsetof(ipu_machine, board)},
};
enum { N_MACHINE_KEYS = sizeof machine_keys / sizeof *machine_keys };

static ipu_status read_machines(reader *r, const char *key, const json_t *value, void *out)
{
    ipu__partition_spec *spec = out;
    size_t               n    = json_array_size(value);
    char                 prefix[32];
    if (!json_is_array(value) || n < 1 || n > IPU__MOST_IPUS)
        return wrong(r, key, "expected a list of 1 to 256 objects, one for each machine");
    ipu_machine *machines = ipu__arena_alloc(r->arena, n * sizeof *machines);
    if (!machines) return ipu__fail_memory();
    memset(machines, 0, n * sizeof *machines);
    for (size_t i = 0; i < n; i++) {
        const json_t *machine = json_array_get(value, i);
        snprintf(prefix, sizeof prefix, "machines[%zu].", i);
        reader inner = {r->arena, r->file, prefix};
        if (!json_is_object(machine))
            return wrong(&inner, "", "expected an object: {\"host\": \"10.1.5.10\"}");
        IPU_TRY(read_object(&inner, machine, machine_keys, N_MACHINE_KEYS, &machines[i]));
    }
    spec->machines   = machines;
    spec->n_machines = n;
    return IPU_OK;
}

/* ---- the partition ---- */

/* "attributes": {"GCD Id": "0"} is all that is known of a vendor's file; other contents are left alone. */
static ipu_status read_attributes(reader *r, const char *key, const json_t *value, void *out)
{
    ipu__partition_spec *spec = out;
    if (!json_is_object(value)) return wrong(r, key, "expected an object: {\"GCD Id\": \"0\"}");
    const json_t *id = json_object_get(value, "GCD Id");
    if (!id) return IPU_OK;
    const char *text = json_string_value(id);
    char       *end  = NULL;
    long        gcd  = text && *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
    if (gcd < 0 || gcd > MOST_GCD || *end)
        return wrong(r, "attributes.GCD Id", "expected a number from 0 to 255 as text: \"0\"");
    spec->gcd = (int)gcd;
    return IPU_OK;
}

static ipu_status read_name(reader *r, const char *key, const json_t *value, void *out)
{
    ipu__partition_spec *spec = out;
    IPU_TRY(read_text(r, key, value, &spec->name));
    return ipu__partition_check_name(spec->name) == IPU_OK ? IPU_OK : wrong(r, key, ipu_message());
}

static ipu_status read_target(reader *r, const char *key, const json_t *value, void *out)
{
    ipu__partition_spec *spec = out;
    if (spec->target) return wrong(r, key, "expected \"system\" or \"chip\", found both: leave one out");
    return read_text(r, key, value, &spec->target);
}

static ipu_status read_ipus(reader *r, const char *key, const json_t *value, void *out)
{
    json_int_t n;
    IPU_TRY(read_number(r, key, value, 1, IPU__MOST_IPUS, &n));
    if (n & (n - 1)) return wrong(r, key, "expected a power of two up to 256");
    ((ipu__partition_spec *)out)->n_ipus = n;
    return IPU_OK;
}

static ipu_status read_reconfigurable(reader *r, const char *key, const json_t *value, void *out)
{
    bool reconfigurable = true;
    IPU_TRY(read_bool(r, key, value, &reconfigurable));
    ((ipu__partition_spec *)out)->fixed = !reconfigurable;
    return IPU_OK;
}

static ipu_status read_elastic(reader *r, const char *key, const json_t *value, void *out)
{
    bool elastic = false;
    IPU_TRY(read_bool(r, key, value, &elastic));
    ((ipu__partition_spec *)out)->hard = !elastic;
    return IPU_OK;
}

static ipu_status read_replicas(reader *r, const char *key, const json_t *value, void *out)
{
    json_int_t n;
    IPU_TRY(read_number(r, key, value, 1, MOST_REPLICAS, &n));
    ((ipu__partition_spec *)out)->n_replicas = (int)n;
    return IPU_OK;
}

static const known_key partition_keys[] = {
    {"partition", read_name, 0},
    {"system", read_target, 0},
    {"chip", read_target, 0},
    {"ipus", read_ipus, 0},
    {"reconfigurable", read_reconfigurable, 0},
    {"elastic", read_elastic, 0},
    {"routing", read_text, offsetof(ipu__partition_spec, routing)},
    {"sync_type", read_text, offsetof(ipu__partition_spec, sync_type)},
    {"replicas", read_replicas, 0},
    {"machines", read_machines, 0},
    {"attributes", read_attributes, 0},
};
enum { N_PARTITION_KEYS = sizeof partition_keys / sizeof *partition_keys };

/* "p1" of "/x/p1.conf". */
static ipu_status name_after_file(reader *r, ipu__partition_spec *spec)
{
    const char *slash = strrchr(r->file, '/'), *base = slash ? slash + 1 : r->file, *dot = strrchr(base, '.');
    char       *name = ipu__arena_strdup(r->arena, base);
    if (!name) return ipu__fail_memory();
    if (dot && dot > base) name[dot - base] = 0;
    spec->name = name;
    if (ipu__partition_check_name(name) == IPU_OK) return IPU_OK;
    return wrong(
        r, "partition",
        "there is none, and the name of the file is none for a partition: add \"partition\": \"p1\"");
}

static ipu_status check_target(const reader *r, const ipu__partition_spec *spec)
{
    size_t n_machines;
    char   what[128];
    if (ipu__partition_machines(spec->target, spec->n_ipus, &n_machines) != IPU_OK)
        return wrong(r, "system", ipu_message());
    if (!spec->machines || spec->n_machines == n_machines) return IPU_OK;
    snprintf(what, sizeof what,
             "expected %zu machines for these IPUs, found %zu: list all of them or leave the key out",
             n_machines, spec->n_machines);
    return wrong(r, "machines", what);
}

static ipu_status read_partition(reader *r, const json_t *root, ipu__partition_spec *out)
{
    if (!json_is_object(root))
        return ipu__fail(IPU_INVALID,
                         "%s: expected a JSON object: {\"partition\": \"p1\", \"system\": \"pod16\"}",
                         r->file);
    *out = (ipu__partition_spec){.hard = true};
    IPU_TRY(read_object(r, root, partition_keys, N_PARTITION_KEYS, out));
    if (!out->name) IPU_TRY(name_after_file(r, out));
    if (!out->target && out->n_ipus > 4) out->target = "gc200";
    if (!out->target) out->target = "m2000";
    IPU_TRY(check_target(r, out));
    out->file = ipu__arena_strdup(r->arena, r->file);
    return out->file ? IPU_OK : ipu__fail_memory();
}

ipu_status ipu__ipuof_parse(ipu__arena *arena, const char *file, const char *text, size_t bytes,
                            ipu__partition_spec *out)
{
    json_error_t error;
    json_t      *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory) return ipu__fail_memory();
    if (!root)
        return ipu__fail(IPU_INVALID, "%s:%d: not JSON: %s: correct it or remove the file", file, error.line,
                         error.text);
    reader     r      = {arena, file, ""};
    ipu_status status = read_partition(&r, root, out);
    json_decref(root);
    return status;
}

/* ---- writing ---- */

ipu_status ipu__ipuof_print(const ipu__partition_spec *spec, char **out)
{
    json_t *root = json_pack("{s:s, s:s, s:I, s:b, s:b, s:{s:s}}", "partition", spec->name, "system",
                             spec->target, "ipus", (json_int_t)spec->n_ipus, "reconfigurable", !spec->fixed,
                             "elastic", !spec->hard, "attributes", "GCD Id", "0");
    char   *text = root ? json_dumps(root, JSON_INDENT(4)) : NULL;
    *out         = text ? ipu__strdup(text) : NULL;
    free(text);
    json_decref(root);
    return *out ? IPU_OK : ipu__fail_memory();
}
