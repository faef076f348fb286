/* The log: levels per module, read from the environment unless the program sets them; one sink, one message
 * at a time. Silent by default. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/host/file.h"

/* Poplar's modules. */
#define MODULE_LIST(X)    \
    X(codelets, CODELETS) \
    X(engine, ENGINE)     \
    X(graph, GRAPH) X(profiler, PROFILER) X(program, PROGRAM) X(target, TARGET) X(tensor, TENSOR)

enum {
#define X(name, upper) MODULE_##upper,
    MODULE_LIST(X)
#undef X
        OTHER, /* any other name */
    N_MODULES
};

static const struct {
    const char *name, *variable;
} modules[N_MODULES] = {
#define X(name, upper) [MODULE_##upper] = {#name, "POPLAR_" #upper "_LOG_LEVEL"},
    MODULE_LIST(X)
#undef X
};

/* `levels` are written under `lock` and read without it. `highest` is their maximum, -1 before they are
 * known, so that an unwanted message costs a single load. */
static atomic_int      levels[N_MODULES];
static atomic_int      highest = -1;
static pthread_mutex_t lock    = PTHREAD_MUTEX_INITIALIZER;
static ipu_log_fn      sink; /* NULL for our own writer */
static void           *sink_user;
static int             destination = -1; /* descriptor of our own writer; -1 until opened */

/* This thread holds `lock` and is delivering: messages logged by the sink itself are dropped. */
static _Thread_local bool delivering;

static void acquire(void)
{
    if (!delivering) pthread_mutex_lock(&lock);
}

static void release(void)
{
    if (!delivering) pthread_mutex_unlock(&lock);
}

static void add_fork_handlers(void) { pthread_atfork(acquire, release, release); }

/* A child forked while another thread delivers must find the lock free. */
static void guard_fork(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, add_fork_handlers);
}

/* ---- our own writer ---- */

static void write_parts(int fd, struct iovec *part, int n)
{
    ipu__size_guard guard = ipu__size_guard_begin();
    while (n) {
        ssize_t done = writev(fd, part, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) break; /* a failing log has nowhere to report it */
        for (; n && (size_t)done >= part->iov_len; part++, n--) done -= (ssize_t)part->iov_len;
        if (n) {
            part->iov_base = (char *)part->iov_base + done;
            part->iov_len -= (size_t)done;
        }
    }
    ipu__size_guard_end(&guard);
}

/* "12:34:56.789 [ipu:engine] W text"; PRINT is bare. A single write, so that processes sharing a file do
 * not mix lines. */
static void write_line(int fd, ipu_log_level level, const char *module, const char *text)
{
    static const char *const names[] = {
#define X(name, level_text) [IPU_LOG_##name] = level_text,
        IPU_LOG_LEVEL_LIST(X)
#undef X
    };
    char            head[96] = "";
    struct timespec now;
    struct tm       local = {0};
    if (level != IPU_LOG_PRINT) {
        clock_gettime(CLOCK_REALTIME, &now);
        localtime_r(&now.tv_sec, &local);
        snprintf(head, sizeof head, "%02d:%02d:%02d.%03d [ipu:%.32s] %c ", local.tm_hour, local.tm_min,
                 local.tm_sec, (int)(now.tv_nsec / 1000000), module, names[level][0]);
    }
    struct iovec part[] = {{head, strlen(head)}, {(char *)(uintptr_t)text, strlen(text)}, {"\n", 1}};
    if (fd == STDOUT_FILENO) fflush(stdout); /* keep the order with what the program printed */
    write_parts(fd, part, 3);
}

static const char *const families[] = {"POPLAR", "POPLIBS", "POPART", "POPTORCH"};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* The value of <family>_LOG_<what>; NULL if unset or empty. */
static const char *family_variable(const char *family, const char *what, char *name, size_t bytes)
{
    snprintf(name, bytes, "%s_LOG_%s", family, what);
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int open_destination(void)
{
    char        name[32];
    const char *path = family_variable("IPU", "DEST", name, sizeof name);
    for (int i = 0; !path && i < N_FAMILIES; i++)
        path = family_variable(families[i], "DEST", name, sizeof name);
    if (!path || strcasecmp(path, "stderr") == 0) return STDERR_FILENO;
    if (strcasecmp(path, "stdout") == 0) return STDOUT_FILENO;
    bool trusted = ipu__file_links_are_trusted(path);
    int  fd      = trusted ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666) : -1;
    if (fd >= 0) return fd;
    char text[256];
    snprintf(text, sizeof text, "%s: cannot write %.150s (%s): the log goes to stderr", name, path,
             trusted ? strerror(errno) : "another user's link");
    write_line(STDERR_FILENO, IPU_LOG_WARN, "log", text);
    return STDERR_FILENO;
}

static void write_own(ipu_log_level level, const char *module, const char *text)
{
    if (destination < 0) destination = open_destination();
    write_line(destination, level, module, text);
}

/* ---- levels ---- */

/* -1 if it is not a level. */
static int level_of(const char *text)
{
    static const struct {
        const char *name;
        int         level;
    } names[] = {
#define X(name, level_text) {level_text, IPU_LOG_##name},
        IPU_LOG_LEVEL_LIST(X)
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(names[i].name, text) == 0) return names[i].level;
    return -1;
}

/* An invalid value is still a request: log from WARN on, and report it. */
static int level_or_warn(const char *variable, const char *value)
{
    int level = level_of(value);
    if (level >= 0) return level;
    char text[192];
    snprintf(text, sizeof text,
             "%s: expected OFF, ERR, WARN, INFO, DEBUG or TRACE, found \"%.40s\": taken as WARN", variable,
             value);
    write_own(IPU_LOG_WARN, "log", text);
    return IPU_LOG_WARN;
}

static int general_level(void)
{
    char        name[32];
    const char *value = family_variable("IPU", "LEVEL", name, sizeof name);
    if (value) return level_or_warn(name, value);
    int level = IPU_LOG_OFF;
    for (int i = 0; i < N_FAMILIES; i++) {
        value   = family_variable(families[i], "LEVEL", name, sizeof name);
        int one = value ? level_or_warn(name, value) : IPU_LOG_OFF;
        if (one > level) level = one;
    }
    return level;
}

/* The levels, read from the environment unless set before. */
static int known_highest(void)
{
    int top = atomic_load_explicit(&highest, memory_order_acquire);
    if (top >= 0) return top;
    guard_fork();
    acquire();
    top = atomic_load_explicit(&highest, memory_order_relaxed);
    if (top < 0) {
        int general = top = general_level();
        for (int m = 0; m < N_MODULES; m++) {
            const char *value = modules[m].variable ? getenv(modules[m].variable) : NULL;
            int         level = value && *value ? level_or_warn(modules[m].variable, value) : general;
            atomic_store_explicit(&levels[m], level, memory_order_relaxed);
            if (level > top) top = level;
        }
        atomic_store_explicit(&highest, top, memory_order_release);
    }
    release();
    return top;
}

void ipu_log_set(ipu_log_level level, ipu_log_fn fn, void *user)
{
    int wanted = (int)level < IPU_LOG_OFF ? IPU_LOG_OFF : level > IPU_LOG_TRACE ? IPU_LOG_TRACE : level;
    guard_fork();
    acquire();
    sink      = fn;
    sink_user = user;
    for (int m = 0; m < N_MODULES; m++) atomic_store_explicit(&levels[m], wanted, memory_order_relaxed);
    atomic_store_explicit(&highest, wanted, memory_order_release);
    release();
}

static bool environment_names(const char *what)
{
    char name[32];
    bool any = family_variable("IPU", what, name, sizeof name) != NULL;
    for (int i = 0; i < N_FAMILIES; i++) any |= family_variable(families[i], what, name, sizeof name) != NULL;
    return any;
}

void ipu_log_set_default(ipu_log_level level, ipu_log_fn fn, void *user)
{
    bool is_told = environment_names("LEVEL");
    for (int m = 0; m < N_MODULES; m++) {
        const char *value = modules[m].variable ? getenv(modules[m].variable) : NULL;
        is_told |= value && *value;
    }
    if (!is_told) ipu_log_set(level, environment_names("DEST") ? NULL : fn, user);
}

bool ipu__log_wants(ipu_log_level level, const char *module)
{
    if (level == IPU_LOG_OFF || (int)level > known_highest()) return false;
    int m = 0;
    while (m < OTHER && strcmp(modules[m].name, module) != 0) m++;
    return (int)level <= atomic_load_explicit(&levels[m], memory_order_relaxed);
}

/* ---- messages ---- */

static void deliver(ipu_log_level level, const char *module, const char *text)
{
    if (delivering) return;
    acquire();
    delivering = true;
    if (sink)
        sink(sink_user, level, module, text);
    else
        write_own(level, module, text);
    delivering = false;
    release();
}

void ipu__log_text(ipu_log_level level, const char *module, const char *text)
{
    if (ipu__log_wants(level, module)) deliver(level, module, text);
}

void ipu__log(ipu_log_level level, const char *module, const char *format, ...)
{
    if (!ipu__log_wants(level, module)) return;
    char    small[512], *text = small;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    if (n >= (int)sizeof small) {
        char *large = ipu__alloc((size_t)n + 1); /* allocation refused: better truncated than nothing */
        if (large) {
            vsnprintf(large, (size_t)n + 1, format, again);
            text = large;
        }
    }
    va_end(again);
    va_end(args);
    if (n >= 0) deliver(level, module, text);
    if (text != small) ipu__free(text);
}
