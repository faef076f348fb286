/* The commands' errors, numbers, JSON and files. Every failed write is reported. */
#include "output.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harmless.h"
#include "ipu/log.h"

enum { READ_LIMIT = 1 << 30 }; /* no real text form is that large */

/* ---- errors ---- */

static const char *called; /* NULL for `ipu` */

void tool_called_as(const char *link) { called = link; }
bool tool_is_link(void) { return called != NULL; }

void tool_put_called(FILE *out, const char *command)
{
    bool frame = !command || !strcmp(command, "ipu");
    fputs(called ? called : "ipu", out);
    if (!called && !frame) fprintf(out, " %s", command);
}

/* In one write, so that output of other commands (--exec) cannot get into a line. */
__attribute__((format(printf, 2, 0))) static void tell(const char *kind, const char *format, va_list args)
{
    char *text = NULL;
    fflush(stdout);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    if (text) harmless_lines(text); /* file names and names chosen by others */
    fprintf(stderr, "%s: %s%s\n", called ? called : "ipu", kind, text ? text : "out of memory");
    free(text);
}

tool_exit tool_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell("", format, args);
    va_end(args);
    return TOOL_FAILED;
}

void tool_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell("warning: ", format, args);
    va_end(args);
}

/* On a line of its own, even while progress is shown. Output of programs (IPU_LOG_PRINT) is passed through as
 * is. */
static void show_log(void *user, ipu_log_level level, const char *module, const char *text)
{
    (void)user, (void)module;
    fflush(stdout);
    const char *clear = isatty(STDERR_FILENO) ? "\r\033[K" : "", *name = called ? called : "ipu";
    if (level == IPU_LOG_PRINT)
        fprintf(stderr, "%s%s\n", clear, text);
    else
        fprintf(stderr, "%s%s: %s%s\n", clear, name, level == IPU_LOG_WARN ? "warning: " : "", text);
}

void tool_show_warnings(void) { ipu_log_set_default(IPU_LOG_WARN, show_log, NULL); }

tool_exit tool_usage(const char *command, const char *format, ...)
{
    va_list args;
    tool_put_called(stderr, command);
    fputs(": ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("\nTry: ", stderr);
    tool_put_called(stderr, command);
    fputs(" --help\n", stderr);
    return TOOL_USAGE;
}

/* ---- text ---- */

void tool_print_wrapped(FILE *out, const char *text, int column, int indent, int width)
{
    bool first = true;
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (!first && column + 1 + n > width) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            first  = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", n, text);
        column += n + !first;
        first = false;
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

/* The value as a whole multiple of 1024; returns false if it is none. */
static bool format_binary(double value, char *out, size_t size)
{
    static const char *const prefixes[] = {"KiB", "MiB", "GiB", "TiB"};
    for (int i = 0; i < 4; i++) {
        value /= 1024;
        if (value >= 1 && value < 1024 && value == floor(value)) {
            snprintf(out, size, "%g %s", value, prefixes[i]);
            return true;
        }
    }
    return false;
}

static void format_decimal(double value, const char *unit, char *out, size_t size)
{
    static const char *const prefixes[] = {"n", "u", "m", "", "k", "M", "G", "T", "P"};
    int                      i          = 3;
    while (value >= 1000 && i < 8) value /= 1000, i++;
    while (value > 0 && value < 1 && i > 0) value *= 1000, i--;
    snprintf(out, size, "%.4g %s%s", value, prefixes[i], unit);
}

void tool_format(double value, const char *unit, char *out, size_t size)
{
    static const char *const scaled[] = {"B", "B/s", "Hz", "FLOP/s", "FLOP", "s"};
    if (!strcmp(unit, "address")) {
        snprintf(out, size, "0x%llX", (unsigned long long)value);
        return;
    }
    if (!strcmp(unit, "B") && format_binary(value, out, size)) return;
    for (size_t i = 0; i < sizeof scaled / sizeof *scaled; i++)
        if (!strcmp(unit, scaled[i])) {
            format_decimal(value, unit, out, size);
            return;
        }
    snprintf(out, size, "%.15g %s", value, unit);
}

/* ---- JSON ---- */

json_t *tool_json_number(double value)
{
    bool whole = value == floor(value) && fabs(value) < 9007199254740992.0; /* 2^53: exact as a double */
    return whole ? json_integer((json_int_t)value) : json_real(value);
}

json_t *tool_json_finite(double value) { return isfinite(value) ? tool_json_number(value) : json_null(); }

json_t *tool_json_shape(const ipu_shape *shape)
{
    json_t *list   = json_array();
    bool    failed = !list;
    for (int d = 0; d < shape->rank; d++)
        failed |= json_array_append_new(list, json_integer((json_int_t)shape->dim[d])) != 0;
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

json_t *tool_json_text(const char *text)
{
    json_t *value = json_string(text);
    if (value) return value;
    char *copy = strdup(text);
    if (!copy) return NULL;
    for (char *p = copy; *p; p++)
        if (*p & 0x80) *p = '?';
    value = json_string(copy);
    free(copy);
    return value;
}

tool_exit tool_print_json(FILE *out, json_t *value)
{
    if (!value) return tool_fail("out of memory");
    int wrong = json_dumpf(value, out, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
    json_decref(value);
    if (wrong && !ferror(out)) return tool_fail("out of memory");
    fputc('\n', out);
    return TOOL_OK;
}

/* ---- files ---- */

static const char *why_unwritten(int error)
{
    return error == EFBIG ? "it would be larger than files may be here: raise the limit (ulimit -f)"
         : error          ? strerror(error)
                          : "an earlier write failed";
}

static char *read_all(FILE *file, const char *path, size_t *bytes)
{
    size_t n = 0, capacity = 1 << 16;
    char  *text = malloc(capacity);
    while (text) {
        n += fread(text + n, 1, capacity - 1 - n, file);
        if (n < capacity - 1) break;
        if (capacity > READ_LIMIT) {
            tool_fail("%s: larger than 1 GiB", path);
            free(text);
            return NULL;
        }
        capacity *= 2;
        char *grown = realloc(text, capacity);
        if (!grown) free(text);
        text = grown;
    }
    if (!text) {
        tool_fail("%s: out of memory", path);
        return NULL;
    }
    if (ferror(file)) {
        tool_fail("cannot read %s: %s", path, strerror(errno));
        free(text);
        return NULL;
    }
    text[n] = 0;
    *bytes  = n;
    return text;
}

char *tool_read(const char *path, size_t *bytes)
{
    if (!strcmp(path, "-")) return read_all(stdin, "standard input", bytes);
    FILE *file = fopen(path, "rb");
    if (!file) {
        tool_fail("cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = read_all(file, path, bytes);
    fclose(file);
    return text;
}

/* As in the library (src/base/host/file.c): a link that another user placed in a world-writable folder could
 * redirect what is written to one of our own files. */
static bool is_planted(const char *link, const char *folder)
{
    struct stat st, above;
    return lstat(link, &st) == 0 && S_ISLNK(st.st_mode) && stat(folder, &above) == 0
        && above.st_mode & S_IWOTH && st.st_uid != geteuid() && st.st_uid != above.st_uid;
}

tool_exit tool_check_links(const char *path)
{
    char        part[PATH_MAX], folder[PATH_MAX] = ".";
    const char *at = path;
    if (strlen(path) >= sizeof part) return tool_fail("cannot write %s: %s", path, strerror(ENAMETOOLONG));
    while (*at) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        snprintf(part, sizeof part, "%.*s", (int)(at - path), path);
        if (is_planted(part, folder))
            return tool_fail(
                "cannot write %s: %s is a link that another user has put in a folder which all may write to: "
                "use another folder, or remove it if it is meant",
                path, part);
        snprintf(folder, sizeof folder, "%.*s/", (int)(at - path), path);
    }
    return TOOL_OK;
}

/* A new file beside the target, to be renamed to it, with the target's permissions or those of a new file. */
static FILE *open_beside(tool_output *out, const struct stat *old)
{
    if (asprintf(&out->temporary, "%s.XXXXXX", out->target) < 0) {
        out->temporary = NULL;
        return NULL;
    }
    int    fd   = mkstemp(out->temporary);
    mode_t mask = umask(0);
    umask(mask);
    if (fd >= 0) {
        FILE *file = fchmod(fd, old ? old->st_mode & 07777 : 0666 & ~mask) ? NULL : fdopen(fd, "wb");
        if (file) return file;
        close(fd);
        unlink(out->temporary);
    }
    free(out->temporary);
    out->temporary = NULL;
    return NULL;
}

/* Symbolic links stay, and their targets are replaced. Devices and pipes, and link targets that do not exist
 * yet, are written in place. */
tool_exit tool_open(tool_output *out, const char *path)
{
    *out = (tool_output){.file = stdout, .path = path};
    if (!path) return TOOL_OK;
    tool_must_finish();
    tool_exit code = tool_check_links(path);
    if (code != TOOL_OK) return code;
    struct stat old, link;
    bool        exists = stat(path, &old) == 0, is_link = lstat(path, &link) == 0 && S_ISLNK(link.st_mode);
    bool        in_place = exists ? !S_ISREG(old.st_mode) : is_link;
    out->target          = is_link && !in_place ? realpath(path, NULL) : strdup(path);
    out->file = !out->target ? NULL : in_place ? fopen(path, "wb") : open_beside(out, exists ? &old : NULL);
    if (out->file) return TOOL_OK;
    code = tool_fail("cannot write %s: %s", path, strerror(errno));
    free(out->target);
    return code;
}

tool_exit tool_close(tool_output *out, tool_exit result)
{
    if (!out->path) return result;
    errno       = 0;
    bool failed = fflush(out->file) || ferror(out->file) || (out->temporary && fsync(fileno(out->file)));
    int  error  = errno;
    if (failed && error == 0 && out->temporary && write(fileno(out->file), "", 1) < 0)
        error = errno; /* the reason an earlier write failed still holds */
    if (fclose(out->file) != 0 && !failed) {
        failed = true;
        error  = errno;
    }
    if (!failed && result == TOOL_OK && out->temporary && rename(out->temporary, out->target) != 0) {
        failed = true;
        error  = errno;
    }
    if (failed) result = tool_fail("cannot write %s: %s", out->path, why_unwritten(error));
    if (out->temporary && result != TOOL_OK) unlink(out->temporary);
    free(out->temporary);
    free(out->target);
    return result;
}

/* ---- closed pipes ---- */

static volatile sig_atomic_t must_finish;
static bool                  reader_gone; /* found out by a failed write */
static struct sigaction      inherited;

static bool is_reader_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && out.revents & (POLLERR | POLLHUP);
}

/* Other pipes and sockets report their own errors. */
static void on_broken_pipe(int number)
{
    int error = errno;
    if (!must_finish && is_reader_gone()) {
        signal(number, SIG_DFL);
        raise(number);
    }
    errno = error;
}

void tool_mind_reader(void)
{
    struct sigaction mind = {.sa_handler = on_broken_pipe, .sa_flags = SA_RESTART};
    sigemptyset(&mind.sa_mask);
    sigaction(SIGPIPE, NULL, &inherited);
    if (inherited.sa_handler != SIG_IGN) sigaction(SIGPIPE, &mind, NULL);
}

void tool_must_finish(void) { must_finish = true; }

tool_exit tool_end(tool_exit result)
{
    sigset_t pipe;
    if (!reader_gone || inherited.sa_handler == SIG_IGN) return result;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
    sigprocmask(SIG_UNBLOCK, &pipe, NULL);
    return result;
}

void tool_default_signals(void)
{
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
}

/* ---- the end of output ---- */

tool_exit tool_fail_output(int error)
{
    if (error == EPIPE || (!error && is_reader_gone())) {
        reader_gone = true;
        return TOOL_FAILED;
    }
    return tool_fail("cannot write to standard output: %s", why_unwritten(error));
}

tool_exit tool_finish(tool_exit result)
{
    errno       = 0;
    bool failed = ferror(stdout);
    if (fflush(stdout)) failed = true;
    if (!failed) return result;
    int error = errno;
    __fpurge(stdout); /* reported once: nothing is left for a later flush to fail on */
    clearerr(stdout);
    tool_exit code = tool_fail_output(error);
    if (result == TOOL_OK) return code;
    reader_gone = false; /* an earlier failure is the reason it ends */
    return result;
}
