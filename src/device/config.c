/* The source of configuration: IPUOF_CONFIG_PATH, the user's folder, or the system's, whichever is the
 * first to have any; or none. */
#include "device/config.h"

#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/host/file.h"
#include "base/host/regular.h"
#include "base/status.h"
#include "device/ipuof.h"

#define SYSTEM_FOLDER "/etc/ipuof.conf.d"

enum { MOST_BYTES = 1 << 20 };

typedef IPU__ARRAY(ipu_partition) partitions;

/* ---- files ---- */

typedef ipu_status (*read_fn)(const char *path, size_t limit, char **out, size_t *bytes);

/* A file named by the user may be a pipe, e.g. from a shell's <(...); files found in a folder must not
 * block. */
static ipu_status add_file(ipu__arena *arena, const char *path, read_fn read_whole, partitions *to)
{
    char               *text;
    size_t              bytes;
    ipu__partition_spec spec;
    ipu_partition       p;
    IPU_TRY(read_whole(path, MOST_BYTES, &text, &bytes));
    ipu_status status = ipu__ipuof_parse(arena, path, text, bytes, &spec);
    ipu__free(text);
    if (status == IPU_OK) status = ipu__partition_build(arena, &spec, &p);
    if (status != IPU_OK) return status;
    for (size_t i = 0; i < to->n; i++)
        if (strcmp(to->at[i].name, p.name) == 0 && to->at[i].gcd == p.gcd)
            return ipu__fail(
                IPU_INVALID,
                "%s and %s both configure GCD %d of partition %s: remove one, or give one another "
                "\"partition\" or another \"GCD Id\" in \"attributes\"",
                to->at[i].file, path, p.gcd, p.name);
    return ipu__push(to, p) ? IPU_OK : ipu__fail_memory();
}

static int is_config(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' && dot && (strcmp(dot, ".conf") == 0 || strcmp(dot, ".config") == 0);
}

/* A missing folder counts as empty. */
static ipu_status add_folder(ipu__arena *arena, const char *folder, partitions *to)
{
    struct dirent **entries = NULL;
    char            path[PATH_MAX];
    ipu_status      status = IPU_OK;
    int             n      = scandir(folder, &entries, is_config, alphasort);
    if (n < 0 && (errno == ENOENT || errno == ENOTDIR)) return IPU_OK;
    if (n < 0) return ipu__fail(IPU_IO, "cannot read %s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (status == IPU_OK) {
            snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
            status = add_file(arena, path, ipu__regular_read, to);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

ipu_status ipu__config_user_folder(char out[PATH_MAX])
{
    const char   *home = getenv("HOME");
    struct passwd entry, *found = NULL;
    char          buffer[4096];
    if ((!home || !*home) && getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found)
        home = found->pw_dir;
    if (!home || *home != '/')
        return ipu__fail(IPU_IO, "there is no home folder to look for .ipuof.conf.d in: set HOME");
    int n = snprintf(out, PATH_MAX, "%s/.ipuof.conf.d", home);
    return n < PATH_MAX ? IPU_OK : ipu__fail(IPU_IO, "HOME: the path is too long: %.60s...", home);
}

/* ---- the places, in order ---- */

static ipu_status check_no_server(void)
{
    static const char *const variables[] = {"IPUOF_VIPU_API_HOST", "IPUOF_VIPU_API_PARTITION_ID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (value && *value)
            return ipu__fail(
                IPU_UNSUPPORTED,
                "%s=%.80s asks for a partition of a V-IPU server, and OpenIPU has no server yet: unset "
                "it, and configure a partition by a file (IPUOF_CONFIG_PATH, ~/.ipuof.conf.d) or none",
                variables[i], value);
    }
    return IPU_OK;
}

static ipu_status find_files(ipu__arena *arena, partitions *to)
{
    char        folder[PATH_MAX];
    const char *file = getenv("IPUOF_CONFIG_PATH");
    if (file && *file) {
        ipu_status status = add_file(arena, file, ipu__file_read, to);
        return status == IPU_IO
                 ? ipu__fail(status, "IPUOF_CONFIG_PATH: %s: correct or unset it", ipu_message())
                 : status;
    }
    if (ipu__config_user_folder(folder) == IPU_OK) IPU_TRY(add_folder(arena, folder, to));
    return to->n > 0 ? IPU_OK : add_folder(arena, SYSTEM_FOLDER, to);
}

static ipu_status add_default(ipu__arena *arena, partitions *to)
{
    static const ipu__partition_spec standard;
    ipu_partition                    p;
    IPU_TRY(ipu__partition_build(arena, &standard, &p));
    return ipu__push(to, p) ? IPU_OK : ipu__fail_memory();
}

/* ---- what is made of them ---- */

static int by_name(const void *a, const void *b)
{
    const ipu_partition *x = a, *y = b;
    int                  order = strcmp(x->name, y->name);
    return order ? order : (x->gcd > y->gcd) - (x->gcd < y->gcd);
}

static ipu_status find_active(ipu__config *config)
{
    const char *wanted = getenv("IPU_PARTITION");
    config->active     = 0;
    if (!wanted || !*wanted) return IPU_OK;
    for (; config->active < config->n; config->active++)
        if (strcmp(config->partitions[config->active].name, wanted) == 0) return IPU_OK;
    return ipu__fail(IPU_NOT_FOUND,
                     "IPU_PARTITION=%.80s: there is no such partition; there %s %s%s: correct or unset it",
                     wanted, config->n > 1 ? "are" : "is", config->partitions[0].name,
                     config->n > 1 ? " and others" : "");
}

static ipu_status apply_elastic(ipu__config *config)
{
    const char *value = getenv("IPU_ELASTIC");
    if (!value || !*value) return IPU_OK;
    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
        return ipu__fail(IPU_INVALID, "IPU_ELASTIC: expected 0 or 1, found \"%.40s\": correct or unset it",
                         value);
    for (size_t i = 0; i < config->n; i++) config->partitions[i].elastic = *value == '1';
    return IPU_OK;
}

static ipu_status settle(ipu__arena *arena, const partitions *found, ipu__config *out)
{
    out->n          = found->n;
    out->partitions = ipu__arena_copy(arena, found->at, found->n * sizeof *found->at);
    if (!out->partitions) return ipu__fail_memory();
    qsort(out->partitions, out->n, sizeof *out->partitions, by_name);
    for (size_t i = 1; i < out->n; i++)
        out->partitions[i].n_before = out->partitions[i - 1].n_before + (int)out->partitions[i - 1].n_ipus;
    IPU_TRY(find_active(out));
    out->partitions[out->active].active = true;
    return apply_elastic(out);
}

ipu_status ipu__config_load(ipu__arena *arena, ipu__config *out)
{
    partitions found = {0};
    IPU_TRY(check_no_server());
    ipu_status status = find_files(arena, &found);
    if (status == IPU_OK && found.n == 0) status = add_default(arena, &found);
    if (status == IPU_OK) status = settle(arena, &found, out);
    ipu__array_fini(&found);
    return status;
}

ipu_status ipu__config_load_user(ipu__arena *arena, ipu__config *out)
{
    char       folder[PATH_MAX];
    partitions found = {0};
    *out             = (ipu__config){0};
    IPU_TRY(ipu__config_user_folder(folder));
    ipu_status status = add_folder(arena, folder, &found);
    if (status == IPU_OK && found.n > 0) {
        out->n          = found.n;
        out->partitions = ipu__arena_copy(arena, found.at, found.n * sizeof *found.at);
        if (!out->partitions) status = ipu__fail_memory();
    }
    ipu__array_fini(&found);
    return status;
}
