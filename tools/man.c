/* Man pages in troff, from the rows of commands.inc. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "ipu/version.h"

/* Text that troff shows unchanged: no control character at its start, no escapes, plain minus and quotes. */
static void put_text(const char *text)
{
    if (*text == '.' || *text == '\'') fputs("\\&", stdout);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '`')
            fputs("\\(ga", stdout);
        else if (*text == '\'')
            fputs("\\(aq", stdout);
        else
            putchar(*text);
    }
}

static void put_line(const char *text)
{
    put_text(text);
    putchar('\n');
}

static void put_name(const tool_command *c)
{
    fputs("ipu", stdout);
    if (c != &tool_commands[0]) {
        fputs("\\-", stdout);
        put_text(c->name);
    }
}

static void put_options(const tool_command *c)
{
    puts(".SH OPTIONS");
    for (int i = 0; i < c->n_options; i++) {
        const tool_option *o = &c->options[i];
        puts(".TP");
        if (o->letter) printf("\\fB\\-%c\\fR, ", o->letter);
        fputs("\\fB\\-\\-", stdout);
        put_text(o->name);
        fputs("\\fR", stdout);
        if (o->argument) printf(" \\fI%s\\fR", o->argument);
        putchar('\n');
        put_line(o->help);
    }
}

static void put_commands(void)
{
    puts(".SH COMMANDS");
    for (int i = 1; i < tool_n_commands; i++) {
        fputs(".TP\n\\fB", stdout);
        put_name(&tool_commands[i]);
        puts("\\fR(1)");
        put_line(tool_commands[i].summary);
    }
}

static void put_endings(const tool_command *c)
{
    puts(".SH \"EXIT STATUS\"");
    for (const tool_exit_text *e = c->exits; e->text; e++) {
        printf(".TP\n.B %d\n", e->code);
        put_line(e->text);
    }
    puts(".SH EXAMPLES\n.ad l\n.nh"); /* to be typed as shown */
    for (const tool_example *e = c->examples; e->line; e++) {
        fputs(".TP\n\\fB", stdout);
        put_text(e->line);
        puts("\\fR");
        put_line(e->text);
    }
}

void tool_print_man(const tool_command *c)
{
    bool frame = c == &tool_commands[0];
    fputs(".TH \"", stdout);
    put_name(c);
    printf("\" 1 \"\" \"OpenIPU %s\" \"OpenIPU\"\n", ipu_version());
    puts(".SH NAME");
    put_name(c);
    const tool_link *link = tool_link_to(c);
    if (link) {
        fputs(", ", stdout);
        put_text(link->name);
    }
    fputs(" \\- ", stdout);
    put_line(c->summary);
    puts(".SH SYNOPSIS");
    printf("\\fBipu%s%s\\fR [\\fIOPTION\\fR...] ", frame ? "" : " ", frame ? "" : c->name);
    put_line(c->operands);
    if (link) {
        fputs(".br\n\\fB", stdout);
        put_text(link->name);
        fputs("\\fR [\\fIOPTION\\fR...] ", stdout);
        put_line(c->operands);
    }
    puts(".SH DESCRIPTION");
    put_line(c->description);
    if (frame) put_commands();
    put_options(c);
    put_endings(c);
    if (frame) return;
    puts(".SH \"SEE ALSO\"\n\\fBipu\\fR(1)");
}
