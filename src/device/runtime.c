/* The folder for state. Never uses a folder that belongs to another user, who could block or forge its
 * contents. */
#include "device/runtime.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/host/folder.h"
#include "base/log.h"
#include "ipu/device.h"

static bool is_own_folder(const struct stat *st)
{
    return S_ISDIR(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* Returns false if longer than a path may be. */
static bool join(char out[PATH_MAX], const char *folder, const char *name)
{
    int n = snprintf(out, PATH_MAX, "%s%s", folder, name);
    return n > 0 && n < PATH_MAX;
}

/* The folder offered by `base`, if it belongs to the user; XDG requires an absolute path. */
static bool offered(const char *base, char out[PATH_MAX])
{
    struct stat st;
    return base && *base == '/' && stat(base, &st) == 0 && is_own_folder(&st) && join(out, base, "/openipu");
}

/* Where state may be unless IPU_RUNTIME_DIR says. Returns false if there is no candidate i for this user. In /tmp
 * anyone could create the folder first, in the user's home nobody else can. Homes are shared between hosts, whereas
 * IPUs are not. */
static bool candidate(int i, char out[PATH_MAX])
{
    char          text[PATH_MAX], host[65] = "";
    struct stat   st;
    const char   *home = getenv("HOME"), *state = getenv("XDG_STATE_HOME");
    unsigned long user = (unsigned long)geteuid();
    if (i == 0) return offered(getenv("XDG_RUNTIME_DIR"), out);
    if (i == 1) return snprintf(text, sizeof text, "/run/user/%lu", user) > 0 && offered(text, out);
    if (i == 2) return snprintf(out, PATH_MAX, "/tmp/openipu-%lu", user) > 0;
    if (gethostname(host, sizeof host - 1) != 0 || !*host || strchr(host, '/')) strcpy(host, "host");
    int         n    = snprintf(text, sizeof text, i == 3 ? "/openipu-%s" : "/.openipu-%s", host);
    const char *base = i == 3 ? state : home;
    return n > 0 && base && *base == '/' && stat(base, &st) == 0 && is_own_folder(&st)
        && join(out, base, text);
}

enum { N_CANDIDATES = 5 };

static bool is_usable(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && is_own_folder(&st);
}

/* ---- what is to be logged ---- */

/* Notes are made under the state's lock, and the log has its own. There is no lock here, which a fork could leave
 * taken: a note made while another one is pending is lost. */
enum { EMPTY, WRITING, WAITING };
static char        note[2 * PATH_MAX];
static atomic_int  stage;
static atomic_bool is_passed_over;

void ipu__runtime_note(const char *format, ...)
{
    int     expected = EMPTY;
    va_list args;
    if (!atomic_compare_exchange_strong(&stage, &expected, WRITING)) return;
    va_start(args, format);
    vsnprintf(note, sizeof note, format, args);
    va_end(args);
    atomic_store(&stage, WAITING);
}

void ipu__runtime_tell(void)
{
    int  expected = WAITING;
    char text[sizeof note];
    if (!atomic_compare_exchange_strong(&stage, &expected, WRITING)) return;
    memcpy(text, note, sizeof text);
    atomic_store(&stage, EMPTY);
    ipu__log_text(IPU_LOG_WARN, "device", text);
}

/* Once per process. */
static void note_passed_over(const char *path, const char *instead)
{
    if (!atomic_exchange(&is_passed_over, true))
        ipu__runtime_note("%.400s is not user %lu's alone: the state of devices is in %.400s", path,
                          (unsigned long)geteuid(), instead);
}

/* ---- choosing ---- */

/* The first that exists and belongs to the user, so that all processes arrive at the same one, even if an obstacle
 * that an earlier one met is gone. If there is none, the first that can be created. "" if all fail; `*blocked`:
 * because existing files are in the way. */
static void choose(bool create, char out[PATH_MAX], bool *blocked)
{
    char        first[PATH_MAX] = "", path[PATH_MAX];
    struct stat st;
    bool        is_free = false;
    for (int make = 0, passes = create ? 2 : 1; make < passes; make++)
        for (int i = 0; i < N_CANDIDATES; i++) {
            if (!candidate(i, path)) continue;
            if (make) mkdir(path, 0700);
            if (is_usable(path)) {
                if (*first) note_passed_over(first, path);
                memcpy(out, path, sizeof path);
                return;
            }
            if (lstat(path, &st) != 0)
                is_free = true;
            else if (!*first)
                memcpy(first, path, sizeof path);
        }
    *blocked = *first && !is_free;
    *out     = 0;
}

static ipu_status fail_folder(const char *path, const struct stat *st)
{
    return ipu__fail(
        IPU_IO,
        "the state of devices cannot be kept in %s: expected a folder of user %lu's that no other "
        "may write to, found %s of user %lu's (mode %03o): set IPU_RUNTIME_DIR to another folder",
        path, (unsigned long)geteuid(), S_ISDIR(st->st_mode) ? "a folder" : "something else",
        (unsigned long)st->st_uid, (unsigned)st->st_mode & 0777u);
}

/* The folder in IPU_RUNTIME_DIR, or whatever blocks all the others. */
static ipu_status use(const char *path, bool create, bool *exists)
{
    struct stat st;
    if (create && mkdir(path, 0700) != 0 && errno != EEXIST)
        return ipu__fail(IPU_IO,
                         "cannot make the folder %s for the state of devices: %s: set IPU_RUNTIME_DIR to a "
                         "folder of yours",
                         path, strerror(errno));
    *exists = lstat(path, &st) == 0;
    if (!*exists && !create && errno == ENOENT) return IPU_OK;
    if (!*exists) return ipu__fail(IPU_IO, "cannot use the folder %s: %s", path, strerror(errno));
    return is_own_folder(&st) ? IPU_OK : fail_folder(path, &st);
}

ipu_status ipu__runtime_folder(bool create, char out[PATH_MAX], bool *exists)
{
    const char *given = getenv("IPU_RUNTIME_DIR");
    if (given && *given) {
        if (join(out, given, "")) return use(out, create, exists);
        return ipu__fail(IPU_IO, "IPU_RUNTIME_DIR: the path is too long: %.60s...", given);
    }
    bool blocked = false;
    choose(create, out, &blocked);
    *exists = *out != 0;
    if (*exists || !(create || blocked)) return IPU_OK;
    candidate(2, out);
    return use(out, create, exists);
}

ipu_status ipu_device_folder(char *out, size_t bytes)
{
    char folder[PATH_MAX], whole[PATH_MAX];
    bool exists;
    IPU_TRY(ipu__runtime_folder(true, folder, &exists));
    ipu__runtime_tell();
    if (!realpath(folder, whole))
        return ipu__fail(IPU_IO, "cannot use the folder %s: %s", folder, strerror(errno));
    int n = snprintf(out, bytes, "%s", whole);
    return n >= 0 && (size_t)n < bytes
             ? IPU_OK
             : ipu__fail(IPU_INVALID, "%zu bytes are too few for \"%s\"", bytes, whole);
}

/* ---- clearing ---- */

/* The names used by earlier versions: .event.PID, NAME.gcdN.ipus1.PID. */
static bool is_old_temporary(const char *name, pid_t *writer)
{
    static const char *const before[] = {".event.", ".ipus1."};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        const char *at = strstr(name, before[i]), *number = at ? at + strlen(before[i]) : "";
        char       *end;
        if (*number < '1' || *number > '9') continue;
        long pid = strtol(number, &end, 10);
        *writer  = (pid_t)pid;
        if (!*end && pid > 0 && pid <= INT_MAX) return true;
    }
    return false;
}

void ipu__runtime_clear(const char *folder)
{
    ipu__folder_clear_rests(folder);
    ipu__folder_clear(folder, is_old_temporary);
}
