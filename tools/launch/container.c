/* Builds the command line of a container that has the caller's virtual IPUs: user, folders, environment. */
#include "launch/container.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/devices.h"
#include "output.h"
#include "words.h"

#define STATE_THERE "/run/openipu"
#define CONFIG_THERE "/etc/ipuof.conf.d" /* where the library looks after the user's folder */

/* ---- what is mounted ---- */

/* --mount, not -v: it does not create missing source folders as root, and accepts colons. */
static tool_exit add_mount(words *w, const char *from, const char *to, bool readonly)
{
    if (strpbrk(from, ",\"\n") || strpbrk(to, ",\"\n"))
        return tool_fail(
            "%s cannot be given to a container: expected a path without commas, quotes and newlines: "
            "move it, and set IPU_RUNTIME_DIR or IPUOF_CONFIG_PATH",
            from);
    words_add(w, "--mount");
    words_add_format(w, "type=bind,source=%s,target=%s%s", from, to, readonly ? ",readonly" : "");
    return TOOL_OK;
}

static tool_exit add_state(words *w)
{
    char folder[PATH_MAX];
    if (ipu_device_folder(folder, sizeof folder) != IPU_OK) return tool_fail("%s", ipu_message());
    words_add_two(w, "--env", "IPU_RUNTIME_DIR=" STATE_THERE);
    return add_mount(w, folder, STATE_THERE, false);
}

/* `file` configures the active partition. If it does not name one, its own name does, so it keeps that. */
static tool_exit add_configuration(words *w, const char *file)
{
    const char *slash = strrchr(file, '/'), *one = getenv("IPUOF_CONFIG_PATH");
    const char *base = slash ? slash + 1 : file;
    char        folder[PATH_MAX], whole[PATH_MAX], there[PATH_MAX];
    if (!*file) return TOOL_OK; /* the default: the library finds it inside as well */
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - file) : 0, file);
    if (!realpath(one && *one ? file : folder, whole))
        return tool_fail("cannot give %s to a container: %s", file, strerror(errno));
    if (!one || !*one) return add_mount(w, whole, CONFIG_THERE, true);
    snprintf(there, sizeof there, "%s/%s", CONFIG_THERE, base);
    words_add(w, "--env");
    words_add_format(w, "IPUOF_CONFIG_PATH=%s", there);
    return add_mount(w, whole, there, true);
}

/* ---- the environment ---- */

static bool is_one_of(const char *variable, const char *const *names, size_t n, bool whole)
{
    size_t length = strcspn(variable, "=");
    for (size_t i = 0; i < n; i++)
        if (!strncmp(variable, names[i], strlen(names[i])) && (!whole || strlen(names[i]) == length))
            return true;
    return false;
}

static bool is_passed_on(const char *variable)
{
    static const char *const begins[] = {"IPU_", "IPUOF_", "GCDA_", "POPLAR_", "POPTORCH_"};
    /* Not passed on: paths of this host, variables set otherwise, and a secret of `ipu monitor`. */
    static const char *const stay[] = {
        "IPU_RUNTIME_DIR", "IPUOF_CONFIG_PATH",  "IPU_DEVICE_ID",    "IPU_LIBRARY",
        "IPU_CC",          "IPU_COMM_PATH",      "IPU_CACHE_DIR",    "POPTORCH_CACHE_DIR",
        "IPU_SDK_ENABLED", "POPLAR_SDK_ENABLED", "IPU_MONITOR_TOKEN"};
    return is_one_of(variable, begins, sizeof begins / sizeof *begins, false)
        && !is_one_of(variable, stay, sizeof stay / sizeof *stay, true);
}

/* With values, so that --echo prints the complete line, and sorted, so that it is always the same. */
static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static tool_exit add_environment(words *w)
{
    size_t n = 0, n_all = 0;
    while (environ[n_all]) n_all++;
    char **some = calloc(n_all + 1, sizeof *some);
    if (!some) return tool_fail("out of memory");
    for (size_t i = 0; i < n_all; i++)
        if (is_passed_on(environ[i])) some[n++] = environ[i];
    qsort(some, n, sizeof *some, by_text);
    for (size_t i = 0; i < n; i++) words_add_two(w, "--env", some[i]);
    free(some);
    return TOOL_OK;
}

/* ---- the device ---- */

/* From the option, else from the environment; *out is NULL for all. */
static tool_exit find_device(const char *command, const tool_arguments *args, int option,
                             const ipu_partition *p, const char **out)
{
    const ipu_device_info *info;
    int                    at   = 0, id;
    const char            *text = tool_next(args, option, &at);
    if (text && tool_next(args, option, &at))
        return tool_usage(command,
                          "--device-id: expected once: `gc-info -l` lists groups, which have ids too");
    if (text && !device_number(text, &id)) return TOOL_USAGE;
    *out = text ? text : getenv("IPU_DEVICE_ID");
    if (!text) return TOOL_OK;
    return ipu_partition_find_device(p, id, &info) == IPU_OK ? TOOL_OK : tool_fail("%s", ipu_message());
}

/* ---- all of it ---- */

static void add_user(words *w, const container_program *program)
{
    if (program->maps_users && geteuid() != 0) words_add_two(w, "--userns", "keep-id");
    words_add(w, "--user");
    words_add_format(w, "%lu:%lu", (unsigned long)geteuid(), (unsigned long)getegid());
}

static tool_exit build(words *w, const container_program *program, const ipu_partition *active,
                       const char *device)
{
    words_add_two(w, program->name, "run");
    add_user(w, program);
    tool_exit code = add_state(w);
    if (code == TOOL_OK) code = add_configuration(w, active->file);
    if (code == TOOL_OK) code = add_environment(w);
    if (code == TOOL_OK && device && *device) {
        words_add(w, "--env");
        words_add_format(w, "IPU_DEVICE_ID=%s", device);
    }
    return code;
}

static tool_exit become(const container_program *program, const words *w)
{
    fflush(stdout);
    tool_default_signals();
    execvp(w->at[0], w->at);
    if (errno == ENOENT)
        return tool_fail(
            "there is no %s on the PATH: install it (Debian: %s), or put it there; --echo prints the "
            "command for another machine",
            program->name, program->package);
    return tool_fail("cannot start %s: %s", program->name, strerror(errno));
}

/* `gc-docker run ARGUMENTS` equals `gc-docker -- ARGUMENTS`; after `--`, `run` would be an image. */
static int first_argument(const tool_arguments *args)
{
    bool parted = !strcmp(args->operands[-1], "--"); /* operands[-1] exists: at least the command's name */
    return !parted && !strcmp(args->operands[0], "run") ? 1 : 0;
}

tool_exit container_run(const container_program *program, const tool_arguments *args, int device_option,
                        bool echo)
{
    ipu_device_list *list;
    const char      *device = NULL;
    words            w      = {0};
    int              first  = first_argument(args);
    if (first == args->n_operands)
        return tool_usage(program->name, "expected an image, and what else `%s run` takes", program->name);
    if (ipu_device_list_create(0, &list) != IPU_OK) return tool_fail("%s", ipu_message());
    const ipu_partition *active = ipu_device_list_active(list);
    tool_exit            code   = find_device(program->name, args, device_option, active, &device);
    if (code == TOOL_OK) code = build(&w, program, active, device);
    for (int i = first; i < args->n_operands; i++) words_add(&w, args->operands[i]);
    if (code == TOOL_OK && w.failed) code = tool_fail("out of memory");
    if (code == TOOL_OK && echo)
        words_print(&w, stdout);
    else if (code == TOOL_OK)
        code = become(program, &w);
    words_free(&w);
    ipu_device_list_destroy(list);
    return code;
}
