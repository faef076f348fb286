/* Compiled codelets on disk: <hash>.so, a module named by the hash of its bytes, and <key>.dep, which
 * records that a source, with its flags and compiler, gives that module as long as the files it includes
 * are unchanged.
 *
 * Every file is written atomically (ipu__file_write) and checked before use, so that killed or concurrent
 * writers and damage cost no more than a compilation. The least recently used files are deleted.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/host/file.h"
#include "base/host/regular.h"
#include "base/host/folder.h"
#include "base/log.h"
#include "base/text.h"
#include "graph/codelet.h"

enum { MANIFEST_LIMIT = 8 << 20 };

static const char work_prefix[] = "work-";

/* ---- our folder ---- */

/* "$IPU_CACHE_DIR", or the usual place for caches. Returns false if there is none. */
static bool wanted_root(char out[IPU__FOLDER_BYTES])
{
    const char   *own = getenv("IPU_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct passwd entry, *found = NULL;
    char          text[4096];
    int           n = -1;
    if (own && *own)
        n = snprintf(out, IPU__FOLDER_BYTES, "%s", own);
    else if (xdg && *xdg == '/')
        n = snprintf(out, IPU__FOLDER_BYTES, "%s/openipu", xdg);
    else if (home && *home == '/')
        n = snprintf(out, IPU__FOLDER_BYTES, "%s/.cache/openipu", home);
    else if (getpwuid_r(geteuid(), &entry, text, sizeof text, &found) == 0 && found && *entry.pw_dir == '/')
        n = snprintf(out, IPU__FOLDER_BYTES, "%s/.cache/openipu", entry.pw_dir);
    return n > 0 && n < IPU__FOLDER_BYTES - 16;
}

/* NULL if it can be used, else why not. */
static const char *unusable(const char *path)
{
    struct statvfs fs;
    const char    *why = ipu__folder_distrust(path);
    if (why) return why;
    return statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOEXEC) ? "its file system is mounted noexec" : NULL;
}

static ipu_status fail_path(const char *what, const char *path)
{
    return ipu__fail(IPU_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    remove(path);
    return 0;
}

static void remove_tree(const char *path) { nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

/* The folder of a process that has no other: created once, removed at exit. */
static char            private_folder[IPU__FOLDER_BYTES];
static pid_t           private_owner;
static pthread_mutex_t private_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((destructor)) static void remove_private(void)
{
    if (private_owner && private_owner == getpid()) remove_tree(private_folder);
}

static ipu_status use_private(char out[IPU__FOLDER_BYTES])
{
    ipu_status  status = IPU_OK;
    const char *base   = getenv("TMPDIR");
    pthread_mutex_lock(&private_lock);
    if (private_owner != getpid()) {
        snprintf(private_folder, sizeof private_folder, "%s/ipu-codelets-XXXXXX",
                 base && *base == '/' ? base : "/tmp");
        if (mkdtemp(private_folder))
            private_owner = getpid();
        else
            status = fail_path("make a folder for compiled codelets:", private_folder);
    }
    memcpy(out, private_folder, IPU__FOLDER_BYTES);
    pthread_mutex_unlock(&private_lock);
    return status;
}

/* Absolute, because paths in it are passed to the compiler and removed again from its messages. */
static bool make_absolute(char path[IPU__FOLDER_BYTES])
{
    char real[PATH_MAX];
    if (!realpath(path, real) || strlen(real) >= IPU__FOLDER_BYTES - 16) return false;
    memcpy(path, real, strlen(real) + 1);
    return true;
}

/* Whoever may rename things in the parent folder could replace ours. */
static const char *untrusted(const char *root)
{
    struct stat st;
    if (stat(root, &st) != 0) return strerror(errno);
    if (st.st_uid != geteuid() && st.st_uid != 0) return "the folder above it belongs to another user";
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
        return "others may write to the folder above it";
    return NULL;
}

ipu_status ipu__codelet_folder(char out[IPU__FOLDER_BYTES])
{
    if (!wanted_root(out)) return use_private(out);
    const char *why = NULL;
    if (ipu__folder_make(out, 0700) != IPU_OK) why = ipu_message();
    if (!why && !make_absolute(out)) why = strerror(errno);
    if (!why) why = untrusted(out);
    if (!why) {
        snprintf(out + strlen(out), 16, "/codelets");
        if (mkdir(out, 0700) != 0 && errno != EEXIST) why = strerror(errno);
    }
    if (!why) why = unusable(out);
    if (!why) return IPU_OK;
    ipu__log(IPU_LOG_WARN, "codelets",
             "the cache folder %s cannot be used (%s): compiled codelets are kept until the process ends",
             out, why);
    return use_private(out);
}

/* ---- folders of compilations ---- */

ipu_status ipu__codelet_work_begin(const char *folder, char out[IPU__FOLDER_BYTES])
{
    snprintf(out, IPU__FOLDER_BYTES, "%.*s/%sXXXXXX", IPU__FOLDER_BYTES - 32, folder, work_prefix);
    return mkdtemp(out) ? IPU_OK : fail_path("make a folder to compile in:", out);
}

void ipu__codelet_work_end(const char *work) { remove_tree(work); }

/* ---- objects ---- */

static void entry_path(const char *folder, const ipu__hash128 *hash, const char *ending, char out[PATH_MAX])
{
    char text[IPU__HASH_TEXT];
    ipu__hash_print(hash, text);
    snprintf(out, PATH_MAX, "%s/%s.%s", folder, text, ending);
}

void ipu__codelet_cache_path(const char *folder, const ipu__hash128 *hash, char out[PATH_MAX])
{
    entry_path(folder, hash, "so", out);
}

static bool same_hash(const ipu__hash128 *a, const ipu__hash128 *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

ipu_status ipu__codelet_cache_read(const char *folder, const ipu__hash128 *hash, bool *found,
                                   ipu__codelet_object *out)
{
    char path[PATH_MAX];
    ipu__codelet_cache_path(folder, hash, path);
    *found            = false;
    *out              = (ipu__codelet_object){0};
    ipu_status status = ipu__regular_read(path, IPU__MODULE_LIMIT, &out->data, &out->bytes);
    if (status != IPU_OK) return status == IPU_OUT_OF_MEMORY ? status : IPU_OK;
    out->hash = ipu__hash_bytes(out->data, out->bytes);
    *found    = same_hash(&out->hash, hash);
    if (*found) {
        ipu__folder_note_use(path);
        return IPU_OK;
    }
    ipu__log(IPU_LOG_WARN, "codelets", "%s is damaged: it is made anew", path);
    ipu__free(out->data);
    *out = (ipu__codelet_object){0};
    return IPU_OK;
}

ipu_status ipu__codelet_cache_write(const char *folder, const ipu__codelet_object *object)
{
    char path[PATH_MAX];
    ipu__codelet_cache_path(folder, &object->hash, path);
    return ipu__file_write(path, object->data, object->bytes);
}

/* ---- manifests ----
 *
 *     ipu codelets 1
 *     object <hash>
 *     file <bytes> <time of modification> <of change> <hash> <path>      times in ns
 *     end <hash of the lines above>
 */

static int64_t nanoseconds(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

static ipu_status hash_file(const char *path, char out[IPU__HASH_TEXT])
{
    char  *data;
    size_t bytes;
    IPU_TRY(ipu__regular_read(path, IPU__MODULE_LIMIT, &data, &bytes));
    ipu__hash128 hash = ipu__hash_bytes(data, bytes);
    ipu__hash_print(&hash, out);
    ipu__free(data);
    return IPU_OK;
}

/* Returns false if it may have changed while the compiler read it, or cannot be inspected; the result must
 * not be cached then. */
static bool describe(ipu__text *text, const char *path, int64_t began)
{
    struct stat st;
    char        hash[IPU__HASH_TEXT];
    if (strpbrk(path, "\n\r") || hash_file(path, hash) != IPU_OK || stat(path, &st) != 0) return false;
    if (nanoseconds(st.st_ctim) >= began) return false;
    ipu__text_add(text, "file %lld %" PRId64 " %" PRId64 " %s %s\n", (long long)st.st_size,
                  nanoseconds(st.st_mtim), nanoseconds(st.st_ctim), hash, path);
    return true;
}

void ipu__codelet_cache_note(const char *folder, const ipu__hash128 *key, const ipu__codelet_job *job,
                             const ipu__codelet_object *object)
{
    ipu__text    text = {0};
    char         hash[IPU__HASH_TEXT], path[PATH_MAX];
    ipu__hash128 sum;
    bool         ok = true;
    ipu__hash_print(&object->hash, hash);
    ipu__text_add(&text, "ipu codelets 1\nobject %s\n", hash);
    for (size_t i = 0; ok && i < job->inputs.n; i++) {
        ok = describe(&text, job->inputs.at[i], nanoseconds(job->began));
        if (!ok)
            ipu__log(IPU_LOG_INFO, "codelets", "%s is not kept in the cache: %s changed meanwhile",
                     job->source->name, job->inputs.at[i]);
    }
    ok = ok && !text.failed;
    if (ok) {
        sum = ipu__hash_bytes(text.at, text.n);
        ipu__hash_print(&sum, hash);
        ipu__text_add(&text, "end %s\n", hash);
        entry_path(folder, key, "dep", path);
        if (text.failed || ipu__file_write(path, text.at, text.n) != IPU_OK)
            ipu__log(IPU_LOG_WARN, "codelets", "cannot note %s in the cache: %s", job->source->name,
                     ipu_message());
    }
    ipu__text_fini(&text);
}

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static bool parse_hash(const char *text, ipu__hash128 *out)
{
    for (int i = 0; i < 16; i++) {
        int high = digit(text[2 * i]), low = high < 0 ? -1 : digit(text[2 * i + 1]);
        if (low < 0) return false;
        out->bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* Whether the file still matches "<bytes> <times> <hash> <path>". Equal times save reading it. */
static ipu_status check_file(const char *line, bool *same)
{
    struct stat st;
    long long   bytes;
    int64_t     modified, changed;
    char        hash[IPU__HASH_TEXT], now[IPU__HASH_TEXT];
    int         n = 0;
    *same         = false;
    if (sscanf(line, "%lld %" SCNd64 " %" SCNd64 " %32s %n", &bytes, &modified, &changed, hash, &n) != 4
        || !n)
        return IPU_OK;
    const char *path = line + n;
    if (stat(path, &st) != 0 || st.st_size != bytes) return IPU_OK;
    *same = nanoseconds(st.st_mtim) == modified && nanoseconds(st.st_ctim) == changed;
    if (*same) return IPU_OK;
    ipu_status status = hash_file(path, now);
    *same             = status == IPU_OK && strcmp(hash, now) == 0;
    return status == IPU_OUT_OF_MEMORY ? status : IPU_OK;
}

/* Checks and cuts off the last line, which vouches for the preceding ones. */
static bool is_whole(char *text, size_t bytes)
{
    enum { LAST = sizeof "end \n" - 1 + IPU__HASH_TEXT - 1 };
    ipu__hash128 said, sum;
    if (bytes < LAST || strlen(text) != bytes || strncmp(text + bytes - LAST, "end ", 4) != 0) return false;
    sum                = ipu__hash_bytes(text, bytes - LAST);
    bool whole         = parse_hash(text + bytes - LAST + 4, &said) && same_hash(&sum, &said);
    text[bytes - LAST] = 0;
    return whole;
}

static ipu_status read_manifest(char *text, bool *found, ipu__hash128 *object)
{
    static const char head[] = "ipu codelets 1\nobject ";
    if (strncmp(text, head, sizeof head - 1) != 0 || !parse_hash(text + sizeof head - 1, object))
        return IPU_OK;
    char *save = NULL;
    strtok_r(text + sizeof head - 1, "\n", &save);
    *found = true;
    for (char *line; *found && (line = strtok_r(NULL, "\n", &save));) {
        *found = strncmp(line, "file ", 5) == 0;
        if (*found) IPU_TRY(check_file(line + 5, found));
    }
    return IPU_OK;
}

ipu_status ipu__codelet_cache_find(const char *folder, const ipu__hash128 *key, bool *found,
                                   ipu__hash128 *object)
{
    char   path[PATH_MAX], *text;
    size_t bytes;
    *found = false;
    entry_path(folder, key, "dep", path);
    ipu_status status = ipu__regular_read(path, MANIFEST_LIMIT, &text, &bytes);
    if (status != IPU_OK) return status == IPU_OUT_OF_MEMORY ? status : IPU_OK;
    if (is_whole(text, bytes)) status = read_manifest(text, found, object);
    ipu__free(text);
    if (*found) ipu__folder_note_use(path);
    return status;
}

/* ---- trimming ---- */

static bool is_entry(const char *name)
{
    ipu__hash128 hash;
    size_t       n = IPU__HASH_TEXT - 1;
    return parse_hash(name, &hash) && (strcmp(name + n, ".so") == 0 || strcmp(name + n, ".dep") == 0);
}

/* Folders left by killed compilations. */
static void clear_work(const char *folder)
{
    const time_t hour = 3600;
    struct stat  st;
    char         path[PATH_MAX];
    DIR         *d = opendir(folder);
    if (!d) return;
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (strncmp(e->d_name, work_prefix, sizeof work_prefix - 1) == 0
            && snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path
            && lstat(path, &st) == 0 && st.st_mtime < time(NULL) - hour)
            remove_tree(path);
    closedir(d);
}

void ipu__codelet_cache_trim(const char *folder, uint64_t most_bytes, size_t most_files)
{
    clear_work(folder);
    ipu__folder_clear_rests(folder);
    ipu__folder_trim(folder, is_entry, most_bytes, most_files);
}
