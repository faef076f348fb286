/* The commands as a table, and option parsing by getopt_long built from its rows. */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "output.h"

/* ---- the table ---- */

#define OPTION(id, letter, name, argument, help) {letter, name, argument, help},
#define EXIT(code, text) {code, text},
#define EXAMPLE(line, text) {line, text},

#define COMMAND(name, operands, least, most, completes, summary, description, options, exits, examples)     \
    _Static_assert((int)N_OPTIONS_##name < (int)TOOL_MAX_OPTIONS, "raise TOOL_MAX_OPTIONS");                \
    static const tool_option    options_of_##name[]  = {options{'h', "help", NULL, "print this and stop"}}; \
    static const tool_exit_text exits_of_##name[]    = {exits{0, NULL}};                                    \
    static const tool_example   examples_of_##name[] = {examples{NULL, NULL}};
#include "commands.inc"
#undef COMMAND

const tool_command tool_commands[] = {
#define COMMAND(name, operands, least, most, completes, summary, description, options, exits, examples) \
    {#name,                                                                                             \
     operands,                                                                                          \
     least,                                                                                             \
     most,                                                                                              \
     TOOL_##completes,                                                                                  \
     summary,                                                                                           \
     description,                                                                                       \
     options_of_##name,                                                                                 \
     N_OPTIONS_##name + 1,                                                                              \
     exits_of_##name,                                                                                   \
     examples_of_##name,                                                                                \
     run_##name},
#include "commands.inc"
};

const int tool_n_commands = sizeof tool_commands / sizeof *tool_commands;

#define LINK(name, command) {name, #command},
const tool_link tool_links[] = {
#include "links.inc"
};
#undef LINK

const int tool_n_links = sizeof tool_links / sizeof *tool_links;

/* ---- names ---- */

const tool_command *tool_find_command(const char *name)
{
    for (int i = 0; i < tool_n_commands; i++)
        if (!strcmp(tool_commands[i].name, name)) return &tool_commands[i];
    return NULL;
}

const tool_link *tool_find_link(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name  = slash ? slash + 1 : path;
    for (int i = 0; i < tool_n_links; i++)
        if (!strcmp(tool_links[i].name, name)) return &tool_links[i];
    return NULL;
}

const tool_link *tool_link_to(const tool_command *command)
{
    for (int i = 0; i < tool_n_links; i++)
        if (!strcmp(tool_links[i].command, command->name)) return &tool_links[i];
    return NULL;
}

tool_exit tool_unknown_command(const char *name)
{
    const char *nearest = NULL;
    int         edits   = INT_MAX;
    for (int i = 1; i < tool_n_commands; i++) nearest_consider(name, tool_commands[i].name, &nearest, &edits);
    if (!nearest) return tool_usage(NULL, "no command \"%s\"", name);
    return tool_usage(NULL, "no command \"%s\"; did you mean \"%s\"?", name, nearest);
}

/* ---- options ---- */

enum { LONG_BASE = 256 }; /* what getopt_long returns for a long option: this and its number */

/* What to do with an option that is another program's. */
static const char *behind(const tool_command *c)
{
    bool passes_on = !strncmp(c->operands, "[--]", 4);
    return passes_on ? ": put `--` before what is not an option of this command" : "";
}

static void unknown_option(const tool_command *c, const char *text)
{
    char name[NEAREST_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    const char *nearest = NULL;
    int         edits   = INT_MAX;
    for (int i = 0; i < c->n_options; i++) nearest_consider(name, c->options[i].name, &nearest, &edits);
    if (!nearest)
        tool_usage(c->name, "no option --%s%s", name, behind(c));
    else
        tool_usage(c->name, "no option --%s; did you mean --%s?", name, nearest);
}

/* The option that a result of getopt_long stands for, or -1. */
static int option_number(const tool_command *c, int value)
{
    if (value >= LONG_BASE) return value - LONG_BASE;
    for (int i = 0; i < c->n_options; i++)
        if (value && c->options[i].letter == value) return i;
    return -1;
}

/* What went wrong, after getopt_long returned '?' or ':'. */
static void refuse_option(const tool_command *c, int result, char **argv)
{
    const char *text  = argv[optind - 1];
    int         known = option_number(c, optopt);
    if (result == ':')
        tool_usage(c->name, "option --%s needs an argument: %s", c->options[known].name,
                   c->options[known].argument);
    else if (known >= 0)
        tool_usage(c->name, "option --%s takes no argument", c->options[known].name);
    else if (optopt)
        tool_usage(c->name, "no option -%c%s", optopt, behind(c));
    else
        unknown_option(c, text + 2);
}

/* Reads the options into `out`, which has room for all of them; `help` is set if --help was among them. */
static tool_exit parse(const tool_command *c, int argc, char **argv, tool_arguments *out, bool *help)
{
    struct option longs[TOOL_MAX_OPTIONS + 1] = {0};
    char          letters[2 * TOOL_MAX_OPTIONS + 3];
    char         *end = letters;
    /* Options after the command's name belong to the command, those after a program's name to the program. */
    if (c == &tool_commands[0] || c->completes == TOOL_PROGRAM) *end++ = '+';
    *end++ = ':';
    for (int i = 0; i < c->n_options; i++) {
        const tool_option *o = &c->options[i];
        longs[i]             = (struct option){o->name, o->argument ? required_argument : no_argument, NULL,
                                               LONG_BASE + i};
        if (!o->letter) continue;
        *end++ = o->letter;
        if (o->argument) *end++ = ':';
    }
    *end   = 0;
    opterr = 0;
    optind = 0; /* glibc: start over */
    for (;;) {
        int result = getopt_long(argc, argv, letters, longs, NULL);
        if (result == -1) break;
        if (result == '?' || result == ':') {
            refuse_option(c, result, argv);
            return TOOL_USAGE;
        }
        int i = option_number(c, result);
        if (i == c->n_options - 1)
            *help = true;
        else
            out->values[i] = optarg ? optarg : "";
        if (i < c->n_options - 1) out->given[out->n_given++] = (tool_given){i, out->values[i]};
    }
    out->operands   = argv + optind;
    out->n_operands = argc - optind;
    return TOOL_OK;
}

static tool_exit parse_and_run(const tool_command *c, int argc, char **argv, tool_arguments *args)
{
    bool      help = false;
    tool_exit code = parse(c, argc, argv, args, &help);
    if (code != TOOL_OK) return code;
    if (help) {
        tool_print_help(c);
        return TOOL_OK;
    }
    bool frame = c == &tool_commands[0]; /* checks its operands itself: --version needs none */
    if (!frame && args->n_operands < c->least) return tool_usage(c->name, "expected %s", c->operands);
    if (args->n_operands > c->most) return tool_usage(c->name, "unexpected \"%s\"", args->operands[c->most]);
    return c->run(args);
}

tool_exit tool_run(const tool_command *c, int argc, char **argv)
{
    size_t most = 0; /* letters may be combined: -jst */
    for (int i = 0; i < argc; i++) most += strlen(argv[i]) + 1;
    tool_arguments args = {.given = calloc(most + 1, sizeof *args.given)};
    if (!args.given) return tool_fail("out of memory");
    tool_exit code = parse_and_run(c, argc, argv, &args);
    free(args.given);
    return code;
}

const char *tool_next(const tool_arguments *args, int option, int *at)
{
    while (*at < args->n_given) {
        const tool_given *g = &args->given[(*at)++];
        if (g->option == option) return g->value;
    }
    return NULL;
}

bool tool_integer(const char *option, const char *text, int64_t least, int64_t most, int64_t *out)
{
    char *end;
    errno           = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most) {
        tool_fail("option --%s: \"%s\" is no number from %lld to %lld", option, text, (long long)least,
                  (long long)most);
        return false;
    }
    *out = value;
    return true;
}

bool tool_number(const char *option, const char *text, double least, double most, double *out)
{
    char  *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least && value <= most)) { /* also rejects NaN */
        tool_fail("option --%s: \"%s\" is no number from %g to %g", option, text, least, most);
        return false;
    }
    *out = value;
    return true;
}
