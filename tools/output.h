/* What the commands share for speaking: errors, numbers for people, JSON, files. */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "command.h"
#include "ipu/tensor.h"

/* From now on messages are those of this name, a link to `ipu`, not of `ipu COMMAND`. */
void tool_called_as(const char *link);
/* Is it by such a name? */
bool tool_is_link(void);
/* What to type to run a command: "ipu", "ipu dump", "gc-info". `command` NULL: `ipu`. */
void tool_put_called(FILE *out, const char *command);

/* "ipu: ..." on standard error; returns TOOL_FAILED. */
tool_exit tool_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "ipu: warning: ..." on standard error, of what does not keep the command from its work. */
void tool_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Warnings of the library come out as those of tool_warn, unless the environment asks for more or less of the log. */
void tool_show_warnings(void);
/* As tool_fail, with a hint at --help; returns TOOL_USAGE. `command` NULL: of `ipu`. */
tool_exit tool_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints `text` in lines of at most `width`, each after `indent` blanks; the first has `column` already. */
void tool_print_wrapped(FILE *out, const char *text, int column, int indent, int width);

/* A value with its unit in a form for people: 624 KiB, 1.33 GHz, 15 ns, 0x4C000. */
void tool_format(double value, const char *unit, char *out, size_t size);

/* A JSON number: an integer where the value is one. */
json_t *tool_json_number(double value);
/* The same, but null for what JSON has no number for. */
json_t *tool_json_finite(double value);
/* Its dimensions. NULL: out of memory */
json_t *tool_json_shape(const ipu_shape *shape);
/* A JSON string; bytes of a text that is no UTF-8 become question marks. */
json_t *tool_json_text(const char *text);
/* Writes a value and a newline, and releases it. NULL means that memory ran out making it. */
tool_exit tool_print_json(FILE *out, json_t *value);

/* The whole of a file, "-" for standard input, with a 0 behind it. Owned: free. NULL: reported. */
char *tool_read(const char *path, size_t *bytes);

/* An output that replaces `path` when closed, if all went well. `path` NULL: standard output. */
typedef struct tool_output {
    FILE       *file;
    const char *path;
    char       *target;    /* links followed */
    char       *temporary; /* NULL: written in place */
} tool_output;

/* An error if a link on the way is one that another user has put in a folder which all may write to. */
tool_exit tool_check_links(const char *path);
tool_exit tool_open(tool_output *out, const char *path);
/* `result` of what was written so far: anything but TOOL_OK leaves the old file as it was. */
tool_exit tool_close(tool_output *out, tool_exit result);

/* From now on SIGPIPE ends the command only where standard output has lost its reader, as with other Unix tools: quietly. A
 * parent that ignores it keeps it ignored; then the command ends with TOOL_FAILED. */
void tool_mind_reader(void);
/* This command has more to do than to print: a reader that goes away does not end it before it is done. */
void tool_must_finish(void);
/* The last thing main does: the end by SIGPIPE if the reader has gone. */
tool_exit tool_end(tool_exit result);

/* What main has set about signals is undone, for programs that take the place of this one. */
void tool_default_signals(void);

/* Reports that standard output cannot be written, unless its reader has gone. `error`: errno; 0 where it is not known any more. */
tool_exit tool_fail_output(int error);
/* Flushes standard output; a failure is reported. `result` if that is one. */
tool_exit tool_finish(tool_exit result);

#endif
