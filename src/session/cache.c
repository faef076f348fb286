/* The cache of executables. Only a folder that others cannot write to is used: what is in it is run. */
#include "session/cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/host/build.h"
#include "base/host/cpu.h"
#include "base/host/file.h"
#include "base/host/folder.h"
#include "base/log.h"
#include "engine/executable.h"
#include "engine/options.h"
#include "ipu/version.h"

static const char     executables[] = ".ipuexe", notes[] = ".ipunote";
static const uint64_t default_limit = (uint64_t)1 << 30;

/* ---- folders and keys ---- */

const char *ipu__cache_folder(const char *asked)
{
    const char *folder = asked;
    if (!folder) folder = getenv("IPU_CACHE_DIR");
    if (!folder) folder = getenv("POPTORCH_CACHE_DIR");
    return folder && *folder ? folder : NULL;
}

void ipu__cache_add_options(ipu__text *key, const ipu_options *options)
{
    static const char *const variables[] = {"IPU_ENGINE_OPTIONS", "POPLAR_ENGINE_OPTIONS", "IPU_CHECK",
                                            "IPU_ENGINE"};
    const char              *name;
    ipu__text_add(key, "%s %x ", ipu_version(), ipu__cpu_features());
    for (int i = 0; options && (name = ipu_options_key_at(i, NULL, NULL)); i++)
        ipu__text_add(key, "%s=%s;", name, ipu_options_get(options, name));
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        ipu__text_add(key, "%s=%s;", variables[i], value ? value : "");
    }
}

static bool make_path(const char *folder, const ipu__hash128 *key, const char *ending, char out[PATH_MAX])
{
    struct {
        ipu__hash128 key, build;
    } both = {.key = *key};
    char        text[IPU__HASH_TEXT];
    size_t      bytes;
    const void *id = ipu__build_id(&bytes);
    if (id) both.build = ipu__hash_bytes(id, bytes);
    ipu__hash128 name = ipu__hash_bytes(&both, sizeof both);
    ipu__hash_print(&name, text);
    return snprintf(out, PATH_MAX, "%s/%s%s", folder, text, ending) < PATH_MAX;
}

bool ipu__cache_path(const char *folder, const ipu__hash128 *key, char out[PATH_MAX])
{
    return make_path(folder, key, executables, out);
}

static bool is_entry(const char *name)
{
    size_t n = IPU__HASH_TEXT - 1;
    return strspn(name, "0123456789abcdef") == n
        && (strcmp(name + n, executables) == 0 || strcmp(name + n, notes) == 0);
}

/* ---- loading ---- */

static ipu_status miss(const char *path) { return ipu__fail(IPU_NOT_FOUND, "%s: not in the cache", path); }

/* Whether there is a file, in a folder that can be trusted. */
static bool is_there(const char *folder, const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0) return false;
    const char *why = ipu__folder_distrust(folder);
    if (why) ipu__log(IPU_LOG_WARN, "engine", "the cache folder %s is not used: %s", folder, why);
    if (why || S_ISREG(st.st_mode)) return !why;
    ipu__log(IPU_LOG_WARN, "engine", "what the cache has is made anew: %s is no regular file", path);
    return false;
}

ipu_status ipu__cache_load(const char *folder, const ipu__hash128 *key, const ipu_options *options,
                           ipu_executable **out)
{
    char          path[PATH_MAX];
    ipu__settings settings;
    *out = NULL;
    IPU_TRY(ipu__options_settle(options, &settings));
    if (settings.check || !ipu__cache_path(folder, key, path) || !is_there(folder, path)) return miss(folder);
    ipu_status status = ipu__executable_load_own(path, options, out);
    if (status == IPU_OK) ipu__folder_note_use(path);
    if (status == IPU_OK || status == IPU_OUT_OF_MEMORY) return status;
    if (status != IPU_NOT_FOUND) /* else others have removed it meanwhile */
        ipu__log(IPU_LOG_WARN, "engine", "an executable in the cache is made anew: %s", ipu_message());
    return miss(path);
}

static ipu_status read_note(const char *path, void *out, size_t bytes)
{
    char        *data;
    size_t       n;
    bool         is_ours;
    ipu__hash128 hash;
    IPU_TRY(ipu__file_read_owned(path, bytes + sizeof hash, &data, &n, &is_ours));
    bool ok = is_ours && n == bytes + sizeof hash;
    if (ok) hash = ipu__hash_bytes(data, bytes);
    ok = ok && memcmp(hash.bytes, data + bytes, sizeof hash) == 0;
    if (ok) memcpy(out, data, bytes);
    ipu__free(data);
    return ok ? IPU_OK : ipu__fail(IPU_INVALID, "%s: it is damaged, or others may write to it", path);
}

bool ipu__cache_load_note(const char *folder, const ipu__hash128 *key, void *out, size_t bytes)
{
    char path[PATH_MAX];
    if (!make_path(folder, key, notes, path) || !is_there(folder, path)) return false;
    ipu_status status = read_note(path, out, bytes);
    if (status == IPU_OK)
        ipu__folder_note_use(path);
    else
        ipu__log(IPU_LOG_WARN, "engine", "a note in the cache is made anew: %s", ipu_message());
    return status == IPU_OK;
}

/* ---- storing ---- */

static uint64_t limit(void)
{
    const char *text = getenv("IPU_CACHE_LIMIT");
    char       *end;
    if (!text || !*text) return default_limit;
    errno                   = 0;
    unsigned long long most = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno) return most;
    ipu__log(IPU_LOG_WARN, "engine",
             "IPU_CACHE_LIMIT is \"%s\": expected a number of bytes, %" PRIu64 " is used", text,
             default_limit);
    return default_limit;
}

/* In vain if the machine crashes before it is on disk: the hash in it tells. */
static ipu_status write_entry(const char *path, const void *data, size_t bytes)
{
    ipu__new_file f;
    IPU_TRY(ipu__file_begin(path, &f));
    f.hasty = true;
    if (fchmod(f.fd, 0600) == 0 && ipu__file_append(&f, data, bytes)) return ipu__file_commit(&f);
    char       reason[IPU__FILE_REASON];
    ipu_status status = ipu__fail(IPU_IO, "cannot write %s: %s", path, ipu__file_reason(errno, reason));
    ipu__file_abandon(&f);
    return status;
}

/* What is not a regular file must go: links are followed. */
static void make_way(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0 && (!S_ISREG(st.st_mode) || access(path, W_OK) != 0)) remove(path);
}

static ipu_status store(const char *folder, const ipu__hash128 *key, const char *ending, const void *data,
                        size_t bytes)
{
    char        path[PATH_MAX];
    const char *why;
    if (!make_path(folder, key, ending, path)) return ipu__fail(IPU_INVALID, "the folder's name is too long");
    IPU_TRY(ipu__folder_make(folder, 0700));
    if ((why = ipu__folder_distrust(folder))) return ipu__fail(IPU_INVALID, "%s", why);
    make_way(path);
    return write_entry(path, data, bytes);
}

/* What came of storing, and the folder kept small. */
static void finish(const char *folder, ipu_status status, uint64_t most)
{
    if (status != IPU_OK)
        ipu__log(IPU_LOG_WARN, "engine", "the cache folder %s is not used: %s", folder, ipu_message());
    if (ipu__folder_distrust(folder)) return;
    ipu__folder_clear_rests(folder);
    ipu__folder_trim(folder, is_entry, most, SIZE_MAX);
}

void ipu__cache_store(const char *folder, const ipu__hash128 *key, const ipu_executable *exe)
{
    void    *data;
    size_t   bytes;
    uint64_t most = limit();
    if (exe->check) return; /* cannot be saved */
    ipu_status status = ipu_executable_serialise(exe, &data, &bytes);
    if (status == IPU_OK && bytes > most)
        ipu__log(IPU_LOG_INFO, "engine",
                 "an executable of %zu bytes is not cached: IPU_CACHE_LIMIT is %" PRIu64, bytes, most);
    else if (status == IPU_OK)
        status = store(folder, key, executables, data, bytes);
    ipu__free(data);
    finish(folder, status, most);
}

void ipu__cache_store_note(const char *folder, const ipu__hash128 *key, const void *data, size_t bytes)
{
    ipu__text    note = {0};
    ipu__hash128 hash = ipu__hash_bytes(data, bytes);
    uint64_t     most = limit();
    if (bytes + sizeof hash > most) return;
    ipu__text_add_bytes(&note, data, bytes);
    ipu__text_add_bytes(&note, (const char *)hash.bytes, sizeof hash.bytes);
    finish(folder, note.failed ? ipu__fail_memory() : store(folder, key, notes, note.at, note.n), most);
    ipu__text_fini(&note);
}
