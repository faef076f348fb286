/* The framework of the `ipu` command: rows of commands.inc, parsed arguments, exit codes. */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum tool_exit {
    TOOL_OK,
    TOOL_FAILED, /* the input is wrong or the operation failed */
    TOOL_USAGE,  /* the command line is wrong */
    /* Stopped in good order by a signal: 128 + its number, as shells report it. */
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
    TOOL_PROGRAM,  /* a program and its arguments; no options of the command follow */
    TOOL_NOTHING,
} tool_completion;

typedef struct tool_option {
    char        letter; /* 0 if none */
    const char *name;
    const char *argument; /* NULL if it takes none */
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
    const char *values[TOOL_MAX_OPTIONS]; /* by option id, the last given; NULL: none, "": no argument */
    tool_given *given;                    /* all options given, in order */
    int         n_given;
    char      **operands;
    int         n_operands;
} tool_arguments;

typedef struct tool_command {
    const char           *name, *operands;
    int                   least, most;
    tool_completion       completes;
    const char           *summary, *description;
    const tool_option    *options; /* the last is --help */
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

/* A name under which the binary is a single command (links.inc). */
typedef struct tool_link {
    const char *name, *command;
} tool_link;

extern const tool_link tool_links[];
extern const int       tool_n_links;

/* The link this process was started by, as in "/usr/bin/gc-info"; NULL for `ipu` itself. */
const tool_link *tool_find_link(const char *path);
/* The link to a command, or NULL. */
const tool_link *tool_link_to(const tool_command *command);

/* NULL if there is no such command. */
const tool_command *tool_find_command(const char *name);
/* Reports that there is no such command, and suggests the nearest. */
tool_exit tool_unknown_command(const char *name);

/* Parses argv[1..] by the row of `command` and runs it. */
tool_exit tool_run(const tool_command *command, int argc, char **argv);

/* The next value of an option that may be given several times, or NULL. *at starts at 0. */
const char *tool_next(const tool_arguments *args, int option, int *at);

/* Parses an option's number, which must be within least..most; reports any error. */
bool tool_integer(const char *option, const char *text, int64_t least, int64_t most, int64_t *out);
/* The same for any finite number. */
bool tool_number(const char *option, const char *text, double least, double most, double *out);

/* Help, man page and completion, from the rows, on standard output. */
void tool_print_help(const tool_command *command);
void tool_print_man(const tool_command *command);
void tool_print_completion(void);

#endif
