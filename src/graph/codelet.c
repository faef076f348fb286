/* Codelets loaded at run time: from source, through compiler or cache, to a checked module in this process
 * that a graph knows. A module is loaded once for given bytes and never unloaded, since records must
 * outlive everything compiled from them.
 */
#include "graph/codelet.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host/file.h"
#include "base/log.h"
#include "graph/graph.h"

enum {
    MOST_FIELDS = 128,     /* as in the text form */
    MOST_NAME   = 255,     /* bytes */
    MOST_BYTES  = 1 << 20, /* of a vertex */
    MOST_FILES  = 1000,    /* in the cache */
};

#define MOST_CACHED ((uint64_t)256 << 20) /* bytes */

/* ---- modules of this process ---- */

/* A linked list through the modules' own memory; append-only, under the lock. */
static ipu_codelet_module *modules;
static pthread_mutex_t     lock = PTHREAD_MUTEX_INITIALIZER;

static void acquire(void) { pthread_mutex_lock(&lock); }
static void release(void) { pthread_mutex_unlock(&lock); }
static void add_fork_handlers(void) { pthread_atfork(acquire, release, release); }

/* A child forked while another thread loads must find the lock free. */
static void guard_fork(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, add_fork_handlers);
}

static ipu_codelet_module *find_loaded_locked(const ipu__hash128 *hash)
{
    ipu_codelet_module *m = modules;
    while (m && memcmp(m->hash, hash->bytes, sizeof m->hash) != 0) m = m->next;
    return m;
}

static const ipu_codelet_module *find_loaded(const ipu__hash128 *hash)
{
    acquire();
    const ipu_codelet_module *m = find_loaded_locked(hash);
    release();
    return m;
}

/* ---- checks of what a module says ---- */

static bool is_name(const char *name) { return name && *name && strlen(name) <= MOST_NAME; }

/* Size of a field in the struct, and its alignment. */
static size_t field_bytes(const ipu_codelet_field *f, size_t *alignment)
{
    bool            state = ipu__field_direction(f->form) == IPU_DIRECTION_STATE;
    ipu_field_shape shape = ipu__field_shape(f->form);
    *alignment            = sizeof(void *);
    if (shape == IPU_FIELD_SHAPE_VECTOR || shape == IPU_FIELD_SHAPE_VECTORS) return sizeof(ipu_span);
    if (!state) return sizeof(void *);
    return *alignment = ipu_type_size(f->type);
}

static const char *wrong_field(const ipu_codelet *c, const ipu_codelet_field *fields, uint32_t i)
{
    const ipu_codelet_field *f = &fields[i];
    size_t                   alignment;
    if (!is_name(f->name)) return "a field has no name, or one too long";
    if ((unsigned)f->form >= IPU_N_FIELD_FORMS) return "a field has a form that there is not";
    if ((unsigned)f->type >= IPU_N_TYPES) return "a field has a type that there is not";
    size_t bytes = field_bytes(f, &alignment);
    if (f->offset % alignment != 0 || f->offset > c->bytes || bytes > c->bytes - f->offset)
        return "a field lies outside of the struct, or across others";
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(fields[k].name, f->name) == 0) return "two fields have one name";
    return NULL;
}

/* NULL if nothing is wrong. */
static const char *wrong_codelet(const ipu_codelet *c)
{
    if (!is_name(c->name)) return "it has no name, or one too long";
    if (!c->compute) return "it has no body";
    if (c->n_fields > MOST_FIELDS) return "it has more than 128 fields";
    if (c->bytes > MOST_BYTES) return "its struct is larger than 1 MiB";
    const ipu_codelet_field *fields = c->n_fields && c->fields ? c->fields() : NULL;
    if (c->n_fields && !fields) return "its fields are missing";
    for (uint32_t i = 0; i < c->n_fields; i++) {
        const char *why = wrong_field(c, fields, i);
        if (why) return why;
    }
    return NULL;
}

static ipu_status check_version(const char *name, const ipu_codelet_module *m)
{
    if (m->abi != IPU_CODELET_ABI || m->codelet_bytes != sizeof(ipu_codelet)
        || m->field_bytes != sizeof(ipu_codelet_field))
        return ipu__fail(IPU_UNSUPPORTED,
                         "%s: expected a module for version %d of codelets, found %u: compile it again", name,
                         IPU_CODELET_ABI, m->abi);
    uint64_t missing = m->cpu & ~ipu__codelet_cpu();
    if (missing)
        return ipu__fail(IPU_UNSUPPORTED,
                         "%s: compiled for a CPU with %s, which this one lacks: compile it again here", name,
                         ipu__codelet_cpu_name(missing));
    return IPU_OK;
}

static ipu_status check_module(const char *name, const ipu_codelet_module *m)
{
    if (m->codelets == m->end)
        return ipu__fail(IPU_INVALID, "%s defines no codelets: expected IPU_VERTEX or IPU_MULTI_VERTEX in it",
                         name);
    for (const ipu_codelet *const *c = m->codelets; c < m->end; c++) {
        const char *why = wrong_codelet(*c);
        if (why)
            return ipu__fail(IPU_INVALID, "%s: codelet \"%.*s\": %s", name, MOST_NAME,
                             (*c)->name ? (*c)->name : "", why);
        for (const ipu_codelet *const *d = m->codelets; d < c; d++)
            if (strcmp((*c)->name, (*d)->name) == 0)
                return ipu__fail(IPU_INVALID, "%s: two codelets are called \"%s\"", name, (*c)->name);
    }
    return IPU_OK;
}

/* ---- loading ---- */

static const ipu_codelet_host host = {
    .half_from_float     = ipu_half_from_float,
    .half_to_float       = ipu_half_to_float,
    .bfloat16_from_float = ipu_bfloat16_from_float,
    .bfloat16_to_float   = ipu_bfloat16_to_float,
    .half_from_floats    = ipu_half_from_floats,
    .half_to_floats      = ipu_half_to_floats,
};

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const ipu_codelet *const *)a)->name, (*(const ipu_codelet *const *)b)->name);
}

static ipu_status open_module(const char *name, void *handle, const ipu__hash128 *hash,
                              ipu_codelet_module **out)
{
    ipu_codelet_module *m = dlsym(handle, "ipu_this_module");
    if (!m)
        return ipu__fail(IPU_INVALID,
                         "%s is no module of codelets: expected a source that includes ipu/codelet.h", name);
    IPU_TRY(check_version(name, m));
    IPU_TRY(check_module(name, m));
    m->n_codelets = (uint32_t)(m->end - m->codelets);
    m->host       = &host;
    /* Compilers differ in the order of the list. */
    qsort((void *)(uintptr_t)m->codelets, m->n_codelets, sizeof *m->codelets, by_name);
    memcpy(m->hash, hash->bytes, sizeof m->hash);
    *out = m;
    return IPU_OK;
}

/* The file may vanish at any time, when another process trims the cache; it is then written again. */
static void *open_file(const char *folder, const ipu__codelet_object *object)
{
    char path[PATH_MAX];
    ipu__codelet_cache_path(folder, &object->hash, path);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle || access(path, F_OK) == 0 || ipu__codelet_cache_write(folder, object) != IPU_OK)
        return handle;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static ipu_status load_locked(const char *name, const char *folder, const ipu__codelet_object *object,
                              const ipu_codelet_module **out)
{
    ipu_codelet_module *m = find_loaded_locked(&object->hash);
    if (!m) {
        void *handle = open_file(folder, object);
        if (!handle) {
            const char *why = dlerror();
            return ipu__fail(IPU_IO, "%s: the module cannot be loaded: %s", name,
                             why ? why : "no reason given");
        }
        ipu_status status = open_module(name, handle, &object->hash, &m);
        if (!m) {
            dlclose(handle);
            return status;
        }
        m->next = modules;
        modules = m;
    }
    *out = m;
    return IPU_OK;
}

static ipu_status load(const char *name, const char *folder, const ipu__codelet_object *object,
                       const ipu_codelet_module **out)
{
    acquire();
    ipu_status status = load_locked(name, folder, object, out);
    release();
    return status;
}

/* ---- from source to object ---- */

static ipu_status compile(ipu__codelet_job *job, const char *folder, const ipu__hash128 *key,
                          ipu__codelet_object *out)
{
    char work[IPU__FOLDER_BYTES];
    IPU_TRY(ipu__codelet_work_begin(folder, work));
    ipu_status status = ipu__codelet_job_run(job, work, out);
    ipu__codelet_work_end(work);
    if (status == IPU_OK) status = ipu__codelet_cache_write(folder, out);
    if (status != IPU_OK) return status;
    ipu__codelet_cache_note(folder, key, job, out);
    ipu__codelet_cache_trim(folder, MOST_CACHED, MOST_FILES);
    return IPU_OK;
}

/* From the cache or the compiler. With `loaded`, a module that this process has already loaded will do, and
 * is stored there. */
static ipu_status obtain(ipu__codelet_job *job, const char *folder, ipu__codelet_object *out,
                         const ipu_codelet_module **loaded)
{
    ipu__hash128 key, hash;
    bool         found;
    IPU_TRY(ipu__codelet_job_key(job, &key));
    IPU_TRY(ipu__codelet_cache_find(folder, &key, &found, &hash));
    if (found && loaded && (*loaded = find_loaded(&hash))) return IPU_OK;
    if (found) IPU_TRY(ipu__codelet_cache_read(folder, &hash, &found, out));
    return found ? IPU_OK : compile(job, folder, &key, out);
}

static ipu_status make_object(const ipu__codelet_source *source, const char *folder, ipu__codelet_object *out,
                              const ipu_codelet_module **loaded)
{
    ipu__codelet_job job;
    ipu_status       status = ipu__codelet_job_init(&job, source);
    if (status == IPU_OK) status = obtain(&job, folder, out, loaded);
    ipu__codelet_job_fini(&job);
    return status;
}

static ipu_status load_source(const ipu__codelet_source *source, const ipu_codelet_module **out)
{
    char                folder[IPU__FOLDER_BYTES];
    ipu__codelet_object object = {0};
    IPU_TRY(ipu__codelet_folder(folder));
    ipu_status status = make_object(source, folder, &object, out);
    if (status == IPU_OK && !*out) status = load(source->name, folder, &object, out);
    ipu__free(object.data);
    return status;
}

/* ---- the public functions ---- */

static bool is_module(const ipu__codelet_source *s)
{
    return s->bytes >= 4 && memcmp(s->text, "\177ELF", 4) == 0;
}

/* Appended to a compiled file, where loaders do not look: a truncated or altered module would not fail to
 * load, but crash. */
typedef struct seal {
    char         magic[8];
    ipu__hash128 hash;
} seal;

static const char seal_magic[8] = {'I', 'P', 'U', 'M', 'O', 'D', '0', '1'};

static ipu_status write_sealed(const ipu__codelet_object *object, const char *to)
{
    seal      end  = {.hash = object->hash};
    ipu__text file = {0};
    memcpy(end.magic, seal_magic, sizeof end.magic);
    ipu__text_add_bytes(&file, object->data, object->bytes);
    ipu__text_add_bytes(&file, (const char *)&end, sizeof end);
    ipu_status status = file.failed ? ipu__fail_memory() : ipu__file_write(to, file.at, file.n);
    ipu__text_fini(&file);
    return status;
}

static bool open_sealed(const ipu__codelet_source *source, char *data, ipu__codelet_object *out)
{
    seal end;
    if (source->bytes < sizeof end) return false;
    *out = (ipu__codelet_object){.data = data, .bytes = source->bytes - sizeof end};
    memcpy(&end, data + out->bytes, sizeof end);
    out->hash = ipu__hash_bytes(data, out->bytes);
    return memcmp(end.magic, seal_magic, sizeof end.magic) == 0
        && memcmp(end.hash.bytes, out->hash.bytes, sizeof end.hash.bytes) == 0;
}

/* Compiled files are loaded through our folder as well: there the name stands for the contents, whatever
 * happens to the original file. */
static ipu_status load_compiled(const ipu__codelet_source *source, char *data, const ipu_codelet_module **out)
{
    char                folder[IPU__FOLDER_BYTES];
    ipu__codelet_object object;
    if (source->flags && *source->flags)
        return ipu__fail(IPU_INVALID, "%s is compiled already: expected no flags, found \"%s\"", source->name,
                         source->flags);
    if (!open_sealed(source, data, &object))
        return ipu__fail(
            IPU_INVALID,
            "%s: expected C source or what ipu_codelet_compile wrote, found another binary file, or a "
            "damaged one: compile it again",
            source->name);
    *out = find_loaded(&object.hash);
    if (*out) return IPU_OK;
    IPU_TRY(ipu__codelet_folder(folder));
    IPU_TRY(ipu__codelet_cache_write(folder, &object));
    return load(source->name, folder, &object, out);
}

static ipu_status read_source(const char *function, const char *path, ipu__codelet_source *source,
                              char **text)
{
    if (!path || !*path)
        return ipu__fail(IPU_INVALID, "%s: expected the path of a C file, found none", function);
    IPU_TRY(ipu__file_read(path, IPU__MODULE_LIMIT, text, &source->bytes));
    source->name = source->path = path;
    source->text                = *text;
    return IPU_OK;
}

/* `*text`: the source, owned; NULL if the file is compiled, or not text. */
static ipu_status load_file(const char *path, const char *flags, char **text, const ipu_codelet_module **out)
{
    ipu__codelet_source source = {.flags = flags};
    *out                       = NULL;
    guard_fork();
    IPU_TRY(read_source("ipu_codelet_load_file", path, &source, text));
    bool       compiled = is_module(&source);
    ipu_status status   = compiled ? load_compiled(&source, *text, out) : load_source(&source, out);
    if (!compiled && strlen(*text) == source.bytes) return status;
    ipu__free(*text);
    *text = NULL;
    return status;
}

ipu_status ipu_codelet_load_file(const char *path, const char *flags, const ipu_codelet_module **out)
{
    char      *text   = NULL;
    ipu_status status = load_file(path, flags, &text, out);
    ipu__free(text);
    return status;
}

ipu_status ipu_codelet_load_source(const char *name, const char *source, const char *flags,
                                   const ipu_codelet_module **out)
{
    *out = NULL;
    guard_fork();
    if (!source) return ipu__fail(IPU_INVALID, "%s: the source is NULL", __func__);
    ipu__codelet_source s = {
        .name = name && *name ? name : "codelet", .text = source, .bytes = strlen(source), .flags = flags};
    return load_source(&s, out);
}

ipu_status ipu_codelet_compile(const char *path, const char *flags, const char *to)
{
    char               *text   = NULL, folder[IPU__FOLDER_BYTES];
    ipu__codelet_source source = {.flags = flags};
    ipu__codelet_object object = {0};
    IPU_TRY(read_source(__func__, path, &source, &text));
    ipu_status status = ipu__codelet_folder(folder);
    if (is_module(&source))
        status = ipu__fail(IPU_INVALID, "%s: expected C source: it is compiled already", path);
    if (status == IPU_OK) status = make_object(&source, folder, &object, NULL);
    if (status == IPU_OK) status = write_sealed(&object, to);
    ipu__free(object.data);
    ipu__free(text);
    return status;
}

ipu_status ipu_codelet_clear_cache(void)
{
    char folder[IPU__FOLDER_BYTES];
    IPU_TRY(ipu__codelet_folder(folder));
    ipu__codelet_cache_trim(folder, 0, 0);
    return IPU_OK;
}

/* ---- builders ---- */

/* NULL on allocation failure. */
static const ipu__codelet_origin *keep_origin(ipu_graph *g, const char *name, const char *text,
                                              const char *flags)
{
    ipu__codelet_origin own = {ipu__arena_strdup(&g->arena, name), ipu__arena_strdup(&g->arena, text),
                               ipu__arena_strdup(&g->arena, flags ? flags : "")};
    return own.name && own.text && own.flags ? ipu__arena_copy(&g->arena, &own, sizeof own) : NULL;
}

static void add_module(ipu_graph *g, const char *function, const char *name, const ipu_codelet_module *m,
                       const ipu__codelet_origin *origin)
{
    char     where[IPU__WHERE_BYTES];
    uint32_t id;
    for (uint32_t i = 0; i < m->n_codelets && ipu__graph_ok(g); i++) {
        const ipu_codelet  *c     = m->codelets[i];
        const ipu__codelet *known = ipu__map_find(&g->codelet_names, c->name, &id) ? &g->codelets.at[id]
                                                                                   : NULL;
        if (known && known->compute && known->compute != c->compute)
            ipu__graph_fail(g, IPU_INVALID,
                            "%s: %s: there is another codelet called \"%s\", from %s: rename one of them",
                            function, name, c->name, ipu__graph_where(g, known->location, where));
        else
            ipu_graph_add_codelet(g, c);
        if (ipu__graph_ok(g) && ipu__map_find(&g->codelet_names, c->name, &id))
            g->codelets.at[id].origin = origin;
    }
}

/* `text` is NULL if there is no source. */
static void add(ipu_graph *g, const char *function, const char *name, const char *text, const char *flags,
                ipu_status status, const ipu_codelet_module *m)
{
    const ipu__codelet_origin *origin = m && text ? keep_origin(g, name, text, flags) : NULL;
    if (m && (origin || !text))
        add_module(g, function, name, m, origin);
    else if (m)
        ipu__graph_fail_memory(g);
    else if (status == IPU_OUT_OF_MEMORY)
        ipu__graph_fail_memory(g);
    else
        ipu__graph_fail(g, status, "%s: %s", function, ipu_message());
}

void ipu_graph_add_codelet_file(ipu_graph *g, const char *path, const char *flags)
{
    const ipu_codelet_module *m    = NULL;
    char                     *text = NULL;
    if (!ipu__graph_ok(g)) return;
    ipu_status status = load_file(path, flags, &text, &m);
    add(g->root, __func__, path, text, flags, status, m);
    ipu__free(text);
}

void ipu_graph_add_codelet_source(ipu_graph *g, const char *name, const char *source, const char *flags)
{
    const ipu_codelet_module *m = NULL;
    if (!ipu__graph_ok(g)) return;
    ipu_status status = ipu_codelet_load_source(name, source, flags, &m);
    add(g->root, __func__, name && *name ? name : "codelet", source, flags, status, m);
}
