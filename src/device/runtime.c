/* The folder of the state. A folder of another user's is never used: they could hold or forge what is in
 * it. */
#include "device/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipu/device.h"

static bool is_own_folder(const struct stat *st)
{
    return S_ISDIR(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* False: longer than a path may be. */
static bool join(char out[PATH_MAX], const char *folder, const char *name)
{
    int n = snprintf(out, PATH_MAX, "%s%s", folder, name);
    return n > 0 && n < PATH_MAX;
}

/* The folder that `base` offers, if that is the user's own; the rules of XDG ask that it is an absolute
 * path. */
static bool offered(const char *base, char out[PATH_MAX])
{
    struct stat st;
    return base && *base == '/' && stat(base, &st) == 0 && is_own_folder(&st) && join(out, base, "/openipu");
}

static ipu_status choose(char out[PATH_MAX])
{
    char        user[64];
    const char *given = getenv("IPU_RUNTIME_DIR");
    if (given && *given)
        return join(out, given, "")
                 ? IPU_OK
                 : ipu__fail(IPU_IO, "IPU_RUNTIME_DIR: the path is too long: %.60s...", given);
    snprintf(user, sizeof user, "/run/user/%lu", (unsigned long)geteuid());
    if (offered(getenv("XDG_RUNTIME_DIR"), out) || offered(user, out)) return IPU_OK;
    snprintf(out, PATH_MAX, "/tmp/openipu-%lu", (unsigned long)geteuid());
    return IPU_OK;
}

ipu_status ipu__runtime_folder(bool create, char out[PATH_MAX], bool *exists)
{
    struct stat st;
    IPU_TRY(choose(out));
    if (create && mkdir(out, 0700) != 0 && errno != EEXIST)
        return ipu__fail(IPU_IO,
                         "cannot make the folder %s for the state of devices: %s: set IPU_RUNTIME_DIR to a "
                         "folder of yours",
                         out, strerror(errno));
    *exists = lstat(out, &st) == 0;
    if (!*exists && !create && errno == ENOENT) return IPU_OK;
    if (!*exists) return ipu__fail(IPU_IO, "cannot use the folder %s: %s", out, strerror(errno));
    if (is_own_folder(&st)) return IPU_OK;
    return ipu__fail(
        IPU_IO,
        "the state of devices cannot be kept in %s: expected a folder of user %lu's that no other "
        "may write to, found %s of user %lu's (mode %03o): set IPU_RUNTIME_DIR to another folder",
        out, (unsigned long)geteuid(), S_ISDIR(st.st_mode) ? "a folder" : "something else",
        (unsigned long)st.st_uid, (unsigned)st.st_mode & 0777u);
}

ipu_status ipu_device_folder(char *out, size_t bytes)
{
    char folder[PATH_MAX], whole[PATH_MAX];
    bool exists;
    IPU_TRY(ipu__runtime_folder(true, folder, &exists));
    if (!realpath(folder, whole))
        return ipu__fail(IPU_IO, "cannot use the folder %s: %s", folder, strerror(errno));
    int n = snprintf(out, bytes, "%s", whole);
    return n >= 0 && (size_t)n < bytes
             ? IPU_OK
             : ipu__fail(IPU_INVALID, "%zu bytes are too few for \"%s\"", bytes, whole);
}
