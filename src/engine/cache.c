/* The cache of executables. Only a folder that others cannot write to is used: what is in it is run. */
#include "engine/cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/build.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/log.h"
#include "engine/executable.h"
#include "engine/options.h"
#include "ipu/version.h"

static const char     ending[]      = ".ipuexe";
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

bool ipu__cache_path(const char *folder, const ipu__hash128 *key, char out[PATH_MAX])
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

static bool is_entry(const char *name)
{
    size_t n = IPU__HASH_TEXT - 1;
    return strspn(name, "0123456789abcdef") == n && strcmp(name + n, ending) == 0;
}

/* ---- loading ---- */

static ipu_status miss(const char *path) { return ipu__fail(IPU_NOT_FOUND, "%s: not in the cache", path); }

ipu_status ipu__cache_load(const char *folder, const ipu__hash128 *key, const ipu_options *options,
                           ipu_executable **out)
{
    char          path[PATH_MAX];
    ipu__settings settings;
    struct stat   st;
    *out = NULL;
    IPU_TRY(ipu__options_settle(options, &settings));
    if (settings.check || !ipu__cache_path(folder, key, path) || lstat(path, &st) != 0) return miss(folder);
    const char *why = ipu__folder_distrust(folder);
    if (why) {
        ipu__log(IPU_LOG_WARN, "engine", "the cache folder %s is not used: %s", folder, why);
        return miss(path);
    }
    ipu_status status = S_ISREG(st.st_mode) ? ipu__executable_load_own(path, options, out)
                                            : ipu__fail(IPU_INVALID, "%s: it is no regular file", path);
    if (status == IPU_OK) ipu__folder_note_use(path);
    if (status == IPU_OK || status == IPU_OUT_OF_MEMORY) return status;
    if (status != IPU_NOT_FOUND) /* else others have removed it meanwhile */
        ipu__log(IPU_LOG_WARN, "engine", "an executable in the cache is made anew: %s", ipu_message());
    return miss(path);
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

static ipu_status store(const char *folder, const ipu__hash128 *key, const void *data, size_t bytes)
{
    char        path[PATH_MAX];
    const char *why;
    if (!ipu__cache_path(folder, key, path)) return ipu__fail(IPU_INVALID, "the folder's name is too long");
    IPU_TRY(ipu__folder_make(folder, 0700));
    if ((why = ipu__folder_distrust(folder))) return ipu__fail(IPU_INVALID, "%s", why);
    make_way(path);
    return write_entry(path, data, bytes);
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
        status = store(folder, key, data, bytes);
    ipu__free(data);
    if (status != IPU_OK)
        ipu__log(IPU_LOG_WARN, "engine", "the cache folder %s is not used: %s", folder, ipu_message());
    if (ipu__folder_distrust(folder)) return;
    ipu__folder_clear_rests(folder);
    ipu__folder_trim(folder, is_entry, most, SIZE_MAX);
}
