/* Creating and removing this host's partitions: a file in the user's folder, and the associated state. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "base/host/folder.h"
#include "base/status.h"
#include "device/config.h"
#include "device/holder.h"
#include "device/ipuof.h"
#include "ipu/target.h"

/* ---- making ---- */

static ipu_status fail_exists(const char *name, const char *path)
{
    return ipu__fail(
        IPU_INVALID,
        "partition %s exists (%s): remove it first (ipu partition remove %s) or take another name", name,
        path, name);
}

/* All or nothing, and never over another file. */
static ipu_status write_new(const char *name, const char *folder, const char *text)
{
    char          path[PATH_MAX + 80], reason[IPU__FILE_REASON];
    struct stat   st;
    ipu__new_file file;
    snprintf(path, sizeof path, "%s/%s.conf", folder, name);
    ipu__folder_clear_rests(folder);
    IPU_TRY(ipu__file_begin(path, &file));
    bool ok = fstat(file.fd, &st) == 0 && fchmod(file.fd, st.st_mode & 0644) == 0
           && ipu__file_append(&file, text, strlen(text));
    if (ok && ipu__file_commit_new(&file)) return IPU_OK;
    int error = errno;
    if (!ok) ipu__file_abandon(&file);
    if (error == EEXIST) return fail_exists(name, path);
    return ipu__fail(IPU_IO, "cannot write %s: %s", path, ipu__file_reason(error, reason));
}

static ipu_status create(ipu__arena *arena, const char *name, const ipu__partition_spec *spec)
{
    char          folder[PATH_MAX], *text;
    ipu__config   config;
    ipu_partition p;
    IPU_TRY(ipu__partition_build(arena, spec, &p));
    IPU_TRY(ipu__config_user_folder(folder));
    IPU_TRY(ipu__config_load_user(arena, &config));
    for (size_t i = 0; i < config.n; i++)
        if (strcmp(config.partitions[i].name, name) == 0) return fail_exists(name, config.partitions[i].file);
    if (mkdir(folder, 0755) != 0 && errno != EEXIST)
        return ipu__fail(IPU_IO, "cannot make %s: %s", folder, strerror(errno));
    ipu__partition_spec whole = *spec;
    whole.n_ipus              = (int64_t)p.n_ipus;
    IPU_TRY(ipu__ipuof_print(&whole, &text));
    ipu_status status = write_new(name, folder, text);
    ipu__free(text);
    return status;
}

ipu_status ipu_partition_create(const char *name, const ipu_partition_options *options)
{
    static const ipu_partition_options standard;
    const ipu_partition_options       *o     = options ? options : &standard;
    ipu__arena                         arena = {0};
    IPU_TRY(ipu__partition_check_name(name));
    ipu__partition_spec spec   = {.name   = name,
                                  .target = o->target ? o->target : "m2000",
                                  .n_ipus = o->n_ipus,
                                  .fixed  = o->fixed,
                                  .hard   = !o->elastic};
    ipu_status          status = create(&arena, name, &spec);
    ipu__arena_fini(&arena);
    return status;
}

/* ---- removing ---- */

/* While holding all of its IPUs, so that nobody attaches in the meantime. */
static ipu_status remove_state(const ipu_partition *p)
{
    ipu__state *state;
    char        holders[640];
    IPU_TRY(ipu__state_open(p->name, p->gcd, false, &state));
    ipu_status status = IPU_OK;
    if (state && !ipu__state_take(state, 0, IPU__N_SLOTS)) {
        ipu__holders_text(state, 0, IPU__N_SLOTS, holders, sizeof holders);
        ipu__state_close(state);
        return ipu__fail(IPU_BUSY, "partition %s is in use: held are %s: end that first", p->name, holders);
    }
    if (unlink(p->file) != 0 && errno != ENOENT)
        status = ipu__fail(IPU_IO, "cannot remove %s: %s", p->file, strerror(errno));
    else if (state)
        status = ipu__state_remove(p->name, p->gcd);
    if (state) ipu__state_give(state, 0, IPU__N_SLOTS);
    ipu__state_close(state);
    return status;
}

static ipu_status remove_all(ipu__arena *arena, const char *name)
{
    ipu__config config;
    bool        found = false;
    IPU_TRY(ipu__config_load_user(arena, &config));
    for (size_t i = 0; i < config.n; i++) {
        if (strcmp(config.partitions[i].name, name) != 0) continue;
        found = true;
        ipu__state_lock();
        ipu_status status = remove_state(&config.partitions[i]);
        ipu__state_unlock();
        IPU_TRY(status);
    }
    if (found) return IPU_OK;
    IPU_TRY(ipu__config_load(arena, &config));
    for (size_t i = 0; i < config.n; i++) {
        if (strcmp(config.partitions[i].name, name) != 0) continue;
        if (*config.partitions[i].file)
            return ipu__fail(IPU_INVALID,
                             "partition %s is configured by %s, not in ~/.ipuof.conf.d: remove it there",
                             name, config.partitions[i].file);
        return ipu__fail(
            IPU_INVALID,
            "partition %s cannot be removed: it is the default, which is there while no other is "
            "configured: ipu partition create makes one",
            name);
    }
    return ipu__fail(IPU_NOT_FOUND, "there is no partition %.80s: ipu partition list says which there are",
                     name);
}

ipu_status ipu_partition_remove(const char *name)
{
    ipu__arena arena  = {0};
    ipu_status status = remove_all(&arena, name);
    ipu__arena_fini(&arena);
    return status;
}
