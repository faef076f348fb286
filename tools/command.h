/* The frame of the `ipu` command: rows of commands.inc, parsed arguments, exit codes. */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum tool_exit {
    TOOL_OK,
    TOOL_FAILED, /* the input is wrong or the operation failed */
    TOOL_USAGE,  /* the command line is wrong */
    /* A signal asked it to stop, and it did so in order: 128 and the number, as shells have it. */
    TOOL_INTERRUPTED = 130, /* SIGINT */
    TOOL_TERMINATED  = 143, /* SIGTERM */
} tool_exit;

/* What an operand can be, for completion. */
typedef enum tool_completion {
    TOOL_FILES,
    TOOL_COMMANDS,
    TOOL_TARGETS,
    TOOL_OPS,
    TOOL_ACTIONS,  /* of `ipu partition` */
    TOOL_DATASETS, /* actions of `ipu dataset`, then files */
    TOOL_PROGRAM,  /* a program and its arguments, among which no option of the command is */
    TOOL_NOTHING,
} tool_completion;

typedef struct tool_option {
    char        letter; /* 0: none */
    const char *name;
    const char *argument; /* NULL: takes none */
    const char *help;
} tool_option;

typedef struct tool_exit_text {
    int         code;
    const char *text; /* NULL: end */
} tool_exit_text;

typedef struct tool_example {
    const char *line; /* NULL: end */
    const char *text;
} tool_example;

enum { TOOL_MAX_OPTIONS = 48 };

typedef struct tool_given {
    int         option; /* id */
    const char *value;
} tool_given;

typedef struct tool_arguments {
    const char *values[TOOL_MAX_OPTIONS]; /* by option id, the last: NULL not given, "" without argument */
    tool_given *given;                    /* all that were given, in their order */
    int         n_given;
    char      **operands;
    int         n_operands;
} tool_arguments;

typedef struct tool_command {
    const char           *name, *operands;
    int                   least, most;
    tool_completion       completes;
    const char           *summary, *description;
    const tool_option    *options; /* ends in --help */
    int                   n_options;
    const tool_exit_text *exits;
    const tool_example   *examples;
    tool_exit (*run)(const tool_arguments *args);
} tool_command;

/* The options of each command, by number, and the functions that run them. */
#define ANY INT_MAX
#define OPTION(id, letter, name, argument, help) id,
#define EXIT(code, text)
#define EXAMPLE(line, text)
#define COMMAND(name, operands, least, most, completes, summary, description, options, exits, examples) \
    enum { options N_OPTIONS_##name };                                                                  \
    tool_exit run_##name(const tool_arguments *args);
#include "commands.inc"
#undef COMMAND
#undef OPTION
#undef EXIT
#undef EXAMPLE

/* Command 0 is `ipu` itself. */
extern const tool_command tool_commands[];
extern const int          tool_n_commands;

/* A name under which the binary is one command (links.inc). */
typedef struct tool_link {
    const char *name, *command;
} tool_link;

extern const tool_link tool_links[];
extern const int       tool_n_links;

/* The link this process was started by, as in "/usr/bin/gc-info"; NULL: none, it is `ipu`. */
const tool_link *tool_find_link(const char *path);
/* The link to a command; NULL: there is none. */
const tool_link *tool_link_to(const tool_command *command);

/* NULL: none of that name. */
const tool_command *tool_find_command(const char *name);
/* Says that there is no such command, and which is nearest. */
tool_exit tool_unknown_command(const char *name);

/* Parses argv[1..] by the row of `command` and runs it. */
tool_exit tool_run(const tool_command *command, int argc, char **argv);

/* The next value of an option that may be given several times; NULL: no more. *at is 0 at first. */
const char *tool_next(const tool_arguments *args, int option, int *at);

/* The number an option was given, within least..most; reports anything else. */
bool tool_integer(const char *option, const char *text, int64_t least, int64_t most, int64_t *out);
/* The same for any finite number. */
bool tool_number(const char *option, const char *text, double least, double most, double *out);

/* Help, man page and completion, from the rows, on standard output. */
void tool_print_help(const tool_command *command);
void tool_print_man(const tool_command *command);
void tool_print_completion(void);

#endif
