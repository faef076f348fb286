/* Help texts, generated from the rows of commands.inc. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "output.h"

enum { WIDTH = 90, COLUMN = 26 };

static void print_usage(const tool_command *c)
{
    fputs("Usage: ", stdout);
    tool_put_called(stdout, c->name);
    printf(" [OPTION...]%s%s\n", *c->operands ? " " : "", c->operands);
}

static void print_options(const tool_command *c)
{
    fputs("\nOptions:\n", stdout);
    for (int i = 0; i < c->n_options; i++) {
        const tool_option *o = &c->options[i];
        int                n = o->letter ? printf("  -%c, ", o->letter) : printf("      ");
        n += printf("--%s%s%s", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
        printf("%*s", n < COLUMN ? COLUMN - n : 1, "");
        tool_print_wrapped(stdout, o->help, n < COLUMN ? COLUMN : n + 1, COLUMN, WIDTH);
    }
}

static void print_commands(void)
{
    fputs("\nCommands:\n", stdout);
    for (int i = 1; i < tool_n_commands; i++)
        printf("  %-10s %s\n", tool_commands[i].name, tool_commands[i].summary);
}

void tool_print_help(const tool_command *c)
{
    bool frame = c == &tool_commands[0];
    print_usage(c);
    putchar('\n');
    tool_put_called(stdout, c->name);
    printf(": %s.\n", c->summary);
    tool_print_wrapped(stdout, c->description, 0, 0, WIDTH);
    if (frame) print_commands();
    print_options(c);
    fputs("\nExit status:\n", stdout);
    for (const tool_exit_text *e = c->exits; e->text; e++) {
        printf("  %d  ", e->code);
        tool_print_wrapped(stdout, e->text, 5, 5, WIDTH);
    }
    fputs("\nExamples:\n", stdout);
    for (const tool_example *e = c->examples; e->line; e++) {
        printf("  %s\n      ", e->line);
        tool_print_wrapped(stdout, e->text, 6, 6, WIDTH);
    }
}
