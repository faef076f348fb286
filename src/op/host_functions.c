/* Host functions: a table of names in this process, protected by a lock. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/status.h"
#include "graph/graph.h"
#include "op/host.h"

typedef struct entry {
    char       *name;
    ipu_host_fn fn;
    void       *user;
} entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static IPU__ARRAY(entry) entries;
static _Thread_local bool has_said; /* whether the function that is being called called ipu_host_fail */

/* ---- the one that is always there ---- */

static void convert(const ipu_array *in, ipu_array *out)
{
    int64_t n = ipu_array_n_elements(in), n_out = ipu_array_n_elements(out);
    size_t  bytes = ipu_type_size(out->type);
    for (int64_t i = 0; i < n_out; i++) {
        uint64_t bits = 0;
        if (!ipu__value_from_double(out->type, i < n ? ipu_array_value(in, i) : 0, &bits)) bits = 0;
        memcpy((char *)out->data + (size_t)i * bytes, &bits, bytes);
    }
}

static ipu_status copy(void *user, const ipu_array *in, size_t n_in, ipu_array *out, size_t n_out)
{
    (void)user;
    for (size_t i = 0; i < n_out; i++) {
        size_t bytes = ipu_array_bytes(&out[i]);
        if (i >= n_in || in[i].type != out[i].type || ipu_array_bytes(&in[i]) != bytes)
            convert(i < n_in ? &in[i] : &(ipu_array){.type = out[i].type}, &out[i]);
        else if (bytes > 0)
            memcpy(out[i].data, in[i].data, bytes);
    }
    return IPU_OK;
}

static const entry own = {"copy", copy, NULL};

/* ---- the table ---- */

static size_t index_of(const char *name)
{
    size_t i = 0;
    while (i < entries.n && strcmp(entries.at[i].name, name) != 0) i++;
    return i;
}

static bool look_up_locked(const char *name, entry *out)
{
    *out = own;
    if (strcmp(name, own.name) == 0) return true;
    size_t i = index_of(name);
    if (i == entries.n) return false;
    *out = entries.at[i];
    return true;
}

static bool look_up(const char *name, entry *out)
{
    pthread_mutex_lock(&lock);
    bool found = look_up_locked(name, out);
    pthread_mutex_unlock(&lock);
    return found;
}

static ipu_status add(const char *name, ipu_host_fn fn, void *user)
{
    entry now;
    if (look_up_locked(name, &now)) {
        if (now.fn == fn && now.user == user) return IPU_OK;
        return ipu__fail(IPU_INVALID,
                         "ipu_host_register: \"%s\" is another function already: take another name, or "
                         "ipu_host_unregister it first",
                         name);
    }
    char *copied = ipu__strdup(name);
    if (!copied) return ipu__fail_memory();
    if (ipu__push(&entries, (entry){copied, fn, user})) return IPU_OK;
    ipu__free(copied);
    return ipu__fail_memory();
}

ipu_status ipu_host_register(const char *name, ipu_host_fn fn, void *user)
{
    if (!name || !*name || !fn)
        return ipu__fail(IPU_INVALID, "ipu_host_register: expected a name and a function, found %s",
                         fn ? "no name" : "no function");
    pthread_mutex_lock(&lock);
    ipu_status status = add(name, fn, user);
    pthread_mutex_unlock(&lock);
    return status;
}

void ipu_host_unregister(const char *name)
{
    pthread_mutex_lock(&lock);
    size_t i = index_of(name);
    if (i < entries.n) {
        ipu__free(entries.at[i].name);
        entries.at[i] = entries.at[--entries.n];
        if (entries.n == 0) ipu__array_fini(&entries);
    }
    pthread_mutex_unlock(&lock);
}

bool ipu_host_is_registered(const char *name)
{
    entry found;
    return name && look_up(name, &found);
}

/* ---- calling ---- */

ipu_status ipu__host_find(const char *name)
{
    entry found;
    if (look_up(name, &found)) return IPU_OK;
    return ipu__fail(IPU_NOT_FOUND,
                     "host function \"%s\" is not registered in this process: call ipu_host_register before "
                     "an engine is created of what calls it",
                     name);
}

ipu_status ipu__host_run(const char *name, const ipu_array *in, size_t n_in, ipu_array *out, size_t n_out)
{
    entry called;
    if (!look_up(name, &called)) return ipu__host_find(name);
    has_said          = false;
    ipu_status status = called.fn(called.user, in, n_in, out, n_out);
    if (status == IPU_OK) return IPU_OK;
    char why[512];
    snprintf(why, sizeof why, "%s", has_said ? ipu_message() : ipu_status_text(status));
    return ipu__fail(status, "host function \"%s\": %s", name, why);
}

ipu_status ipu_host_fail(const char *message)
{
    has_said = true;
    return ipu__fail(IPU_ABORTED, "%s", message ? message : "it failed");
}
