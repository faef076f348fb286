/* Shared by the commands: errors, numbers as text, JSON, files. */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "command.h"
#include "ipu/tensor.h"

/* From now on messages carry this name, a link to `ipu`, rather than `ipu COMMAND`. */
void tool_called_as(const char *link);
/* Whether it was called by such a name. */
bool tool_is_link(void);
/* What to type to run a command: "ipu", "ipu dump", "gc-info". `command` NULL: `ipu`. */
void tool_put_called(FILE *out, const char *command);

/* "ipu: ..." on standard error; returns TOOL_FAILED. */
tool_exit tool_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "ipu: warning: ..." on standard error, for problems that do not stop the command. */
void tool_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Shows the library's warnings as tool_warn would, unless the environment sets the log level. */
void tool_show_warnings(void);
/* As tool_fail, with a pointer to --help; returns TOOL_USAGE. `command` NULL means `ipu`. */
tool_exit tool_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints `text` in lines of at most `width`, each indented by `indent`; the first already has `column`
 * characters. */
void tool_print_wrapped(FILE *out, const char *text, int column, int indent, int width);

/* A value with its unit, for people: 624 KiB, 1.33 GHz, 15 ns, 0x4C000. */
void tool_format(double value, const char *unit, char *out, size_t size);

/* A JSON number: an integer where the value is one. */
json_t *tool_json_number(double value);
/* Likewise, but null for values JSON cannot represent. */
json_t *tool_json_finite(double value);
/* Its dimensions. NULL if out of memory. */
json_t *tool_json_shape(const ipu_shape *shape);
/* A JSON string; bytes that are not UTF-8 become question marks. */
json_t *tool_json_text(const char *text);
/* Writes a value and a newline, and releases it. NULL means that creating it ran out of memory. */
tool_exit tool_print_json(FILE *out, json_t *value);

/* A whole file ("-": standard input), NUL-terminated. Owned: free. NULL after reporting an error. */
char *tool_read(const char *path, size_t *bytes);

/* An output that replaces `path` on close, if all went well. `path` NULL means standard output. */
typedef struct tool_output {
    FILE       *file;
    const char *path;
    char       *target;    /* symbolic links resolved */
    char       *temporary; /* NULL if written in place */
} tool_output;

/* Fails if a link on the way was placed by another user in a world-writable folder. */
tool_exit tool_check_links(const char *path);
tool_exit tool_open(tool_output *out, const char *path);
/* `result` of the writing so far: anything but TOOL_OK leaves the old file in place. */
tool_exit tool_close(tool_output *out, tool_exit result);

/* From now on SIGPIPE silently ends the command if standard output has lost its reader, as with other Unix
 * tools, and only then. If the parent ignores it, it stays ignored, and the command ends with TOOL_FAILED. */
void tool_mind_reader(void);
/* For commands that do more than print: losing the reader does not end them early. */
void tool_must_finish(void);
/* The last thing main does: ends by SIGPIPE if the reader has gone. */
tool_exit tool_end(tool_exit result);

/* Undoes main's signal handling, for programs that replace this one. */
void tool_default_signals(void);

/* Reports that standard output cannot be written, unless its reader has gone. `error`: errno, or 0 if no
 * longer known. */
tool_exit tool_fail_output(int error);
/* Flushes standard output and reports failure. Returns `result` if that is already a failure. */
tool_exit tool_finish(tool_exit result);

#endif
